"""Document of `check`."""

from __future__ import annotations

from ...analysis.soundness import Verdict
from ...model.base import Model
from . import Document


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
