"""`show`: show everything about one trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ..model.errors import InputError
from ..model.metric import Metric
from ..model.result import AgentEnd, ScorerResult, StepResult, TrialResult
from ..model.scenario import GradeIn
from ..report.console import describe
from ..report.documents.trial import ShowDocument
from ..report.excerpts import scorer_text
from ..report.table import aligned, facts, limited, section
from ..report.trial import next_commands, show_document
from ..report.units import cost, counted, duration, figure, joined, number
from ..store.project import directory_argument
from ..store.reader import HistoryReader
from ..store.results import find_job
from ..store.text import clean, one_line
from ..store.trial_ids import trial_named
from ..system.units import size
from ._directory import directory_option
from ._output import emit, output_option

_LISTED = 10


@click.command()
@click.argument("trial")
@click.option("--job", metavar="JOB", help="Of this job.  [default: the newest that has the trial]")
@directory_option
@output_option("show")
def show(trial: str, job: str | None, directory: Path, output: str) -> None:
    """Show everything about one TRIAL: task, steps of the agent, output of scorers, files, and what to type next.

    TRIAL is an id as pytest and other commands print it (`ops.bench.yaml::fix[codex]`), one with the name of the
    benchmark (`ops::fix[codex]`), the id of a scenario, or the path of a trial's files.
    """
    with HistoryReader.of(directory) as history:
        try:
            row = trial_named(history, trial, job)
        except InputError:
            if job is None:
                _refuse_job(history, trial)
            raise
        record = history.record(row.job)
    document = show_document(directory, row, record)
    commands = next_commands(document.result, record, directory_argument(directory))
    # A comment of its own: whoever copies a command takes nothing with it.
    after = [line for title, command in commands for line in (f"# {title}", command)]
    emit(document, lambda: trial_lines(document, after), output)


def _refuse_job(history: HistoryReader, text: str) -> None:
    """Raise an `InputError` that lists the trials of a job, if the text names a job."""
    try:
        job = find_job(history, text)
    except InputError:
        return
    rows = list(history.each_trial(job, outcomes=("failed", "error"))) or history.trials(job)
    listed = limited(rows, _LISTED, lambda row: f"{row.node_id}  {row.outcome}")
    text = "".join(f"\n  {line}" for line in listed)
    raise InputError(f"{job} is a job; show one of its trials:{text or ' it has none yet'}")


_STATEMENT_LINES = 20
_COMMANDS = 30
_FILES = 20
_ONE_LINE = 150


def trial_lines(document: ShowDocument, following: Sequence[str]) -> Iterator[str]:
    """Yield everything about a trial for a terminal; `following` are commands to type next. Names are cleaned."""
    result = document.result
    phases = [[one_line(one.name, 60), duration(one.seconds)] for one in result.phases]
    sections = [
        ("Statement", _statement(document)),
        ("Steps", _steps(result)),
        ("Phases", aligned(phases, right=(1,))),
        ("Commands of the agent", _commands(document)),
        ("Scorers", _scorers(result)),
        *((f"Scorer {one_line(one.name, 40)} runs", _definition(one)) for one in result.scorers),
        ("Metrics", _metrics(result)),
        *((f"{log.title[0].upper()}{log.title[1:]}", log.lines) for log in document.logs),
        ("Usage", _usage(result)),
        ("Notes", [one_line(note, 500) for note in result.notes[:20]]),
        (f"Files in {clean(document.directory or '')}", _files(document)),
        ("Next", following),
    ]
    yield clean(result.node_id, 500)
    yield from _facts(document)
    for title, content in sections:
        yield from section(title, content)


def _statement(document: ShowDocument) -> Iterator[str]:
    if document.statement is None:
        if document.result.confidential:
            yield "(confidential: nothing is quoted; the files are below)"
        elif (place := document.result.node_id.partition("::")[0]).endswith(".py"):
            yield f"(in {one_line(place, 200)}, which this command does not import)"
        return
    lines = document.statement.rstrip().split("\n")
    yield from lines[:_STATEMENT_LINES]
    if len(lines) > _STATEMENT_LINES:
        yield f"... {len(lines) - _STATEMENT_LINES} more lines"


def _facts(document: ShowDocument) -> Iterator[str]:
    result = document.result
    failure = result.failure
    tries = f", {counted(result.tries, 'try', 'tries')}" if result.tries > 1 else ""
    name = f" ({document.job_name})" if document.job_name else ""
    version = f", version {result.agent_version}" if result.agent_version else ""
    origin = result.reused or result.rescored
    how = "reused from" if result.reused else "graded again, its agent ran in"
    rows = [
        ("Result", describe(result)),
        ("Why", clean(failure.message, 2000) if failure is not None else None),
        (
            "Job",
            f"{result.job}{name}, {result.started_at:%Y-%m-%d %H:%M} UTC, attempt {result.attempt}{tries}",
        ),
        ("Origin", None if origin is None else f"{how} job {origin.job}"),
        ("Agent", f"{result.agent.label}{version}"),
        ("Command", result.agent.model if result.agent.name == "command" else None),
        ("Ended", _ending(result.agent_end)),
        ("Graded", _GRADED.get(result.graded_in)),
        ("Image", None if result.image is None else result.image.reference),
        ("Kept", result.kept),
    ]
    return facts(((title, text and clean(text)) for title, text in rows), 9)


_GRADED = {
    GradeIn.FRESH: "in a fresh container",
    GradeIn.AGENT_CONTAINER: "in the agent's container",
    None: None,
}


def _ending(end: AgentEnd | None) -> str | None:
    if end is None:
        return None
    parts = joined(
        "timed out" if end.timed_out else None,
        None if end.exit_status is None else f"exit status {end.exit_status}",
        None if end.ending is None else str(end.ending),
        None if end.limit is None else f"over its {end.limit} limit",
        None if end.message is None else one_line(end.message, 300),
    )
    return parts or None


def _steps(result: TrialResult) -> Iterator[str]:
    """Yield the steps of a trial of several: score, time, the agent's end, or why it did not run."""

    def cells(step: StepResult) -> list[str]:
        took, end = duration(step.seconds), _ending(step.agent_end) or ""
        if step.not_run is not None:
            took, end = "", f"not run: {one_line(step.not_run, 300)}"
        return [one_line(step.name, 60), number(step.score), took, end]

    return aligned([*map(cells, result.steps)], right=(1, 2))


def _commands(document: ShowDocument) -> Iterator[str]:
    shown = document.commands[-_COMMANDS:]
    before = document.commands_left_out + len(document.commands) - len(shown)
    if before:
        yield f"... {counted(before, 'command')} before these; trajectory.jsonl has all"
    for command in shown:
        yield f"{command.step:>4}  {command.tool}  {command.command}"
        if command.output:
            yield f"      -> {command.output}"


def _scorers(result: TrialResult) -> Iterator[str]:
    def cells(scorer: ScorerResult) -> list[str]:
        name, kind, weight = one_line(scorer.name, 40), one_line(scorer.type, 40), f"weight {scorer.weight:g}"
        return [name, kind, number(scorer.score), weight, duration(scorer.seconds), scorer_text(scorer)]

    return aligned([*map(cells, result.scorers)], right=(2, 4))


def _definition(scorer: ScorerResult) -> Iterator[str]:
    """Yield what a scorer runs, where that does not fit into a line of the table above."""
    for name, text in scorer.definition.items():
        lines = clean(text).rstrip().split("\n")
        if len(lines) > 1 or len(text) > _ONE_LINE:
            yield f"{name}: {lines[0]}"
            yield from (f"  {line}" for line in lines[1:])


def _metrics(result: TrialResult) -> Iterator[str]:
    def cells(one: Metric) -> list[str]:
        unit = one_line(one.unit or "", 20)
        return [one_line(one.name, 80), figure(one.value), unit, f"{one.direction} is better"]

    return aligned([*map(cells, result.metrics)], right=(1,))


def _usage(result: TrialResult) -> Iterator[str]:
    usage = result.usage
    figures = [
        ("calls of models", usage.calls),
        ("input tokens", usage.input_tokens),
        ("of them cached", usage.cached_tokens),
        ("output tokens", usage.output_tokens),
    ]
    known = [f"{value:,} {what}" for what, value in figures if value is not None]
    if usage.cost_usd is not None:
        known.append(cost(usage.cost_usd))
    if known:
        yield ", ".join(known)
    for name, calls in list(result.models.items())[:20]:
        yield f"{one_line(name, 100)}: {counted(calls, 'call')}"


def _files(document: ShowDocument) -> Iterator[str]:
    shown = document.files[:_FILES]
    yield from aligned([[one.path, size(one.bytes)] for one in shown], right=(1,))
    left = len(document.files) - len(shown) + document.files_left_out
    if left:
        yield f"... and {left} more"
