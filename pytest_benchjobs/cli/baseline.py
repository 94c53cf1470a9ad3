"""`baseline`: set and show baselines, which jobs are judged against."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from ..analysis.baseline.candidates import why_unfit, with_earlier
from ..analysis.baseline.file import as_side
from ..analysis.baseline.resolve import checked_name, from_file, parse_spec, resolve
from ..analysis.gate.outlook import outlook
from ..analysis.sides import Side, side
from ..model.baseline import DEFAULT_NAME, BaselineEntry, BaselineFile
from ..model.errors import InputError
from ..report.documents import mirror
from ..report.documents.baselines import BaselineDocument, BaselinesDocument, baseline_document
from ..report.documents.changes import BaselineChange, WrittenDocument
from ..report.table import Column, aligned, tabulate, width
from ..report.units import counted, mean_text
from ..store.baseline_file import baseline_json
from ..store.baselines import set_baseline
from ..store.files import write_atomically
from ..store.history import History
from ..store.layout import Layout
from ..store.listing import JOBS
from ..store.listing import each as each_row
from ..store.reader import HistoryReader
from ..store.reproducibility import person
from ..store.results import find_job, has_results
from ..store.text import clean, one_line
from ._dead_jobs import death_of
from ._directory import FILE, directory_option
from ._output import confirm, emit, output_option, say, yes_option

_MOST = 100
_WORSE = ("regressed", "inconclusive", "invalid")
"""Verdicts on a job that later gates should hardly be measured by."""
_SHORT = 12
_SCENARIOS = (
    (Column("SCENARIO", least=12), lambda one: f"{one.benchmark}/{one.scenario}"),
    (Column("AGENT", least=12), lambda one: one.agent),
    (Column("PASSED", number=True), lambda one: f"{one.passed}/{len(one.scores)}"),
    (Column("ERRORS", number=True), lambda one: str(one.errors)),
    (
        Column("MEAN", number=True),
        lambda one: mean_text(sum(one.scores) / len(one.scores)) if one.scores else "N/A",
    ),
)

_name_option = click.option(
    "--name", default=DEFAULT_NAME, show_default=True, metavar="NAME", help="Name of the baseline."
)
_pool_option = click.option(
    "--pool",
    type=click.IntRange(1, _MOST),
    default=1,
    show_default=True,
    metavar="M",
    help="Pool JOB with the M-1 completed jobs before it that have the same benchmarks and agents.",
)
_force_option = click.option(
    "--force",
    is_flag=True,
    help="Accept a job that did not complete, ran a selection of scenarios, or has too many errors.",
)


@click.group(no_args_is_help=False)
def baseline() -> None:
    """Set, move, list, show, delete and export baselines, which jobs are judged against."""


@baseline.command("set")
@click.argument("job")
@_name_option
@click.option("--reason", metavar="TEXT", help="Reason, kept in the baseline's history.")
@_pool_option
@_force_option
@directory_option
@output_option("baseline-change")
def set_(**given: Any) -> None:
    """Make JOB a baseline: an id, the beginning of one, a name, or last."""
    _set(**given, moving=False)


@baseline.command()
@click.argument("job")
@click.option("--reason", required=True, metavar="TEXT", help="Reason for accepting the change.")
@_name_option
@_pool_option
@_force_option
@directory_option
@output_option("baseline-change")
def accept(**given: Any) -> None:
    """Move a baseline to JOB, which a gate called regressed: its results are the accepted ones from now on."""
    _set(**given, moving=True)


@baseline.command("list")
@directory_option
@output_option("baselines")
def list_(directory: Path, output: str) -> None:
    """List the baselines."""
    entries: tuple[BaselineEntry, ...] = ()
    if has_results(directory):
        with HistoryReader.of(directory) as history:
            entries = tuple(history.baselines())
    emit(BaselinesDocument(baselines=entries), lambda: _table(entries), output)
    if not entries:
        say(f"no baselines are set in {directory}; `benchjobs baseline set JOB` sets one", err=True)


@baseline.command()
@click.argument("name", default=DEFAULT_NAME, metavar="NAME|SPEC")
@click.option("-e", "--extended", is_flag=True, help="Also list every scenario.")
@directory_option
@output_option("baseline")
def show(name: str, extended: bool, directory: Path, output: str) -> None:
    """Show the content of a baseline, and its history.

    SPEC is anything that --bench-baseline takes: job:ID, last, branch:NAME~M, file:PATH.
    """
    document = _document(name, directory)
    emit(document, lambda: _lines(document, extended=extended), output)


@baseline.command()
@click.argument("name")
@click.option("--reason", metavar="TEXT", help="Reason, kept in the baseline's history.")
@yes_option
@directory_option
@output_option("baseline-change")
def delete(*, name: str, reason: str | None, yes: bool, directory: Path, output: str) -> None:
    """Delete the baseline NAME. Its jobs and its history stay. On a terminal it asks first."""
    checked_name(name)
    with _history(directory) as history:
        before = history.baseline(name)
        if before is not None:
            confirm(f"Delete the baseline {name}, {_jobs(before.jobs)}?", yes=yes)
        set_baseline(history, _entry(name, (), reason))
    document = BaselineChange(baseline=name, jobs=(), before=() if before is None else before.jobs)
    emit(document, lambda: [f"deleted baseline {name}"], output)


@baseline.command()
@click.argument("name", default=DEFAULT_NAME, metavar="NAME|SPEC")
@click.option(
    "--to",
    type=FILE,
    default=Path("baseline.json"),
    show_default=True,
    metavar="FILE",
    help="File to write.",
)
@directory_option
@output_option("written")
def export(name: str, to: Path, directory: Path, output: str) -> None:
    """Write a baseline to a file small enough to commit, for --bench-baseline file:FILE.

    The file has a line for each scenario and agent, sorted by name, and no logs.
    """
    document = _document(name, directory)
    content = mirror(BaselineFile, document, name=document.baseline)
    write_atomically(to, baseline_json(content))
    agents = {scenario.agent for scenario in document.scenarios}
    scenarios = {(scenario.benchmark, scenario.scenario) for scenario in document.scenarios}
    size = f"{counted(len(scenarios), 'scenario')}, {counted(len(agents), 'agent')}"
    notes = (*document.notes, *_foreseen(as_side(content, document.baseline)))
    emit(WrittenDocument.of(to, notes), lambda: [f"{to}: {size}"], output)
    _say_all(notes)


def _set(
    *,
    directory: Path,
    job: str,
    name: str,
    reason: str | None,
    pool: int,
    force: bool,
    output: str,
    moving: bool,
) -> None:
    checked_name(name)
    with _history(directory) as history:
        job_id = find_job(history, job) if force else _whole(history, job)
        problem = why_unfit(history, job_id)
        if problem is not None and not force:
            raise InputError(
                death_of(directory, job_id)
                or f"job {job_id} would make a bad baseline: {problem}. Use --force to set it anyway"
            )
        record = history.job(job_id)
        chosen = with_earlier(history, record, pool) if record is not None and pool > 1 else None
        jobs = (job_id,) if chosen is None else chosen.jobs
        git = {} if record is None else record.reproducibility.get("git")
        before = history.baseline(name)
        verdict = history.gate_verdict(job_id)
        found = side(name, [(each, history.paired_rows(each)) for each in jobs])
        set_baseline(history, _entry(name, jobs, reason, git), moving=moving)
    notes = [*(() if chosen is None else chosen.notes)]
    if record is not None and record.partial:
        notes.append(f"note: job {job_id} ran only a part of its benchmarks; gates will not compare the rest")
    if moving and verdict != "regressed":
        said = "no gate has judged it" if verdict is None else f"the verdict of its gate is {verdict}"
        notes.append(f"job {job_id} was not regressed: {said}")
    if not moving and verdict in _WORSE:
        notes.append(f"note: the verdict of job {job_id} is {verdict}: it hides that loss from later gates")
    notes += _foreseen(found)
    earlier = () if before is None else before.jobs
    was = "" if before is None or earlier == jobs else f", was {_jobs(earlier)}"
    document = BaselineChange(baseline=name, jobs=jobs, before=earlier, notes=tuple(notes))
    emit(document, lambda: [f"baseline {name} is {_jobs(jobs)}{was}"], output)
    _say_all(notes)


def _whole(history: HistoryReader, job: str) -> str:
    """Return the id of a job; `last` is the last one that ran no selection of scenarios, as for --bench-baseline."""
    job_id = find_job(history, job)
    row = history.job_row(job_id)
    if row is None or not row.selection:
        return job_id
    whole = next((other.id for other in each_row(history, JOBS) if not other.selection), None)
    if whole is not None and job.strip() == "last":
        say(f"job {job_id} was skipped: it ran only a selection of scenarios", err=True)
        return whole
    instead = "" if whole is None else f"; the last one that ran all is {whole}"
    raise InputError(
        f"job {job_id} would make a bad baseline: it ran only a selection of scenarios, and the others would not be "
        f"compared{instead}. Use --force to set it anyway"
    )


def _foreseen(found: Side) -> Iterator[str]:
    """Yield notes on the losses by which a gate against these results can turn red."""
    for line in outlook(found):
        yield f"note: {one_line(line, 500)}"


def _say_all(notes: Iterable[str]) -> None:
    for note in notes:
        say(note, err=True)


def _history(directory: Path) -> History:
    """Open the history for writing. It is not created where there are no jobs."""
    if not Layout(directory).history.is_file():
        HistoryReader.of(directory)  # raises the error
    return History.of(directory)


def _entry(name: str, jobs: tuple[str, ...], reason: str | None, git: object = None) -> BaselineEntry:
    known = git if isinstance(git, dict) else {}

    def text(value: object) -> str | None:
        return clean(value, 2000) if isinstance(value, str) and value.strip() else None

    return BaselineEntry(
        name=name,
        jobs=jobs,
        branch=text(known.get("branch")),
        commit=text(known.get("commit")),
        set_at=datetime.datetime.now(datetime.UTC),
        set_by=person(Path.cwd()),
        reason=text(reason),
    )


def _document(spec: str, directory: Path) -> BaselineDocument:
    """Describe a baseline."""
    parsed = parse_spec(spec)
    if parsed.kind == "file":  # a file needs no history
        found = from_file(spec, Path(parsed.value), None)
        if found.side is None:
            raise InputError(str(found.missing))
        return baseline_document(found.side, notes=found.notes)
    with HistoryReader.of(directory) as history:
        found = resolve(spec, history=history, directory=directory, root=Path.cwd(), job=None)
        if found.side is None:
            raise InputError(str(found.missing))
        past = history.baseline_past(parsed.value) if parsed.kind == "name" else []
        newest = history.job(found.side.jobs[0])
    return baseline_document(
        found.side,
        entry=past[0] if past else None,
        past=past[1:],
        git=None if newest is None else newest.reproducibility.get("git"),
        notes=found.notes[1:] if past else found.notes,  # the first note repeats what is printed above
    )


def _table(entries: tuple[BaselineEntry, ...]) -> Iterator[str]:
    if not entries:
        return
    shown = [
        (Column("NAME"), lambda entry: entry.name),
        (Column("JOBS"), lambda entry: _jobs(entry.jobs)),
        (Column("SET"), lambda entry: f"{entry.set_at.astimezone():%Y-%m-%d}"),
        (Column("BY", least=6, spare=True), lambda entry: entry.set_by or "-"),
        (Column("BRANCH", least=6, spare=True), lambda entry: entry.branch or "-"),
        (Column("COMMIT", spare=True), lambda entry: _short(entry.commit)),
        (Column("REASON", least=10, spare=True), lambda entry: entry.reason or "-"),
    ]
    yield from tabulate(entries, width(), shown)


def _lines(document: BaselineDocument, *, extended: bool) -> Iterator[str]:
    yield f"Baseline:  {one_line(document.baseline, 300)}"
    if document.jobs:
        yield f"Jobs:      {', '.join(one_line(job, 100) for job in document.jobs)}"
    if document.commit:
        on = f" ({one_line(document.branch, 100)})" if document.branch else ""
        yield f"Commit:    {_short(document.commit)}{on}"
    if document.set_at is not None:
        by = f" by {one_line(document.set_by, 100)}" if document.set_by else ""
        yield f"Set:       {document.set_at.astimezone():%Y-%m-%d %H:%M}{by}"
    if document.reason:
        yield f"Reason:    {one_line(document.reason, 300)}"
    for note in document.notes:
        yield f"Note:      {one_line(note, 500)}"
    yield ""
    figures = [
        (Column("BENCHMARK", least=8), lambda row: row.benchmark),
        (Column("AGENT", least=12), lambda row: row.agent),
        (Column("SCENARIOS", number=True), lambda row: str(row.scenarios)),
        (Column("ATTEMPTS", number=True), lambda row: str(row.attempts)),
        (Column("PASSED", number=True), lambda row: str(row.passed)),
        (Column("ERRORS", number=True), lambda row: str(row.errors)),
        (Column("MEAN", number=True), lambda row: "N/A" if row.mean is None else mean_text(row.mean)),
    ]
    yield from tabulate(document.figures, width(), figures)
    if extended:
        yield ""
        yield from tabulate(document.scenarios, width(), _SCENARIOS)
    if document.past:
        yield ""
        yield "Before:"
        yield from aligned([_was(entry) for entry in document.past])


def _was(entry: BaselineEntry) -> list[str]:
    what = _jobs(entry.jobs) if entry.jobs else "deleted"
    return [f"{entry.set_at.astimezone():%Y-%m-%d %H:%M}", what, entry.set_by or "-", entry.reason or "-"]


def _jobs(jobs: tuple[str, ...]) -> str:
    """`job ID`, or `ID and 4 more`."""
    first = one_line(jobs[0], 100)
    return f"job {first}" if len(jobs) == 1 else f"job {first} and {counted(len(jobs) - 1, 'other')}"


def _short(commit: str | None) -> str:
    return one_line(commit, 100)[:_SHORT] if commit else "-"
