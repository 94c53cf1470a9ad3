"""`export`: write trials as CSV or JSON lines, also with trajectories for training, or a report in HTML."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ..report.units import counted
from ..store.files import write_atomically, writing
from ._directory import DIRECTORY, FILE, directory_option
from ._high_scores import high_scores_of, high_scores_option
from ._output import say


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
    type=click.Choice(["csv", "jsonl", "rl", "viewer", "captures", "html"]),
    help="A table; one JSON object per line; the same with prompt and trajectory, for training; the document of "
    "viewer_data.json; a file for each trial, for the benchmark replay-scoring; or a report for browsers.  "
    "[default: by the suffix of --out (.csv, .jsonl, .rl.jsonl, .json, .html), else csv]",
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
    from ..store.reader import HistoryReader
    from ..store.results import find_job
    from ..viewer.export import export_of, kind_of
    from ..viewer.results import Results

    kind = kind or ("html" if out_dir is not None else kind_of(out or Path()))
    if kind == "html" and out is not None and out_dir is not None:
        raise click.UsageError("a report is one file, --out FILE, or many, --out-dir DIR: give one of them")
    if kind == "html" and out is None and out_dir is None and sys.stdout.isatty():
        raise click.UsageError(
            "a report is for a file: --out FILE, or --out-dir DIR for many; or send stdout elsewhere"
        )
    if kind == "captures" and (out is not None or out_dir is None):
        raise click.UsageError(
            "--format captures writes a file for each trial: name a directory with --out-dir"
        )
    if kind not in ("html", "captures") and out_dir is not None:
        raise click.UsageError("--out-dir is for --format html and captures")
    with HistoryReader.of(directory) as history:
        job_ids = list(dict.fromkeys(find_job(history, job) for job in jobs))
        results = Results(directory, high_scores_of(high_scores, directory))
        sizes = {"limit": max_size, "log_limit": log_size}
        if out_dir is None:
            made = export_of(kind, results, history, job_ids, **sizes)
            if out is not None and kind == "html":
                made.write(out)
                _say_report(out, job_ids, made.bytes)
            else:
                _write(made.parts, out)
            _say_lacks(made.lacks)
        elif kind == "html":
            from ..viewer.export import write_directory

            written = write_directory(results, history, job_ids, out_dir, **sizes)
            _say_report(out_dir, job_ids, written.bytes)
            _say_lacks(written.cut)
        else:
            from ..report.training import LeftOut, training_rows

            left_out = LeftOut()
            _write_captures(
                (row for job_id in job_ids for row in training_rows(directory, history, job_id, left_out)),
                out_dir,
            )
            _say_lacks(left_out.lines())


def _say_report(place: Path, jobs: Sequence[str], number: int) -> None:
    from ..system.units import size

    say(f"Wrote {place}: {counted(len(jobs), 'job')}, {size(number)}")


def _say_lacks(lines: Iterable[str]) -> None:
    for line in lines:
        say(line, err=True)


def _write_captures(attempts: Iterable[Mapping[str, Any]], directory: Path) -> None:
    from ..report.captures import write_captures

    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
    count = write_captures(attempts, directory)
    say(f"Wrote {directory}: {counted(count, 'captured run')}")


def _write(parts: Iterable[bytes], out: Path | None) -> None:
    """Write to stdout, or atomically into a file."""
    if out is None:
        for part in parts:
            sys.stdout.buffer.write(part)
        sys.stdout.flush()
    elif out.exists() and not out.is_file():
        # Write into a pipe or device instead of replacing it.
        with writing(out), out.open("wb") as file:
            file.writelines(parts)
    else:
        target = out.resolve() if out.is_symlink() else out  # keep a link
        write_atomically(target, parts, durable=False)
