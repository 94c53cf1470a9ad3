"""`benchjobs rm`: jobs are removed, unless something needs them."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from pytest_benchjobs.job.remove import hindrance, remove
from pytest_benchjobs.model.baseline import BaselineEntry
from pytest_benchjobs.model.job import JobStatus
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.result import Origin
from pytest_benchjobs.store.baselines import set_baseline
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.listing import JOBS, each
from pytest_benchjobs.store.liveness import hold

from .jobs import ended, make_job, run
from .records import NOW

OLD, NEW = "20260101-000000-aaaaaa", "20260102-000000-bbbbbb"
ORIGIN = Origin(job=OLD, path="trials/oracle/count/1", finished_at=NOW)


def _jobs(directory: Path) -> list[str]:
    """Jobs that the history knows, and those with files."""
    with History.of(directory) as history:
        known = {row.id for row in each(history, JOBS)}
        assert not history.select("SELECT 1 FROM trials WHERE job NOT IN (SELECT id FROM jobs)")
    files = {path.name for path in (directory / "jobs").iterdir() if path.is_dir()}
    assert known == files
    return sorted(known)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    make_job(tmp_path, OLD, [ended("P"), ended("F", "sort")], hours_ago=3, name="try")
    make_job(tmp_path, NEW, [ended("P")], hours_ago=1)
    return tmp_path


def test_a_job_goes_with_all_that_is_known_of_it(capsys: pytest.CaptureFixture[str], directory: Path) -> None:
    assert run("rm", "try", "--dir", directory) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"removed job {OLD}: 2 trials, ")
    assert _jobs(directory) == [NEW]
    assert run("rm", "last", "--dir", directory) == 0
    assert _jobs(directory) == []
    assert run("rm", "last", "--dir", directory) == 2


def test_several_jobs_are_removed_or_none(capsys: pytest.CaptureFixture[str], directory: Path) -> None:
    assert run("rm", "try", "nothing", "--dir", directory) == 2
    assert "there is no job 'nothing'" in capsys.readouterr().err
    assert _jobs(directory) == [OLD, NEW]
    assert run("rm", "last", "last~1", OLD, "--dir", directory, "-o", "json") == 0
    assert f'"job": "{OLD}"' in capsys.readouterr().out
    assert _jobs(directory) == []


def test_what_a_baseline_is_made_of_stays_unless_forced(
    capsys: pytest.CaptureFixture[str], directory: Path
) -> None:
    with History.of(directory) as history:
        set_baseline(history, BaselineEntry(name="main", jobs=(OLD,), set_at=NOW))
    assert run("rm", OLD, "--dir", directory) == 2
    error = capsys.readouterr().err
    assert error == (
        f"benchjobs: job {OLD} is needed: baseline main is made of it. --force removes it all the same\n"
    )
    assert run("rm", OLD, "--force", "--dir", directory) == 0
    assert _jobs(directory) == [NEW]


def test_what_other_jobs_reused_stays_unless_they_go_too(
    capsys: pytest.CaptureFixture[str], directory: Path
) -> None:
    last = "20260103-000000-cccccc"
    make_job(directory, last, [ended("P", reused=ORIGIN)], hours_ago=0.5)
    assert run("rm", OLD, "--dir", directory) == 2
    assert f"results of job {last} are those of its trials" in capsys.readouterr().err
    assert run("rm", OLD, last, "--dir", directory) == 0
    assert _jobs(directory) == [NEW]


def test_what_was_kept_goes_with_the_trials_that_it_was_kept_of(directory: Path) -> None:
    last = "20260103-000000-cccccc"
    trials = [
        ended("F", "a", kept="benchjobs-kept:2"),
        ended("F", "b", kept="benchjobs-kept:1"),
        ended("P", "c", kept="benchjobs-kept:of-another-job", reused=ORIGIN),
        ended("P", "d"),
    ]
    make_job(directory, last, trials)
    with History.of(directory) as history:
        removed = remove(directory, history, last)
    assert (removed.job, removed.trials, removed.kept) == (last, 4, ("benchjobs-kept:1", "benchjobs-kept:2"))
    assert removed.bytes > 0
    assert _jobs(directory) == [OLD, NEW]


def test_what_needs_a_job_is_named_up_to_five_of_it(directory: Path) -> None:
    users = [f"20260103-00000{number}-cccccc" for number in range(7)]
    found = []
    for job in users:
        make_job(directory, job, [ended("P", reused=ORIGIN)])
        with History.of(directory) as history:
            found.append(hindrance(history, OLD))
    assert str(found[0]).startswith(f"results of job {users[0]} are")
    named = [0 if why is None else sum(job in why for job in users) for why in found]
    assert named == [1, 2, 3, 4, 5, 5, 5]
    assert [why is not None and " more are" in why for why in found] == [False] * 5 + [True] * 2
    assert " and 2 more are" in str(found[6])
    with History.of(directory) as history:
        assert hindrance(history, OLD, users) is None
        assert "more" not in str(hindrance(history, OLD, users[1:]))


def test_a_job_that_runs_is_left_alone(capsys: pytest.CaptureFixture[str], directory: Path) -> None:
    running, held = "20260103-000000-cccccc", "20260104-000000-dddddd"
    make_job(directory, running, [], status=JobStatus.RUNNING, owner=current_owner())
    assert run("rm", running, "--force", "--dir", directory) == 2
    assert f"job {running} is running; `benchjobs cancel {running}` stops it" in capsys.readouterr().err
    make_job(directory, held, [])
    assert hold(directory / "jobs" / held) is not None
    assert run("rm", held, "--dir", directory) == 2
    assert f"another process writes job {held}" in capsys.readouterr().err
    assert _jobs(directory) == [OLD, NEW, running, held]


def test_a_removal_that_was_killed_is_finished(directory: Path) -> None:
    root = directory / "jobs" / OLD
    root.rename(root.with_name(f".old-0badcafe-{OLD}"))
    assert run("rm", OLD, "--dir", directory) == 0
    assert [path.name for path in (directory / "jobs").iterdir() if path.is_dir()] == [NEW]
    assert _jobs(directory) == [NEW]


@pytest.mark.parametrize(("answer", "more", "status"), [("n\n", (), 1), ("y\n", (), 0), ("", ("--yes",), 0)])
def test_a_terminal_is_asked_first(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    directory: Path,
    answer: str,
    more: tuple[str, ...],
    status: int,
) -> None:
    typed = io.StringIO(answer)
    monkeypatch.setattr(sys, "stdin", typed)
    for stream in (typed, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    assert run("rm", NEW, "--dir", directory, *more) == status
    assert _jobs(directory) == ([OLD, NEW] if status else [OLD])
    assert (f"Remove 1 job, with results and logs: {NEW}? [y/N]:" in capsys.readouterr().err) == bool(answer)
