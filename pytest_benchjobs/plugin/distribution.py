"""Distribution by pytest-xdist: the run loop in every worker, and the controller's part.

worker      collects; if there are trials, leaves a message in the meeting place before it reports its collection
controller  finds the message with the first collection: begins the job, takes over the scheduling
worker      takes queued items into its flight, reports trials in the order they land
controller  writes the history as reports come in; when a worker dies, reports its trials in flight

The number of concurrent trials is a property of the job: workers share token files (see `trial.flight.Tokens`), so a
worker that has all trials, as with `--dist loadfile`, may use all of them. A worker writes a *will* for each trial in
flight, the trial as JSON, from which the controller writes the result if the worker dies.

Only these four modules know xdist (its scheduler: `scheduling`). They rely on the hooks of xdist, on `DSession.sched`,
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
"""Key of the data that the controller gives a worker."""
EMPTY_SHARD = "empty-shard"
"""File by which a worker says that all trials are in other shards."""


class Node(Protocol):
    """The used part of xdist's `WorkerController`."""

    config: pytest.Config
    workerinput: dict[str, Any]
    gateway: Any
    shutting_down: bool

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        """Queue tests for the worker."""


def write(path: Path, text: str) -> None:
    """Write a file atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, "utf-8", errors="replace")
    temporary.rename(path)
