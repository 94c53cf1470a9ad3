"""A job: its summary, its verdicts, and all its trials by scenario and agent."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..analysis.live import Live
from ..model.errors import InputError
from ..model.gate import NO_BASELINE, SIDE_A, GateConfig, GateReport
from ..model.job import JobStatus
from ..model.result import Outcome
from ..report.documents import mirror
from ..report.documents.summary import SummaryDocument
from ..report.documents.viewer import (
    Command,
    ErrorClass,
    GateLine,
    KnownFailure,
    MatrixRows,
    MatrixTrials,
    RuleFigures,
    ViewerEvent,
    ViewerJob,
    ViewerMatrix,
)
from ..report.gate_text import gate_lines
from ..report.overview import live_state, summary_document
from ..store.gates import kept_gates
from ..store.project import directory_argument
from ..store.reader import HistoryReader
from ..store.rows import tags_of
from ..store.text import clean, one_line
from .lookup import find_trial
from .results import Results, record_of, root_of

MOST_TRIALS = 50_000
"""Trials in one matrix."""
_CLASSES, _MOST_KNOWN = 200, 200
_OUTCOMES = {outcome.value: place for place, outcome in enumerate(Outcome)}
REUSED, RESCORED, KNOWN, KEPT, RUNNING = 1, 2, 4, 8, 16


def job_document(results: Results, history: HistoryReader, job: str) -> ViewerJob:
    """Return everything about a job but its trials."""
    row = history.job_row(job)
    summary = _summary(results, history, job, None if row is None else row.status)
    gates: list[GateReport] = []
    with contextlib.suppress(InputError):  # none if they are damaged
        if (root := root_of(results, job)) is not None:
            gates = kept_gates(root)[::-1]
    newest = gates[0] if gates else None
    return ViewerJob(
        summary=summary,
        branch=None if row is None else row.branch,
        commit=None if row is None else row.commit,
        errors=tuple(_errors(history, job)),
        gates=tuple(gates),
        gate_lines=tuple(
            GateLine(text=text, colour=colour) for text, colour in (gate_lines(newest) if newest else ())
        ),
        rules=tuple(_rules(newest)) if newest else (),
        events=tuple(mirror(ViewerEvent, event) for event in history.events(job)),
        commands=tuple(_commands(results, summary, newest)),
    )


def _summary(results: Results, history: HistoryReader, job_id: str, status: str | None) -> SummaryDocument:
    """Return the summary of a job; that of an ended one changes with the history only."""
    if status is None or not JobStatus(status).ended:
        return summary_document(results.directory, history, job_id)
    return results.known(history, _summed_up, (results.directory, job_id))


def _summed_up(history: HistoryReader, of: tuple[Path, str]) -> SummaryDocument:
    directory, job_id = of
    return summary_document(directory, history, job_id)


def matrix_document(results: Results, history: HistoryReader, job: str) -> ViewerMatrix:
    """Return all trials of a job, by scenario and agent."""
    record = record_of(history, job)
    matrix = _Matrix(agent.label for agent in record.config.agents)
    for row in history.select(_ENDED, job):
        matrix.add(*row)
    if not record.status.ended and (root := root_of(results, job)) is not None:
        matrix.add_running(live_state(root))
    return matrix.document().model_copy(update={"known": tuple(_known(results, history, job))})


def _known(results: Results, history: HistoryReader, job_id: str) -> Iterator[KnownFailure]:
    """Yield why trials are known failures: their results have it, the history does not."""
    query = (
        "SELECT min(node_id) FROM trials WHERE job = ? AND known IS NOT NULL GROUP BY run, scenario LIMIT ?"
    )
    for (node_id,) in history.select(query, job_id, _MOST_KNOWN):
        result = find_trial(results, history, job_id, node_id).result
        if result is not None and result.known is not None:
            reason = one_line(result.known.text, 300)
            yield mirror(KnownFailure, result, agent=result.agent.label, reason=reason)


_ENDED = f"""
SELECT benchmark, scenario, tags, agent, outcome, class, attempt, score, seconds, cost_usd, node_id,
    {REUSED} * (reused IS NOT NULL) + {RESCORED} * (rescored IS NOT NULL) + {KNOWN} * (known IS NOT NULL)
    + {KEPT} * (kept IS NOT NULL)
FROM trials WHERE job = ? ORDER BY run, id
"""  # noqa: S608
"""What a matrix shows of trials, and no more: a job may have many."""


class _Matrix:
    """A matrix in the making."""

    def __init__(self, agents: Iterable[str]) -> None:
        self._agents = {label: place for place, label in enumerate(dict.fromkeys(agents))}
        self._benchmarks: dict[str, int] = {}
        self._classes: dict[str, int] = {}
        self._rows: dict[tuple[str, str], int] = {}
        self._tags: list[list[str]] = []
        self._trials: list[tuple[Any, ...]] = []
        self._ids: set[str] = set()
        self._left_out = 0

    def add(
        self,
        benchmark: str,
        scenario: str,
        tags: str | None,
        agent: str,
        outcome: str | None,
        class_: str | None,
        attempt: int,
        score: float | None,
        seconds: float,
        cost: float | None,
        node_id: str,
        flags: int,
    ) -> None:
        """Add a trial; one without an outcome runs."""
        if len(self._trials) >= MOST_TRIALS:
            self._left_out += 1
            return
        row = self._rows.get((benchmark, scenario))
        if row is None:
            row = self._rows[benchmark, scenario] = len(self._rows)
            self._tags.append(list(tags_of(tags)))
            self._benchmarks.setdefault(benchmark, len(self._benchmarks))
        place = self._agents.setdefault(agent, len(self._agents))
        ended = None if outcome is None else _OUTCOMES[outcome]
        reason = None if class_ is None else self._classes.setdefault(class_, len(self._classes))
        self._ids.add(node_id)
        self._trials.append((row, place, attempt, ended, score, reason, seconds, cost, node_id, flags))

    def add_running(self, live: Live) -> None:
        """Add trials that run, beside the others of their scenario."""
        for trial in live.flying.values():
            if trial.node_id not in self._ids:
                of = (trial.benchmark, trial.scenario, None, trial.agent, None, None)
                self.add(*of, trial.attempt, None, 0.0, None, trial.node_id, RUNNING)

    def document(self) -> ViewerMatrix:
        """Return the whole, column by column. Rows are sorted by name, as a terminal shows them."""
        names = MatrixTrials.model_fields
        rows = sorted(self._rows)
        place = {self._rows[of]: place for place, of in enumerate(rows)}
        trials = [(place[row], *rest) for row, *rest in self._trials]
        columns = [list(column) for column in zip(*trials, strict=True)] or [[] for _ in names]
        # As the history has them: to check each value again takes longer than to read them.
        values: dict[str, Any] = dict(zip(names, columns, strict=True))
        return ViewerMatrix(
            benchmarks=list(self._benchmarks),
            agents=list(self._agents),
            outcomes=list(_OUTCOMES),
            classes=list(self._classes),
            rows=MatrixRows(
                benchmark=[self._benchmarks[benchmark] for benchmark, _ in rows],
                scenario=[scenario for _, scenario in rows],
                tags=[self._tags[self._rows[of]] for of in rows],
            ),
            trials=MatrixTrials.model_construct(**values),
            left_out=self._left_out,
        )


def _rules(report: GateReport) -> Iterator[RuleFigures]:
    for rule in report.rules:
        yield mirror(
            RuleFigures,
            rule,
            expression=rule.rule.text,
            verdict=rule.verdict.value,
            unit=rule.rule.unit.value,
        )


def _errors(history: HistoryReader, job_id: str) -> Iterator[ErrorClass]:
    query = (
        "SELECT class, outcome, count(*), min(message) FROM trials WHERE job = ? AND class IS NOT NULL "
        "GROUP BY class, outcome ORDER BY outcome <> 'error', count(*) DESC, class LIMIT ?"
    )
    for class_, outcome, trials, message in history.select(query, job_id, _CLASSES):
        yield ErrorClass(class_=class_, outcome=outcome, trials=trials, message=message)


def _commands(results: Results, summary: SummaryDocument, newest: GateReport | None) -> Iterator[Command]:
    """Yield commands to type next; `newest` is the newest verdict on the job."""
    where = directory_argument(results.directory)
    job_id = shlex.quote(summary.id)
    yield Command(title="Show it in the terminal", command=f"benchjobs summary -e {job_id}{where}")
    if summary.dead:
        yield Command(title="Finish it, as its process died", command=f"benchjobs resume {job_id}{where}")
        yield Command(title="Close it and all others that died", command=f"benchjobs recover{where}")
    elif not JobStatus(summary.status).ended:
        yield Command(title="Watch it", command=f"benchjobs watch {job_id}{where}")
        yield Command(title="Stop it", command=f"benchjobs cancel {job_id}{where}")
    else:
        gates = _gate_options(summary.config.gate, newest)
        if gates is not None:
            yield Command(title="Judge it again", command=f"benchjobs gate {job_id}{gates}{where}")
        yield Command(title="Run it again", command=f"benchjobs rerun {job_id}{where}")
        if summary.planned is not None and summary.totals.trials < summary.planned:
            yield Command(title="Finish it", command=f"benchjobs resume {job_id}{where}")
    yield Command(title="Copy its logs", command=f"benchjobs logs {job_id}{where}")


def _gate_options(config: GateConfig, newest: GateReport | None) -> str | None:
    """Return the options that judge a job again, each with a blank before it; None: no gate is known for it.

    A job with gates needs none. Another was judged by options, which its verdict has.
    """
    if config.judges:
        return ""
    if newest is None or newest.baseline in (None, NO_BASELINE, SIDE_A):
        return None
    rules = dict.fromkeys(one.rule.text for one in newest.rules if not one.rule.floor)
    options = [("--baseline", newest.baseline), *(("--fail-on-regression", text) for text in rules)]
    return "".join(f" {flag} {shlex.quote(clean(text, 200))}" for flag, text in options)
