"""Images by a real BuildKit at `BUILDKIT_HOST` and a real `docker buildx`, in a registry that an engine shares."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from pytest_benchjobs.model.errors import EngineUnavailable, ImageBuildFailed, ImageMissing
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker import build
from pytest_benchjobs.sandbox.docker.buildkit import BuildKit
from pytest_benchjobs.sandbox.docker.engine import Engine
from pytest_benchjobs.sandbox.docker.images import Images
from pytest_benchjobs.sandbox.kubernetes.images import ClusterImages
from pytest_benchjobs.sandbox.protocol import ImageRequest
from tests.support import IMAGE

from .moby import BuildKitServer, buildkit_server
from .registry import StoringRegistry
from .test_builders import BUILDX

pytestmark = [pytest.mark.docker, pytest.mark.extended]

TEXT = """FROM {base}
ARG TOKEN
COPY made /made
RUN printf %s "$TOKEN" > /token
USER nobody
WORKDIR /w
ENTRYPOINT ["/x"]
ENV K=v
"""


@pytest.fixture(scope="module")
def registry() -> Iterator[StoringRegistry]:
    registry = StoringRegistry()
    registry.start()
    yield registry
    registry.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, registry: StoringRegistry) -> Iterator[BuildKitServer]:
    yield from buildkit_server(tmp_path_factory.mktemp("buildkit"), registry.port)


@pytest.fixture(autouse=True)
def _buildx(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    build.has_buildx.cache_clear()
    if not build.has_buildx():
        monkeypatch.setenv("DOCKER_CONFIG", str(BUILDX))
        build.has_buildx.cache_clear()
        if not build.has_buildx():
            pytest.skip("docker buildx is not installed; scripts/plugin.sh buildx gets it")
    yield
    build.has_buildx.cache_clear()


@pytest.fixture(scope="module")
def base(registry: StoringRegistry) -> str:
    """An image that the registry has."""
    name = f"{registry.path}:base"
    subprocess.run(["docker", "tag", IMAGE, name], check=True)
    try:
        subprocess.run(["docker", "push", name], check=True, capture_output=True)
    finally:
        subprocess.run(["docker", "rmi", name], check=True, capture_output=True)
    return name


@pytest.fixture
def request_of(tmp_path: Path, base: str, registry: StoringRegistry) -> ImageRequest:
    dockerfile = tmp_path / "buildkit-host" / "Dockerfile"
    dockerfile.parent.mkdir()
    dockerfile.write_text(TEXT.format(base=base))
    (dockerfile.parent / "made").write_text(str(tmp_path))
    environment = Environment(dockerfile=dockerfile, build_args={"TOKEN": "a ${b} %{c} $d"})
    return ImageRequest(environment, registry=registry.path)


def nothing() -> None:
    pass


def test_an_image_of_either_builder_is_that_of_the_other(
    server: BuildKitServer,
    registry: StoringRegistry,
    request_of: ImageRequest,
    base: str,
    client: docker.APIClient,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    with socket.socket(socket.AF_UNIX) as nobody, monkeypatch.context() as led:
        nobody.bind(str(tmp_path / "engine.sock"))
        nobody.listen()
        nobody.setblocking(False)
        led.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
        led.setenv("BUILDKIT_HOST", server.host)
        images = ClusterImages(current_owner(), "x86_64")
        key = images.identify(request_of)
        pushed = images.resolve(request_of, nothing)
        images.close()
        with pytest.raises(BlockingIOError):
            nobody.accept()
    assert pushed.record.key == key
    assert (pushed.user, pushed.workdir, pushed.entrypoint) == ("nobody", "/w", ("/x",))
    assert (pushed.variables or {})["K"] == "v"
    assert pushed.reference.partition("@")[2] in registry.manifests
    engine = Engine()
    monkeypatch.setattr(build, "build", _no_build)
    try:
        there = Images(engine).resolve(request_of)
        assert (there.record, there.user, there.workdir) == (pushed.record, pushed.user, pushed.workdir)
        assert Images(engine).ensure(request_of, nothing) == pushed.reference
        container = client.create_container(there.id)["Id"]
        try:
            stream, _ = client.get_archive(container, "/token")
            assert b"a ${b} %{c} $d" in b"".join(stream)
        finally:
            client.remove_container(container)
    finally:
        engine.close()
        for name in (key, base):
            with contextlib.suppress(docker.errors.ImageNotFound):
                client.remove_image(name, force=True)


def _no_build(*_: object) -> None:
    raise AssertionError("it is built again")


def test_what_goes_wrong_is_told_in_the_words_of_who_knows(
    server: BuildKitServer, registry: StoringRegistry, request_of: ImageRequest, base: str
) -> None:
    dockerfile = request_of.environment.dockerfile
    assert dockerfile is not None
    for text, error, words in (
        (
            f"FROM {base}\nRUN echo about to fail; exit 3\n",
            ImageBuildFailed,
            r"about to fail(.|\n)*exit code: 3",
        ),
        (f"FROM {registry.path}:none\n", ImageMissing, "none cannot be looked up: .*none: not found"),
    ):
        dockerfile.write_text(text)
        buildkit = BuildKit(server.host, "x86_64")
        with pytest.raises(error, match=words):
            buildkit.resolve(request_of, nothing)
        buildkit.close()
    dockerfile.write_text(f"FROM {base}\nRUN echo for a registry that takes nothing\n")
    buildkit = BuildKit(server.host, "x86_64")
    registry.statuses, registry.for_ever = [403], True
    try:
        with pytest.raises(ImageMissing, match="cannot be pushed to --bench-registry"):
            buildkit.resolve(request_of, nothing)
    finally:
        registry.statuses, registry.for_ever = [], False
        buildkit.close()
    registry.statuses = [503]
    other = BuildKit(server.host, "x86_64")
    assert other.resolve(request_of, nothing).reference.startswith(f"{registry.path}@sha256:")
    other.close()


def test_a_host_that_is_not_there(request_of: ImageRequest) -> None:
    buildkit = BuildKit("tcp://127.0.0.1:1", "x86_64")
    with pytest.raises(EngineUnavailable, match=r"no BuildKit answers at BUILDKIT_HOST=tcp://127.0.0.1:1"):
        buildkit.resolve(request_of, nothing)
    buildkit.close()
