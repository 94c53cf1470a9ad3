"""`run`: run benchmarks in one call of pytest."""

from __future__ import annotations

from typing import Any

import click

from ..store.bundle import new_job_id
from ._detach import run_detached
from ._output import output_option
from ._pytest_call import call_and_summarise, with_id
from ._run_options import VariadicCommand, run_options, run_request, whats_argument


@click.command(cls=VariadicCommand)
@whats_argument
@run_options
@click.option("--detach", is_flag=True, help="Print the job id and return at once.")
@click.option("--print-command", is_flag=True, help="Print the pytest command without running it.")
@output_option("summary")
def run(*, detach: bool, print_command: bool, output: str, **options: Any) -> int:
    """Run benchmarks with agents, in one call of pytest.

    A trial that already has a result is not run again while nothing that decides it has changed. Exit status: that of
    pytest, 0 when every trial passed, 1 when some did not, 2 for a usage error. With a baseline or a floor it is that
    of the gate: 0, 10 regressed, 11 inconclusive, 12 invalid.
    """
    request = run_request(options)
    if print_command:
        click.echo(request.call.shown())
        return 0
    if detach:
        return run_detached(request, output)
    job_id = new_job_id()
    call = request.call if output == "text" else with_id(request.call, job_id)
    return call_and_summarise(call, request.directory, job_id, output)
