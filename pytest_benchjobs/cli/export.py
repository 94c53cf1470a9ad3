"""`export`: write trials as CSV or JSON lines, also with trajectories for training."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..report.units import counted
from ..store.files import write_atomically, writing
from ._directory import FILE, directory_option
from ._output import say

if TYPE_CHECKING:
    from ..report.training import LeftOut


@click.command()
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "jsonl", "rl"]),
    help="A table; one JSON object per line; or the same with prompt and trajectory, for training.  "
    "[default: by the suffix of --out, else csv]",
)
@click.option("--out", type=FILE, help="File to write.  [default: stdout]")
@directory_option
def export(jobs: tuple[str, ...], kind: str | None, out: Path | None, directory: Path) -> None:
    """Write the trials of each JOB as CSV or JSON lines, a row each.

    JOB is an id, the beginning of one, a name, or last. `benchjobs schema export` describes the columns, and `benchjobs
    schema training` those of --format rl, which has the trials with a score.
    """
    from ..report.export import csv_lines, json_lines, rows
    from ..report.training import LeftOut, training_rows
    from ..store.reader import HistoryReader
    from ..store.results import find_job

    if kind is None:
        kind = "jsonl" if out is not None and out.suffix in (".jsonl", ".ndjson") else "csv"
    with HistoryReader.of(directory) as history:
        job_ids = list(dict.fromkeys(find_job(history, job) for job in jobs))
        if kind == "rl":
            left_out = LeftOut()
            attempts = (
                row for job_id in job_ids for row in training_rows(directory, history, job_id, left_out)
            )
            _write(json_lines(attempts), out)
            _say_left_out(left_out)
            return
        exported = (row for job_id in job_ids for row in rows(directory, history, job_id))
        _write(csv_lines(exported) if kind == "csv" else json_lines(exported), out)


def _say_left_out(left_out: LeftOut) -> None:
    """Print what an export for training lacks, to stderr."""
    for number, why in (
        (
            left_out.without_score,
            "without a score left out: errors, cancelled and skipped ones have no reward",
        ),
        (left_out.confidential, "of confidential benchmarks left out"),
        (left_out.without_files, "left out whose files are gone"),
        (
            left_out.without_prompt,
            "with an empty prompt: the benchmark is not there, or the task has changed since",
        ),
    ):
        if number:
            say(f"{counted(number, 'trial')} {why}", err=True)


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
