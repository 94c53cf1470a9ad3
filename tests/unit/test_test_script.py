"""`scripts/test.sh` ends with 0 only when every part of it did."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ..shares import ROOT

_PARTS = ("engine", "venv", "images", "compose", "bubblewrap", "chromium")


def _program(path: Path, lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{lines}\n", "utf-8")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("failing", "status"),
    [
        ("", 0),
        ("-m pytest -q", 1),
        ("-m pytest tests --collect-only", 0),  # only ahead of time
        ("-m mypy", 1),
        ("-m mkdocs", 1),
        ("lint-imports", 1),
        ("scripts/matrix.py", 1),
        ("images", 1),
        ("compose", 0),  # tests of services say that they are skipped
    ],
)
def test_its_status_is_that_of_its_parts(tmp_path: Path, failing: str, status: int) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "test.sh", tmp_path / "scripts")
    for part in _PARTS:
        _program(tmp_path / "scripts" / f"{part}.sh", f"exit {int(part == failing)}")
    for program in ("python", "lint-imports"):
        fails = f'case "$(basename $0) $*" in *"{failing}"*) exit 3;; esac' if failing else ""
        _program(tmp_path / ".venv" / "bin" / program, fails)
    done = subprocess.run(
        [tmp_path / "scripts" / "test.sh", "--quick oldest"], capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert f"test: {'FAILED' if status else 'passed'} after" in done.stdout or failing in _PARTS
