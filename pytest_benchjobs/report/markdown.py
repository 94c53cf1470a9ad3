"""`summary.md`: the summary of a job for people, small enough for CI systems that show Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.known_failures import tally_known, waived
from ..analysis.verdict import verdicts
from ..model.gate import GateReport
from ..model.job import JobRecord
from ..model.result import Outcome, TrialResult
from .code_span import code
from .console import describe
from .documents.summary import MetricFigures
from .excerpts import Evidence
from .gate_markdown import gate_markdown
from .known_failures import known_line
from .summary import AgentRow, CategoryRow, by_agent, by_category, by_metric, by_turn, totals
from .units import duration, figure, mean_text, number, percent

SIZE_LIMIT = 900 * 1024
"""Limit in bytes. GitHub refuses step summaries over 1 MiB."""
_FAILURES = 50
_ERRORS = 200
_KNOWN = 50
_CATEGORIES = 100
_METRICS = 100
_QUOTED = 10
"""Most errors, and failures, whose logs are quoted."""
_QUOTED_LINES = 10


def summary_markdown(
    record: JobRecord,
    results: Sequence[TrialResult],
    gate: GateReport | None = None,
    evidence: Evidence | None = None,
) -> str:
    """Return the whole file, with the gate report at the top; `evidence` has the last lines of logs.

    Foreign text is in code spans or blocks, so that it cannot be links, mentions or HTML.
    """
    lines: list[str] = []
    size = 0
    for line in _lines(record, results, gate, evidence):
        size += len(line.encode()) + 1
        if size > SIZE_LIMIT - 200:
            lines += ["", "The rest is left out: see `report.json`."]
            break
        lines.append(line)
    return "\n".join(lines) + "\n"


def _lines(
    record: JobRecord, results: Sequence[TrialResult], gate: GateReport | None, evidence: Evidence | None
) -> Iterator[str]:
    if gate is not None:
        yield from gate_markdown(gate)
    trials, turns, metrics = totals(results), list(by_turn(results)), list(by_metric(results))
    results = verdicts(results, record.config)
    counts = totals(results)
    policy = record.config.attempt_policy
    what = f"verdicts (of {trials.trials} trials, policy {policy})" if policy.aggregates else "trials"
    yield f"# Job {code(record.name or record.id)}"
    yield ""
    yield (
        f"{record.status.value}: {counts.trials} {what}, {counts.passed} passed, {counts.failed} failed, "
        f"{counts.error} errors"
        + (f", {counts.cancelled} cancelled" if counts.cancelled else "")
        + (f", {counts.skipped} skipped" if counts.skipped else "")
        + (
            f"; mean score {mean_text(counts.mean_score)} of those with a score"
            if counts.mean_score is not None
            else ""
        )
    )
    yield ""
    if trials.reused:
        yield f"{trials.reused} of {trials.trials} trials were reused from earlier jobs without running."
        yield ""
    missing = (record.planned or 0) - trials.trials
    if missing > 0:
        yield f"{missing} planned trials did not run."
        yield ""
    yield from _agents(by_agent(results))
    yield from _categories(by_category(results))
    yield from _metrics(metrics)
    for label, passed in turns:
        yield f"{code(label)}, {passed}."
        yield ""
    errors = [result for result in results if result.outcome is Outcome.ERROR]
    failures = sorted(
        (result for result in results if result.outcome is Outcome.FAILED and not waived(result)),
        key=lambda result: result.score or 0.0,
    )
    yield from _section("Errors (not the agents' doing; no score)", errors, _ERRORS)
    yield from _section("Failed, lowest scores first", failures, _FAILURES)
    if evidence is not None:
        yield from _logs([*errors[:_QUOTED], *failures[:_QUOTED]], evidence)
    yield from _known(results)
    yield f"Job {code(record.id)}, {record.created_at:%Y-%m-%d %H:%M} UTC" + _took(record) + "."


def _agents(rows: Sequence[AgentRow]) -> Iterator[str]:
    reuses = any(row.reused for row in rows)
    title, line = (" reused |", "--:|") if reuses else ("", "")
    yield f"| agent | passed | partial | failed | errors |{title} total | pass rate | mean score | time |"
    yield f"|---|--:|--:|--:|--:|{line}--:|--:|--:|--:|"
    for row in rows:
        rate = "-" if row.pass_rate is None else percent(row.pass_rate)
        mean = "-" if row.mean_scored is None else mean_text(row.mean_scored)
        counts = f"{row.passed} | {row.partial} | {row.failed} | {row.errors}"
        counts += f" | {row.reused} | {row.total}" if reuses else f" | {row.total}"
        yield f"| {code(row.label)} | {counts} | {rate} | {mean} | {duration(row.seconds)} |"
    yield ""


def _categories(rows: Sequence[CategoryRow]) -> Iterator[str]:
    if not rows:
        return
    yield "| agent | category | passed | total | mean score |"
    yield "|---|---|--:|--:|--:|"
    for row in rows[:_CATEGORIES]:
        mean = "-" if row.mean_scored is None else mean_text(row.mean_scored)
        yield f"| {code(row.agent)} | {code(row.category, 60)} | {row.passed} | {row.total} | {mean} |"
    if len(rows) > _CATEGORIES:
        yield ""
        yield f"... and {len(rows) - _CATEGORIES} more."
    yield ""


def _metrics(rows: Sequence[tuple[str, MetricFigures]]) -> Iterator[str]:
    if not rows:
        return
    yield "| agent | metric | mean | unit | better | trials |"
    yield "|---|---|--:|---|---|--:|"
    for label, one in rows[:_METRICS]:
        unit = code(one.unit, 60) if one.unit else ""
        yield f"| {code(label)} | {code(one.name)} | {figure(one.mean)} | {unit} | {one.direction} | {one.trials} |"
    if len(rows) > _METRICS:
        yield ""
        yield f"... and {len(rows) - _METRICS} more."
    yield ""


def _section(title: str, results: Sequence[TrialResult], limit: int) -> Iterator[str]:
    if not results:
        return
    yield f"## {title}"
    yield ""
    yield "| trial | score | class | message |"
    yield "|---|--:|---|---|"
    for result in results[:limit]:
        failure = result.failure
        score = "-" if result.score is None else number(result.score)
        class_, message = (failure.class_, failure.message) if failure else ("", describe(result))
        yield f"| {code(result.node_id)} | {score} | {code(class_, 60)} | {code(message)} |"
    if len(results) > limit:
        yield ""
        yield f"... and {len(results) - limit} more."
    yield ""


def _logs(results: Sequence[TrialResult], evidence: Evidence) -> Iterator[str]:
    """Yield the last lines of logs in indented blocks, where nothing is markup."""
    quoted = [(result, shown) for result in results if (shown := evidence.of(result, lines=_QUOTED_LINES))]
    if not quoted:
        return
    yield "## Last lines of their logs"
    yield ""
    for result, shown in quoted:
        yield (
            f"{code(result.node_id)}, files in {code(result.path)}:"
            if result.path
            else f"{code(result.node_id)}:"
        )
        yield ""
        for one in shown:
            for line in one.text.split("\n"):
                yield f"    {line}"
            yield ""


def _known(results: Sequence[TrialResult]) -> Iterator[str]:
    about = [result for result in results if result.known is not None]
    if not about:
        return
    yield "## Known failures"
    yield ""
    yield code(known_line(tally_known(about)), 1000)
    yield ""
    yield "| trial | known as | outcome | score | reason | until | link |"
    yield "|---|---|---|--:|---|---|---|"
    for result in about[:_KNOWN]:
        known = result.known
        assert known is not None  # noqa: S101  the others were left out
        score = "-" if result.score is None else number(result.score)
        yield (
            f"| {code(result.node_id)} | {known.mode} | {result.outcome} | {score} | {code(known.reason)} "
            f"| {known.until or ''} | {code(known.issue or '')} |"
        )
    if len(about) > _KNOWN:
        yield ""
        yield f"... and {len(about) - _KNOWN} more."
    yield ""


def _took(record: JobRecord) -> str:
    if record.finished_at is None:
        return ""
    if not record.resumed_at:
        return f", took {duration((record.finished_at - record.created_at).total_seconds())}"
    # The time between a crash and the resume does not count.
    last = max(record.resumed_at)
    return f", resumed {last:%Y-%m-%d %H:%M} UTC, took {duration((record.finished_at - last).total_seconds())} since"
