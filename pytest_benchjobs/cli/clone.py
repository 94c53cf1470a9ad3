"""`clone`: start a job with the settings of an earlier one, and others in their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..model.errors import InputError
from ..model.job import JobRecord
from ..system.paths import exists
from ._earlier_job import REUSE, call_again, call_options, find_earlier, launch
from ._pytest_call import said_of
from ._run_options import VariadicCommand, changed_settings, setting_options


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
