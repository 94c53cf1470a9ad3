"""A results directory as people see it from Python: jobs, runs and trials, and the way to what belongs to them."""

from __future__ import annotations

import datetime
import enum
import html
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import PrivateAttr

from ..model.errors import InputError
from ..model.job import JobRecord, JobStatus
from ..model.metric import Metric
from ..model.result import Outcome, TrialResult
from ..sources.complaints import did_you_mean
from ..store.bundle import JobBundle
from ..store.copying import inside
from ..store.layout import TrialLayout
from ..store.listing import JOBS, RUNS, Wanted, each
from ..store.reader import HistoryReader
from ..store.results import find_job, origins
from ..store.rows import EventRow, JobView, RunRow, ScoreRow, TrialView, metrics_of, tags_of
from ..store.text import clean, one_line
from ..store.trials import read_result

_SHOWN = 20
_CELL_LIMIT = 80
AnyRow = TypeVar("AnyRow")
_JOB_SHOWN = (
    "id", "name", "status", "created_at", "ended", "passed", "failed", "error", "reused", "mean_score",
)  # fmt: skip
_RUN_SHOWN = (
    "id", "benchmark", "agent", "status", "ended", "passed", "failed", "error", "mean_score", "cost_usd",
)  # fmt: skip
_View = TypeVar("_View", "Job", "Run")
_TRIAL_SHOWN = ("scenario", "agent", "attempt", "outcome", "score", "class_", "seconds", "cost_usd", "reused")


class Store:
    """The results in a directory. Raises InputError: there are none, or a newer version of this package wrote them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        with self.history():
            pass  # says at once what is wrong, and brings an older history up to date

    def __repr__(self) -> str:
        return f"<results in {str(self.directory)!r}>"

    def _repr_html_(self) -> str:
        return self.jobs()._repr_html_()

    def jobs(
        self, *, since: datetime.datetime | datetime.timedelta | None = None, statuses: Collection[str] = ()
    ) -> Rows[Job]:
        """Jobs, the newest first: those that began at `since` or later (or so long ago), with one of `statuses`.

        Raises InputError: there is no such status; TypeError: `since` is no time.
        """
        wanted = Wanted(since=_instant(since), statuses=_several(statuses, JobStatus, "status"))

        def read() -> Iterator[Job]:
            with self.history() as history:
                for row in each(history, JOBS, wanted):
                    yield _with_results(Job, row, self.directory)

        return Rows(Job, read, _JOB_SHOWN)

    def job(self, text: str = "last") -> Job:
        """Find a job by its id or the beginning of it, by its name, or as `last` or `last~N`.

        Raises InputError: there is none, or several ids begin so; TypeError: it is no text.
        """
        if not isinstance(text, str):
            raise TypeError(f"a job is named by a text, such as its id or `last~1`, not {text!r}")
        with self.history() as history:
            row = history.job_row(find_job(history, text))
        if row is None:
            raise InputError(f"job {text!r} no longer exists")
        return _with_results(Job, row, self.directory)

    def runs(
        self,
        *,
        job: str | None = None,
        benchmark: str | None = None,
        agent: str | None = None,
        statuses: Collection[str] = (),
    ) -> Rows[Run]:
        """Runs of all jobs, the oldest first: each is one benchmark and one agent in one job. `job` is an id.

        Raises InputError: there is no such status.
        """
        wanted = Wanted(
            jobs=() if job is None else (job,),
            benchmarks=() if benchmark is None else (benchmark,),
            agents=() if agent is None else (agent,),
            statuses=_several(statuses, JobStatus, "status"),
        )

        def read() -> Iterator[Run]:
            with self.history() as history:
                for row in each(history, RUNS, wanted, sort="id", descending=False):
                    yield _with_results(Run, row, self.directory)

        return Rows(Run, read, _RUN_SHOWN)

    def table(self) -> dict[str, list[Any]]:
        """All runs as columns by name, for a frame: `store.runs().table()`."""
        return self.runs().table()

    def history(self) -> HistoryReader:
        """Open the index itself, for a `with` block."""
        return HistoryReader.of(self.directory)


class Rows(Generic[AnyRow]):
    """Jobs, runs or trials: to be iterated, as often as one likes, or taken as a table.

    They are read anew each time, a page at a time. In a notebook it shows the first of them.
    """

    def __init__(
        self, kind: type[AnyRow], read: Callable[[], Iterator[AnyRow]], shown: Sequence[str]
    ) -> None:
        self._kind = kind
        self._read = read
        self._shown = shown

    def __iter__(self) -> Iterator[AnyRow]:
        return self._read()

    def table(self) -> dict[str, list[Any]]:
        """Columns by name, as `pandas.DataFrame` and `polars.DataFrame` take them. Unknown is None, times are UTC."""
        columns: dict[str, list[Any]] = {name: [] for name in _names_of(self._kind)}
        for row in self:
            for name, column in columns.items():
                value = getattr(row, name)
                column.append(list(value) if isinstance(value, tuple) else value)
        return {name.rstrip("_"): column for name, column in columns.items()}

    def _repr_html_(self) -> str:
        rows: list[str] = []
        more = ""
        for row in self:
            if len(rows) == _SHOWN:
                more = "<p>and more</p>"
                break
            rows.append("".join(f"<td>{_cell(getattr(row, name))}</td>" for name in self._shown))
        head = "".join(f"<th>{name.rstrip('_')}</th>" for name in self._shown)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


class Job(JobView):
    """A job as it was when it was read. Times are UTC."""

    _results: Path = PrivateAttr()

    @property
    def directory(self) -> Path:
        """Its files."""
        return JobBundle(self._results, self.id).root

    def record(self) -> JobRecord:
        """Its configuration, and everything else that is known of it. Raises InputError: it is gone."""
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
        return Store(self._results).runs(job=self.id)

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


class Run(RunRow):
    """One benchmark and one agent in one job, as it was when it was read. Times are UTC.

    Cost, tokens and seconds are those spent in this job, in US dollars and seconds.
    """

    _results: Path = PrivateAttr()

    def trials(self, *, outcomes: Collection[str] = ()) -> Rows[Trial]:
        """Its trials that ended."""
        return _trials(self._results, self.job, run=self.id, outcomes=outcomes)

    def table(self) -> dict[str, list[Any]]:
        """Its trials as columns by name, for a frame: `run.trials().table()`."""
        return self.trials().table()


class Trial(TrialView[datetime.datetime, tuple[str, ...]]):
    """A trial that ended. Times are UTC, cost is in US dollars. See also `measured`, for its metrics."""

    _results: Path

    @property
    def directory(self) -> Path:
        """Its files. Raises InputError: they are not here: it came with a history alone, or could not be written."""
        root = JobBundle(self._results, self.job).root
        if not self.path or not root.is_dir():
            raise InputError(f"the files of {one_line(self.node_id, 200)} in job {self.job} are not here")
        return inside(root, self.path)

    def result(self) -> TrialResult:
        """Everything that is known of it. Raises InputError: its files are not here, or damaged."""
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

        Raises InputError: its files are not here. No log is no mistake: then it is empty.
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
            f"<tr><th>{name.rstrip('_')}</th><td>{_cell(getattr(self, name))}</td></tr>"
            for name in _names_of(self)
        )
        return f"<table><tbody>{rows}</tbody></table>"


def _with_results(kind: type[_View], row: JobView | RunRow, results: Path) -> _View:
    """Make a job or run of its row."""
    made = kind.model_validate({name: getattr(row, name) for name in kind.model_fields})
    made._results = results
    return made


def _trials(
    results: Path,
    job: str,
    *,
    run: str | None,
    agent: str | None = None,
    scenario: str | None = None,
    outcomes: Collection[str],
) -> Rows[Trial]:
    wanted = _several(outcomes, Outcome, "outcome")

    def read() -> Iterator[Trial]:
        with HistoryReader.of(results) as history:
            for row in history.each_trial(job, run=run, agent=agent, scenario=scenario, outcomes=wanted):
                values = row._asdict()
                for name in ("started_at", "finished_at"):
                    values[name] = datetime.datetime.fromisoformat(values[name])
                trial = Trial(**{**values, "tags": tags_of(row.tags)})
                trial._results = results
                yield trial

    return Rows(Trial, read, _TRIAL_SHOWN)


def _names_of(kind: Any) -> list[str]:
    """Names of the fields of a kind of row, or of a row."""
    return list(kind._fields if hasattr(kind, "_fields") else kind.model_fields)


def _cell(value: object) -> str:
    """A value as HTML."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, datetime.datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return html.escape(one_line(str(value), _CELL_LIMIT))


def _several(texts: Collection[str], valid: type[enum.StrEnum], what: str) -> tuple[str, ...]:
    """Words of `valid`; a text alone is one of them, not a collection of letters.

    Raises InputError: there is no such word.
    """
    words = (texts,) if isinstance(texts, str) else tuple(texts)
    known = [one.value for one in valid]
    for word in words:
        if word not in known:
            hint = did_you_mean(str(word), known)
            raise InputError(f"there is no {what} {word!r};{hint} valid are {', '.join(known)}")
    return words


def _instant(since: datetime.datetime | datetime.timedelta | None) -> datetime.datetime | None:
    """A time, or so long ago. Raises TypeError: it is neither."""
    if isinstance(since, datetime.timedelta):
        return datetime.datetime.now(datetime.UTC) - since
    if since is None or isinstance(since, datetime.datetime):
        return since
    raise TypeError(f"since has to be a datetime, or a timedelta for so long ago, not {since!r}")
