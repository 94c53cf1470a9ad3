"""A results directory as people see it from Python."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from ..model.errors import InputError
from ..model.job import JobStatus
from ..store.reader import HistoryReader
from ..store.results import find_job
from .records import JOB_SHOWN, Job, Run, list_runs
from .rows import Rows, instant, several


class Store:
    """The results in a directory.

    Raises:
        InputError: there are none, or a newer version of this package wrote them.
    """

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

        Raises:
            InputError: there is no such status.
            TypeError: `since` is no time.
        """
        begun, wanted = instant(since), several(statuses, JobStatus, "status")

        def read() -> Iterator[Job]:
            with self.history() as history:
                for row in history.each_job(since=begun, statuses=wanted):
                    yield Job.of(row, self.directory)

        return Rows(Job, read, JOB_SHOWN)

    def job(self, text: str = "last") -> Job:
        """Find a job by its id or the beginning of it, by its name, or as `last` or `last~N`.

        Raises:
            InputError: there is none, or several ids begin so.
            TypeError: it is no text.
        """
        if not isinstance(text, str):
            raise TypeError(f"a job is named by a text, such as its id or `last~1`, not {text!r}")
        with self.history() as history:
            row = history.job_row(find_job(history, text))
        if row is None:
            raise InputError(f"job {text!r} no longer exists")
        return Job.of(row, self.directory)

    def runs(
        self,
        *,
        job: str | None = None,
        benchmark: str | None = None,
        agent: str | None = None,
        statuses: Collection[str] = (),
    ) -> Rows[Run]:
        """Runs of all jobs, the oldest first: each is one benchmark and one agent in one job. `job` is an id.

        Raises:
            InputError: there is no such status.
        """
        return list_runs(self.directory, job=job, benchmark=benchmark, agent=agent, statuses=statuses)

    def table(self) -> dict[str, list[Any]]:
        """All runs as columns by name, for a frame: `store.runs().table()`."""
        return self.runs().table()

    def history(self) -> HistoryReader:
        """Open the index itself, for a `with` block."""
        return HistoryReader.of(self.directory)
