"""Output of `run --detach`."""

from __future__ import annotations

from ...model.job import JobStatus
from . import Document


class DetachDocument(Document):
    """A job that was just started in the background."""

    job: str
    name: str | None = None
    status: JobStatus
    """`initializing` until pytest has found out what there is to run."""
    planned: int | None = None
    """Trials, once that is known."""
    agent_timeout: float | None = None
    """Seconds; None: each scenario's own, else 7200."""
    message: str | None = None
    """Reason why it failed at once."""
    pid: int
    directory: str
    """The files of the job."""
    log: str
    """Log with the output of pytest."""
