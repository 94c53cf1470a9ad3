"""An anchor: an older baseline by which a job is judged too, so that many small drops do not pass one after another."""

from __future__ import annotations

from ...model.gate import GateConfig, GateReport
from .judge import gravest


def halved(config: GateConfig) -> GateConfig:
    """Return the gates with half of alpha for each of the two baselines."""
    rules = [
        rule if rule.floor else rule.model_copy(update={"level": (1 + rule.level) / 2})
        for rule in config.rules
    ]
    return config.model_copy(update={"rules": tuple(rules)})


def of_anchor(config: GateConfig) -> GateConfig:
    """Return the gates of the anchor: its rules of comparison. Floors and fresh attempts are the job's own."""
    rules = [
        rule.model_copy(update={"text": f"{rule.text} since {config.anchor}"})
        for rule in config.rules
        if not rule.floor
    ]
    update = {
        "baseline": config.anchor,
        "rules": tuple(rules),
        "require_fresh": False,
        "confirm": 0,
        "warn": None,
    }
    return config.model_copy(update=update)


def anchored(report: GateReport, older: GateReport, config: GateConfig) -> GateReport:
    """Return the report on a job with what its anchor adds: rules, notes, and the verdict where it is graver."""
    verdict = gravest((report, older))
    why = report.why
    if verdict is not report.verdict:
        why = f"{verdict}: since {config.anchor}: {older.why.removeprefix(f'{verdict}: ')}"
    notes = (
        *report.notes,
        *(f"since {config.anchor}: {note}" for note in older.notes if note not in report.notes),
    )
    rules = (*report.rules, *(one for one in older.rules if one not in report.rules))
    return report.model_copy(update={"verdict": verdict, "why": why, "rules": rules, "notes": notes})
