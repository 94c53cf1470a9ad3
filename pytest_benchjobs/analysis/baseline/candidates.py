"""Jobs that can be a baseline: completed, with the same benchmarks and agents, and few errors."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator
from pathlib import Path

from ...model.job import JobRecord, JobStatus
from ...store.checked import checked
from ...store.reader import HistoryReader
from ...store.reproducibility import head, is_ancestor
from ..sides import gone_of

MAX_ERRORS = 0.05
"""Largest share of a job's attempts that may have ended in an error."""
_LOOKED_AT = 500
"""Number of newest jobs of a history that are looked at."""
_CONSIDERED = 50
"""Number of partly fitting jobs looked at beyond those requested: a better one is hardly among the rest."""
_LEAST_SHARED = 0.5
"""Smallest share of the scenarios that a baseline must have."""


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """A job that may be a baseline, and how well it fits."""

    record: JobRecord
    same_agent: bool
    """True if it has all agents by their labels; false if some are missing, or have another model or version."""
    same_benchmarks: bool
    """True if it has all benchmarks; false if it has some."""
    whole: bool
    """True if it ran all scenarios of its benchmarks, or is known to have enough of the requested ones."""

    @property
    def fits(self) -> bool:
        """True if no candidate can be better."""
        return all(self.rank)

    @property
    def dirty(self) -> bool:
        """True if it ran with changes that were not committed."""
        return bool(_git(self.record).get("dirty"))

    @property
    def rank(self) -> tuple[bool, bool, bool]:
        """Sort key: the greater, the better the job fits."""
        return self.same_agent, self.same_benchmarks, self.whole


@dataclasses.dataclass(frozen=True, slots=True)
class Chosen:
    """Ids of jobs, the newest first, and notes about the choice."""

    jobs: tuple[str, ...]
    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Criteria:
    """Benchmarks, agents and scenarios of a job, as far as they are known."""

    benchmarks: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    scenarios: frozenset[tuple[str, str]] = frozenset()


def why_unfit(history: HistoryReader, job: str) -> str | None:
    """Return why a job should not be a baseline, in a few words; None if it may be one."""
    record = history.job(job)
    if record is None:
        return "it is not in the history"
    if not record.status.ended:
        return f"it is still {record.status.value}"
    if record.status is not JobStatus.COMPLETED:
        return f"it did not complete: {record.status.value}"
    return _errors_of(history, record) or checked(history, job).wrong


def _errors_of(history: HistoryReader, record: JobRecord) -> str | None:
    """Return an objection to a job with too many errors; None if it may be a baseline."""
    runs = history.runs(record.id)
    gone = gone_of(record, sum(run.ended for run in runs))
    if gone is not None:
        return gone
    errors = sum(run.error for run in runs)
    attempts = errors + sum(run.passed + run.failed for run in runs)
    if not attempts:
        return "it has no trial that passed or failed"
    if errors == attempts:
        return "all its attempts ended in an error"
    if errors > MAX_ERRORS * attempts:
        return f"{errors} of its {attempts} attempts ended in an error"
    return None


def last_job(history: HistoryReader, job: JobRecord | None, benchmarks: Collection[str] = ()) -> Chosen:
    """Return the last job before this one with the same benchmarks and agents; without a job, the last of all.

    A job with exactly these agents and all benchmarks is preferred to a later one with only some. `benchmarks` names
    those that the job is going to run, while the history has no trial of it.
    """
    notes: list[str] = []
    best: Candidate | None = None
    for candidate in itertools.islice(_fitting(history, job, benchmarks, notes), _CONSIDERED):
        if best is None or candidate.rank > best.rank:
            best = candidate
        if candidate.fits:
            break
    if best is None:
        return Chosen((), tuple(notes))
    return Chosen((best.record.id,), (*notes, *_compromises(best)))


def with_earlier(history: HistoryReader, job: JobRecord, pool: int) -> Chosen:
    """Return a job and the earlier ones that can be pooled with it, `pool` jobs in all."""
    notes: list[str] = []
    alike = (one.record.id for one in _fitting(history, job, (), notes) if one.fits)
    jobs = (job.id, *itertools.islice(alike, pool - 1))
    if len(jobs) < pool:
        notes.append(f"only {len(jobs)} of {pool} jobs: no other job has the same benchmarks and agents")
    return Chosen(jobs, tuple(notes))


def branch_jobs(
    history: HistoryReader,
    branch: str,
    pool: int,
    root: Path,
    job: JobRecord | None,
    benchmarks: Collection[str] = (),
) -> Chosen:
    """Return the last jobs of a git branch, at most `pool` of them.

    Jobs of clean commits that are ancestors of the current one are preferred. The repository is around `root`; `job`
    and `benchmarks` are as for `last_job`.
    """
    commit = head(root) if job is None else _git(job).get("commit")
    notes: list[str] = []
    known: dict[str, bool | None] = {}

    def descends(candidate: Candidate) -> bool | None:
        theirs = _git(candidate.record).get("commit")
        if not (isinstance(theirs, str) and isinstance(commit, str)):
            return None
        if theirs not in known:
            known[theirs] = theirs == commit or is_ancestor(root, theirs, commit)
        return known[theirs]

    found: list[Candidate] = []
    perfect = 0
    fitting = _fitting(history, job, benchmarks, notes, branch)
    for candidate in itertools.islice(fitting, _CONSIDERED + pool):
        found.append(candidate)
        perfect += candidate.fits and not candidate.dirty and descends(candidate) is not False
        if perfect == pool:
            break
    best = max((candidate.rank for candidate in found), default=None)
    found = [candidate for candidate in found if candidate.rank == best]
    chosen = [candidate for candidate in found if not candidate.dirty] or found
    if chosen and chosen[0].dirty:
        notes.append(f"all jobs of branch {branch} ran with uncommitted changes")
    chosen = [candidate for candidate in chosen if descends(candidate)] or chosen
    if chosen and all(descends(candidate) is False for candidate in chosen):
        since = str(commit)[:12]
        notes.append(f"no job of branch {branch} is on an ancestor of {since}; the latest is used")
    jobs = tuple(candidate.record.id for candidate in chosen[:pool])
    if jobs and len(jobs) < pool:
        notes.append(f"only {len(jobs)} of {pool} jobs: branch {branch} has no more matching jobs")
    return Chosen(jobs, (*notes, *(_compromises(chosen[0]) if chosen else ())))


def _fitting(
    history: HistoryReader,
    job: JobRecord | None,
    benchmarks: Collection[str],
    notes: list[str],
    branch: str | None = None,
) -> Iterator[Candidate]:
    """Yield those of the newest jobs that share benchmarks and agents with a job; note jobs with too many errors.

    They are earlier than that job, unless they are of another branch.
    """
    criteria = _criteria(history, job, benchmarks)
    for record in itertools.islice(history.completed(branch), _LOOKED_AT):
        if job is not None:
            in_line = branch is None or _git(job).get("branch") == branch
            later = (record.created_at, record.id) > (job.created_at, job.id)
            if record.id == job.id or (in_line and later):
                continue
        candidate = _candidate(history, record, criteria)
        if candidate is None:
            continue
        problem = _errors_of(history, record)
        if problem is not None:
            notes.append(f"job {record.id} was left out: {problem}")
            continue
        yield candidate


def _criteria(history: HistoryReader, job: JobRecord | None, benchmarks: Collection[str]) -> _Criteria:
    if job is None:
        return _Criteria(frozenset(benchmarks))
    runs = history.runs(job.id)
    labels = {run.agent for run in runs}
    ran = frozenset(run.benchmark for run in runs)
    if not job.status.ended:  # more will come
        return _Criteria(
            ran.union(benchmarks), frozenset(labels.union(agent.label for agent in job.config.agents))
        )
    scenarios = frozenset((row.benchmark, row.scenario) for row in history.paired_rows(job.id))
    return _Criteria(ran, frozenset(labels), scenarios)


def _candidate(history: HistoryReader, record: JobRecord, criteria: _Criteria) -> Candidate | None:
    runs = history.runs(record.id)
    benchmarks = {run.benchmark for run in runs}
    labels = {run.agent for run in runs}
    if criteria.benchmarks and not benchmarks & criteria.benchmarks:
        return None
    if criteria.labels and not set(map(_name, labels)) & set(map(_name, criteria.labels)):
        return None
    whole = not record.partial
    if criteria.scenarios:
        here = {(row.benchmark, row.scenario) for row in history.paired_rows(record.id)}
        if len(here & criteria.scenarios) < _LEAST_SHARED * len(criteria.scenarios):
            return None
        whole = whole or criteria.scenarios <= here
    return Candidate(record, criteria.labels <= labels, criteria.benchmarks <= benchmarks, whole)


def _name(label: str) -> str:
    """Return the agent's name in a label."""
    return label.partition(":")[0].partition("@")[0].partition(",")[0]


def _compromises(candidate: Candidate) -> Iterator[str]:
    if not candidate.same_agent:
        yield f"job {candidate.record.id} has not all agents; those of the same name are compared"
    if not candidate.same_benchmarks:
        yield f"job {candidate.record.id} has not all benchmarks"
    if not candidate.whole:
        yield f"job {candidate.record.id} ran only a part of its benchmarks"


def _git(record: JobRecord) -> dict[str, object]:
    """Return the facts about git in a job's record, which is untrusted."""
    found = record.reproducibility.get("git")
    return found if isinstance(found, dict) else {}
