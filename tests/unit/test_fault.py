"""Whose fault it is that calls failed: every combination of what there may be to see."""

from __future__ import annotations

import itertools
import math
from typing import Any, get_args

import pytest

from pytest_benchjobs.gateway.client import RouteReport
from pytest_benchjobs.model.ending import Ending
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.sandbox.protocol import ExecResult
from pytest_benchjobs.trial.outcome import Fault, fault

A, E, G = get_args(Fault)
FAILED, SILENT = {"ending": Ending.ENDPOINT_DOWN}, {"waited": 500.0}
LATE = {"seconds": 900.0, "timed_out": True}
LAST: dict[str, dict[str, Any]] = {
    "answered": {},
    "failed": FAILED,
    "silent": SILENT,
    "failed and silent": {**FAILED, **SILENT},
    "broke": {"ending": Ending.GATEWAY},
    "held beyond its time": LATE,
    "failed and held beyond its time": {**FAILED, **LATE},
}
"""What became of the last call."""
# In this order: no call answered; some, and the endpoint answers nobody else; some, and it answers others.
# Each: of an agent that just ended; of one that ran out of time; of one that reports success.
TABLE = {
    "answered": ((A, A, A), (A, A, A), (A, A, A)),
    "failed": ((E, E, E), (E, E, A), (A, A, A)),
    "silent": ((E, E, E), (E, E, A), (A, A, A)),
    "failed and silent": ((E, E, E), (E, E, A), (A, A, A)),
    "broke": ((G, G, A), (G, G, A), (G, G, A)),
    "held beyond its time": ((G, G, G), (G, G, G), (G, G, G)),
    "failed and held beyond its time": ((E, E, E), (E, E, E), (E, E, E)),
}
CALLS: list[dict[str, Any]] = [{"answered": 0}, {"answered": 3}, {"answered": 3, "answers_others": True}]
ENDS: list[dict[str, Any]] = [{}, {"timed_out": True}, {"succeeded": True}]


def whose(
    *,
    seconds: float = 0.0,
    timeout: float = math.inf,
    timed_out: bool = False,
    stopped: bool = False,
    succeeded: bool = False,
    ending: Ending | None = None,
    **calls: Any,
) -> Fault:
    result = ExecResult(0, timed_out=timed_out, seconds=seconds, stopped=stopped)
    report = RouteReport(Usage(), ending, None, {}, {}, None, **calls)
    return fault(result, report, timeout, succeeded=succeeded)


@pytest.mark.parametrize("last", LAST)
def test_every_combination_has_one_answer(last: str) -> None:
    for (row, calls), (column, end) in itertools.product(enumerate(CALLS), enumerate(ENDS)):
        seen = {"seconds": 1000.0, "timeout": 1000.0, **calls, **end, **LAST[last]}
        assert whose(**seen) == TABLE[last][row][column], seen


@pytest.mark.parametrize("answers_others", [False, True])
@pytest.mark.parametrize("answered", [0, 3])
def test_whom_the_gateway_stopped_had_an_endpoint_that_answered_nobody(
    answered: int, answers_others: bool
) -> None:
    calls = {**FAILED, "answered": answered, "answers_others": answers_others}
    assert whose(stopped=True, timed_out=True, timeout=9, **calls) == E


@pytest.mark.parametrize(
    ("answered", "unanswered", "seconds", "timed_out", "fault"),
    [
        (0, 5.0, 100.0, False, E),  # it never got an answer, and did wait for one
        (0, 4.9, 100.0, False, A),
        (0, 4.9, 5.0, True, A),
        (1, 50.0, 100.0, True, E),
        (1, 49.0, 100.0, True, A),
        (1, 10.0, 15.0, True, E),
        (1, 9.5, 10.0, True, A),  # nobody can tell after so little
        (1, 120.0, 200.0, False, E),
        (1, 110.0, 200.0, False, A),  # it gave up too soon to blame anybody
    ],
)
def test_how_long_an_endpoint_is_silent_until_it_is_to_blame(
    answered: int, unanswered: float, seconds: float, timed_out: bool, fault: Fault
) -> None:
    assert whose(answered=answered, waited=unanswered, seconds=seconds, timed_out=timed_out) == fault


def test_an_agent_that_calls_no_model_is_judged_by_its_work() -> None:
    assert whose() == whose(timed_out=True, seconds=9.5, timeout=10) == A
