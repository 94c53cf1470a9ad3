"""`summary.md`: the summary of a job for people, small enough for CI systems that show Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.known_failures import tally_known, waived
from ..analysis.verdict import verdicts
from ..model.gate import GateReport
from ..model.job import JobRecord
from ..model.result import Outcome, TrialResult
from ..store.totals import totals
from .alike import Alike, alike
from .console import AGENT_COLUMNS, METRIC_COLUMNS, describe
from .excerpts import Evidence
from .gate_text import gate_markdown
from .known_failures import known_line
from .markdown_parts import code, fitted, table
from .summary import by_agent, by_category, by_metric, by_turn, used_of_limits
from .table import Column, Shown
from .units import duration, joined, mean_text, number

SIZE_LIMIT = 900 * 1024
"""Limit in bytes. GitHub refuses step summaries over 1 MiB."""
_ROWS = 100
_FAILURES = 50
_ERRORS = 200
_QUOTED = 10
"""Most errors, and failures, whose logs are quoted."""
_QUOTED_LINES = 10


_TRIAL_COLUMNS: Sequence[Shown] = (
    (Column("trial", foreign=True), lambda one: one.title),
    (Column("score", number=True), lambda one: number(one.first.score)),
    (Column("class", foreign=True, most=60), lambda one: why.class_ if (why := one.first.failure) else ""),
    (Column("message", foreign=True), lambda one: _message(one.first)),
)
_KNOWN_COLUMNS: Sequence[Shown] = (
    (Column("trial", foreign=True), lambda one: one.node_id),
    (Column("known as"), lambda one: one.known.mode),
    (Column("outcome"), lambda one: one.outcome),
    (Column("score", number=True), lambda one: number(one.score)),
    (Column("reason", foreign=True), lambda one: one.known.reason),
    (Column("until"), lambda one: str(one.known.until or "")),
    (Column("link", foreign=True), lambda one: one.known.issue or ""),
)
_CATEGORY_COLUMNS: Sequence[Shown] = (
    (Column("agent", foreign=True), lambda one: one.agent),
    (Column("category", foreign=True, most=60), lambda one: one.category),
    (Column("passed", number=True), lambda one: str(one.passed)),
    (Column("total", number=True), lambda one: str(one.total)),
    (Column("mean score", number=True), lambda one: mean_text(one.mean_scored)),
)
_METRIC_COLUMNS: Sequence[Shown] = (
    (Column("agent", foreign=True), lambda pair: pair[0]),
    *((column, lambda pair, cell=cell: cell(pair[1])) for column, cell in METRIC_COLUMNS),
)


def summary_markdown(
    record: JobRecord,
    results: Sequence[TrialResult],
    gate: GateReport | None = None,
    evidence: Evidence | None = None,
) -> str:
    """Return the whole file, with the gate report at the top; `evidence` has the last lines of logs.

    Foreign text is in code spans or blocks, so that it cannot be links, mentions or HTML.
    """
    whole = "\n".join([*_lines(record, results, gate, evidence), ""])
    return fitted(whole, SIZE_LIMIT, whole="report.json")


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
    outcomes = joined(
        f"{counts.passed} passed, {counts.failed} failed, {counts.error} errors",
        counts.cancelled and f"{counts.cancelled} cancelled",
        counts.skipped and f"{counts.skipped} skipped",
    )
    rows = by_agent(results)
    mean = counts.mean_score if len(rows) == 1 else None  # the table has that of each agent
    of_scored = "" if mean is None else f"; mean score {mean_text(mean)} of those with a score"
    yield f"{record.status.value}: {counts.trials} {what}, {outcomes}{of_scored}"
    yield ""
    if trials.reused:
        yield f"{trials.reused} of {trials.trials} trials were reused from earlier jobs without running."
        yield ""
    missing = (record.planned or 0) - trials.trials
    if missing > 0:
        yield f"{missing} planned trials did not run."
        yield ""
    yield from table(rows, AGENT_COLUMNS, len(rows))
    if used := used_of_limits(record):
        yield from (f"Models: {', '.join(used)}.", "")
    yield from table(by_category(results), _CATEGORY_COLUMNS, _ROWS)
    yield from table(metrics, _METRIC_COLUMNS, _ROWS)
    for label, passed in turns:
        yield f"{code(label)}, {passed}."
        yield ""
    errors = alike((result for result in results if result.outcome is Outcome.ERROR), record.config)
    failed = (result for result in results if result.outcome is Outcome.FAILED and not waived(result))
    failures = sorted(alike(failed, record.config), key=lambda one: one.first.score or 0.0)
    yield from _section("Errors (not the agents' doing; no score)", errors, _ERRORS)
    yield from _section("Failed, lowest scores first", failures, _FAILURES)
    if evidence is not None:
        yield from _logs([*errors[:_QUOTED], *failures[:_QUOTED]], evidence)
    yield from _known(results)
    yield f"Job {code(record.id)}, {record.created_at:%Y-%m-%d %H:%M} UTC" + _took(record) + "."


def _message(result: TrialResult) -> str:
    return describe(result) if result.failure is None else result.failure.message


def _section(title: str, trials: Sequence[Alike], limit: int) -> Iterator[str]:
    if trials:
        yield from (f"## {title}", "")
        yield from table(trials, _TRIAL_COLUMNS, limit)


def _logs(trials: Sequence[Alike], evidence: Evidence) -> Iterator[str]:
    """Yield the last lines of logs in indented blocks, where nothing is markup."""
    quoted = [(one, shown) for one in trials if (shown := evidence.of(one.first, lines=_QUOTED_LINES))]
    if not quoted:
        return
    yield "## Last lines of their logs"
    yield ""
    for one, shown in quoted:
        files = f", files in {code(one.first.path)}" if one.first.path else ""
        yield f"{code(one.title)}{files}:"
        yield ""
        for excerpt in shown:
            for line in excerpt.text.split("\n"):
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
    yield from table(about, _KNOWN_COLUMNS, _FAILURES)


def _took(record: JobRecord) -> str:
    if record.finished_at is None:
        return ""
    if not record.resumed_at:
        return f", took {duration((record.finished_at - record.created_at).total_seconds())}"
    # The time between a crash and the resume does not count.
    last = max(record.resumed_at)
    return f", resumed {last:%Y-%m-%d %H:%M} UTC, took {duration((record.finished_at - last).total_seconds())} since"
