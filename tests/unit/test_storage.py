"""A sandbox that has written more than it may is found, whatever the engine answers for others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.model.errors import EngineError
from pytest_benchjobs.sandbox.docker import storage
from pytest_benchjobs.sandbox.docker.storage import StorageGuard, blocks, nanoseconds

MANY_ROUNDS = 5


class _Engine:
    """Answers how much containers have written; an exception is raised."""

    def __init__(self, sizes: dict[str, Any]) -> None:
        self._sizes = sizes
        self._asked: dict[str, int] = dict.fromkeys(sizes, 0)
        self._changed = threading.Condition()

    def get(self, url: str, *, size: bool) -> Any:
        assert size
        name = url.removeprefix("/containers/").removesuffix("/json")
        with self._changed:
            self._asked[name] += 1
            self._changed.notify_all()
        found = self._sizes[name]
        if isinstance(found, Exception):
            raise found
        return found

    def asked(self, name: str) -> int:
        return self._asked[name]

    def wait_for(self, name: str) -> None:
        """Wait until a container was measured several times from now on."""
        with self._changed:
            least = self._asked[name] + MANY_ROUNDS
            assert self._changed.wait_for(lambda: self._asked[name] >= least, 30)


def _counting(names: list[str], name: str, error: Exception | None = None) -> Callable[[], None]:
    def exceeded() -> None:
        names.append(name)
        if error is not None:
            raise error

    return exceeded


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_POLL", 0.001)
    monkeypatch.setattr(storage, "_POLL_SHARE", 0.0)
    on_disk = {"sparse": 1, "over": 101, "beyond its size": 101, "stubborn": 1000}
    monkeypatch.setattr(storage, "blocks", lambda _, name: on_disk.get(name))


def test_who_is_over_the_limit_is_told_of_once_and_the_others_go_on_being_measured() -> None:
    sizes = {
        "over": {"SizeRw": 101}, "stubborn": {"SizeRw": 1000}, "at": {"SizeRw": 100}, "unknown": {},
        "null": {"SizeRw": None}, "gone": OSError("gone"), "odd": ValueError("no JSON"), "sparse": {"SizeRw": 1 << 40},
        "unmeasured": {"SizeRw": 101},
    }  # fmt: skip
    engine, told = _Engine(sizes), list[str]()
    guard = StorageGuard(engine)  # type: ignore[arg-type]
    for name in ("stubborn", "gone", "odd", "unknown", "null", "sparse", "unmeasured", "over", "at"):
        error = EngineError("it cannot be ended") if name == "stubborn" else None
        guard.add(name, 100, _counting(told, name, error))
    engine.wait_for("at")
    guard.close()
    assert sorted(told) == ["over", "stubborn", "unmeasured"]
    assert [engine.asked(name) for name in ("over", "stubborn", "unmeasured")] == [1, 1, 4]
    now = {
        name: guard.is_over(name, 100)
        for name in ("over", "at", "null", "sparse", "beyond its size", "unmeasured")
    }
    assert [name for name, over in now.items() if over] == ["over", "beyond its size", "unmeasured"]


def test_who_is_discarded_is_measured_no_more() -> None:
    engine, told = _Engine({"one": {"SizeRw": 1}, "other": {"SizeRw": 1}}), list[str]()
    guard = StorageGuard(engine)  # type: ignore[arg-type]
    guard.close()  # one that watches nothing can be closed
    guard = StorageGuard(engine)  # type: ignore[arg-type]
    guard.add("one", 1, _counting(told, "one"))
    guard.add("other", 1, _counting(told, "other"))
    engine.wait_for("one")
    guard.discard("one")
    guard.discard("never there")
    engine.wait_for("other")
    before = engine.asked("one")
    engine.wait_for("other")
    assert engine.asked("one") == before
    guard.close()
    assert told == []


@pytest.mark.parametrize(("driver", "since"), [("overlay2", "01"), ("vfs", "05")])
def test_what_is_copied_of_an_image_is_not_written_by_its_container(
    monkeypatch: pytest.MonkeyPatch, driver: str, since: str
) -> None:
    asked: list[str] = []

    def measure(_: object, *arguments: str, timeout: float) -> tuple[int, bytes]:
        asked.append(arguments[1])
        return 0, (7).to_bytes(8, "little")

    monkeypatch.setattr(storage, "run_program", measure)
    times = {"Created": "2026-01-01T00:00:01Z", "State": {"StartedAt": "2026-01-01T00:00:05Z"}}
    engine: Any = SimpleNamespace(get=lambda _: {**times, "GraphDriver": {"Name": driver}})
    monkeypatch.setattr(storage, "ServiceContainer", lambda *_: None)
    assert blocks(engine, "c") == 7
    assert asked == [str(nanoseconds(f"2026-01-01T00:00:{since}Z"))]
