"""Calls of models as one agent made them: a file beside the gateway, from which its conversation is made at its end.

Each call is a line of JSON with the sizes of what follows, the body of the request, and the answer as it came. Nothing
is redacted, so the file is in the gateway's own directory, which only this user may open, and is removed once it is
read.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

_FILE_LIMIT = 64 << 20
"""Bytes of a file; further calls are left out."""
_CALL_LIMIT = 10_000
"""Calls that one log writes; further ones are left out."""
_HEADER_LIMIT = 4096


@dataclasses.dataclass(frozen=True, slots=True)
class LoggedCall:
    """One call and its answer."""

    kind: str
    """`chat`, `responses`, `messages` or `generate`, as `gateway.wires.Kind` has them."""
    status: int
    """0: nobody waited for the answer."""
    cut: bool = False
    """The answer broke off."""
    tokens: tuple[int | None, int | None, int | None] = (None, None, None)
    """Input with what was cached, output, and cached."""
    cost: float | None = None
    """USD; None: unknown."""
    body: bytes = b""
    answer: bytes = b""


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class CallLog:
    """Writes the calls of a turn. Never raises: a conversation that cannot be shown is no reason to end an agent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = logged_bytes(path)
        self._written = 0
        self.left_out = 0
        """Calls that are not in the file."""

    def write(self, call: LoggedCall) -> None:
        """Add a call, unless the file is full."""
        sizes = {"body": len(call.body), "answer": len(call.answer)}
        about = dataclasses.asdict(dataclasses.replace(call, body=b"", answer=b"")) | sizes
        record = json.dumps(about).encode() + b"\n" + call.body + call.answer
        if self._size + len(record) > _FILE_LIMIT or self._written >= _CALL_LIMIT:
            self.left_out += 1
            return
        try:
            with open(self._path, "ab", opener=_private) as file:
                file.write(record)
            self._size += len(record)
            self._written += 1
        except OSError:
            self._size = _FILE_LIMIT  # a part of it may be there, behind which no call is found
            self.left_out += 1


def logged_bytes(path: Path) -> int:
    """Return the size of a file of calls; 0 while there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def logged_calls(file: BinaryIO) -> Iterator[LoggedCall]:
    """Read the calls of a file; a last one that is not whole is left out. OSError: it cannot be read."""
    while (header := file.readline(_HEADER_LIMIT)).endswith(b"\n"):
        about: dict[str, Any] = json.loads(header)
        sizes = about.pop("body"), about.pop("answer")
        body, answer = map(file.read, sizes)
        if (len(body), len(answer)) != sizes:
            return
        tokens = tuple(about.pop("tokens"))
        yield LoggedCall(**about, tokens=tokens, body=body, answer=answer)
