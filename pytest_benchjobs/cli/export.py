"""`export`: write trials as CSV or JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from ..store.files import write_atomically, writing
from ._directory import FILE, directory_option


@click.command()
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "jsonl"]),
    help="A table, or one JSON object per line.  [default: by the suffix of --out, else csv]",
)
@click.option("--out", type=FILE, help="File to write.  [default: stdout]")
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
        _write(csv_lines(exported) if kind == "csv" else json_lines(exported), out)


def _write(lines: Iterable[str], out: Path | None) -> None:
    """Write to stdout, or atomically into a file in UTF-8."""
    if out is None:
        sys.stdout.writelines(lines)
    elif out.exists() and not out.is_file():
        # Write into a pipe or device instead of replacing it.
        with writing(out), out.open("w", encoding="utf-8", newline="") as file:
            file.writelines(lines)
    else:
        target = out.resolve() if out.is_symlink() else out  # keep a link
        write_atomically(target, (line.encode() for line in lines), durable=False)
