"""The gates of a job: the verdict of `gate.judge` on its trials, and reasons that make an incomplete job invalid."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...model.errors import InputError
from ...model.exit_status import ExitStatus, first_of, of_gate
from ...model.gate import GateConfig, GateReport, GateVerdict
from ...model.job import JobRecord, JobStatus
from ...model.numbers import mean
from ...store.rows import PairRow
from ...store.text import one_line
from ..baseline.resolve import Resolved
from ..pairing import match_agents
from ..sides import Key, Side, doubled, side, two_tasks
from . import words
from .judge import gravest, judge

_CHANCE = "baseline:random"
"""Beginning of the label of an agent whose score is the chance score."""

_OF_ENDED = {JobStatus.BUDGET: ExitStatus.BUDGET_SPENT, JobStatus.PAUSED: ExitStatus.PAUSED}
"""Exit statuses of jobs that are not whole. All others are invalid."""


class Judged(NamedTuple):
    """Result of the gates of a job."""

    report: GateReport
    status: int
    """Exit status of the gates alone."""
    has_gates: bool = True
    """True if there are gates; else only reasons to call the job invalid were looked for."""

    @property
    def shown(self) -> GateReport | None:
        """The report; None without gates and without problems, where an `ok` would mean nothing."""
        return self.report if self.has_gates or self.report.verdict is not GateVerdict.OK else None


def judge_job(
    record: JobRecord,
    rows: Iterable[PairRow],
    config: GateConfig,
    baseline: Resolved | None,
    *,
    at: datetime.datetime,
    only: str | None = None,
    where: str = "",
    wrong: str | None = None,
    notes: Iterable[str] = (),
) -> Judged:
    """Judge the trials of a job that has ended.

    An incomplete job (cancelled, stopped by `-x`, out of time or money) is `invalid`: the missing trials might have
    changed the verdict. The report has the known results nevertheless. A job of a part of its benchmarks is judged by
    that part: scenarios that were not selected do not count as removed.

    `rows` are all trials of the job. `baseline` is None if none is configured. `only` is the label of the one agent to
    judge. `where` is the option by which commands find the results directory. `wrong` is why the rows are not those
    that the job ended with, and `notes` are about them.

    Raises InputError: the job has not ended.
    """
    if not record.status.ended:
        raise InputError(f"job {record.id} is {record.status.value}; it can be judged when it has ended")
    rows = list(rows)
    missing = (record.planned or 0) - len(rows)
    twice = doubled(rows)
    whole = record.status is JobStatus.COMPLETED and missing <= 0 and not twice and wrong is None
    if only is not None:
        rows = [row for row in rows if row.agent == only]
    under_test, chance = _without_chance(rows)
    now, fresh = _sides(record, under_test)
    partial = record.partial or not whole
    select = functools.partial(_selected, now=now, partial=partial, record=record)
    before, left_out = select(baseline)
    judged = functools.partial(judge, now, job=record.id, at=at, where=where, random=chance)
    missing_baseline = baseline.missing if baseline is not None else None
    rules = config if config.anchor is None else _halved(config)
    report = judged(before, rules, baseline_missing=missing_baseline, rounds=record.rounds, fresh=fresh)
    if baseline is not None and (anchor := baseline.anchor) is not None:
        older, _ = select(anchor)
        report = _anchored(report, judged(older, _of_anchor(rules), baseline_missing=anchor.missing), config)
    notes = [*notes, *report.notes]
    if baseline is not None:
        notes = [*baseline.notes, *notes, *_same_samples(under_test, baseline)]
    notes += left_out.notes(partial=record.partial, whole=whole)
    if record.config.shard is not None:
        notes.append(
            f"only shard {record.config.shard} is judged; `benchjobs merge --as-job NAME` makes the whole job"
        )
    report = report.model_copy(update={"notes": tuple(notes)})
    status = of_gate(report)
    if whole:
        return Judged(report, status, config.any)
    status = first_of(_OF_ENDED.get(record.status, ExitStatus.INVALID), status)
    why = f"invalid: {two_tasks(twice)}" if twice else _why_not_whole(record, missing, wrong)
    return Judged(_invalid(report, why), status, config.any)


def broken_gate(record: JobRecord, config: GateConfig, error: Exception, *, at: datetime.datetime) -> Judged:
    """Report that judging failed, so that the job does not count as good."""
    report = GateReport(
        job=record.id,
        at=at,
        baseline=config.baseline,
        policy=config.policy,
        verdict=GateVerdict.INVALID,
        why=f"invalid: the job could not be judged: {one_line(str(error) or type(error).__name__, 500)}",
    )
    return Judged(report, ExitStatus.INVALID)


def _halved(config: GateConfig) -> GateConfig:
    """Return the gates with half of alpha for each of the two baselines."""
    rules = [
        rule if rule.floor else rule.model_copy(update={"level": (1 + rule.level) / 2})
        for rule in config.rules
    ]
    return config.model_copy(update={"rules": tuple(rules)})


def _of_anchor(config: GateConfig) -> GateConfig:
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


def _anchored(report: GateReport, older: GateReport, config: GateConfig) -> GateReport:
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


def _sides(record: JobRecord, rows: Iterable[PairRow]) -> tuple[Side, Side | None]:
    """Return the configured attempts, and the fresh ones of `--bench-confirm`; None if the job makes none."""
    attempts: list[PairRow] = []
    fresh: list[PairRow] = []
    for row in rows:
        beyond = row.attempt > record.config.of(row.benchmark).attempts
        (fresh if beyond else attempts).append(row)
    now = side(record.id, [(record.id, attempts)], [record])
    return now, side(record.id, [(record.id, fresh)]) if record.config.gate.confirm else None


def _same_samples(rows: Sequence[PairRow], baseline: Resolved) -> Iterable[str]:
    """Note how many results cannot differ: those reused from a job of the baseline are the baseline's own."""
    jobs = () if baseline.side is None else baseline.side.jobs
    same = sum(row.reused in jobs for row in rows if row.reused is not None)
    if same:
        of = f"{same} of {len(rows)} results" if len(rows) > 1 else "the result"
        yield f"{of} {'is' if len(rows) == 1 else 'are'} reused from the baseline: they cannot show a change"


def _without_chance(rows: Sequence[PairRow]) -> tuple[Sequence[PairRow], dict[str, float]]:
    """Return the trials of agents under test, and the chance score by benchmark.

    An agent `baseline:random` beside others is only a yardstick, and passes or fails no gate.
    """
    rest = [row for row in rows if not row.agent.startswith(_CHANCE)]
    if not rest or len(rest) == len(rows):
        return rows, {}
    scores: dict[str, list[float]] = {}
    for row in rows:
        if row.agent.startswith(_CHANCE) and row.outcome in ("passed", "failed"):
            scores.setdefault(row.benchmark, []).append(row.score or 0.0)
    return rest, {benchmark: mean(each) for benchmark, each in scores.items()}


def _selected(
    baseline: Resolved | None, *, now: Side, partial: bool, record: JobRecord
) -> tuple[Side | None, _LeftOut]:
    """Return the part of a baseline to compare with, and the number of its scenarios that were not requested.

    Where scenarios were selected, only those in the job count; where benchmarks were named, only these; agents whose
    trials were all deselected do not count. Where nothing would be left, the whole baseline is returned, and the gate
    reports it.
    """
    before = None if baseline is None else baseline.side
    if before is None:
        return None, _LeftOut()
    scenarios = {key[:2] for key in now.cells}
    benchmarks = {benchmark for benchmark, _ in scenarios}
    back = {old: new for new, old in match_agents(before, now).items()}

    def counts(key: Key) -> bool:
        if not partial:
            return key[0] in benchmarks or not record.named
        if key[2] not in back:
            return key[:2] in scenarios and not {key[2], "*"} & {*record.unselected_agents}
        return (*key[:2], back[key[2]]) in now.cells

    kept = {key: cell for key, cell in before.cells.items() if counts(key)}
    if not any(key[2] in back for key in kept):
        return before, _LeftOut()
    dropped = before.cells.keys() - kept.keys()
    left_out = _LeftOut(
        scenarios=len({key[:2] for key in dropped if key[2] in back}),
        agents=tuple(sorted({key[2] for key in dropped if key[2] not in back})) if partial else (),
    )
    return dataclasses.replace(before, cells=kept), left_out


class _LeftOut(NamedTuple):
    """What the job was not to run of its baseline."""

    scenarios: int = 0
    agents: tuple[str, ...] = ()

    def notes(self, *, partial: bool, whole: bool) -> Iterable[str]:
        if self.scenarios:
            how = f"{'was' if self.scenarios == 1 else 'were'} not selected"
            if not whole:
                how = f"{how}, or did not run" if partial else "did not run"
            yield f"{self.scenarios} of the baseline's scenarios {how}"
        if self.agents:
            named = words.names(self.agents)
            yield f"{'agents' if len(self.agents) > 1 else 'agent'} {named} of the baseline: no trial was selected"


def _invalid(report: GateReport, why: str) -> GateReport:
    """Return the report of an incomplete job: invalid, with the verdict on what ran as its first note."""
    notes = report.notes
    if report.verdict is not GateVerdict.OK:
        notes = (f"what ran is {report.why}", *notes)
    return report.model_copy(update={"verdict": GateVerdict.INVALID, "why": why, "notes": notes})


def _why_not_whole(record: JobRecord, missing: int, wrong: str | None) -> str:
    if wrong is not None and missing <= 0:
        return f"invalid: job {record.id}: {wrong}"
    if record.status is JobStatus.COMPLETED:
        return f"invalid: {missing} of the job's {record.planned} results are gone"
    why = f": {one_line(record.message, 300)}" if record.message else ""
    if missing > 0:
        return f"invalid: the job is {record.status.value}, {missing} of {record.planned} trials did not run{why}"
    return f"invalid: the job is {record.status.value}{why or ', its process died'}"
