"""The first process of a container: nobody inside gets into it, and when the engine says so, nobody else is left."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from pytest_benchjobs.model.errors import ContainerLost, Ungradable
from pytest_benchjobs.sandbox.docker.container import DockerSandbox
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from tests.support import until

from .sandboxes import sh, started

pytestmark = pytest.mark.docker

VARIABLE = "BENCH_PROBLEM_FILE"


def _sh(sandbox: DockerSandbox, script: str, **how: Any) -> str:
    return sh(sandbox, script, **how)[1]


PERL = "perl -e '{}'"
ATTACKS = {
    "trace": PERL.format('print syscall(101, 16, 1, 0, 0) == -1 ? "refused" : "done"'),  # PTRACE_ATTACH
    "seize": PERL.format('print syscall(101, 0x4206, 1, 0, 0) == -1 ? "refused" : "done"'),
    "memory": PERL.format('print open(F, "+<", "/proc/1/mem") ? "done" : "refused"'),
    "output": "echo x 2>/dev/null > /proc/1/fd/1 && echo done || echo refused",
    "program": "readlink /proc/1/exe >/dev/null && echo done || echo refused",
    "root": "ls /proc/1/root/ >/dev/null 2>&1 && echo done || echo refused",
    "name": "echo bench-1 2>/dev/null > /proc/1/comm && echo done || echo refused",
    "descriptor": PERL.format(
        '$f = syscall(434, 1, 0); print syscall(438, $f, 0, 0) == -1 ? "refused" : "done"'
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_root_does_not_get_into_it(provider: DockerProvider, attack: str) -> None:
    with started(provider) as sandbox:
        assert _sh(sandbox, ATTACKS[attack]).strip() == "refused"


LEFT = {
    "a daemon": "setsid sleep 90 >/dev/null 2>&1 & sleep 0.1",
    "one deaf to signals": "(trap '' HUP INT TERM; exec setsid sleep 90) >/dev/null 2>&1 & sleep 0.1",
    "one that forks away all the time": PERL.format(
        "if (!fork()) { close STDOUT; close STDERR; while (1) { exit if fork() } }"
    ),
    "a fork bomb": "bomb() { bomb | bomb & }; bomb >/dev/null 2>&1; sleep 0.3",
    "a thread whose leader has ended": PERL.format(
        "if (!fork()) { close STDOUT; close STDERR; syscall(60, 0) if !fork(); sleep 90 }"
    ),
    "one in a namespace of its own": "unshare -Urpf --mount-proc sleep 90 >/dev/null 2>&1 & sleep 0.3",
    "a stopped one": "sleep 90 >/dev/null 2>&1 & kill -STOP $!; sleep 0.1",
    "one with another name": "cp /bin/sleep /tmp/first; /tmp/first 90 >/dev/null 2>&1 & sleep 0.1",
    "many": "for i in $(seq 200); do sleep 90 >/dev/null 2>&1 & done; sleep 0.3",
    "one that asks for it": "(while :; do kill -USR1 1; setsid sleep 90 & done) >/dev/null 2>&1 & sleep 0.2",
}


@pytest.mark.parametrize("left", LEFT)
def test_nothing_survives_the_end(provider: DockerProvider, left: str) -> None:
    with started(provider, pids=512) as sandbox:
        _sh(sandbox, LEFT[left])
        sandbox.end_processes()
        assert sandbox.running() == []
        assert _sh(sandbox, "cd /proc && echo [0-9]*").split()[0] == "1"
        assert len(_sh(sandbox, "cd /proc && echo [0-9]*").split()) == 2
        assert sandbox.notes == ()


def test_files_in_memory_and_hosts_stay_where_the_container_was_not_started_anew(
    provider: DockerProvider,
) -> None:
    with started(provider) as sandbox:
        _sh(
            sandbox,
            "echo 10.0.0.1 mine >> /etc/hosts; echo kept > /dev/shm/answer; setsid sleep 90 >/dev/null 2>&1 &",
        )
        sandbox.end_processes()
        assert _sh(sandbox, "grep -c mine /etc/hosts; cat /dev/shm/answer") == "1\nkept\n"


def test_after_a_new_start_the_first_process_is_told_from_the_others_in_whatever_order_they_are_listed(
    provider: DockerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(provider) as sandbox:
        provider.engine.client.kill(sandbox.id)
        sandbox.end_processes()
        _sh(sandbox, "setsid sleep 92 >/dev/null 2>&1 &")
        client = sandbox._engine.client
        top = client.top
        # Numbers of processes begin anew some day, and what is younger then has the smaller one.
        monkeypatch.setattr(client, "top", lambda *a, **k: {"Processes": top(*a, **k)["Processes"][::-1]})
        until(lambda: sandbox.processes() == ("sleep 92",), 30)


def test_a_program_put_in_its_place_is_not_run_by_the_next_start(provider: DockerProvider) -> None:
    with started(provider) as sandbox:
        forged = "#!/bin/sh\nwhile :; do echo forged > /app/out; sleep 0.01; done\n"
        _sh(sandbox, f"printf '{forged}' > /x; chmod +x /x; rm -f /bench/program; mv /x /bench/program")
        provider.engine.client.kill(sandbox.id)
        sandbox.end_processes()
        assert _sh(sandbox, "sleep 0.2; cat /app/out 2>/dev/null") == ""


def test_by_contract_what_hangs_on_the_agent_ends_and_its_daemons_live_on(provider: DockerProvider) -> None:
    with started(provider) as sandbox:
        _sh(sandbox, "setsid sleep 81 >/dev/null 2>&1 & sleep 0.3")
        assert sandbox.adopt_processes() == ("sleep 81",)
        forged = "for name in /bin/sh /bench/program; do rm -f $name; cp /bin/true $name; done"
        daemons = "nohup sleep 82 >/dev/null 2>&1 & (sleep 83 >/dev/null 2>&1 &)"
        _sh(sandbox, f"{forged}; {daemons}; sleep 84 & sleep 85", timeout=1, env={VARIABLE: "x"})
        killed = sandbox.end_commands(VARIABLE)
        assert sorted(command for command in killed if command.startswith("sleep")) == [
            "sleep 84",
            "sleep 85",
        ]
        assert sorted(sandbox.processes()) == ["sleep 82", "sleep 83"]
        assert "sleep 81" in [process.command for process in sandbox.running()]


def test_by_contract_nothing_ends_of_an_agent_that_has_ended(provider: DockerProvider) -> None:
    with started(provider) as sandbox:
        _sh(sandbox, "sleep 86 >/dev/null 2>&1 & exit 0", env={VARIABLE: "x"})
        assert sandbox.end_commands(VARIABLE) == ()
        assert sandbox.processes() == ("sleep 86",)


def _wait_until_ended(provider: DockerProvider, sandbox: DockerSandbox) -> None:
    until(lambda: not provider.engine.client.inspect_container(sandbox.id)["State"]["Running"])


def test_a_daemon_that_ends_the_container_while_it_is_graded_is_the_agents_doing(
    provider: DockerProvider,
) -> None:
    with started(provider, memory=64 << 20) as sandbox:
        _sh(sandbox, "setsid sleep 87 >/dev/null 2>&1 &", env={VARIABLE: "x"})
        sandbox.end_commands(VARIABLE)
        (pid,) = provider.engine.client.top(sandbox.id, ps_args="-eo pid,args")["Processes"][:1]
        os.kill(int(pid[0]), signal.SIGKILL)  # as the kernel does when memory runs out
        _wait_until_ended(provider, sandbox)
        with pytest.raises(Ungradable, match="ended the container while it was graded"):
            _sh(sandbox, "true")


def test_a_container_that_somebody_else_killed_is_no_doing_of_the_agent(provider: DockerProvider) -> None:
    with started(provider) as sandbox:
        sandbox.end_commands(VARIABLE)
        provider.engine.client.kill(sandbox.id)
        _wait_until_ended(provider, sandbox)
        with pytest.raises(ContainerLost):
            _sh(sandbox, "true")
