"""One side of a comparison: what is known of each scenario, from one job, from several, or from a file."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping

from ..model.result import Outcome
from ..store.rows import PairRow

Key = tuple[str, str, str]
"""Benchmark, scenario, label of the agent."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """All attempts of an agent at a scenario."""

    benchmark: str
    scenario: str
    agent: str
    scores: tuple[float, ...] = ()
    """Of the attempts that passed or failed."""
    passed: int = 0
    """Those of `scores` that passed."""
    errors: int = 0
    """Attempts that ended in an error. They have no score."""
    seconds: tuple[float, ...] = ()
    """Of the attempts in `scores`; so are costs and tokens, as far as they are known."""
    costs: tuple[float, ...] = ()
    """USD."""
    tokens: tuple[int, ...] = ()
    """Input and output."""
    comparable: str | None = None
    """Digest of what both sides must have in common; None: nobody knows."""
    mixed: bool = False
    """Its attempts are not of the same task: those of the latest are kept."""
    tags: tuple[str, ...] = ()
    cluster: str | None = None
    known: str | None = None
    """Mode of the known failure, as of the latest attempt."""

    @property
    def key(self) -> Key:
        """What it is of."""
        return self.benchmark, self.scenario, self.agent

    @property
    def mean(self) -> float | None:
        """Of the scores; None without any."""
        return math.fsum(self.scores) / len(self.scores) if self.scores else None


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison."""

    name: str
    """As it was asked for."""
    jobs: tuple[str, ...]
    """Ids, the newest first; empty for a file."""
    cells: Mapping[Key, Cell]

    @property
    def agents(self) -> tuple[str, ...]:
        """Labels, in the order they first appear."""
        return tuple(dict.fromkeys(agent for _, _, agent in self.cells))


def side(name: str, jobs: Iterable[tuple[str, Iterable[PairRow]]]) -> Side:
    """Pool the trials of jobs, the newest first.

    A result that was taken over is left out where the job it was taken from is pooled as well: it is no new sample.
    Attempts at a scenario whose content differs from the newest one's are left out too.
    """
    listed = [(job, list(rows)) for job, rows in jobs]
    pooled = {job for job, _ in listed}
    found: dict[Key, _Gathered] = {}
    for _, rows in listed:
        for row in rows:
            if row.reused is not None and row.reused in pooled:
                continue
            key = (row.benchmark, row.scenario, row.agent)
            found.setdefault(key, _Gathered()).add(row)
    return Side(name, tuple(job for job, _ in listed), {key: one.cell(key) for key, one in found.items()})


class _Gathered:
    def __init__(self) -> None:
        self._rows: list[PairRow] = []
        self._mixed = False
        self._comparable: str | None = None

    def add(self, row: PairRow) -> None:
        if row.outcome in (Outcome.SKIPPED, Outcome.CANCELLED):
            return
        if row.comparable is not None:
            self._comparable = self._comparable or row.comparable
            if row.comparable != self._comparable:
                self._mixed = True
                return
        self._rows.append(row)

    def cell(self, key: Key) -> Cell:
        graded = [row for row in self._rows if row.outcome in (Outcome.PASSED, Outcome.FAILED)]
        first = self._rows[0] if self._rows else None
        own = [row for row in graded if row.reused is None]
        worked = [row for row in own if row.rescored is None]
        return Cell(
            *key,
            # An agent that failed before anything could be graded has earned nothing.
            scores=tuple(row.score or 0.0 for row in graded),
            passed=sum(row.outcome == Outcome.PASSED for row in graded),
            errors=len(self._rows) - len(graded),
            seconds=tuple(row.seconds for row in own),
            costs=tuple(row.cost_usd for row in worked if row.cost_usd is not None),
            tokens=tuple(
                row.input_tokens + row.output_tokens
                for row in worked
                if row.input_tokens is not None and row.output_tokens is not None
            ),
            comparable=self._comparable,
            mixed=self._mixed,
            tags=_tags(first.tags) if first is not None and first.tags else (),
            cluster=first.cluster if first is not None else None,
            known=first.known if first is not None else None,
        )


def _tags(text: str) -> tuple[str, ...]:
    listed = json.loads(text)
    return tuple(str(tag) for tag in listed) if isinstance(listed, list) else ()
