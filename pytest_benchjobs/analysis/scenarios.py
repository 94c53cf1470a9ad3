"""Summaries of scenarios by all their attempts."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence

from ..model.base import Model
from ..model.job import JobConfig
from ..model.result import Outcome
from ..store.rows import TrialRow
from .attempts import AtK, at_k
from .verdict import by_scenario


@dataclasses.dataclass(frozen=True, slots=True)
class ScenarioSummary:
    """All attempts of an agent at a scenario."""

    node_id: str
    """Node id of the attempts, without their number."""
    benchmark: str
    scenario: str
    agent: str
    attempts: int
    """Number of planned attempts."""
    trials: tuple[TrialRow, ...]
    """Attempts that ended, in order."""
    verdict: Outcome
    """Verdict by the job's policy; `each` counts as `all`."""
    passed: int
    failed: int
    errors: int
    mean_score: float | None
    """Mean over the attempts that have a score."""

    @property
    def flaky(self) -> bool:
        """True if some attempts passed and some failed. Errors do not count."""
        return bool(self.passed and self.failed)


class VerdictFigures(Model):
    """Counts of scenarios by verdict, where the attempt policy makes one verdict of several attempts."""

    total: int
    passed: int
    failed: int
    partial: int
    """Failed scenarios with a mean score above 0."""
    zero: int
    """Failed scenarios with a mean score of 0."""
    error: int
    """Scenarios without a verdict: errors or missing attempts might have changed it."""
    skipped: int
    mean_score: float | None
    """Mean over the scenarios that passed or failed, each with the mean of its attempts."""


@dataclasses.dataclass(frozen=True, slots=True)
class Repeats:
    """Summary of several attempts at each scenario."""

    at_k: tuple[AtK, ...]
    """pass@k and pass^k for k = 1 .. attempts; empty with one attempt."""
    flaky: tuple[str, ...]
    """Node ids of the scenarios with attempts that passed and attempts that failed."""
    verdicts: VerdictFigures | None
    """None with the policy `each`, where each attempt counts for itself."""


def judged(trials: Iterable[TrialRow], config: JobConfig) -> list[ScenarioSummary]:
    """Group attempts by scenario, in the order scenarios first appear."""
    return [
        _scenario(node_id, group, config, attempts)
        for node_id, attempts, group in by_scenario(trials, config)
    ]


def repeats(scenarios: Sequence[ScenarioSummary], config: JobConfig) -> Repeats:
    """Summarise the attempts at these scenarios."""
    most = max((scenario.attempts for scenario in scenarios), default=1)
    counts = ((scenario.passed + scenario.failed, scenario.passed) for scenario in scenarios)
    return Repeats(
        at_k=tuple(at_k(counts, most)) if most > 1 else (),
        flaky=tuple(scenario.node_id for scenario in scenarios if scenario.flaky),
        verdicts=_verdicts(scenarios) if config.attempt_policy.aggregates else None,
    )


def _scenario(node_id: str, trials: list[TrialRow], config: JobConfig, attempts: int) -> ScenarioSummary:
    trials.sort(key=lambda trial: trial.attempt)
    outcomes = [trial.outcome for trial in trials]
    scores = [trial.score for trial in trials if trial.score is not None]
    first = trials[0]
    return ScenarioSummary(
        node_id=node_id,
        benchmark=first.benchmark,
        scenario=first.scenario,
        agent=first.agent,
        attempts=attempts,
        trials=tuple(trials),
        verdict=config.attempt_policy.verdict(outcomes, attempts),
        passed=outcomes.count(Outcome.PASSED),
        failed=outcomes.count(Outcome.FAILED),
        errors=outcomes.count(Outcome.ERROR),
        mean_score=sum(scores) / len(scores) if scores else None,
    )


def _verdicts(found: Sequence[ScenarioSummary]) -> VerdictFigures:
    counts = Counter(scenario.verdict for scenario in found)
    decided = [scenario for scenario in found if scenario.verdict in (Outcome.PASSED, Outcome.FAILED)]
    scores = [scenario.mean_score for scenario in decided if scenario.mean_score is not None]
    failed = [scenario for scenario in decided if scenario.verdict == Outcome.FAILED]
    partial = sum((scenario.mean_score or 0) > 0 for scenario in failed)
    return VerdictFigures(
        total=len(found),
        passed=counts[Outcome.PASSED],
        failed=len(failed),
        partial=partial,
        zero=len(failed) - partial,
        error=counts[Outcome.ERROR],
        skipped=counts[Outcome.SKIPPED],
        mean_score=sum(scores) / len(scores) if scores else None,
    )
