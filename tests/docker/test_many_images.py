"""A job of many images: from a registry that fails in every way it may, and within a limit on their room."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import docker
import pytest

from tests.console import COMMAND
from tests.support import IMAGE, results, run, until

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
    workdir: /own-work
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
            time.sleep(0.02)  # between two looks

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


def _listing(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    """`benchjobs benchmarks images`, with a cache of its own."""
    return subprocess.Popen(
        [*COMMAND, "benchmarks", "images", "many.bench.yaml", *arguments],
        cwd=directory,
        env={**os.environ, "BENCHJOBS_CACHE": str(directory / "cache")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _listed(directory: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Its status, its document, and what it says meanwhile."""
    process = _listing(directory, "-o", "json", *arguments)
    stdout, stderr = process.communicate(timeout=300)
    assert stdout, stderr
    return process.returncode, json.loads(stdout), stderr


def test_images_are_listed_weighed_and_brought(
    tmp_path: Path, registry: ScriptedRegistry, client: docker.APIClient
) -> None:
    _manifest(tmp_path, registry, 12)
    here = registry.image(2)
    client.pull(here.rpartition(":")[0], tag="1")
    registry.missing = {"task-7"}

    status, document, _ = _listed(tmp_path)
    assert status == 0
    by_state = {total["state"]: total for total in document["totals"]}
    assert by_state["here"] == {
        "state": "here",
        "images": 1,
        "bytes": _images(client, registry)[here],
        "unknown": 0,
    }
    assert (by_state["pull"]["images"], by_state["pull"]["unknown"]) == (11, 1)
    assert by_state["pull"]["bytes"] > 10 * SIZE
    downloads = {image["image"]: image["download"] for image in document["images"]}
    assert downloads[registry.image(7)] is None

    # What it said is remembered: it is not asked again.
    port, before = registry.port, sum(registry.asked.values())
    registry.stop()
    status, again, _ = _listed(tmp_path)
    assert [image["download"] for image in again["images"]] == list(downloads.values())
    registry.start()
    assert (registry.port, sum(registry.asked.values())) == (port, before)

    registry.too_often, registry.cut, registry.garbled = {"task-3"}, {"task-5": 1}, {"task-9": 1}
    status, brought, said = _listed(tmp_path, "--pull")
    assert status == 1, said
    errors = {image["image"]: image["error"] for image in brought["images"] if image["error"] is not None}
    assert list(errors) == [registry.image(7)]
    assert "is not on this machine and cannot be pulled" in errors[registry.image(7)]
    assert set(_images(client, registry)) == {registry.image(n) for n in range(12) if n != 7}
    assert "pulling or building 11 images" in said
    assert said.count(": here, ") == 10

    done = run(tmp_path, "many.bench.yaml", BENCHJOBS_CACHE=str(tmp_path / "cache"))
    assert _outcomes(tmp_path) == {"passed": 11, "error": 1}, done.stdout
    assert registry.asked["task-4"] == 1, "pulled once"


def test_ctrl_c_breaks_off_what_is_pulled(
    tmp_path: Path, registry: ScriptedRegistry, client: docker.APIClient
) -> None:
    _manifest(tmp_path, registry, 6)
    registry.too_often = {f"task-{number}" for number in range(1, 6)}
    process = _listing(tmp_path, "--pull")
    until(lambda: registry.refused["429"] and _images(client, registry), what=lambda: str(registry.refused))
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (130, ""), stderr
    there = set(_images(client, registry))
    time.sleep(3)  # what still went on in the engine would be there by then
    assert set(_images(client, registry)) == there
    ledgers = [json.loads(path.read_text()) for path in (tmp_path / "cache" / "images").glob("*.json")]
    recorded = {image["name"] for ledger in ledgers for image in ledger["images"].values()}
    assert recorded <= there
