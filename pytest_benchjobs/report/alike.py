"""Attempts at a scenario that ended alike: reports have one block for them, not one for each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ..analysis.trials import grouped
from ..analysis.verdict import by_scenario
from ..model.job import JobConfig
from ..model.result import TrialResult


@dataclasses.dataclass(frozen=True, slots=True)
class Alike:
    """Results of one agent at one scenario with the same score for the same reasons."""

    title: str
    """The node id of the test, and which of its attempts: `a.yaml::x[nop] (4 of 4 attempts)`. Of one, its node id."""
    results: tuple[TrialResult, ...]
    """In the order of their attempts."""

    @property
    def first(self) -> TrialResult:
        """The result that explains all."""
        return self.results[0]


def alike(results: Iterable[TrialResult], config: JobConfig) -> list[Alike]:
    """Group the attempts of each test that ended alike, in the order in which the first of them come."""
    if config.attempt_policy.aggregates:
        return [Alike(result.node_id, (result,)) for result in results]
    return [
        Alike(_title(node_id, same, max(attempts, len(group))), tuple(same))
        for node_id, attempts, group in by_scenario(results, config)
        for same in grouped(sorted(group, key=lambda result: result.attempt), _reason).values()
    ]


def _title(node_id: str, same: list[TrialResult], attempts: int) -> str:
    if len(same) == 1:
        return same[0].node_id
    if len(same) == attempts:
        return f"{node_id} ({attempts} of {attempts} attempts)"
    *others, last = [str(result.attempt) for result in same]
    return f"{node_id} (attempts {', '.join(others)} and {last} of {attempts})"


def _reason(result: TrialResult) -> tuple[object, ...]:
    """Return what attempts that ended alike have in common; agents and programs may have printed something else."""
    failure = result.failure
    return (
        result.agent.label,
        result.outcome,
        result.score,
        None if failure is None else (failure.class_, failure.message),
        tuple(
            (one.name, one.score, None if one.error is None else one.error.class_) for one in result.scorers
        ),
    )
