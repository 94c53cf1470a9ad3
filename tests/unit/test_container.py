"""One container, by what an engine may say of it: errors and their classes, what is watched, and its end."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import docker.errors
import pytest

from pytest_benchjobs.model.errors import (
    ContainerLost,
    ContainerStartFailed,
    DiskFull,
    EngineError,
    EngineLost,
    EnvironmentFailed,
    InfrastructureError,
    Ungradable,
)
from pytest_benchjobs.model.result import ImageRecord
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker import container as module
from pytest_benchjobs.sandbox.docker.container import DockerSandbox, NetworkGone
from pytest_benchjobs.sandbox.docker.engine import Engine
from pytest_benchjobs.sandbox.docker.images import ResolvedImage
from pytest_benchjobs.sandbox.docker.network import Joinable
from pytest_benchjobs.sandbox.docker.processes import Process
from pytest_benchjobs.sandbox.protocol import Changed, ExecResult, File, SandboxSpec

IMAGE = ResolvedImage(
    "sha256:1", ImageRecord(reference="x", id="sha256:1"), "/app", "me", (), {"PATH": "/bin"}
)


def refusal(text: str, kind: type[Exception] = docker.errors.APIError, status: int = 500) -> Exception:
    answer = SimpleNamespace(status_code=status)
    return kind("refused", response=answer, explanation=text)  # type: ignore[call-arg]


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
            {},
            self.events,
            None,
            None,  # type: ignore[arg-type]
        )


@pytest.fixture
def bench() -> Bench:
    client, engine = Client(), Engine()
    engine._client = client  # type: ignore[assignment]
    forgotten: list[str] = []
    watched: list[tuple[Any, ...]] = []
    storage = SimpleNamespace(add=lambda *what: watched.append(what))
    network = SimpleNamespace(
        of=lambda wanted, image: Joinable(f"net-{wanted}", "open to all" if wanted == "public" else None)
    )
    services = SimpleNamespace(engine=engine, storage=storage, forget=forgotten.append, network=network)
    return Bench(client, Events(), services, forgotten, watched)


# Its beginning


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            refusal("No such container: c", docker.errors.NotFound),
            ContainerLost,
            "was removed before it started",
        ),
        (refusal("network abc not found", docker.errors.NotFound), NetworkGone, "network abc"),
        (
            refusal("no such shim", docker.errors.NotFound),
            ContainerStartFailed,
            "does not start: no such shim",
        ),
        (refusal("mkdir: no space left on device"), DiskFull, "disk is full"),
        (refusal("exec format error"), ContainerStartFailed, "does not start: exec format error"),
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
    assert bench.client.names[2:] == ["kill", "diff", "start"]


def test_without_files_or_limits_nothing_is_put_or_watched(bench: Bench) -> None:
    bench.sandbox().begin()
    assert (bench.client.names, bench.watched) == (["start"], [])


# How a command ended


def _ended(
    bench: Bench, code: int, *, pid: int = 7, head: str = "", ooms: int = 0, **environment: Any
) -> ExecResult:
    result = ExecResult(None, timed_out=False, seconds=1.0)
    return bench.sandbox(environment=environment)._with_status(result, code, pid, head, ooms)


@pytest.mark.parametrize("code", [126, 127, 128])
@pytest.mark.parametrize(
    ("output", "error"),
    [
        ('OCI runtime exec failed: exec: "x": executable file not found in $PATH', None),
        ("x: Permission denied", None),
        ("unable to find user nobody-here", None),
        ("write: no space left on device", DiskFull),
        ("fork/exec: resource temporarily unavailable", EnvironmentFailed),
        ("cgroup is gone", EngineError),
    ],
)
def test_why_a_command_was_never_started(
    bench: Bench, code: int, output: str, error: type[Exception] | None
) -> None:
    if error is None:
        found = _ended(bench, code, pid=0, head=output)
        assert (found.exit_status, found.started) == (code, False)
    else:
        with pytest.raises(error):
            _ended(bench, code, pid=0, head=output)
    # With a process of its own it says so itself, whatever it prints.
    found = _ended(bench, code, head=output)
    assert (found.exit_status, found.started) == (code, True)


def test_a_status_that_only_commands_have_is_theirs_without_a_process_too(bench: Bench) -> None:
    found = _ended(bench, 1, pid=0, head="cgroup is gone")
    assert (found.exit_status, found.started) == (1, True)


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
    found = sandbox._with_status(ExecResult(None, timed_out=False, seconds=1.0), 137, 7, "", 0)
    assert found.exit_status == 137


def test_our_own_kills_are_told_from_those_of_others(bench: Bench) -> None:
    sandbox = bench.sandbox()
    sandbox.end_processes()
    bench.events.counts["kill"] = 1
    result = ExecResult(None, timed_out=False, seconds=1.0)
    assert sandbox._with_status(result, 137, 7, "", 0).exit_status == 137
    bench.events.counts["kill"] = 2
    with pytest.raises(ContainerLost):
        sandbox._with_status(result, 137, 7, "", 0)


def test_a_kill_of_one_that_had_ended_counts_for_nobody(bench: Bench) -> None:
    bench.client.says["kill"] = refusal("container c is not running")
    sandbox = bench.sandbox()
    sandbox.end_processes()
    bench.events.counts["kill"] = 1
    with pytest.raises(ContainerLost):
        sandbox._with_status(ExecResult(None, timed_out=False, seconds=1.0), 137, 7, "", 0)


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
    bench.client.says["exec_inspect"] = refusal("No such exec instance", docker.errors.NotFound, 404)
    with pytest.raises(EngineLost, match="was restarted while a command ran"):
        bench.sandbox()._status("e")
    bench.client.says["inspect_container"] = refusal("No such container: c", docker.errors.NotFound, 404)
    with pytest.raises(ContainerLost):
        bench.sandbox()._status("e")


# After the agent


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

    ran: list[tuple[Any, Any]] = []
    monkeypatch.setattr(sandbox._processes, "others", others)
    monkeypatch.setattr(sandbox, "exec", lambda argv, **more: ran.append((argv, more["user"])))
    assert sandbox.end_commands("BENCH_AGENT") == ("agent",)
    ((argv, user),) = ran
    assert (argv[-1], user) == ("BENCH_AGENT", "root")
    assert seen == [True, False]


def test_where_nothing_is_left_nothing_is_run_and_an_ended_container_is_started_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for left, asked in (([], []), (None, ["kill", "diff", "start"])):
        sandbox = bench.sandbox()
        bench.client.asked.clear()
        monkeypatch.setattr(sandbox._processes, "others", lambda left=left, **_: left)
        assert sandbox.end_commands("BENCH_AGENT") == ()
        assert bench.client.names == asked


def test_what_changed_is_told_unless_it_began_with_what_was_kept(bench: Bench) -> None:
    bench.client.says["diff"] = (
        {"Path": "/app/new", "Kind": 1},
        {"Path": "/app", "Kind": 0},
        {"Path": "/x", "Kind": 1},
    )
    assert bench.sandbox().changed("/app") == Changed(("/app/new",), ())
    assert bench.sandbox(kept="benchjobs-kept:x").changed("/app") is None


def test_programs_are_put_back_once_as_long_as_nothing_runs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([("/bin/sh", "/bin/ls"), ("/bin/ls", "/bin/cat")])
    monkeypatch.setattr(module, "restore", lambda *_: next(found))
    bench.client.says["diff"] = ({"Path": "/etc/x", "Kind": 1},)
    sandbox = bench.sandbox()
    assert sandbox.elsewhere() is None
    assert sandbox.restore_programs() == sandbox.restore_programs() == ("/bin/sh", "/bin/ls")
    assert sandbox.elsewhere() == ("/etc/x",)
    bench.client.says["exec_create"] = refusal("no")
    with pytest.raises(EngineError):
        sandbox.exec(["x"], timeout=1, sink=lambda _: None)
    assert sandbox.restore_programs() == ("/bin/sh", "/bin/ls", "/bin/cat")
    assert bench.client.names.count("diff") == 2


def test_what_was_there_when_it_settled_and_what_was_put_in_is_not_undone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, int]] = []
    monkeypatch.setattr(module, "restore", lambda *arguments: given.append(dict(arguments[-1])) or ())
    sandbox = bench.sandbox(files=(File("/opt/tool", content=b""), File("data", content=b"")))
    bench.client.says["diff"] = (
        {"Path": "/etc", "Kind": 0},
        {"Path": "/etc/own", "Kind": 1},
    )
    sandbox.settle()
    more = ["/opt", "/opt/tool", "/app", "/app/data", "/usr/bin", "/usr/bin/ls", "/etc/hosts"]
    bench.client.says["diff"] = (*bench.client.says["diff"], *({"Path": path, "Kind": 0} for path in more))
    sandbox.restore_programs()
    # A directory that changed because of what is in it is looked at again; what settled in it is not.
    assert set(given[0]) == {"/etc", "/opt", "/app", "/usr/bin", "/usr/bin/ls", "/etc/hosts"}
    assert sandbox.elsewhere() == ("/etc/hosts", "/usr/bin/ls")


@pytest.mark.parametrize(
    ("state", "kills", "graded", "error"),
    [
        ({"Status": "exited", "ExitCode": 137}, 0, True, Ungradable),
        ({"Status": "exited", "ExitCode": 3}, 0, True, Ungradable),
        ({"Status": "exited", "ExitCode": 1}, 0, True, ContainerLost),
        ({"Status": "running", "ExitCode": 137}, 0, True, ContainerLost),
        ({"Status": "exited", "ExitCode": 137}, 1, True, ContainerLost),
        ({"Status": "exited", "ExitCode": 137}, 0, False, ContainerLost),
        (refusal("gone", docker.errors.NotFound, 404), 0, True, ContainerLost),
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
    bench.client.says["diff"] = refusal("container c is not running", status=409)
    with pytest.raises(error):
        sandbox.changed("/app")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("mkdir /app/x: not a directory", Ungradable),
        ("too many levels of symbolic links", Ungradable),
        ("cannot allocate memory", EngineError),
    ],
)
def test_a_container_that_does_not_start_again_is_the_agents_doing_if_it_says_so(
    bench: Bench, text: str, error: type[Exception]
) -> None:
    bench.client.says["start"] = refusal(text)
    with pytest.raises(error):
        bench.sandbox().end_processes()


# Network


@pytest.mark.parametrize(("wanted", "other"), [("public", "none"), ("none", "public")])
def test_a_network_is_changed_for_another(bench: Bench, wanted: Any, other: str) -> None:
    sandbox = bench.sandbox()
    bench.client.says["disconnect_container_from_network"] = refusal("is not connected")
    bench.client.says["connect_container_to_network"] = [None, refusal("endpoint already exists in network")]
    for _ in range(2):
        sandbox.set_network(wanted)
    assert (
        bench.client.asked
        == [
            ("disconnect_container_from_network", "c", f"net-{other}"),
            ("connect_container_to_network", "c", f"net-{wanted}"),
        ]
        * 2
    )
    assert sandbox.notes == (("open to all",) if wanted == "public" else ())


@pytest.mark.parametrize("times", [1, 3])
def test_a_network_that_others_removed_is_looked_for_again(bench: Bench, times: int) -> None:
    gone = refusal("network net-public not found", docker.errors.NotFound, 404)
    forgotten: list[None] = []
    bench.services.network.forget = lambda: forgotten.append(None)
    bench.client.says["connect_container_to_network"] = [*[gone] * times, None]
    bench.sandbox().set_network("public")
    assert len(forgotten) == times


def test_a_network_that_others_keep_removing_is_an_error(bench: Bench) -> None:
    gone = refusal("network net-public not found", docker.errors.NotFound, 404)
    forgotten: list[None] = []
    bench.services.network.forget = lambda: forgotten.append(None)
    bench.client.says["connect_container_to_network"] = [gone] * 4
    with pytest.raises(InfrastructureError, match="net-public not found"):
        bench.sandbox().set_network("public")
    assert len(forgotten) == 3


def test_a_network_that_cannot_be_had_is_an_error(bench: Bench) -> None:
    bench.client.says["connect_container_to_network"] = refusal("no such network")
    with pytest.raises(EngineError, match="no such network"):
        bench.sandbox().set_network("public")
    with pytest.raises(EngineError, match="was not started for the network `allowlist`"):
        bench.sandbox().set_network("allowlist", ("a.org",))


# Its end


@pytest.mark.parametrize(
    ("said", "calls", "gone"),
    [
        ([], 1, True),
        ([refusal("No such container", docker.errors.NotFound)], 1, True),
        ([refusal("removal of container c is already in progress"), None], 2, True),
        ([refusal("removal of container c is already in progress")] * 5, 5, False),
        ([refusal("device busy"), None], 2, True),
        ([refusal("device busy")] * 5, 5, False),
        ([OSError("gone")], 1, False),
    ],
)
def test_a_container_is_removed_once_and_forgotten_only_when_it_is_gone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, said: list[Any], calls: int, gone: bool
) -> None:
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    bench.client.says["remove_container"] = said
    sandbox = bench.sandbox()
    sandbox.remove()
    assert len(bench.client.asked) == calls
    assert bench.forgotten == (["c"] if gone else [])
    sandbox.remove()
    assert len(bench.client.asked) == (calls if gone else calls + 1)
    assert bench.forgotten == ["c"]


def test_one_that_was_killed_takes_no_further_call(bench: Bench) -> None:
    sandbox = bench.sandbox()
    bench.client.says["kill"] = refusal("whatever")
    threading.Thread(target=sandbox.kill).run()
    assert bench.client.names == ["kill"]
    for call in (lambda: sandbox.changed("/app"), sandbox.processes, sandbox.cpu_seconds):
        with pytest.raises(ContainerLost, match="was killed to stop the trial"):
            call()
    sandbox.signal(7, "TERM")
    assert bench.client.names == ["kill"]


@pytest.mark.parametrize(
    ("state", "late", "why"),
    [
        ({"Running": True, "ExitCode": 0}, True, None),
        ({"Running": True, "ExitCode": 0}, False, "its first process did not answer"),
        ({"Running": False, "ExitCode": 3}, False, "/dev had been changed in it"),
        ({"Running": False, "ExitCode": 137}, False, "it had ended"),
        ({"Running": False, "ExitCode": 137}, True, "it had ended"),
    ],
)
def test_a_new_start_before_grading_is_told_unless_it_is_that_of_a_command_that_came_too_early(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, state: dict[str, object], late: bool, why: str | None
) -> None:
    sandbox = bench.sandbox()
    bench.client.says["inspect_container"] = {"State": state}
    sandbox._first, sandbox._watches, sandbox._late = File("/bench/first", content=b""), not late, late
    asked: list[bool] = []
    monkeypatch.setattr(sandbox._processes, "end_all", lambda: asked.append(True))
    sandbox.end_processes()
    assert bench.client.names == ["inspect_container", "kill", "diff", "put_archive", "start"]
    # One that has looked too late is not asked: it cannot tell.
    assert len(asked) == (0 if late else 1)
    told = f"the container had to be started again before grading, because {why}: /dev/shm is empty, "
    assert [note.startswith(told) for note in sandbox.notes] == ([] if why is None else [True])


@pytest.mark.parametrize("looks", [True, False])
def test_a_container_in_which_nothing_ran_waits_for_its_first_process_and_accuses_nobody(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, looks: bool
) -> None:
    sandbox = bench.sandbox()
    sandbox._first, sandbox._watches = File("/bench/first", content=b""), None
    bench.client.says["inspect_container"] = {"State": {"Running": True, "ExitCode": 0}}
    order: list[object] = []

    def has_looked(patience: float) -> bool:
        order.append(patience)
        return looks

    def end_all() -> bool:
        order.append("end")
        return True

    monkeypatch.setattr(sandbox._processes, "has_looked", has_looked)
    monkeypatch.setattr(sandbox._processes, "end_all", end_all)
    sandbox.end_processes()
    assert order == ([15.0, "end"] if looks else [15.0])
    assert list(sandbox.notes) == []
    assert ("start" in bench.client.names) is not looks
