"""`rerun`, `clone` and `rescore`: run or grade the trials of a job again, or its settings, as a new job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..model.errors import InputError
from ..model.job import JobRecord, Keep
from ..report.units import counted
from ..settings.call import Written
from ..system.paths import exists
from ._earlier_job import (
    REUSE,
    begin,
    call_again,
    call_options,
    find_earlier,
    find_earlier_or_trial,
    launch,
    trials_of,
)
from ._pytest_call import said_of
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
