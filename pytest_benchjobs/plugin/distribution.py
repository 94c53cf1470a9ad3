"""Distribution by pytest-xdist: the run loop in every worker, and the controller's part in it.

    worker      collects; if it met trials, leaves word in the meeting place before it tells xdist what it collected
    controller  finds the word when the first collection is in: begins the job, takes over the scheduling
    worker      takes what is queued for it into its flight, reports what lands, in the order it lands
    controller  writes the history as reports come in; when a worker dies, reports for it what it had in flight

How many trials run at once is a property of the job: workers share token files (see `trial.flight.Tokens`), so a worker
with all trials of a `--dist loadfile` file to itself may use all of them. A worker leaves a *will* for each trial in
flight, the trial itself as JSON, from which the controller writes the result if the worker cannot.

These four modules alone know xdist (its scheduler: `scheduling`). They rely on the hooks of xdist, on `DSession.sched`,
on `LoadScheduling`, and on `WorkerInteractor` (found by its name) with `channel`, `torun`, `item_index`,
`handle_command` and `sendevent`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

INPUT = "benchjobs"
"""Key of what a worker is given by the controller."""


class Node(Protocol):
    """Part of xdist's `WorkerController` that is used here."""

    config: pytest.Config
    workerinput: dict[str, Any]
    gateway: Any
    shutting_down: bool

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        """Queue tests for it."""


def write(path: Path, text: str) -> None:
    """Write in one step: a reader sees all or nothing."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, "utf-8", errors="replace")
    temporary.rename(path)
