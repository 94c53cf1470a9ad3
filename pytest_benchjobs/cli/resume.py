"""`resume`, `rerun` and `rescore`: calls of pytest made of that of an earlier job."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from ..settings.call import Written
from ..settings.parse import parse
from ..settings.table import ALL, BY_NAME
from ._kept import GONE, gone
from ._output import directory_option, output_option
from ._pytest_call import Call, again, call_pytest, said_of
from ._run_options import Asked, VariadicCommand
from ._units import counted
from .cancel import recover_jobs

if TYPE_CHECKING:
    from ..model.job import JobConfig, JobRecord, Overrides
    from ..store.reader import HistoryReader
    from ..store.rows import TrialRow

_REUSE = ("reuse", "rerun_failed", "rerun_errors", "explain_reuse")
_DRAWN: Mapping[str, Written] = {"sample": "100%", "max_examples": ALL}
"""All there are: those of the earlier job are named one by one."""
_USAGE_ERROR = 4
_STOPS_AT_FAILURES = re.compile(r"-[a-zA-Z]*x[a-zA-Z]*$|--exitfirst$|--maxfail\b")
_Command = TypeVar("_Command", bound=Callable[..., Any])


class _Job(NamedTuple):
    """An earlier job, and what its command was given."""

    directory: Path
    record: JobRecord
    trials: list[TrialRow]


def _common(command: _Command) -> _Command:
    """What the three have in common."""
    for option in (
        output_option,
        directory_option,
        click.option(
            "--env-vars", multiple=True, metavar="KEY=value...",
            help="Variables for agents. Their values are kept nowhere, so they have to be given again.",
        ),
        click.option("--print-command", is_flag=True, help="Show the call of pytest, and run nothing."),
        click.option("--detach", is_flag=True, help="Return at once, with the id of the job."),
        click.argument("job"),
    ):  # fmt: skip
        command = option(command)
    return command


_scenarios_option = click.option(
    "--scenario",
    "--scenarios",
    "scenarios",
    multiple=True,
    metavar="ID",
    help="Only this scenario, repeatable; --scenarios takes several.",
)


@click.command(cls=VariadicCommand)
@_common
def resume(*, job: str, directory: Path, rest: tuple[str, ...], **how: Any) -> int:
    """Finish JOB, which died or was cancelled, under its own id: what is missing, or ended in an error.

    What passed or failed stays as it is. Exit status: that of pytest.
    """
    found = _find(directory, job)
    record = found.record
    if _is_finished(found):
        click.echo(
            f"job {record.id} has nothing left to do: {counted(len(found.trials), 'trial')} ended", err=True
        )
        return 0
    _refuse_rescored(record)
    changes = {"resume": record.id, **_its_trials(found)}
    call = _again(found, how["env_vars"], changes, *_to_the_end(found.record), *rest)
    if how["print_command"]:
        click.echo(call.shown())
        return 0
    if how["detach"]:
        from ._resume_detached import start

        return start(call, found.directory, record, how["output"])
    return _run(call, found, how["output"], record.id)


def _to_the_end(record: JobRecord) -> list[str]:
    """For a job that was to stop at a failure: the failures it has would stop it again before anything is run."""
    rest = said_of(record).rest
    return ["--maxfail=0"] if any(_STOPS_AT_FAILURES.match(argument) for argument in rest) else []


@click.command(cls=VariadicCommand)
@_common
@click.option("--failed", is_flag=True, help="Only what failed.")
@click.option("--errors", is_flag=True, help="Only what ended in an error.")
@_scenarios_option
def rerun(
    *,
    job: str,
    failed: bool,
    errors: bool,
    scenarios: tuple[str, ...],
    directory: Path,
    rest: tuple[str, ...],
    **how: Any,
) -> int:
    """Run the trials of JOB again, as a job of its own, whatever their results were.

    With --failed and --errors only those. Nothing is reused. Exit status: that of pytest.
    """
    found = _find(directory, job)
    states = [state for state, wanted in (("failed", failed), ("error", errors)) if wanted]
    trials = _of_scenarios(found, scenarios)
    if states and not any(row.outcome in states for row in trials):
        what = " or ".join("failed" if state == "failed" else "ended in an error" for state in states)
        click.echo(f"no trial of job {found.record.id} {what}: there is nothing to do", err=True)
        return 0
    which = f"{found.record.id}:{','.join(states)}" if states else found.record.id
    changes: dict[str, Written] = {"from": which, "force": True, "parent": found.record.id}
    changes |= {**_all_there_are(found.record), **_only(scenarios)}
    call = _again(found, how["env_vars"], changes, *rest, without=_REUSE)
    return _begin(call, found, how)


@click.command(cls=VariadicCommand)
@_common
@_scenarios_option
def rescore(
    *, job: str, scenarios: tuple[str, ...], directory: Path, rest: tuple[str, ...], **how: Any
) -> int:
    """Grade the trials of JOB again with the scorers as they are now, as a job of its own. No agent runs.

    Only trials that were kept (--keep), and not removed since, can be graded again. Exit status: that of pytest.
    """
    from ..model.errors import InputError

    found = _find(directory, job)
    trials = _of_scenarios(found, scenarios)
    kept = [row.kept for row in trials if row.kept is not None]
    missing = gone(kept)
    left = sum(one not in missing for one in kept)
    if not left:
        what = f"what was kept of job {found.record.id} is not here any more ({GONE})"
        raise InputError(
            f"{what if kept else f'nothing was kept of job {found.record.id}'}, so there is nothing to grade; "
            "run it with --keep always (pytest: --bench-keep always)"
        )
    if left < len(trials):
        still = " and are still here" if missing else ""
        click.echo(
            f"{left} of {counted(len(trials), 'trial')} were kept{still}; the others cannot be graded again and are "
            "skipped",
            err=True,
        )
    changes: dict[str, Written] = {"rescore": found.record.id, "from": found.record.id}
    changes |= {**_all_there_are(found.record), **_only(scenarios)}
    call = _again(found, how["env_vars"], changes, *rest, without=(*_REUSE, "force"))
    return _begin(call, found, how)


def _find(directory: Path, text: str) -> _Job:
    """The job, which does not run. One whose process died is closed first, so that all its trials are known.

    Raises:
        InputError: there is none, or it runs.

    """
    from ..model.errors import InputError
    from ..store.liveness import STALE_SECONDS, is_dead
    from ..store.reader import HistoryReader
    from ..store.results import find_bundle

    with HistoryReader.of(directory) as history:
        bundle = find_bundle(history, text)
        record = bundle.read()
        if not record.status.ended:
            if not is_dead(bundle.root, record):
                raise InputError(f"job {record.id} is running; see `benchjobs watch {record.id}`")
            recover_jobs(directory, STALE_SECONDS)
            record = bundle.read()
        return _Job(directory, record, history.trials(record.id))


def _is_finished(job: _Job) -> bool:
    from ..model.job import JobStatus

    record = job.record
    missing = record.planned is None or len(job.trials) < record.planned
    errors = any(row.outcome in ("error", "cancelled") for row in job.trials)
    return record.status is JobStatus.COMPLETED and not missing and not errors


def _refuse_rescored(record: JobRecord) -> None:
    from ..model.errors import InputError

    if "rescore" in said_of(record).settings:
        raise InputError(
            f"job {record.id} graded trials again, which is quicker done anew: benchjobs rescore {record.parent}"
        )


def _only(scenarios: tuple[str, ...]) -> dict[str, Written]:
    return {"scenarios": scenarios} if scenarios else {}


def _its_trials(job: _Job) -> dict[str, Written]:
    """Which trials of yet another job it was to run, if it was made so."""
    from ..model.result import Outcome
    from ..store.reader import HistoryReader

    which = said_of(job.record).settings.get("from")
    if not isinstance(which, str):
        return {}
    name, colon, states = which.rpartition(":")
    if not colon or not {state.strip().lower() for state in states.split(",")} <= set(Outcome):
        name, colon, states = which, "", ""  # a name may have a colon
    with HistoryReader.of(job.directory) as history:
        return {"from": _as_of(history, name, job.record) + colon + states}


def _as_of(history: HistoryReader, text: str, record: JobRecord) -> str:
    """Id of the job that `text` named when another one began: `last` was another job then."""
    from ..store.results import LAST, find_job

    older = [job for job in history.job_page() if (job.created_at, job.id) < (record.created_at, record.id)]
    last = LAST.match(text)
    if last is not None and int(last[1] or 0) < len(older):
        return older[int(last[1] or 0)].id
    if all(job.id != text for job in older):
        for job in older:
            if job.name == text:
                return job.id
    return find_job(history, text)


def _of_scenarios(job: _Job, scenarios: Iterable[str]) -> list[TrialRow]:
    """The job's trials of these scenarios; all, if none is named.

    Raises:
        InputError: the job has none of one of them.

    """
    from ..model.errors import InputError
    from ..sources import did_you_mean

    known = {row.scenario for row in job.trials}
    for scenario in scenarios:
        if scenario not in known:
            hint = did_you_mean(scenario, known).strip()
            raise InputError(
                f"job {job.record.id} has no trial of scenario {scenario!r}" + (f"; {hint}" if hint else "")
            )
    wanted = set(scenarios) or known
    return [row for row in job.trials if row.scenario in wanted]


def _all_there_are(record: JobRecord) -> Mapping[str, Written]:
    """Undo what drew a part of the scenarios: of those it drew, it would draw a part again."""
    configurations: list[JobConfig | Overrides] = [record.config, *record.config.per_benchmark.values()]
    return _DRAWN if any(one.sample or one.max_examples for one in configurations) else {}


def _again(
    job: _Job,
    env_vars: Iterable[str],
    changes: Mapping[str, Written],
    *more: str,
    without: Collection[str] = (),
) -> Call:
    """The call of the job with changes of its settings, and more words for pytest."""
    here = job.directory.absolute()
    moved = here.resolve() != job.record.config.directory.resolve()
    return again(
        job.record,
        *more,
        changes=changes,
        without=without,
        env=parse(BY_NAME["env"], tuple(env_vars), "--env-vars"),
        directory=here if moved else None,
    )


def _begin(call: Call, job: _Job, how: dict[str, Any]) -> int:
    """Start a job with the call, in the way that was asked for."""
    from ..store.bundle import new_job_id
    from .run import start_detached, with_id

    if how["print_command"]:
        click.echo(call.shown())
        return 0
    if how["detach"]:
        config = job.record.config
        return start_detached(Asked(call, job.directory, config.name, config.agent_timeout), how["output"])
    job_id = new_job_id()
    return _run(with_id(call, job_id), job, how["output"], job_id)


def _run(call: Call, job: _Job, output: str, job_id: str) -> int:
    """Make the call; with JSON or YAML print the summary of the job afterwards."""
    from .run import call_and_summarise

    status = (
        call_pytest(call) if output == "text" else call_and_summarise(call, job.directory, job_id, output)
    )
    return 2 if status == _USAGE_ERROR else status
