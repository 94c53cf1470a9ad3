"""`db`: rebuild the history from the bundles."""

from __future__ import annotations

from pathlib import Path

import click

from ..report.units import counted
from ..store.layout import Layout
from ._directory import directory_option
from ._output import say


@click.group(no_args_is_help=False)
def db() -> None:
    """Look after the history, which is an index of the job bundles."""


@db.command()
@directory_option
def rebuild(directory: Path) -> None:
    """Rebuild the history from the bundles. Running jobs lose nothing."""
    from ..store.index import rebuild as rebuild_history

    if not Layout(directory).jobs.is_dir():
        raise click.ClickException(f"there are no jobs in {directory}; choose another --dir")
    jobs, trials, warnings = rebuild_history(directory)
    for warning in warnings:
        say(f"warning: {warning}", err=True)
    click.echo(f"indexed {counted(jobs, 'job')} with {counted(trials, 'trial')}")
