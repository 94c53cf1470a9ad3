"""Documents of `cancel`, `recover`, `check` and `doctor`."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from ...analysis.soundness import Verdict
from ...model.base import Model
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


class CheckProblem(Model):
    """A problem of a scenario."""

    agent: str
    attempt: int | None
    """None: it is about all of them together."""
    expected: str
    found: str
    files: str | None
    """The trial's directory, with its log and what its scorers said."""


class CheckedScenario(Model):
    """A scenario and its verdict."""

    benchmark: str
    scenario: str
    validation: str
    verdict: Verdict
    problems: tuple[CheckProblem, ...]
    advice: str | None = None
    """Advice that would make a sound scenario better."""


class CheckDocument(Document):
    """`benchjobs check`."""

    directory: str | None
    """Directory of the results; None: nothing was wrong, and they were removed."""
    attempts: int
    ok: bool
    scenarios: tuple[CheckedScenario, ...]


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
