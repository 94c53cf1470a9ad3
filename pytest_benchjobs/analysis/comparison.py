"""Two sides compared, scenario by scenario: neither is better by decree, so tests are two-sided."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence

from ..model.comparison import ComparedRow, ComparedSide, Comparison, HighScore
from ..model.gate import Change, ScenarioRef
from .gating.changes import change_of
from .gating.measure import clusters_of
from .gating.single import chances
from .pairing import Pair, Pairing, pair
from .sides import Cell, Side, undisturbed
from .statistics import (
    benjamini_hochberg,
    detectable_drop,
    mean_interval,
    sign_flip,
)

LEVEL = 0.95
_FALSE_DISCOVERIES = 0.1
"""Share of the suspects that may be none."""


@undisturbed()
def compare(
    a: Side,
    b: Side,
    *,
    comparison_id: str,
    at: datetime.datetime,
    level: float = LEVEL,
    high_scores: Mapping[str, HighScore] | None = None,
    notes: Iterable[str] = (),
) -> Comparison:
    """Compare two sides. A scenario counts where both have a score of it, and it is the same task.

    Raises:
        ValueError: the level is not between 0.5 and 1.

    """
    pairing = pair(a, b)
    groups: dict[tuple[str, str, str], list[Pair]] = {}
    for one in pairing.pairs:
        groups.setdefault((one.now.benchmark, one.before.agent, one.now.agent), []).append(one)
    changes = [change_of(one, p, None) for one, p in zip(pairing.pairs, chances(pairing.pairs), strict=True)]
    return Comparison(
        id=comparison_id,
        at=at,
        a=_head(a),
        b=_head(b),
        level=level,
        rows=tuple(_row(key, group, level, high_scores or {}) for key, group in groups.items()),
        newly_failing=_sorted(one for one in changes if _passes(one)[0] > 0.5 > _passes(one)[1]),
        newly_passing=_sorted(one for one in changes if _passes(one)[0] < 0.5 < _passes(one)[1]),
        suspects=_suspects(changes),
        added=pairing.added,
        removed=pairing.removed,
        changed=_refs(pairing.changed),
        unscored=_refs(pairing.unscored),
        notes=(*notes, *map(_worded, pairing.notes), *_emptiness(a, b, pairing)),
    )


def _row(
    key: tuple[str, str, str], pairs: Sequence[Pair], level: float, high_scores: Mapping[str, HighScore]
) -> ComparedRow:
    benchmark, a_agent, b_agent = key
    before, now = [one.before for one in pairs], [one.now for one in pairs]
    a, b = _mean(one.mean for one in before), _mean(one.mean for one in now)
    differences = [(one.now.mean or 0.0) - (one.before.mean or 0.0) for one in pairs]
    delta = None if a is None or b is None else b - a
    interval = mean_interval(differences, level=level, clusters=clusters_of(now))
    # Of the two directions the one it went has the smaller p.
    fell = delta is not None and delta < 0
    one_sided = sign_flip(differences if fell else [-one for one in differences]).p_value
    p_value = min(1.0, 2 * one_sided) if pairs else None
    high = high_scores.get(benchmark)
    return ComparedRow(
        benchmark=benchmark,
        a_agent=a_agent,
        b_agent=b_agent,
        scenarios=len(pairs),
        a=a,
        b=b,
        delta=delta,
        # No difference of scores is beyond one.
        low=None if interval is None else max(-1.0, interval.low),
        high=None if interval is None else min(1.0, interval.high),
        p_value=p_value,
        detectable=detectable_drop(
            [one.scores for one in before], [one.scores for one in now], alpha=(1 - level) / 2
        ),
        winner=None if not delta or math.isclose(delta, 0, abs_tol=1e-12) else "b" if delta > 0 else "a",
        significant=p_value is not None and p_value < 1 - level,
        a_pass_rate=_mean(_rate(one) for one in before),
        b_pass_rate=_mean(_rate(one) for one in now),
        a_cost=_mean(value for one in before for value in one.costs),
        b_cost=_mean(value for one in now for value in one.costs),
        a_tokens=_mean(value for one in before for value in one.tokens),
        b_tokens=_mean(value for one in now for value in one.tokens),
        a_seconds=_mean(value for one in before for value in one.seconds),
        b_seconds=_mean(value for one in now for value in one.seconds),
        a_errors=sum(one.errors for one in before),
        b_errors=sum(one.errors for one in now),
        high_score=high,
        a_to_high=None if high is None or a is None else a - high.score,
        b_to_high=None if high is None or b is None else b - high.score,
    )


def _suspects(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Those that are not newly failing, which are listed already."""
    # All scenarios were looked at, so all of them are corrected for.
    adjusted = benjamini_hochberg([one.p_value for one in changes if one.p_value is not None])
    return _sorted(
        one.model_copy(update={"adjusted": p})
        for one, p in zip(changes, adjusted, strict=True)
        if p <= _FALSE_DISCOVERIES and one.change < 0 and not _passes(one)[0] > 0.5 > _passes(one)[1]
    )


def _passes(one: Change) -> tuple[float, float]:
    """Share of attempts that passed, on each side."""
    return one.before_passed / one.before_attempts, one.now_passed / one.now_attempts


def _sorted(changes: Iterable[Change]) -> tuple[Change, ...]:
    """The greatest change first."""
    return tuple(sorted(changes, key=lambda one: (-abs(one.change), one.benchmark, one.scenario)))


def _worded(text: str) -> str:
    """What pairing says of a baseline and a job, said of two sides."""
    return text.replace("the baseline", "side A").replace("this job", "side B")


def _refs(refs: Iterable[ScenarioRef]) -> tuple[ScenarioRef, ...]:
    return tuple(one.model_copy(update={"why": _worded(one.why)}) if one.why else one for one in refs)


def _head(side: Side) -> ComparedSide:
    return ComparedSide(spec=side.name, jobs=side.jobs, agents=side.agents)


def _rate(cell: Cell) -> float | None:
    return cell.passed / len(cell.scores) if cell.scores else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _emptiness(a: Side, b: Side, pairing: Pairing) -> Iterable[str]:
    for letter, side in (("A", a), ("B", b)):
        if not any(cell.scores for cell in side.cells.values()):
            yield f"side {letter} has no scores"
    if not pairing.pairs and a.cells and b.cells:
        yield "the sides have no scenario in common"
