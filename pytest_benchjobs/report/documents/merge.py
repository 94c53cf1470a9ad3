"""The document of `merge`."""

from __future__ import annotations

from typing import Literal

from ...model.base import Model
from . import Document


class MergedJob(Model):
    """Fate of a job that came in."""

    job: str
    """Its id; of one that cannot be read the name of its directory, of a history its path."""
    name: str | None
    action: Literal["added", "updated", "unchanged", "refused"]
    trials: int
    """That it has here now; of a refused one, that it has where it comes from."""
    message: str | None
    """Reason why it was refused."""


class MergedJUnit(Model):
    """The JUnit file that was written."""

    path: str
    files: int
    """That were merged."""
    cases: int


class MergeDocument(Document):
    """`benchjobs merge`."""

    directory: str | None
    """Directory of the jobs now; None when only JUnit files were merged."""
    jobs: tuple[MergedJob, ...]
    problems: tuple[str, ...]
    """Files that were left out, and why."""
    junit: MergedJUnit | None
