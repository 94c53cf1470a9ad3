"""Gate reports as Markdown: the verdict first, then its evidence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ..model.gate import Change, GatePolicy, GateReport, GateVerdict, RuleReport, ScenarioRef
from ..store.text import one_line
from .code_span import code
from .units import duration, percent

_ALERTS = {
    GateVerdict.INVALID: "WARNING",
    GateVerdict.REGRESSED: "CAUTION",
    GateVerdict.INCONCLUSIVE: "WARNING",
    GateVerdict.NO_BASELINE: "NOTE",
    GateVerdict.OK: "TIP",
}
"""Verdict -> the kind of alert that GitHub and GitLab draw; the worst verdict first."""
_GRAVITY = tuple(_ALERTS)
_RULES = 50
_CHANGES = 50
_REFERENCES = 50
_NOTES = 20
_CLUSTERS = 5
_NONE = "-"


def gate_markdown(report: GateReport) -> Iterator[str]:
    """Yield a gate report in the Markdown of GitHub and GitLab, the most important lines first.

    Lists are cut, with the number of lines left out. Foreign text is always in a code span.
    """
    calm = report.verdict is GateVerdict.INCONCLUSIVE and report.policy is not GatePolicy.STRICT
    kind = (
        "NOTE"
        if calm or (report.verdict is GateVerdict.OK and not _compared(report))
        else _ALERTS[report.verdict]
    )
    yield f"> [!{kind}]"
    yield f"> **Benchmark gate: {report.verdict.value}.** {code(why(report), 1000)}"
    yield ""
    yield from _against(report)
    yield from _rules(report)
    yield from _changes("Broke", report.broke)
    yield from _changes("Suspects: worse than before, not proven", report.suspects)
    yield from _changes("Fixed", report.fixed)
    if (clusters := shown_clusters(report)) is not None:
        yield f"- {code(clusters, 1000)}"
    yield from _figures(report)
    yield from _known(report.known)
    yield from _left_out(report)


def why(report: GateReport) -> str:
    """Return the reason of the verdict, without the verdict at its beginning."""
    return report.why.removeprefix(f"{report.verdict.value}: ")


def gravest_first(rules: Sequence[RuleReport]) -> list[RuleReport]:
    """Sort rules by verdict, the worst first."""
    return sorted(rules, key=lambda rule: _GRAVITY.index(rule.verdict))


def worst_first(changes: Sequence[Change]) -> list[Change]:
    """Sort critical scenarios first; otherwise keep the order of the report."""
    return sorted(changes, key=lambda change: not change.critical)


def fresh(change: Change) -> str:
    """Format the result of fresh attempts at a scenario: `1 of 5, confirmed`; empty where there were none."""
    if not change.fresh_attempts:
        return ""
    return f"{change.fresh_passed} of {change.fresh_attempts}, {'' if change.confirmed else 'not '}confirmed"


def shown_value(metric: str, value: float | None) -> str:
    """Format a value of a metric in its unit: `0.612`, `$0.41`, `12s`, `34,000`; `-` for none."""
    if value is None:
        return _NONE
    if metric == "cost":
        return f"${value:,.4f}" if abs(value) < 0.1 else f"${value:,.2f}"
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


def shown_clusters(report: GateReport) -> str | None:
    """List the clusters in one line; None if there were none."""
    if not report.clusters:
        return None
    names = [f"{one_line(one.cluster, 80)} ({one.scenarios})" for one in report.clusters[:_CLUSTERS]]
    more = len(report.clusters) - len(names)
    rest = f" and {more} more" if more else ""
    scenarios = sum(one.scenarios for one in report.clusters)
    return f"treated as clusters, not as independent: {scenarios} scenarios, in {', '.join(names)}{rest}"


def _compared(report: GateReport) -> bool:
    """Return whether anything was compared, so that `ok` means something."""
    return any(rule.before is not None or rule.rule.floor for rule in report.rules)


def _against(report: GateReport) -> Iterator[str]:
    if report.baseline is not None:
        jobs = ", ".join(code(job, 100) for job in report.baseline_jobs[:5])
        more = f" and {len(report.baseline_jobs) - 5} more" if len(report.baseline_jobs) > 5 else ""
        of = f" ({jobs}{more})" if jobs else ""
        yield f"Compared with baseline {code(report.baseline, 200)}{of}, policy {report.policy.value}."
        yield ""
    for note in report.notes[:_NOTES]:
        yield f"- {code(note, 500)}"
    if len(report.notes) > _NOTES:
        yield f"- and {len(report.notes) - _NOTES} more notes"
    if report.notes:
        yield ""


def _rules(report: GateReport) -> Iterator[str]:
    rules = report.rules
    if not rules:
        return
    yield "| rule | of | scenarios | before | now | change | interval | p | detectable drop | verdict |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|--:|---|"
    ordered = gravest_first(rules)
    for rule in ordered[:_RULES]:
        metric = rule.rule.metric
        of = ", ".join(code(name, 100) for name in (rule.benchmark, rule.agent) if name)
        yield (
            f"| {code(rule.rule.text, 100)} | {of} | {rule.scenarios} | {shown_value(metric, rule.before)} "
            f"| {shown_value(metric, rule.now)} | {shown_change(metric, rule.change)} | {shown_bounds(rule) or _NONE} "
            f"| {_p(rule.p_value)} | {shown_change(metric, rule.detectable).removeprefix('+')} | {rule.verdict.value} |"
        )
    yield ""
    yield from _and_more(len(rules) - _RULES, "rules", blank=True)
    told = [
        rule
        for rule in ordered
        if rule.advice or (rule.verdict is not GateVerdict.OK and rule.why != why(report))
    ]
    for rule in told[:_NOTES]:
        advice = f" {code(rule.advice, 500)}" if rule.advice else ""
        yield f"- {code(rule.rule.text, 100)}: {code(rule.why, 500)}{advice}"
    yield from _and_more(len(told) - _NOTES, "", item=True)
    if told:
        yield ""


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


def _changes(title: str, changes: Sequence[Change]) -> Iterator[str]:
    if not changes:
        return
    yield f"### {title}: {len(changes)}"
    yield ""
    title, line = (" passed afresh |", "--:|") if any(map(fresh, changes)) else ("", "")
    yield f"| scenario | agent | before | now | passed before | passed now |{title} p |"
    yield f"|---|---|--:|--:|--:|--:|{line}--:|"
    for change in worst_first(changes)[:_CHANGES]:
        mark = " (critical)" if change.critical else ""
        afresh = f"| {fresh(change) or _NONE} " if title else ""
        yield (
            f"| {code(change.scenario, 200)}{mark} | {code(change.agent, 100)} | {shown_value('mean', change.before)} "
            f"| {shown_value('mean', change.now)} | {change.before_passed} of {change.before_attempts} "
            f"| {change.now_passed} of {change.now_attempts} {afresh}"
            f"| {_p(change.p_value if change.adjusted is None else change.adjusted)} |"
        )
    yield ""
    yield from _and_more(len(changes) - _CHANGES, "", blank=True)


def _figures(report: GateReport) -> Iterator[str]:
    scored = max(0, report.attempts - report.errors)
    ended = f"{report.errors} ended in an infrastructure error, which is never a score of 0"
    if report.attempts:
        yield (
            f"- Infrastructure: {percent(scored, report.attempts)} of {report.attempts} attempts have a score; {ended}."
        )
    for name, metric, before, now in (
        ("Cost", "cost", report.before_cost, report.now_cost),
        ("Time", "duration", report.before_seconds, report.now_seconds),
    ):
        if before is not None or now is not None:
            yield (
                f"- {name} per attempt: {shown_value(metric, before)} before, {shown_value(metric, now)} now"
                f"{_relative(before, now)}."
            )
    yield ""


def _relative(before: float | None, now: float | None) -> str:
    if before is None or now is None or before <= 0 or not math.isfinite(now / before):
        return ""
    return f" ({100 * (now / before - 1):+z.1f} %)"


def _known(known: Sequence[Change]) -> Iterator[str]:
    if not known:
        return
    aside = sum(1 for change in known if change.known is not None and change.known.mode.value == "quarantine")
    out = f", {aside} of them in quarantine and in no rule" if aside else ""
    yield f"<details><summary>{len(known)} known failures among the pairs{out}</summary>"
    yield ""
    yield "| scenario | agent | before | now | reason | until |"
    yield "|---|---|--:|--:|---|---|"
    for change in known[:_REFERENCES]:
        reason = code(change.known.reason, 200) if change.known else ""
        until = (change.known.until or "") if change.known else ""
        yield (
            f"| {code(change.scenario, 200)} | {code(change.agent, 100)} | {shown_value('mean', change.before)} "
            f"| {shown_value('mean', change.now)} | {reason} | {until} |"
        )
    yield ""
    yield from _and_more(len(known) - _REFERENCES, "", blank=True)
    yield "</details>"
    yield ""


def _left_out(report: GateReport) -> Iterator[str]:
    """Yield the scenarios that were not compared."""
    groups = (
        ("without a score on one side", report.unscored),
        ("changed", report.changed),
        ("removed", report.removed),
        ("added", report.added),
    )
    counts = ", ".join(f"{len(refs)} {what}" for what, refs in groups if refs)
    if not counts:
        return
    yield f"<details><summary>Scenarios that are not compared: {counts}</summary>"
    yield ""
    for what, refs in groups:
        for ref in refs[:_REFERENCES]:
            yield f"- {what}: {_reference(ref)}"
        yield from _and_more(len(refs) - _REFERENCES, what, item=True)
    yield ""
    yield "</details>"
    yield ""


def _reference(ref: ScenarioRef) -> str:
    why = f": {code(ref.why, 200)}" if ref.why else ""
    return f"{code(ref.scenario, 200)} of {code(ref.benchmark, 100)}, {code(ref.agent, 100)}{why}"


def _and_more(count: int, what: str, *, blank: bool = False, item: bool = False) -> Iterator[str]:
    if count > 0:
        yield f"{'- ' if item else ''}and {count} more{f' {what}' if what else ''}"
        if blank:
            yield ""
