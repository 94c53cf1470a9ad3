"""`export`: write trials as CSV or JSON lines, also with trajectories for training, or a report in HTML."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from ..model.base import parse_size
from ..report.captures import write_captures
from ..report.documents.changes import WrittenDocument
from ..report.training import LeftOut, training_rows
from ..report.units import counted
from ..settings.values import EXPORTS, export_kind, lacks_package
from ..store.files import write_atomically, writing
from ..store.reader import HistoryReader
from ..store.results import find_job
from ..system.units import size
from ..viewer.export import KINDS, Export, write_directory
from ..viewer.results import Results
from ..viewer.seed import viewer_document
from ._directory import DIRECTORY, FILE, directory_option, high_scores_of, high_scores_option
from ._output import emit, output_option, say

_SUFFIXES = [suffix for suffix, kind in EXPORTS.items() if kind in KINDS]


class _Size(click.ParamType):  # type: ignore[type-arg]
    """A size such as `20M`, in bytes."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse a size."""
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
    type=click.Choice([*KINDS, "captures"]),
    help="A table; one JSON object per line; a table of Parquet; lines with prompt and trajectory, for training; the "
    "document of viewer_data.json; a report for browsers; or a file for each trial, for the benchmark replay-scoring.  "
    f"[default: by the suffix of --out ({', '.join(_SUFFIXES)}), else csv]",
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
@output_option("written")
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
    output: str,
) -> None:
    """Write the trials of each JOB as CSV or JSON lines, a row each; or a report of all JOBs, with --format html.

    JOB is an id, the beginning of one, a name, or last. `benchjobs schema export` describes the columns, and `benchjobs
    schema training` those of --format rl, which has the trials with a score, as --format captures does. A report is one
    file with all pages of `benchjobs serve`; it needs no network.
    """
    kind = kind or ("html" if out_dir is not None else _kind_of(out))
    target = out_dir or out
    if target is None and output != "text":
        raise click.UsageError("-o: what it prints tells of a file: name one with --out or --out-dir")
    if (problem := _problem(kind, out, out_dir)) is not None:
        raise click.UsageError(problem)
    with HistoryReader.of(directory) as history:
        job_ids = list(dict.fromkeys(find_job(history, job) for job in jobs))
        results = Results(directory, high_scores_of(high_scores, directory))
        sizes = {"limit": max_size, "log_limit": log_size}
        line = None
        if out_dir is None:
            made = Export(kind, results, history, job_ids, **sizes)
            if out is not None and kind == "html":
                made.write(out)
                line = f"Wrote {out}: {counted(len(job_ids), 'job')}, {size(made.size)}"
            else:
                _write(made.parts(), out)
            lacks: Iterable[str] = made.lacks
        elif kind == "html":
            number, lacks = write_directory(results, history, job_ids, out_dir, **sizes)
            line = f"Wrote {out_dir}: {counted(len(job_ids), 'job')}, {size(number)}"
        else:
            left_out = LeftOut()
            attempts = (one for job in job_ids for one in training_rows(directory, history, job, left_out))
            with writing(out_dir):
                out_dir.mkdir(parents=True, exist_ok=True)
            line = f"Wrote {out_dir}: {counted(write_captures(attempts, out_dir), 'captured run')}"
            lacks = left_out.lines()
    lacks = tuple(lacks)
    if target is not None:
        emit(WrittenDocument.of(target, lacks), lambda: filter(None, [line]), output)
    for lack in lacks:
        say(lack, err=True)


def _kind_of(out: Path | None) -> str:
    """Return the format that the name of a file suggests; CSV for one without a suffix, or without a file."""
    kind = None if out is None else export_kind(out.name)
    if kind in KINDS:
        return kind
    if out is not None and out.suffix:
        raise click.UsageError(
            f"--out {out}: unknown suffix {out.suffix}; name a file in {', '.join(_SUFFIXES)}, or choose with --format"
        )
    return "csv"


def _problem(kind: str, out: Path | None, out_dir: Path | None) -> str | None:
    """Return what is wrong with the places that were given for an export."""
    if kind == "captures":
        missing = out is not None or out_dir is None
        return (
            "--format captures writes a file for each trial: name a directory with --out-dir"
            if missing
            else None
        )
    if (package := lacks_package(kind)) is not None:
        return package
    if kind != "html" and out_dir is not None:
        return "--out-dir is for --format html and captures"
    if out is not None and out_dir is not None:
        return "a report is one file, --out FILE, or many, --out-dir DIR: give one of them"
    if kind in ("html", "parquet") and out is None and out_dir is None and sys.stdout.isatty():
        many = ", or --out-dir DIR for many" if kind == "html" else ""
        return f"{kind} is for a file: --out FILE{many}; or send stdout elsewhere"
    return None


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


@click.command("export-viewer-data")
@click.option("--out", type=FILE, help="File to write.  [default: viewer_data.json in the results directory]")
@high_scores_option
@directory_option
@output_option("written")
def export_viewer_data(out: Path | None, high_scores: Path | None, directory: Path, output: str) -> None:
    """Write viewer_data.json: the newest runs and jobs, with summaries, as other tools read them.

    `benchjobs serve` has the same at /api/viewer-data.
    """
    with HistoryReader.of(directory) as history:
        document = viewer_document(Results(directory, high_scores_of(high_scores, directory)), history)
    target = out or directory / "viewer_data.json"
    write_atomically(
        target, (document.model_dump_json(indent=1) + "\n").encode("utf-8", "replace"), durable=False
    )
    line = f"Wrote {target}: {len(document.runs)} runs of {len(document.run_groups)} jobs"
    emit(WrittenDocument.of(target), lambda: [line], output)
