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


CLOCK = """
import time

def test_stops_it(monkeypatch): monkeypatch.setattr(time, "monotonic", lambda: 1.0)

def test_after(): pass
"""


@pytest.mark.parametrize(
    ("text", "options", "limit", "printed"),
    [
        (STUCK, (), "0.5", ("Timeout", "in test_stuck")),
        pytest.param(
            STUCK, ("-n", "1"), "0.5", ("crashed while running 'test_it.py::test_stuck'", "1 failed, 1 passed"),
            marks=pytest.mark.extended,
        ),
        (CLOCK, (), "60", ("it replaces the clock of the whole process: use tests.support.set_clock", "1 failed, 1 passed")),
    ],
    ids=["no signal reaches it", "and xdist runs the others", "the clock of the process"],
)  # fmt: skip
def test_one_that_cannot_be_interrupted_is_named(
    tmp_path: Path, text: str, options: tuple[str, ...], limit: str, printed: tuple[str, ...]
) -> None:
    (tmp_path / "test_it.py").write_text(text)
    output = _run(tmp_path, *options, limit=limit)
    assert [part for part in printed if part not in output] == []
