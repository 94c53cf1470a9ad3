"""Jobs, runs and trials as people see them from Python: values, and the way to what belongs to them."""

from __future__ import annotations

import dataclasses
import datetime
import html
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from ..model.errors import InputError
from ..model.job import JobRecord, JobStatus
from ..model.metric import Metric
from ..model.result import Outcome, TrialResult
from ..store.bundle import JobBundle
from ..store.copying import inside
from ..store.layout import TrialLayout
from ..store.reader import HistoryReader
from ..store.results import origins
from ..store.rows import EventRow, JobRow, RunRow, ScoreRow, TrialRow, metrics_of
from ..store.text import clean, one_line
from ..store.trials import read_result
from .rows import Rows, cell, names_of, several

JOB_SHOWN = (
    "id", "name", "status", "created_at", "ended", "passed", "failed", "error", "reused", "mean_score",
)  # fmt: skip
_RUN_SHOWN = (
    "id", "benchmark", "agent", "status", "ended", "passed", "failed", "error", "mean_score", "cost_usd",
)  # fmt: skip
_TRIAL_SHOWN = ("scenario", "agent", "attempt", "outcome", "score", "class_", "seconds", "cost_usd", "reused")


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """A job as it was when it was read. Times are UTC."""

    id: str
    name: str | None
    status: str
    created_at: datetime.datetime
    finished_at: datetime.datetime | None
    planned: int | None
    """Trials selected to run."""
    ended: int
    """Trials that ended; the sum of the next five."""
    passed: int
    failed: int
    error: int
    cancelled: int
    skipped: int
    reused: int
    """Those of `ended` that did not run in this job."""
    mean_score: float | None
    """Over the trials that have a score."""
    cost_usd: float | None
    """Of what ran in this job; None when it is unknown of all trials."""
    agents: tuple[str, ...]
    benchmarks: tuple[str, ...]
    parent: str | None
    """The job it was made from."""
    selection: bool
    """It has no name and ran a selection of scenarios (`-k`, `-m`, `--lf`, ids)."""
    branch: str | None
    """Of git, where the job was started; None: unknown."""
    commit: str | None
    _results: Path = dataclasses.field(repr=False, compare=False)

    @classmethod
    def of(cls, row: JobRow, results: Path) -> Job:
        """Make one of a row."""
        values = (getattr(row, name) for name in names_of(row) if name != "scores")
        return cls(**dict(zip(names_of(cls), values, strict=True)), _results=results)

    @property
    def directory(self) -> Path:
        """Its files."""
        return JobBundle(self._results, self.id).root

    def record(self) -> JobRecord:
        """Its configuration, and everything else that is known of it.

        Raises:
            InputError: it is gone.
        """
        with HistoryReader.of(self._results) as history:
            record = history.job(self.id)
        if record is None:
            raise InputError(f"job {self.id} no longer exists")
        return record

    def events(self) -> list[EventRow]:
        """List its events, the oldest first."""
        with HistoryReader.of(self._results) as history:
            return history.events(self.id)

    def runs(self) -> Rows[Run]:
        """Its runs, in the order they began."""
        return list_runs(self._results, job=self.id)

    def trials(
        self,
        *,
        run: str | None = None,
        agent: str | None = None,
        scenario: str | None = None,
        outcomes: Collection[str] = (),
    ) -> Rows[Trial]:
        """Its trials that ended, by run. `scenario` may also be a node id."""
        return _trials(self._results, self.id, run=run, agent=agent, scenario=scenario, outcomes=outcomes)

    def table(self) -> dict[str, list[Any]]:
        """Its trials as columns by name, for a frame: `job.trials().table()`."""
        return self.trials().table()

    def _repr_html_(self) -> str:
        name = f" {html.escape(one_line(self.name, 80))}" if self.name else ""
        return (
            f"<p>job {html.escape(self.id)}{name}: {html.escape(self.status)}</p>{self.runs()._repr_html_()}"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """One benchmark and one agent in one job, as it was when it was read. Times are UTC.

    Cost, tokens and seconds are those spent in this job, in US dollars and seconds.
    """

    id: str
    job: str
    job_name: str | None
    benchmark: str
    benchmark_version: str | None
    agent: str
    provider: str | None
    model: str | None
    status: str
    """Of the job."""
    ended: int
    """Trials that ended; the sum of the next five."""
    passed: int
    failed: int
    error: int
    cancelled: int
    skipped: int
    reused: int
    """Those of `ended` that did not run in this job."""
    mean_score: float | None
    cost_usd: float | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    calls: int | None
    """Calls of models that were answered."""
    seconds: float
    median_seconds: float | None
    """Of the trials that passed or failed in this job."""
    branch: str | None
    """Of git, where the job was started; None: unknown."""
    commit: str | None
    started_at: datetime.datetime | None
    finished_at: datetime.datetime | None
    _results: Path = dataclasses.field(repr=False, compare=False)

    @classmethod
    def of(cls, row: RunRow, results: Path) -> Run:
        """Make one of a row."""
        values = (getattr(row, name) for name in names_of(row))
        return cls(**dict(zip(names_of(cls), values, strict=True)), _results=results)

    def trials(self, *, outcomes: Collection[str] = ()) -> Rows[Trial]:
        """Its trials that ended."""
        return _trials(self._results, self.job, run=self.id, outcomes=outcomes)

    def table(self) -> dict[str, list[Any]]:
        """Its trials as columns by name, for a frame: `run.trials().table()`."""
        return self.trials().table()


@dataclasses.dataclass(frozen=True, slots=True)
class Trial:
    """A trial that ended. Times are UTC, cost is in US dollars."""

    job: str
    run: str
    node_id: str
    benchmark: str
    benchmark_version: str | None
    scenario: str
    agent: str
    provider: str | None
    model: str | None
    attempt: int
    tries: int
    outcome: str
    class_: str | None
    """Reason why it did not pass, in a word. The column of a table is called `class`."""
    message: str | None
    score: float | None
    threshold: float
    started_at: datetime.datetime
    finished_at: datetime.datetime
    seconds: float
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: float | None
    signature: str | None
    """Of what decides its result: trials with the same one are samples of the same thing."""
    reused: str | None
    """The job it was reused from: it did not run in this one."""
    rescored: str | None
    """The job whose trial was graded anew: no agent ran in this one."""
    kept: str | None
    """Image with the file system the agent left."""
    path: str
    """Of its files, relative to the directory of its job."""
    comparable: str | None
    """Of what both sides of a comparison must have in common; None: unknown."""
    known: str | None
    """Mode of the known failure it was."""
    tags: str | None
    """Of its scenario, a JSON list."""
    cluster: str | None
    """Scenarios of one cluster are not independent of each other."""
    calls: int | None
    """Calls of models that were answered."""
    metrics: str | None
    """What its scorers measured, JSON: name -> [value, unit, direction of better values]. See also `measured`."""
    graded_in: str | None
    """`fresh` or `agent_container`, or `not_needed`; None: an earlier version did not say."""
    _results: Path = dataclasses.field(repr=False, compare=False)

    @classmethod
    def of(cls, row: TrialRow, results: Path) -> Trial:
        """Make one of a row."""
        values = row._asdict()
        for name in ("started_at", "finished_at"):
            values[name] = datetime.datetime.fromisoformat(values[name])
        return cls(**values, _results=results)

    @property
    def directory(self) -> Path:
        """Its files.

        Raises:
            InputError: they are not here: it came with a history alone, or could not be written.
        """
        root = JobBundle(self._results, self.job).root
        if not self.path or not root.is_dir():
            raise InputError(f"the files of {one_line(self.node_id, 200)} in job {self.job} are not here")
        return inside(root, self.path)

    def result(self) -> TrialResult:
        """Everything that is known of it.

        Raises:
            InputError: its files are not here, or damaged.
        """
        return read_result(self.directory)

    def measured(self) -> tuple[Metric, ...]:
        """Return what its scorers measured beside the score."""
        return metrics_of(self.metrics)

    def scores(self) -> list[ScoreRow]:
        """List the score of each scorer."""
        with HistoryReader.of(self._results) as history:
            return history.scores(self.job, self.node_id)

    def log(self) -> str:
        """Return what the agent printed; of a reused or rescored trial, what it printed in the earlier job.

        Raises:
            InputError: its files are not here. No log is no mistake: then it is empty.
        """
        log = TrialLayout(self.directory).agent_log
        if not log.is_file():
            for place, _ in origins(self._results, self.result()):
                log = TrialLayout(place).agent_log
                if log.is_file():
                    break
        try:
            return clean(log.read_text("utf-8", "replace"))
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=log) from error

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{name.rstrip('_')}</th><td>{cell(getattr(self, name))}</td></tr>"
            for name in names_of(self)
        )
        return f"<table><tbody>{rows}</tbody></table>"


def list_runs(
    results: Path,
    *,
    job: str | None = None,
    benchmark: str | None = None,
    agent: str | None = None,
    statuses: Collection[str] = (),
) -> Rows[Run]:
    """List the runs in a results directory, the oldest first.

    Raises:
        InputError: there is no such status.
    """
    wanted = several(statuses, JobStatus, "status")

    def read() -> Iterator[Run]:
        with HistoryReader.of(results) as history:
            for row in history.each_run(job=job, benchmark=benchmark, agent=agent, statuses=wanted):
                yield Run.of(row, results)

    return Rows(Run, read, _RUN_SHOWN)


def _trials(
    results: Path,
    job: str,
    *,
    run: str | None,
    agent: str | None = None,
    scenario: str | None = None,
    outcomes: Collection[str],
) -> Rows[Trial]:
    wanted = several(outcomes, Outcome, "outcome")

    def read() -> Iterator[Trial]:
        with HistoryReader.of(results) as history:
            for row in history.each_trial(job, run=run, agent=agent, scenario=scenario, outcomes=wanted):
                yield Trial.of(row, results)

    return Rows(Trial, read, _TRIAL_SHOWN)
