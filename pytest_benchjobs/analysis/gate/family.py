"""Adjustment of the p-values of a gate: many rules on unchanged code must not find a regression by chance."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from ...model.gate import Rule, RuleReport
from ..statistics.multiple import holm


@dataclasses.dataclass(frozen=True, slots=True)
class Tested:
    """Measurement of a rule in one benchmark and agent; its verdict needs the p-values of all."""

    rule: Rule
    p_value: float
    reports: Callable[[float, int], list[RuleReport]]
    """Function that judges by the adjusted p, for a number of comparisons."""
    wordless: Callable[[float, int], list[RuleReport]] | None = None
    """The same for verdicts alone, if there is a faster way."""


Found = RuleReport | Tested
"""A report, or a measurement that gets its verdict when all p-values are known."""


def judged(found: Iterable[Found], *, wordless: bool = False) -> list[RuleReport]:
    """Judge everything, in the same order, with p-values adjusted by Holm over all rules of the gate.

    A rule that stands alone is adjusted for its own comparisons. `wordless` reports may have only verdicts.
    """
    listed = list(found)
    families: dict[Rule | None, list[Tested]] = {}
    for one in listed:
        if isinstance(one, Tested):
            families.setdefault(one.rule if one.rule.alone else None, []).append(one)
    known: dict[int, list[RuleReport]] = {}
    for family in families.values():
        adjusted = holm([one.p_value for one in family])
        for one, p in zip(family, adjusted, strict=True):
            reports = one.wordless if wordless and one.wordless is not None else one.reports
            known[id(one)] = reports(p, len(family))
    return [report for one in listed for report in (known[id(one)] if isinstance(one, Tested) else [one])]


def comparisons(rule: Rule, counts: Sequence[tuple[Rule, int]]) -> int:
    """Return the number of comparisons that share the alpha of a rule; `counts` has those of each rule."""
    return sum(count for one, count in counts if (one == rule if rule.alone else not one.alone))
