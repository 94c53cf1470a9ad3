"""The results that a viewer shows."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import TypeVar, cast

from ..model.comparison import HighScore
from ..model.errors import InputError
from ..model.job import JobRecord
from ..model.numbers import difference
from ..store.bundle import JobBundle
from ..store.layout import Layout
from ..store.reader import HistoryReader
from ..store.results import find_job
from .query import Refused

_KNOWN = 200
"""Answers that are kept."""
_T = TypeVar("_T")
_Q = TypeVar("_Q", bound=Hashable)


@dataclasses.dataclass(frozen=True, slots=True)
class Results:
    """A results directory, and the high scores of its benchmarks."""

    directory: Path
    high_scores: Mapping[str, HighScore] = dataclasses.field(default_factory=dict)
    _known: dict[object, tuple[object, object]] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _asking: dict[object, threading.Lock] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def open(self) -> HistoryReader:
        """Open the history, for one thread."""
        if not Layout(self.directory).history.is_file():
            raise Refused(404, f"there is no history in {self.directory} yet; run a benchmark first")
        history = HistoryReader.of(self.directory)
        history.mends = False
        return history

    def known(self, history: HistoryReader, ask: Callable[[HistoryReader, _Q], _T], question: _Q) -> _T:
        """Return what `ask` finds in the history, which is asked again only after it changed.

        Documents of one page ask the same at the same time: one of them finds it, the others wait for it.
        """
        lock = self._asking.setdefault((ask, question), threading.Lock())
        try:
            with lock:
                state = history.state()  # before it is asked, so that no answer is older than its state
                kept = self._known.get((ask, question))
                if kept is None or kept[0] != state:
                    if len(self._known) >= _KNOWN:
                        self._known.clear()
                    kept = self._known[ask, question] = (state, ask(history, question))
        finally:
            self._asking.pop((ask, question), None)
        return cast("_T", kept[1])

    def to_high(self, benchmark: str, score: float | None) -> tuple[HighScore | None, float | None]:
        """Return the high score of a benchmark, and the difference of a score to it."""
        high = self.high_scores.get(benchmark)
        return high, None if high is None or score is None else difference(high.score, score)

    @property
    def shares(self) -> dict[str, float]:
        """Benchmark -> high score, as a share of 1."""
        return {benchmark: high.score for benchmark, high in self.high_scores.items()}


def job_of(history: HistoryReader, text: str) -> str:
    """Return the id of the job that a text names."""
    try:
        return find_job(history, text)
    except InputError as error:
        raise Refused(404, error.message) from None


def record_of(history: HistoryReader, job_id: str) -> JobRecord:
    """Return the record of a job."""
    record = history.job(job_id)
    if record is None:
        raise Refused(404, f"job {job_id} no longer exists")
    return record


def root_of(results: Results, job_id: str) -> Path | None:
    """Return the directory of a job's files; None if there is none, or a link is in its place."""
    try:
        root = JobBundle(results.directory, job_id).root
    except InputError:
        return None
    expected = results.directory.resolve() / root.relative_to(results.directory)
    return root if root.is_dir() and root.resolve() == expected else None
