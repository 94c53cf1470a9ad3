"""Whose fault it is that calls failed: every combination of what there may be to see."""

from __future__ import annotations

import itertools

import pytest

from pytest_benchjobs.trial.fault import Evidence, Fault, fault

A, E, G = Fault.AGENT, Fault.ENDPOINT, Fault.GATEWAY
LAST = {
    "answered": {},
    "failed": {"failed": True},
    "silent": {"unanswered": 500.0},
    "failed and silent": {"failed": True, "unanswered": 500.0},
    "broke": {"broke": True},
    "held beyond its time": {"seconds": 900.0, "timed_out": True},
    "failed and held beyond its time": {"failed": True, "seconds": 900.0, "timed_out": True},
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
CALLS = [{"answered": 0}, {"answered": 3}, {"answered": 3, "answers_others": True}]
ENDS = [{}, {"timed_out": True}, {"succeeded": True}]


@pytest.mark.parametrize("last", LAST)
def test_every_combination_has_one_answer(last: str) -> None:
    for (row, calls), (column, end) in itertools.product(enumerate(CALLS), enumerate(ENDS)):
        seen = {"seconds": 1000.0, "timeout": 1000.0, **calls, **end, **LAST[last]}
        assert fault(Evidence(**seen)) is TABLE[last][row][column], seen  # type: ignore[arg-type]


@pytest.mark.parametrize("answers_others", [False, True])
@pytest.mark.parametrize("answered", [0, 3])
def test_whom_the_gateway_stopped_had_an_endpoint_that_answered_nobody(
    answered: int, answers_others: bool
) -> None:
    seen = Evidence(
        answered=answered, failed=True, answers_others=answers_others, stopped=True, timed_out=True, timeout=9
    )
    assert fault(seen) is E


@pytest.mark.parametrize(
    ("answered", "unanswered", "seconds", "timed_out", "whose"),
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
    answered: int, unanswered: float, seconds: float, timed_out: bool, whose: Fault
) -> None:
    seen = Evidence(answered=answered, unanswered=unanswered, seconds=seconds, timed_out=timed_out)
    assert fault(seen) is whose


def test_an_agent_that_calls_no_model_is_judged_by_its_work() -> None:
    assert fault(Evidence()) is fault(Evidence(timed_out=True, seconds=9.5, timeout=10)) is A
