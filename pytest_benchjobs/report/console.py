"""Results as plain text: one line each, the text of a failure, a table."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..analysis.summary import Summary
from ..model.result import Outcome, ScorerResult, TrialResult
from ..store.text import clean, one_line
from .excerpts import SCORERS, Excerpt, imperfect, last_lines, of_scorers, scorer_text
from .table import Column, Shown, aligned, tabulate
from .units import cost, duration, figure, mean_text, number, percent, tokens

_DETAIL_LIMIT = 4000
_DETAIL_LINES = 30
_MESSAGE_LIMIT = 1000
_COUNTS = ("passed", "partial", "failed", "errors", "skipped", "cancelled", "reused", "total")
_RARE = ("skipped", "cancelled", "reused")
AGENT_COLUMNS: Sequence[Shown] = (
    (Column("agent", least=12, foreign=True), lambda row: row.label),
    *(
        (Column(title, number=True, rare=title in _RARE), lambda row, title=title: str(getattr(row, title)))
        for title in _COUNTS
    ),
    (Column("pass rate", number=True), lambda row: percent(row.pass_rate)),
    (Column("mean", number=True), lambda row: mean_text(row.mean_scored)),
    (Column("tokens", number=True, rare=True), lambda row: tokens(row.input_tokens, row.output_tokens)),
    (Column("cost", number=True, rare=True), lambda row: cost(row.cost_usd, more=bool(row.unpriced))),
    (Column("time (sum)", number=True), lambda row: duration(row.seconds)),
)
"""Columns of `Summary`: `mean` is over the trials that have a score, what follows are sums over trials."""
METRIC_COLUMNS: Sequence[Shown] = (
    (Column("metric", least=10, foreign=True), lambda one: one.name),
    (Column("mean", number=True), lambda one: figure(one.mean)),
    (Column("unit", foreign=True, most=60), lambda one: one.unit or ""),
    (Column("better"), lambda one: one.direction),
    (Column("trials", number=True), lambda one: str(one.trials)),
)
"""Columns of `MetricFigures`."""
_REPORT_ONLY = ("partial", "pass rate")
"""Columns for which a terminal has no room."""


def describe(result: TrialResult) -> str:
    """Describe a result in one line of ASCII: `score 0.75 >= 0.5 (passed) codex:gpt-5.5 a2 4m12s`.

    An error has no score: `error (engine_lost) oracle a1 3s`. Where the score is not the cause, the cause is told:
    `failed in spite of its score 1.0 (agent_crashed) oracle a1 3s`.
    """
    took = f"reused from {result.reused.job}" if result.reused else duration(result.seconds)
    return f"{verdict_text(result)} {_ascii(result.agent.label, 80)} a{result.attempt} {took}"


def verdict_text(result: TrialResult) -> str:
    """Return the part of `describe` that all attempts with the same end have in common."""
    why = result.outcome.value
    if result.failure is not None:
        why = _ascii(result.failure.class_, 60)
    if result.score is None or result.outcome not in (Outcome.PASSED, Outcome.FAILED):
        verdict = result.outcome.value
    else:
        sign = ">=" if result.score >= result.threshold else "<"
        score, threshold = number(result.score), number(result.threshold)
        if score == threshold and sign == "<":
            score = repr(result.score)
        verdict = f"score {score} {sign} {threshold}"
        # The verdict of several attempts may differ from that of their mean; an agent that crashed has failed anyhow.
        if (sign == ">=") is not (result.outcome is Outcome.PASSED):
            verdict = f"score {score}" if sign == "<" else f"failed in spite of its score {score}"
    return f"{verdict} ({why})"


def headline(result: TrialResult, root: Path | None = None) -> str:
    """Return `describe`, cost, and path of the logs in less than 500 characters, where pytest and CI cut."""
    parts = [describe(result)]
    if result.usage.cost_usd is not None and result.reused is None:
        parts.append(cost(result.usage.cost_usd))
    if result.path:
        place = Path(result.path) if root is None else root / result.path
        parts.append(f"logs: {one_line(str(place), 200)}")
    return ", ".join(parts)


def failure_text(
    result: TrialResult, root: Path | None = None, shown: Iterable[Excerpt] | None = None
) -> str:
    """Explain why a trial did not pass: verdict, paths of logs, scorers, the last lines of output.

    `root` is the job's directory, as it is to be shown. `shown` are the last lines of the logs, by default those stored
    in the result. The text has no control characters, and at most some 20,000 characters.
    """
    parts = [headline(result, root)]
    if result.failure is not None:
        parts.append(clean(result.failure.message, _MESSAGE_LIMIT))
    if result.scorers:
        parts.append("\n".join(_scorer_lines(result.scorers)))
    detail = result.failure.detail if result.failure else None
    if detail and (lines := last_lines(detail, _DETAIL_LINES, _DETAIL_LIMIT)):
        parts.append(Excerpt("last output", lines).text)
    if shown is None:
        shown = itertools.islice(of_scorers(imperfect(result)), SCORERS)
    parts += [one.text for one in shown]
    notes = [f"note: {one_line(note, 200)}" for note in result.notes[:10]]
    if notes:
        parts.append("\n".join(notes))
    return "\n\n".join(parts)


def render_table(rows: Sequence[Summary], width: int = 80) -> list[str]:
    """Render a table of agents, at most `width` columns wide (but at least about 60). Labels are cut in the middle."""
    shown = [one for one in AGENT_COLUMNS if one[0].title not in _REPORT_ONLY]
    return list(tabulate(rows, width, shown))


def _scorer_lines(scorers: Iterable[ScorerResult]) -> tuple[str, ...]:
    cells = tuple(
        (
            one_line(scorer.name, 40),
            number(scorer.score),
            f"weight {scorer.weight:g}",
            scorer_text(scorer),
        )
        for scorer in scorers
    )
    return _scorer_table(cells)


@functools.lru_cache(maxsize=256)
def _scorer_table(cells: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """Lines of a table of scorers. Cached: failures of one benchmark have few different ones."""
    return tuple(f"  {line}" for line in aligned(cells, right=(1,), room=_DETAIL_LIMIT))


def _ascii(text: str, limit: int) -> str:
    return one_line(text, limit).encode("ascii", "replace").decode()
