"""Summary of a set of trials: counts, means, cost, time."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence

from ..model.result import FailureClass, Outcome, TrialResult
from ..store.rows import FigureRow


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a set of trials.

    Of a reused one neither time, nor tokens, nor cost counts, and of one that was only graded anew neither tokens nor
    cost: they were spent in another job.
    """

    label: str
    """The agent, or whatever the trials have in common."""
    passed: int = 0
    failed: int = 0
    partial: int = 0
    """Those of `failed` with a score above 0."""
    errors: int = 0
    cancelled: int = 0
    skipped: int = 0
    total: int = 0
    mean_scored: float | None = None
    """Mean score of the trials that have one. Errors have none, so they do not count."""
    mean_all: float | None = None
    """Sum of scores over all trials that were meant to run: what is certain even if every error hides a 0."""
    seconds: float = 0.0
    """Sum over its trials."""
    reused: int = 0
    """Those of `total` taken over from earlier jobs."""
    timeouts: int = 0
    """Those of `failed` whose agent did not end in time."""
    cost_usd: float | None = None
    """Sum over the trials whose agent worked in this job and of which it is known; None when it is known of none."""
    unpriced: int = 0
    """Trials whose agent worked in this job at an unknown cost."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    p50_seconds: float | None = None
    """Of the trials that passed or failed; so is p95."""
    p95_seconds: float | None = None
    classes: dict[str, int] = dataclasses.field(default_factory=dict)
    """Class of failure or error -> trials, the most frequent first."""

    @property
    def zero(self) -> int:
        """Those of `failed` with a score of 0, or none."""
        return self.failed - self.partial

    @property
    def pass_rate(self) -> float | None:
        """Passed among those that passed or failed."""
        return self.passed / (self.passed + self.failed) if self.passed + self.failed else None


def summarise(label: str, results: Iterable[TrialResult]) -> Summary:
    """Sum up trials."""
    rows: list[FigureRow] = []
    times: list[float] = []
    for result in results:
        rows.append(_figures(result))
        if result.reused is None and result.outcome in (Outcome.PASSED, Outcome.FAILED):
            times.append(result.seconds)
    return summarise_sums(label, rows, times)


def _figures(result: TrialResult) -> FigureRow:
    score, usage = result.score, result.usage
    return FigureRow(
        run="",
        benchmark=result.benchmark,
        agent=result.agent.label,
        outcome=result.outcome,
        class_=None if result.failure is None else result.failure.class_,
        here=result.reused is None,
        worked=result.reused is None and result.rescored is None,
        trials=1,
        scored=int(score is not None),
        score=score or 0.0,
        positive=int(bool(score)),
        seconds=result.seconds,
        priced=int(usage.cost_usd is not None),
        cost_usd=usage.cost_usd,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
    )


def summarise_sums(label: str, rows: Iterable[FigureRow], times: Iterable[float]) -> Summary:
    """The same, from sums over trials, and the seconds of those that ran in this job and passed or failed."""
    outcomes: Counter[str] = Counter()
    classes: Counter[str] = Counter()
    partial = reused = scored = 0
    score = seconds = 0.0
    worked: list[FigureRow] = []
    for row in rows:
        outcomes[row.outcome] += row.trials
        if row.class_ is not None:
            classes[row.class_] += row.trials
        scored += row.scored
        score += row.score
        if row.outcome == Outcome.FAILED:
            partial += row.positive
        if row.here:
            seconds += row.seconds
        else:
            reused += row.trials
        if row.worked:
            worked.append(row)
    total = outcomes.total()
    meant = total - outcomes[Outcome.SKIPPED]
    ordered = sorted(times)
    return Summary(
        label=label,
        passed=outcomes[Outcome.PASSED],
        failed=outcomes[Outcome.FAILED],
        partial=int(partial),
        errors=outcomes[Outcome.ERROR],
        cancelled=outcomes[Outcome.CANCELLED],
        skipped=outcomes[Outcome.SKIPPED],
        total=total,
        mean_scored=score / scored if scored else None,
        mean_all=score / meant if meant else None,
        seconds=seconds,
        reused=reused,
        timeouts=classes[FailureClass.AGENT_TIMEOUT],
        cost_usd=_sum(row.cost_usd for row in worked),
        unpriced=sum(row.trials - row.priced for row in worked if row.outcome != Outcome.SKIPPED),
        input_tokens=_tokens(row.input_tokens for row in worked),
        output_tokens=_tokens(row.output_tokens for row in worked),
        cached_tokens=_tokens(row.cached_tokens for row in worked),
        p50_seconds=percentile(ordered, 0.5),
        p95_seconds=percentile(ordered, 0.95),
        classes=dict(sorted(classes.items(), key=lambda item: (-item[1], item[0]))),
    )


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Percentile of numbers that are in order; between two of them on a straight line."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _sum(numbers: Iterable[float | None]) -> float | None:
    """Of the numbers that are known; None when none is."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _tokens(numbers: Iterable[int | None]) -> int | None:
    found = _sum(numbers)
    return None if found is None else int(found)
