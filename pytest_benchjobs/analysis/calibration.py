"""Calibration of benchmarks: scores of agents whose results are certain, beside those of others."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from ..agents.fixed_results import half_solves
from ..model.base import Model
from ..model.result import Outcome
from ..store.rows import PairRow
from .trials import grouped

Status = Literal["valid", "missing", "all-right", "all-wrong", "flat", "mismatch"]
Pattern = Literal["none", "all-zero", "all-one", "all-equal", "mixed"]
PERFECT = ("oracle", "baseline:perfect")
"""Agents known to solve everything."""
WRONG = ("nop", "baseline:wrong")
"""Agents known to solve nothing."""
HALF = "baseline:half"
_CERTAIN = (*PERFECT, *WRONG, HALF)
_ROUNDING = 1e-6


class BenchmarkCalibration(Model):
    """Scores of a benchmark for agents whose results are certain."""

    benchmark: str
    status: Status
    suspicious: bool
    """True if something is wrong with the benchmark."""
    why: str
    """Explanation in one line."""
    scores: dict[str, float]
    """Agent with certain results -> mean score."""
    mismatches: tuple[str, ...]
    """`scenario [agent]` of results that differ from the certain ones."""
    pattern: Pattern
    """Lowest and highest mean score of all other agents."""
    agents: int
    """Number of scenarios."""


def calibrate(rows: Mapping[str, Sequence[PairRow]]) -> list[BenchmarkCalibration]:
    """Calibrate each benchmark by its latest trials: name -> trials of all agents. Errors do not count."""
    graded = (Outcome.PASSED, Outcome.FAILED)
    return [
        _benchmark(name, [row for row in trials if row.outcome in graded])
        for name, trials in sorted(rows.items())
    ]


def _benchmark(name: str, rows: Sequence[PairRow]) -> BenchmarkCalibration:
    by_agent = grouped(rows, lambda row: row.agent)
    means = {agent: statistics.fmean(row.score or 0.0 for row in found) for agent, found in by_agent.items()}
    scores = {agent: means[agent] for agent in _CERTAIN if agent in means}
    mismatches = tuple(sorted(_mismatches(by_agent)))
    status, why = _status(by_agent, scores, mismatches)
    others = [
        mean for agent, mean in means.items() if agent not in _CERTAIN and not agent.startswith("baseline:")
    ]
    return BenchmarkCalibration(
        benchmark=name,
        status=status,
        suspicious=status not in ("valid", "missing"),
        why=why,
        scores=scores,
        mismatches=mismatches,
        pattern=_pattern(others),
        agents=len(others),
    )


def _status(
    by_agent: Mapping[str, Sequence[PairRow]], scores: Mapping[str, float], mismatches: Sequence[str]
) -> tuple[Status, str]:
    right = [row for agent in PERFECT for row in by_agent.get(agent, ())]
    wrong = [row for agent in WRONG for row in by_agent.get(agent, ())]
    if not right or not wrong:
        lacking = " and ".join(agents[0] for agents, rows in ((PERFECT, right), (WRONG, wrong)) if not rows)
        return "missing", f"no graded trial of {lacking}; run it with --agent {lacking.replace(' and ', ' ')}"
    if all(_passed(row) for row in wrong):
        return "all-right", "it passes agents that do nothing: its scorers accept everything"
    if not any(_passed(row) for row in right):
        return "all-wrong", "no reference solution passes: its scorers reject everything"
    best = max(score for agent, score in scores.items() if agent in PERFECT)
    least = min(score for agent, score in scores.items() if agent in WRONG)
    if abs(best - least) < _ROUNDING:
        return "flat", f"the reference solutions and doing nothing have the same mean score, {best:.3f}"
    if mismatches:
        many = "result is" if len(mismatches) == 1 else "results are"
        return "mismatch", f"{len(mismatches)} {many} not the known one"
    return "valid", f"reference solutions pass ({best:.3f}), and doing nothing does not ({least:.3f})"


def _mismatches(by_agent: Mapping[str, Sequence[PairRow]]) -> Iterable[str]:
    for agent, rows in by_agent.items():
        for row in rows:
            if agent in PERFECT:
                expected = True
            elif agent in WRONG:
                expected = False
            elif agent == HALF:
                expected = half_solves(row.scenario)
            else:
                break
            if _passed(row) is not expected:
                yield f"{row.scenario} [{agent}]"


def _pattern(means: Sequence[float]) -> Pattern:
    if not means:
        return "none"
    if all(mean < _ROUNDING for mean in means):
        return "all-zero"
    if all(mean > 1 - _ROUNDING for mean in means):
        return "all-one"
    if len(means) > 1 and max(means) - min(means) < _ROUNDING:
        return "all-equal"
    return "mixed"


def _passed(row: PairRow) -> bool:
    return row.outcome == Outcome.PASSED
