"""What was kept of trials may be gone when somebody wants it: the engine knows."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import EngineUnavailable
from pytest_benchjobs.model.job import Invocation
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.protocol import Kept

from .jobs import ended, make_job, run

JOB = "20261121-054712-4f9a2c"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Three trials, of which two were kept."""
    call = Invocation(arguments=("a.bench.yaml",), directory=tmp_path, rootdir=tmp_path)
    trials = [ended("F", name, kept=f"benchjobs-kept:{name}") for name in ("one", "two")]
    make_job(tmp_path, JOB, [*trials, ended("P", "three")], invocation=call)
    return tmp_path


def has(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let the engine have this, and nothing else."""
    now = datetime.datetime.now(datetime.UTC)
    there = [Kept(f"benchjobs-kept:{name}", JOB, "t", "", 1, now) for name in names]
    monkeypatch.setattr(DockerProvider, "check", lambda self: None)
    monkeypatch.setattr(DockerProvider, "kept", lambda self: there)


def rescored(capsys: pytest.CaptureFixture[str], directory: Path) -> tuple[int, str]:
    status = run("rescore", JOB, "--print-command", "--dir", directory)
    return status, capsys.readouterr().err


def test_rescore_counts_what_is_still_there(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    others = "; the others are skipped\n"
    has(monkeypatch, "one", "two", "of another job")
    assert rescored(capsys, job) == (0, f"2 of 3 trials were kept{others}")
    has(monkeypatch, "two")
    assert rescored(capsys, job) == (0, f"1 of 3 trials were kept and are still here{others}")
    has(monkeypatch)
    status, said = rescored(capsys, job)
    assert status == 2
    assert said.startswith(
        f"benchjobs: the kept file systems of job {JOB} are gone (removed by `benchjobs gc --kept`"
    )


def test_shell_asks_to_choose_only_among_what_is_still_there(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    has(monkeypatch, "one", "two")
    assert run("shell", JOB, "--dir", job, "--", "true") == 2
    assert f"2 trials of job {JOB} were kept; choose one" in capsys.readouterr().err
    has(monkeypatch)
    assert run("shell", JOB, "--dir", job, "--", "true") == 2
    assert f"the kept file systems of job {JOB} are gone" in capsys.readouterr().err


def test_where_no_engine_answers_nothing_is_called_gone(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def check(self: DockerProvider) -> None:
        raise EngineUnavailable("no Docker Engine answers")

    monkeypatch.setattr(DockerProvider, "check", check)
    assert rescored(capsys, job)[1].startswith("2 of 3 trials were kept;")
