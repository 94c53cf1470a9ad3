"""`rerun`: run the trials of a job again, as a new job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..model.job import Keep
from ..settings.call import Written
from ._earlier_job import REUSE, begin, call_options, find_earlier_or_trial, trials_of
from ._run_options import VariadicCommand, scenarios_option


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
