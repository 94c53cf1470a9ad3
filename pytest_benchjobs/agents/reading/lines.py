"""An agent's log as events: JSON objects, one per line, among other output."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

LINE_LIMIT = 2 << 20
"""The most bytes of a line; longer lines are not parsed."""
_TRIES = 8
_GAP = re.compile(rb"\[\.\.\. (\d{1,15}) bytes left out \.\.\.\]\s*")


@dataclasses.dataclass(frozen=True, slots=True)
class Noise:
    """A line that is not an event."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Gap:
    """A missing part of the log."""

    bytes: int


Event = Mapping[str, Any]
_DECODER = json.JSONDecoder(parse_constant=lambda _name: None)


def events(file: BinaryIO) -> Iterator[Event | Noise | Gap]:
    """Events of a log, in order. An event is an object with a text `type`.

    Raises:
        OSError: it cannot be read.
    """
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
