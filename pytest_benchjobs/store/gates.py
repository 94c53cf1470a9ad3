"""Gate reports of a job: rows of the history, and a file of the bundle from which they can be restored."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ..model.errors import InputError
from ..model.gate import GateReport, Rule
from ..sources.documents import read_text
from ..system.paths import is_file
from .files import write_atomically
from .layout import JobLayout
from .rows import as_text
from .text import clean, one_line

_KEPT = 10
"""Number of latest reports that are stored: judging again is free, and may be done often."""
_LISTS: dict[str, object] = dict.fromkeys(
    ("rules", "broke", "fixed", "suspects", "slipped", "added", "removed", "changed", "unscored", "known"), ()
)


@functools.cache
def _reports() -> TypeAdapter[list[GateReport]]:
    # Made on first use: most sessions judge nothing.
    return TypeAdapter(list[GateReport])


def keep_gate(root: Path, report: GateReport) -> None:
    """Add a report to `gates.json` of a bundle, which has the latest ones, the newest last.

    Raises DiskFull, ResultsUnwritable: the directory cannot be written.
    """
    kept: list[GateReport] = []
    with contextlib.suppress(InputError):  # replace a damaged file
        kept = kept_gates(root)
    write_atomically(JobLayout(root).gates, _reports().dump_json([*kept, report][-_KEPT:], indent=1) + b"\n")


def kept_gates(root: Path) -> list[GateReport]:
    """Read the gate reports of the job whose bundle is `root`, the newest last; none if no gate judged it.

    Raises InputError: the file is damaged, or cannot be read.
    """
    path = JobLayout(root).gates
    if not is_file(path):
        return []
    try:
        return _reports().validate_json(read_text(path))
    except ValidationError as error:
        raise InputError(
            f"is damaged, or of another version: {error.error_count()} mistakes", path=path
        ) from None


def gate_values(report: GateReport) -> list[tuple[object, ...]]:
    """Return rows of the table `gates`, without the job: one for the whole, with no expression, and one per rule."""
    at, policy = as_text(report.at), report.policy.value
    baseline = None if report.baseline is None else clean(report.baseline, 500)
    whole = report.model_copy(update=_LISTS).model_dump_json()
    rows: list[tuple[object, ...]] = [
        (at, "", None, baseline, policy, report.verdict.value, None, None, None, whole)
    ]
    for found in report.rules:
        figures = (found.change, found.p_value, found.detectable)
        scope = _scope(found.rule, found.benchmark, found.agent)
        expression = clean(found.rule.text, 500)
        rows.append(
            (at, expression, scope, baseline, policy, found.verdict.value, *figures, found.model_dump_json())
        )
    return rows


def _scope(rule: Rule, benchmark: str | None, agent: str | None) -> str | None:
    named = (("benchmark", benchmark), ("agent", agent), ("tag", rule.tag))
    return ",".join(f"{key}={one_line(value, 200)}" for key, value in named if value is not None) or None
