"""Processes of a container, as the engine lists them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import docker.errors
import pytest

from pytest_benchjobs.model.errors import ContainerEnded, ContainerLost, EngineLost, EngineRefused
from pytest_benchjobs.sandbox.docker import processes as module
from pytest_benchjobs.sandbox.docker.calling import Caller
from pytest_benchjobs.sandbox.docker.dialects import DOCKER, PODMAN
from pytest_benchjobs.sandbox.docker.processes import Processes, send

from .clocks import Clock


class Refusing:
    """A client of an engine that lists no processes."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def top(self, container: str, ps_args: str) -> Any:
        raise self._error


ENDED = ContainerEnded("the container has ended, with status 137")


def test_a_container_that_has_ended_has_no_processes() -> None:
    processes = Processes(Refusing(ENDED), "4f", DOCKER)  # type: ignore[arg-type]
    assert processes.listed() == []
    assert processes.others() is None
    assert not processes.end_all(), "only a new start ends what is left"


@pytest.mark.parametrize("error", [ContainerLost("removed"), EngineRefused("broken")])
def test_another_refusal_is_the_engines(error: Exception) -> None:
    with pytest.raises(type(error)):
        Processes(Refusing(error), "4f", DOCKER).listed()  # type: ignore[arg-type]


def test_podman_that_finds_no_list_has_all_ended() -> None:
    processes = Processes(Refusing(EngineRefused("no such process")), "4f", PODMAN)  # type: ignore[arg-type]
    assert processes.others() is None
    assert not processes.end_all(), "only a new start ends what is left"


class Engine:
    """Lists what it is told to; a signal to the first process changes its name as `obeys` says."""

    base_url, api_version, timeout = "http://x", "1.47", 5

    def __init__(
        self, *rows: tuple[int, int, str, str, str], first: int = 10, obeys: str | None = None
    ) -> None:
        self.rows = [list(map(str, row)) for row in rows]
        self.first = first
        self.obeys = obeys
        self.signals: list[str] = []
        self.listings = 0
        self.ended_by: Exception | None = None

    def top(self, container: str, ps_args: str) -> Any:
        self.listings += 1
        return {"Processes": self.rows}

    def inspect_container(self, container: str) -> Any:
        return {"State": {"Pid": self.first}}

    def kill(self, container: str, signal: str) -> None:
        self.signals.append(signal)
        if self.ended_by is not None:
            raise self.ended_by
        if self.obeys is not None:
            self.rows[-1][3] = self.obeys


OURS = (10, 1, "Ss", "bench-0", "/bench/program first 300")


def _of(engine: Engine) -> Processes:
    return Processes(engine, "4f", DOCKER)  # type: ignore[arg-type]


def test_the_first_process_is_known_by_the_engines_number_and_not_by_what_it_says() -> None:
    forged = (4, 10, "S", "bench-0", "/bench/program first 300")
    processes = _of(Engine(forged, (7, 10, "S", "sh", "sh -c x"), OURS))
    assert [row.pid for row in processes.listed()] == [10, 4, 7]
    assert [row.command for row in processes.others() or ()] == ["/bench/program first 300", "sh -c x"]


@pytest.mark.parametrize("rows", [1, 2])
def test_numbers_of_a_kernel_of_the_containers_own_are_not_taken_for_those_of_the_machine(rows: int) -> None:
    of_machine = (1, 0, "Ss", "init", "/sbin/init"), (12, 2, "S", "kworker", "[kworker]")
    processes = _of(Engine(*of_machine[:rows], first=3576))
    assert (processes.listed(), processes.others(), processes.end_all()) == ([], None, False)


def test_what_has_died_and_was_not_buried_does_not_run() -> None:
    rows = [(5, 10, "Z", "a", "a"), (6, 10, "Zl", "b", "b"), (7, 10, "S", "c", "c"), (8, 10, "Z+", "d", "d")]
    assert [row.name for row in _of(Engine(*rows, OURS)).others() or ()] == ["b", "c"]


def test_the_sleep_that_an_init_waits_for_is_no_command() -> None:
    init = (10, 1, "Ss", "docker-init", "/sbin/docker-init -- sleep 60")
    waiting, other, nested = (
        (11, 10, "S", "sleep", "sleep 60"),
        (12, 10, "S", "sleep", "sleep 5"),
        (13, 12, "S", "x", "x"),
    )
    assert [row.pid for row in _of(Engine(init, waiting, other, nested)).others() or ()] == [12, 13]
    assert [row.pid for row in _of(Engine(OURS, (11, 10, "S", "sleep", "sleep 60"))).others() or ()] == [11]
    assert _of(Engine(init)).others() == []


def test_what_was_listed_last_will_do_until_a_command_runs() -> None:
    engine = Engine(OURS, (11, 10, "S", "x", "x"))
    processes = _of(engine)
    processes.others(seen=True)
    assert [row.pid for row in processes.others(seen=True) or ()] == [11]
    assert engine.listings == 1
    processes.others()
    processes.forget_seen()
    processes.others(seen=True)
    assert engine.listings == 3


def test_a_container_that_was_started_anew_has_another_first_process() -> None:
    engine = Engine(OURS, (11, 10, "S", "x", "x"))
    processes = _of(engine)
    processes.listed()
    engine.first, engine.rows[0][0], engine.rows[1][0] = 30, "30", "10"
    processes.forget_first()
    assert [row.pid for row in processes.others(seen=True) or ()] == [10]


def test_the_first_process_says_that_it_ended_all_others() -> None:
    engine = Engine(OURS, obeys="bench-1")
    assert _of(engine).end_all()
    assert engine.signals == ["USR1"]


def test_a_first_process_that_is_none_of_ours_is_told_nothing() -> None:
    engine = Engine((10, 1, "Ss", "bench-0", "/usr/bin/other"))
    assert not _of(engine).end_all()
    assert engine.signals == []


def test_a_container_that_ends_meanwhile_needs_a_new_start() -> None:
    engine = Engine(OURS, obeys="bench-1")
    engine.ended_by = ENDED
    assert not _of(engine).end_all()
    engine.ended_by = ContainerLost("removed")
    with pytest.raises(ContainerLost):
        _of(engine).end_all()


def test_time_of_processors_is_in_seconds() -> None:
    engine: Any = Engine(OURS)
    used = {"cpu_stats": {"cpu_usage": {"total_usage": 2_500_000_000}}}
    engine.get = lambda url, params, timeout: SimpleNamespace(ok=True, json=lambda: used)
    assert _of(engine).cpu_seconds() == 2.5


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(1000.0)
    monkeypatch.setattr(module, "time", made)
    return made


@pytest.mark.parametrize("obeys", [None, "bench-0", "bench-2", "nonsense"])
def test_one_that_does_not_obey_is_told_again_every_few_seconds_asked_less_and_less_often_and_given_up(
    clock: Clock, obeys: str | None
) -> None:
    engine = Engine(OURS, obeys=obeys)
    assert not _of(engine).end_all()
    assert len(engine.signals) == 5
    assert clock.pauses[:7] == [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.25]
    assert set(clock.pauses[6:]) == {0.25}
    assert 15.0 <= clock.now - 1000 < 15.25


class Posting:
    """An engine that notes what it is told, and may break."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.posted: list[tuple[str, Any]] = []

    @contextlib.contextmanager
    def guard(self, who: Caller) -> Iterator[None]:
        assert who.patience == 0, "nobody waits for it"
        yield

    def post(self, path: str, body: Any, timeout: float) -> Any:
        self.posted.append((path, body))
        if self.error is not None:
            raise self.error
        return {"Id": "e"}


@pytest.mark.parametrize(
    ("pid", "name", "is_sent"),
    [
        (2, "INT", True),
        (2, "TERM", True),
        (1, "INT", False),
        (0, "INT", False),
        (-1, "TERM", False),
        (7, "KILL", False),
    ],
)
def test_a_signal_goes_to_the_group_of_a_command_and_never_to_all(
    pid: int, name: str, *, is_sent: bool
) -> None:
    engine: Any = Posting()
    send(engine, "c", pid, name)
    command = {"Cmd": ["/bench/program", "signal", name, str(pid)], "User": "0"}
    wanted = [("/containers/c/exec", command), ("/exec/e/start", {"Detach": True})]
    assert engine.posted == (wanted if is_sent else [])


@pytest.mark.parametrize("error", [EngineLost("gone"), docker.errors.APIError("no"), OSError("broken")])
def test_a_signal_that_cannot_be_sent_is_nobodys_error(error: Exception) -> None:
    engine: Any = Posting(error)
    send(engine, "c", 7, "INT")
    assert len(engine.posted) == 1
