"""Reuse of results of earlier jobs, so that nothing is paid for twice.

A result is reused if its trial has the same signature and attempt number, actually ran, and passed or failed. Trials
that ended in an error, were cancelled or were themselves reused are ignored.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..model.errors import BenchError, InputError
from ..model.job import JobConfig, Keep
from ..model.result import Origin, Outcome, Signature, Trial, TrialResult
from ..store.bundle import JobBundle
from ..store.reader import HistoryReader
from ..store.rows import TrialRow
from ..store.trials import read_result
from ..trial.signature import signature

_REAL = (Outcome.PASSED.value, Outcome.FAILED.value)


class Reuse:
    """Finds results in the history of a results directory. Thread-safe.

    Raises:
        InputError: another version wrote the history.
    """

    def __init__(self, directory: Path, job_id: str, config: JobConfig) -> None:
        self._directory = directory
        self._job_id = job_id
        self._config = config
        self._history = HistoryReader.of(directory)
        self._lock = threading.Lock()
        self._roots: dict[str, Path] = {}
        """Directories of the bundles of earlier jobs, by id."""

    def close(self) -> None:
        """Close the history."""
        self._history.close()

    def decide(
        self, trial: Trial, parts: Mapping[str, str], image_key: str | None
    ) -> tuple[TrialResult | None, str]:
        """Return the result to reuse, as it would be in this job, and the reason in a line; None: the trial must run.

        `image_key` is None while the trial's image is unknown.

        Raises:
            InputError, InfrastructureError: the history cannot be read.
        """
        if image_key is None:
            return None, "its image is not on this machine yet, so it cannot be compared"
        own = signature(trial.scenario, parts, image_key)
        with self._lock:
            rows = [row for row in self._history.samples(own.value, trial.attempt) if row.job != self._job_id]
        real = [row for row in rows if row.outcome in _REAL]
        if self._config.rerun_errors and rows and rows[0].outcome == Outcome.ERROR:
            return None, f"its latest run, in job {rows[0].job}, ended in an error ({rows[0].class_})"
        if not real:
            return None, self._why_none(trial, own, rows)
        if self._config.rerun_failed and real[0].outcome == Outcome.FAILED:
            return None, f"it failed in job {real[0].job} ({real[0].class_})"
        if kept := [row for row in real if not self._lacks_kept(row)]:
            for row in kept:
                result = self._take_over(trial, row, own)
                if result is not None:
                    return result, f"{row.outcome} in job {row.job}"
            return None, f"its files in job {kept[0].job} are gone"
        return (
            None,
            f"nothing of it was kept in job {real[0].job}, and --bench-keep {self._config.keep} asks for it",
        )

    def _lacks_kept(self, row: TrialRow) -> bool:
        """Return whether the file system of a trial is to be kept, but was not."""
        wanted = self._config.keep is Keep.ALWAYS or (
            self._config.keep is Keep.FAILED and row.outcome == Outcome.FAILED
        )
        return wanted and row.kept is None

    def _take_over(self, trial: Trial, row: TrialRow, own: Signature) -> TrialResult | None:
        try:
            root = self._roots.get(row.job)
            if root is None:
                root = self._roots[row.job] = JobBundle(self._directory, row.job).root
            result = read_result(f"{root}/{row.path}")
        except BenchError:
            return None
        # The files are the truth, the history is an index.
        if result.signature is None or result.signature.value != own.value or result.outcome not in _REAL:
            return None
        origin = Origin(job=row.job, path=result.path, finished_at=result.finished_at)
        return result.model_copy(
            update={
                "job": self._job_id,
                "node_id": trial.node_id,
                "benchmark_version": trial.scenario.benchmark_version,
                "agent": trial.agent,
                "reused": origin,
                "rescored": None,
                "tags": trial.scenario.tags,
                "cluster": trial.scenario.cluster,
                "category": trial.scenario.category,
                "known": trial.known,
                "ran_because": None,
                "path": "",
            }
        )

    def _why_none(self, trial: Trial, own: Signature, rows: Sequence[TrialRow]) -> str:
        if rows:
            return f"it has no result yet: {rows[0].outcome} ({rows[0].class_}) in job {rows[0].job}"
        scenario = trial.scenario
        with self._lock:
            latest = self._history.latest(scenario.benchmark, scenario.id, trial.agent.label, trial.attempt)
        if latest is None:
            return "it has never run here"
        try:
            result = read_result(JobBundle(self._directory, latest.job).root / latest.path)
        except InputError:
            result = None
        if result is None or result.signature is None:
            return f"its result in job {latest.job} has no signature"
        before = result.signature.parts
        names = dict.fromkeys((*own.parts, *before))
        changed = [name for name in names if before.get(name) != own.parts.get(name)]
        return f"changed since job {latest.job}: {', '.join(changed)}"
