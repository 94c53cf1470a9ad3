"""What the engine reports of containers is counted, and waited for a little."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import docker.errors
import pytest

from pytest_benchjobs.model.errors import Ungradable
from pytest_benchjobs.sandbox.docker import watch
from pytest_benchjobs.sandbox.docker.mountpoints import check_mount_points
from pytest_benchjobs.sandbox.docker.watch import Events
from pytest_benchjobs.sandbox.protocol import Mount


class Stream:
    """Events as they are put in; an exception is raised, None ends it."""

    def __init__(self) -> None:
        self.news: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def __iter__(self) -> Iterator[Any]:
        while (one := self.news.get()) is not None:
            if isinstance(one, Exception):
                raise one
            yield one

    def close(self) -> None:
        self.news.put(None)


class Engine:
    def __init__(self) -> None:
        self.opened: list[dict[str, Any]] = []
        self.streams: list[Stream] = []
        self.again = threading.Event()

    @property
    def client(self) -> Engine:
        return self

    def guard(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def events(self, **asked: Any) -> Stream:
        self.opened.append(asked)
        self.streams.append(Stream())
        if len(self.opened) > 1:
            self.again.set()
        return self.streams[-1]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr(watch, "_RECONNECT", 0.01)
    return Engine()


@pytest.fixture
def events(engine: Engine) -> Iterator[Events]:
    events = Events(engine, "me")  # type: ignore[arg-type]
    yield events
    events.close()
    assert not events._thread.is_alive()


def _event(action: str, container: str = "c", at: int = 1, **attributes: str) -> dict[str, Any]:
    return {"Action": action, "Actor": {"ID": container, "Attributes": attributes}, "timeNano": at}


def test_events_are_counted_for_each_container_and_kind(engine: Engine, events: Events) -> None:
    for one in (_event("oom"), _event("oom"), _event("kill"), _event("oom", "d"), {"Action": "oom"}):
        engine.streams[0].news.put(one)
    assert events.wait("d", "oom", 0, 20) == 1
    assert [events.count("c", kind) for kind in ("oom", "kill", "die")] == [2, 1, 0]
    events.forget("c")
    assert [events.count(name, "oom") for name in "cd"] == [0, 1]
    (asked,) = engine.opened
    assert asked["filters"]["label"] == "benchjobs.owner=me"
    assert set(asked["filters"]["event"]) == {"oom", "kill", "die", "exec"}
    assert asked["since"] is None


def test_signals_to_the_first_process_end_nothing(engine: Engine, events: Events) -> None:
    for signal in ("10", "9"):  # SIGUSR1, SIGKILL
        engine.streams[0].news.put(_event("kill", signal=signal))
    assert events.wait("c", "kill", 0, 20) == 1


def test_what_does_not_come_is_not_waited_for_long(events: Events) -> None:
    assert events.wait("c", "oom", 0, 0.01) == 0


@pytest.mark.parametrize(
    "broken", [None, OSError("gone"), docker.errors.DockerException("gone"), ValueError("x")]
)
def test_a_connection_that_breaks_is_made_again_from_where_it_was(
    engine: Engine, events: Events, broken: Exception | None
) -> None:
    engine.streams[0].news.put(_event("oom", at=2_000_000_000))
    engine.streams[0].news.put(broken)
    assert engine.again.wait(20)
    # Not to be told of the same event twice.
    assert engine.opened[1]["since"] == pytest.approx(2.000000001, abs=1e-10)
    engine.streams[1].news.put(_event("oom", at=3_000_000_000))
    assert events.wait("c", "oom", 1, 20) == 2


def test_between_two_connections_is_a_pause_and_after_the_last_there_is_none(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(
        watch, "time", SimpleNamespace(sleep=pauses.append, monotonic=time.monotonic, time=time.time)
    )
    events = Events(engine, "me")  # type: ignore[arg-type]
    engine.streams[0].news.put(None)
    assert engine.again.wait(20)
    assert pauses == [0.01]
    events.close()
    assert pauses == [0.01]


# Mounts


@pytest.fixture
def mounts(tmp_path: Any) -> list[Mount]:
    (tmp_path / "source").mkdir()
    return [Mount(tmp_path / "source", "/opt/agent/bin")]


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ({}, None),  # it is made anew
        ({"/opt": 1 << 31, "/opt/agent": 1 << 31, "/opt/agent/bin": 1 << 31}, None),
        ({"/opt": 1 << 31, "/opt/agent": 1 << 27}, "/opt/agent is a link now"),
        ({"/opt": 1 << 31, "/opt/agent": 0}, "/opt/agent is no directory now"),
        ({"/opt/agent/bin": 1 << 27}, "/opt/agent/bin is a link now"),
    ],
)
def test_a_mount_comes_back_where_it_was_or_nothing_is_graded(
    monkeypatch: pytest.MonkeyPatch, mounts: list[Mount], there: dict[str, int], why: str | None
) -> None:
    asked: list[str] = []
    client = mock.Mock()
    client.diff.return_value = [{"Path": path} for path in (*there, "/opt/other", "/tmp")]

    def stat_of(_client: object, _container: str, path: str) -> dict[str, int] | None:
        asked.append(path)
        return {"mode": there[path]}

    def check(why: str | None) -> None:
        with (
            pytest.raises(Ungradable, match=rf"mounted for it \({why}\)") if why else contextlib.nullcontext()
        ):
            check_mount_points(client, "c", {one.target: one.source.is_dir() for one in mounts})

    monkeypatch.setattr("pytest_benchjobs.sandbox.docker.mountpoints.stat_of", stat_of)
    check(why)
    assert asked == sorted(there)
    mounts[0].source.rmdir()
    mounts[0].source.touch()
    check("/opt/agent/bin is a directory now" if len(there) == 3 else why)
