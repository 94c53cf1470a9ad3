"""Verdicts: one result for a scenario and agent from those of its attempts, by the job's attempt policy."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from ..model.job import JobConfig
from ..model.node_ids import group_id
from ..model.policy import Policy
from ..model.result import Failure, FailureClass, Outcome, TrialResult
from ..model.usage import FIGURES, Usage
from ..store.rows import TrialRow
from .trials import grouped

_Trial = TypeVar("_Trial", TrialRow, TrialResult)


def verdicts(results: Iterable[TrialResult], config: JobConfig) -> list[TrialResult]:
    """Return a result for each test that pytest reports: the trials, or one verdict of several attempts."""
    if not config.attempt_policy.aggregates:
        return list(results)
    return [
        verdict(node_id, group, config.attempt_policy, attempts)
        for node_id, attempts, group in by_scenario(results, config)
    ]


def by_scenario(trials: Iterable[_Trial], config: JobConfig) -> Iterator[tuple[str, int, list[_Trial]]]:
    """Yield node id, number of planned attempts, and the existing attempts of each scenario and agent."""
    attempts = functools.cache(lambda benchmark: config.of(benchmark).attempts)

    def key(trial: _Trial) -> tuple[str, str, str]:
        node_id = trial.node_id
        if attempts(trial.benchmark) > 1:
            node_id = group_id(node_id, trial.attempt)
        return node_id, trial.benchmark, trial.scenario

    for (node_id, benchmark, _), group in grouped(trials, key).items():
        yield node_id, attempts(benchmark), group


def explaining(result: TrialResult, attempts: Iterable[TrialResult]) -> TrialResult:
    """Return the trial whose logs explain a result: for a verdict of several attempts, the first with its outcome."""
    return next((attempt for attempt in attempts if attempt.outcome is result.outcome), result)


def verdict(node_id: str, results: Sequence[TrialResult], policy: Policy, attempts: int) -> TrialResult:
    """Return the verdict of `attempts` attempts, some of which may be missing. `results` has at least one.

    The score is the mean over the attempts that have one; time is the sum over those that ran in this job, usage the
    sum over those whose agent ran in this job.
    """
    if attempts == 1 and len(results) == 1:
        return results[0]
    results = sorted(results, key=lambda result: result.attempt)
    first = results[0]
    outcome = policy.verdict([result.outcome for result in results], attempts)
    ran = [result for result in results if result.reused is None]
    scores = [result.score for result in results if result.score is not None]
    return first.model_copy(
        update={
            "node_id": node_id,
            "attempt": 1,
            "tries": sum(result.tries for result in results),
            "outcome": outcome,
            "score": sum(scores) / len(scores) if scores and outcome is not Outcome.ERROR else None,
            "failure": None if outcome is Outcome.PASSED else _why(results, outcome, policy, attempts),
            "seconds": sum(result.seconds for result in ran),
            "usage": _sum([result.usage for result in ran if result.rescored is None]),
            "started_at": min(result.started_at for result in results),
            "finished_at": max(result.finished_at for result in results),
            "reused": first.reused if not ran else None,
            "rescored": next((result.rescored for result in ran if result.rescored is not None), None),
            "signature": None,
            "scorers": (),
            "turns": (),
            "agent_end": None,
            "phases": (),
            "artifacts": (),
            "kept": None,
            "notes": tuple(_line(result) for result in results),
            "path": "",
        }
    )


def _why(results: Sequence[TrialResult], outcome: Outcome, policy: Policy, attempts: int) -> Failure:
    passed = sum(result.outcome is Outcome.PASSED for result in results)
    message = f"{passed} of {attempts} attempts passed; {policy} needs {policy.needed(attempts)}"
    failures = [(result.outcome, result.failure) for result in results if result.failure is not None]
    worst = next((failure for ended, failure in failures if ended is outcome), None)
    if outcome is Outcome.ERROR:
        broken = [result for result in results if result.outcome is Outcome.ERROR]
        missing = attempts - len(results)
        what = [f"{len(broken)} ended in an error"] if broken else []
        what += [f"{missing} did not run"] if missing else []
        for left_out in (Outcome.SKIPPED, Outcome.CANCELLED):
            count = sum(result.outcome is left_out for result in results)
            what += [f"{count} {'was' if count == 1 else 'were'} {left_out.value}"] if count else []
        message += f", and {', '.join(what)}"
    if worst is not None:
        return Failure(class_=worst.class_, message=message, detail=worst.detail)
    class_ = "not_run" if outcome is Outcome.ERROR else FailureClass.BELOW_THRESHOLD
    return Failure(class_=class_, message=message)


def _line(result: TrialResult) -> str:
    score = "-" if result.score is None else f"{result.score:g}"
    why = f" ({result.failure.class_})" if result.failure else ""
    place = f": {result.path}" if result.path else ""
    return f"attempt {result.attempt}: {result.outcome.value}{why}, score {score}{place}"


def _sum(usages: Sequence[Usage]) -> Usage:
    """Add up usage; a sum is known only if every part is."""
    sums = {}
    for name in FIGURES:
        values = [getattr(usage, name) for usage in usages]
        sums[name] = None if not values or None in values else sum(values)
    return Usage(**sums)
