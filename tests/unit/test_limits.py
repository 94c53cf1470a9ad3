"""The limit of a test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import threading
import pytest

@pytest.fixture
def stuck():
    threading.Event().wait()

def test_hangs():
    threading.Event().wait()

def test_fixture_hangs(stuck):
    pass

def test_after():
    pass
"""


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
def test_a_test_that_hangs_fails_by_its_name_and_the_next_runs(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.limits", "-rA", "-p", "no:cacheprovider", *workers],
        cwd=tmp_path,
        env={
            **os.environ,
            "BENCHJOBS_TEST_SECONDS": "0.5",
            "COLUMNS": "200",
            "PYTHONPATH": str(Path(__file__).parents[2]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (
        "FAILED test_it.py::test_hangs - Failed: test_it.py::test_hangs took more than 0.5 s" in done.stdout
    )
    assert "ERROR test_it.py::test_fixture_hangs - Failed: test_it.py::test_fixture_hangs took" in done.stdout
    assert "PASSED test_it.py::test_after" in done.stdout
