"""How scores are read, and refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.model.errors import InfrastructureError, ScoreInvalid, ScoreMissing
from pytest_benchjobs.model.result import Failure, ScorerResult
from pytest_benchjobs.model.scenario import Environment, ScorerSpec
from pytest_benchjobs.sandbox.protocol import SandboxSpec
from pytest_benchjobs.scoring.builtin import (
    checked,
    parse_ctrf,
    parse_junit,
    parse_reward,
    parse_score,
    score_harbor,
)
from pytest_benchjobs.scoring.grade import combine, make_context, run_scorer
from pytest_benchjobs.testing import FakeProvider

from .records import OWNER, trial


@pytest.mark.parametrize(
    ("output", "score"),
    [
        ("score=0.75\n", 0.75),
        ("score=0.2\nlater\nscore = 1\n", 1.0),
        ("SCORE=.5", 0.5),
        ("checking...\n0.25\n\n", 0.25),
        ("score=0.5\n1\n", 0.5),
        ("1e-3", 0.001),
    ],
)
def test_a_script_prints_its_score(output: str, score: float) -> None:
    assert parse_score(output, "it") == score


@pytest.mark.parametrize("output", ["", "\n \n", "done", "0.5 of 1", "score=abc", "1\nok"])
def test_a_script_that_prints_no_score_has_none(output: str) -> None:
    with pytest.raises(ScoreMissing):
        parse_score(output, "it")


@pytest.mark.parametrize("output", ["1.5", "-0.1", "nan", "score=inf", "score=-infinity", "7"])
def test_a_score_outside_the_range_is_refused(output: str) -> None:
    with pytest.raises(ScoreInvalid):
        parse_score(output, "it")


@given(st.text())
def test_whatever_a_script_prints_is_a_score_or_a_clear_error(output: str) -> None:
    try:
        assert 0 <= parse_score(output, "it") <= 1
    except InfrastructureError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("reward_json", "reward_text", "score"),
    [
        ('{"reward": 1}', "0", 1.0),
        ("0.5", None, 0.5),
        ('{"speed": 0.5, "correct": 1}', None, 0.75),
        ('{"reward": 0.25, "correct": 1}', None, 0.25),
        (None, "1\n", 1.0),
        (None, " 0.5 ", 0.5),
    ],
)
def test_harbor_reward_files(reward_json: str | None, reward_text: str | None, score: float) -> None:
    assert parse_reward(reward_json, reward_text).score == score


@pytest.mark.parametrize(
    ("reward_json", "reward_text", "error"),
    [
        (None, None, ScoreMissing),
        (None, "", ScoreMissing),
        ("", "1", ScoreMissing),
        ("{}", "1", ScoreMissing),
        (None, "nan", ScoreInvalid),
        (None, "yes", ScoreInvalid),
        ("[1]", None, ScoreInvalid),
        ('{"reward": "1"}', None, ScoreInvalid),
        ('{"reward": true}', None, ScoreInvalid),
        ('{"reward": 1.5}', None, ScoreInvalid),
        ('{"reward": 1, "other": -1}', None, ScoreInvalid),
        ("NaN", None, ScoreInvalid),
        ("1" + "0" * 400, None, ScoreInvalid),
        ("1e999", None, ScoreInvalid),
        (None, "0" * 101 + "2", ScoreInvalid),
        ("{", None, ScoreInvalid),
        ("[" * 100_000, None, ScoreInvalid),
    ],
)
def test_a_reward_that_is_none_is_an_error_and_never_zero(
    reward_json: str | None, reward_text: str | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        parse_reward(reward_json, reward_text)


def test_a_junit_report_gives_partial_credit_and_leaves_out_skips() -> None:
    text = (
        "<testsuites><testsuite><testcase/><testcase><failure/></testcase>"
        "<testcase><skipped/></testcase><testcase><error/></testcase></testsuite></testsuites>"
    )
    assert parse_junit(text) == (1, 3)


@pytest.mark.parametrize("text", ["", "<a/>", "<testsuite>", '<!DOCTYPE x [<!ENTITY a "b">]><testsuite/>'])
def test_a_report_that_is_no_junit_is_refused(text: str) -> None:
    assert parse_junit(text) is None


def test_a_ctrf_report_gives_partial_credit() -> None:
    text = '{"results": {"tests": [{"status": "passed"}, {"status": "failed"}, {"status": "skipped"}]}}'
    assert parse_ctrf(text) == (1, 2)
    assert parse_ctrf("[]") is None


def _scored(score: float | None, weight: float = 1.0) -> ScorerResult:
    error = None if score is not None else Failure(class_="scorer_crashed", message="x")
    return ScorerResult(name="s", type="bash", weight=weight, score=score, error=error)


def test_the_score_is_the_weighted_mean() -> None:
    assert combine([_scored(1.0, 3.0), _scored(0.0, 1.0)]) == 0.75


def test_one_scorer_without_a_score_leaves_the_trial_without_one() -> None:
    assert combine([_scored(1.0), _scored(None)]) is None


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(1e-6, 1e6)), min_size=1))
def test_a_weighted_mean_stays_within_the_range(pairs: list[tuple[float, float]]) -> None:
    score = combine([_scored(score, weight) for score, weight in pairs])
    assert score is not None
    assert math.isfinite(score)
    assert 0 <= score <= 1


def test_huge_weights_weigh_like_any_others() -> None:
    assert combine([_scored(1.0, 1e308), _scored(0.5, 1e308)]) == 0.75
    assert combine([_scored(1.0, 1e-320), _scored(0.0, 1e-320)]) == 0.5


@given(st.lists(st.floats(1e-300, 1e300), min_size=1))
def test_full_marks_are_exactly_one_whatever_the_weights(weights: list[float]) -> None:
    assert combine([_scored(1.0, weight) for weight in weights]) == 1.0


@pytest.mark.parametrize(
    "value",
    [10**5000, -(10**400), True, "1", None, float("nan"), object(), 1 + 1e-9],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_score_is_refused_in_a_short_line(value: object) -> None:
    with pytest.raises(ScoreInvalid) as caught:
        checked(value, "it")
    assert len(str(caught.value)) < 150


def test_a_reward_of_very_many_numbers_shows_a_hundred() -> None:
    graded = parse_reward(json.dumps({f"r{number}": 0.5 for number in range(5000)}), None)
    assert graded.score == 0.5
    assert len(graded.details["rewards"]) == 100


def _harbor(tmp_path: Path, script: str) -> ScorerResult:
    """The result of a Harbor scorer whose test.sh is `script`, in a directory that plays the container."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test.sh").write_text(f"#!/bin/sh\ncd $(dirname $BENCH_JUNIT)\n{script}\n")
    spec = ScorerSpec(name="harbor", type="harbor", path=tmp_path / "tests")
    environment = Environment(image="x", workdir="/app")
    sandbox = FakeProvider(OWNER).start(SandboxSpec(environment, {}, "none", 60), on_phase=lambda phase: None)
    try:
        context = make_context(
            trial().scenario, spec, sandbox, timeout=20, env={}, directory=tmp_path / "trial"
        )
        return run_scorer(context, score_harbor, lambda text: text)
    finally:
        sandbox.remove()


@pytest.mark.parametrize(
    ("script", "score", "error"),
    [
        ("echo 0.5 > reward.txt; exit 3", 0.5, None),
        ("echo 1 > reward.txt; kill $$", 1.0, None),
        ("echo 0 > reward.txt; kill -9 $$", None, "scorer_crashed"),
        ("exit 127", None, "score_missing"),
        ("head -c 2000000 /dev/zero > reward.json", None, "score_invalid"),
    ],
    ids=["exit", "terminated", "killed", "nothing", "endless"],
)
def test_the_exit_status_of_harbors_tests_says_nothing_unless_they_were_killed(
    tmp_path: Path, script: str, score: float | None, error: str | None
) -> None:
    result = _harbor(tmp_path, script)
    assert (result.score, result.error and result.error.class_) == (score, error)
