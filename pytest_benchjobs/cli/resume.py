"""`resume`: finish an interrupted job under its own id."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from ..model.errors import InputError
from ..model.job import JobRecord, JobStatus
from ..model.result import Outcome
from ..report.units import counted
from ..settings.call import Written
from ..store.listing import JOBS, page
from ..store.reader import HistoryReader
from ..store.results import LAST, find_job
from ..store.rows import as_text
from ._detach import resume_detached
from ._earlier_job import EarlierJob, call_again, call_options, find_earlier
from ._pytest_call import call_and_summarise, said_of
from ._run_options import VariadicCommand

_STOPS_AT_FAILURES = re.compile(r"-[a-zA-Z]*x[a-zA-Z]*$|--exitfirst$|--maxfail\b")


@click.command(cls=VariadicCommand)
@call_options
def resume(*, job: str, directory: Path, rest: tuple[str, ...], **how: Any) -> int:
    """Finish JOB, which died or was cancelled, under its own id: run trials that are missing or ended in an error.

    Trials that passed or failed stay as they are. Exit status: that of pytest.
    """
    found = find_earlier(directory, job)
    record = found.record
    if _is_finished(found):
        click.echo(
            f"job {record.id} has nothing left to do: {counted(len(found.trials), 'trial')} ended", err=True
        )
        return 0
    if "rescore" in said_of(record).settings:
        raise InputError(
            f"job {record.id} is a rescore, which is not resumed but started again: benchjobs rescore {record.parent}"
        )
    changes = {"resume": record.id, **_its_trials(found)}
    call = call_again(found, how["env_vars"], changes, *_to_the_end(found.record), *rest)
    if how["print_command"]:
        click.echo(call.shown())
        return 0
    if how["detach"]:
        return resume_detached(call, directory, record, how["output"])
    return call_and_summarise(call, directory, record.id, how["output"])


def _to_the_end(record: JobRecord) -> list[str]:
    """Undo `-x` and `--maxfail` of the job: its failures would stop it again before any trial runs."""
    rest = said_of(record).rest
    return ["--maxfail=0"] if any(_STOPS_AT_FAILURES.match(argument) for argument in rest) else []


def _is_finished(job: EarlierJob) -> bool:
    record = job.record
    missing = record.planned is None or len(job.trials) < record.planned
    errors = any(row.outcome in ("error", "cancelled") for row in job.trials)
    return record.status is JobStatus.COMPLETED and not missing and not errors


def _its_trials(job: EarlierJob) -> dict[str, Written]:
    """Return settings that name the trials of another job, if the job was a rerun of those."""
    which = said_of(job.record).settings.get("from")
    if not isinstance(which, str):
        return {}
    name, colon, states = which.rpartition(":")
    if not colon or not {state.strip().lower() for state in states.split(",")} <= set(Outcome):
        name, colon, states = which, "", ""  # a job's name may have a colon
    with HistoryReader.of(job.directory) as history:
        return {"from": _as_of(history, name, job.record) + colon + states}


def _as_of(history: HistoryReader, text: str, record: JobRecord) -> str:
    """Return the id of the job that `text` named when the job of `record` began: `last` has changed since."""
    older = page(history, JOBS, after=(as_text(record.created_at), record.id)).rows
    last = LAST.match(text)
    if last is not None and int(last[1] or 0) < len(older):
        return older[int(last[1] or 0)].id
    if all(job.id != text for job in older):
        for job in older:
            if job.name == text:
                return job.id
    return find_job(history, text)
