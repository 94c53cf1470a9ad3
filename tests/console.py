"""`benchjobs`, called as a user does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

COMMAND = (sys.executable, "-c", "from pytest_benchjobs.cli import main; main()")
"""The console script need not be on PATH."""


def benchjobs(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,  # only against hanging
        check=False,
    )
