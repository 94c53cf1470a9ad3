"""A job of many images: from a registry that fails in every way it may, and within a limit on their room."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import docker
import pytest

from tests.support import IMAGE, results, run

from .scripted import ScriptedRegistry

pytestmark = [pytest.mark.docker, pytest.mark.extended]

MANY = 60
SIZE = 400_000

_ROOT = """
for program in sh cat true mkdir rm ls chmod tar mv ln; do
  found=/bin/$program; echo $found; ldd $found | grep -o '/[^ ]*'
done | sort -u > /tmp/files
tar -chf - -T /tmp/files /etc/passwd /etc/group 2>/dev/null | base64
"""


@pytest.fixture(scope="module")
def client() -> Iterator[docker.APIClient]:
    client = docker.APIClient(version="auto")
    yield client
    client.close()


@pytest.fixture(scope="module")
def base(client: docker.APIClient) -> bytes:
    """A layer with a shell and little else."""
    import base64

    made = client.create_container(IMAGE, ["sh", "-c", _ROOT])
    try:
        client.start(made["Id"])
        client.wait(made["Id"])
        return base64.b64decode(client.logs(made["Id"], stderr=False))
    finally:
        client.remove_container(made["Id"], force=True)


@pytest.fixture
def registry(client: docker.APIClient, base: bytes) -> Iterator[ScriptedRegistry]:
    registry = ScriptedRegistry(base, SIZE, client.version()["Arch"])
    registry.start()
    yield registry
    registry.stop()
    for name in _images(client, registry):
        with contextlib.suppress(docker.errors.APIError):
            client.remove_image(name, force=True)


def _images(client: docker.APIClient, registry: ScriptedRegistry) -> dict[str, int]:
    """Name -> bytes of the images of this registry that are here."""
    return {
        tag: image["Size"]
        for image in client.images()
        for tag in image["RepoTags"] or ()
        if tag.startswith(f"127.0.0.1:{registry.port}/")
    }


def _manifest(directory: Path, registry: ScriptedRegistry, many: int) -> None:
    scenarios = "".join(
        f"""
  - id: task-{number}
    problem_statement: x
    image: {registry.image(number)}
    network: none
    reference: "true"
    scorers: [{{name: s, type: command, command: "test -s /own"}}]
"""
        for number in range(many)
    )
    (directory / "many.bench.yaml").write_text(f"benchmark: many\nscenarios:\n{scenarios}")


def _outcomes(directory: Path) -> dict[str, int]:
    outcomes: dict[str, int] = {}
    for result in results(directory):
        outcomes[result["outcome"]] = outcomes.get(result["outcome"], 0) + 1
    return outcomes


class Watch:
    """Most bytes that images of a registry, but for some, took at a time, asked of the engine again and again."""

    def __init__(self, client: docker.APIClient, registry: ScriptedRegistry, but: str) -> None:
        self.most = 0
        self.samples = 0
        self.images: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, args=(client, registry, but))

    def _look(self, client: docker.APIClient, registry: ScriptedRegistry, but: str) -> None:
        while not self._over.is_set():
            found = {name: size for name, size in _images(client, registry).items() if name != but}
            self.most = max(self.most, sum(found.values()))
            self.samples += 1
            self.images |= set(found)
            time.sleep(0.02)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def test_a_registry_that_fails_in_every_way_costs_no_trial(
    tmp_path: Path, registry: ScriptedRegistry
) -> None:
    registry.too_often = {"task-3", "task-17", "task-40"}
    registry.unwell = {"task-9": 2}
    registry.cut = {"task-5": 1, "task-30": 2}
    registry.garbled = {"task-11": 1, "task-33": 2}
    registry.gone_after = 25
    _manifest(tmp_path, registry, MANY)
    done = run(
        tmp_path, "many.bench.yaml", "--bench-concurrency", "8", BENCHJOBS_CACHE=str(tmp_path / "cache")
    )
    assert _outcomes(tmp_path) == {"passed": MANY}, done.stdout
    assert done.returncode == 0, done.stdout
    assert registry.refused["429"] >= registry.refused["repositories"] == 3
    assert [registry.refused[way] for way in ("503", "gone", "cut", "garbled")] == [2, 1, 3, 3]


def test_images_stay_within_their_room_and_what_was_there_before_stays(
    tmp_path: Path, registry: ScriptedRegistry, client: docker.APIClient
) -> None:
    before = registry.image(2)
    client.pull(before.rpartition(":")[0], tag="1")
    one = _images(client, registry)[before]
    limit = 12 * one
    _manifest(tmp_path, registry, MANY)
    with Watch(client, registry, before) as watch:
        done = run(
            tmp_path,
            "many.bench.yaml",
            *("--bench-concurrency", "4", "--bench-image-budget", str(limit)),
            BENCHJOBS_CACHE=str(tmp_path / "cache"),
        )
    assert _outcomes(tmp_path) == {"passed": MANY}, done.stdout
    assert watch.samples > MANY
    assert one < watch.most <= limit
    assert len(watch.images) > 40, "it looked often enough to see most of them"
    assert before in _images(client, registry)
    assert registry.asked["task-2"] == 1
