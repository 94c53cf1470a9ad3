"""Document of `cancel`."""

from __future__ import annotations

from ...model.job import JobStatus, Totals
from . import Document


class CancelDocument(Document):
    """`benchjobs cancel`: how the job stands now."""

    job: str
    name: str | None
    status: JobStatus
    """Still `running` when its end was not waited for, or not long enough."""
    changed: bool
    """False: it had ended before."""
    planned: int | None
    totals: Totals
