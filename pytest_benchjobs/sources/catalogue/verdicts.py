"""Verdicts of `benchmarks check`, stored beside the files of a benchmark."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from pydantic import ValidationError

from ...model.base import Model
from ...system.keeping import replace_file
from .entry import Entry

_NAME = "verdicts.json"


class Verdicts(Model):
    """Verdicts on the scenarios of a benchmark."""

    schema_version: int = 1
    checked_at: datetime.datetime
    """Time of the last check."""
    verdicts: dict[str, str]
    """Scenario -> verdict."""


def read_verdicts(entry: Entry) -> Verdicts | None:
    """Verdicts of a benchmark, if it was checked since it was fetched."""
    try:
        return Verdicts.model_validate_json((entry.directory / _NAME).read_bytes())
    except (OSError, ValidationError):
        return None


def keep_verdicts(entry: Entry, found: Mapping[str, str]) -> None:
    """Add verdicts to the stored ones. Raises OSError: the cache cannot be written."""
    before = read_verdicts(entry)
    record = Verdicts(
        checked_at=datetime.datetime.now(datetime.UTC),
        verdicts={**(before.verdicts if before is not None else {}), **found},
    )
    entry.directory.mkdir(parents=True, exist_ok=True)
    replace_file(entry.directory / _NAME, record.model_dump_json(indent=1).encode())
