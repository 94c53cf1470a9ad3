"""A results directory that several users share, where one of them keeps a job to themselves."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_benchjobs.cli import doctor as findings
from pytest_benchjobs.job.dead_jobs import recover
from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.finding import Health
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.index import rebuild
from pytest_benchjobs.store.layout import Layout

from .jobs import make_job, run
from .rights import as_nobody

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

CLOSED, OPEN = "20261121-054712-4f9a2c", "20261121-060000-000000"


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that everybody can write, with two jobs."""
    directory = Path(tempfile.mkdtemp(dir="/tmp"))
    for job in (CLOSED, OPEN):
        make_job(directory, job, {"nop": {"count": "P"}})
        (directory / "jobs" / job / "junit.xml").touch()
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    yield directory
    for path in (directory / "jobs" / CLOSED, directory / "jobs" / CLOSED / "trials"):
        path.chmod(0o777)
    shutil.rmtree(directory)


@pytest.fixture(params=[".", "trials"])
def closed(shared: Path, request: pytest.FixtureRequest) -> Path:
    """What of the job its owner has closed."""
    path = shared / "jobs" / CLOSED / request.param
    path.chmod(0)
    return path


def test_other_jobs_are_recovered_with_a_line_on_the_one_that_is_closed(shared: Path) -> None:
    (shared / "jobs" / CLOSED).chmod(0)

    def look() -> None:
        with History.of(shared) as history:
            (done,) = recover(shared, history)
        line = done.message
        assert line.startswith(f"job {CLOSED} could not be recovered: {shared}")
        assert line.endswith("junit.xml: cannot be read: Permission denied")

    assert as_nobody(look) == 0


def test_a_verdict_that_cannot_be_kept_stands(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("gate", CLOSED, "--min-score", "0.5", "--dir", shared)
    run(*arguments)
    Layout(shared).history.chmod(0o666)
    (shared / "jobs" / CLOSED).chmod(0)
    capsys.readouterr()

    def look() -> None:
        assert run(*arguments) == 0
        assert "warning: this verdict could not be stored: " in capsys.readouterr().err

    assert as_nobody(look) == 0


@pytest.mark.parametrize(
    ("command", "closed", "words"),
    [
        *((command, ".", ": cannot be read: Permission denied") for command in ("watch", "resume", "export")),
        ("export", "trials", "agent.log: cannot be read: Permission denied"),
        ("summary", ".", None),  # which needs only the history
    ],
    indirect=["closed"],
)
def test_reading_what_is_closed_is_an_error_in_a_line(
    shared: Path, closed: Path, capsys: pytest.CaptureFixture[str], command: str, words: str | None
) -> None:
    # Once by root, it has imported what it needs, which may be where nobody else can read.
    run(command, CLOSED, "--dir", shared)
    capsys.readouterr()

    def look() -> None:
        assert run(command, CLOSED, "--dir", shared) == (0 if words is None else 2)
        said = capsys.readouterr().err.splitlines()
        assert len(said) == (words is not None)
        assert all(line.startswith(f"benchjobs: {shared}") and line.endswith(str(words)) for line in said)

    assert as_nobody(look) == 0


def test_doctor_says_who_cures_what_rebuild_says_it_could_not_read(shared: Path, closed: Path) -> None:
    def look() -> None:
        (found,) = findings.jobs(shared)
        assert found.health is Health.PROBLEM
        assert found.found == f"1 job cannot be read: {closed}"
        assert str(found.cure).startswith(f"chmod -R u+rwX,go+rX {closed} by its owner")
        _, trials, (warning,) = rebuild(shared)
        assert trials == 1
        assert str(warning).startswith(str(closed))
        assert "cannot be read: Permission denied" in str(warning)

    assert as_nobody(look) == 0


def test_a_file_that_cannot_be_known_is_not_called_missing(shared: Path) -> None:
    (shared / "jobs" / CLOSED).chmod(0)

    def look() -> None:
        with pytest.raises(InputError, match="cannot be read: Permission denied"):
            JobBundle.open(shared, CLOSED)
        with pytest.raises(InputError, match="there is no job"):
            JobBundle.open(shared, "20261121-070000-000000")

    assert as_nobody(look) == 0
