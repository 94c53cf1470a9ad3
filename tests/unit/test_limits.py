"""A test that hangs is named, wherever it hangs, and the others run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HANGING = """
import subprocess, threading, time
import pytest

WAITS = {
    "sleep": lambda: time.sleep(1000),
    "process": lambda: subprocess.run(["sleep", "1000"]),
    "lock": lambda: threading.Event().wait(),
    "stubborn": lambda: stubborn(),
}

def stubborn():
    try:
        time.sleep(1000)
    except Exception:
        pass

@pytest.fixture
def slow():
    time.sleep(1000)

@pytest.fixture
def slow_after():
    yield
    time.sleep(1000)

@pytest.mark.parametrize("how", WAITS)
def test_hangs(how):
    WAITS[how]()

def test_in_a_fixture(slow): pass
def test_after(slow_after): pass
def test_good(): pass
"""

STUCK = """
import signal, time

def test_stuck():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(1000)

def test_good(): pass
"""


def _run(directory: Path, *options: str, limit: str) -> str:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.limits", "-p", "no:hypothesispytest", *options, "."],
        cwd=directory,
        env={**os.environ, "BENCHJOBS_TEST_SECONDS": limit, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize(
    "options",
    [pytest.param((), id="alone"), pytest.param(("-n", "2"), id="xdist", marks=pytest.mark.extended)],
)
def test_one_that_waits_for_ever_fails_under_its_name(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "test_it.py").write_text(HANGING)
    output = _run(tmp_path, *options, limit="0.5")
    for name, phase in {
        **{f"test_hangs[{how}]": "call" for how in ("sleep", "process", "lock", "stubborn")},
        "test_in_a_fixture": "set-up",
        "test_after": "teardown",
    }.items():
        assert f"test_it.py::{name} hangs: its {phase} took longer than 0.5 s" in output
    assert "4 failed, 2 passed, 2 errors" in output


def test_one_that_no_signal_reaches_is_named_by_its_stack(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(STUCK)
    output = _run(tmp_path, limit="0.5")
    assert "Timeout" in output
    assert "in test_stuck" in output


@pytest.mark.extended
def test_one_that_no_signal_reaches_is_named_by_xdist_and_the_others_run(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(STUCK)
    output = _run(tmp_path, "-n", "1", limit="0.5")
    assert "crashed while running 'test_it.py::test_stuck'" in output
    assert "1 failed, 1 passed" in output


def test_one_that_replaces_the_clock_of_the_process_fails(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import time\n\n"
        "def test_stops_it(monkeypatch):\n    monkeypatch.setattr(time, 'monotonic', lambda: 1.0)\n\n"
        "def test_after(): pass\n"
    )
    output = _run(tmp_path, limit="60")
    assert "it replaces the clock of the whole process: use tests.support.set_clock" in output
    assert "1 failed, 1 passed" in output
