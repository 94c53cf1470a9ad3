"""Summary of a set of trials: counts, means, cost, time."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..model.result import FailureClass, Outcome
from ..store.rows import FigureRow, TrialRow


class Told(NamedTuple):
    """As much of a result as is summed up, where there is no row of the history."""

    outcome: str
    class_: str | None
    reused: object | None
    rescored: object | None
    score: float | None
    seconds: float
    cost_usd: float | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None


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


def summarise(label: str, trials: Iterable[TrialRow] | Iterable[Told]) -> Summary:
    """Sum up trials."""
    tally = _Tally()
    times: list[float] = []
    for trial in trials:
        here = trial.reused is None
        score = trial.score
        tally.add(
            trial.outcome,
            trial.class_,
            here,
            here and trial.rescored is None,
            1,
            score is not None,
            score or 0.0,
            score is not None and score > 0,
            trial.seconds,
            trial.cost_usd is not None,
            trial.cost_usd,
            (trial.input_tokens, trial.output_tokens, trial.cached_tokens),
        )
        if here and trial.outcome in (Outcome.PASSED, Outcome.FAILED):
            times.append(trial.seconds)
    return tally.summary(label, times)


def summarise_sums(label: str, rows: Iterable[FigureRow], times: Iterable[float]) -> Summary:
    """The same, from sums over trials, and the seconds of those that ran in this job and passed or failed."""
    tally = _Tally()
    for row in rows:
        tally.add(*row[3:14], row[14:])
    return tally.summary(label, list(times))


class _Tally:
    """Adds up trials, or sums over trials that ended alike."""

    def __init__(self) -> None:
        self._outcomes: Counter[str] = Counter()
        self._classes: Counter[str] = Counter()
        self._partial = self._reused = self._unpriced = self._scored = 0
        self._score = self._seconds = 0.0
        self._cost = _Sum()
        self._tokens = (_Sum(), _Sum(), _Sum())

    def add(
        self,
        outcome: str,
        class_: str | None,
        here: bool,
        worked: bool,
        trials: int,
        scored: int,
        score: float,
        positive: float,
        seconds: float,
        priced: int,
        cost_usd: float | None,
        tokens: tuple[int | None, ...],
    ) -> None:
        """`here`: they ran in this job. `worked`: and so did their agent, who was paid where it worked."""
        self._outcomes[outcome] += trials
        if class_ is not None:
            self._classes[class_] += trials
        self._scored += scored
        self._score += score
        if outcome == Outcome.FAILED:
            self._partial += int(positive)
        if not here:
            self._reused += trials
            return
        self._seconds += seconds
        if not worked:
            return
        self._cost.add(cost_usd)
        if outcome != Outcome.SKIPPED:
            self._unpriced += trials - priced
        for kind, value in zip(self._tokens, tokens, strict=True):
            kind.add(value)

    def summary(self, label: str, times: list[float]) -> Summary:
        """The sums as a summary."""
        times.sort()
        outcomes = self._outcomes
        total = outcomes.total()
        meant = total - outcomes[Outcome.SKIPPED]
        whole = [None if kind.value is None else int(kind.value) for kind in self._tokens]
        return Summary(
            label=label,
            passed=outcomes[Outcome.PASSED],
            failed=outcomes[Outcome.FAILED],
            partial=self._partial,
            errors=outcomes[Outcome.ERROR],
            cancelled=outcomes[Outcome.CANCELLED],
            skipped=outcomes[Outcome.SKIPPED],
            total=total,
            mean_scored=self._score / self._scored if self._scored else None,
            mean_all=self._score / meant if meant else None,
            seconds=self._seconds,
            reused=self._reused,
            timeouts=self._classes[FailureClass.AGENT_TIMEOUT],
            cost_usd=self._cost.value,
            unpriced=self._unpriced,
            input_tokens=whole[0],
            output_tokens=whole[1],
            cached_tokens=whole[2],
            p50_seconds=percentile(times, 0.5),
            p95_seconds=percentile(times, 0.95),
            classes=dict(sorted(self._classes.items(), key=lambda item: (-item[1], item[0]))),
        )


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Percentile of numbers that are in order; between two of them on a straight line."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


class _Sum:
    """Of the numbers that are known; None when none is."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float | None = None

    def add(self, number: float | None) -> None:
        if number is not None:
            self.value = number + (self.value or 0)
