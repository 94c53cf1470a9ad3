"""`summary`: show the results of a job."""

from __future__ import annotations

from pathlib import Path

import click

from ..report.table import width
from ._dead_jobs import warn_of_dead
from ._directory import directory_option
from ._output import emit, output_option
from ._summary_text import summary_lines


@click.command()
@click.argument("job", default="last")
@click.option("-e", "--extended", is_flag=True, help="Also list every scenario.")
@click.option("--limit", type=click.IntRange(min=1), help="With -e: at most N scenarios.")
@click.option(
    "--config", is_flag=True, help="Also show the effective configuration. JSON and YAML always do."
)
@directory_option
@output_option
def summary(job: str, extended: bool, limit: int | None, config: bool, directory: Path, output: str) -> None:
    """Show the results of JOB: an id, the beginning of one, a name, or last; of a running job, its progress."""
    from ..report.overview import summary_document
    from ..store.reader import HistoryReader
    from ..store.results import find_job

    with HistoryReader.of(directory) as history:
        job_id = find_job(history, job)
        document = summary_document(directory, history, job_id, extended=extended, limit=limit)
    emit(document, lambda: summary_lines(document, width(), config=config), output)
    warn_of_dead([job_id] if document.dead else [])
