"""State of a running job, from its events. Kept as counters, so that large jobs cost no more than small ones."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from ..model.event import Ended, Event, PhaseBegan, Planned
from ..model.result import Outcome
from ..store.rows import TrialRow
from ..store.text import clean

_LATELY = 100
_RECENT = 40
"""Number of last trials from which the remaining time is estimated."""
_FEWEST = 2
_Number = TypeVar("_Number", int, float)


class Counted(NamedTuple):
    """Counts of an ended trial; small, as there may be many thousand trials."""

    at: float
    outcome: Outcome
    score: float | None
    reused: bool
    before: bool
    cost_usd: float | None
    input_tokens: int | None
    output_tokens: int | None

    @classmethod
    def of(cls, event: Ended) -> Counted:
        """Return the counts in an event."""
        return cls(*(getattr(event, name) for name in cls._fields))


@dataclasses.dataclass(slots=True)
class Tally:
    """Counts for one agent or all. Cost and tokens of reused trials do not count: they were spent elsewhere."""

    planned: int | None = None
    reused: int = 0
    before: int = 0
    """Trials that ended before the job was resumed."""
    cost_usd: float | None = None
    """None until known for any trial; so are tokens."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    _outcomes: Counter[Outcome] = dataclasses.field(default_factory=Counter)
    _scored: int = 0
    _sum: float = 0.0

    @property
    def done(self) -> int:
        """Trials that have ended."""
        return self._outcomes.total()

    @property
    def mean_score(self) -> float | None:
        """Mean over the trials that have a score."""
        return self._sum / self._scored if self._scored else None

    def of(self, outcome: Outcome) -> int:
        """Return the number of trials with this outcome."""
        return self._outcomes[outcome]

    def count(self, trial: Counted, sign: int = 1) -> None:
        """Count a trial; with -1 as the sign, remove it."""
        self._outcomes[trial.outcome] += sign
        if trial.score is not None:
            self._scored += sign
            self._sum += sign * trial.score
        self.reused += sign * trial.reused
        self.before += sign * trial.before
        self.cost_usd = _plus(self.cost_usd, trial.cost_usd, sign)
        self.input_tokens = _plus(self.input_tokens, trial.input_tokens, sign)
        self.output_tokens = _plus(self.output_tokens, trial.output_tokens, sign)


@dataclasses.dataclass(frozen=True, slots=True)
class Flying:
    """A running trial. Times are seconds since the epoch."""

    node_id: str
    scenario: str
    agent: str
    attempt: int
    phase: str
    started: float
    since: float
    """Start of the current phase."""
    benchmark: str = ""
    confidential: bool = False


class Live:
    """State of a running job. Text from it may be hostile: clean it before a terminal sees it.

    Args:
        agents: Labels of the job's agents, in its order. Those without a trial are left out.
    """

    def __init__(self, agents: Sequence[str] = ()) -> None:
        self._order = {label: place for place, label in enumerate(agents)}
        self.all = Tally()
        self.agents: dict[str, Tally] = {}
        """Tallies by label, in the order of the job."""
        self.flying: dict[str, Flying] = {}
        """Running trials by node id, the oldest first."""
        self.lately: deque[Ended] = deque(maxlen=_LATELY)
        """The trials that ended last, the newest at the end."""
        self._ended: dict[str, Counted] = {}
        self._landings: deque[float] = deque(maxlen=_RECENT + 1)
        """End times of the last trials of this run, preceded by the start of the first trial."""
        self._seconds: deque[tuple[str, float]] = deque(maxlen=_RECENT)
        """Agent and duration of the trials that ended last."""

    def take(self, event: Event) -> bool:
        """Apply an event; return whether it ended a trial that was running or unknown.

        A trial that a plugin runs again counts by its last end.
        """
        if isinstance(event, PhaseBegan):
            self._phase(event)
        elif isinstance(event, Ended):
            return self._land(event)
        else:
            self._plan(event)
        return False

    def close(self, results: Iterable[TrialRow]) -> list[Ended]:
        """Complete the state with the final results; return those for which no event had come."""
        self.flying.clear()
        missed = [_as_event(row) for row in results if clean(row.node_id) not in self._ended]
        for event in missed:
            self._land(event)
        return missed

    def seconds_left(self, now: float) -> float | None:
        """Estimate the remaining seconds from the rate and the durations of ended trials; None until known."""
        if self.all.planned is None:
            return None
        remaining = self.all.planned - self.all.done
        if remaining <= 0:
            return 0.0
        landed = len(self._landings) - 1
        if landed < _FEWEST:
            return None
        queued = remaining - len(self.flying)
        if queued > 0:
            typical = sum(seconds for _, seconds in self._seconds) / len(self._seconds)
            return queued * max(0.0, now - self._landings[0]) / landed + typical
        return self._last_landing(now)

    def _last_landing(self, now: float) -> float | None:
        """Estimate the seconds until all running trials have ended; None without similar ended trials."""
        found = []
        for trial in self.flying.values():
            took = [seconds for agent, seconds in self._seconds if agent == trial.agent]
            if not took:
                return None  # durations of a quick agent tell nothing about a slow one
            age = now - trial.started
            # Only longer durations tell anything about a trial of that age.
            longer = [seconds for seconds in took if seconds > age]
            if longer:
                found.append(sum(longer) / len(longer) - age)
        return max(found, default=None)

    def _plan(self, event: Planned) -> None:
        self.all.planned = sum(event.agents.values())
        for label, count in event.agents.items():
            self._of(label).planned = count

    def _of(self, label: str) -> Tally:
        """Return the tally of an agent, inserted in the job's order: agents may end in any order."""
        if label not in self.agents:
            self.agents[label] = Tally()
            last = len(self._order)
            self.agents = dict(sorted(self.agents.items(), key=lambda item: self._order.get(item[0], last)))
        return self.agents[label]

    def _phase(self, event: PhaseBegan) -> None:
        key = clean(event.node_id)
        if key in self._ended and event.at <= self._ended[key].at:
            return  # of a process that died
        known = self.flying.get(key)
        if not self._landings:
            self._landings.append(event.at)
        self.flying[key] = Flying(
            node_id=event.node_id,
            scenario=event.scenario,
            agent=event.agent,
            attempt=event.attempt,
            phase=event.phase,
            started=known.started if known is not None else event.at,
            since=event.at,
            benchmark=event.benchmark,
            confidential=event.confidential,
        )

    def _land(self, event: Ended) -> bool:
        key = clean(event.node_id)
        flew = self.flying.pop(key, None) is not None
        before = self._ended.get(key)
        if before is not None and not flew:
            return False
        counted = self._ended[key] = Counted.of(event)
        for tally in (self.all, self._of(event.agent)):
            if before is not None:
                tally.count(before, -1)
            tally.count(counted)
        self.lately.append(event)
        if self._landings and not event.reused and not event.before:
            self._landings.append(event.at)
            self._seconds.append((event.agent, event.seconds))
        return True


def _as_event(row: TrialRow) -> Ended:
    """Convert a result into the event that its end would have sent."""
    spent = row.reused is None and row.rescored is None
    return Ended(
        at=time.time(),
        node_id=row.node_id,
        scenario=row.scenario,
        agent=row.agent,
        attempt=row.attempt,
        outcome=Outcome(row.outcome),
        score=row.score,
        seconds=row.seconds if row.reused is None else 0.0,
        class_=row.class_,
        cost_usd=row.cost_usd if spent else None,
        input_tokens=row.input_tokens if spent else None,
        output_tokens=row.output_tokens if spent else None,
        reused=row.reused is not None,
    )


def _plus(total: _Number | None, more: _Number | None, sign: int) -> _Number | None:
    return total if more is None else (total or 0) + sign * more
