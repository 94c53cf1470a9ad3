"""`report.json`: a job and all its results for programs, without logs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from ..analysis.verdict import verdicts
from ..model.gate import GateReport
from ..model.job import JobRecord
from ..model.result import TrialResult
from ..store.bundle import stored
from ..store.layout import RESULT
from ..store.outline import Outline, whole
from ..store.totals import totals
from ..store.trials import sound
from .known_failures import known_records
from .summary import by_agent, by_category

SCHEMA_VERSION = 2
_OF_SCORERS = frozenset({"output", "definition"})
_LOGS: Any = {"scorers": {"__all__": _OF_SCORERS}, "failure": {"detail"}}


def report_json(
    record: JobRecord,
    results: Sequence[TrialResult],
    gate: GateReport | None = None,
    root: Path | None = None,
) -> Iterator[bytes]:
    """Yield the file in parts, UTF-8. Whole results of outlines are read from the bundle at `root` one by one."""
    told = verdicts(results, record.config)
    content = {
        "schema_version": SCHEMA_VERSION,
        "job": stored(record).model_dump(mode="json", by_alias=True),
        "totals": totals(results).model_dump(mode="json"),
        "policy": str(record.config.attempt_policy),
        "agents": [dataclasses.asdict(row) for row in by_agent(told)],
        "categories": [dataclasses.asdict(row) for row in by_category(told)],
        "known": known_records(sound(result) for result in told if result.known is not None),
        "gates": [] if gate is None else [gate.model_dump(mode="json")],
    }
    head = json.dumps(content, indent=1).removesuffix("\n}")
    # One line for each result, by pydantic: the standard library's indentation of 10,000 results takes a second.
    yield f'{head},\n "results": ['.encode()
    for number, result in enumerate(results):
        yield b",\n  " if number else b"\n  "
        line = _stored(root, result) if root is not None and isinstance(result, Outline) else None
        yield line or _line(result)
    yield b"\n ]\n}\n"


def _line(result: TrialResult) -> bytes:
    try:
        return result.model_dump_json(by_alias=True, exclude=_LOGS).encode()
    except (PydanticSerializationError, UnicodeError):
        return sound(result).model_dump_json(by_alias=True, exclude=_LOGS).encode()


def _stored(root: Path, result: TrialResult) -> bytes | None:
    """Return the line of a result from its file, which was checked with its outline; None if it is gone since."""
    try:
        with open(f"{root}/{result.path}/{RESULT}", "rb") as file:  # noqa: PTH123  there are many of them
            content = from_json(file.read(), allow_inf_nan=False)
        if content["schema_version"] != result.schema_version or result.schema_version != SCHEMA_VERSION:
            return _line(whole(root, result))
        for scorer in content["scorers"]:
            for key in _OF_SCORERS:
                scorer.pop(key, None)
        if content["failure"] is not None:
            content["failure"].pop("detail", None)
        return to_json(content)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
