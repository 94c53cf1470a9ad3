"""A comparison for people, in plain lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ..model.comparison import ComparedRow, ComparedSide, Comparison
from ..model.gate import Change, ScenarioRef
from ..store.text import one_line
from .console import duration

_SHOWN = 20


class Table(NamedTuple):
    """Titles and rows of texts. The first column is text, the others are numbers unless named in `texts`."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: frozenset[str] = frozenset()


def head_lines(comparison: Comparison) -> Iterator[str]:
    """Headline of a comparison: its two sides."""
    yield f"Comparison ID: {comparison.id}"
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        yield f"{letter}: {one_line(side.spec, 300)}{_jobs(side)}"
    benchmarks = dict.fromkeys(row.benchmark for row in comparison.rows)
    yield "Benchmarks: " + (", ".join(one_line(name, 100) for name in benchmarks) or "-")


def score_table(comparison: Comparison) -> Table:
    """Scores: the mean of each side, what is between them, and what chance has to say of it."""
    rows = comparison.rows
    agents = len({(row.a_agent, row.b_agent) for row in rows}) > 1
    high = any(row.high_score is not None for row in rows)
    level = f"{100 * comparison.level:g} %"
    titles = (
        "benchmark",
        *(("agents",) if agents else ()),
        "A",
        "B",
        "delta (B-A)",
        "winner",
        "n",
        f"{level} interval",
        "p",
        "p worse",
        "detectable",
        *(("high score", "A to it", "B to it") if high else ()),
    )
    return Table(
        titles,
        tuple(
            (
                row.benchmark,
                *((_agents(row),) if agents else ()),
                _number(row.a),
                _number(row.b),
                _signed(row.delta),
                _winner(row),
                str(row.scenarios),
                "-" if row.low is None or row.high is None else f"{row.low:+.4f} .. {row.high:+.4f}",
                *("-" if p is None else f"{p:.3f}" for p in (row.p_value, row.p_worse)),
                _number(row.detectable),
                *(_to_high(row) if high else ()),
            )
            for row in rows
        ),
        frozenset({"benchmark", "agents", "winner"}),
    )


def spent_table(comparison: Comparison) -> Table:
    """Table of the time, cost and tokens of an attempt on each side."""
    return Table(
        (
            "per attempt",
            "cost A",
            "cost B",
            "tokens A",
            "tokens B",
            "time A",
            "time B",
            "errors A",
            "errors B",
        ),
        tuple(
            (
                row.benchmark,
                *(_or_dash(value, lambda usd: f"${usd:.4f}") for value in (row.a_cost, row.b_cost)),
                *(_or_dash(value, lambda tokens: f"{tokens:.0f}") for value in (row.a_tokens, row.b_tokens)),
                *(_or_dash(value, duration) for value in (row.a_seconds, row.b_seconds)),
                str(row.a_errors),
                str(row.b_errors),
            )
            for row in comparison.rows
        ),
        frozenset({"per attempt"}),
    )


def tail_lines(comparison: Comparison) -> Iterator[str]:
    """The scenarios that differ, and what was left out."""
    if any(row.winner is not None and not row.significant for row in comparison.rows):
        yield f"(A), (B): ahead, but chance explains it (p >= {1 - comparison.level:.2g})"
    yield from _changes("newly failing on B", comparison.newly_failing)
    yield from _changes("newly passing on B", comparison.newly_passing)
    yield from _changes("suspects: worse on B, worth a closer look", comparison.suspects)
    yield from _refs("on B only", comparison.added)
    yield from _refs("on A only", comparison.removed)
    yield from _refs("not the same task on both sides, so left out", comparison.changed)
    yield from _refs("without a score on a side, so left out", comparison.unscored)
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


def _winner(row: ComparedRow) -> str:
    if row.winner is None:
        return "-"
    letter = row.winner.upper()
    return letter if row.significant else f"({letter})"


def _to_high(row: ComparedRow) -> tuple[str, str, str]:
    high = row.high_score
    if high is None:
        return "-", "-", "-"
    if high.unit == "%":
        shown = [f"{100 * high.score:.1f} %"]
        shown += ["-" if one is None else f"{100 * one:+.1f} pp" for one in (row.a_to_high, row.b_to_high)]
    else:
        shown = [_number(high.score), _signed(row.a_to_high), _signed(row.b_to_high)]
    return shown[0], shown[1], shown[2]


def _or_dash(value: float | None, shown: Callable[[float], str]) -> str:
    return "-" if value is None else shown(value)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.4f}"
