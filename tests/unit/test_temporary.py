"""Temporary directories of dead processes go at the next start, and nobody else's."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pytest_benchjobs.system.temporary import hold, sweep, temporary_directory, temporary_path


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


SCRIPT = """
import os, signal
from pytest_benchjobs.system.temporary import temporary_directory
with temporary_directory("build") as directory:
    (directory / "deep").mkdir()
    print(directory, flush=True)
    input()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_that_of_a_killed_process_goes_and_that_of_a_living_one_stays() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    directory = Path(process.stdout.readline().strip())
    sweep()
    assert (directory / "deep").is_dir()
    process.communicate("\n")
    assert (directory / "deep").is_dir()
    sweep()
    assert not directory.exists()


def test_ours_is_removed_at_the_end_and_not_before(tmp_path: Path) -> None:
    with temporary_directory("plan") as directory:
        sweep()
        assert directory.is_dir()
        assert directory.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_one_that_nobody_holds_yet_is_left_alone_for_a_while() -> None:
    directory = temporary_path("xdist-1")
    directory.mkdir()
    sweep()
    assert directory.is_dir()
    os.utime(directory, (1, 1))
    sweep()
    assert not directory.exists()


def test_what_only_looks_like_one_is_nobodys_to_remove(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.close(hold(elsewhere) or -1)
    temporary_path("link").symlink_to(elsewhere)
    temporary_path("file").write_text("x")
    (tmp_path / f"benchjobs-{os.getuid() + 1}-xdist-1").mkdir()
    os.utime(tmp_path / f"benchjobs-{os.getuid() + 1}-xdist-1", (1, 1))
    before = sorted(tmp_path.rglob("*"))
    sweep()
    assert sorted(tmp_path.rglob("*")) == before
