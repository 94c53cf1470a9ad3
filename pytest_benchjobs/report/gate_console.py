"""Gate reports as lines of plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..model.gate import Change, GateReport, GateVerdict, RuleReport
from ..model.known_failure import KnownMode
from ..store.text import one_line
from .gate_markdown import (
    fresh,
    gravest_first,
    shown_bounds,
    shown_change,
    shown_clusters,
    shown_value,
    worst_first,
)

COLOURS = {
    GateVerdict.OK: "green",
    GateVerdict.NO_BASELINE: "yellow",
    GateVerdict.REGRESSED: "red",
    GateVerdict.INCONCLUSIVE: "yellow",
    GateVerdict.INVALID: "red",
}
_SHOWN = 20

Line = tuple[str, str | None]
"""A line and its colour, if any."""


def gate_lines(report: GateReport) -> Iterator[Line]:
    """Yield a gate report: the verdict, then each rule and its evidence. Foreign text is made harmless.

    Lists are cut after 20 lines, with the number of lines left out.
    """
    yield one_line(report.why, 1000), COLOURS[report.verdict]
    yield from _against(report)
    rules = gravest_first(report.rules)
    for rule in rules[:_SHOWN]:
        yield from _rule(rule)
    yield from _more(len(rules))
    for title, changes, colour in (
        ("broke", report.broke, "red"),
        ("suspects: worse than before, not proven", report.suspects, "yellow"),
        ("fixed", report.fixed, "green"),
    ):
        yield from _changes(title, changes, colour)
    yield from _left_out(report)
    if (clusters := shown_clusters(report)) is not None:
        yield clusters, None
    yield from _figures(report)
    for reason in report.publish or ():
        yield f"not to be published ({reason.code}): {one_line(reason.why, 500)}", "yellow"
    if report.publish == ():
        yield "the results can be published", None
    for note in report.notes[:_SHOWN]:
        yield f"note: {one_line(note, 500)}", None
    yield from _more(len(report.notes))


def _against(report: GateReport) -> Iterator[Line]:
    if report.baseline is None:
        return
    jobs = _listed((one_line(job, 100) for job in report.baseline_jobs), 3)
    of = f" ({jobs})" if jobs else ""
    yield f"baseline {one_line(report.baseline, 200)}{of}, policy {report.policy.value}", None


def _rule(found: RuleReport) -> Iterator[Line]:
    metric = found.rule.metric
    name = one_line(found.rule.text, 100)
    of = " ".join(one_line(text, 80) for text in (found.benchmark, found.agent) if text)
    figures: list[str] = []
    if found.before is not None:
        figures.append(f"{shown_value(metric, found.before)} -> {shown_value(metric, found.now)}")
    elif found.now is not None:
        figures.append(shown_value(metric, found.now))
    if found.change is not None:
        change = shown_change(metric, found.change)
        if bounds := shown_bounds(found):
            change += f" ({100 * found.rule.level:g} %: {bounds})"
        figures.append(change)
    figures.append(
        f"n={found.scenarios}" + ("" if found.clusters is None else f" in {found.clusters} clusters")
    )
    if found.p_value is not None:
        figures.append("p<0.001" if found.p_value < 0.001 else f"p={found.p_value:.3f}")
    if found.detectable is not None:
        figures.append(f"detectable drop {shown_change(metric, found.detectable).removeprefix('+')}")
    line = f"{found.verdict.value:12} {name}{f' of {of}' if of else ''}: {', '.join(figures)}"
    yield line, None if found.verdict is GateVerdict.OK else COLOURS[found.verdict]
    said = found.change is not None and found.verdict in (GateVerdict.OK, GateVerdict.REGRESSED)
    if found.why and not said:
        yield f"             {one_line(found.why, 500)}", None
    if found.advice:
        yield f"             {one_line(found.advice, 500)}", None


def _changes(title: str, changes: Sequence[Change], colour: str) -> Iterator[Line]:
    if not changes:
        return
    yield f"{title}: {len(changes)}", colour
    several = len({change.agent for change in changes}) > 1
    for change in worst_first(changes)[:_SHOWN]:
        p = change.p_value if change.adjusted is None else change.adjusted
        chance = "" if p is None else f", p={p:.3f}"
        passed = (
            f"passed {change.before_passed} of {change.before_attempts} before, "
            f"{change.now_passed} of {change.now_attempts} now"
        )
        known = f", known: {change.known.mode.value}" if change.known is not None else ""
        told = fresh(change)
        afresh = f"; fresh attempts: passed {told}" if told else ""
        agent = f" [{one_line(change.agent, 80)}]" if several else ""
        critical = ", critical" if change.critical else ""
        yield (
            (
                f"  {_name(change.benchmark, change.scenario)}{agent}: {change.before:.3g} -> {change.now:.3g}, "
                f"{passed}{chance}{critical}{known}{afresh}"
            ),
            None,
        )
    yield from _more(len(changes))


def _left_out(report: GateReport) -> Iterator[Line]:
    for what, refs in (
        ("added, not compared", report.added),
        ("removed", report.removed),
        ("changed, not compared", report.changed),
        ("without a score on one side, not compared", report.unscored),
    ):
        if refs:
            names = dict.fromkeys(_name(ref.benchmark, ref.scenario) for ref in refs)
            yield f"{len(names)} {what}: {_listed(names)}", None
    if report.known:
        aside = sum(
            change.known is not None and change.known.mode is KnownMode.QUARANTINE for change in report.known
        )
        names = dict.fromkeys(_name(change.benchmark, change.scenario) for change in report.known)
        out = f", {aside} of them in quarantine and in no rule" if aside else ""
        yield f"{len(report.known)} known to fail{out}: {_listed(names)}", None


def _figures(report: GateReport) -> Iterator[Line]:
    if report.errors:
        share = 100 * report.errors / report.attempts if report.attempts else 100.0
        share_of = f"{report.errors} of {report.attempts} attempts ({share:.1f} %)"
        yield f"{share_of} ended in an infrastructure error, which has no score", None
    for name, metric, before, now in (
        ("cost", "cost", report.before_cost, report.now_cost),
        ("time", "duration", report.before_seconds, report.now_seconds),
    ):
        if before is not None and now is not None:
            yield f"{name} per attempt: {shown_value(metric, before)} -> {shown_value(metric, now)}", None


def _name(benchmark: str, scenario: str) -> str:
    return f"{one_line(benchmark, 100)}/{one_line(scenario, 200)}"


def _listed(names: Iterable[str], most: int = 5) -> str:
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def _more(total: int) -> Iterator[Line]:
    if total > _SHOWN:
        yield f"  ... and {total - _SHOWN} more", None
