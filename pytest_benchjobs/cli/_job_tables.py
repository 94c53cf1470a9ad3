"""Pages of the history for `list` and `runs`: their rows, statuses and columns."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..report.table import Cell, count_cell
from ._output import say

if TYPE_CHECKING:
    from ..report.documents.jobs import JobItem, RunItem
    from ..store.reader import HistoryReader

_STATUS_COLOURS = {
    "completed": "green",
    "running": "blue",
    "failed": "red",
    "cancelled": "yellow",
    "timeout": "yellow",
    "budget": "yellow",
    "paused": "yellow",
}


def read_page(directory: Path, page: Callable[[HistoryReader], list[Any]]) -> list[Any]:
    """Return rows of the history; where there are no results, none, and a message on stderr.

    Raises:
        InputError: there are jobs, but the history has none of them.
    """
    from ..store.reader import HistoryReader
    from ..store.results import has_results, refuse_without_jobs

    if not has_results(directory):
        say(f"there are no results in {directory}", err=True)
        return []
    with HistoryReader.of(directory) as history:
        rows = page(history)
        if not rows:
            refuse_without_jobs(history)
        return rows


def parse_statuses(given: tuple[str, ...]) -> list[str]:
    """Return the statuses of `--status`, whose values may be lists with commas.

    Raises:
        ClickException: a status is unknown.
    """
    from ..model.job import JobStatus

    found = []
    for word in ",".join(given).split(",") if given else ():
        name = word.strip().lower()
        name = "cancelled" if name == "canceled" else name
        if name not in set(JobStatus):
            raise click.ClickException(
                f"invalid status {word.strip()!r}{did_you_mean(name, JobStatus)}; valid are {', '.join(JobStatus)}"
            )
        found.append(name)
    return found


def status_cell(item: JobItem | RunItem) -> Cell:
    """Return the status in its colour."""
    return Cell("died", "red") if item.dead else Cell(item.status, _STATUS_COLOURS.get(item.status))


def errors_cell(item: JobItem | RunItem) -> Cell:
    """Return the number of errors, in red where there are any."""
    return count_cell(item.error, "red")


def did_you_mean(word: str, known: Any) -> str:
    """Return ` (did you mean NAME?)`, or nothing when no known name is like the word."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""
