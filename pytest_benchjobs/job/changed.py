"""Details of a gate's report that only the files of jobs tell.

For scenarios that a gate did not compare they are the parts that differ, such as `limits` and `scorers`; for those that
it did, the rule by which answers are read; for known failures their reason, their link and their last day.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from ..model.errors import InputError
from ..model.gate import Change, GateReport, GateVerdict
from ..model.known_failure import Known
from ..model.result import COMPARED, TrialResult
from ..store.bundle import JobBundle

_LOOKED_AT = 500
"""The most results of each side that are looked at for a rule of reading."""
_Task = tuple[str, str]
"""Benchmark and scenario."""
_Key = tuple[str, str, str]
"""Those, and the label of an agent."""
_Read = Callable[[Iterable[str]], Iterator[TrialResult]]


def with_details(report: GateReport, directory: Path, results: Sequence[TrialResult] = ()) -> GateReport:
    """Return the report with these details, as far as the files of both jobs are in `directory`.

    `results` are those of the judged job, if the caller has them.
    """
    read = reader(directory, {report.job: results} if results else {})
    return _with_changed_parts(_with_known(report, read), read)


def _with_known(report: GateReport, read: _Read) -> GateReport:
    lists = {name: getattr(report, name) for name in ("known", "broke", "fixed", "suspects", "slipped")}
    wanted = {_key(change) for changes in lists.values() for change in changes if change.known is not None}
    entries: dict[_Key, Known] = {}
    for result in read([report.job] if wanted else ()):
        key = (result.benchmark, result.scenario, result.agent.label)
        if result.known is not None and key in wanted:
            entries[key] = result.known
        if len(entries) == len(wanted):
            break

    def detailed(change: Change) -> Change:
        return change.model_copy(update={"known": entries.get(_key(change), change.known)})

    return report.model_copy(update={name: tuple(map(detailed, changes)) for name, changes in lists.items()})


def _key(change: Change) -> _Key:
    return change.benchmark, change.scenario, change.agent


def _with_changed_parts(report: GateReport, read: _Read) -> GateReport:
    benchmarks = (rule.benchmark for rule in report.rules)
    rules = about_readings(read, benchmarks, [report.job], report.baseline_jobs)
    report = report.model_copy(update={"notes": (*report.notes, *rules)})
    changed = {(ref.benchmark, ref.scenario) for ref in report.changed}
    if not changed:
        return report
    now = _parts(read, [report.job], changed)
    before = _parts(read, report.baseline_jobs, changed)
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
    return ", ".join(name for name in now if name not in COMPARED and before.get(name) != now[name])


def about_readings(
    read: _Read, benchmarks: Iterable[str | None], now: Sequence[str], before: Sequence[str]
) -> Iterator[str]:
    """Note benchmarks whose answers the jobs `now` read by another rule than the jobs `before`."""
    by_now = _readings(read, now, {name for name in benchmarks if name is not None})
    by_then = _readings(read, before, {name for name, rule in by_now.items() if rule is not None})
    for benchmark, rule in sorted(by_then.items()):
        if rule != by_now[benchmark]:
            yield (
                f"answers to {benchmark} are read by different rules: {by_now[benchmark]} now, "
                f"{rule or 'that of an earlier version'} before"
            )


def _readings(read: _Read, jobs: Iterable[str], benchmarks: set[str]) -> dict[str, str | None]:
    """Return the rule by which answers to each benchmark are read, by the first result of it."""
    found: dict[str, str | None] = {}
    for result in itertools.islice(read(jobs if benchmarks else ()), _LOOKED_AT):
        if result.benchmark in benchmarks and result.signature is not None:
            found.setdefault(result.benchmark, result.signature.parts.get("reading"))
        if len(found) == len(benchmarks):
            break
    return found


def _parts(read: _Read, jobs: Iterable[str], wanted: set[_Task]) -> dict[_Task, Mapping[str, str]]:
    """Return the parts of the signature of each task, by the first job that has it."""
    found: dict[_Task, Mapping[str, str]] = {}
    for result in read(jobs):
        task = result.benchmark, result.scenario
        if result.signature is not None and task in wanted:
            found.setdefault(task, result.signature.parts)
        if len(found) == len(wanted):
            break
    return found


def reader(directory: Path, known: Mapping[str, Sequence[TrialResult]] = MappingProxyType({})) -> _Read:
    """Return a reader of the results of jobs, as far as they can be read; `known` are those in memory, by job."""

    def read(jobs: Iterable[str]) -> Iterator[TrialResult]:
        for job in jobs:
            bundle = JobBundle(directory, job)
            with contextlib.suppress(InputError, OSError):
                if job in known:
                    yield from known[job]
                elif bundle.root.is_dir():
                    yield from bundle.results()

    return read
