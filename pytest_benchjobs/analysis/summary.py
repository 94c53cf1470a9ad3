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

    Time, tokens and cost of a reused trial do not count, nor do tokens and cost of a rescored one: they were spent in
    another job.
    """

    label: str
    """The agent, or another name of the set."""
    passed: int = 0
    failed: int = 0
    partial: int = 0
    """Failed trials with a score above 0."""
    errors: int = 0
    cancelled: int = 0
    skipped: int = 0
    total: int = 0
    mean_scored: float | None = None
    """Mean score of the trials that have one. Errors have no score, so they do not count."""
    mean_all: float | None = None
    """Sum of scores divided by all planned trials: a lower bound, as if every error hid a 0."""
    seconds: float = 0.0
    """Sum over the trials."""
    reused: int = 0
    """Trials of `total` reused from earlier jobs."""
    timeouts: int = 0
    """Failed trials whose agent did not end in time."""
    cost_usd: float | None = None
    """Sum over the trials whose agent ran in this job at a known cost; None when none is known."""
    unpriced: int = 0
    """Trials whose agent ran in this job at an unknown cost."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    p50_seconds: float | None = None
    """Median time of the trials that passed or failed; p95 likewise."""
    p95_seconds: float | None = None
    classes: dict[str, int] = dataclasses.field(default_factory=dict)
    """Class of failure or error -> trials, the most frequent first."""

    @property
    def zero(self) -> int:
        """Failed trials with a score of 0, or none."""
        return self.failed - self.partial

    @property
    def pass_rate(self) -> float | None:
        """Share that passed among the trials that passed or failed."""
        return self.passed / (self.passed + self.failed) if self.passed + self.failed else None


def is_synthetic(agent: str) -> bool:
    """Tell whether the results of an agent with this label are known in advance: it is a reference for the others."""
    return agent in ("oracle", "nop") or agent.startswith("baseline:")


def summarise(label: str, results: Iterable[TrialResult]) -> Summary:
    """Summarise trials."""
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
    """Summarise from sums over trials, and the seconds of those that ran in this job and passed or failed."""
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
    """Return a percentile of sorted numbers, with linear interpolation."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _sum(numbers: Iterable[float | None]) -> float | None:
    """Return the sum of the known numbers; None when none is known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _tokens(numbers: Iterable[int | None]) -> int | None:
    found = _sum(numbers)
    return None if found is None else int(found)
