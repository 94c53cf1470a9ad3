"""Stored results from Python: `pytest_benchjobs.open("reports")`.

    import pytest_benchjobs as benchjobs

    store = benchjobs.open("reports")
    for job in store.jobs():                    # the newest first; read as they are asked for
        print(job.id, job.status, job.mean_score)
    job = store.job("last")
    for trial in job.trials(outcomes=["failed"]):
        print(trial.scenario, trial.score, trial.result().failure)
    frame = pandas.DataFrame(job.table())       # or polars.DataFrame

Nothing stays open between two reads: jobs may run meanwhile, and files may go.
"""

from __future__ import annotations

from pathlib import Path

from .stored import Job, Rows, Run, Store, Trial

__all__ = ["Job", "Rows", "Run", "Store", "Trial", "open"]


def open(directory: Path | str = "reports") -> Store:  # noqa: A001  the name people will look for
    """Results in a directory: where `--bench-dir` points, `reports/` unless told otherwise.

    Raises InputError: there are none, or a newer version of this package wrote them.
    """
    return Store(Path(directory))
