"""Sides of comparisons in files: reads `baseline.json`, job directories and `report.json`; makes `baseline.json`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...model.baseline import BaselineFile, BaselineMetric, BaselineScenario, rounded
from ...model.errors import InputError
from ...model.job import JobRecord, JobStatus
from ...model.result import TrialResult
from ...sources.plain import Place
from ...store.baseline_file import JsonFile, baseline_of
from ...store.checksum import differs
from ...store.incoming import incoming_results, read_model
from ...store.layout import RESULT, JobLayout, Layout
from ...store.rows import PairRow, pair_row
from ...store.text import one_line
from ...system.paths import is_directory
from ..sides import Cell, Series, Side, cut_short, gone_of, side


def as_scenarios(found: Side) -> tuple[BaselineScenario, ...]:
    """Return the scenarios of a side for `baseline.json`, sorted, without those that have no result."""
    cells = (cell for cell in found.cells.values() if cell.scores or cell.errors)
    return tuple(sorted(map(_scenario, cells), key=lambda scenario: scenario.key))


def as_side(file: BaselineFile, name: str) -> Side:
    """Return the side that a `baseline.json` holds."""
    cells = map(_cell, file.scenarios)
    return Side(name, file.jobs, {cell.key: cell for cell in cells}, frozenset(file.ran_on or ()))


def side_of_file(name: str, path: Path, judged: str | None) -> tuple[Side, tuple[str, ...]]:
    """Return one side of a comparison from a `baseline.json`, a job's directory, or a `report.json`, and notes.

    `name` is the spec as given, `judged` the id of the judged job.

    Raises InputError: it is none of them, damaged, or the job that is judged.
    """
    if is_directory(path):
        record, rows, notes = _bundle(path)
    else:
        file = JsonFile(path)
        if not {"job", "results"} <= file.data.keys():
            found = as_side(baseline_of(file), name)
            _refuse_judged(found.jobs, judged, path)
            return found, (f"the judged job {judged} is also part of {path}",) if judged in found.jobs else ()
        record, rows, notes = _report(file)
    _refuse_judged((record.id,), judged, path)
    return side(name, [(record.id, rows)], [record]), notes


def _refuse_judged(jobs: Sequence[str], judged: str | None, path: Path) -> None:
    if judged is not None and set(jobs) == {judged}:
        raise InputError(f"is the judged job {judged} itself; a job cannot be its own baseline", path=path)


def _scenario(cell: Cell) -> BaselineScenario:
    return BaselineScenario(
        benchmark=cell.benchmark,
        scenario=cell.scenario,
        agent=cell.agent,
        # Sorted, since attempts end in any order.
        scores=tuple(sorted((round(score, 6) for score in cell.scores), reverse=True)),
        passed=cell.passed,
        errors=cell.errors,
        comparable=cell.comparable,
        tags=cell.tags,
        cluster=cell.cluster,
        cost_usd=rounded(_mean(cell.costs), 6),
        tokens=rounded(_mean(cell.tokens), 1),
        seconds=rounded(_mean(cell.seconds), 3),
        metrics={
            one.name: BaselineMetric.model_validate(
                {"mean": _figure(one.values), "unit": one.unit, "direction": one.direction}
            )
            for one in cell.metrics
        },
        graded_in=cell.graded_in,
    )


def _cell(scenario: BaselineScenario) -> Cell:
    return Cell(
        scenario.benchmark,
        scenario.scenario,
        scenario.agent,
        scores=scenario.scores,
        passed=scenario.passed,
        errors=scenario.errors,
        seconds=_one(scenario.seconds),
        costs=_one(scenario.cost_usd),
        tokens=tuple(map(round, _one(scenario.tokens))),
        comparable=scenario.comparable,
        tags=scenario.tags,
        cluster=scenario.cluster,
        metrics=tuple(
            Series(name, one.unit, one.direction, (one.mean,)) for name, one in scenario.metrics.items()
        ),
        graded_in=tuple(sorted(set(scenario.graded_in))),
    )


def _figure(values: Sequence[float]) -> float:
    """Return a mean with no more digits than tell something."""
    return float(f"{math.fsum(values) / len(values):.12g}")


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _one(mean: float | None) -> tuple[float, ...]:
    """Return one score for many attempts: only their mean is known."""
    return () if mean is None else (mean,)


def _bundle(root: Path) -> tuple[JobRecord, list[PairRow], tuple[str, ...]]:
    record_path = JobLayout(root).record
    if not record_path.exists():
        hint = "; name one of those in its jobs/" if Layout(root).jobs.is_dir() else ""
        raise InputError(f"is not the directory of a job: it has no job.json{hint}", path=root)
    record = read_model(JobRecord, record_path)
    notes = _status(record.id, record.status, root)
    left_out: list[str] = []

    def refuse(directory: str, why: str) -> None:
        left_out.append(one_line(f"{root / directory / RESULT} was left out: {why}", 300))

    rows = _rows((result for _, result in incoming_results(root, record.id, refuse)), root)
    _refuse_incomplete(record, rows, root, left_out)
    return record, rows, (*notes, *left_out)


def _report(file: JsonFile) -> tuple[JobRecord, list[PairRow], tuple[str, ...]]:
    results = file.data["results"]
    if not isinstance(results, list):
        raise file.wrong([(("results",), "a list is expected")])
    record = file.checked(JobRecord, file.data["job"] or {}, ("job",))
    notes = _status(record.id, record.status, file.path)
    checked = [
        file.checked(TrialResult, result or {}, ("results", index)) for index, result in enumerate(results)
    ]
    mistakes: list[tuple[Place, str]] = []
    seen: dict[str, int] = {}
    for index, result in enumerate(checked):
        first = seen.setdefault(result.node_id, index)
        if result.job != record.id:
            mistakes.append((("results", index), "is the result of another job"))
        elif first != index:
            line = file.line(("results", first))
            mistakes.append((("results", index), f"has the node id of the result in line {line}"))
    if mistakes:
        raise file.wrong(mistakes)
    rows = _rows(checked, file.path)
    _refuse_incomplete(record, rows, file.path)
    return record, rows, notes


def _refuse_incomplete(
    record: JobRecord, rows: Sequence[PairRow], path: Path, left_out: Sequence[str] = ()
) -> None:
    """Raise if a job is known to have had more results, or others: the judged job would not miss them, either."""
    gone = gone_of(record, len(rows)) or cut_short(record, len(rows))
    if gone or (differs(record, rows) and (gone := "its results are not those it ended with")):
        which = f": {left_out[0]}" if left_out else ""
        message = f"job {one_line(record.id, 100)} cannot be a baseline: {gone}{which}"
        raise InputError(message, path=path)


def _status(job: str, status: JobStatus, path: Path) -> tuple[str, ...]:
    if not status.ended:
        raise InputError(f"job {one_line(job, 100)} is still {status.value}", path=path)
    if status is JobStatus.COMPLETED:
        return ()
    return (f"job {one_line(job, 100)} did not complete: {status.value}",)


def _rows(results: Iterable[TrialResult], path: Path) -> list[PairRow]:
    rows = [pair_row(result) for result in results]
    for row in rows:
        if (
            row.seconds < 0
            or (row.cost_usd or 0) < 0
            or (row.input_tokens or 0) < 0
            or (row.output_tokens or 0) < 0
        ):
            raise InputError(f"scenario {row.scenario}: time, cost or tokens are negative", path=path)
    return rows
