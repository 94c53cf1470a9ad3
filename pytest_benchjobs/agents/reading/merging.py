"""One trajectory of several: those of the steps of a trial, in their order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...system.cutting import beginning_of
from .trajectory import BYTE_LIMIT, STEP_LIMIT
from .values import added

_LINE_LIMIT = 4 << 20
_CALL = re.compile(r"^call-(\d+)$")
_NOTES = 4000


def merge_trajectories(parts: Iterable[Path], target: Path) -> None:
    """Write the steps of several trajectories into one, numbered from the first to the last.

    Raises OSError: one cannot be read, or the result cannot be written.
    """
    merged = _Merged()
    with target.open("wb") as file:
        for part in parts:
            merged.begin_part()
            with part.open("rb") as lines:
                while line := lines.readline(_LINE_LIMIT):
                    if (written := merged.line(line)) is not None:
                        file.write(json.dumps(written, separators=(",", ":")).encode() + b"\n")
        file.write(json.dumps(merged.footer(), separators=(",", ":")).encode() + b"\n")


class _Merged:
    """Numbers and totals of the lines so far."""

    def __init__(self) -> None:
        self._has_header = False
        self._steps = self._bytes = self._left_out = 0
        self._calls = self._before = 0
        """The highest number of a call, and that of all earlier parts."""
        self._totals: dict[str, Any] = {}
        self._notes: list[str] = []

    def begin_part(self) -> None:
        self._before = self._calls

    def line(self, text: bytes) -> dict[str, Any] | None:
        """Return a line to write; None for one that is part of the footer, or left out."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(found, dict):
            return None
        if "final_metrics" in found:
            self._end_part(found)
            return None
        if "step_id" not in found:
            first, self._has_header = not self._has_header, True
            return found if first else None
        if self._steps >= STEP_LIMIT or self._bytes + len(text) > BYTE_LIMIT:
            self._left_out += 1
            return None
        self._steps += 1
        self._bytes += len(text)
        return self._numbered(found)

    def _numbered(self, step: dict[str, Any]) -> dict[str, Any]:
        step["step_id"] = self._steps
        results = (step.get("observation") or {}).get("results") or ()
        for item, key in (
            *((call, "tool_call_id") for call in step.get("tool_calls") or ()),
            *((result, "source_call_id") for result in results),
        ):
            match = _CALL.match(str(item.get(key)))
            if match is not None:
                number = self._before + int(match[1])
                self._calls = max(self._calls, number)
                item[key] = f"call-{number}"
        return step

    def _end_part(self, footer: dict[str, Any]) -> None:
        metrics = footer["final_metrics"]
        for name, value in (metrics if isinstance(metrics, dict) else {}).items():
            self._totals[name] = added(self._totals.get(name), value)
        self._notes.append(str(footer.get("notes", "")))

    def footer(self) -> dict[str, Any]:
        """Return the last line."""
        if self._left_out:
            self._notes.append(f"{self._left_out} more steps are left out")
        totals = {**self._totals, "total_steps": self._steps}
        return {"final_metrics": totals, "notes": beginning_of("\n".join(self._notes), _NOTES)}
