"""`benchjobs shell` opens what a trial left, on a real terminal and without one, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pty
import re
import secrets
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from pytest_benchjobs.model.job import JobStatus
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.history import History
from tests.console import COMMAND
from tests.support import containers, containers_left, until
from tests.unit.records import NOW, record, result, trial

from .sandboxes import out, started

pytestmark = pytest.mark.docker

PATIENCE = 180
"""Seconds; only against hanging."""


@pytest.fixture(scope="module")
def job() -> str:
    return f"20261121-054712-{secrets.token_hex(3)}"


@pytest.fixture(scope="module")
def kept(provider: DockerProvider, job: str) -> Iterator[str]:
    labels = {"job": job, "trial": "t"}
    with started(provider, labels=labels, memory=128 << 20, pids=99) as sandbox:
        out(sandbox, "echo answer > out.txt")
        reference = sandbox.keep(job)
    yield reference
    provider.forget_kept(reference)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory, job: str, kept: str) -> Path:
    """Results with a job of which three trials were kept, and a newer one of which none was."""
    directory = tmp_path_factory.mktemp("results")
    with History.of(directory) as history:
        for job_id, references in (
            (job, (kept, kept, "fake-kept:x")),
            ("20261122-000000-000000", (None,) * 3),
        ):
            of_job = record(directory, id=job_id, status=JobStatus.COMPLETED, finished_at=NOW, name="sums")
            JobBundle.create(directory, of_job)
            history.save_job(of_job)
            trials = (trial("count", "oracle"), trial("count", "nop"), trial("other", "nop"))
            history.save_trials(
                result(of, job_id, kept=reference) for of, reference in zip(trials, references, strict=True)
            )
    return directory


@pytest.fixture(autouse=True)
def _nothing_left(job: str) -> Iterator[None]:
    yield
    assert containers_left(job) == []


def _shell(directory: Path, *arguments: str, given: bytes = b"") -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        [*COMMAND, "shell", "--dir", str(directory), *arguments],
        input=given,
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_command_runs_in_what_was_left_and_its_status_is_ours(directory: Path, job: str) -> None:
    script = "cat out.txt; pwd; echo problem >&2; exit 7"
    assert _shell(directory, job, "--agent", "oracle", "--", "sh", "-c", script) == (
        7,
        b"answer\n/app\n",
        b"problem\n",
    )


def test_without_a_terminal_commands_come_from_standard_input(directory: Path, job: str) -> None:
    status, out, _ = _shell(directory, job, "--agent", "oracle", given=b"echo $((6 * 7))\nexit 3\n")
    assert (status, out) == (3, b"42\n")


def test_more_than_a_pipe_holds_goes_in_and_out_at_once(directory: Path, job: str) -> None:
    much = b"".join(b"%d\n" % number for number in range(300_000))
    assert _shell(directory, job, "--agent", "oracle", "--", "cat", given=much) == (0, much, b"")


def test_it_has_the_limits_of_the_trial_and_what_is_asked_for(directory: Path, job: str) -> None:
    script = (
        "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes "
        "/sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max 2>/dev/null; ls /sys/class/net; id -un; echo $A"
    )
    status, out, _ = _shell(directory, job, "--agent", "oracle", "--", "sh", "-c", script)
    assert (status, out.split()) == (0, [b"134217728", b"99", b"lo", b"root"])
    asked = ("--network", "public", "--user", "nobody", "--env", "A=1=2")
    status, out, _ = _shell(directory, job, "--agent", "oracle", *asked, "--", "sh", "-c", script)
    assert (status, out.split()[-2:]) == (0, [b"nobody", b"1=2"])
    assert b"eth0" in out.split()


def test_a_trial_is_found_in_several_ways_and_each_shell_has_what_it_left(directory: Path) -> None:
    """By node id, and by scenario in the newest job that kept it. What one shell changes the next does not see."""
    for arguments in (
        ("a.bench.yaml::count[oracle-1]",),
        ("count", "--agent", "nop"),
        ("last~1", "--scenario", "count", "--agent", "nop", "--attempt", "1"),
    ):
        script = "cat out.txt; echo changed > out.txt"
        assert _shell(directory, *arguments, "--", "sh", "-c", script) == (0, b"answer\n", b"")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("last",),
            r"nothing was kept of job 20261122-000000-000000; run it again: benchjobs rerun \S+ --keep always .*--bench-keep",
        ),
        (("last~1",), r"3 trials of job \S+ were kept; choose one with --scenario.*: .*count\[oracle-1\], "),
        (("last~1", "--agent", "codex"), "no trial of job .* fits"),
        (("nothing",), "there is no job 'nothing'"),
        (("last", "--env", "A"), "--env: 'A' is not of the form KEY=VALUE"),
    ],
)
def test_a_mistake_is_one_clear_line(directory: Path, arguments: tuple[str, ...], message: str) -> None:
    status, out, err = _shell(directory, *arguments, "--", "true")
    assert (status, out) == (2, b"")
    assert re.fullmatch(f"benchjobs: {message}.*\n", err.decode())


def test_whoever_reads_the_output_may_stop_early(directory: Path, job: str) -> None:
    command = [*COMMAND, "shell", "--dir", str(directory), job, "--agent", "oracle", "--", "yes"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"y\n"
        process.stdout.close()
        assert process.wait(PATIENCE) == 141


def test_behind_tls_only_commands_run_for_their_input_could_not_end(directory: Path, job: str) -> None:
    encrypted = "from pytest_benchjobs.sandbox.docker.engine import Engine; Engine.encrypted = property(lambda _: True); "
    main = [
        *COMMAND[:2], encrypted + COMMAND[2], "shell", "--dir", str(directory), job, "--agent", "oracle",
    ]  # fmt: skip
    done = subprocess.run(
        [*main, "--", "cat"], input=b"x", capture_output=True, check=False, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout) == (0, b"")
    done = subprocess.run(main, input=b"echo x", capture_output=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"behind TLS; give one after --" in done.stderr


class Terminal:
    """`benchjobs shell` on a terminal of its own, as a user has it."""

    def __init__(self, *arguments: str) -> None:
        self.output = b""
        self.master, self.slave = pty.openpty()
        self.resize(24, 80)
        self.before = termios.tcgetattr(self.slave)
        self.pid = os.fork()
        if not self.pid:  # pragma: no cover
            os.setsid()
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
            for descriptor in (0, 1, 2):
                os.dup2(self.slave, descriptor)
            os.closerange(3, 100)
            os.execve(COMMAND[0], [*COMMAND, *arguments], {**os.environ, "TERM": "xterm-test"})

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def until(self, pattern: str) -> str:
        """Everything that came up to what fits the pattern; it is not looked at again."""
        deadline = time.monotonic() + PATIENCE
        while not (match := re.search(pattern.encode(), self.output)):
            assert time.monotonic() < deadline, f"{pattern!r} never came, but {self.output!r}"
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.output += os.read(self.master, 4096)
                except OSError as error:
                    assert error.errno == errno.EIO
        found, self.output = self.output[: match.end()], self.output[match.end() :]
        return found.decode()

    def wait(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            if select.select([self.master], [], [], 0.05)[0]:
                with contextlib.suppress(OSError):
                    self.output += os.read(self.master, 4096)
        raise AssertionError(f"it did not end: {self.output!r}")

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        for descriptor in (self.master, self.slave):
            with contextlib.suppress(OSError):
                os.close(descriptor)


@pytest.fixture
def on_terminal(directory: Path, job: str) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open_(*arguments: str) -> Terminal:
        terminal = Terminal("shell", "--dir", str(directory), job, "--agent", "oracle", *arguments)
        opened.append(terminal)
        return terminal

    yield open_
    for terminal in opened:
        terminal.close()


def test_a_shell_on_a_terminal_is_like_any_other(on_terminal: Callable[..., Terminal]) -> None:
    terminal = on_terminal()
    terminal.until(r"count\[oracle-1\] as it was before it was graded; leave with `exit`\r\n.*# ")
    assert termios.tcgetattr(terminal.slave)[3] & (termios.ICANON | termios.ECHO) == 0
    terminal.type("stty size; echo $TERM; cat out.txt\n")
    terminal.until(r"\r\n24 80\r\nxterm-test\r\nanswer\r\n")
    terminal.resize(40, 123)
    os.kill(terminal.pid, signal.SIGWINCH)
    terminal.type("until stty size | grep '^40 '; do sleep 0.1; done\n")
    terminal.until(r"\r\n40 123\r\n")
    # The keys are the shell's, not ours.
    terminal.type("(echo under way; exec sleep 1000); echo status $?\n")
    terminal.until(r"\r\nunder way\r\n")
    terminal.type("\x03")
    terminal.until(r"\^C")
    terminal.type("echo still $((40 + 2))\n")
    terminal.until(r"\r\nstill 42\r\n")
    terminal.type("exit 9\n")
    assert terminal.wait() == 9
    assert termios.tcgetattr(terminal.slave) == terminal.before


def test_control_p_is_not_held_back(on_terminal: Callable[..., Terminal]) -> None:
    terminal = on_terminal("--", "sh", "-c", "stty raw -echo; echo ready; head -c 1 | od -An -c")
    terminal.until("ready")
    terminal.type("\x10")
    terminal.until("020")
    assert terminal.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_the_terminal_is_as_it_was(
    on_terminal: Callable[..., Terminal], number: signal.Signals
) -> None:
    terminal = on_terminal()
    terminal.until("# ")
    os.kill(terminal.pid, number)
    assert terminal.wait() == 128 + number
    assert termios.tcgetattr(terminal.slave) == terminal.before


def test_a_terminal_that_goes_away_leaves_no_container(on_terminal: Callable[..., Terminal]) -> None:
    terminal = on_terminal()
    terminal.until("# ")
    os.close(terminal.slave)
    os.close(terminal.master)
    until(lambda: os.waitpid(terminal.pid, os.WNOHANG)[0], what="it does not end")
    terminal.pid = 0


def test_being_killed_leaves_no_container(on_terminal: Callable[..., Terminal], job: str) -> None:
    terminal = on_terminal()
    terminal.until("# ")
    os.kill(terminal.pid, signal.SIGKILL)
    assert terminal.wait() == -signal.SIGKILL
    assert containers_left(job) == []


def test_a_container_that_is_removed_meanwhile_is_an_error_and_the_terminal_as_it_was(
    on_terminal: Callable[..., Terminal], client: docker.APIClient, job: str
) -> None:
    terminal = on_terminal()
    terminal.until("# ")
    for container in containers(job):
        client.remove_container(container, force=True)
    assert terminal.wait() in (2, 137)
    assert termios.tcgetattr(terminal.slave) == terminal.before
