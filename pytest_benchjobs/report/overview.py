"""Summary of a job from the rows of the history. Bundles are not read: jobs may have many thousand trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from ..analysis.live import Live
from ..analysis.scenarios import ScenarioSummary, judged, repeats
from ..analysis.summary import Summary, summarise_sums
from ..analysis.trials import grouped
from ..model.errors import InputError
from ..model.job import JobConfig
from ..model.metric import Metric
from ..store.bundle import JobBundle, stored
from ..store.events import EventReader
from ..store.liveness import is_dead, last_beat
from ..store.reader import HistoryReader
from ..store.rows import RunRow, TrialRow, metrics_of
from .documents import mirror
from .documents.jobs import JobTotals, Reason
from .documents.summary import (
    AgentFigures,
    Figures,
    InFlight,
    RunFigures,
    SummaryDocument,
    SummaryScenario,
    SummaryTrial,
)
from .rescored import rescored_line
from .summary import metric_figures


def summary_document(
    directory: Path, history: HistoryReader, job_id: str, *, extended: bool = False, limit: int | None = None
) -> SummaryDocument:
    """Summarise a job as it is now. `extended` adds scenarios and trials, of at most `limit` scenarios.

    Raises InputError: there is no such job.
    """
    record = history.record(job_id)
    bundle = JobBundle(directory, job_id)
    live = Live() if record.status.ended else live_state(bundle.root)
    config = stored(record).config
    runs = history.runs(job_id)
    attempts = max((config.of(run.benchmark).attempts for run in runs), default=config.attempts)
    rows: list[TrialRow] = []
    if attempts > 1 or config.attempt_policy.aggregates or extended:
        # Sorted, so that summaries of equal jobs are equal whatever the order trials ended in.
        rows = sorted(history.trials(job_id), key=lambda row: (row.scenario, row.node_id))
    scenarios = judged(rows, config)
    by_run = grouped(rows, lambda row: row.run)
    scenarios_of_run = grouped(scenarios, lambda scenario: (scenario.benchmark, scenario.agent))
    sums, times = grouped(history.figures(job_id), lambda row: row.run), history.durations(job_id)
    metrics = history.metrics(job_id)

    def figures(chosen: Sequence[RunRow], scenarios: Sequence[ScenarioSummary]) -> Figures:
        rows = (row for run in chosen for row in sums.get(run.id, []))
        seconds = (seconds for run in chosen for seconds in times.get(run.id, []))
        return _figures(summarise_sums("", rows, seconds), scenarios, config)

    labels = _in_order(config, {*(run.agent for run in runs), *live.agents})
    place = {label: number for number, label in enumerate(labels)}
    runs.sort(key=lambda run: (run.benchmark, place[run.agent]))
    agents = []
    for label in labels:
        own = [run for run in runs if run.agent == label]
        of_agent = [scenario for scenario in scenarios if scenario.agent == label]
        agents.append(_agent(label, figures(own, of_agent), live))
    room = limit if limit is not None else len(scenarios)
    shown = []
    for run in runs:
        of_run = scenarios_of_run.get((run.benchmark, run.agent), [])
        listed = of_run[:room] if extended else None
        room -= len(listed or ())
        shown.append(
            _run(run, figures([run], of_run), by_run.get(run.id, []), listed, metrics.get(run.id, []))
        )
    row = history.job_row(job_id)
    return mirror(
        SummaryDocument,
        record,
        status=record.status.value,
        selection=row is not None and row.selection,
        metadata=record.config.metadata,
        attempt_policy=str(record.config.attempt_policy),
        directory=str(bundle.root),
        attempts=attempts,
        totals=JobTotals() if row is None else mirror(JobTotals, row, trials=row.ended),
        agents=tuple(agents),
        runs=tuple(shown),
        left_out=max(0, len(scenarios) - limit) if extended and limit is not None else 0,
        silent_seconds=None if record.status.ended else _silence(bundle.root),
        dead=died(directory, job_id),
        in_flight=tuple(map(InFlight.of, live.flying.values())),
        config=config,
        rescored=None if record.parent is None else rescored_line(history, job_id, record.parent),
    )


def died(directory: Path, job_id: str) -> bool:
    """Return whether the process of a running job is dead. The status is not changed."""
    try:
        bundle = JobBundle.open(directory, job_id)
        record = bundle.read()
    except InputError:
        return False  # only in the history, or unreadable
    return not record.status.ended and is_dead(bundle.root, record)


def live_state(root: Path) -> Live:
    """Return the state of the running job with the bundle at `root`, from its events."""
    live = Live()
    for event in EventReader(root).poll():
        live.take(event)
    return live


def _in_order(config: JobConfig, labels: set[str]) -> list[str]:
    """Sort labels in the order of the job's agents; others, which a merge may have added, come last."""
    named = dict.fromkeys(agent.label for agent in config.agents if agent.label in labels)
    return [*named, *sorted(labels.difference(named))]


def _agent(label: str, figures: Figures, live: Live) -> AgentFigures:
    tally = live.agents.get(label)
    return AgentFigures(
        agent=label,
        planned=None if tally is None else tally.planned,
        ended=max(figures.total, 0 if tally is None else tally.done),
        running=sum(1 for trial in live.flying.values() if trial.agent == label),
        **dict(figures),
    )


def _run(
    row: RunRow,
    figures: Figures,
    trials: Sequence[TrialRow],
    listed: Sequence[ScenarioSummary] | None,
    metrics: Sequence[Sequence[Metric]],
) -> RunFigures:
    node_ids = {trial.node_id for scenario in listed or () for trial in scenario.trials}
    return mirror(
        RunFigures,
        row,
        **dict(figures),
        by_scenario=None if listed is None else tuple(map(_scenario, listed)),
        trials=None
        if listed is None
        else tuple(_trial(trial) for trial in trials if trial.node_id in node_ids),
        metrics=tuple(metric_figures(metrics)),
    )


def _figures(summary: Summary, scenarios: Sequence[ScenarioSummary], config: JobConfig) -> Figures:
    found = repeats(scenarios, config)
    return mirror(
        Figures,
        summary,
        scenarios=len(scenarios) or summary.total,
        error=summary.errors,
        at_k=found.at_k,
        flaky=found.flaky,
        verdicts=found.verdicts,
    )


def _scenario(scenario: ScenarioSummary) -> SummaryScenario:
    return mirror(
        SummaryScenario,
        scenario,
        outcome=scenario.verdict.value,
        error=scenario.errors,
        trials=tuple(trial.node_id for trial in scenario.trials),
    )


def _trial(row: TrialRow) -> SummaryTrial:
    failure = Reason(class_=row.class_, message=row.message or "") if row.class_ else None
    return mirror(SummaryTrial, row, failure=failure, metrics=metrics_of(row.metrics))


def _silence(root: Path) -> float | None:
    seconds = last_beat(root)
    return seconds if math.isfinite(seconds) else None
