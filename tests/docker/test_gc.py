"""`benchjobs gc` removes what nobody needs, and nothing of jobs that are alive, or of other directories."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_benchjobs.model.job import JobStatus
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.store.bundle import JobBundle
from tests.unit.records import NOW, record
from tests.unit.test_cli import run

from .sandboxes import started

pytestmark = pytest.mark.docker

Keep = Callable[..., str]


@pytest.fixture
def keep(provider: DockerProvider, tmp_path: Path) -> Iterator[Keep]:
    """Makes a job of which something was kept; returns the reference."""
    made: list[str] = []

    def keep(job: str, directory: Path = tmp_path, **changes: object) -> str:
        values = {"status": JobStatus.COMPLETED, "finished_at": NOW, **changes}
        JobBundle.create(directory, record(directory, id=job, **values))
        labels = {"job": job, "trial": "t", "bundle": str(directory / "jobs" / job)}
        with started(provider, labels=labels) as sandbox:
            made.append(sandbox.keep(f"{job}-{secrets.token_hex(3)}"))
        return made[-1]

    yield keep
    for reference in made:
        provider.forget_kept(reference)


def _there(provider: DockerProvider, *references: str) -> list[bool]:
    kept = {one.reference for one in provider.kept()}
    return [reference in kept for reference in references]


def _id(number: int) -> str:
    return f"20261121-0547{number:02}-{secrets.token_hex(3)}"


def test_only_what_was_kept_of_deleted_jobs_goes_by_itself(
    provider: DockerProvider, keep: Keep, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deleted = _id(1)
    gone, stays = keep(deleted), keep(_id(2))
    shutil.rmtree(tmp_path / "jobs" / deleted)
    assert run("gc", "--dir", tmp_path) == 0
    assert _there(provider, gone, stays) == [False, True]
    assert "removed 1 kept file system, " in capsys.readouterr().out


def test_all_of_this_directory_goes_when_asked_but_not_that_of_jobs_alive(
    provider: DockerProvider, keep: Keep, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ended, alive, graded = _id(1), _id(2), _id(3)
    of_ended = keep(ended)
    of_alive = keep(alive, status=JobStatus.RUNNING, finished_at=None, owner=current_owner())
    of_graded = keep(graded)
    JobBundle.create(
        tmp_path, record(tmp_path, id=_id(4), parent=graded, owner=current_owner(), status=JobStatus.RUNNING)
    )
    elsewhere = keep(_id(5), tmp_path_factory.mktemp("elsewhere"))
    assert run("gc", "--kept", "--dir", tmp_path) == 0
    assert _there(provider, of_ended, of_alive, of_graded, elsewhere) == [False, True, True, True]


def test_what_was_graded_anew_is_kept_when_the_first_job_is_deleted(
    provider: DockerProvider, keep: Keep, tmp_path: Path
) -> None:
    first = _id(1)
    reference = keep(first)
    child = record(tmp_path, id=_id(2), parent=first, status=JobStatus.COMPLETED, finished_at=NOW)
    JobBundle.create(tmp_path, child)
    shutil.rmtree(tmp_path / "jobs" / first)
    assert run("gc", "--dir", tmp_path) == 0
    assert _there(provider, reference) == [True]
    shutil.rmtree(tmp_path / "jobs" / child.id)
    assert run("gc", "--dir", tmp_path) == 0
    assert _there(provider, reference) == [False]


def test_what_is_young_stays_and_logs_of_long_ago_go(
    provider: DockerProvider, keep: Keep, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, young = _id(1), _id(2)
    reference = keep(old)
    keep(young)
    logs = [tmp_path / "jobs" / job / "pytest.log" for job in (old, young)]
    for log in logs:
        log.write_text("output")
    os.utime(logs[0], (0, 0))
    assert run("gc", "--dir", tmp_path) == 0
    assert [log.exists() for log in logs] == [True, True]
    capsys.readouterr()
    assert run("gc", "--kept", "--older-than", "1", "--dir", tmp_path) == 0
    assert [log.exists() for log in logs] == [False, True]
    assert "removed 1 log of a detached job\n" in capsys.readouterr().out
    assert _there(provider, reference) == [True]
    assert run("gc", "--kept", "--older-than", "0", "--dir", tmp_path) == 0
    assert _there(provider, reference) == [False]
