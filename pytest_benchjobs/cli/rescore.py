"""`rescore`: grade kept trials again, as a new job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..model.errors import InputError
from ..report.units import counted
from ..settings.call import Written
from ._earlier_job import REUSE, begin, call_options, find_earlier, trials_of
from ._kept import GONE, gone, keeping_again
from ._run_options import VariadicCommand, scenarios_option


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
