"""A comparison as lines of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..model.comparison import AgentRank, ComparedMetric, ComparedRow, ComparedSide, Comparison
from ..model.gate import Change, ScenarioRef
from ..store.text import one_line
from .table import Column, tabulate
from .units import duration

_SHOWN = 20


def comparison_lines(comparison: Comparison, room: int) -> Iterator[str]:
    """Yield a comparison for a terminal of `room` columns."""
    yield from _head(comparison)
    yield ""
    if not comparison.rows:
        yield from _nothing(comparison)
        return
    yield from _scores(comparison, room)
    yield from _ranks(comparison, room)
    yield ""
    yield from _spent(comparison, room)
    yield from _metrics(comparison, room)
    yield from _tail(comparison)


def _head(comparison: Comparison) -> Iterator[str]:
    yield f"Comparison ID: {comparison.id}"
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        yield f"{letter}: {one_line(side.spec, 300)}{_jobs(side)}"
    benchmarks = dict.fromkeys(row.benchmark for row in comparison.rows)
    yield "Benchmarks: " + (", ".join(one_line(name, 100) for name in benchmarks) or "-")


def _nothing(comparison: Comparison) -> Iterator[str]:
    """Explain why nothing can be compared, instead of printing empty tables."""
    yield "Nothing to compare: no scenario has a score on both sides."
    yield from _refs("on B only", comparison.added)
    yield from _refs("on A only", comparison.removed)
    yield from _refs("not the same task on both sides", comparison.changed)
    yield from _refs("without a score on one side", comparison.unscored)
    for note in comparison.notes:
        yield f"note: {one_line(note, 500)}"
    yield "Choose jobs of the same benchmark: `benchjobs list --all` shows benchmarks and agents."


def _scores(comparison: Comparison, room: int) -> Iterator[str]:
    """Make the table of scores: both means, their difference, interval and p-values."""
    rows = comparison.rows
    shown = [
        (Column("benchmark", least=12), lambda row: row.benchmark),
        (Column("agents", least=12), _agents),
        (Column("A", number=True), lambda row: _number(row.a)),
        (Column("B", number=True), lambda row: _number(row.b)),
        (Column("delta (B-A)", number=True), lambda row: _signed(row.delta)),
        (Column("winner"), _winner),
        (Column("n", number=True), lambda row: str(row.scenarios)),
        (Column(f"{100 * comparison.level:g} % interval", number=True), _interval),
        (Column("p", number=True), lambda row: _or_dash(row.p_value, "{:.3f}".format)),
        (Column("p worse", number=True), lambda row: _or_dash(row.p_worse, "{:.3f}".format)),
        (Column("detectable", number=True), lambda row: _number(row.detectable)),
        (Column("high score", number=True), lambda row: _to_high(row)[0]),
        (Column("A to it", number=True), lambda row: _to_high(row)[1]),
        (Column("B to it", number=True), lambda row: _to_high(row)[2]),
    ]
    if all(row.high_score is None for row in rows):
        del shown[-3:]
    if len({(row.a_agent, row.b_agent) for row in rows}) < 2:
        del shown[1]
    return tabulate(rows, room, shown)


def _ranks(comparison: Comparison, room: int) -> Iterator[str]:
    """Make the table of ranks, if agents of one job were compared."""
    if not comparison.ranks:
        return
    shown: list[tuple[Column, Callable[[AgentRank], str]]] = [
        (Column("rank"), lambda one: f"{one.first}" if one.first == one.last else f"{one.first}-{one.last}"),
        (Column("agent", least=12), lambda one: one.agent),
        (Column("benchmark", least=12), lambda one: one.benchmark),
    ]
    yield ""
    yield from tabulate(comparison.ranks, room, shown)


def _spent(comparison: Comparison, room: int) -> Iterator[str]:
    """Make the table of time, cost and tokens per attempt on each side."""
    shown = [
        (Column("per attempt"), lambda row: row.benchmark),
        (Column("agents", least=12), _agents),
        (Column("cost A", number=True), lambda row: _or_dash(row.a_cost, "${:.4f}".format)),
        (Column("cost B", number=True), lambda row: _or_dash(row.b_cost, "${:.4f}".format)),
        (Column("tokens A", number=True), lambda row: _or_dash(row.a_tokens, "{:.0f}".format)),
        (Column("tokens B", number=True), lambda row: _or_dash(row.b_tokens, "{:.0f}".format)),
        (Column("time A", number=True), lambda row: _or_dash(row.a_seconds, duration)),
        (Column("time B", number=True), lambda row: _or_dash(row.b_seconds, duration)),
        (Column("errors A", number=True), lambda row: str(row.a_errors)),
        (Column("errors B", number=True), lambda row: str(row.b_errors)),
    ]
    if len({(row.a_agent, row.b_agent) for row in comparison.rows}) < 2:
        del shown[1]
    return tabulate(comparison.rows, room, shown)


def _metrics(comparison: Comparison, room: int) -> Iterator[str]:
    """Make the table of what scorers measured, if there is anything."""
    rows = [(row, one) for row in comparison.rows for one in row.metrics]
    if not rows:
        return
    shown = [
        (Column("metric", least=10), lambda pair: pair[1].name),
        (Column("benchmark", least=12), lambda pair: pair[0].benchmark),
        (Column("agents", least=12), lambda pair: _agents(pair[0])),
        (Column("A", number=True), lambda pair: f"{pair[1].a:.4g}"),
        (Column("B", number=True), lambda pair: f"{pair[1].b:.4g}"),
        (Column("delta (B-A)", number=True), lambda pair: f"{pair[1].delta:+z.4g}"),
        (Column("unit"), lambda pair: pair[1].unit or "-"),
        (Column("better"), lambda pair: pair[1].direction),
        (Column("winner"), lambda pair: _ahead(pair[1], comparison.level)),
        (Column("n", number=True), lambda pair: str(pair[1].scenarios)),
        (Column("p", number=True), lambda pair: _or_dash(pair[1].p_value, "{:.3f}".format)),
    ]
    if len({(row.a_agent, row.b_agent) for row, _ in rows}) < 2:
        del shown[2]
    yield ""
    yield from tabulate(rows, room, shown)


def _ahead(metric: ComparedMetric, level: float) -> str:
    if metric.winner is None:
        return "-"
    letter = metric.winner.upper()
    return letter if metric.p_value is not None and metric.p_value < 1 - level else f"({letter})"


def _tail(comparison: Comparison) -> Iterator[str]:
    """Yield the scenarios that changed, and those left out."""
    if any(row.winner is not None and not row.significant for row in comparison.rows):
        yield f"(A), (B): ahead, but not significantly (p >= {1 - comparison.level:.2g})"
    yield from _changes("newly failing on B", comparison.newly_failing)
    yield from _changes("newly passing on B", comparison.newly_passing)
    yield from _changes("suspects: worse on B, worth a closer look", comparison.suspects)
    yield from _refs("on B only", comparison.added)
    yield from _refs("on A only", comparison.removed)
    yield from _refs("left out: not the same task on both sides", comparison.changed)
    yield from _refs("left out: no score on one side", comparison.unscored)
    for note in comparison.notes:
        yield f"note: {one_line(note, 500)}"


def _changes(title: str, changes: Sequence[Change]) -> Iterator[str]:
    if not changes:
        return
    yield ""
    yield f"{len(changes)} {title}:"
    for one in changes[:_SHOWN]:
        adjusted = "" if one.adjusted is None else f", adjusted p = {one.adjusted:.3f}"
        yield (
            f"  {one_line(one.benchmark, 100)} {one_line(one.scenario, 200)}: {one.before:.2f} -> {one.now:.2f} "
            f"(passed {one.before_passed}/{one.before_attempts} -> {one.now_passed}/{one.now_attempts}{adjusted})"
        )
    if len(changes) > _SHOWN:
        yield f"  ... and {len(changes) - _SHOWN} more"


def _refs(title: str, refs: Sequence[ScenarioRef]) -> Iterator[str]:
    if not refs:
        return
    names = ", ".join(
        f"{one_line(one.benchmark, 100)} {one_line(one.scenario, 100)}" for one in refs[:_SHOWN]
    )
    more = f" and {len(refs) - _SHOWN} more" if len(refs) > _SHOWN else ""
    yield f"{len(refs)} {title}: {names}{more}"


def _jobs(side: ComparedSide) -> str:
    known = [job for job in side.jobs if job not in side.spec]
    return f" (job {', '.join(known[:5])})" if known else ""


def _agents(row: ComparedRow) -> str:
    return row.b_agent if row.a_agent == row.b_agent else f"{row.a_agent} | {row.b_agent}"


def _interval(row: ComparedRow) -> str:
    return "-" if row.low is None or row.high is None else f"{row.low:+z.4f} .. {row.high:+z.4f}"


def _winner(row: ComparedRow) -> str:
    if row.winner is None:
        return "-"
    letter = row.winner.upper()
    return letter if row.significant else f"({letter})"


def _to_high(row: ComparedRow) -> tuple[str, str, str]:
    high = row.high_score
    if high is None:
        return "-", "-", "-"
    return _number(high.score), _signed(row.a_to_high), _signed(row.b_to_high)


def _or_dash(value: float | None, shown: Callable[[float], str]) -> str:
    return "-" if value is None else shown(value)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+z.4f}"
