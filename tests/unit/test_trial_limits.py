"""How long everything in a trial may take: what was said of the job, the scenario or the scorer, times the multiplier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.job import JobConfig
from pytest_benchjobs.model.scenario import (
    Answer,
    Environment,
    HealthCheck,
    ScorerSpec,
)
from pytest_benchjobs.sandbox.providers import usual_headroom
from pytest_benchjobs.scoring.builtin import builtin_scorers
from pytest_benchjobs.settings.defaults import DEFAULT_AGENT_TIMEOUT
from pytest_benchjobs.trial.limits import Limits

from .records import trial


def _limits(environment: Environment | None = None, scenario: Any = None, **config: Any) -> Limits:
    made = trial().scenario.model_copy(update=scenario or {})
    if environment is not None:
        made = made.model_copy(update={"environment": environment})
    return Limits(made, JobConfig(directory=Path("/nowhere"), **config))


@pytest.mark.parametrize(
    ("scenario", "config", "seconds"),
    [
        ({}, {}, DEFAULT_AGENT_TIMEOUT),
        ({"agent_timeout": 7.0}, {}, 7.0),
        ({}, {"agent_timeout": 5.0}, 5.0),
        ({"agent_timeout": 7.0}, {"agent_timeout": 9.0}, 9.0),
        ({"agent_timeout": 7.0}, {"timeout_multiplier": 3.0}, 21.0),
    ],
)
def test_what_is_said_of_the_job_counts_for_more_than_what_the_scenario_says(
    scenario: dict[str, Any], config: dict[str, Any], seconds: float
) -> None:
    assert _limits(scenario=scenario, **config).agent_timeout == seconds


@pytest.mark.parametrize(("questions", "seconds"), [((), 7.0), (("one",), 7.0), (("a", "b", "c", "d"), 28.0)])
def test_an_agent_that_is_asked_has_its_timeout_for_each_question(
    questions: tuple[str, ...], seconds: float
) -> None:
    scenario = {"agent_timeout": 7.0, "answer": Answer(questions=questions)}
    assert _limits(scenario=scenario).answer_timeout == seconds
    assert _limits(scenario=scenario).agent_timeout == 7.0


@pytest.mark.parametrize(
    ("own", "config", "seconds"),
    [
        (None, {}, 11.0),
        (4.0, {}, 4.0),
        (None, {"scorer_timeout": 6.0}, 6.0),
        (4.0, {"scorer_timeout": 6.0}, 6.0),
        (4.0, {"timeout_multiplier": 2.0}, 8.0),
    ],
)
def test_a_scorer_has_its_own_time(own: float | None, config: dict[str, Any], seconds: float) -> None:
    spec = ScorerSpec(name="it", type="bash", script="true", timeout=own)
    assert _limits(scenario={"scorer_timeout": 11.0}, **config).scorer_timeout(spec) == seconds


def test_silence_is_limited_only_where_somebody_says_so() -> None:
    assert _limits().silent_timeout is None
    assert _limits(silent_timeout=5.0, timeout_multiplier=2.0).silent_timeout == 10.0


def test_the_threshold_of_the_scenario_counts_even_when_it_is_0() -> None:
    assert _limits(threshold=0.75).threshold == 0.75
    assert _limits(scenario={"threshold": 0.0}, threshold=0.75).threshold == 0.0


@pytest.mark.parametrize("multiplier", [1.0, 2.0])
def test_a_container_lives_for_all_it_may_take_and_five_minutes(multiplier: float) -> None:
    scorers = (
        ScorerSpec(name="one", type="bash", script="true", timeout=1000.0),
        ScorerSpec(name="two", type="bash", script="true", timeout=2000.0),
    )
    scenario = {"agent_timeout": 100_000.0, "scorers": scorers}
    plain = Environment(image="x", setup=("a", "b", "c"), setup_timeout=10.0)
    kinds = builtin_scorers()
    limits = _limits(plain, scenario, timeout_multiplier=multiplier)
    took = 3 * 10 * (3 + 2) + 100_000 + 3 * 3000
    assert limits.setup_timeout == 10 * multiplier
    assert limits.deadline(kinds) == took * multiplier + 300

    health = HealthCheck(
        command="true", interval=1.0, timeout=20.0, start_period=300.0, start_interval=4.0, retries=5
    )
    checked = plain.model_copy(update={"healthcheck": health})
    waiting, pauses = 3 * (300 + 20 * 6), 3 * (4 + 1 * 5)
    limits = _limits(checked, scenario, timeout_multiplier=multiplier)
    assert limits.deadline(kinds) == (took + waiting) * multiplier + pauses + 300

    hooks = {"collect": [{"command": "a", "timeout_sec": 7}, {"command": "b", "timeout_sec": 8}]}
    collecting = ScorerSpec(name="three", type="harbor", path=Path("/tests"), timeout=3000.0, params=hooks)
    limits = _limits(plain, {**scenario, "scorers": (collecting,)}, timeout_multiplier=multiplier)
    assert limits.deadline(kinds) == (took + 15) * multiplier + 300


@pytest.mark.parametrize(
    ("sandbox", "given", "numbers", "harbor", "headroom"),
    [
        ("docker", None, {"cpus": 1.0}, False, 1.0),
        ("docker", 2.0, {"cpus": 1.0}, False, 2.0),
        ("of another package", None, {"cpus": 1.0}, False, 1.0),
        ("kubernetes", None, {"cpus": 1.0}, False, 3.0),
        ("kubernetes", None, {"memory": 1 << 20}, False, 3.0),
        ("kubernetes", 1.0, {"cpus": 1.0}, False, 1.0),
        ("kubernetes", None, {}, False, 1.0),
        ("kubernetes", None, {"cpus": 1.0, "cpus_request": 0.5}, False, 1.0),
        ("kubernetes", None, {"cpus": 1.0}, True, 1.0),
        ("kubernetes", 2.0, {"cpus": 1.0}, True, 2.0),
    ],
)
def test_what_one_number_is_multiplied_by_is_usual_where_the_trial_runs(
    tmp_path: Path, sandbox: str, given: float | None, numbers: dict[str, Any], harbor: bool, headroom: float
) -> None:
    source = tmp_path if harbor else tmp_path / "a.bench.yaml"
    environment = Environment(image="x", **numbers)
    config = {"usual_headroom": usual_headroom(sandbox)} if given is None else {"headroom": given}
    assert _limits(environment, {"source": source}, **config).headroom == headroom
