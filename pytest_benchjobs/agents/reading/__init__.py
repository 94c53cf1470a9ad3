"""Readers of an agent's output: its ending and its steps."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from pathlib import Path

from ..protocol import AgentReading

_READERS = {
    "claude-code": ("claude_code", "ClaudeCode"),
    "codex": ("codex", "Codex"),
    "gemini-cli": ("gemini_cli", "GeminiCli"),
    "goose": ("goose", "Goose"),
    "model": ("own", "Own"),
    "opencode": ("opencode", "OpenCode"),
}
"""Format -> module and class; imported when a log is read."""
FORMATS = tuple(_READERS)
"""Known formats of output, named after their agents."""


def reader_of(
    format: str,  # noqa: A002
    *,
    agent: str | None = None,
    version: str | None = None,
    model: str | None = None,
) -> Callable[[Path, Path], AgentReading] | None:
    """Return the function that reads a log (first path) and writes the trajectory (second); None: unknown format.

    `agent` (default: named like the format), its `version` and the `model` are for the trajectory's first line.
    """
    if format not in _READERS:
        return None
    return functools.partial(_read, format, agent or format, version, model)


def _read(
    format: str,  # noqa: A002
    agent: str,
    version: str | None,
    model: str | None,
    log: Path,
    trajectory: Path,
) -> AgentReading:
    from .reader import read_log

    module, name = _READERS[format]
    reader = getattr(importlib.import_module(f".{module}", __name__), name)
    return read_log(log, trajectory, reader=reader, agent=agent, version=version, model=model)
