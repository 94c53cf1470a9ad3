"""The document of `show`."""

from __future__ import annotations

from ...model.base import Model
from ...model.result import TrialResult
from . import Document


class AgentCommand(Model):
    """A call of a tool by the agent, as its trajectory has it."""

    step: int
    tool: str
    command: str
    """In a line: the command of a shell, else the arguments."""
    output: str | None
    """End of what came back, in a line."""


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
    """The task as the benchmark has it now. None: the benchmark is not here, or it is confidential."""
    commands: tuple[AgentCommand, ...]
    """The last ones, in order."""
    commands_left_out: int
    """Commands before those."""
    logs: tuple[LogEnd, ...]
    directory: str | None
    """Directory of its files; None: they are gone."""
    files: tuple[TrialFile, ...]
    files_left_out: int
