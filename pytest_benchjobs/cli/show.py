"""`show`: show everything about one trial."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..model.errors import InputError
from ..store.project import directory_argument
from ._directory import directory_option
from ._output import emit, output_option

if TYPE_CHECKING:
    from ..model.job import JobRecord
    from ..report.documents.trial import ShowDocument
    from ..store.reader import HistoryReader

_LISTED = 10


@click.command()
@click.argument("trial")
@click.option("--job", metavar="JOB", help="Of this job.  [default: the newest that has the trial]")
@directory_option
@output_option
def show(trial: str, job: str | None, directory: Path, output: str) -> None:
    """Show everything about one TRIAL: task, steps of the agent, output of scorers, files, and what to type next.

    TRIAL is an id as pytest and other commands print it (`ops.bench.yaml::fix[codex]`), one with the name of the
    benchmark (`ops::fix[codex]`), the id of a scenario, or the path of a trial's files.
    """
    from ..report.trial import show_document
    from ..store.reader import HistoryReader
    from ..store.trial_ids import trial_named

    with HistoryReader.of(directory) as history:
        try:
            row = trial_named(history, trial, job)
        except InputError:
            if job is None:
                _refuse_job(history, trial)
            raise
        record = history.job(row.job)
    if record is None:
        raise AssertionError("unreachable")
    document = show_document(directory, row, record)
    emit(document, lambda: _lines(document, record, directory), output)


def _lines(document: ShowDocument, record: JobRecord, directory: Path) -> Iterator[str]:
    from ..report.trial import next_commands
    from ._trial_text import trial_lines

    commands = next_commands(document.result, record, directory_argument(directory))
    # A comment of its own: whoever copies a command takes nothing with it.
    lines = [line for title, command in commands for line in (f"# {title}", command)]
    return trial_lines(document, lines)


def _refuse_job(history: HistoryReader, text: str) -> None:
    """Raise an `InputError` that lists the trials of a job, if the text names a job."""
    from ..store.results import find_job

    try:
        job = find_job(history, text)
    except InputError:
        return
    rows = list(history.each_trial(job, outcomes=("failed", "error"))) or history.trials(job)
    listed = "".join(f"\n  {row.node_id}  {row.outcome}" for row in rows[:_LISTED])
    more = f"\n  ... and {len(rows) - _LISTED} more" if len(rows) > _LISTED else ""
    raise InputError(f"{job} is a job; show one of its trials:{listed or ' it has none yet'}{more}")
