"""From how an agent ended to an outcome: every row of the table, and what outweighs what."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.agents.protocol import AgentReading
from pytest_benchjobs.gateway.client import RouteReport
from pytest_benchjobs.model import ending as table
from pytest_benchjobs.model.ending import Ending
from pytest_benchjobs.model.errors import InfrastructureError
from pytest_benchjobs.model.job import JobConfig
from pytest_benchjobs.model.result import AgentEnd
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.sandbox.protocol import ExecResult
from pytest_benchjobs.trial.limits import Limits
from pytest_benchjobs.trial.outcome import (
    ERRORS,
    ending_of,
    failing,
    graded_in_spite_of,
    infrastructure_error,
)

from . import records

LIMITS = Limits(records.scenario_of(agent_timeout=60.0), JobConfig(directory=Path(), silent_timeout=5))


def ended(
    status: int | None = 0,
    *,
    said: Ending | None = None,
    seen: Ending | None = None,
    timed_out: bool = False,
    stopped: bool = False,
    seconds: float = 1.0,
    waited: float = 0.0,
    answered: int = 1,
    timeout: float = math.inf,
    held: float = 0.0,
) -> Ending | None:
    result = ExecResult(None if timed_out else status, timed_out=timed_out, seconds=seconds, stopped=stopped)
    reading = None if said is None else AgentReading(ending=said)
    report = RouteReport(
        Usage(), seen, "the endpoint says", {}, (), None, waited=waited, answered=answered, held=held
    )
    return ending_of(result, reading, report, timeout)[0]


def fails(ending: Ending | None, passed: bool = True, **end: object) -> str | None:
    said = AgentEnd.model_validate({"exit_status": 0, "ending": ending, **end})
    found = failing(said, LIMITS, passed=passed, trusted=False)
    return None if found is None else found[0].value


def test_every_row_of_the_table_is_what_is_done() -> None:
    assert table.__doc__ is not None
    rows = [line.split() for line in table.__doc__.splitlines() if line.startswith("    ")][1:]
    assert {row[0] for row in rows} == set(Ending)
    for name, outcome, *rest in rows:
        ending = Ending(name)
        outcome = outcome.rstrip(",")
        if outcome == "graded" and rest[:2] == ["else", "failed"]:
            assert fails(ending) is infrastructure_error(ending, None) is None
            assert fails(ending, exit_status=1) == fails(ending, passed=False) == rest[2]
            continue
        error = infrastructure_error(ending, None)
        if outcome == "error":
            assert isinstance(error, InfrastructureError)
            assert error.code in rest
            assert error.retryable == ("new" in rest)
        else:
            assert error is None
        if ending is Ending.TIMED_OUT:
            assert fails(ending, timed_out=True) == rest[0]
        else:
            assert fails(ending) == (rest[0] if outcome == "failed" else None)


OF_LIMIT = {"timed_out": True, "seconds": 16.0, "waited": 14.0}
ENDINGS: list[tuple[Ending | None, dict[str, Any]]] = [
    # Without a word of the agent its exit status counts,
    (None, {}),
    *((Ending.CRASHED, {"status": status}) for status in (1, 2, 143)),
    (Ending.KILLED, {"status": 137}),
    (Ending.NO_LAST_WORD, {"said": Ending.NO_LAST_WORD}),
    (Ending.CRASHED, {"said": Ending.NO_LAST_WORD, "status": 1}),
    # else its last word, unless it was killed.
    *((word, {"said": word, "status": status}) for word in (Ending.SUCCESS, Ending.TURN_LIMIT) for status in (0, 1, 144)),
    (Ending.KILLED, {"said": Ending.CRASHED, "status": 137}),
    # What the gateway saw outweighs a word of failure.
    *((seen, {"said": Ending.CRASHED, "seen": seen, "status": 1}) for seen in sorted(ERRORS)),
    *((seen, {"seen": seen, **more}) for seen in sorted(ERRORS) for more in ({}, {"timed_out": True})),
    (Ending.ENDPOINT_DOWN, {"said": Ending.NO_LAST_WORD, "seen": Ending.ENDPOINT_DOWN}),
    # Success outweighs a call that failed on the way, but never a limit; a refusal is one whatever the agent makes of it.
    (Ending.SUCCESS, {"said": Ending.SUCCESS, "seen": Ending.RATE_LIMITED}),
    *((seen, {"said": Ending.SUCCESS, "seen": seen}) for seen in (Ending.BUDGET, Ending.QUOTA)),
    *((Ending.REFUSED, {"said": said, "seen": Ending.REFUSED}) for said in (Ending.SUCCESS, Ending.GAVE_UP, Ending.REFUSED, Ending.CRASHED)),
    # Time that is up is the agent's, unless the endpoint was gone.
    *((Ending.TIMED_OUT, {"timed_out": True, **more}) for more in ({}, {"said": Ending.SUCCESS}, {"seen": Ending.REFUSED})),
    (Ending.REFUSED, {"timed_out": True, "stopped": True, "seen": Ending.REFUSED}),
    # Who waited for a silent endpoint is not to blame, unless it got on.
    (Ending.ENDPOINT_DOWN, {"status": 1, "seconds": 200, "waited": 150}),
    (Ending.SUCCESS, {"said": Ending.SUCCESS, "seconds": 200, "waited": 150}),
    (Ending.ENDPOINT_DOWN, {"said": Ending.SUCCESS, "seconds": 200, "waited": 150, "answered": 0}),
    # Time that it took to end an agent is not the endpoint's.
    (Ending.TIMED_OUT, {**OF_LIMIT, "timeout": 10.0}),
    (Ending.ENDPOINT_DOWN, {**OF_LIMIT, "timeout": 14.5}),
    (Ending.TIMED_OUT, {**OF_LIMIT, "timeout": 5.0, "held": 5.0}),
    (Ending.GATEWAY, {**OF_LIMIT, "timeout": 13.0, "held": 5.0}),
]  # fmt: skip


@pytest.mark.parametrize(("ending", "case"), ENDINGS)
def test_what_outweighs_what(ending: Ending | None, case: dict[str, Any]) -> None:
    assert ended(**case) is ending


@pytest.mark.parametrize("said", sorted(ERRORS))
def test_no_agent_talks_its_way_out_of_a_failure(said: Ending) -> None:
    result = ExecResult(0, timed_out=False, seconds=1.0)
    nothing_seen = RouteReport(Usage(), None, None, (), (), None)
    assert ending_of(result, AgentReading(ending=said), nothing_seen)[0] is Ending.CRASHED
    assert ending_of(result, AgentReading(ending=said), None)[0] is said  # nobody else could know


@pytest.mark.parametrize(
    ("seen", "others", "ending", "words"),
    [
        (Ending.ENDPOINT_DOWN, True, Ending.CRASHED, "failed (500: no); the endpoint answers others"),
        (Ending.RATE_LIMITED, False, Ending.SUCCESS, "failed (500: no); the agent went on without it"),
        (None, True, Ending.TIMED_OUT, "got no answer for 14 s; the endpoint answers others"),
        (None, False, Ending.TIMED_OUT, None),
        (Ending.ENDPOINT_DOWN, False, Ending.ENDPOINT_DOWN, None),
        (Ending.ENDPOINT_DOWN, True, Ending.TRIAL_LIMIT, None),
    ],
)
def test_a_failure_that_is_not_how_it_ended_is_a_note(
    seen: Ending | None, others: bool, ending: Ending, words: str | None
) -> None:
    report = RouteReport(Usage(), seen, "500: no", {}, (), None, waited=14.2, answers_others=others)
    note = words and f"the last call of the model {words}, so the work is graded"
    assert graded_in_spite_of(report, ending) == note


def test_nothing_an_author_wrote_fails_by_its_ending() -> None:
    end = AgentEnd(exit_status=3, ending=Ending.CRASHED)
    assert failing(end, LIMITS, passed=True, trusted=True) is None
    assert failing(None, LIMITS, passed=True, trusted=False) is None


def test_messages_name_the_time_or_the_agents_own_words() -> None:
    def message(end: AgentEnd) -> str:
        found = failing(end, LIMITS, passed=True, trusted=False)
        assert found is not None
        return found[1]

    assert message(AgentEnd(timed_out=True)) == "the agent did not end within 60 s"
    assert message(AgentEnd(timed_out=True, silent=True)) == "the agent printed nothing for 5 s"
    assert message(AgentEnd(ending=Ending.REFUSED, message="too long")) == "too long"
    assert message(AgentEnd(limit="storage")) == "the agent exceeded its storage limit"
