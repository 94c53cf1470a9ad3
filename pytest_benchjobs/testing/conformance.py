"""Tests that a provider of sandboxes keeps its promises, for those who write one.

    class TestMine(SandboxConformance):
        make = MyProvider

and `pytest test_mine.py`. What `lacks` names is tried where that harms nobody, and has to fail; else it is skipped with
the reason. Everything that it does not name has to hold. At the end a table says which promises were kept, and which were
shown not to be; `BENCHJOBS_PROMISES=FILE` has it written to a file, too. The image has to have a shell and the usual
small programs of a Linux system, Bash too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import inspect
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ..model.endpoint import GATEWAY_PORT
from ..model.errors import ContainerLost, EnvironmentFailed, InfrastructureError
from ..model.owner import current_owner
from ..model.scenario import Environment
from ..sandbox.carry.transfer import carry
from ..sandbox.door import SOCKET, door_file, through_door
from ..sandbox.program import program_file
from ..sandbox.protocol import (
    ExecResult,
    File,
    HasServices,
    ImageRequest,
    Mount,
    Promise,
    Sandbox,
    SandboxProvider,
    SandboxSpec,
    Stopping,
    Watches,
)
from ..sandbox.runner import can_serve, serving
from ..scoring.bench_run import BENCH_RUN, BenchRun

Start = Callable[..., Sandbox]
_MADE = pytest.StashKey[dict[type, SandboxProvider]]()
_PATIENCE = 60.0
_MB = 1 << 20
_LARGE = 100 * _MB
_OWNED = """
import importlib.util, sys
spec = importlib.util.find_spec({module!r}) or importlib.util.spec_from_file_location({module!r}, {file!r})
module = importlib.util.module_from_spec(spec)
sys.modules[{module!r}] = module
spec.loader.exec_module(module)
from pytest_benchjobs.testing.conformance import made_by
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.protocol import SandboxSpec
environment = Environment(**{environment!r})
sandbox = made_by(module.{name}).start(SandboxSpec(environment, {{}}, environment.network, 600), lambda phase: None)
print(sandbox.id, flush=True)
sandbox.exec(["sleep", "500"], timeout=500, sink=lambda data: None)
"""
_ODD = r"""
mkdir -p tree/deep/er; cd tree; echo one > plain; ln plain hard; ln -s plain soft; mkdir empty
echo x > "$(printf 'line\nbreak')"; echo x > "$(printf 'not\377utf8')"; echo x > "$(printf '%0255d' 7)"
truncate -s 1G sparse; printf end >> sparse; chmod 711 plain; echo d > deep/er/file; mkfifo pipe
"""
_LIST = (
    "cd tree && find . ! -name pipe -printf '%p %y %m %s %l\\n' | LC_ALL=C sort; tail -c 3 sparse; cat hard"
)

_GREEDY = "head -c 200M /dev/zero | tail > /dev/null"
"""Takes that much memory, and no more where there is no limit."""
_BUSY = "for n in 1 2 3 4 5 6 7 8; do timeout 2 sh -c 'while :; do :; done' & done; wait; times"
"""So many that together they get a good part of a processor where others work, too."""
_SERVICES = """
services:
  beside: {image: %s, command: [/bin/sh, -c, "echo by a service > /said; exec sleep 300"]}
"""
_ASKS = """
printf given | /bench/bench-run --stdin - -- /bin/sh -c 'cat; pwd; cat own; ls /only-here; exit 7' 2> said; echo "status $?"
grep -o only-here said; /bench/bench-run --timeout 1 -- sleep 60; echo "late $?"
"""


def promise(one: Promise, *, harmless: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a test one of a promise: it is skipped where a provider lacks that.

    `harmless`: it does no harm without the promise, and soon fails. So there it runs, and has to fail.
    """

    def mark(test: Callable[..., None]) -> Callable[..., None]:
        test.promise, test.harmless = one, harmless  # type: ignore[attr-defined]
        return test

    return mark


def sh(sandbox: Sandbox, script: str, **how: Any) -> tuple[ExecResult, str]:
    """Run a shell script; returns its result, and what it printed."""
    output = bytearray()
    result = sandbox.exec(["/bin/sh", "-c", script], **{"timeout": _PATIENCE, **how}, sink=output.extend)
    return result, output.decode("utf-8", "backslashreplace")


def out(sandbox: Sandbox, script: str, **how: Any) -> str:
    """Run a shell script that has to succeed; returns what it printed."""
    result, output = sh(sandbox, script, **how)
    assert result.exit_status == 0, (result, output)
    return output


def until(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + _PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


def made_by(kind: Any) -> SandboxProvider:
    """Make a provider of this class for this process, with its usual settings if it has any."""
    settings = [kind.Settings()] if hasattr(kind, "Settings") else []
    provider: SandboxProvider = kind(current_owner(), *settings)
    return provider


class _Table:
    """Tells at the end of a session what each provider kept."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the result of a test."""
        told = dict(report.user_properties)
        lacks = told.get("lacks")
        if "promise" not in told or not (report.when == "call" or report.failed or lacks):
            return
        row = self.rows.setdefault(str(told["provider"]), {})
        name = str(told["promise"])
        if report.failed:
            state = "BROKEN"
        elif lacks:
            state = f"lacks, as was shown: {lacks}" if hasattr(report, "wasxfail") else f"lacks: {lacks}"
        elif report.passed:
            state = "kept"
        else:
            return
        row[name] = min(state, row.get(name, state))  # in the order of their letters the worst comes first

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table."""
        lines = []
        for provider, row in self.rows.items():
            terminalreporter.section(f"promises of {provider}")
            for name, state in sorted(row.items()):
                terminalreporter.line(f"{name:18} {state}")
                lines.append(f"{provider}\t{name}\t{state}\n")
        if path := os.environ.get("BENCHJOBS_PROMISES"):
            Path(path).write_text("".join(lines), "utf-8")


class SandboxConformance:
    """What every kind of sandboxes does, but for what its provider `lacks`."""

    make: ClassVar[Any]
    """The provider's class, which can be imported: a process that is killed makes one, too."""
    environment: ClassVar[Mapping[str, Any]] = {"image": "debian:bookworm-slim"}
    """Keys of a scenario's environment that all sandboxes have."""
    other_user: ClassVar[str] = "nobody"
    """A user of the image beside root."""
    runtime: ClassVar[str | None] = None
    """Runtime that all sandboxes have; None: the engine's own."""

    def end_behind_its_back(self, provider: SandboxProvider, sandbox: Sandbox) -> None:
        """Remove what is behind a sandbox, as somebody else would."""
        pytest.skip("nothing else can remove it")

    def left(self, sandbox: str) -> bool:
        """Return True if anything of a sandbox with this id is still there."""
        pytest.skip("what is left of it is not seen from here")

    @pytest.fixture
    def surroundings(self) -> None:
        """What has to be there before the provider is made, such as variables: for a class to override."""

    @pytest.fixture
    def provider(self, request: pytest.FixtureRequest, surroundings: None) -> SandboxProvider:
        """The provider. There is one for all tests of a class."""
        made = request.config.stash.setdefault(_MADE, {})
        kind = type(self)
        if kind not in made:
            made[kind] = made_by(kind.make)
            request.node.getparent(pytest.Class).addfinalizer(lambda: made.pop(kind).close())
            made[kind].check()
        return made[kind]

    @pytest.fixture(autouse=True)
    def _promised(self, request: pytest.FixtureRequest, provider: SandboxProvider) -> None:
        """Skip a test of what the provider lacks, or expect it to fail; note the others for the table."""
        plugins = request.config.pluginmanager
        if not plugins.hasplugin("benchjobs-promises"):
            plugins.register(_Table(), "benchjobs-promises")
        one: Promise | None = getattr(request.function, "promise", None)
        name, reason = type(self).__name__, None if one is None else provider.lacks(self.runtime).get(one)
        request.node.user_properties += [
            ("provider", name),
            ("promise", str(one or "always")),
            ("lacks", reason),
        ]
        if reason is None:
            return
        if not request.function.harmless:
            pytest.skip(f"{name} lacks {one}: {reason}")
        why = f"{name} says that it lacks {one}: {reason}"
        # Any other error is one of the test.
        fails = pytest.mark.xfail(reason=why, raises=(AssertionError, InfrastructureError), strict=True)
        request.node.add_marker(fails)

    @pytest.fixture
    def start(self, provider: SandboxProvider) -> Iterator[Start]:
        """Starts sandboxes of files, with keys of an environment, and removes them."""
        with contextlib.ExitStack() as stack:

            def begin(
                *files: File, deadline: float = 300.0, mounts: tuple[Mount, ...] = (), **keys: Any
            ) -> Sandbox:
                more = {name: keys.pop(name) for name in ("kept", "allowed_hosts", "limited") if name in keys}
                wanted = {"workdir": "/app", "network": "none", **self.environment, **keys}
                environment = Environment.model_validate(wanted)
                labels = {"job": "conformance", "trial": "one"}
                spec = SandboxSpec(
                    environment,
                    labels,
                    environment.network,
                    deadline,
                    files,
                    mounts=mounts,
                    runtime=self.runtime,
                    **more,
                )
                phases: list[str] = []
                sandbox = provider.start(spec, phases.append)
                stack.callback(sandbox.remove)
                assert [phases[0], phases[-1]] == ["image", "start"]
                return sandbox

            yield begin

    @pytest.fixture
    def sandbox(self, start: Start) -> Sandbox:
        """A sandbox without network."""
        return start()

    # Commands

    def test_a_command_has_its_exit_status_and_its_output(self, sandbox: Sandbox) -> None:
        alone = bytearray()
        result, both = sh(sandbox, "echo out; sleep 0.3; echo err >&2; exit 3", stdout=alone.extend)
        assert (result.exit_status, result.timed_out, result.started) == (3, False, True)
        assert (bytes(alone), sorted(both.split())) == (b"out\n", ["err", "out"])

    @promise(Promise.ISOLATION)
    def test_a_command_has_its_directory_variables_and_no_input(self, start: Start) -> None:
        sandbox = start(env={"A": "of the environment"})
        where, *said = out(sandbox, "pwd; echo $A; cat").split("\n")
        assert (where.endswith(sandbox.workdir), said) == (True, ["of the environment", ""])
        given = {"workdir": "/tmp", "env": {"A": "of the\ncommand", "B": ""}}
        assert out(sandbox, 'pwd; echo "$A"; echo ${B-unset}', **given) == "/tmp\nof the\ncommand\n\n"

    @promise(Promise.ISOLATION)
    def test_a_program_that_is_not_there_is_told_apart(self, sandbox: Sandbox) -> None:
        result = sandbox.exec(["/no/such/program"], timeout=_PATIENCE, sink=lambda _: None)
        assert not result.started or result.exit_status in (126, 127)
        assert out(sandbox, "echo alive") == "alive\n"

    @promise(Promise.USERS, harmless=True)
    def test_a_command_runs_as_its_user(self, sandbox: Sandbox) -> None:
        assert out(sandbox, "id -un") == "root\n"
        assert out(sandbox, "id -un", user=self.other_user, workdir="/") == f"{self.other_user}\n"

    def test_output_of_any_size_comes_whole(self, sandbox: Sandbox) -> None:
        count = 0

        def sink(data: bytes) -> None:
            nonlocal count
            count += len(data)

        result = sandbox.exec(["head", "-c", str(_LARGE), "/dev/zero"], timeout=10 * _PATIENCE, sink=sink)
        assert (result.exit_status, count) == (0, _LARGE)

    def test_a_command_that_closes_its_output_is_waited_for(self, sandbox: Sandbox) -> None:
        result, output = sh(sandbox, "exec >&- 2>&-; sleep 0.7; exit 7")
        assert (result.exit_status, output) == (7, "")
        assert result.seconds > 0.5

    def test_a_command_times_out(self, sandbox: Sandbox) -> None:
        result, output = sh(sandbox, "echo first; sleep 60", timeout=2)
        assert (result.exit_status, result.timed_out, output) == (None, True, "first\n")

    def test_a_command_that_is_silent_times_out(self, sandbox: Sandbox) -> None:
        result, output = sh(sandbox, "for n in 1 2 3 4; do echo $n; sleep 0.5; done; sleep 60", silent=2)
        assert (result.silent, result.timed_out, output) == (True, True, "1\n2\n3\n4\n")

    def test_a_command_is_asked_to_end_before_it_is_killed(self, sandbox: Sandbox) -> None:
        output = bytearray()

        def ask(name: str) -> None:
            sandbox.signal(int(output.split()[0]), name)

        stopping = Stopping(lambda: b"\n" in output, ask, (("INT", 5.0), ("TERM", 20.0)))
        # The shell says of its child that it was terminated, before or after that.
        script = "exec 2>/dev/null; trap '' INT; trap 'echo asked; exit 5' TERM; echo $$; while :; do sleep 0.1; done"
        result = sandbox.exec(
            ["/bin/sh", "-c", script], timeout=_PATIENCE, sink=output.extend, stopping=stopping
        )
        assert (result.exit_status, result.stopped, b"asked" in output.split()) == (5, True, True)

    def test_the_machine_is_the_one_that_programs_are_for(
        self, provider: SandboxProvider, sandbox: Sandbox
    ) -> None:
        assert out(sandbox, "uname -m").strip() == provider.machine()

    # Processes

    @promise(Promise.DAEMONS)
    def test_what_runs_in_the_background_is_listed_and_ended(self, sandbox: Sandbox) -> None:
        out(
            sandbox,
            "nohup sleep 400 >/dev/null 2>&1 & (setsid sh -c 'setsid sleep 401 & sleep 402' >/dev/null 2>&1 &)",
        )
        until(lambda: {"sleep 400", "sleep 401", "sleep 402"} <= {*sandbox.processes()})
        sandbox.end_processes()
        assert sandbox.processes() == ()
        assert out(sandbox, "echo alive") == "alive\n"

    @promise(Promise.DAEMONS)
    def test_what_is_adopted_is_not_the_agents(self, sandbox: Sandbox) -> None:
        out(sandbox, "nohup sleep 410 >/dev/null 2>&1 &")
        until(lambda: "sleep 410" in sandbox.processes())
        assert sandbox.adopt_processes() == ("sleep 410",)
        assert sandbox.processes() == ()
        out(sandbox, "nohup sleep 411 >/dev/null 2>&1 &")
        until(lambda: sandbox.processes() == ("sleep 411",))

    @promise(Promise.DAEMONS, harmless=True)
    def test_commands_are_ended_by_their_variable_and_daemons_are_not(self, sandbox: Sandbox) -> None:
        sh(sandbox, "nohup sleep 421 >/dev/null 2>&1 & sleep 422", timeout=2, env={"MARK": "1"})
        assert {"sleep 421", "sleep 422"} <= {*sandbox.processes()}
        sandbox.end_commands("MARK")
        assert sandbox.processes() == ("sleep 421",)

    @promise(Promise.ISOLATION)
    def test_killing_from_another_thread_ends_a_call(self, sandbox: Sandbox) -> None:
        thread = threading.Thread(target=sandbox.kill)
        began = time.monotonic()
        with pytest.raises(ContainerLost):
            sandbox.exec(["sh", "-c", "echo begun; sleep 300"], timeout=300, sink=lambda _: thread.start())
        thread.join()
        assert time.monotonic() - began < _PATIENCE

    def test_one_that_somebody_removes_is_an_error_and_no_status(
        self, provider: SandboxProvider, sandbox: Sandbox
    ) -> None:
        def remove(_: bytes) -> None:
            self.end_behind_its_back(provider, sandbox)

        with pytest.raises(ContainerLost):
            sandbox.exec(["sh", "-c", "echo begun; sleep 300"], timeout=300, sink=remove)
        with pytest.raises(ContainerLost):
            sh(sandbox, "true")

    def test_one_that_was_removed_runs_nothing(self, sandbox: Sandbox) -> None:
        sandbox.remove()
        sandbox.remove()
        with pytest.raises((InfrastructureError, OSError)):
            sh(sandbox, "true")

    def test_what_a_process_that_was_killed_had_is_removed(self, provider: SandboxProvider) -> None:
        kind = type(provider)
        environment = {"workdir": "/app", "network": "none", **self.environment}
        script = _OWNED.format(
            module=kind.__module__, file=inspect.getfile(kind), name=kind.__name__, environment=environment
        )
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            sandbox = process.stdout.readline().strip()
            os.kill(process.pid, signal.SIGKILL)
        assert sandbox

        def is_gone() -> bool:
            provider.sweep()
            return not self.left(sandbox)

        until(is_gone)

    # Files

    @promise(Promise.ISOLATION)
    def test_files_are_put_in_before_the_start_and_after(self, start: Start, tmp_path: Path) -> None:
        (tmp_path / "tree" / "deep").mkdir(parents=True)
        (tmp_path / "tree" / "deep" / "run.sh").write_text("#!/bin/sh\necho ran\n")
        (tmp_path / "tree" / "deep" / "run.sh").chmod(0o755)
        (tmp_path / "tree" / "link").symlink_to("deep/run.sh")
        sandbox = start(File("in.txt", content=b"in"), File("/tests", source=tmp_path / "tree"))
        assert out(sandbox, "cat in.txt; /tests/deep/run.sh; /tests/link") == "inran\nran\n"
        sandbox.put([File("later.sh", content=b"echo later", mode=0o700), File("/made/here")])
        assert out(sandbox, "stat -c %a later.sh; ./later.sh; test -d /made/here") == "700\nlater\n"

    @promise(Promise.ISOLATION)
    def test_what_is_in_the_way_of_a_clean_file_goes(self, sandbox: Sandbox) -> None:
        for obstacle in ("mkdir -p x/sub", "ln -s /etc x", "ln -s /nowhere x", "mkfifo x", "true"):
            out(sandbox, f"rm -rf x; {obstacle}")
            sandbox.put([File("x", clean=True), File("x/test.sh", content=b"ok")])
            assert out(sandbox, "find x; test -d x; cat x/test.sh; ls -d /etc/passwd") == (
                "x\nx/test.sh\nok/etc/passwd\n"
            )

    @promise(Promise.ISOLATION)
    def test_one_file_is_read_up_to_a_size(self, sandbox: Sandbox) -> None:
        out(sandbox, "echo 1 > r; ln -s r l; mkdir d; mkfifo f; truncate -s 1T huge")
        at = sandbox.workdir
        assert sandbox.read(f"{at}/r", limit=10) == b"1\n"
        assert [sandbox.read(f"{at}/{name}", limit=10) for name in ("l", "d", "f", "none")] == [None] * 4
        with pytest.raises(ValueError, match="more than 10"):
            sandbox.read(f"{at}/huge", limit=10)

    @promise(Promise.ISOLATION)
    def test_what_is_fetched_leads_nowhere_else(self, sandbox: Sandbox, tmp_path: Path) -> None:
        out(
            sandbox,
            "mkdir -p o/sub o/skip; echo 1 > o/a; echo 2 > o/sub/b; echo 3 > o/skip/c; ln -s a o/inside; "
            "ln -s /etc/passwd o/outside; ln -s ../../.. o/up; mkfifo o/pipe; truncate -s 99M o/zeros",
        )
        fetched = sandbox.fetch(f"{sandbox.workdir}/o", tmp_path / "out", limit=1000, exclude=("skip",))
        assert fetched is not None
        assert sorted(fetched.files) == ["a", "inside", "sub/b"]
        # A kernel of its own may keep pipes to itself.
        noted = {note.partition(":")[0] for note in fetched.notes}
        assert noted - {"pipe"} == {"outside", "up", "zeros"}
        assert (tmp_path / "out" / "inside").read_text() == "1\n"
        assert sandbox.fetch(f"{sandbox.workdir}/none", tmp_path / "none", limit=10) is None

    @promise(Promise.ISOLATION)
    def test_a_mount_is_seen_and_is_read_only(self, start: Start, tmp_path: Path) -> None:
        (tmp_path / "tools").mkdir()
        (tmp_path / "tools" / "tool").write_text("#!/bin/sh\necho used\n")
        (tmp_path / "tools" / "tool").chmod(0o755)
        sandbox = start(mounts=(Mount(tmp_path / "tools", "/opt/tools"),))
        assert out(sandbox, "/opt/tools/tool") == "used\n"
        assert sh(sandbox, "echo more > /opt/tools/tool")[0].exit_status != 0

    # Limits

    @promise(Promise.MEMORY, harmless=True)
    def test_no_more_memory_is_had_than_the_limit(self, start: Start) -> None:
        result, _ = sh(start(memory=64 * _MB), _GREEDY)
        # Some end the whole sandbox, and the command with a status of its own.
        assert result.exit_status == 137 or result.oom_kills

    @promise(Promise.MEMORY)
    def test_a_full_disk_is_an_error_of_the_command_alone(self, start: Start) -> None:
        sandbox = start(memory=256 * _MB)
        said = out(sandbox, "head -c 1G /dev/zero 2>&1 > /dev/shm/full || echo; rm /dev/shm/full; echo alive")
        assert "No space left" in said
        assert said.endswith("alive\n")

    @promise(Promise.OUT_OF_MEMORY, harmless=True)
    def test_whoever_ran_out_of_memory_is_counted(self, start: Start) -> None:
        sandbox = start(memory=64 * _MB)
        result, _ = sh(sandbox, f"{_GREEDY}; echo after; exit 5")
        assert (result.exit_status, result.oom_kills >= 1) == (5, True)
        result, _ = sh(sandbox, "exit 6")
        assert (result.exit_status, result.oom_kills) == (6, 0)

    @promise(Promise.PIDS, harmless=True)
    def test_there_are_no_more_processes_than_the_limit(self, start: Start) -> None:
        sandbox = start(pids=40)
        _, output = sh(sandbox, "for n in $(seq 80); do sleep 3 & done; wait", timeout=30)
        assert re.search(r"fork|[Rr]esource|retry", output)
        sandbox.end_processes()
        assert out(sandbox, "echo alive") == "alive\n"

    @promise(Promise.CPUS, harmless=True)
    def test_no_more_processors_are_had_than_the_limit(self, start: Start) -> None:
        result, output = sh(start(cpus=0.05), _BUSY)
        used = sum(float(one) for one in re.findall(r"m([\d.]+)s", output.split("\n")[1]))
        assert used < 0.1 * result.seconds, (output, result)

    @promise(Promise.STORAGE, harmless=True)
    def test_whoever_writes_more_than_the_limit_is_told(self, start: Start) -> None:
        sandbox = start(storage=32 * _MB)
        out(sandbox, "head -c 8M /dev/urandom > small")
        assert sandbox.limit_hit() is None
        sh(sandbox, "head -c 100M /dev/urandom > big; sync")
        assert sandbox.limit_hit() == "storage"

    @promise(Promise.DAEMONS)
    def test_it_ends_itself_after_its_deadline(self, start: Start) -> None:
        sandbox = start(deadline=8)
        with contextlib.suppress(InfrastructureError):
            result, output = sh(sandbox, "sleep 40; echo still there")
            assert "still there" not in output, result

    # Networks

    @promise(Promise.NO_NETWORK, harmless=True)
    def test_without_a_network_nothing_of_this_machine_is_reached(self, start: Start) -> None:
        with socket.create_server(("0.0.0.0", 0)) as server:
            port = server.getsockname()[1]
            ask = f"bash -c 'exec 3<>/dev/tcp/{_address()}/{port}'"
            for sandbox in (start(), start(network="public")):
                sandbox.set_network("none")
                result, output = sh(sandbox, f"timeout 5 {ask}")
                assert result.exit_status != 0, output

    @promise(Promise.ALLOWLIST, harmless=True)
    def test_only_hosts_that_are_allowed_are_asked_for(self, start: Start) -> None:
        sandbox = start(network="allowlist", allowed_hosts=("good.example",), limited=True)
        ask = (
            'IFS=: read -r host port <<<"${http_proxy#http://}"; exec 3<>"/dev/tcp/$host/$port" && '
            'printf "GET %s HTTP/1.1\\r\\n\\r\\n" http://evil.example/ >&3 && cat <&3'
        )
        output = bytearray()
        sandbox.exec(["bash", "-c", ask], timeout=_PATIENCE, sink=output.extend)
        assert b"403" in output.split(b"\r\n")[0]
        assert any("evil.example" in line for line in sandbox.refused())
        assert sandbox.refused() == ()
        assert sh(sandbox, f"timeout 5 bash -c 'exec 3<>/dev/tcp/{_address()}/9'")[0].exit_status != 0

    @promise(Promise.SERVICES, harmless=True)
    def test_a_service_runs_beside_it_and_goes_with_it(self, start: Start, tmp_path: Path) -> None:
        image = self.environment["image"]
        file = tmp_path / "compose.yaml"
        file.write_text(_SERVICES % image)
        sandbox = start(compose={"file": file, "images": {"beside": {"image": image}}})
        assert isinstance(sandbox, HasServices)
        service = sandbox.service("beside")
        said = bytearray()
        until(lambda: service.exec(["cat", "/said"], timeout=_PATIENCE, sink=said.extend).exit_status == 0)
        assert said.endswith(b"by a service\n")
        fetched = service.fetch("/said", tmp_path / "fetched", limit=100)
        assert fetched is not None
        assert (tmp_path / "fetched").read_text() == "by a service\n"
        assert "beside" in out(sandbox, "test ! -e /said; getent hosts beside")
        with pytest.raises(EnvironmentFailed):
            sandbox.service("none-such")
        sandbox.remove()
        with pytest.raises(InfrastructureError):
            service.exec(["true"], timeout=_PATIENCE, sink=said.extend)

    @promise(Promise.ISOLATION)
    def test_an_agent_reaches_the_gateway_through_its_door(
        self, provider: SandboxProvider, start: Start, tmp_path: Path
    ) -> None:
        path = tmp_path / "s"
        with socket.socket(socket.AF_UNIX) as gateway:
            gateway.bind(str(path))
            gateway.listen()
            gateway.settimeout(_PATIENCE)
            path.chmod(0o666)
            heard: list[bytes] = []

            def serve() -> None:
                with gateway.accept()[0] as door:
                    _, (descriptor,), _, _ = socket.recv_fds(door, 16, 1)
                with socket.socket(fileno=descriptor) as listener:
                    listener.settimeout(_PATIENCE)
                    with listener.accept()[0] as agent:
                        heard.append(agent.recv(100))
                        agent.sendall(b"answer\n" * 10_000)

            sandbox = start(door_file(provider.machine()), mounts=(Mount(path, SOCKET),))
            thread = threading.Thread(target=serve)
            thread.start()
            ask = f"exec 3<>/dev/tcp/127.0.0.1/{GATEWAY_PORT} && echo hello >&3 && cat <&3 | wc -l"
            output = bytearray()
            result = sandbox.exec(
                through_door(["/bin/bash", "-c", ask]), timeout=_PATIENCE, sink=output.extend
            )
            thread.join()
        assert (result.exit_status, bytes(output).split(), heard) == (0, [b"10000"], [b"hello\n"])

    # What is told of an agent, and kept of it

    @promise(Promise.EVIDENCE)
    def test_what_changed_outside_of_the_workdir_is_told(self, sandbox: Sandbox) -> None:
        assert isinstance(sandbox, Watches)
        sandbox.watch()
        out(sandbox, "echo mine > own")
        assert sandbox.tampered() == ()
        out(
            sandbox,
            "rm /usr/bin/env; echo '#!/bin/sh' > /usr/bin/env; echo x >> /etc/hostname.bak; chmod +x /usr/bin/env",
        )
        assert "/usr/bin/env" in sandbox.tampered()

    @promise(Promise.KEEPING, harmless=True)
    def test_what_is_kept_is_there_again(self, provider: SandboxProvider, start: Start) -> None:
        sandbox = start()
        out(sandbox, "echo work > done; mkdir -p /var/more; echo more > /var/more/file")
        reference = sandbox.keep(f"conformance-{os.getpid()}-{time.time_ns()}")
        try:
            (kept,) = [one for one in provider.kept() if one.reference == reference]
            assert (kept.job, kept.trial) == ("conformance", "one")
            sandbox.remove()
            again = start(kept=reference)
            assert out(again, "cat done /var/more/file") == "work\nmore\n"
            again.remove()
        finally:
            assert provider.forget_kept(reference)
        assert not provider.forget_kept(reference)
        with pytest.raises(InfrastructureError):
            start(kept=reference)

    # Images, and the place for grading

    @promise(Promise.IMAGES)
    def test_an_image_has_one_key_and_one_that_is_nowhere_is_missing(
        self, provider: SandboxProvider, start: Start
    ) -> None:
        sandbox = start()
        request = ImageRequest(Environment.model_validate({"workdir": "/app", **self.environment}))
        assert provider.identify(request) == sandbox.image.key
        with pytest.raises(InfrastructureError):
            start(image="no-such-image-anywhere:1")

    def test_programs_are_fed_and_heard_beside_each_other(self, sandbox: Sandbox) -> None:
        if not can_serve(sandbox):
            pytest.skip("no program of ours runs in it")
        pieces = [bytes([number]) * _MB for number in range(_LARGE // _MB)]
        with contextlib.closing(serving(sandbox)) as runner:
            heard = bytearray()
            assert runner.run(["/bin/cat"], stdin=pieces, stdout=heard.extend, stderr=heard.extend) == 0
            assert len(heard) == _LARGE
            assert hashlib.sha256(heard).digest() == hashlib.sha256(b"".join(pieces)).digest()
            assert (
                runner.run(["/bin/sleep", "90"], stdout=heard.extend, stderr=heard.extend, timeout=1) is None
            )

    def test_a_scorer_has_a_program_run_where_the_agent_worked(
        self, provider: SandboxProvider, start: Start
    ) -> None:
        program = program_file(provider.machine())
        scorer, agent = start(), start()
        if program is None or not can_serve(scorer) or not can_serve(agent):
            pytest.skip("no program of ours runs in it")
        scorer.put([dataclasses.replace(program, path=BENCH_RUN), File("/only-here", content=b"hidden")])
        agent.put([File("own", content=b"the agent's\n")])
        said = bytearray()
        with contextlib.closing(serving(agent)) as there, contextlib.closing(serving(scorer)) as here:
            run = BenchRun(scorer, lambda: there, lambda: there, lambda: here, ids=lambda _: (0, 0))
            result = run.exec(_ASKS, timeout=_PATIENCE, sink=said.extend)
        told = ["given" + agent.workdir, "the agent's", "status 7", "only-here", "late 124"]
        assert (result.exit_status, said.decode().splitlines()) == (0, told)

    @promise(Promise.IMAGES)
    def test_a_workdir_is_carried_into_a_fresh_place_as_it_is(self, start: Start) -> None:
        agent, fresh = start(), start()
        out(agent, _ODD)
        out(fresh, "mkdir tree; echo other > tree/gone; ln -s /etc tree/deep")
        with contextlib.closing(serving(agent)) as one, contextlib.closing(serving(fresh)) as other:
            carried = carry(one.program, other.program, [agent.workdir])
        assert [path.rpartition(b"/")[2] for path, _ in carried.left_out] == [b"pipe"]
        assert out(fresh, _LIST) == out(agent, _LIST)


def _address() -> str:
    """Return an address of this machine that is not its loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))
        except OSError:
            return "192.0.2.1"
        return str(sock.getsockname()[0])
