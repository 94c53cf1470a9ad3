"""A scorer whose connection breaks has no status: what it ran in ends with 0 then, as a scorer does that is content."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_benchjobs.model.errors import OutputLost
from pytest_benchjobs.sandbox.protocol import ExecResult
from pytest_benchjobs.sandbox.runner import EXIT, HELLO, OUTPUT, Frames
from pytest_benchjobs.scoring.bench_run import BenchRun


class _Cut:
    """Says so much of what `serve` says, and ends with this status."""

    def __init__(self, status: int, *kinds: int) -> None:
        self._status, self._kinds = status, kinds

    def exec(self, argv: object, *, stdin: Any, stdout: Any, **_: object) -> ExecResult:
        stdin(lambda _: None)
        told = Frames(lambda *_: None)
        told.attach(stdout)
        for kind in self._kinds:
            told.write(kind, 0, bytes([self._status]) if kind == EXIT else b"")
        return ExecResult(self._status, timed_out=False, seconds=1.0)


def _status(place: _Cut) -> int | None:
    never: Any = None
    run = BenchRun(place, never, never, never, never)  # type: ignore[arg-type]
    return run.exec("exit 1", timeout=9, sink=lambda _: None).exit_status


@pytest.mark.parametrize("said", [(), (HELLO,), (HELLO, OUTPUT)])
def test_the_end_of_what_it_ran_in_is_not_the_end_of_a_scorer(said: tuple[int, ...]) -> None:
    with pytest.raises(OutputLost, match="the connection with a scorer broke"):
        _status(_Cut(0, *said))
    with pytest.raises(OutputLost):
        _status(_Cut(126, *said))


def test_one_that_takes_no_script_is_gone() -> None:
    class Deaf(_Cut):
        def exec(self, argv: object, *, stdin: Any, stdout: Any, **_: object) -> ExecResult:
            def breaks(data: bytes) -> None:
                raise BrokenPipeError

            stdin(breaks)
            return ExecResult(0, timed_out=False, seconds=1.0)

    with pytest.raises(OutputLost):
        _status(Deaf(0))


def test_a_scorer_that_says_that_it_has_ended_has_its_status() -> None:
    assert _status(_Cut(0, HELLO, OUTPUT, EXIT)) == 0
    assert _status(_Cut(1, HELLO, EXIT)) == 1


def test_what_was_killed_has_the_status_of_that() -> None:
    assert _status(_Cut(137, HELLO)) == 137
