"""`benchjobs watch` on a real terminal: what is drawn, and how it is left."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.text import Text

from pytest_benchjobs.cli._screen import Screen
from tests.terminal import BENCHJOBS, TMUX, Terminal

from .watched import JOB, WatchedJob

pytestmark = pytest.mark.when_changed

DRAWING = {"alternate": True, "cursor": False, "wrap": False}
LEFT = {"alternate": False, "cursor": True, "wrap": True}


@pytest.fixture
def job(tmp_path: Path) -> WatchedJob:
    job = WatchedJob(tmp_path / "reports", trials=20, name="nightly")
    # As no trial was seen to begin before others ended, nobody knows the time that is left: that does not change either.
    for number in range(9):
        job.land(f"landed-{number}", "nop")
    for number in range(4):
        job.fly(f"flying-{number}")
    heartbeat = job.bundle.root / ".heartbeat"
    heartbeat.touch()
    os.utime(heartbeat, (time.time() + 3600,) * 2)
    return job


@pytest.fixture
def tmux() -> None:
    if TMUX is None:
        pytest.skip("there is no tmux")


@pytest.fixture
def terminal(tmux: None, job: WatchedJob, tmp_path: Path) -> Iterator[Terminal]:
    with Terminal(tmp_path, 80, 24) as terminal:
        watch(terminal)
        yield terminal


def watch(terminal: Terminal) -> str:
    terminal.type(f"{BENCHJOBS} watch; echo status $?")
    return drawn(terminal)


def drawn(terminal: Terminal) -> str:
    return terminal.until(lambda text: text.startswith("nightly") and "stop watching" in text)


def left(terminal: Terminal, status: int) -> str:
    text = terminal.until(lambda text: f"status {status}\n$" in text)
    assert terminal.mode() == LEFT
    terminal.type("stty -a | tr ' ' '\\n' | grep -cxE -- 'echo|icanon'")
    terminal.until(lambda text: text.endswith("\n2\n$"))
    return text


def timeless(text: str) -> str:
    """The same at any moment."""
    return re.sub(r" +(?:ETA )?(?:\d+m)?\d+s\b", " *", text)


def test_it_draws_on_a_screen_of_its_own(terminal: Terminal) -> None:
    assert terminal.mode() == DRAWING
    lines = terminal.text().splitlines()
    assert len(lines) == 24
    assert lines[0].startswith(f"nightly ({JOB})")
    assert len(lines[0]) == 80
    assert lines[-1] == "arrows, Enter: follow one trial; q or Ctrl-C: stop watching; the job continues"


def test_it_follows_the_job_and_ends_with_its_results(job: WatchedJob, terminal: Terminal) -> None:
    job.land("flying-2")
    terminal.until(lambda text: "10/40 trials, 3 running" in text and re.search("✓  flying-2 +oracle", text))
    job.end()
    text = left(terminal, 0)
    assert "Benchmark Job Results" in text
    assert f"benchjobs summary -e {JOB}" in text


@pytest.mark.parametrize("key", ["C-c", "q"])
def test_whoever_has_seen_enough_is_told_how_to_come_back(terminal: Terminal, key: str) -> None:
    terminal.press(key)
    text = left(terminal, 130)
    assert f"The job continues. `benchjobs watch {JOB}` shows it again." in text.replace("\n", "")


def test_sigterm_leaves_the_screen(terminal: Terminal) -> None:
    os.kill(terminal.child(), signal.SIGTERM)
    left(terminal, 143)


def test_a_job_that_dies_leaves_the_screen(job: WatchedJob, terminal: Terminal) -> None:
    job.change(owner=job.record.owner.model_copy(update={"started": "never"}))
    text = left(terminal, 1)
    assert f"job {JOB} died" in text
    assert f"benchjobs resume {JOB}" in text


def test_a_damaged_job_leaves_the_screen_and_is_a_line(job: WatchedJob, terminal: Terminal) -> None:
    (job.bundle.root / "job.json").write_text("{")
    assert "is damaged" in left(terminal, 2).replace("\n", "")


def test_what_is_typed_does_not_show(terminal: Terminal) -> None:
    before = timeless(terminal.text())
    for key in ("x", "y", "Space", "z"):
        terminal.press(key)
    terminal.press("C-l")
    assert timeless(drawn(terminal)) == before
    terminal.press("q")
    left(terminal, 130)


@pytest.mark.parametrize("size", [(200, 50), (60, 10), (81, 25), (40, 30)], ids=str)
def test_after_a_change_of_size_nothing_is_left_of_the_old_picture(
    tmp_path: Path, terminal: Terminal, size: tuple[int, int]
) -> None:
    with Terminal(tmp_path, *size) as other:
        other.type(f"{BENCHJOBS} watch")
        fresh = timeless(other.until(lambda text: text.startswith("nightly")))
    terminal.resize(*size)
    terminal.until(lambda text: timeless(text) == fresh)
    terminal.resize(80, 24)
    drawn(terminal)
    terminal.resize(*size)
    terminal.until(lambda text: timeless(text) == fresh)


def test_other_peoples_output_is_drawn_over(terminal: Terminal) -> None:
    before = timeless(terminal.text())
    shell = Path(f"/proc/{terminal.child()}/fd/1").readlink()
    shell.write_text("\x1b[5;5Hsomebody else\r\nwas here")
    terminal.until(lambda text: "was here" in text)
    terminal.until(lambda text: timeless(text) == before)


def test_ctrl_z_gives_the_screen_back_until_it_goes_on(job: WatchedJob, terminal: Terminal) -> None:
    terminal.press("C-z")
    terminal.until(lambda text: "Stopped" in text)
    assert terminal.mode() == LEFT
    job.land("flying-0")
    terminal.type("fg")
    terminal.until(lambda text: "10/40 trials" in text)
    assert terminal.mode() == DRAWING
    drawn(terminal)
    terminal.press("q")
    terminal.until(lambda text: "The job continues" in text)


def test_a_dumb_terminal_gets_lines(tmux: None, job: WatchedJob, tmp_path: Path) -> None:
    with Terminal(tmp_path, 80, 24, TERM="dumb") as terminal:
        terminal.type(f"TERM=dumb {BENCHJOBS} watch; echo status $?")
        terminal.until(lambda text: "9/40 passed landed-8" in text)
        assert terminal.mode() == LEFT
        terminal.press("C-c")
        left(terminal, 130)


def test_where_there_is_no_utf8_it_draws_in_ascii(tmux: None, job: WatchedJob, tmp_path: Path) -> None:
    with Terminal(tmp_path, 80, 24, PYTHONIOENCODING="ascii") as terminal:
        text = watch(terminal)
        assert text.isascii()
        assert "#####" in text
        assert re.search(r"^\+  landed-8", text, re.MULTILINE)


def test_only_lines_that_changed_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stdout", written)
    monkeypatch.setattr(Screen, "size", (20, 3))
    screen = Screen(wakeup=-1)
    screen.enter()

    def drawn(*lines: str) -> str:
        written.seek(0)
        written.truncate()
        screen.show([Text(line) for line in lines])
        return written.getvalue()

    first = drawn("one", "two")
    assert "one" in first
    assert "two" in first
    assert drawn("one", "two") == ""
    assert drawn("one", "other") == f"\x1b[2;1H{'other':<20}"
    assert drawn("one") == f"\x1b[2;1H{'':<20}"
    monkeypatch.setattr(Screen, "size", (10, 2))
    again = drawn("one", "two")
    assert "\x1b[2J" in again
    assert f"\x1b[1;1H{'one':<10}\x1b[2;1H{'two':<10}" in again
    screen.leave()


def test_enter_follows_one_trial(job: WatchedJob, terminal: Terminal) -> None:
    terminal.press("Down")
    terminal.press("Enter")
    text = terminal.until(lambda text: "Enter or Esc: back to the job" in text)
    assert "[oracle-1]" in text.splitlines()[1]
    terminal.press("Escape")
    drawn(terminal)
    terminal.until(lambda text: "arrows, Enter: follow one trial" in text)
    terminal.press("q")
    left(terminal, 130)
