"""`calibrate`: check scores by agents whose results are certain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from ..analysis.calibration import BenchmarkCalibration
from ..analysis.calibration import calibrate as calibrated
from ..model.errors import InputError
from ..report.documents.benchmarks import CalibrationDocument
from ..report.table import Cell, Column, tabulate, width
from ..report.units import some
from ..store.listing import RUNS, each
from ..store.reader import HistoryReader
from ..store.rows import PairRow
from ._directory import directory_option
from ._output import emit, output_option

_SUSPICIOUS = 1
_SHOWN = 10


@click.command()
@click.argument("benchmarks", nargs=-1, metavar="[BENCHMARK...]")
@click.option(
    "--fail-on-suspicious",
    is_flag=True,
    help="Exit with status 1 unless every benchmark is valid or missing.",
)
@directory_option
@output_option("calibrate")
def calibrate(benchmarks: tuple[str, ...], fail_on_suspicious: bool, directory: Path, output: str) -> int:
    """Check benchmarks by agents with certain results: oracle and nop, baseline:perfect, :wrong and :half.

    The latest run of each agent counts. Nothing is run.
    """
    with HistoryReader.of(directory) as history:
        found = calibrated(_latest(history, benchmarks))
    document = CalibrationDocument(benchmarks=tuple(found))
    emit(document, lambda: _lines(found), output)
    return _SUSPICIOUS if fail_on_suspicious and any(one.suspicious for one in found) else 0


def _latest(history: HistoryReader, wanted: tuple[str, ...]) -> dict[str, list[PairRow]]:
    """Return the trials of the latest run of each agent, for each benchmark with a graded trial."""
    latest: dict[tuple[str, str], str] = {}
    for run in each(history, RUNS, sort="id", descending=False):
        if run.passed + run.failed and (not wanted or run.benchmark in wanted):
            latest[run.benchmark, run.agent] = run.job
    found: dict[str, list[PairRow]] = {}
    for job in dict.fromkeys(latest.values()):
        for row in history.paired_rows(job):
            if latest.get((row.benchmark, row.agent)) == job:
                found.setdefault(row.benchmark, []).append(row)
    if missing := [name for name in wanted if name not in found]:
        there = history.distinct("benchmark", 5000)
        raise InputError(
            f"there are no results of {', '.join(missing)} in {history.directory}; there are results of "
            f"{', '.join(there) or 'nothing'}"
        )
    return found


def _lines(found: list[BenchmarkCalibration]) -> Iterator[str]:
    if not found:
        yield "there are no results yet"
        return
    colours = {"valid": "green", "missing": "yellow"}
    shown = [
        (Column("benchmark", least=12), lambda one: one.benchmark),
        (Column("status"), lambda one: Cell(one.status, colours.get(one.status, "red"))),
        (Column("others"), lambda one: f"{one.agents}, {one.pattern}" if one.agents else "-"),
        (Column("why", least=20), lambda one: one.why),
    ]
    yield from tabulate(found, width(), shown)
    for one in found:
        if one.mismatches and one.status == "mismatch":
            yield f"{one.benchmark}: {some(one.mismatches, _SHOWN)}"
