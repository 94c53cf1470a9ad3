"""Document of `doctor`."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from ...model.base import Model
from . import Document


class Health(StrEnum):
    """Result of one check of `doctor`."""

    OK = "ok"
    PROBLEM = "problem"
    SKIPPED = "skipped"
    """It cannot be told from here; `found` says why."""


class Finding(Model):
    """One check of `doctor`."""

    check: str
    health: Health
    found: str
    cure: str | None = Field(default=None)
    """Remedy of a problem, if possible a command."""


class DoctorDocument(Document):
    """`benchjobs doctor`."""

    ok: bool
    findings: tuple[Finding, ...]
