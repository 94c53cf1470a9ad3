"""A command whose time is up is asked to end, and what it still says is heard; one that does not is left to `kill`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_benchjobs.model.errors import ContainerLost
from pytest_benchjobs.sandbox.docker.container import DockerSandbox
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.protocol import ExecResult, Stopping
from tests.support import until

from .sandboxes import sh, started

pytestmark = pytest.mark.docker

# A trap of a shell waits for what runs in the foreground, and the signal ends that too: it goes to the whole group.
LOOP = "echo $$; while :; do sleep 60; done"
ON_INT = f"trap 'echo used 5; exit 3' INT; {LOOP}"
ON_TERM = f"trap '' INT; trap 'echo used 7; exit 4' TERM; {LOOP}"
NEVER = f"trap '' INT TERM; {LOOP}"
CLOSED = "trap 'exit 6' INT; echo $$; exec >&- 2>&-; while :; do sleep 60; done"
PARENT = "trap 'exit 6' INT; (trap 'echo child; exit' INT; echo $$; while :; do sleep 60; done)"
GRACES = (("INT", 1.0), ("TERM", 1.0))
LONG = (("INT", 20.0), ("TERM", 20.0))


def _await_nobody(sandbox: DockerSandbox) -> None:
    """Wait until nothing runs in the sandbox: one that has ended may be listed for a moment."""
    until(lambda: not sandbox.processes(), what=lambda: str(sandbox.processes()))


class Command:
    """A script that prints its process id first."""

    def __init__(self, sandbox: DockerSandbox, script: str) -> None:
        self.sandbox = sandbox
        self.script = script
        self.output = bytearray()
        self.signals: list[str] = []

    @property
    def begun(self) -> bool:
        return b"\n" in self.output

    def run(
        self,
        asked: Callable[[], bool],
        graces: tuple[tuple[str, float], ...] = GRACES,
        *,
        timeout: float = 60,
        silent: float | None = None,
        user: str | None = None,
    ) -> ExecResult:
        return self.sandbox.exec(
            ["bash", "-c", self.script],
            timeout=timeout,
            silent=silent,
            sink=self.output.extend,
            stopping=Stopping(asked, self._signal, graces),
            user=user,
        )

    def _signal(self, name: str) -> None:
        self.signals.append(name)
        self.sandbox.signal(int(self.output.split()[0]), name)

    @property
    def said(self) -> list[str]:
        """All but its process id, and what the shell says of the signal."""
        return [line for line in self.output.decode().splitlines()[1:] if line != "Terminated"]


@pytest.mark.parametrize(
    ("script", "user", "graces", "status", "signals", "said"),
    [
        (ON_INT, "root", LONG, 3, ["INT"], ["used 5"]),
        (ON_INT, "nobody", LONG, 3, ["INT"], ["used 5"]),
        (ON_TERM, "root", (("INT", 0.5), ("TERM", 20.0)), 4, ["INT", "TERM"], ["used 7"]),
        (CLOSED, "root", LONG, 6, ["INT"], []),
        (PARENT, "root", LONG, 6, ["INT"], ["child"]),
    ],
)
def test_one_that_ends_when_it_is_asked_to_says_its_last_line(
    sandbox: DockerSandbox,
    script: str,
    user: str,
    graces: tuple[tuple[str, float], ...],
    status: int,
    signals: list[str],
    said: list[str],
) -> None:
    command = Command(sandbox, script)
    result = command.run(lambda: command.begun, graces, user=user)
    assert (result.exit_status, result.silent) == (status, False)
    assert result.timed_out
    assert result.stopped
    assert (command.said, command.signals) == (said, signals)
    _await_nobody(sandbox)


def test_one_that_ignores_everything_runs_on_until_everything_is_ended(sandbox: DockerSandbox) -> None:
    command = Command(sandbox, NEVER)
    result = command.run(lambda: command.begun, (("INT", 0.3), ("TERM", 0.3)))
    assert (result.exit_status, result.timed_out, result.stopped) == (None, True, True)
    assert command.signals == ["INT", "TERM"]
    assert any("trap" in line for line in sandbox.processes())
    sandbox.end_processes()
    _await_nobody(sandbox)


def test_a_timeout_and_silence_are_no_wish_of_anybody(sandbox: DockerSandbox) -> None:
    for limit in ("timeout", "silent"):
        command = Command(sandbox, ON_INT)
        result = command.run(lambda: False, LONG, **{limit: 5})
        assert (result.exit_status, result.timed_out, result.stopped) == (3, True, False)
        assert (result.silent, command.said) == (limit == "silent", ["used 5"])


def test_one_that_never_stops_printing_is_stopped(sandbox: DockerSandbox) -> None:
    command = Command(sandbox, "trap 'exit 6' INT; echo $$; while :; do echo more; done")
    result = command.run(lambda: command.begun, LONG)
    assert (result.exit_status, result.stopped, command.signals) == (6, True, ["INT"])


def test_one_that_ends_by_itself_is_sent_nothing(sandbox: DockerSandbox) -> None:
    command = Command(sandbox, "echo $$; exit 5")
    result = command.run(lambda: False)
    assert (result.exit_status, result.timed_out, result.stopped, command.signals) == (5, False, False, [])


@pytest.mark.parametrize(
    ("pid", "name"), [(1, "TERM"), (0, "TERM"), (-1, "TERM"), (99999, "INT"), (2, "INT; touch /x")]
)
def test_a_signal_to_nobody_does_nothing(sandbox: DockerSandbox, pid: int, name: str) -> None:
    sandbox.signal(pid, name)
    assert sandbox.read("/x", limit=1) is None
    assert sandbox.exec(["echo"], timeout=20, sink=lambda data: None).exit_status == 0


def test_a_program_that_hangs_does_not_hold_a_signal_up(sandbox: DockerSandbox) -> None:
    planted = "rm -f /bench/program; printf '#!/bin/bash\\nexec sleep 60\\n' > /bench/program; chmod 755 /bench/program"
    sandbox.exec(["bash", "-c", planted], timeout=20, sink=lambda data: None)
    sandbox.signal(4242, "INT")
    until(lambda: "sleep 60" in sandbox.processes(), what=lambda: str(sandbox.processes()))
    sandbox.end_processes()


def test_a_signal_to_a_container_that_is_gone_is_no_error(provider: DockerProvider) -> None:
    with started(provider) as sandbox:
        pass
    sandbox.signal(42, "INT")


def test_a_container_that_is_killed_while_a_command_is_asked_to_end_is_lost(provider: DockerProvider) -> None:
    with started(provider) as sandbox:
        stopping = Stopping(lambda: True, lambda name: sandbox.kill(), LONG)
        with pytest.raises(ContainerLost):
            sh(sandbox, "sleep 60", stopping=stopping, timeout=60)
