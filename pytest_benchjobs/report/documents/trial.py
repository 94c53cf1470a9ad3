"""The document of `show`."""

from __future__ import annotations

from ...model.base import Model
from ...model.result import TrialResult
from . import Document


class AgentCommand(Model):
    """A tool call of the agent, from its trajectory."""

    step: int
    tool: str
    command: str
    """The shell command, else the arguments, in one line."""
    output: str | None
    """End of the tool's output, in one line."""


class LogEnd(Model):
    """Last lines of a log."""

    title: str
    lines: tuple[str, ...]


class TrialFile(Model):
    """A file of the trial."""

    path: str
    """Relative to the directory of the trial."""
    bytes: int


class ShowDocument(Document):
    """`benchjobs show`."""

    result: TrialResult
    job_name: str | None
    statement: str | None
    """The task as the benchmark has it now. null: the benchmark is not here, or it is confidential."""
    commands: tuple[AgentCommand, ...]
    """The last commands, in order."""
    commands_left_out: int
    """Number of earlier commands."""
    logs: tuple[LogEnd, ...]
    directory: str | None
    """Directory of its files; null: they are gone."""
    files: tuple[TrialFile, ...]
    files_left_out: int
