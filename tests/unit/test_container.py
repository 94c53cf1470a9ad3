"""One container, by what an engine may say of it: errors and their classes, what is watched, and its end."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.model.errors import (
    ContainerEnded,
    ContainerLost,
    ContainerStartFailed,
    DiskFull,
    EngineError,
    EngineLost,
    EngineRefused,
    EnvironmentFailed,
    FilesRefused,
    OutputLost,
    Ungradable,
)
from pytest_benchjobs.model.result import ImageRecord
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker import container as module
from pytest_benchjobs.sandbox.docker.calling import Caller, NetworkGone, on_behalf_of
from pytest_benchjobs.sandbox.docker.container import DockerSandbox
from pytest_benchjobs.sandbox.docker.dialects import DOCKER
from pytest_benchjobs.sandbox.docker.engine import Engine
from pytest_benchjobs.sandbox.docker.images import ResolvedImage
from pytest_benchjobs.sandbox.docker.network import Joinable
from pytest_benchjobs.sandbox.docker.processes import Process
from pytest_benchjobs.sandbox.door import door_command, through_door
from pytest_benchjobs.sandbox.program import PROGRAM
from pytest_benchjobs.sandbox.protocol import ExecResult, File, SandboxSpec

IMAGE = ResolvedImage(
    "sha256:1", ImageRecord(reference="x", id="sha256:1"), "/app", "me", (), {"PATH": "/bin"}
)


class Client:
    """Says what it is told to, and notes what was asked."""

    base_url, api_version, timeout = "http://x", "1.47", 5

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.says: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*arguments: Any, **more: Any) -> Any:
            self.asked.append((name, *arguments, *more.values()))
            said = self.says.get(name)
            if isinstance(said, list):
                said = said.pop(0) if said else None
            if isinstance(said, BaseException):
                raise said
            return said

        return call

    @property
    def names(self) -> list[str]:
        return [name for name, *_ in self.asked]


class Events:
    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.late: dict[str, int] = {}
        """Those that come while they are waited for."""
        self.waited: list[tuple[str, float]] = []

    def count(self, container: str, event: str) -> int:
        return self.counts.get(event, 0)

    def wait(self, container: str, event: str, above: int, seconds: float) -> int:
        self.waited.append((event, seconds))
        self.counts[event] = self.counts.get(event, 0) + self.late.pop(event, 0)
        return self.counts[event]


@dataclasses.dataclass
class Bench:
    """A container of an engine that is made up."""

    client: Client
    events: Events
    services: Any
    forgotten: list[str]
    watched: list[tuple[Any, ...]]

    def sandbox(self, **spec: Any) -> DockerSandbox:
        environment = Environment(image="x", **spec.pop("environment", {}))
        wanted = SandboxSpec(environment=environment, labels={}, network="none", deadline=60, **spec)
        return DockerSandbox(
            self.services,
            "c",
            IMAGE,
            wanted,
            "/app",
            None,
        )


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(module, "PAUSES", (0.0,) * 4)
    monkeypatch.setattr(module, "leads_to_small_file", lambda *_: True)
    client, engine = Client(), Engine()
    client.says["inspect_container"] = {"State": {"Running": True, "ExitCode": 0}}
    engine._client = client  # type: ignore[assignment]
    engine.dialect = DOCKER
    forgotten: list[str] = []
    watched: list[tuple[Any, ...]] = []
    storage = SimpleNamespace(
        add=lambda *what: watched.append(what),
        is_over=lambda *_: False,
        unmeasured=lambda _: contextlib.nullcontext(),
    )
    network = SimpleNamespace(
        of=lambda wanted, image: Joinable(f"net-{wanted}", "open to all" if wanted == "public" else None)
    )
    events = Events()
    services = SimpleNamespace(
        engine=engine,
        events=events,
        storage=storage,
        forget=forgotten.append,
        network=network,
    )
    with on_behalf_of(Caller()):
        yield Bench(client, events, services, forgotten, watched)


# Its beginning


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            FilesRefused("refused to start: no such shim"),
            ContainerStartFailed,
            "does not start: refused to start",
        ),
        (NetworkGone("network is gone"), NetworkGone, "is gone"),
        (ContainerLost("removed"), ContainerLost, "removed"),
    ],
)
def test_why_a_container_does_not_start(
    bench: Bench, error: Exception, kind: type[Exception], words: str
) -> None:
    bench.client.says["start"] = error
    with pytest.raises(kind, match=words) as caught:
        bench.sandbox(environment={"storage": 5}).begin()
    assert type(caught.value) is kind
    assert bench.watched == []


def test_files_are_there_before_it_starts_and_its_disk_is_watched_afterwards(bench: Bench) -> None:
    sandbox = bench.sandbox(files=(File("a", content=b"1"),), environment={"storage": 5})
    sandbox.begin()
    assert bench.client.names == ["put_archive", "start"]
    ((container, limit, exceeded),) = bench.watched
    assert (container, limit) == ("c", 5)
    assert sandbox.limit_hit() is None
    exceeded()
    assert sandbox.limit_hit() == "storage"
    assert bench.client.names[2:] == ["inspect_container", "kill", "start"]


def test_without_files_or_limits_nothing_is_put_or_watched(bench: Bench) -> None:
    bench.sandbox().begin()
    assert (bench.client.names, bench.watched) == (["start"], [])


# How a command ended


def _ended(bench: Bench, code: int, *, ooms: int = 0, **environment: Any) -> ExecResult:
    result = ExecResult(None, timed_out=False, seconds=1.0)
    return bench.sandbox(environment=environment)._with_status(result, code, ooms)


RACE = "OCI runtime exec failed: exec failed: adding pid to cgroups: openat: no such file or directory"


class Commands:
    """Commands of an engine, one after the other: what each sends, and its status and process id."""

    def __init__(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch, *runs: tuple[str | bytes, int, int]
    ) -> None:
        self.output = bytearray()
        self.stdout = bytearray()
        self.sandbox = bench.sandbox()
        states = [{"Running": False, "ExitCode": code, "Pid": pid} for _, code, pid in runs]
        bench.client.says["exec_inspect"] = states
        bench.client.says["get"] = SimpleNamespace(json=dict)
        bench.client.says["exec_create"] = [{"Id": str(number)} for number in range(len(runs))]
        sent = [frame(text.encode()) if isinstance(text, str) else text for text, *_ in runs]
        monkeypatch.setattr(bench.services.engine, "hijack", lambda *_: self._connection(sent.pop(0)))
        self.left = states

    def _connection(self, sent: bytes) -> tuple[socket.socket, bytes]:
        ours, engine = socket.socketpair()
        with engine:
            engine.sendall(sent[3:])
        return ours, sent[:3]

    def run(self, *argv: str) -> ExecResult:
        return self.sandbox.exec(argv, timeout=60, sink=self.output.extend, stdout=self.stdout.extend)


def frame(data: bytes, of: int = 1) -> bytes:
    return bytes([of, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


def test_a_command_that_an_engine_fails_to_start_is_started_again_and_its_words_are_nobodys(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [(RACE, 127, 0), ("cgroup is gone", 126, 0), (frame(b"a", of=2) + frame(b"b"), 3, 7)]
    commands = Commands(bench, monkeypatch, *runs)
    found = commands.run("agent")
    assert (found.exit_status, found.started, commands.output, commands.stdout) == (3, True, b"ab", b"b")
    assert commands.sandbox.engine_retries == (f"start a command: {RACE}", "start a command: cgroup is gone")


@pytest.mark.parametrize("code", [126, 127, 128])
@pytest.mark.parametrize(
    ("said", "times"),
    [
        ('OCI runtime exec failed: exec: "agent": executable file not found in $PATH', 1),
        ("unable to find user nobody-here", 1),
        ('chdir to cwd ("/gone") set in config.json failed', 1),
        # Words about another command, and those that nobody knows: what remains so is the command's fault, too.
        ('OCI runtime exec failed: exec: "runc": no such file or directory', 5),
        (RACE, 5),
    ],
)
def test_a_command_that_never_starts_has_the_engines_words_as_its_output(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, code: int, said: str, times: int
) -> None:
    commands = Commands(bench, monkeypatch, *[(said, code, 0)] * 5)
    found = commands.run("agent")
    assert (found.exit_status, found.started, commands.output.decode()) == (code, False, said)
    assert len(commands.left) == 5 - times
    # With a process of its own it says so itself, whatever it prints.
    for status, pid in ((code, 7), (1, 0)):
        found = Commands(bench, monkeypatch, (said, status, pid)).run("agent")
        assert (found.exit_status, found.started) == (status, True)


@pytest.mark.parametrize(
    ("argv", "again"),
    [
        (("/bin/true",), True),
        (through_door(("/opt/agent",)), True),
        (through_door(("agent",)), True),
        ((PROGRAM, "serve", "scorer"), True),
        ((PROGRAM, "serve"), False),
        ((PROGRAM, "walk", "1", "/"), False),
        (door_command(3128, "/bench/proxy.sock"), False),
    ],
)
def test_our_program_is_put_in_anew_once_anything_of_others_ran(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], *, again: bool
) -> None:
    commands = Commands(bench, monkeypatch, ("", 0, 7))
    monkeypatch.setattr(commands.sandbox, "_first", File(PROGRAM, content=b""))
    commands.run(*argv)
    bench.client.asked.clear()
    assert commands.sandbox.ready_to_serve()
    assert bench.client.names == (["put_archive"] if again else [])


def test_without_room_no_command_can_start(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DiskFull, match="disk is full: write: no space"):
        Commands(bench, monkeypatch, ("write: no space left on device", 126, 0)).run("agent")
    for current in (33, 5):
        commands = Commands(
            bench, monkeypatch, *[("fork/exec: resource temporarily unavailable", 126, 0)] * 5
        )
        pids = {"pids_stats": {"current": current, "limit": 33}}
        bench.client.says["get"] = SimpleNamespace(json=lambda pids=pids: pids)
        if current == 33:
            with pytest.raises(EnvironmentFailed, match=r"limit of processes \(`pids`: 33\)"):
                commands.run("agent")
        else:
            assert not commands.run("agent").started


def test_output_that_ends_within_a_piece_is_lost_and_what_came_is_passed_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = Commands(bench, monkeypatch, (frame(b"whole") + frame(b"half of it")[:-3], 0, 7))
    with pytest.raises(OutputLost, match="broke before it ended, with status 0"):
        commands.run("agent")
    assert commands.output == b"wholehalf of"


def test_processes_that_the_kernel_killed_for_memory_are_those_since_the_command_began(bench: Bench) -> None:
    bench.events.counts["oom"] = 5
    assert _ended(bench, 1, ooms=3).oom_kills == 2
    assert _ended(bench, 0, ooms=6).oom_kills == 0
    assert bench.events.waited == []


@pytest.mark.parametrize(("code", "memory", "found"), [(1, 1 << 26, 1), (0, 1 << 26, 0), (1, None, 0)])
def test_news_of_memory_come_a_little_late_and_are_waited_for_where_they_may(
    bench: Bench, code: int, memory: int | None, found: int
) -> None:
    bench.events.counts["oom"], bench.events.late["oom"] = 2, 1
    assert _ended(bench, code, ooms=2, memory=memory).oom_kills == found


def test_for_a_command_that_was_killed_they_are_waited_for_longer(bench: Bench) -> None:
    _ended(bench, 1, memory=1 << 26)
    _ended(bench, 137, memory=1 << 26)
    (_, short), *_, (event, long) = bench.events.waited
    assert event == "oom"
    assert long > short > 0


def test_a_command_that_died_because_somebody_killed_the_container_is_no_result(bench: Bench) -> None:
    bench.events.late["kill"] = 1
    with pytest.raises(ContainerLost, match="something else"):
        _ended(bench, 137)
    bench.events.counts["kill"] = 0
    assert _ended(bench, 137).exit_status == 137
    bench.events.counts["kill"] = 1
    assert _ended(bench, 1).exit_status == 1


def test_a_container_that_we_killed_for_its_disk_was_not_lost(bench: Bench) -> None:
    sandbox = bench.sandbox(environment={"storage": 5})
    sandbox._over_storage()
    bench.events.counts["kill"] = 2
    found = sandbox._with_status(ExecResult(None, timed_out=False, seconds=1.0), 137, 0)
    assert found.exit_status == 137


def test_our_own_kills_are_told_from_those_of_others(bench: Bench) -> None:
    sandbox = bench.sandbox()
    sandbox.end_processes()
    bench.events.counts["kill"] = 1
    result = ExecResult(None, timed_out=False, seconds=1.0)
    assert sandbox._with_status(result, 137, 0).exit_status == 137
    bench.events.counts["kill"] = 2
    with pytest.raises(ContainerLost):
        sandbox._with_status(result, 137, 0)


def test_one_that_has_ended_is_not_killed_to_be_started_anew(bench: Bench) -> None:
    bench.client.says["inspect_container"] = {"State": {"Running": False, "ExitCode": 137}}
    sandbox = bench.sandbox()
    sandbox.end_processes()
    assert bench.client.names == ["inspect_container", "start"]
    bench.events.counts["kill"] = 1
    with pytest.raises(ContainerLost):
        sandbox._with_status(ExecResult(None, timed_out=False, seconds=1.0), 137, 0)


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ({"Running": True, "ExitCode": None, "Pid": 5}, None),
        ({"Running": False, "ExitCode": 3, "Pid": 5}, (3, 5)),
        ({"Running": False, "ExitCode": 0, "Pid": None}, (0, 0)),
    ],
)
def test_a_command_has_ended_when_the_engine_says_so(
    bench: Bench, state: Mapping[str, Any], found: tuple[int, int] | None
) -> None:
    bench.client.says["exec_inspect"] = state
    assert bench.sandbox()._status("e") == found


def test_an_engine_that_lost_a_command_lost_all(bench: Bench) -> None:
    bench.client.says["exec_inspect"] = {"Running": False, "ExitCode": None, "Pid": 0}
    with pytest.raises(EngineLost, match="did not report how the command ended"):
        bench.sandbox()._status("e")
    bench.client.says["exec_inspect"] = OutputLost("no such exec")
    with pytest.raises(EngineLost, match="was restarted while a command ran"):
        bench.sandbox()._status("e")
    bench.client.says["inspect_container"] = {"State": {"Running": False}}
    with pytest.raises(ContainerEnded):
        bench.sandbox()._status("e")
    bench.client.says["inspect_container"] = ContainerLost("removed")
    with pytest.raises(ContainerLost, match="removed"):
        bench.sandbox()._status("e")


# After the agent


def test_a_command_ends_with_a_container_that_was_ended_from_inside_and_not_with_one_that_was_started_anew(
    bench: Bench,
) -> None:
    death = bench.sandbox()._death()
    states = [
        {"Running": True, "ExitCode": 0},
        {"Running": False, "ExitCode": 0},
        {"Running": False, "ExitCode": 137},
    ]
    bench.client.says["inspect_container"] = [{"State": state} for state in states]
    assert (death(), bench.client.names) == (None, [])
    told = []
    for deaths in (1, 2, 3):
        bench.events.counts["die"] = deaths
        told.append(death())
    assert told == [None, None, (137, 0)]
    assert (death(), bench.client.names) == (None, ["inspect_container"] * 3)


def test_the_time_of_an_engine_elsewhere_is_what_it_says_now(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "local", False)
    bench.client.says |= {
        "inspect_container": {"Created": "2026-01-01T00:00:01Z"},
        "info": {"SystemTime": "2026-01-01T00:00:09.250000001Z"},
    }
    created, now = bench.sandbox().clock()
    assert now - created == 9.25  # a second of it before the container was made


def _row(pid: int, command: str, parent: int = 1) -> Process:
    return Process(pid, parent, "S", command.split()[0], command)


def test_what_is_adopted_is_the_scenarios_own(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [_row(5, "redis"), _row(6, "cron")]
    sandbox = bench.sandbox()
    monkeypatch.setattr(sandbox._processes, "others", lambda **_: rows)
    assert sandbox.adopt_processes() == ("redis", "cron")
    rows = [*rows, _row(7, "agent")]
    assert sandbox.processes() == ("agent",)
    assert sandbox.adopt_processes() == ("agent",)
    assert sandbox.processes() == ()
    rows = rows[:1]
    sandbox.adopt_processes()
    rows = [*rows, _row(6, "another")]  # a number may come again
    assert sandbox.processes() == ("another",)
    monkeypatch.setattr(sandbox._processes, "others", lambda **_: None)
    assert sandbox.processes() == ()


def test_commands_are_ended_by_what_they_were_given_and_those_that_went_are_named(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = bench.sandbox()
    listed = iter([[_row(5, "agent"), _row(6, "daemon")], [_row(6, "daemon")]])
    seen: list[bool] = []

    def others(*, seen_: bool = False, **more: bool) -> list[Process]:
        seen.append(more.get("seen", False))
        return next(listed)

    done: list[Any] = []
    program = File("/bench/program", content=b"")
    monkeypatch.setattr(sandbox, "_first", program)
    monkeypatch.setattr(sandbox, "_program", module._Program.DOUBTED)
    monkeypatch.setattr(sandbox._processes, "others", others)
    monkeypatch.setattr(sandbox, "put_from_outside", done.append)

    def run(argv: tuple[str, ...], *, user: str, **_: Any) -> ExecResult:
        done.append((*argv, user))
        return ExecResult(0, timed_out=False, seconds=1.0)

    monkeypatch.setattr(sandbox, "exec", run)
    assert sandbox.end_commands("BENCH_AGENT") == ("agent",)
    assert done == [[program], ("/bench/program", "end", "BENCH_AGENT", "root")]
    assert seen == [True, False]


def test_where_nothing_is_left_nothing_is_run_and_an_ended_container_is_started_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for left, asked in (([], []), (None, ["inspect_container", "kill", "start"])):
        sandbox = bench.sandbox()
        bench.client.asked.clear()
        monkeypatch.setattr(sandbox._processes, "others", lambda left=left, **_: left)
        assert sandbox.end_commands("BENCH_AGENT") == ()
        assert bench.client.names == asked


@pytest.mark.parametrize(
    ("state", "kills", "graded", "error"),
    [
        ({"Status": "exited", "ExitCode": 137}, 0, True, Ungradable),
        ({"Status": "exited", "ExitCode": 1}, 0, True, ContainerLost),
        ({"Status": "running", "ExitCode": 137}, 0, True, ContainerLost),
        ({"Status": "exited", "ExitCode": 137}, 1, True, ContainerLost),
        ({"Status": "exited", "ExitCode": 137}, 0, False, ContainerLost),
        (ContainerLost("gone"), 0, True, ContainerLost),
    ],
)
def test_who_ended_a_container_while_it_was_graded(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    state: Any,
    kills: int,
    graded: bool,
    error: type[Exception],
) -> None:
    sandbox = bench.sandbox()
    if graded:
        monkeypatch.setattr(sandbox._processes, "others", lambda **_: [])
        sandbox.end_commands("X")
    bench.events.counts["kill"] = kills
    bench.client.says["inspect_container"] = {"State": state} if isinstance(state, dict) else state
    bench.client.says["put_archive"] = ContainerEnded("it has ended")
    with pytest.raises(error):
        sandbox.put(())


# Network


@pytest.mark.parametrize(("wanted", "other"), [("public", "none"), ("none", "public")])
def test_a_network_is_changed_for_another(bench: Bench, wanted: Any, other: Any) -> None:
    sandbox = bench.sandbox()
    sandbox.set_network("none")
    assert bench.client.asked == [], "it has that already"
    sandbox.set_network(other)
    bench.client.asked.clear()
    sandbox.set_network(wanted)
    assert bench.client.asked == [
        ("disconnect_container_from_network", "c", f"net-{other}"),
        ("connect_container_to_network", "c", f"net-{wanted}"),
    ]
    assert sandbox.notes == ("open to all",), "it had that, or has it"


@pytest.mark.parametrize("times", [1, 3, 4])
def test_a_network_that_others_removed_is_looked_for_again_but_not_for_ever(bench: Bench, times: int) -> None:
    forgotten: list[None] = []
    bench.services.network.forget = lambda: forgotten.append(None)
    bench.client.says["connect_container_to_network"] = [*[NetworkGone("gone")] * times, None]
    if times > 3:
        with pytest.raises(NetworkGone):
            bench.sandbox().set_network("public")
    else:
        bench.sandbox().set_network("public")
    assert len(forgotten) == min(times, 3)


def test_a_network_that_cannot_be_had_is_an_error(bench: Bench) -> None:
    bench.client.says["connect_container_to_network"] = EngineRefused("sick")
    with pytest.raises(EngineRefused, match="sick"):
        bench.sandbox().set_network("public")
    with pytest.raises(EngineError, match="was not started for the network `allowlist`"):
        bench.sandbox().set_network("allowlist", ("a.org",))


# Its end


@pytest.mark.parametrize("error", [None, EngineLost("gone"), OSError("gone")])
def test_a_container_is_removed_once_and_forgotten_only_when_it_is_gone(
    bench: Bench, error: Exception | None
) -> None:
    bench.client.says["remove_container"] = [error, None]
    sandbox = bench.sandbox()
    sandbox.remove()
    assert bench.forgotten == ([] if error else ["c"])
    sandbox.remove()
    assert len(bench.client.asked) == (2 if error else 1)
    assert bench.forgotten == ["c"]


def test_one_that_was_killed_takes_no_further_call(bench: Bench) -> None:
    sandbox = bench.sandbox()
    bench.client.says["kill"] = EngineRefused("whatever")
    threading.Thread(target=sandbox.kill).run()
    assert bench.client.names == ["kill"]
    for call in (lambda: sandbox.put(()), sandbox.processes, sandbox.cpu_seconds):
        with pytest.raises(ContainerLost, match="was killed to stop the trial"):
            call()
    sandbox.signal(7, "TERM")
    assert bench.client.names == ["kill"]


@pytest.mark.parametrize(("answers", "runs"), [(True, True), (False, True), (False, False)])
def test_a_container_is_started_anew_only_if_its_first_process_does_not_end_the_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, answers: bool, runs: bool
) -> None:
    sandbox = bench.sandbox()
    bench.client.says["inspect_container"] = {"State": {"Running": runs, "ExitCode": 137}}
    sandbox._first = File("/bench/program", content=b"")
    monkeypatch.setattr(sandbox._processes, "end_all", lambda: answers)
    sandbox.end_processes()
    anew = ["inspect_container", *(["kill"] if runs else []), "put_archive", "start"]
    assert bench.client.names == ([] if answers else anew)
    assert sandbox.notes == ()
