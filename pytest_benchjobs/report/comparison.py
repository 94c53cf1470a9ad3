"""A comparison as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..model.comparison import ComparedMetric, ComparedRow, Comparison
from ..store.text import one_line
from .gate_text import changed_lines
from .table import Column, Shown, tabulate
from .units import cost, counted, duration, some

_SHOWN = 20


def comparison_lines(comparison: Comparison, room: int) -> Iterator[str]:
    """Yield a comparison for a terminal of `room` columns."""
    yield from _head(comparison)
    yield ""
    if not comparison.rows:
        # Instead of empty tables.
        yield "Nothing to compare: no scenario has a score on both sides."
        yield from _left_out(comparison)
        yield "Choose jobs of the same benchmark: `benchjobs list --all` shows benchmarks and agents."
        return
    sides = {(row.a_agent, row.b_agent) for row in comparison.rows}
    agents: list[Shown] = [(Column("agents", least=12), _agents)] if len(sides) > 1 else []
    yield from tabulate(comparison.rows, room, [_BENCHMARK, *agents, *_scores(comparison.level)])
    if comparison.ranks:
        yield ""
        yield from tabulate(comparison.ranks, room, _RANKS)
    yield ""
    yield from tabulate(comparison.rows, room, [_SPENT[0], *agents, *_SPENT[1:]])
    if metrics := [_Measured(row, one) for row in comparison.rows for one in row.metrics]:
        yield ""
        of = [(column, lambda pair, cell=cell: cell(pair.row)) for column, cell in (_BENCHMARK, *agents)]
        yield from tabulate(metrics, room, [_METRIC, *of, *_metrics(comparison.level)])
    yield from _tail(comparison)


def _head(comparison: Comparison) -> Iterator[str]:
    yield f"Comparison ID: {comparison.id}"
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        jobs = [job for job in side.jobs if job not in side.spec]
        told = [f"job {', '.join(jobs[:5])}"] if jobs else []
        if len(side.agents) == 1 and side.agents[0] != side.spec:
            told.append(one_line(side.agents[0], 100))
        of = f" ({'; '.join(told)})" if told else ""
        yield f"{letter}: {one_line(side.spec, 300)}{of}"
    benchmarks = dict.fromkeys(row.benchmark for row in comparison.rows)
    yield "Benchmarks: " + (", ".join(one_line(name, 100) for name in benchmarks) or "-")


class _Measured(NamedTuple):
    """A metric of scorers, and what it was compared for."""

    row: ComparedRow
    metric: ComparedMetric


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else f"{value:{form}}"


_BENCHMARK: Shown = (Column("benchmark", least=12), lambda row: row.benchmark)
_RANKS: Sequence[Shown] = (
    (Column("rank"), lambda one: f"{one.first}" if one.first == one.last else f"{one.first}-{one.last}"),
    (Column("agent", least=12), lambda one: one.agent),
    _BENCHMARK,
)
_SPENT: Sequence[Shown] = (
    (Column("per attempt"), lambda row: row.benchmark),
    (Column("cost A", number=True), lambda row: cost(row.a_cost)),
    (Column("cost B", number=True), lambda row: cost(row.b_cost)),
    (Column("tokens A", number=True), lambda row: _shown(row.a_tokens, ".0f")),
    (Column("tokens B", number=True), lambda row: _shown(row.b_tokens, ".0f")),
    (Column("time A", number=True), lambda row: duration(row.a_seconds)),
    (Column("time B", number=True), lambda row: duration(row.b_seconds)),
    (Column("errors A", number=True), lambda row: str(row.a_errors)),
    (Column("errors B", number=True), lambda row: str(row.b_errors)),
)
_METRIC: Shown = (Column("metric", least=10), lambda pair: pair.metric.name)


def _scores(level: float) -> list[Shown]:
    """Make the columns of scores: both means, their difference, interval and p-values."""
    return [
        (Column("A", number=True), lambda row: _shown(row.a, ".4f")),
        (Column("B", number=True), lambda row: _shown(row.b, ".4f")),
        (Column("delta (B-A)", number=True), lambda row: _shown(row.delta, "+z.4f")),
        (Column("winner"), lambda row: _winner(row.winner, significant=row.significant)),
        (Column("n", number=True), _count),
        (Column(f"{100 * level:g} % interval", number=True), _interval),
        (Column("p", number=True), lambda row: _shown(row.p_value, ".3f")),
        (Column("p worse", number=True), lambda row: _shown(row.p_worse, ".3f")),
        (Column("detectable", number=True), lambda row: _shown(row.detectable, ".4f")),
        (Column("high score", number=True, rare=True), _high_score),
        (Column("A to it", number=True, rare=True), lambda row: _shown(row.a_to_high, "+z.4f")),
        (Column("B to it", number=True, rare=True), lambda row: _shown(row.b_to_high, "+z.4f")),
    ]  # fmt: skip


def _count(row: ComparedRow) -> str:
    return f"{row.scenarios}" + ("" if row.clusters is None else f" in {counted(row.clusters, 'cluster')}")


def _metrics(level: float) -> list[Shown]:
    """Make the columns of what scorers measured."""

    def winner(pair: _Measured) -> str:
        p_value = pair.metric.p_value
        return _winner(pair.metric.winner, significant=p_value is not None and p_value < 1 - level)

    return [
        (Column("A", number=True), lambda pair: f"{pair.metric.a:.4g}"),
        (Column("B", number=True), lambda pair: f"{pair.metric.b:.4g}"),
        (Column("delta (B-A)", number=True), lambda pair: f"{pair.metric.delta:+z.4g}"),
        (Column("unit"), lambda pair: pair.metric.unit or "-"),
        (Column("better"), lambda pair: pair.metric.direction),
        (Column("winner"), winner),
        (Column("n", number=True), lambda pair: str(pair.metric.scenarios)),
        (Column("p", number=True), lambda pair: _shown(pair.metric.p_value, ".3f")),
    ]


def _tail(comparison: Comparison) -> Iterator[str]:
    """Yield the scenarios that changed, and those left out."""
    if any(row.winner is not None and not row.significant for row in comparison.rows):
        yield f"(A), (B): ahead, but not significantly (p >= {1 - comparison.level:.2g})"
    for title, changes in (
        ("newly failing on B", comparison.newly_failing),
        ("newly passing on B", comparison.newly_passing),
        ("suspects: worse on B, worth a closer look", comparison.suspects),
    ):
        yield from ([""] if changes else [])
        yield from (line for line, _ in changed_lines(title, changes))
    yield from _left_out(comparison)


def _left_out(comparison: Comparison) -> Iterator[str]:
    """Yield the scenarios that were not compared, and notes."""
    for title, refs in (
        ("on B only", comparison.added),
        ("on A only", comparison.removed),
        ("left out: not the same task on both sides", comparison.changed),
        ("left out: no score on one side", comparison.unscored),
    ):
        names = (f"{one_line(one.benchmark, 100)} {one_line(one.scenario, 100)}" for one in refs)
        if refs:
            yield f"{len(refs)} {title}: {some(names, _SHOWN)}"
    for note in comparison.notes:
        yield f"note: {one_line(note, 500)}"


def _agents(row: ComparedRow) -> str:
    return row.b_agent if row.a_agent == row.b_agent else f"{row.a_agent} | {row.b_agent}"


def _high_score(row: ComparedRow) -> str:
    return _shown(None if row.high_score is None else row.high_score.score, ".4f")


def _interval(row: ComparedRow) -> str:
    return "-" if row.low is None or row.high is None else f"{row.low:+z.4f} .. {row.high:+z.4f}"


def _winner(side: str | None, *, significant: bool) -> str:
    if side is None:
        return "-"
    return side.upper() if significant else f"({side.upper()})"
