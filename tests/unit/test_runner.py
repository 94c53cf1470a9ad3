"""Our program in a sandbox, when the connection with it breaks off."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pytest_benchjobs.model.errors import EnvironmentFailed, OutputLost
from pytest_benchjobs.sandbox.protocol import ExecResult
from pytest_benchjobs.sandbox.runner import Runner


class Sandbox:
    """A sandbox whose program says that it is there, and ends with a status when it is let go."""

    def __init__(self, status: int) -> None:
        self.status, self.let_go = status, threading.Event()

    def exec(self, argv: object, *, stdout: Any, stdin: Any, **_: object) -> ExecResult:
        self.let_go.wait()
        return ExecResult(self.status, timed_out=False, seconds=1)


@pytest.mark.parametrize(
    ("status", "error"),
    [pytest.param(0, OutputLost, id="heard no more of us"), pytest.param(1, EnvironmentFailed, id="failed")],
)
def test_a_program_that_ends_early_is_an_error_of_the_engine_or_of_the_sandbox(
    status: int, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(status)
    runner = Runner(sandbox, None)  # type: ignore[arg-type]

    def write(*_: object) -> None:  # as the command of our program ends, so does the connection
        sandbox.let_go.set()
        raise ConnectionAbortedError("it broke")

    monkeypatch.setattr(runner._frames, "write", write)
    runner._frames.ready.set()
    runner.await_hello()
    with pytest.raises(error, match=f"ended early, with status {status}"):
        runner.run(["x"], stdout=lambda _: None, stderr=lambda _: None)
    assert runner.has_ended
    runner.close()
