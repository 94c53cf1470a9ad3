"""`benchjobs`, called on results that a test made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_benchjobs.model.job import JobRecord
from pytest_benchjobs.model.result import Origin, TrialResult
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.history import History

from .jobs import documents, make_job, run
from .records import NOW


def origin(job: str, path: str = "trials/oracle/count/1") -> Origin:
    """Where a trial ran before."""
    return Origin(job=job, path=path, finished_at=NOW)


class Said(NamedTuple):
    """What a command printed."""

    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Cli:
    """The commands, and the results in `directory` that they read."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self._capsys = capsys

    def at(self, directory: Path) -> Cli:
        """The same commands on results elsewhere."""
        return Cli(directory, self._capsys)

    def __call__(self, *arguments: object, status: int = 0) -> Said:
        """Call a command, which has to end with this status."""
        ended = run(*arguments, "--dir", self.directory)
        said = Said(*self._capsys.readouterr())
        assert ended == status, said
        return said

    def refused(self, *arguments: object) -> str:
        """Call a command that is a mistake; returns the one line that says so."""
        out, err = self(*arguments, status=2)
        assert (out, err.count("\n")) == ("", 1), err
        return err

    def document(self, name: str, *arguments: object, option: str = "-o") -> dict[str, Any]:
        """Call the command of this name; returns its document, as JSON and as YAML."""
        return documents(self._capsys, name, name, *arguments, "--dir", self.directory, option=option)

    def make(
        self, job_id: str, trials: Mapping[str, Mapping[str, str]] | list[TrialResult], **more: Any
    ) -> JobRecord:
        """Make a job, as `make_job` does."""
        return make_job(self.directory, job_id, trials, **more)

    def index(self, job: JobRecord, results: list[TrialResult]) -> None:
        """Write these results of a job into the history alone."""
        with History.of(self.directory) as history:
            history.replace_job(job, results)

    def bundle(self, job_id: str) -> JobBundle:
        """Return the files of a job."""
        return JobBundle(self.directory, job_id)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """On results in the directory of the test."""
    return Cli(tmp_path, capsys)
