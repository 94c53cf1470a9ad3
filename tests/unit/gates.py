"""Made-up gate reports for tests."""

from __future__ import annotations

from typing import Any

from pytest_benchjobs.model.gate import Change, GatePolicy, GateReport, GateVerdict, Rule, RuleReport, Unit

from .records import JOB, NOW

RULE = Rule(text="mean:5pp", metric="mean", amount=0.05, unit=Unit.POINTS)


def change(scenario: str = "count", before: float = 1.0, now: float = 0.0, **more: Any) -> Change:
    values: dict[str, Any] = {
        "benchmark": "texts", "scenario": scenario, "agent": "codex:gpt-5.5", "before": before, "now": now,
        "before_attempts": 5, "now_attempts": 3, "before_passed": 5, "now_passed": 0,
    }  # fmt: skip
    return Change(**{**values, **more})


def rule_report(verdict: GateVerdict = GateVerdict.REGRESSED, **more: Any) -> RuleReport:
    values: dict[str, Any] = {
        "rule": RULE, "benchmark": "texts", "agent": "codex:gpt-5.5", "verdict": verdict,
        "why": "mean 0.610 -> 0.539 (-7.1 pp), p 0.004", "before": 0.61, "now": 0.539, "change": -0.071,
        "low": -0.11, "high": -0.03, "p_value": 0.004, "detectable": 0.059, "scenarios": 89,
    }  # fmt: skip
    return RuleReport(**{**values, **more})


def gate_report(verdict: GateVerdict = GateVerdict.REGRESSED, **more: Any) -> GateReport:
    values: dict[str, Any] = {
        "job": JOB,
        "at": NOW,
        "baseline": "main",
        "baseline_jobs": ("20261120-120000-aaaaaa",),
        "policy": GatePolicy.EVIDENCE,
        "verdict": verdict,
        "why": "mean:5pp regressed: 0.610 -> 0.539 (-7.1 pp, 95 % -11.0 to -3.0, p 0.004)",
        "rules": (rule_report(verdict),),
        "attempts": 267,
        "errors": 3,
    }
    return GateReport(**{**values, **more})
