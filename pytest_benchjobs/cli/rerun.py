"""`rerun`, `clone`, `rescore` and `resume`: run or grade the trials of a job again as a new job, or finish the job."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from ..model.errors import InputError
from ..model.job import JobRecord, JobStatus, Keep
from ..model.result import Outcome
from ..report.units import counted
from ..settings.call import Written
from ..store.listing import JOBS, page
from ..store.reader import HistoryReader
from ..store.results import LAST, find_job
from ..store.rows import as_text
from ..system.paths import exists
from ._detach import resume_detached
from ._earlier_job import (
    REUSE,
    EarlierJob,
    begin,
    call_again,
    call_options,
    find_earlier,
    find_earlier_or_trial,
    launch,
    trials_of,
)
from ._pytest_call import call_and_summarise, said_of
from ._run_options import VariadicCommand, changed_settings, scenarios_option, setting_options
from .shell import GONE, gone, keeping_again


@click.command(cls=VariadicCommand)
@call_options
@click.option("--failed", is_flag=True, help="Only trials that failed.")
@click.option("--errors", is_flag=True, help="Only trials that ended in an error.")
@click.option(
    "--keep",
    type=click.Choice([str(choice) for choice in Keep]),
    help="Trials whose file systems are kept, for `shell` and `rescore`.  [default: as in JOB]",
)
@scenarios_option
def rerun(
    *,
    job: str,
    failed: bool,
    errors: bool,
    keep: str | None,
    scenarios: tuple[str, ...],
    directory: Path,
    rest: tuple[str, ...],
    **how: Any,
) -> int:
    """Run the trials of JOB again as a new job, whatever their results were; or one TRIAL.

    --failed and --errors choose by outcome. TRIAL is an id as pytest and other commands print it, or that of a
    scenario; it runs as in the newest job that has it. Nothing is reused. Exit status: that of pytest.
    """
    kept: dict[str, Written] = {} if keep is None else {"keep": keep}
    found, named = find_earlier_or_trial(directory, job)
    if named:
        changes: dict[str, Written] = {
            "from": found.record.id, "trial": named, "force": True, "parent": found.record.id, **kept,
        }  # fmt: skip
        scenario = next(row.scenario for row in found.trials if row.node_id in named)
        return begin(found, changes, (scenario,), rest, how, without=REUSE)
    states = [state for state, wanted in (("failed", failed), ("error", errors)) if wanted]
    trials = trials_of(found, scenarios)
    if states and not any(row.outcome in states for row in trials):
        what = " or ".join("failed" if state == "failed" else "ended in an error" for state in states)
        click.echo(f"no trial of job {found.record.id} {what}; there is nothing to do", err=True)
        return 0
    which = f"{found.record.id}:{','.join(states)}" if states else found.record.id
    changes = {"from": which, "force": True, "parent": found.record.id, **kept}
    return begin(found, changes, scenarios, rest, how, without=REUSE)


@click.command(cls=VariadicCommand)
@click.option(
    "--benchmark", "benchmarks", multiple=True, metavar="NAME|PATH", help="Benchmark to run instead."
)
@setting_options
@call_options
def clone(
    *, job: str, benchmarks: tuple[str, ...], directory: Path, rest: tuple[str, ...], **how: Any
) -> int:
    """Start a new job with the settings of JOB, and those given here in their place.

    An option that may be repeated replaces all that JOB had of it: `--agent codex:gpt-5.5` runs with that agent alone.
    Scenarios are selected anew; `rerun` repeats the trials of a job. Nothing is reused. Exit status: that of pytest.
    """
    found = find_earlier(directory, job)
    changes = changed_settings(how)
    if benchmarks:
        if paths := _paths(found.record):
            raise InputError(
                f"job {found.record.id} was given paths ({', '.join(paths[:3])}), which --benchmark cannot replace; "
                "start another job with `benchjobs run`"
            )
        changes["benchmarks"] = benchmarks
    changes["parent"] = found.record.id
    return launch(found, call_again(found, how["env_vars"], changes, *rest, without=REUSE), how)


def _paths(record: JobRecord) -> list[str]:
    """Return the files and directories that the call of a job named."""
    if record.invocation is None:
        return []
    words = (word for word in said_of(record).rest if not word.startswith("-"))
    return [word for word in words if exists(record.invocation.directory / word.partition("::")[0])]


@click.command(cls=VariadicCommand)
@call_options
@scenarios_option
def rescore(
    *, job: str, scenarios: tuple[str, ...], directory: Path, rest: tuple[str, ...], **how: Any
) -> int:
    """Grade the trials of JOB again with the current scorers, as a new job. No agent runs.

    Only kept trials (--keep) that were not removed since can be graded again. Exit status: that of pytest.
    """
    found = find_earlier(directory, job)
    trials = trials_of(found, scenarios)
    kept = [row.kept for row in trials if row.kept is not None]
    missing = gone(kept)
    left = sum(one not in missing for one in kept)
    if not left:
        what = f"the kept file systems of job {found.record.id} are gone ({GONE})"
        raise InputError(
            f"{what if kept else f'nothing was kept of job {found.record.id}'}, so there is nothing to grade; "
            f"{keeping_again(found.record.id)} (pytest: --bench-keep always)"
        )
    if left < len(trials):
        still = " and are still here" if missing else ""
        click.echo(
            f"{left} of {counted(len(trials), 'trial')} were kept{still}; the others are skipped",
            err=True,
        )
    changes: dict[str, Written] = {"rescore": found.record.id, "from": found.record.id}
    return begin(found, changes, scenarios, rest, how, without=(*REUSE, "force"))


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
