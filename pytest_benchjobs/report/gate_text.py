"""Gate reports as Markdown and as lines for a terminal: the verdict first, then its evidence."""

from __future__ import annotations

import itertools
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..model.gate import Change, GatePolicy, GateReport, GateVerdict, RuleReport, ScenarioRef
from ..model.known_failure import KnownMode
from ..store.text import one_line
from .markdown_parts import code, folded, listed, table
from .table import Column, Shown
from .units import cost, counted, duration, some

_ALERTS = {
    GateVerdict.INVALID: ("WARNING", "red"),
    GateVerdict.REGRESSED: ("CAUTION", "red"),
    GateVerdict.INCONCLUSIVE: ("WARNING", "yellow"),
    GateVerdict.NO_BASELINE: ("NOTE", "yellow"),
    GateVerdict.OK: ("TIP", "green"),
}
"""Verdict -> the kind of alert that GitHub and GitLab draw, and the colour; the worst verdict first."""
_GRAVITY = tuple(_ALERTS)
_ROWS = 50
_NOTES = 20
_LINES = 20
_WIDEST, _LEAST = 160, 24
"""Characters of a line of a terminal at most, and of the name of an agent that is cut so that the line fits."""
_NONE = "-"
_COMMAND = re.compile("`[^`]*`")

Line = tuple[str, str | None]
"""A line and its colour, if any."""


def gate_markdown(report: GateReport) -> Iterator[str]:
    """Yield a gate report in the Markdown of GitHub and GitLab, the most important lines first.

    Lists are cut, with the number of lines left out. Foreign text is always in a code span.
    """
    calm = report.verdict is GateVerdict.INCONCLUSIVE and report.policy is not GatePolicy.STRICT
    compared = any(rule.before is not None or rule.rule.floor for rule in report.rules)
    vacuous = report.verdict is GateVerdict.OK and not compared
    yield f"> [!{'NOTE' if calm or vacuous else _ALERTS[report.verdict][0]}]"
    yield f"> **Benchmark gate: {report.verdict.value}.** {code(why(report), 1000)}"
    yield ""
    if report.baseline is not None:
        yield from (_against(report, report.baseline, code), "")
    yield from _items([code(note, 500) for note in report.notes], "notes")
    rules = gravest_first(report.rules)
    yield from table(rules, _RULE_COLUMNS, _ROWS)
    yield from _items([*_advice(rules, report)])
    for title, changes, _ in _changes(report):
        if changes:
            yield from (f"### {title[0].upper()}{title[1:]}: {len(changes)}", "")
            yield from table(worst_first(changes), _CHANGE_COLUMNS, _ROWS)
    whole = [f"all {report.attempts} attempts have a score"] if report.attempts and not report.errors else []
    yield from _items([*_figures(report, code), *whole])
    if report.known:
        title = f"{counted(len(report.known), 'known failure')} among the pairs{_quarantined(report)}"
        yield from folded(title, table(report.known, _KNOWN_COLUMNS, _ROWS))
    groups = _not_compared(report)
    if groups:
        counts = ", ".join(f"{len(refs)} {what}" for what, refs in groups)
        yield from folded(f"Scenarios that are not compared: {counts}", _references(groups))


def gate_lines(report: GateReport) -> Iterator[Line]:
    """Yield a gate report: the verdict, then each rule and its evidence. Foreign text is made harmless.

    Lists are cut after 20 lines, with the number of lines left out.
    """
    yield one_line(report.why, 1000), _ALERTS[report.verdict][1]
    if report.baseline is not None:
        yield _against(report, report.baseline, one_line), None
    yield from _most(gravest_first(report.rules), lambda rule: _rule(rule, report))
    for title, changes, colour in _changes(report):
        yield from changed_lines(title, changes, colour)
    for what, refs in _not_compared(report):
        names = dict.fromkeys(_name(ref) for ref in refs)
        yield f"{len(names)} {what}, not compared: {some(names)}", None
    if report.known:
        names = dict.fromkeys(f"{_name(one)}{_reason(one)}" for one in report.known)
        yield f"{len(report.known)} known to fail{_quarantined(report)}: {some(names)}", None
    yield from ((line, None) for line in _figures(report, one_line))
    for reason in report.publish or ():
        yield f"not to be published ({reason.code}): {one_line(reason.why, 500)}", "yellow"
    if report.publish == ():
        yield "the results can be published", None
    yield from _most(report.notes, lambda note: [(f"note: {one_line(note, 500)}", None)])


def terminal_lines(report: GateReport) -> Iterator[Line]:
    """Yield `gate_lines` in at most 160 characters each; the rest goes on below, indented. Commands stay whole."""
    for text, colour in gate_lines(report):
        below = " " * (len(text) - len(text.lstrip()) + 2)
        glued = _COMMAND.sub(lambda command: command[0].replace(" ", "\0"), text)
        for part in textwrap.wrap(glued, _WIDEST, subsequent_indent=below, break_on_hyphens=False):
            yield part.replace("\0", " "), colour


def _changes(report: GateReport) -> tuple[tuple[str, Sequence[Change], str], ...]:
    return (
        ("broke", report.broke, "red"),
        ("suspects: worse than before, not proven", report.suspects, "yellow"),
        ("no longer pass in all attempts, as they did before", report.slipped, "yellow"),
        ("fixed", report.fixed, "green"),
    )


def why(report: GateReport) -> str:
    """Return the reason of the verdict, without the verdict at its beginning."""
    return report.why.removeprefix(f"{report.verdict.value}: ")


def gravest_first(rules: Sequence[RuleReport]) -> list[RuleReport]:
    """Sort rules by verdict, the worst first."""
    return sorted(rules, key=lambda rule: _GRAVITY.index(rule.verdict))


def worst_first(changes: Sequence[Change]) -> list[Change]:
    """Sort critical scenarios first; otherwise keep the order of the report."""
    return sorted(changes, key=lambda change: not change.critical)


def _fresh(change: Change) -> str:
    """Format the result of fresh attempts at a scenario: `1 of 5, confirmed`; empty where there were none."""
    if not change.fresh_attempts:
        return ""
    return f"{change.fresh_passed} of {change.fresh_attempts}, {'' if change.confirmed else 'not '}confirmed"


def shown_value(metric: str, value: float | None) -> str:
    """Format a value of a metric in its unit: `0.612`, `$0.41`, `12s`, `34,000`; `-` for none."""
    if value is None:
        return _NONE
    if metric == "cost":
        return cost(value)
    if metric == "duration":
        return f"-{duration(-value)}" if value < 0 else duration(value)
    if metric in ("tokens", "min_samples", "scenario", "critical"):
        return f"{value:,.0f}"
    if metric == "metric":
        return f"{value:.4g}"
    return f"{value:.3f}"


def shown_change(metric: str, value: float | None) -> str:
    """Format a difference of two values, with its sign: `-7.1 pp`, `+$0.04`, `+3.0s`."""
    if value is None:
        return _NONE
    if metric in ("cost", "duration", "tokens", "metric", "min_samples", "scenario", "critical"):
        shown = shown_value(metric, abs(value))
        return f"{'-' if value < 0 and shown != shown_value(metric, 0) else '+'}{shown}"
    return f"{100 * value:+z.1f} pp"


def _against(report: GateReport, baseline: str, quote: Callable[[str, int], str]) -> str:
    jobs = some((quote(job, 100) for job in report.baseline_jobs if job not in baseline), 3)
    return f"baseline {quote(baseline, 200)}{jobs and f' ({jobs})'}, policy {report.policy.value}"


def _figures(report: GateReport, quote: Callable[[str, int], str]) -> Iterator[str]:
    """Yield the clusters, the errors, and what an attempt cost on both sides."""
    if report.clusters:
        scenarios = sum(one.scenarios for one in report.clusters)
        names = some(f"{one_line(one.cluster, 80)} ({one.scenarios})" for one in report.clusters)
        yield f"treated as clusters, not as independent: {scenarios} scenarios, in {quote(names, 1000)}"
    if report.errors:
        share = 100 * report.errors / max(report.attempts, report.errors)
        attempts = f"{report.errors} of {report.attempts} attempts ({share:.1f} %)"
        yield f"{attempts} ended in an error without a score"
    for name, metric, before, now in (
        ("cost", "cost", report.before_cost, report.now_cost),
        ("time", "duration", report.before_seconds, report.now_seconds),
    ):
        if before is not None or now is not None:
            values = f"{shown_value(metric, before)} -> {shown_value(metric, now)}"
            ratio = now / before if before and now is not None else math.inf
            relative = f" ({100 * (ratio - 1):+z.1f} %)" if (before or 0) > 0 and math.isfinite(ratio) else ""
            yield f"{name} per attempt: {values}{relative}"


def _quarantined(report: GateReport) -> str:
    known = [change.known for change in report.known if change.known is not None]
    aside = sum(one.mode is KnownMode.QUARANTINE for one in known)
    return f", {aside} of them in quarantine and in no rule" if aside else ""


def _not_compared(report: GateReport) -> list[tuple[str, Sequence[ScenarioRef]]]:
    groups = (
        ("without a score on one side", report.unscored),
        ("changed", report.changed),
        ("removed", report.removed),
        ("added", report.added),
    )
    return [(what, refs) for what, refs in groups if refs]


def shown_bounds(rule: RuleReport) -> str:
    """Format the bounds of a change: `-11.0 to -3.0 pp`, or `at most -3.0 pp` of a one-sided test, or nothing."""
    metric, low, high = rule.rule.metric, rule.low, rule.high
    if low is not None and high is not None:
        return f"{shown_change(metric, low).removesuffix(' pp')} to {shown_change(metric, high)}"
    if high is not None:
        return f"at most {shown_change(metric, high)}"
    return "" if low is None else f"at least {shown_change(metric, low)}"


def _p(value: float | None) -> str:
    if value is None:
        return _NONE
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _detectable(rule: RuleReport) -> str:
    return shown_change(rule.rule.metric, rule.detectable).removeprefix("+")


def _chance(change: Change) -> float | None:
    return change.p_value if change.adjusted is None else change.adjusted


# Markdown

_RULE_COLUMNS: Sequence[Shown] = (
    (Column("rule", foreign=True, most=100), lambda one: one.rule.text),
    (Column("of"), lambda one: ", ".join(code(name, 100) for name in (one.benchmark, one.agent) if name)),
    (Column("scenarios", number=True), lambda one: str(one.scenarios)),
    (Column("before", number=True), lambda one: shown_value(one.rule.metric, one.before)),
    (Column("now", number=True), lambda one: shown_value(one.rule.metric, one.now)),
    (Column("change", number=True), lambda one: shown_change(one.rule.metric, one.change)),
    (Column("interval", number=True), lambda one: shown_bounds(one) or _NONE),
    (Column("p", number=True), lambda one: _p(one.p_value)),
    (Column("detectable drop", number=True), _detectable),
    (Column("verdict"), lambda one: one.verdict.value),
)
_PAIR_COLUMNS: Sequence[Shown] = (
    (Column("scenario"), lambda one: code(one.scenario, 200) + (" (critical)" if one.critical else "")),
    (Column("agent", foreign=True, most=100), lambda one: one.agent),
    (Column("before", number=True), lambda one: shown_value("mean", one.before)),
    (Column("now", number=True), lambda one: shown_value("mean", one.now)),
)
_CHANGE_COLUMNS: Sequence[Shown] = (
    *_PAIR_COLUMNS,
    (Column("passed before", number=True), lambda one: f"{one.before_passed} of {one.before_attempts}"),
    (Column("passed now", number=True), lambda one: f"{one.now_passed} of {one.now_attempts}"),
    (Column("passed afresh", number=True, rare=True), lambda one: _fresh(one) or _NONE),
    (Column("p", number=True), lambda one: _p(_chance(one))),
)
_KNOWN_COLUMNS: Sequence[Shown] = (
    *_PAIR_COLUMNS,
    (Column("reason", foreign=True, most=200), lambda one: one.known.reason if one.known else ""),
    (Column("until"), lambda one: str((one.known and one.known.until) or "")),
)


def _items(texts: Sequence[str], noun: str = "") -> Iterator[str]:
    if texts:
        yield from (*listed(texts, _NOTES, noun), "")


def _advice(rules: Sequence[RuleReport], report: GateReport) -> Iterator[str]:
    """Yield what the first line and the table of rules do not tell: why a rule does not hold, and what to do."""
    for rule in rules:
        is_news = rule.verdict is not GateVerdict.OK and rule.why not in report.why
        texts = [text for text in (rule.why if is_news else None, rule.advice) if text]
        if texts:
            yield f"{code(rule.rule.text, 100)}: {' '.join(code(text, 500) for text in texts)}"


def _references(groups: Sequence[tuple[str, Sequence[ScenarioRef]]]) -> Iterator[str]:
    for what, refs in groups:
        shown = [
            f"{what}: {code(ref.scenario, 200)} of {code(ref.benchmark, 100)}, {code(ref.agent, 100)}"
            + (f": {code(ref.why, 200)}" if ref.why else "")
            for ref in refs
        ]
        yield from listed(shown, _ROWS, what)
    yield ""


# The terminal


def _rule(found: RuleReport, report: GateReport) -> Iterator[Line]:
    metric = found.rule.metric
    figures: list[str] = []
    if found.before is not None:
        figures.append(f"{shown_value(metric, found.before)} -> {shown_value(metric, found.now)}")
    elif found.now is not None:
        figures.append(shown_value(metric, found.now))
    if found.change is not None:
        bounds = shown_bounds(found)
        interval = f" ({100 * found.rule.level:g} %: {bounds})" if bounds else ""
        figures.append(f"{shown_change(metric, found.change)}{interval}")
    clusters = "" if found.clusters is None else f" in {counted(found.clusters, 'cluster')}"
    figures.append(f"n={found.scenarios}{clusters}")
    if found.p_value is not None:
        figures.append(f"p={_p(found.p_value)}".replace("=<", "<"))
    if found.detectable is not None:
        figures.append(f"detectable drop {_detectable(found)}")
    name, told = one_line(found.rule.text, 100), ", ".join(figures)
    for place, word in ((found.benchmark, "of "), (found.agent, "" if found.benchmark else "of ")):
        if place:
            room = _WIDEST - 16 - len(name) - len(word) - len(told)
            name = f"{name} {word}{one_line(place, max(_LEAST, min(80, room)))}"
    colour = None if found.verdict is GateVerdict.OK else _ALERTS[found.verdict][1]
    yield f"{found.verdict.value:12} {name}: {told}", colour
    in_figures = found.change is not None and found.verdict in (GateVerdict.OK, GateVerdict.REGRESSED)
    for text in ("" if in_figures or found.why in report.why else found.why, found.advice):
        if text:
            yield f"             {one_line(text, 500)}", None


def changed_lines(title: str, changes: Sequence[Change], colour: str | None = None) -> Iterator[Line]:
    """Yield the scenarios that changed, below their number; nothing without any."""
    if changes:
        yield f"{title}: {len(changes)}", colour
    several = len({change.agent for change in changes}) > 1
    yield from _most(worst_first(changes), lambda change: [(f"  {changed_line(change, several)}", None)])


def changed_line(change: Change, several: bool) -> str:
    """Return the line of a scenario that changed; with `several` agents it names the agent."""
    p = _chance(change)
    fresh = _fresh(change)
    agent = f" [{one_line(change.agent, 80)}]" if several else ""
    remarks = (
        f"passed {change.before_passed} of {change.before_attempts} before",
        f"{change.now_passed} of {change.now_attempts} now",
        "" if p is None else f"p={p:.3f}{_of_which(change)}",
        "failed in spite of a full score, as where an agent crashed"
        if change.now == 1 and change.now_passed < change.now_attempts
        else "",
        "critical" if change.critical else "",
        "" if change.known is None else f"known: {change.known.mode.value}{_reason(change)}",
    )
    line = (
        f"{_name(change)}{agent}: {change.before:.3g} -> {change.now:.3g}, {', '.join(filter(None, remarks))}"
    )
    return line + (f"; fresh attempts: passed {fresh}" if fresh else "")


def _of_which(change: Change) -> str:
    """Tell a p of one scenario by itself from one adjusted for all scenarios that were looked at."""
    if change.adjusted is None:
        return " alone"
    return "" if change.adjusted == change.p_value else " adjusted"


def _reason(change: Change) -> str:
    text = "" if change.known is None else one_line(change.known.text, 200)
    return f" ({text})" if text else ""


def _name(found: Change | ScenarioRef) -> str:
    return f"{one_line(found.benchmark, 100)}/{one_line(found.scenario, 200)}"


def _most(items: Sequence[Any], lines: Callable[[Any], Iterable[Line]]) -> Iterator[Line]:
    """Yield the lines of the first items, and the number of the others."""
    yield from itertools.chain.from_iterable(map(lines, items[:_LINES]))
    if len(items) > _LINES:
        yield f"  ... and {len(items) - _LINES} more", None
