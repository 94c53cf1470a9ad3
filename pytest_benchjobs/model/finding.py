"""A check of this machine, or of an engine: what was found, and how to mend it."""

from __future__ import annotations

from enum import StrEnum

from .base import Model


class Health(StrEnum):
    """Result of one check of `doctor`."""

    OK = "ok"
    PROBLEM = "problem"
    SKIPPED = "skipped"
    """The check cannot be made from here; `found` says why."""


class Finding(Model):
    """One check of `doctor`."""

    check: str
    health: Health
    found: str
    cure: str | None = None
    """How to fix a problem, if possible a command."""


def ok(check: str, found: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(check=check, health=Health.OK, found=found)


def problem(check: str, found: str, cure: str) -> Finding:
    """Return a problem and its cure."""
    return Finding(check=check, health=Health.PROBLEM, found=found, cure=cure)


def skipped(check: str, found: str) -> Finding:
    """Return a check that cannot be made from here."""
    return Finding(check=check, health=Health.SKIPPED, found=found)
