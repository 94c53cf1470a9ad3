"""Registries that fail for a while, and trials that stop while they wait for an image."""

from __future__ import annotations

import contextlib
import fcntl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from pytest_benchjobs.model.errors import DiskFull, ImageMissing
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker import build, pulling
from pytest_benchjobs.sandbox.docker import images as images_module
from pytest_benchjobs.sandbox.docker.engine import LABEL, Engine
from pytest_benchjobs.sandbox.docker.images import Images
from pytest_benchjobs.sandbox.kubernetes.images import ClusterImages
from pytest_benchjobs.sandbox.protocol import ImageRequest
from tests.support import IMAGE, set_clock, until

from .registry import Registry, StoringRegistry, digest_of, layer_of

pytestmark = pytest.mark.docker


class Stopped(Exception):
    pass


@pytest.fixture
def registry(client: docker.APIClient) -> Iterator[Registry]:
    registry = Registry()
    yield registry
    registry.stop()
    for name in ("one", "two"):
        with contextlib.suppress(docker.errors.APIError):
            client.remove_image(registry.image(name), force=True)


@pytest.fixture
def images() -> Iterator[Images]:
    engine = Engine()
    yield Images(engine)
    engine.close()


def resolve(images: Images, image: str, check: Callable[[], object] = lambda: None) -> str:
    return images.resolve(ImageRequest(Environment(image=image)), check).record.reference


def stop_when(event: threading.Event) -> Callable[[], None]:
    def check() -> None:
        if event.is_set():
            raise Stopped

    return check


def test_a_registry_that_comes_back_in_a_moment_costs_nothing(
    registry: Registry, images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused: list[float] = []

    def rest(seconds: float, check: object) -> None:
        paused.append(seconds)
        if len(paused) == 2:
            registry.start()

    monkeypatch.setattr(pulling, "rest", rest)
    assert resolve(images, registry.image("one")) == registry.image("one")
    assert paused == list(pulling._PAUSES[:2])


def test_one_image_is_not_given_up_for_another_and_none_for_ever(
    registry: Registry, images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused: list[float] = []
    monkeypatch.setattr(pulling, "rest", lambda seconds, check: paused.append(seconds))
    with pytest.raises(ImageMissing, match="connection refused"):
        resolve(images, registry.image("one"))
    assert paused == list(pulling._PAUSES)
    with pytest.raises(ImageMissing, match="connection refused"):
        resolve(images, registry.image("two"))
    assert paused == list(pulling._PAUSES), "once nobody answers, the next image waits for nothing"
    registry.start()
    with pytest.raises(ImageMissing, match="connection refused"):
        resolve(images, registry.image("one"))  # the other trials of the scenario, at the same moment
    assert registry.asked == []
    later = 61 + 10 * sum(pulling._PAUSES)
    set_clock(monkeypatch, images_module, lambda: time.monotonic() + later)
    assert resolve(images, registry.image("one")) == registry.image("one")
    assert resolve(images, registry.image("two")) == registry.image("two")


@pytest.mark.parametrize(("status", "times"), [(404, 1), (401, 1), (503, 3)])
def test_a_registry_that_answers_is_believed(
    registry: Registry, images: Images, monkeypatch: pytest.MonkeyPatch, status: int, times: int
) -> None:
    monkeypatch.setattr(pulling, "_PAUSES", (0.0, 0.0))
    registry.status = status
    registry.start()
    with pytest.raises(ImageMissing):
        resolve(images, registry.image("one"))
    assert len(registry.asked) >= times
    assert (len(registry.asked) % times, registry.asked.count("one")) == (0, len(registry.asked))


def test_a_full_disk_of_the_engine_is_not_a_missing_image(
    images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = pulling.Refused("write /var/lib/x: no space left on device")
    monkeypatch.setattr(pulling, "_carry", lambda *_: full)
    for _ in range(2):
        with pytest.raises(DiskFull):
            resolve(images, "nowhere/x:1")


def test_waiting_for_a_registry_is_broken_off(
    registry: Registry, images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = threading.Event()

    def rest(seconds: float, check: Callable[[], object]) -> None:
        waits.set()
        original(1000, check)

    original = pulling.rest
    monkeypatch.setattr(pulling, "rest", rest)
    with pytest.raises(Stopped):
        resolve(images, registry.image("one"), stop_when(waits))


def test_a_pull_is_broken_off_and_so_is_waiting_for_that_of_another_trial(
    registry: Registry, images: Images
) -> None:
    registry.silent = True
    registry.start()
    over, broken_off = threading.Event(), threading.Event()

    def pull() -> None:
        try:
            resolve(images, registry.image("one"), stop_when(over))
        except Stopped:
            broken_off.set()

    other = threading.Thread(target=pull)
    other.start()
    registry.hanging.wait()
    with pytest.raises(Stopped):
        resolve(images, registry.image("one"), stop_when(registry.hanging))
    over.set()
    other.join()
    assert broken_off.is_set()


def _dockerfile(tmp_path: Path, text: str) -> Path:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "Dockerfile").write_text(text)
    return tmp_path / "task" / "Dockerfile"


def test_a_build_is_broken_off_and_leaves_nothing(
    images: Images, client: docker.APIClient, tmp_path: Path
) -> None:
    def building() -> list[str]:
        return [found["Id"] for found in client.containers(all=True) if "sleep 4711" in found["Command"]]

    def check() -> None:
        if building():
            raise Stopped

    dockerfile = _dockerfile(tmp_path, f"FROM {IMAGE}\nRUN sleep 4711\n")
    with pytest.raises(Stopped):
        images.resolve(ImageRequest(Environment(dockerfile=dockerfile)), check)
    until(lambda: not building())


def test_waiting_for_the_build_of_another_process_is_broken_off(
    images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHJOBS_CACHE", str(tmp_path / "benchjobs"))
    dockerfile = _dockerfile(tmp_path, f"FROM {IMAGE}\nRUN false\n")
    tag = images.identify(ImageRequest(Environment(dockerfile=dockerfile)))
    assert tag is not None
    locks = tmp_path / "benchjobs" / "locks"
    locks.mkdir(parents=True)
    with (locks / f"{tag.replace('/', '-').replace(':', '-')}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        def check() -> None:
            raise Stopped

        with pytest.raises(Stopped):
            images.resolve(ImageRequest(Environment(dockerfile=dockerfile)), check)


# Images that were built here, in a registry


@pytest.fixture
def storing() -> Iterator[StoringRegistry]:
    registry = StoringRegistry()
    registry.start()
    yield registry
    registry.stop()


@pytest.fixture
def request_of(tmp_path: Path, storing: StoringRegistry, client: docker.APIClient) -> Iterator[ImageRequest]:
    """A Dockerfile of this test alone, and the registry."""
    dockerfile = tmp_path / "env" / "Dockerfile"
    dockerfile.parent.mkdir()
    dockerfile.write_text("FROM scratch\nCOPY made /made\n")
    (dockerfile.parent / "made").write_text(str(time.time()))
    request = ImageRequest(Environment(dockerfile=dockerfile), registry=storing.path)
    yield request
    engine = Engine()
    remove(client, Images(engine).identify(request))
    engine.close()


def remove(client: docker.APIClient, name: str | None) -> None:
    with contextlib.suppress(docker.errors.ImageNotFound):
        client.remove_image(str(name), force=True)


def no_build(*_: object) -> None:
    raise AssertionError("it is built again")


def test_an_image_is_built_by_one_machine_and_pulled_by_the_next(
    request_of: ImageRequest,
    storing: StoringRegistry,
    client: docker.APIClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storing.statuses = [429, 503]
    monkeypatch.setattr(pulling, "rest", lambda *_: None)
    engines = [Engine(), Engine()]
    first, second = map(Images, engines)
    built = first.resolve(request_of)
    assert built.note is None
    assert len(storing.pushed) == 1
    name = f"{storing.path}@{digest_of(storing.manifests[storing.pushed[0]])}"
    assert first.ensure(request_of, lambda: None) == name
    assert client.inspect_image(built.id)["RepoTags"] == [built.record.key], "it has no other name here"
    client.remove_image(built.record.key)
    monkeypatch.setattr(build, "build", no_build)
    pulled = second.resolve(request_of)
    assert (pulled.id, pulled.record, pulled.note) == (built.id, built.record, None)
    assert second.ensure(request_of, lambda: None) == name
    assert len(storing.pushed) == 1, "it is there already"
    for engine in engines:
        engine.close()


def test_a_registry_is_asked_once_for_all_pods_of_an_image(
    request_of: ImageRequest, storing: StoringRegistry
) -> None:
    images = ClusterImages(current_owner(), "x86_64")
    first = images.resolve(request_of, lambda: None)
    assert first.reference == f"{storing.path}@{digest_of(storing.manifests[storing.pushed[0]])}"
    storing.stop()
    assert images.resolve(request_of, lambda: None) == first
    images.close()


def test_a_registry_that_takes_no_image_is_a_note_of_the_trial_and_an_error_of_who_needs_it_there(
    request_of: ImageRequest, storing: StoringRegistry, images: Images
) -> None:
    storing.statuses, storing.for_ever = [403], True
    note = images.resolve(request_of).note
    assert note is not None
    for part in (
        f"cannot be pushed to --bench-registry {storing.path}",
        "denied",
        "`docker login 127.0.0.1:",
    ):
        assert part in note
    assert images.resolve(request_of).note is None
    with pytest.raises(ImageMissing, match=r"cannot be pushed to --bench-registry .* denied"):
        images.ensure(request_of, lambda: None)


def test_a_push_ends_with_the_trial(
    request_of: ImageRequest, storing: StoringRegistry, images: Images
) -> None:
    storing.statuses, storing.for_ever = [503], True
    began = time.monotonic()

    def check() -> None:
        if images.identify(request_of) and time.monotonic() > began + 1 and storing.statuses:
            raise Stopped

    with pytest.raises(Stopped):
        images.resolve(request_of, check)
    assert time.monotonic() - began < 60, "it is not pushed for minutes"


def test_a_snapshot_of_another_machine_comes_from_the_registry(
    storing: StoringRegistry, client: docker.APIClient, images: Images
) -> None:
    trial = f"{time.time():.6f}"
    labels = {f"{LABEL}kept": "1", f"{LABEL}job": "j", f"{LABEL}trial": f"a.yaml::{trial}[nop]"}
    base = "benchjobs/snapshot-test:1"
    client.import_image_from_data(layer_of("made", trial.encode()), *base.split(":"))
    container = client.create_container(base, ["true"])["Id"]
    kept = f"benchjobs-kept:{trial}"
    try:
        client.commit(container, "benchjobs-kept", trial, conf={"Labels": labels})
        request = ImageRequest(Environment(snapshot=f"j/{trial}"), registry=storing.path)
        first = images.resolve(request)
        client.remove_image(kept)
        images.forget(first.id)
        assert images.identify(request) is None
        second = images.resolve(request)
        assert (second.record, second.note) == (first.record, None)
        assert images.identify(request) == first.record.key
        missing = ImageRequest(Environment(snapshot="j/none"), registry=storing.path)
        with pytest.raises(ImageMissing, match=r"is not on this machine: .* Nor is it in --bench-registry"):
            images.resolve(missing)
    finally:
        client.remove_container(container)
        remove(client, kept)
        remove(client, base)
        for tag in storing.pushed:
            remove(client, f"{storing.path}:{tag}")
