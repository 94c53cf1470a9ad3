"""Parts in which scenarios that a gate did not compare differ from the baseline: `limits`, `scorers`, ..."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..model.errors import InputError
from ..model.gate import GateReport, GateVerdict
from ..store.bundle import JobBundle

_AGENT = ("agent", "parameters")
"""Parts that a comparison is about."""
_Task = tuple[str, str]
"""Benchmark and scenario."""


def with_changed_parts(report: GateReport, directory: Path) -> GateReport:
    """Return the report with the parts that differ, as far as the files of both jobs are in `directory`."""
    changed = {(ref.benchmark, ref.scenario) for ref in report.changed}
    if not changed:
        return report
    now = _parts(directory, [report.job], changed)
    before = _parts(directory, report.baseline_jobs, changed)
    differ = {task: _differing(before[task], now[task]) for task in changed if task in before and task in now}
    counts = Counter(names for names in differ.values() if names)
    if not counts:
        return report
    refs = tuple(
        ref.model_copy(update={"why": f"{ref.why}: {names}"})
        if (names := differ.get((ref.benchmark, ref.scenario)))
        else ref
        for ref in report.changed
    )
    notes = [
        f"{'1 scenario differs' if count == 1 else f'{count:,} scenarios differ'} from the baseline in: {names}"
        for names, count in counts.most_common()
    ]
    why = report.why
    if report.verdict is GateVerdict.INVALID:
        why = f"{why}; what changed: {counts.most_common(1)[0][0]}"
    return report.model_copy(update={"why": why, "changed": refs, "notes": (*notes, *report.notes)})


def _differing(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    return ", ".join(name for name in now if name not in _AGENT and before.get(name) != now[name])


def _parts(directory: Path, jobs: Iterable[str], wanted: set[_Task]) -> dict[_Task, Mapping[str, str]]:
    """Return the parts of the signature of each task, by the first job that has it."""
    found: dict[_Task, Mapping[str, str]] = {}
    for job in jobs:
        bundle = JobBundle(directory, job)
        if not bundle.root.is_dir():
            continue
        try:
            for result in bundle.results():
                task = result.benchmark, result.scenario
                if result.signature is not None and task in wanted:
                    found.setdefault(task, result.signature.parts)
                if len(found) == len(wanted):
                    return found
        except (InputError, OSError):
            continue
    return found
