"""Outlines: results of many trials with the fields that reports and gates need. The whole result stays in its file.

20,000 whole results take half a gigabyte, most of it phases, scorers and their output.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..model.base import trusted
from ..model.errors import InputError
from ..model.result import Signature, TrialResult
from ..model.usage import Usage
from .trials import read_result

WHOLE = 1000
"""Number of trials up to which results are kept whole."""
_NO_USAGE = Usage()


class Outline(TrialResult):
    """A result without phases, scorers, steps, artifacts, notes and the agent's end; `path` leads to the whole."""


_OUTLINE = set(Outline.model_fields)
_SIGNATURE = set(Signature.model_fields)


def outlined(results: Iterable[TrialResult], *, details: bool = False) -> list[TrialResult]:
    """List the results of a job: whole ones where they are few, else outlines.

    `details` keeps the last lines of output of failures, which a verdict of several attempts shows.
    """
    found: list[TrialResult] = []
    outline = _Outlines(details)
    for result in results:
        found.append(result if len(found) < WHOLE else outline(result))
        if len(found) == WHOLE + 1:
            found = [*map(outline, found[:WHOLE]), found[WHOLE]]
    return found


def whole(root: Path, result: TrialResult) -> TrialResult:
    """Read the whole result of an outline, from the bundle at `root`. An outline whose file is gone stays one."""
    if isinstance(result, Outline):
        with contextlib.suppress(InputError):
            return read_result(root / result.path)
    return result


class _Outlines:
    """Maker of outlines that share equal values."""

    def __init__(self, details: bool) -> None:
        self._details = details
        self._shared: dict[Any, Any] = {}
        self._agents: dict[str, Any] = {}

    def __call__(self, result: TrialResult) -> TrialResult:
        if not result.path:
            return result  # it has no file
        failure = result.failure
        if failure is not None and failure.detail is not None and not self._details:
            failure = failure.model_copy(update={"detail": None})
        agent = self._agents.setdefault(result.agent.label, result.agent)
        image = result.image
        return trusted(
            Outline,
            {
                **result.__dict__,
                "job": self._share(result.job),
                "benchmark": self._share(result.benchmark),
                "benchmark_version": self._share(result.benchmark_version),
                "agent": agent if agent == result.agent else result.agent,
                "failure": failure,
                "scorers": (),
                "agent_end": None,
                "usage": _NO_USAGE if result.usage == _NO_USAGE else result.usage,
                "phases": (),
                "image": image if image is not None and image.substituted else None,
                "signature": self._signature(result.signature),
                "tags": self._share(result.tags),
                "cluster": self._share(result.cluster),
                "category": self._share(result.category),
                "steps": (),
                "artifacts": (),
                "notes": (),
            },
            _OUTLINE,
        )

    def _signature(self, signature: Signature | None) -> Signature | None:
        if signature is None:
            return None
        parts = {self._share(name): self._share(digest) for name, digest in signature.parts.items()}
        return trusted(Signature, {"value": signature.value, "parts": parts}, _SIGNATURE)

    def _share(self, value: Any) -> Any:
        return self._shared.setdefault(value, value)
