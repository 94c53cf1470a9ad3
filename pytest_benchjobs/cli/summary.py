"""`summary`: show the results of a job."""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click

from ..analysis.attempts import shown
from ..analysis.scenarios import VerdictFigures
from ..analysis.summary import is_synthetic
from ..report.console import METRIC_COLUMNS
from ..report.documents.summary import (
    AgentFigures,
    InFlight,
    RunFigures,
    SummaryDocument,
    SummaryScenario,
    SummaryTrial,
)
from ..report.overview import summary_document
from ..report.table import Cell, Column, aligned, count_cell, facts, limited, marks, section, tabulate, width
from ..report.units import cost, counted, duration, mean_text, number, percent, some
from ..store.reader import HistoryReader
from ..store.results import find_job
from ..store.text import clean, one_line
from ._dead_jobs import warn_of_dead
from ._directory import directory_option
from ._output import emit, output_option


@click.command()
@click.argument("job", default="last")
@click.option("-e", "--extended", is_flag=True, help="Also list every scenario.")
@click.option("--limit", type=click.IntRange(min=1), help="With -e: at most N scenarios.")
@click.option(
    "--config", is_flag=True, help="Also show the effective configuration. JSON and YAML always do."
)
@directory_option
@output_option("summary")
def summary(job: str, extended: bool, limit: int | None, config: bool, directory: Path, output: str) -> None:
    """Show the results of JOB: an id, the beginning of one, a name, or last; of a running job, its progress."""
    with HistoryReader.of(directory) as history:
        job_id = find_job(history, job)
        document = summary_document(directory, history, job_id, extended=extended, limit=limit)
    emit(document, lambda: summary_lines(document, width(), config=config), output)
    warn_of_dead([job_id] if document.dead else [])


_COLOURS = {"passed": "green", "failed": "red", "error": "yellow"}
_ENDED = ("completed", "failed", "cancelled", "timeout", "budget", "paused")
_SHOWN_IN_FLIGHT = 10
_SHOWN_ATTEMPTS = 5
_SILENT_SECONDS = 60.0
_Row = tuple[str, AgentFigures | RunFigures]
"""A label and its figures."""


def summary_lines(document: SummaryDocument, room: int, *, config: bool) -> Iterator[str]:
    """Yield the summary for a terminal of `room` columns. Names are cleaned."""
    yield from _head(document)
    yield ""
    if document.status in _ENDED:
        yield from _results(document, room)
    else:
        yield from _progress(document, room)
    if any(run.by_scenario is not None for run in document.runs):
        yield from _extended(document, room)
    if config:
        import yaml

        data = document.config.model_dump(mode="json", exclude_none=True)
        text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
        yield from section("Configuration:", map(clean, text.splitlines()))


def _head(document: SummaryDocument) -> Iterator[str]:
    totals = document.totals
    yield "Benchmark Job Results" if document.status in _ENDED else "Benchmark Job"
    took = ""
    if document.finished_at is not None:
        # The time between a crash and the resume does not count.
        begun = max((document.created_at, *document.resumed_at))
        took = f", took {duration((document.finished_at - begun).total_seconds())}"
    trials = f"{totals.trials} of {'?' if document.planned is None else document.planned} ended"
    if document.selection:
        trials += ", of a selection of scenarios"
    if totals.reused:
        trials += f", {totals.reused} reused from earlier jobs"
    resumed = ", ".join(f"{at:%Y-%m-%d %H:%M} UTC" for at in document.resumed_at)
    lines = [
        ("Job ID", document.id),
        ("Name", document.name),
        ("Status", _status(document)),
        ("Started", f"{document.created_at:%Y-%m-%d %H:%M} UTC" + ("" if resumed else took)),
        ("Resumed", resumed and f"{resumed}{took and f'{took} since'}"),
        ("Made from", document.parent),
        ("Metadata", ", ".join(f"{key}={value}" for key, value in document.metadata.items())),
        ("Trials", trials),
        ("Attempts", _policy(document) if document.attempts > 1 else None),
    ]
    yield from facts(((title, text and one_line(text, 1000)) for title, text in lines), 11)


def _status(document: SummaryDocument) -> str:
    if document.dead:
        return f"{document.status} (its process died)"
    return document.status + (f": {document.message}" if document.message else "")


def _policy(document: SummaryDocument) -> str:
    if document.attempt_policy == "each":
        return f"{document.attempts}, each counts"
    return f"{document.attempts}, policy {document.attempt_policy}: a scenario counts once, by its verdict"


def _results(document: SummaryDocument, room: int) -> Iterator[str]:
    if not document.agents:
        yield "No benchmark outcomes found"
        return
    yield from _tables([(figures.agent, figures) for figures in document.agents], room)
    yield from _over_agents(document.agents)
    benchmarks = list(dict.fromkeys(run.benchmark for run in document.runs))
    if len(benchmarks) > 1:
        for benchmark in benchmarks:
            yield ""
            yield one_line(benchmark, 200)
            of_benchmark = [run for run in document.runs if run.benchmark == benchmark]
            yield from _tables([(run.agent, run) for run in of_benchmark], room)
            yield from _over_agents(of_benchmark)
    if document.rescored is not None:
        yield ""
        yield one_line(document.rescored, 1000)
    if any(figures.verdicts is not None and figures.error for figures in document.agents):
        yield "Scenarios without a verdict are not in the mean."
    flaky = (
        f"{one_line(figures.agent, max(16, room - 16))}: {len(figures.flaky)} of {figures.scenarios}"
        for figures in document.agents
        if figures.flaky
    )
    yield from section("Flaky scenarios, with attempts that passed and attempts that failed:", flaky)


def _tables(rows: Sequence[_Row], room: int) -> Iterator[str]:
    """Yield one table, or two where pass@k and pass^k do not fit."""
    label = (Column("Agent / Model", least=10), lambda row: row[0])
    at_k = _at_k(rows)
    spent = (
        (Column("Cost", number=True), lambda row: cost(row[1].cost_usd, more=bool(row[1].unpriced))),
        (Column("Time (sum)", number=True), lambda row: duration(row[1].seconds)),
    )
    whole = list(tabulate(rows, room, [label, *_COUNTS, *at_k, *spent]))
    if not at_k or all(len(click.unstyle(line)) <= room for line in whole):
        yield from whole
    else:
        yield from tabulate(rows, room, [label, *_COUNTS, *spent])
        yield ""
        yield from tabulate(rows, room, [label, *at_k])
    if any("*" in cell(row) for row in rows for _, cell in at_k):
        yield "* without scenarios that have fewer attempts; an error does not count as one"


def _over_agents(rows: Sequence[AgentFigures | RunFigures]) -> Iterator[str]:
    """Yield the means over several agents under test, each of which counts once, however many trials it has."""
    aside = [row.agent for row in rows if is_synthetic(row.agent)]
    rows = [row for row in rows if row.agent not in aside]
    counts = [row.verdicts or row for row in rows]
    rates = [one.passed / (one.passed + one.failed) for one in counts if one.passed + one.failed]
    means = [row.verdicts.mean_score if row.verdicts else row.mean_scored for row in rows]
    scores = [mean for mean in means if mean is not None]
    if len(rates) > 1 and scores:
        mean = mean_text(math.fsum(scores) / len(scores))
        of = f"{len(rates)} agents{f', without {some(aside)}' if aside else ''}"
        yield f"Mean over {of}: pass rate {percent(math.fsum(rates) / len(rates))}, score {mean}"


def _counts(row: _Row) -> AgentFigures | RunFigures | VerdictFigures:
    return row[1].verdicts or row[1]


_COUNTS = (
    (Column("Passed", number=True), lambda row: count_cell(_counts(row).passed, "green")),
    (Column("Partial", number=True), lambda row: str(_counts(row).partial)),
    (Column("Failed (0.0)", number=True), lambda row: count_cell(_counts(row).zero, "red")),
    (Column("Failed (error)", number=True), lambda row: count_cell(_counts(row).error, "yellow")),
    (
        Column("Cancelled", number=True, rare=True),
        lambda row: str(0 if row[1].verdicts else row[1].cancelled),
    ),
    (Column("Skipped", number=True, rare=True), lambda row: str(_counts(row).skipped)),
    (Column("Reused", number=True, rare=True), lambda row: str(0 if row[1].verdicts else row[1].reused)),
    (Column("Total", number=True), lambda row: str(_counts(row).total)),
    (
        Column("Mean", number=True),
        lambda row: mean_text(row[1].verdicts.mean_score if row[1].verdicts else row[1].mean_scored),
    ),
)
"""Columns with counts of verdicts where the policy makes them, else of trials."""


def _at_k(rows: Sequence[_Row]) -> list[tuple[Column, Callable[[_Row], str]]]:
    ks = shown(max((len(figures.at_k) for _, figures in rows), default=0))
    return [
        *((Column(f"pass@{k}", number=True), functools.partial(_rate, k, "pass_at_k")) for k in ks),
        *((Column(f"pass^{k}", number=True), functools.partial(_rate, k, "pass_hat_k")) for k in ks if k > 1),
    ]


def _rate(k: int, name: str, row: _Row) -> str:
    point = next((point for point in row[1].at_k if point.k == k), None)
    value = None if point is None else getattr(point, name)
    if point is None or value is None:
        return "-"
    return f"{value:.3f}{'' if point.scenarios == row[1].scenarios else '*'}"


def _progress(document: SummaryDocument, room: int) -> Iterator[str]:
    silent = document.silent_seconds
    if silent is None or silent > _SILENT_SECONDS:
        since = "" if silent is None else f" for {duration(silent)}"
        yield f"No heartbeat from its process{since}. If it died, `benchjobs recover` closes the job."
    yield "Progress:"
    if not document.agents:
        yield "  waiting for trials to start"
    rows = []
    for figures in document.agents:
        parts = [f"{figures.ended}/{'?' if figures.planned is None else figures.planned} complete"]
        if figures.running:
            parts.append(f"{figures.running} running")
        pending = (figures.planned or 0) - figures.ended - figures.running
        if pending > 0:
            parts.append(f"{pending} pending")
        if figures.error:
            parts.append(f"{figures.error} errors")
        if figures.mean_scored is not None:
            parts.append(f"mean {mean_text(figures.mean_scored)}")
        rows.append([one_line(figures.agent, max(16, room - 60)), ", ".join(parts)])
    yield from (f"  {line}" for line in aligned(rows))
    now = datetime.datetime.now(datetime.UTC)

    def in_flight(trial: InFlight) -> str:
        since = duration((now - trial.phase_since).total_seconds())
        return f"{one_line(trial.node_id, max(20, room - 30))}: {trial.phase}, {since}"

    yield from (f"    {line}" for line in limited(document.in_flight, _SHOWN_IN_FLIGHT, in_flight))


def _extended(document: SummaryDocument, room: int) -> Iterator[str]:
    several = len({run.benchmark for run in document.runs}) > 1
    for run in document.runs:
        if not run.by_scenario:
            continue
        yield ""
        title = f"{run.benchmark}: {run.agent}" if several else run.agent
        yield f"{one_line(title, max(30, room - 30))} ({run.id})"
        yield from _scenario_lines(run, room)
        if run.metrics:
            yield ""
            yield from (f"  {line}" for line in tabulate(run.metrics, room - 2, METRIC_COLUMNS))
    if document.left_out:
        yield ""
        yield f"... and {counted(document.left_out, 'scenario')} more"


def _scenario_lines(run: RunFigures, room: int) -> Iterator[str]:
    trials = {trial.node_id: trial for trial in run.trials or ()}
    signs = marks()
    rows: list[list[str | Cell]] = []
    for scenario in run.by_scenario or ():
        of_scenario = [trials[node_id] for node_id in scenario.trials]
        passed = scenario.outcome == "passed"
        failures = [] if passed else [trial.failure.class_ for trial in of_scenario if trial.failure]
        remarks = [*dict.fromkeys(failures), *(["flaky"] if scenario.flaky else [])]
        for remark in ("known", "reused", "rescored", "kept"):
            count = sum(1 for trial in of_scenario if getattr(trial, remark) is not None)
            if count:
                remarks.append(remark if count == len(of_scenario) else f"{count} {remark}")
        missing = scenario.attempts - len(of_scenario)
        if missing > 0:
            remarks.append(f"{len(of_scenario)} of {counted(scenario.attempts, 'attempt')} ended")
        # Without an error, only missing attempts keep a verdict open.
        is_open = scenario.outcome == "error" and not scenario.error and missing > 0
        sign = "cancelled" if is_open else scenario.outcome
        mark = Cell(signs[sign], _COLOURS.get(sign))
        rows.append([mark, scenario.scenario, _scores(scenario, of_scenario), ", ".join(remarks)])
    yield from (f"  {line}" for line in aligned(rows, room=room - 2, least=12))


def _scores(scenario: SummaryScenario, trials: Sequence[SummaryTrial]) -> str:
    if len(trials) == 1 and scenario.mean_score is None:
        return trials[0].outcome
    mean = number(scenario.mean_score)
    if len(trials) == 1:
        return f"score={mean}"
    if len(trials) > _SHOWN_ATTEMPTS:
        return f"score={mean} ({scenario.passed} of {len(trials)} passed)"
    signs = marks()
    each = " ".join(signs[trial.outcome] if trial.score is None else number(trial.score) for trial in trials)
    return f"score={mean} ({each})"
