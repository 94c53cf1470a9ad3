"""Images that are built by the BuildKit at `BUILDKIT_HOST`, with a scripted `docker buildx`."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.errors import EngineLost, EngineUnavailable, ImageBuildFailed, ImageMissing
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker import build
from pytest_benchjobs.sandbox.docker.build import Recipe
from pytest_benchjobs.sandbox.docker.buildkit import BuildKit
from pytest_benchjobs.sandbox.docker.git_history import address
from pytest_benchjobs.sandbox.kubernetes.images import ClusterImages
from pytest_benchjobs.sandbox.protocol import ImageRequest

HOST = "tcp://buildkit.test:1234"
BASE_ID = "sha256:base"
# It has the images and failures of a file, and notes each call there.
CLIENT = """
import json, os, pathlib, sys
place = pathlib.Path({place!r})
state = json.loads(place.read_text())
command = sys.argv[2:]
state["calls"].append(command)
def manifest(id):
    return json.dumps(dict(config=dict(digest=id)))
status = 0
if command[0] == "imagetools":
    found = state["images"].get(command[-1])
    if found is None:
        sys.stderr.write("ERROR: " + command[-1] + ": not found\\n")
        status = 1
    else:
        print(found if "--raw" in command else json.dumps(state["about"]), end="")
elif command[0] == "bake":
    target = json.loads(pathlib.Path(command[command.index("--file") + 1]).read_text())["target"]["image"]
    directory = pathlib.Path(target["context"])
    state["built"].append([target["tags"], target["args"], (directory / target["dockerfile"]).read_text()])
    state["variables"] = {{name: os.environ.get(name) for name in ("BUILDX_BUILDER", "BUILDX_CONFIG", "DOCKER_HOST")}}
    print("#1 with", *target["args"].values(), file=sys.stderr)
    if state["failures"]:
        sys.stderr.write(state["failures"].pop(0) + "\\n")
        status = 1
    else:
        import hashlib
        name, raw = target["tags"][0], manifest("sha256:built-" + str(len(state["built"])))
        at = name.rpartition(":")[0] + "@sha256:" + hashlib.sha256(raw.encode()).hexdigest()
        state["images"] |= {{name: raw, at: raw}}
elif command[0] in state["silent"]:
    sys.stderr.write("ERROR: context deadline exceeded\\n")
    status = 1
place.write_text(json.dumps(state))
sys.exit(status)
"""


class Client:
    """The command, and what it has seen."""

    def __init__(self, directory: Path) -> None:
        self._place = directory / "state.json"
        program = directory / "docker"
        program.write_text(f"#!{sys.executable} -SI\n{CLIENT.format(place=str(self._place))}")
        program.chmod(0o755)
        about = {"config": {"User": "nobody", "WorkingDir": "/w", "Env": ["K=v"], "Entrypoint": ["/x"]}}
        images = {"debian:12": json.dumps({"config": {"digest": BASE_ID}})}
        self.state = {
            "images": images, "about": about, "failures": [], "silent": [], "calls": [], "built": [],
        }  # fmt: skip

    @property
    def state(self) -> dict[str, Any]:
        return dict(json.loads(self._place.read_text()))

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self._place.write_text(json.dumps(state))

    def change(self, **changes: Any) -> None:
        self.state = {**self.state, **changes}


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("BUILDKIT_HOST", HOST)
    monkeypatch.setattr(build, "PAUSES", (0.0, 0.0))
    build.has_buildx.cache_clear()
    yield Client(directory)
    build.has_buildx.cache_clear()


@pytest.fixture
def buildkit() -> Iterator[BuildKit]:
    kit = BuildKit(HOST, "x86_64")
    yield kit
    kit.close()


@pytest.fixture
def request_of(tmp_path: Path) -> ImageRequest:
    dockerfile = tmp_path / "task" / "Dockerfile"
    dockerfile.parent.mkdir()
    dockerfile.write_text("FROM debian:12\nARG TOKEN\n")
    environment = Environment(dockerfile=dockerfile, build_args={"TOKEN": "hunter2-secret"})
    return ImageRequest(environment, registry="reg.test/team")


def nothing() -> None:
    pass


def test_an_image_is_built_once_under_the_name_of_the_engine_s_builder(
    client: Client, buildkit: BuildKit, request_of: ImageRequest
) -> None:
    key = Recipe.read(request_of, dict).tag({"debian:12": BASE_ID})
    assert buildkit.identify(request_of) == key
    pushed = buildkit.resolve(request_of, nothing)
    name = f"reg.test/team:{key.rpartition('/')[2].replace(':', '-')}-amd64"
    state = client.state
    assert state["built"] == [[[name], {"TOKEN": "hunter2-secret"}, "FROM debian:12\nARG TOKEN\n"]]
    digest = hashlib.sha256(state["images"][name].encode()).hexdigest()
    assert pushed.reference == f"reg.test/team@sha256:{digest}"
    image = pushed.image
    assert (image.record.key, image.record.id, image.record.reference) == (
        key,
        "sha256:built-1",
        "Dockerfile",
    )
    assert (image.user, image.workdir, image.env, image.entrypoint) == ("nobody", "/w", {"K": "v"}, ("/x",))
    assert ["create", "--name", "bench", "--driver", "remote", HOST] in state["calls"]
    assert state["variables"]["BUILDX_BUILDER"] == "bench"
    assert state["variables"]["DOCKER_HOST"].startswith(f"unix://{state['variables']['BUILDX_CONFIG']}/")
    assert not any("hunter2" in word for call in state["calls"] for word in call)
    assert buildkit.resolve(request_of, nothing) == pushed
    assert client.state == state, "it is remembered"
    other = BuildKit(HOST, "x86_64")
    assert other.resolve(request_of, nothing) == pushed
    assert len(client.state["built"]) == 1, "the registry has it"
    other.close()
    buildkit.close()
    assert not Path(state["variables"]["BUILDX_CONFIG"]).exists()


@pytest.mark.parametrize(("machine", "arch"), [("x86_64", "amd64"), ("aarch64", "arm64")])
def test_it_is_built_for_the_nodes_on_the_image_for_them(
    client: Client, request_of: ImageRequest, machine: str, arch: str
) -> None:
    listed = [
        {"digest": f"sha256:{one}", "platform": {"os": "linux", "architecture": one}}
        for one in ("amd64", "arm64")
    ]
    manifests = {
        f"debian@sha256:{one}": json.dumps({"config": {"digest": f"id-{one}"}}) for one in ("amd64", "arm64")
    }
    client.change(images={"debian:12": json.dumps({"manifests": listed}), **manifests})
    buildkit = BuildKit(HOST, machine)
    assert buildkit.identify(request_of) == Recipe.read(request_of, dict).tag({"debian:12": f"id-{arch}"})
    buildkit.resolve(request_of, nothing)
    (baked,) = (call for call in client.state["calls"] if call[0] == "bake")
    assert baked[1:4] == ["--push", "--set", f"image.platform=linux/{arch}"]
    buildkit.close()


def test_words_of_failures(client: Client, buildkit: BuildKit, request_of: ImageRequest) -> None:
    client.change(failures=["ERROR: failed to solve: process did not complete: exit code: 3"])
    with pytest.raises(ImageBuildFailed, match=r"#1 with \*\*\*\n.*exit code: 3") as caught:
        buildkit.resolve(request_of, nothing)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ImageBuildFailed, match="exit code: 3"):
        buildkit.resolve(request_of, nothing)
    assert len(client.state["built"]) == 1, "all trials of the scenario have the failure of the first"
    client.change(failures=["ERROR: failed to solve: failed to push reg.test/team:x: denied"])
    other = BuildKit(HOST, "x86_64")
    with pytest.raises(ImageMissing, match=r"cannot be pushed to --bench-registry reg.test/team.* denied"):
        other.resolve(request_of, nothing)
    other.close()


def test_a_builder_that_goes_away_is_tried_again(
    client: Client, buildkit: BuildKit, request_of: ImageRequest
) -> None:
    gone = "ERROR: failed to receive status: rpc error: code = Unavailable desc = error reading: EOF"
    client.change(failures=[gone] * 3)
    with pytest.raises(EngineLost, match="BuildKit went away"):
        buildkit.resolve(request_of, nothing)
    client.change(failures=[gone])
    assert buildkit.resolve(request_of, nothing).image.record.id == "sha256:built-5"


@pytest.mark.parametrize(
    ("silent", "error", "words"),
    [
        ("create", ImageMissing, f"BUILDKIT_HOST={HOST} is no address of a BuildKit"),
        ("inspect", EngineUnavailable, f"no BuildKit answers at BUILDKIT_HOST={HOST}"),
    ],
)
def test_a_host_that_does_not_answer(
    client: Client,
    buildkit: BuildKit,
    request_of: ImageRequest,
    silent: str,
    error: type[Exception],
    words: str,
) -> None:
    client.change(silent=[silent])
    with pytest.raises(error, match=words):
        buildkit.resolve(request_of, nothing)
    assert client.state["built"] == []


def test_a_base_image_that_is_nowhere(client: Client, buildkit: BuildKit, request_of: ImageRequest) -> None:
    client.change(images={})
    assert buildkit.identify(request_of) is None
    with pytest.raises(ImageMissing, match="image debian:12 cannot be looked up: debian:12: not found"):
        buildkit.resolve(request_of, nothing)


def test_the_history_in_a_named_image_is_ended(client: Client, buildkit: BuildKit) -> None:
    environment = Environment(image="debian:12", git_history="base")
    request = ImageRequest(environment, registry="reg.test/team")
    client.change(
        images={**client.state["images"], **_by_digest("debian", client.state["images"]["debian:12"])}
    )
    pushed = buildkit.resolve(request, nothing)
    assert pushed.image.record.key == buildkit.identify(request) == address(environment, BASE_ID)
    ((_, _, text),) = client.state["built"]
    (base,) = _by_digest("debian", client.state["images"]["debian:12"])
    assert text.startswith(f"FROM {base}\nUSER root\nRUN ")
    assert text.endswith("\nUSER nobody\n")


def _by_digest(repository: str, manifest: str) -> dict[str, str]:
    return {f"{repository}@sha256:{hashlib.sha256(manifest.encode()).hexdigest()}": manifest}


def test_no_engine_is_asked_and_images_of_others_are_left_to_the_cluster(
    client: Client, request_of: ImageRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(tmp_path / "engine.sock"))
        engine.listen()
        engine.setblocking(False)
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
        images = ClusterImages(current_owner(), "x86_64")
        named = ImageRequest(Environment(image="debian:12"))
        assert images.identify(named) is None
        assert images.resolve(named, nothing).reference == "debian:12"
        assert client.state["calls"] == []
        found = images.resolve(request_of, nothing)
        assert found.reference.startswith("reg.test/team@sha256:")
        assert (found.user, found.workdir, found.record.key) == ("nobody", "/w", images.identify(request_of))
        with pytest.raises(ImageMissing, match="--bench-registry HOST/PATH"):
            images.resolve(ImageRequest(request_of.environment), nothing)
        assert [one.health for one in images.findings()] == ["ok"]
        images.close()
        with pytest.raises(BlockingIOError):
            engine.accept()


def test_without_a_client_or_a_builder_the_error_names_what_is_missing(
    client: Client, request_of: ImageRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImageMissing, match="install the docker command with its plugin buildx"):
        ClusterImages(current_owner(), "x86_64").resolve(request_of, nothing)
    monkeypatch.delenv("BUILDKIT_HOST")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    images = ClusterImages(current_owner(), "x86_64")
    for environment in (request_of.environment, Environment(image="debian:12", git_history="base")):
        with pytest.raises(ImageMissing, match=r"no Docker Engine answers here that could.* BUILDKIT_HOST"):
            images.resolve(ImageRequest(environment), nothing)
    assert list(images.findings()) == []
