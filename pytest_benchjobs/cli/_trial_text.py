"""The text of `show`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..model.scenario import GradeIn
from ..report.console import describe
from ..report.table import aligned
from ..report.units import cost, counted, duration, figure, number
from ..store.text import clean, one_line
from ..system.units import size

if TYPE_CHECKING:
    from ..model.result import AgentEnd, TrialResult
    from ..report.documents.trial import ShowDocument

_STATEMENT_LINES = 20
_COMMANDS = 30
_FILES = 20


def trial_lines(document: ShowDocument, following: Sequence[str]) -> Iterator[str]:
    """Yield everything about a trial for a terminal; `following` are commands to type next. Names are cleaned."""
    result = document.result
    sections = [
        ("Statement", _statement(document)),
        ("Steps", _steps(result)),
        (
            "Phases",
            aligned([[one_line(one.name, 60), duration(one.seconds)] for one in result.phases], right=(1,)),
        ),
        ("Commands of the agent", _commands(document)),
        ("Scorers", _scorers(result)),
        ("Metrics", _metrics(result)),
        *((f"{log.title[0].upper()}{log.title[1:]}", log.lines) for log in document.logs),
        ("Usage", _usage(result)),
        ("Notes", [one_line(note, 500) for note in result.notes[:20]]),
        (f"Files in {clean(document.directory or '')}", _files(document)),
        ("Next", following),
    ]
    yield clean(result.node_id, 500)
    yield from _head(document)
    for title, content in sections:
        if lines := list(content):
            yield ""
            yield title
            yield from (f"  {line}" for line in lines)


def _statement(document: ShowDocument) -> Iterator[str]:
    if document.statement is None:
        if document.result.confidential:
            yield "(confidential: nothing is quoted; the files are below)"
        return
    lines = document.statement.rstrip().split("\n")
    yield from lines[:_STATEMENT_LINES]
    if len(lines) > _STATEMENT_LINES:
        yield f"... {len(lines) - _STATEMENT_LINES} more lines"


def _head(document: ShowDocument) -> Iterator[str]:
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
    for title, text in rows:
        if text:
            first, *rest = clean(text).split("\n")
            yield f"{title + ':':<9}{first}"
            yield from (f"{'':<9}{line}" for line in rest)


_GRADED = {
    GradeIn.FRESH: "in a fresh container",
    GradeIn.AGENT_CONTAINER: "in the agent's container",
    None: None,
}


def _ending(end: AgentEnd | None) -> str | None:
    if end is None:
        return None
    parts = [
        "timed out" if end.timed_out else None,
        None if end.exit_status is None else f"exit status {end.exit_status}",
        None if end.ending is None else str(end.ending),
        None if end.limit is None else f"over its {end.limit} limit",
        None if end.message is None else one_line(end.message, 300),
    ]
    return ", ".join(part for part in parts if part) or None


def _steps(result: TrialResult) -> Iterator[str]:
    """Yield the steps of a trial of several: score, time, the agent's end, or why it did not run."""
    cells = [
        [
            one_line(step.name, 60),
            number(step.score),
            "" if step.not_run is not None else duration(step.seconds),
            f"not run: {one_line(step.not_run, 300)}"
            if step.not_run is not None
            else _ending(step.agent_end) or "",
        ]
        for step in result.steps
    ]
    return aligned(cells, right=(1, 2))


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
    cells = [
        [
            one_line(scorer.name, 40),
            one_line(scorer.type, 40),
            number(scorer.score),
            f"weight {scorer.weight:g}",
            duration(scorer.seconds),
            one_line(f"{scorer.error.class_}: {scorer.error.message}", 300)
            if scorer.error
            else one_line(", ".join(f"{key}={value}" for key, value in scorer.details.items()), 300),
        ]
        for scorer in result.scorers
    ]
    return aligned(cells, right=(2, 4))


def _metrics(result: TrialResult) -> Iterator[str]:
    cells = [
        [
            one_line(one.name, 80),
            figure(one.value),
            one_line(one.unit or "", 20),
            f"{one.direction} is better",
        ]
        for one in result.metrics
    ]
    return aligned(cells, right=(1,))


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
