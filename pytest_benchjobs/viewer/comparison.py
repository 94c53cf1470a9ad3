"""A comparison of two jobs, baselines or agents, with each pair of scenarios."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from ..analysis.comparison import compare as compare_sides
from ..analysis.pairing import Pair, pair
from ..analysis.sides import Side
from ..analysis.stored_sides import exactly, narrowed, stored_side, two_agents
from ..model.comparison import HighScore
from ..model.errors import InputError
from ..model.numbers import difference
from ..report.documents.viewer import PairColumns, ViewerComparison
from ..store.comparisons import new_comparison_id
from ..store.reader import HistoryReader
from ..store.results import find_job
from .query import Query, Refused
from .results import Results

COMPARE = ("a", "b", "a_agent", "b_agent", "benchmark")
MOST_PAIRS = 20_000
KINDS = ("broke", "fixed", "worse", "better", "same")
"""Kinds of pairs, in the order in which they are looked at."""


def compare(results: Results, history: HistoryReader, query: Query) -> ViewerComparison:
    """Compare two sides."""
    a, b = ((query.needed(letter), query.text(f"{letter}_agent")) for letter in "ab")
    return comparison_document(results, history, a, b, query.texts("benchmark"))


def comparison_document(
    results: Results,
    history: HistoryReader,
    a: tuple[str, str | None],
    b: tuple[str, str | None],
    benchmarks: tuple[str, ...] = (),
) -> ViewerComparison:
    """Compare two sides, each given by a job or baseline and the label of an agent, if not all of them."""
    try:
        (whole_a, notes_a), (whole_b, notes_b) = (_side(results, history, spec) for spec, _ in (a, b))
        if a == b and a[1] is None:
            one, other = two_agents(history, find_job(history, a[0]))
            a, b = (a[0], one), (b[0], other)
        side_a, side_b = (
            narrowed(whole, spec, None if agent is None else exactly(agent), benchmarks)
            for whole, (spec, agent) in ((whole_a, a), (whole_b, b))
        )
    except InputError as error:
        raise Refused(404, error.message) from None
    return _document(whole_a, whole_b, side_a, side_b, (*notes_a, *notes_b), results.high_scores)


def _side(results: Results, history: HistoryReader, spec: str) -> tuple[Side, tuple[str, ...]]:
    """Return the results of a job, or of a baseline with a name. No file is read for a text from outside."""
    if history.baseline(spec) is None:
        find_job(history, spec)
    return stored_side(history, results.directory, spec)


def _document(
    whole_a: Side,
    whole_b: Side,
    a: Side,
    b: Side,
    notes: tuple[str, ...],
    high_scores: Mapping[str, HighScore],
) -> ViewerComparison:
    at = datetime.datetime.now(datetime.UTC)
    comparison = compare_sides(
        a, b, comparison_id=new_comparison_id(at), at=at, high_scores=high_scores, notes=notes
    )
    broke = {(one.benchmark, one.scenario, one.agent) for one in comparison.newly_failing}
    fixed = {(one.benchmark, one.scenario, one.agent) for one in comparison.newly_passing}
    pairs = [one for one in pair(a, b).pairs if not one.quarantined]
    columns: dict[str, list[object]] = {name: [] for name in PairColumns.model_fields}
    for one in pairs[:MOST_PAIRS]:
        kind = "broke" if one.now.key in broke else "fixed" if one.now.key in fixed else _direction(one)
        values = (
            one.now.benchmark,
            one.now.scenario,
            one.before.agent,
            one.now.agent,
            one.before.mean,
            one.now.mean,
            one.before.passed,
            one.now.passed,
            len(one.before.scores),
            len(one.now.scores),
            kind,
        )
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return ViewerComparison(
        comparison=comparison,
        pairs=PairColumns.model_validate(columns),
        left_out=max(0, len(pairs) - MOST_PAIRS),
        a_jobs=a.jobs,
        b_jobs=b.jobs,
        agents_a=whole_a.agents,
        agents_b=whole_b.agents,
    )


def _direction(one: Pair) -> str:
    change = difference(one.before.mean or 0.0, one.now.mean or 0.0)
    return "worse" if change < 0 else "better" if change > 0 else "same"
