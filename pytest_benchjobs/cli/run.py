"""`run`: benchmarks, in one call of pytest."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ._output import emit, output_option
from ._pytest_call import Call, call_pytest
from ._run_options import Asked, VariadicCommand, ask, run_options

USAGE_ERROR = 4
"""What pytest exits with."""


@click.command(cls=VariadicCommand)
@run_options
@click.option("--detach", is_flag=True, help="Return at once, with the id of the job.")
@click.option("--print-command", is_flag=True, help="Show the call of pytest, and run nothing.")
@output_option
def run(*, detach: bool, print_command: bool, output: str, **options: Any) -> int:
    """Run benchmarks with agents: one call of pytest, whose output this is.

    What has a result already, and nothing that decides it has changed, is not run again. Exit status: that of pytest,
    0 when every trial passed, 1 when some did not; 2 for a mistake in the call. With a baseline or a floor it is that
    of the gate: 0, 10 regressed, 11 inconclusive, 12 invalid.
    """
    from ..store.bundle import new_job_id

    asked = ask(options)
    if print_command:
        click.echo(asked.call.shown())
        return 0
    if detach:
        return start_detached(asked, output)
    if output == "text":
        status = call_pytest(asked.call)
    else:
        job_id = new_job_id()
        status = call_and_summarise(with_id(asked.call, job_id), asked.directory, job_id, output)
    return 2 if status == USAGE_ERROR else status


def call_and_summarise(call: Call, directory: Path, job_id: str, output: str) -> int:
    """Have pytest's words on stderr, and a summary of the job on stdout; returns pytest's exit status."""
    from ..model.errors import InputError
    from ..report.overview import summary_document
    from ..store.reader import HistoryReader

    status = call_pytest(call, stdout=sys.stderr.fileno())
    try:
        with HistoryReader.of(directory) as history:
            document = summary_document(directory, history, job_id)
    except InputError:
        return status  # no job began, and pytest has said why
    emit(document, lambda: (), output)
    return status


def start_detached(asked: Asked, output: str) -> int:
    """Start a job that needs nobody any more, and say what became of it."""
    from ..report.documents.detach import DetachDocument
    from ._detach import start

    document: DetachDocument = start(asked)
    if document.status == "failed":
        raise click.ClickException(document.message or f"pytest ended at once; see {document.log}")
    timeout = (
        "7200s unless a scenario has its own"
        if document.agent_timeout is None
        else f"{document.agent_timeout:g}s"
    )
    emit(document, lambda: [f"Benchmark job created: {document.job} (agent timeout = {timeout})"], output)
    click.echo(f'Follow the run with "benchjobs watch {document.job}"', err=output != "text")
    return 0


def with_id(call: Call, job_id: str) -> Call:
    """The call, for a job whose id is known beforehand."""
    return call._replace(arguments=("--bench-job-id", job_id, *call.arguments))
