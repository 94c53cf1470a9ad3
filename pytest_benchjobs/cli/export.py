"""`export`: trials as CSV or JSON lines."""

from __future__ import annotations

import contextlib
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import click

from ._directory import directory_option


@click.command()
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "jsonl"]),
    help="A table, or a JSON object a line.  [default: as --out ends, else csv]",
)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Into this file.  [default: stdout]"
)
@directory_option
def export(jobs: tuple[str, ...], kind: str | None, out: Path | None, directory: Path) -> None:
    """Write the trials of each JOB as CSV or JSON lines, a row each.

    JOB is an id, the beginning of one, a name, or last. `benchjobs schema export` describes the columns.
    """
    from ..report.export import csv_lines, json_lines, rows
    from ..store.reader import HistoryReader
    from ..store.results import find_job

    if kind is None:
        kind = "jsonl" if out is not None and out.suffix in (".jsonl", ".ndjson") else "csv"
    with HistoryReader.of(directory) as history:
        job_ids = list(dict.fromkeys(find_job(history, job) for job in jobs))
        exported = (row for job_id in job_ids for row in rows(directory, history, job_id))
        lines = csv_lines(exported) if kind == "csv" else json_lines(exported)
        with _opened(out) as file:
            for line in lines:
                file.write(line)


@contextlib.contextmanager
def _opened(out: Path | None) -> Iterator[TextIO]:
    """Stdout, or a file in UTF-8 that appears whole or not at all."""
    from ..store.files import writing

    if out is None:
        yield sys.stdout
        return
    with writing(out):
        out = out.resolve()  # a link stays one
        if out.exists() and not out.is_file():
            # A pipe or a device is written to, not replaced.
            with out.open("w", encoding="utf-8", newline="") as file:
                yield file
            return
        temporary = out.with_name(f".{out.name}.{secrets.token_hex(4)}")
        try:
            with temporary.open("x", encoding="utf-8", newline="") as file:
                yield file
            temporary.replace(out)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
