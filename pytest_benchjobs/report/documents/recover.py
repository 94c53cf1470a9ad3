"""Document of `recover`."""

from __future__ import annotations

from ...model.base import Model
from . import Document


class RecoveredJob(Model):
    """A job for which something was done, and what."""

    job: str
    message: str


class RecoverDocument(Document):
    """`benchjobs recover`: what was closed."""

    recovered: tuple[RecoveredJob, ...]
    repaired: tuple[RecoveredJob, ...]
    """Jobs that had ended, and lacked something."""
    problems: tuple[str, ...]
    """Jobs that could not be closed, and why."""
