"""One result for a scenario and agent out of those of its attempts, as the job's attempt policy has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..model.job import JobConfig
from ..model.policy import Policy
from ..model.result import Failure, FailureClass, Outcome, TrialResult
from ..model.usage import FIGURES, Usage

_Key = tuple[str, str, str]


def verdicts(results: Iterable[TrialResult], config: JobConfig) -> list[TrialResult]:
    """A result for each test that pytest reports: the trials themselves, unless the policy makes one of several."""
    if not config.attempt_policy.aggregates:
        return list(results)
    groups: dict[_Key, list[TrialResult]] = {}
    for result in results:
        attempts = config.of(result.benchmark).attempts
        node_id = group_id(result.node_id, result.attempt) if attempts > 1 else result.node_id
        groups.setdefault((node_id, result.benchmark, result.scenario), []).append(result)
    return [
        verdict(node_id, group, config.attempt_policy, config.of(benchmark).attempts)
        for (node_id, benchmark, _), group in groups.items()
    ]


def group_id(node_id: str, attempt: int) -> str:
    """The node id of the test that an attempt is part of: without the number of the attempt."""
    ending = f"-{attempt}]"
    return node_id.removesuffix(ending) + "]" if node_id.endswith(ending) else node_id


def verdict(node_id: str, results: Sequence[TrialResult], policy: Policy, attempts: int) -> TrialResult:
    """The one result of so many attempts, some of which may be missing. `results` has at least one.

    Its score is the mean over the attempts that have one; time is the sum over those that ran in this job, usage over
    those of them whose agent did.
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
        return Failure(
            class_=worst.class_ if worst else "not_run",
            message=message,
            detail=worst.detail if worst else None,
        )
    return Failure(
        class_=worst.class_ if worst else FailureClass.BELOW_THRESHOLD,
        message=message,
        detail=worst.detail if worst else None,
    )


def _line(result: TrialResult) -> str:
    score = "-" if result.score is None else f"{result.score:g}"
    why = f" ({result.failure.class_})" if result.failure else ""
    place = f": {result.path}" if result.path else ""
    return f"attempt {result.attempt}: {result.outcome.value}{why}, score {score}{place}"


def _sum(usages: Sequence[Usage]) -> Usage:
    """Unknown is unknown: a sum is only known if every part of it is."""
    sums = {}
    for name in FIGURES:
        values = [getattr(usage, name) for usage in usages]
        sums[name] = None if not values or None in values else sum(values)
    return Usage(**sums)
