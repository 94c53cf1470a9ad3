"""Phases of a trial: their names and times, and what an error means in each."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.model.errors import DiskFull, EngineLost, InputError
from pytest_benchjobs.trial.cancellation import Cancellation, Cancelled
from pytest_benchjobs.trial.draft import Phases
from pytest_benchjobs.trial.run import classify, explain


def test_phases_follow_each_other_and_errors_are_of_the_last_in_which_something_was_done() -> None:
    clock: Any = SimpleNamespace(seconds=1.0)
    told: list[str] = []
    phases = Phases(clock, Cancellation(), told.append)
    phases.begin()
    for at, name in ((2.0, "image"), (3.0, "image"), (4.0, "agent"), (5.0, "remove")):
        clock.seconds = at
        phases.enter(name)
        assert phases.reached == ("agent" if name == "remove" else name)
    clock.seconds = 9.0
    phases.end()
    assert phases.reached == "agent"
    assert told == ["prepare", "image", "agent", "remove"]
    expected = [("prepare", 1.0, 2.0), ("image", 2.0, 4.0), ("agent", 4.0, 5.0), ("remove", 5.0, 9.0)]
    assert [(phase.name, phase.start, phase.end) for phase in phases.ended] == expected


def test_a_trial_that_was_asked_to_stop_enters_no_further_phase() -> None:
    cancellation = Cancellation()
    phases = Phases(SimpleNamespace(seconds=1.0), cancellation, lambda _: None)  # type: ignore[arg-type]
    phases.enter_unless_cancelled("image")
    cancellation.request()
    with pytest.raises(Cancelled):
        phases.enter_unless_cancelled("agent")
    assert phases.reached == "image"


@pytest.mark.parametrize("phase", ["prepare", "image", "start", "agent"])
def test_what_an_error_of_the_operating_system_means(phase: str, tmp_path: Path) -> None:
    gone = FileNotFoundError(errno.ENOENT, "No such file or directory", "/scenario/file")
    found = classify(gone, phase, tmp_path)
    if phase == "agent":
        assert found is gone
    else:
        assert isinstance(found, InputError)
        assert "/scenario/file" in str(found)
        assert "cannot be read: No such file" in str(found)
    nameless = OSError(errno.EIO, "broken")
    assert classify(nameless, phase, tmp_path) is nameless
    assert isinstance(classify(OSError(errno.ENOSPC, "full"), phase, tmp_path), DiskFull)
    other = ValueError("x")
    assert classify(other, phase, tmp_path) is other


@pytest.mark.parametrize(
    ("error", "class_", "detailed"),
    [
        (EngineLost("gone"), "engine_lost", False),
        (InputError("bad"), "input", False),
        (KeyError("x"), "internal", True),
    ],
)
def test_an_error_is_told_with_its_class_its_phase_and_of_ours_where_it_was(
    error: Exception, class_: str, *, detailed: bool
) -> None:
    found = explain(error, "agent")
    assert (found.class_, found.phase) == (class_, "agent")
    assert (found.detail is not None and "Traceback" not in found.message) is detailed
