"""`report.json`: a job and all its results, without logs, for programs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from pydantic_core import PydanticSerializationError

from ..analysis.verdict import verdicts
from ..model.gate import GateReport
from ..model.job import JobRecord
from ..model.result import TrialResult
from ..store.bundle import sound, stored
from .known import known_records
from .summary import by_agent, totals

SCHEMA_VERSION = 2
_LOGS: Any = {"scorers": {"__all__": {"output"}}, "failure": {"detail"}}


def report_json(record: JobRecord, results: Sequence[TrialResult], gate: GateReport | None = None) -> bytes:
    """The whole file, UTF-8."""
    told = verdicts(results, record.config)
    content = {
        "schema_version": SCHEMA_VERSION,
        "job": stored(record).model_dump(mode="json"),
        "totals": totals(results).model_dump(mode="json"),
        "policy": str(record.config.attempt_policy),
        "agents": [dataclasses.asdict(row) for row in by_agent(told)],
        "known": known_records(sound(result) for result in told if result.known is not None),
        "gates": [] if gate is None else [gate.model_dump(mode="json")],
    }
    head = json.dumps(content, indent=1).removesuffix("\n}")
    # A line each, written by pydantic: indented by the standard library, 10,000 results take a second.
    lines = ",\n  ".join(map(_line, results))
    return f'{head},\n "results": [\n  {lines}\n ]\n}}\n'.encode()


def _line(result: TrialResult) -> str:
    try:
        return result.model_dump_json(by_alias=True, exclude=_LOGS)
    except (PydanticSerializationError, UnicodeError):
        return sound(result).model_dump_json(by_alias=True, exclude=_LOGS)
