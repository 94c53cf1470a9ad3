"""What a scorer is: a finished trial in, a number within [0, 1] out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from ..model.scenario import Scenario, ScorerSpec
from ..model.usage import Usage
from ..sandbox.protocol import ExecResult, Sandbox


@dataclasses.dataclass(frozen=True, slots=True)
class ScoringContext:
    """All a scorer may look at. The agent is gone; its sandbox is still there."""

    scenario: Scenario
    spec: ScorerSpec
    sandbox: Sandbox
    timeout: float
    """Seconds this scorer may take."""
    env: Mapping[str, str]
    directory: Path
    """Host directory for what the scorer wants to keep."""
    agent_log: Path
    usage: Usage
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Of the job (`--bench-extra`, `--bench-param`, `--bench-matrix`), also as JSON in `$BENCH_PARAMS`."""
    printed: list[str] = dataclasses.field(default_factory=list)
    """What its commands have printed so far, for whoever wants to know why there is no score."""

    def run(self, command: str, *, timeout: float | None = None) -> tuple[ExecResult, str]:
        """Run a shell command in the sandbox; returns how it ended and the tail of what it printed."""
        from .commands import run_shell

        return run_shell(self, command, timeout=timeout)


@dataclasses.dataclass(frozen=True, slots=True)
class Graded:
    """A score, with what a reader may want to know about it."""

    score: float
    output: str = ""
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class Scorer(Protocol):
    """A kind of scorer: `(context) -> float or Graded`. Raise an InfrastructureError where there is no score."""

    def __call__(self, context: ScoringContext, /) -> float | Graded:
        """Grade."""
