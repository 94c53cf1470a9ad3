"""Formats of numbers, names and places in reports of gates."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ...model.gate import Rule
from ...store.text import one_line

_LONGEST = 120


@dataclasses.dataclass(frozen=True, slots=True)
class Scale:
    """Unit in which differences of a metric are shown."""

    factor: float = 100.0
    unit: str = "pp"

    def signed(self, difference: float) -> str:
        """`-7.1 pp`."""
        return f"{self._number(difference, '+' if difference else '')} {self.unit}".rstrip()

    def amount(self, difference: float) -> str:
        """`7.1 pp`."""
        return f"{self._number(difference)} {self.unit}".rstrip()

    def between(self, low: float, high: float) -> str:
        """`-11.2..-3`."""
        return f"{self._number(low)}..{self._number(high)}"

    def _number(self, difference: float, sign: str = "") -> str:
        shown = difference * self.factor
        # Enough digits for small numbers: a drop of 0.02 pp is not 0.
        digits = 1 if abs(shown) >= 0.05 or not shown else 3
        text = f"{shown:{sign}z,.{digits}f}"
        return text.rstrip("0").rstrip(".") if digits == 3 or text.endswith(".0") else text


def scale_of(metric: str, before: float) -> Scale:
    """Return percentage points for scores; for costs percent, or their own unit where nothing was spent before."""
    if metric not in AMOUNTS:
        return Scale()
    return Scale(100 / before, "%") if before > 0 else Scale(1.0, UNITS.get(metric, ""))


UNITS = {"cost": "USD", "tokens": "tokens", "duration": "s"}
"""Metrics of what an attempt spends, and their units."""
AMOUNTS = frozenset((*UNITS, "metric"))
"""Metrics that are no scores: their values have no bounds."""


def value(metric: str, number: float, *, fine: bool = False) -> str:
    """Format a value of the metric; `fine` where two decimals of a score would hide a difference."""
    if metric == "cost":
        return f"${number:,.2f}" if number >= 1 else f"${number:.3g}"
    if metric == "tokens":
        return f"{number:,.0f}"
    if metric == "duration":
        return f"{number:,.1f} s"
    if metric == "metric":
        return f"{number:.4g}"
    return f"{number:.{4 if fine else 2}f}"


def percent(share: float) -> str:
    """`33.3 %`."""
    return f"{share * 100:.1f}".removesuffix(".0") + " %"


def p(number: float) -> str:
    """`p = 0.004`."""
    if number < 0.001:
        return "p < 0.001"
    return f"p = {number:.3f}".rstrip("0").rstrip(".") if number < 1 else "p = 1"


def count(number: int, noun: str) -> str:
    """`1 scenario`, `2 scenarios`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def metric_of(rule: Rule) -> str:
    """`pass@3`, with its tag."""
    name = rule.name or rule.metric.replace("_", " ")
    if rule.k is not None:
        name = rule.metric.replace("K", str(rule.k))
    return f"{name} of tag {one_line(rule.tag, _LONGEST)}" if rule.tag is not None else name


def names(listed: Iterable[str], most: int = 5) -> str:
    """Format some of the names, and the number of the others."""
    everything = list(listed)
    shown = ", ".join(one_line(name, _LONGEST) for name in everything[:most])
    return f"{shown} and {len(everything) - most} more" if len(everything) > most else shown


def place(benchmark: str | None, agent: str | None) -> str:
    """`text-tools, codex:gpt-5: `, or an empty string."""
    named = [one_line(name, _LONGEST) for name in (benchmark, agent) if name is not None]
    return f"{', '.join(named)}: " if named else ""
