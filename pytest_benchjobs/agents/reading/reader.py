"""Reading a log once, from beginning to end, into a trajectory and an ending. Never raises.

Its events are JSON objects, one per line, among other output.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from ...model.ending import Ending
from ...store.text import one_line
from ..protocol import AgentReading
from .endings import ending_of
from .trajectory import Trajectory

LINE_LIMIT = 2 << 20
"""The most bytes of a line; longer lines are not parsed."""
_TRIES = 8
_GAP = re.compile(rb"\[\.\.\. (\d{1,15}) bytes left out \.\.\.\]\s*")
_MESSAGE_LIMIT = 500
_TELLING = re.compile(r"error|fatal|panic|cannot|failed|denied|not found|invalid|missing", re.IGNORECASE)

Event = Mapping[str, Any]
_DECODER = json.JSONDecoder(parse_constant=lambda _name: None)
Said = tuple[Ending | None, str | None]
"""Ending of the agent, and a message about it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Noise:
    """A line that is not an event."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Gap:
    """A missing part of the log."""

    bytes: int


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
    reader: Callable[[Trajectory], Reader],
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


def events(file: BinaryIO) -> Iterator[Event | Noise | Gap]:
    """Events of a log, in order. An event is an object with a text `type`. Raises OSError: it cannot be read."""
    while line := file.readline(LINE_LIMIT):
        if len(line) == LINE_LIMIT and not line.endswith(b"\n"):
            yield Gap(len(line) + _rest(file))
        elif gap := _GAP.fullmatch(line):
            yield Gap(int(gap[1]))
        else:
            yield from _in_line(line.decode("utf-8", "replace").rstrip("\r\n"))


def _rest(file: BinaryIO) -> int:
    """Bytes up to the end of the line."""
    size = 0
    while piece := file.readline(LINE_LIMIT):
        size += len(piece)
        if piece.endswith(b"\n"):
            break
    return size


def _in_line(line: str) -> Iterator[Event | Noise]:
    """Events of a line: output of another stream may stand before, between or after them."""
    position = start = 0
    for _ in range(_TRIES):
        start = line.find('{"', start)
        if start < 0:
            break
        try:
            found, end = _DECODER.raw_decode(line, start)
        except (ValueError, RecursionError):
            start += 2
            continue
        if isinstance(found, dict) and isinstance(found.get("type"), str):
            if before := line[position:start].strip():
                yield Noise(before)
            yield found
            position = end
        start = end
    if after := line[position:].strip():
        yield Noise(after)
