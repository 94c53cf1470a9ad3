"""An image's own ENTRYPOINT is waited for, before the agent and again before grading; none of it is the agent's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import EntrypointEnded, EnvironmentFailed
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker.container import DockerSandbox
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.protocol import SandboxSpec
from pytest_benchjobs.trial.cancellation import Cancelled
from tests.support import IMAGE

pytestmark = pytest.mark.docker


@pytest.fixture
def started(tmp_path: Path, provider: DockerProvider) -> Callable[..., DockerSandbox]:
    sandboxes: list[DockerSandbox] = []

    def start(
        script: str, on_phase: Callable[[str], None] = lambda phase: None, **more: object
    ) -> DockerSandbox:
        context = tmp_path / "environment"
        context.mkdir(exist_ok=True)
        (context / "entry").write_text(f"#!/bin/sh\n{script}\n")
        (context / "entry").chmod(0o755)
        (context / "Dockerfile").write_text(f'FROM {IMAGE}\nCOPY entry /entry\nENTRYPOINT ["/entry"]\n')
        environment = Environment.model_validate(
            {"dockerfile": context / "Dockerfile", "network": "none", "keep_entrypoint": True, **more}
        )
        sandbox = provider.start(SandboxSpec(environment, {"job": "test-entry"}, "none", 300), on_phase)
        sandboxes.append(sandbox)
        return sandbox

    yield start  # type: ignore[misc]
    for sandbox in sandboxes:
        sandbox.remove()


def _sh(sandbox: DockerSandbox, script: str) -> str:
    output = bytearray()
    sandbox.exec(["sh", "-c", script], timeout=30, sink=output.extend)
    return output.decode()


@pytest.mark.parametrize(
    "how", ['exec "$@"', '"$@"', 'sh -c "$*"', 'exec "$@" >/log 2>&1', 'exec env X=1 "$@"']
)
def test_it_has_done_its_work_before_the_agent_begins(
    started: Callable[..., DockerSandbox], how: str
) -> None:
    sandbox = started(f"sleep 1.5; echo $VALUE > /ready; {how}", env={"VALUE": "given"})
    assert _sh(sandbox, "cat /ready") == "given\n"
    assert sandbox.processes() == ()


@pytest.mark.parametrize("how", ['exec "$@"', '"$@"', 'sh -c "$*"; exit'])
def test_one_that_only_prepares_or_waits_for_what_it_runs_is_not_run_again(
    started: Callable[..., DockerSandbox], how: str
) -> None:
    sandbox = started(f"echo once >> /app.conf; {how}")
    _sh(sandbox, "echo agent > /app.conf; setsid sleep 90 >/dev/null 2>&1 &")
    sandbox.end_processes()
    assert _sh(sandbox, "cat /app.conf") == "agent\n"
    assert sandbox.processes() == ()


def test_services_it_started_are_its_own_and_come_back_for_grading(
    started: Callable[..., DockerSandbox],
) -> None:
    sandbox = started(
        'rm -f /up; setsid sh -c "sleep 1; echo > /up; exec sleep 77" & until test -e /up; do sleep 0.1; done; exec "$@"'
    )
    assert sandbox.processes() == ()
    _sh(sandbox, "setsid sleep 90 >/dev/null 2>&1 &")
    assert sandbox.processes() == ("sleep 90",)
    sandbox.end_processes()
    assert sandbox.processes() == ()
    assert "sleep 77" in [process.command for process in sandbox.running()]
    assert _sh(sandbox, "test -e /up && echo up") == "up\n"
    assert sandbox.notes == ()


@pytest.mark.extended
def test_one_that_serves_and_never_runs_what_it_is_told_is_ready_when_it_rests(
    started: Callable[..., DockerSandbox],
) -> None:
    sandbox = started("for i in 1 2 3 4 5; do sleep 0.5; done; echo > /ready; exec tail -f /dev/null")
    assert _sh(sandbox, "test -e /ready && echo ready") == "ready\n"
    assert sandbox.processes() == ()
    sandbox.end_processes()
    assert [process.command for process in sandbox.running()] == ["tail -f /dev/null"]


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", "0"), ("exit 3", "3"), ("exec /nowhere", "12[67]")]
)
def test_one_that_ends_is_an_error_of_its_own_class(
    started: Callable[..., DockerSandbox], script: str, status: str
) -> None:
    # What is printed on two streams may come in any order.
    said = rf"ended with status {status} (.|\n)*Output: (.|\n)*no luck"
    with pytest.raises(EntrypointEnded, match=said) as error:
        started(f"echo no luck; {script}")
    assert (error.value.code, error.value.retryable) == ("entrypoint", False)


def test_one_that_is_at_work_for_too_long_is_an_error(started: Callable[..., DockerSandbox]) -> None:
    with pytest.raises(EnvironmentFailed, match="ENTRYPOINT was still busy after 2 s"):
        started("while :; do :; done", setup_timeout=2)


def test_waiting_for_it_can_be_cancelled(started: Callable[..., DockerSandbox]) -> None:
    asked = 0

    def on_phase(phase: str) -> None:
        nonlocal asked
        asked += phase == "start"
        if asked > 3:
            raise Cancelled

    with pytest.raises(Cancelled):
        started("sleep 60", on_phase)


def test_one_that_does_not_come_back_is_noted_and_left_to_the_scorers(
    started: Callable[..., DockerSandbox],
) -> None:
    sandbox = started('test -e /broken && exit 4; setsid sleep 77 & sleep 0.5; exec "$@"')
    _sh(sandbox, "touch /broken")
    sandbox.end_processes()
    assert "started again for grading: the image's ENTRYPOINT ended with status 4" in sandbox.notes[0]
