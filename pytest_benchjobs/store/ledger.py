"""Ledger of a running job: its spending on models so far, which survives a kill."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from pydantic import ValidationError

from ..model.usage import Usage
from .layout import JobLayout


def note(ledger: Path, spent: Usage) -> None:
    """Write the ledger, atomically. Never raises: a full disk must not fail a model call. A power cut may lose it."""
    aside = f"{ledger}.tmp"
    with contextlib.suppress(OSError):
        with open(aside, "w", encoding="utf-8") as file:  # noqa: PTH123  after each answer of a model
            file.write(spent.model_dump_json())
        os.replace(aside, ledger)  # noqa: PTH105


def noted(root: Path) -> Usage:
    """Read the ledger of the bundle at `root`; empty if there is none. Never raises."""
    try:
        return Usage.model_validate_json(JobLayout(root).spent.read_bytes())
    except (OSError, ValidationError):
        return Usage()


def close(root: Path) -> None:
    """Remove the ledger, which is in `job.json` from here on. Never raises."""
    ledger = JobLayout(root).spent
    for path in (ledger, Path(f"{ledger}.tmp")):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
