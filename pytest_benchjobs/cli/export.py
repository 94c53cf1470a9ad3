"""`export`: write trials as CSV or JSON lines, also with trajectories for training, or a report in HTML."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..report.units import counted
from ..store.files import write_atomically, writing
from ._directory import DIRECTORY, FILE, directory_option
from ._high_scores import high_scores_of, high_scores_option
from ._output import say

if TYPE_CHECKING:
    from ..report.training import LeftOut
    from ..store.reader import HistoryReader
    from ..viewer.results import Results


class _Size(click.ParamType):  # type: ignore[type-arg]
    """A size such as `20M`, in bytes."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse a size."""
        from ..model.base import parse_size

        try:
            return parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


SIZE = _Size()


@click.command()
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "jsonl", "rl", "captures", "html"]),
    help="A table; one JSON object per line; the same with prompt and trajectory, for training; a file for each trial, "
    "for the benchmark replay-scoring; or a report for browsers.  [default: by the suffix of --out, else csv]",
)
@click.option("--out", type=FILE, help="File to write.  [default: stdout]")
@click.option("--out-dir", type=DIRECTORY, help="With --format html or captures: write many files.")
@click.option(
    "--max-size",
    type=SIZE,
    default=20_000_000,
    show_default="20 MB",
    help="With --format html: size of the report.",
)
@click.option(
    "--log-size", type=SIZE, default=65_536, show_default="64K", help="With --format html: size of each log."
)
@high_scores_option
@directory_option
def export(
    *,
    jobs: tuple[str, ...],
    kind: str | None,
    out: Path | None,
    out_dir: Path | None,
    max_size: int,
    log_size: int,
    high_scores: Path | None,
    directory: Path,
) -> None:
    """Write the trials of each JOB as CSV or JSON lines, a row each; or a report of all JOBs, with --format html.

    JOB is an id, the beginning of one, a name, or last. `benchjobs schema export` describes the columns, and `benchjobs
    schema training` those of --format rl, which has the trials with a score, as --format captures does. A report is one
    file with all pages of `benchjobs serve`; it needs no network.
    """
    from ..report.export import csv_lines, json_lines, rows
    from ..report.training import LeftOut, training_rows
    from ..store.reader import HistoryReader
    from ..store.results import find_job
    from ..viewer.results import Results

    kind = kind or _kind_of(out, out_dir)
    if kind == "html" and (out is None) == (out_dir is None):
        raise click.UsageError("--format html needs --out FILE, or --out-dir DIR for many files")
    if kind == "captures" and (out is not None or out_dir is None):
        raise click.UsageError(
            "--format captures writes a file for each trial: name a directory with --out-dir"
        )
    if kind not in ("html", "captures") and out_dir is not None:
        raise click.UsageError("--out-dir is for --format html and captures")
    with HistoryReader.of(directory) as history:
        job_ids = list(dict.fromkeys(find_job(history, job) for job in jobs))
        if kind == "html":
            results = Results(directory, high_scores_of(high_scores, directory))
            _write_report(results, history, job_ids, out, out_dir, limit=max_size, log_limit=log_size)
            return
        if kind in ("rl", "captures"):
            left_out = LeftOut()
            attempts = (
                row for job_id in job_ids for row in training_rows(directory, history, job_id, left_out)
            )
            if out_dir is not None:
                _write_captures(attempts, out_dir)
            else:
                _write(json_lines(attempts), out)
            _say_left_out(left_out)
            return
        exported = (row for job_id in job_ids for row in rows(directory, history, job_id))
        _write(csv_lines(exported) if kind == "csv" else json_lines(exported), out)


def _kind_of(out: Path | None, out_dir: Path | None) -> str:
    """Return the format that a place to write suggests."""
    suffix = "" if out is None else out.suffix
    if out_dir is not None or suffix in (".html", ".htm"):
        return "html"
    return "jsonl" if suffix in (".jsonl", ".ndjson") else "csv"


def _write_report(
    results: Results,
    history: HistoryReader,
    jobs: Sequence[str],
    out: Path | None,
    out_dir: Path | None,
    **sizes: int,
) -> None:
    from ..system.units import size
    from ..viewer.export import write_directory, write_file

    if out is not None:
        written = write_file(results, history, jobs, out, **sizes)
    elif out_dir is not None:
        written = write_directory(results, history, jobs, out_dir, **sizes)
    say(f"Wrote {out or out_dir}: {counted(len(jobs), 'job')}, {size(written.bytes)}")
    for line in written.cut:
        say(line, err=True)


def _write_captures(attempts: Iterable[Mapping[str, Any]], directory: Path) -> None:
    from ..report.captures import write_captures

    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
    count = write_captures(attempts, directory)
    say(f"Wrote {directory}: {counted(count, 'captured run')}")


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
            (
                "with an empty prompt: the task has none or has changed since, or the benchmark is not there or is "
                "in a Python file, which exports do not import"
            ),
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
