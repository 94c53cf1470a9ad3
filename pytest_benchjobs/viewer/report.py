"""The data of a report: all that its pages show of some jobs, and as many details of trials as there is room for.

`main` is what lists, jobs, comparisons, scenarios and trends need. Details of trials are in chunks, which a page loads
when they are looked at.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from ..model.errors import InputError
from ..report.documents.viewer import ViewerMatrix, ViewerMeta
from ..report.units import counted
from ..store.listing import JOBS, RUNS, Wanted, page
from ..store.reader import HistoryReader
from .comparison import comparison_document
from .details import Details, data_of, encoded, packed
from .job import job_document, matrix_document
from .lists import job_items, meta, overview_document, run_items
from .over_time import scenario_document, trend_document
from .query import Refused
from .results import Results

LIMIT = 20_000_000
"""Bytes of a report."""
LOG_LIMIT = 65_536
"""Bytes of a log."""
_JOBS_COMPARED, _AGENTS_COMPARED, _COMPARISONS, _PAIRS = 10, 5, 200, 60_000
_SCENARIOS = 2_000
_BRANCHES = 20
_MOST_SHOWN = 1_000_000
_SHELL = 400_000
"""Room for the page itself."""


@dataclasses.dataclass
class Report:
    """The data of a report, each part compressed by gzip."""

    main: bytes
    chunks: list[bytes]
    cut: tuple[str, ...]
    """Parts that were left out for want of room, a line each."""


def make_report(
    results: Results,
    history: HistoryReader,
    jobs: Sequence[str],
    *,
    limit: int = LIMIT,
    log_limit: int = LOG_LIMIT,
) -> Report:
    """Collect the data of a report of jobs, given by their ids, in at most `limit` bytes of a file."""
    making = _Making(results, history, tuple(jobs), limit, log_limit)
    return making.report()


class _Making:
    """A report in the making."""

    def __init__(
        self, results: Results, history: HistoryReader, jobs: tuple[str, ...], limit: int, log_limit: int
    ) -> None:
        self._results, self._history, self._jobs = results, history, jobs
        self._limit, self._log_limit = limit, log_limit
        self._beyond: list[str] = []

    def report(self) -> Report:
        """Return the whole."""
        matrices = {job: matrix_document(self._results, self._history, job) for job in self._jobs}
        main = self._main(matrices)
        room = self._limit - _SHELL - encoded(packed(main))
        if room < 0:
            raise InputError(
                f"a report of these jobs is larger than {self._limit:,} bytes without any details; "
                "choose fewer jobs, or a larger --max-size"
            )
        trials = {job: matrix.trials.id for job, matrix in matrices.items()}
        details = Details(self._results, self._history, trials, room, self._log_limit)
        cut = (*details.cut(), *self._beyond)
        whole = {**main, "meta": data_of(self._meta(cut)), "details": details.places}
        return Report(packed(whole), details.chunks, cut)

    def _main(self, matrices: dict[str, ViewerMatrix]) -> dict[str, Any]:
        results, history, jobs = self._results, self._history, self._jobs
        wanted = Wanted(jobs=jobs)
        runs = page(history, RUNS, wanted, limit=_MOST_SHOWN).rows
        listed = page(history, JOBS, wanted, limit=_MOST_SHOWN).rows
        return {
            "meta": data_of(self._meta(())),
            "overview": data_of(overview_document(results, history, wanted, jobs)),
            "runs": [data_of(one) for one in run_items(results, history, runs)],
            "jobs": [data_of(one) for one in job_items(results, history, listed)],
            "job": {job: data_of(job_document(results, history, job)) for job in jobs},
            "matrix": {job: data_of(matrix) for job, matrix in matrices.items()},
            "compare": dict(self._comparisons(matrices)),
            "scenario": dict(self._scenario_documents(matrices)),
            "trend": dict(self._trends()),
        }

    def _meta(self, cut: Sequence[str]) -> ViewerMeta:
        now = datetime.datetime.now(datetime.UTC)
        return meta(self._results, self._history, jobs=self._jobs, generated_at=now, cut=cut)

    def _comparisons(self, matrices: dict[str, ViewerMatrix]) -> Iterator[tuple[str, Any]]:
        """Yield comparisons of each two jobs, of each two agents of a job, and of agents of different jobs."""
        wanted = list(_sides({job: matrix.agents for job, matrix in matrices.items()}))
        pairs = made = 0
        for a, b in wanted:
            if made >= _COMPARISONS or pairs >= _PAIRS:
                break
            made += 1
            with contextlib.suppress(Refused):
                found = comparison_document(self._results, self._history, a, b)
                pairs += len(found.pairs.scenario)
                yield "\n".join((a[0], b[0], a[1] or "", b[1] or "")), data_of(found)
        if made < len(wanted):
            self._beyond.append(
                f"{counted(len(wanted) - made, 'comparison')} beyond the first {made} left out"
            )

    def _trends(self) -> Iterator[tuple[str, Any]]:
        """Yield trends by commit and by day, of all branches and of each."""
        branches = self._meta(()).choices.branches
        for branch in ("", *branches[:_BRANCHES]):
            wanted = Wanted(jobs=self._jobs, branches=(branch,) if branch else ())
            yield f"commit\n{branch}", data_of(trend_document(self._history, wanted, "commit", _MOST_SHOWN))
            yield f"day\n{branch}", data_of(trend_document(self._history, wanted, "day", _MOST_SHOWN))
        if len(branches) > _BRANCHES:
            self._beyond.append(f"trends of {len(branches) - _BRANCHES} branches beyond {_BRANCHES} left out")

    def _scenario_documents(self, matrices: dict[str, ViewerMatrix]) -> Iterator[tuple[str, Any]]:
        named = {
            (matrix.benchmarks[benchmark], scenario)
            for matrix in matrices.values()
            for benchmark, scenario in zip(matrix.rows.benchmark, matrix.rows.scenario, strict=True)
        }
        if len(named) > _SCENARIOS:
            self._beyond.append(f"pages of {len(named)} scenarios left out: there are more than {_SCENARIOS}")
            return
        for benchmark, scenario in sorted(named):
            with contextlib.suppress(Refused):
                found = scenario_document(
                    self._history, benchmark, scenario, jobs=self._jobs, limit=_MOST_SHOWN
                )
                yield f"{benchmark}\n{scenario}", data_of(found)


def _sides(agents: dict[str, list[str]]) -> Iterator[tuple[tuple[str, str | None], tuple[str, str | None]]]:
    """Yield sides to compare, those first that are looked at most; each is a job, and the label of an agent.

    A job with one agent has no need of a label.
    """
    jobs = list(agents)[:_JOBS_COMPARED]
    for a, b in itertools.permutations(jobs, 2):
        yield (a, None), (b, None)
    for job, labels in agents.items():
        for one, other in itertools.permutations(labels[:_AGENTS_COMPARED], 2):
            yield (job, one), (job, other)
        if len(labels) == 2:
            yield (job, None), (job, None)
    labelled = {
        job: labels[:_AGENTS_COMPARED] if len(labels) > 1 else [None] for job, labels in agents.items()
    }
    across = [
        ((a, one), (b, other))
        for a, b in itertools.permutations(jobs, 2)
        for one, other in itertools.product(labelled[a], labelled[b])
        if (one, other) != (None, None)
    ]
    # The same agent in two jobs first.
    yield from sorted(across, key=lambda sides: sides[0][1] != sides[1][1])
