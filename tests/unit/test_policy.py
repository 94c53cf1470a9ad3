"""One verdict from several attempts."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.analysis.verdict import verdict, verdicts
from pytest_benchjobs.model.job import JobConfig
from pytest_benchjobs.model.node_ids import group_id
from pytest_benchjobs.model.policy import Policy, parse_policy
from pytest_benchjobs.model.result import Failure, Origin, Outcome, TrialResult
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.report.properties import properties

from .jobs import ended
from .records import NOW, result, trial

POLICIES = st.one_of(
    st.sampled_from(["any", "all"]), st.integers(1, 100).map(lambda percent: f"rate:{percent}%")
).map(parse_policy)


@given(
    POLICIES,
    st.lists(st.sampled_from(["passed", "failed", "error", "cancelled"]), max_size=6),
    st.integers(0, 3),
)
def test_a_verdict_is_certain_or_an_error(policy: Policy, outcomes: list[str], missing: int) -> None:
    attempts = len(outcomes) + missing
    if not attempts:
        return
    unknown = sum(outcome not in ("passed", "failed") for outcome in outcomes) + missing
    possible = {
        outcomes.count("passed") + sum(rest) >= policy.needed(attempts)
        for rest in itertools.product((0, 1), repeat=unknown)
    }
    expected = (
        Outcome.ERROR if len(possible) == 2 else Outcome.PASSED if possible == {True} else Outcome.FAILED
    )
    assert policy.verdict(outcomes, attempts) is expected


@pytest.mark.parametrize(
    ("text", "attempts", "needed"),
    [
        ("any", 5, 1),
        ("all", 5, 5),
        ("rate:0.5", 5, 3),
        ("rate:50%", 4, 2),
        ("rate:0.7", 10, 7),
        ("rate:1", 3, 3),
    ],
)
def test_how_many_have_to_pass(text: str, attempts: int, needed: int) -> None:
    assert parse_policy(text).needed(attempts) == needed


@pytest.mark.parametrize(
    "text", ["", "some", "rate", "rate:", "rate:0", "rate:1.5", "rate:101%", "rate:nan", "ANY"]
)
def test_what_is_no_policy(text: str) -> None:
    with pytest.raises(ValueError, match="is not a policy"):
        parse_policy(text)


def _results(letters: str, scenario: str = "count") -> list[TrialResult]:
    path, usage = f"trials/oracle/{scenario}", Usage(cost_usd=0.5)
    return [
        ended(letter, scenario, attempt=number, usage=usage, path=f"{path}/{number}")
        for number, letter in enumerate(letters, 1)
    ]


def test_one_result_of_three(tmp_path: Path) -> None:
    made = verdict("a::count[oracle]", _results("HPH"), parse_policy("any"), 3)
    assert made.outcome is Outcome.PASSED
    assert made.failure is None
    assert made.score == 0.5
    assert made.seconds == 6.0
    assert made.usage.cost_usd == 1.5
    lost = verdict("a::count[oracle]", _results("HPE"), parse_policy("all"), 3)
    assert lost.outcome is Outcome.FAILED
    open_ = verdict("a::count[oracle]", _results("PE"), parse_policy("all"), 3)
    assert open_.outcome is Outcome.ERROR
    assert open_.score is None
    assert open_.failure is not None
    assert open_.failure.message == (
        "1 of 3 attempts passed; all needs 3, and 1 ended in an error, 1 did not run"
    )


def test_what_was_spent_in_another_job_is_not_spent_here() -> None:
    origin = Origin(job="first", path="trials/x/y/1", finished_at=NOW)
    ran, graded, taken = _results("PPP")
    graded = graded.model_copy(update={"rescored": origin})
    taken = taken.model_copy(update={"reused": origin})
    made = verdict("a::count[oracle]", [graded, taken, ran], parse_policy("all"), 3)
    assert (made.usage.cost_usd, made.seconds, made.reused, made.rescored) == (0.5, 4.0, None, origin)
    assert dict(properties(taken)).get("bench_cost_usd") is None
    assert dict(properties(taken))["bench_seconds"] == 0.0
    assert dict(properties(graded)).get("bench_cost_usd") is None
    assert dict(properties(graded))["bench_seconds"] == 2.0
    assert dict(properties(ran))["bench_cost_usd"] == 0.5


def test_what_is_open_says_why() -> None:
    interrupted = verdict("a::count[oracle]", _results("P"), parse_policy("all"), 3)
    said = "1 of 3 attempts passed; all needs 3, and 2 did not run"
    assert interrupted.failure == Failure(class_="not_run", message=said)
    skipped = verdict("a::count[oracle]", _results("PS"), parse_policy("all"), 2)
    assert skipped.failure is not None
    assert skipped.failure.message == "1 of 2 attempts passed; all needs 2, and 1 was skipped"


def test_what_failed_says_how_and_what_the_first_failure_was() -> None:
    found = _results("PEHH")
    found[3] = found[3].model_copy(update={"failure": Failure(class_="second", message="m", detail="d2")})
    found[2] = found[2].model_copy(update={"failure": Failure(class_="first", message="m", detail="d1")})
    made = verdict("a::count[oracle]", found, parse_policy("all"), 4)
    assert made.failure == Failure(class_="first", message="1 of 4 attempts passed; all needs 4", detail="d1")
    bare = [one.model_copy(update={"failure": None}) for one in found[2:]]
    made = verdict("a::count[oracle]", bare, parse_policy("any"), 2)
    assert made.failure == Failure(
        class_="below_threshold", message="0 of 2 attempts passed; any needs 1", detail=None
    )


def test_verdicts_group_by_scenario_and_agent(tmp_path: Path) -> None:
    config = JobConfig(directory=tmp_path, attempts=2, attempt_policy="any")  # type: ignore[arg-type]
    results = [*_results("HP"), *_results("HH", scenario="other")]
    found = {made.node_id: made.outcome.value for made in verdicts(results, config)}
    assert found == {"a.bench.yaml::count[oracle]": "passed", "a.bench.yaml::other[oracle]": "failed"}
    each = JobConfig(directory=tmp_path, attempts=2)
    assert verdicts(results, each) == results


def test_the_number_of_an_attempt_goes_and_that_of_a_model_stays() -> None:
    assert group_id("a::s[x:model-1-2]", 2) == "a::s[x:model-1]"
    assert group_id("a::s[x:model-1]", 2) == "a::s[x:model-1]"


@pytest.mark.parametrize(
    ("policy", "attempts", "outcome"),
    [("any", 1, "passed"), ("any", 2, "passed"), ("all", 2, "error"), ("rate:0.5", 3, "error")],
)
def test_one_attempt_of_several_is_not_all_of_them(policy: str, attempts: int, outcome: str) -> None:
    only = result(trial(), notes=("kept",))
    found = verdict("a.bench.yaml::count[oracle]", [only], parse_policy(policy), attempts)
    assert found.outcome == outcome
    assert (found is only) == (attempts == 1)
    if outcome == "error":
        assert found.failure is not None
        assert f"{attempts - 1} did not run" in found.failure.message


def test_a_verdict_lists_its_attempts_and_where_their_files_are() -> None:
    why = Failure(class_="engine_lost", message="gone")
    attempts = [
        result(trial(attempt=1), score=0.5, path="trials/oracle/count/1"),
        result(trial(attempt=2), outcome=Outcome.ERROR, failure=why, path="trials/oracle/count/2"),
        result(trial(attempt=3)),
    ]
    made = verdict("a::count[oracle]", attempts, parse_policy("any"), 3)
    assert made.notes == (
        "attempt 1: passed, score 0.5: trials/oracle/count/1",
        "attempt 2: error (engine_lost), score -: trials/oracle/count/2",
        "attempt 3: passed, score 1",
    )
