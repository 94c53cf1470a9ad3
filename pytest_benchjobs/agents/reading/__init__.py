"""What an agent's output tells: how it ended, and what it did."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from ..protocol import AgentReading
from .claude_code import ClaudeCode
from .codex import Codex
from .gemini_cli import GeminiCli
from .goose import Goose
from .opencode import OpenCode
from .own import Own
from .reader import Reader, read_log
from .trajectory import Trajectory

_READERS: dict[str, Callable[[Trajectory], Reader]] = {
    "claude-code": ClaudeCode,
    "codex": Codex,
    "gemini-cli": GeminiCli,
    "goose": Goose,
    "model": Own,
    "opencode": OpenCode,
}
FORMATS = tuple(_READERS)
"""Formats of output that are understood, named after the agents that print them."""


def reader_of(
    format: str,  # noqa: A002
    *,
    agent: str | None = None,
    version: str | None = None,
    model: str | None = None,
) -> Callable[[Path, Path], AgentReading] | None:
    """What reads a log of this format (first path) and writes the trajectory (second path); None: unknown format.

    `agent` (default: named like the format), its `version` and the `model` are for the trajectory's first line.
    """
    reader = _READERS.get(format)
    if reader is None:
        return None
    return functools.partial(read_log, reader=reader, agent=agent or format, version=version, model=model)
