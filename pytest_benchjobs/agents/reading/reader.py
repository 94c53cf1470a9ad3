"""Reading a log once, from beginning to end, into a trajectory and an ending. Never raises."""

from __future__ import annotations

import contextlib
import re
from abc import ABC, abstractmethod
from pathlib import Path

from ...model.ending import Ending
from ...store.text import one_line
from ..protocol import AgentReading
from .endings import ending_of
from .lines import Event, Gap, Noise, events
from .trajectory import Trajectory

_MESSAGE_LIMIT = 500
_TELLING = re.compile(r"error|fatal|panic|cannot|failed|denied|not found|invalid|missing", re.IGNORECASE)

Said = tuple[Ending | None, str | None]
"""Ending of the agent, and a message about it."""


class Reader(ABC):
    """Reader of one agent's events, which writes a trajectory."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._trajectory = trajectory
        self._said: Said | None = None

    @abstractmethod
    def event(self, event: Event) -> None:
        """Read one event, of any shape."""

    def end(self) -> Said | None:
        """Ending and message; None when the final event is missing."""
        return self._said


def failed(message: str, status: int | None = None) -> Said:
    """The ending of an agent that reports an error."""
    return ending_of(message, status) or Ending.CRASHED, message


def read_log(
    log: Path,
    trajectory: Path,
    *,
    reader: type[Reader],
    agent: str,
    version: str | None = None,
    model: str | None = None,
) -> AgentReading:
    """Read `log` and write `trajectory`.

    Without a final event, exit status and score decide if the agent has crashed: some programs lose the content of
    their pipe when they end. A trajectory that cannot be written is left out, because the reading counts.
    """
    try:
        with trajectory.open("wb") as file:
            written = Trajectory(file, agent, version, model)
            ending, message = _read(log, reader(written), written)
            message = one_line(message, _MESSAGE_LIMIT) if message else None
            return AgentReading(ending, message, written.finish(ending, message), written.last_message)
    except OSError as error:
        ending, message = None, f"the agent's log could not be read: {error.strerror}"
    except Exception as error:
        # Output that confuses the reader must be the agent's failure, not an error of ours.
        ending, message = Ending.CRASHED, f"its output cannot be parsed: {type(error).__name__}"
    with contextlib.suppress(OSError):
        trajectory.unlink(missing_ok=True)
    return AgentReading(ending, message)


def _read(log: Path, reader: Reader, trajectory: Trajectory) -> Said:
    telling = last = ""
    with log.open("rb") as file:
        for item in events(file):
            if isinstance(item, Gap):
                trajectory.say("system", f"[... {item.bytes} bytes of the log are left out ...]")
            elif isinstance(item, Noise):
                last = item.text[:1000]
                if _TELLING.search(last):
                    telling = last
            else:
                reader.event(item)
    said = reader.end()
    if said is not None:
        return said
    words = telling or last
    missing = "it ended without its final event"
    return Ending.NO_LAST_WORD, f"{missing}; its last output: {words}" if words else missing
