"""Running a scorer's commands in the sandbox."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ..model.errors import OutOfMemory, ScorerCrashed, ScorerTimeout
from ..sandbox.protocol import ExecResult, File
from ..store.text import clean

if TYPE_CHECKING:
    from .protocol import ScoringContext

OUTPUT_LIMIT = 64 * 1024
_SHELL = 'if command -v bash >/dev/null 2>&1; then exec bash -c "$1"; else exec sh -c "$1"; fi'
_SIGNALLED = 128
_SCRIPT_FILE = "/bench/scorer.sh"
_ARGUMENT_LIMIT = 100_000
"""Bytes; Linux takes no argument longer than 128 KiB."""


class Tail:
    """A sink that keeps the last `limit` bytes."""

    def __init__(self, limit: int = OUTPUT_LIMIT) -> None:
        self._limit = limit
        self._chunks: deque[bytes] = deque()
        self._size = 0

    def __call__(self, chunk: bytes) -> None:
        """Take a chunk."""
        self._chunks.append(chunk)
        self._size += len(chunk)
        while self._size - len(self._chunks[0]) >= self._limit:
            self._size -= len(self._chunks.popleft())

    def text(self) -> str:
        """What was kept, safe to show."""
        return clean(b"".join(self._chunks)[-self._limit :].decode("utf-8", "replace"), self._limit)


def run_shell(
    context: ScoringContext,
    command: str,
    *,
    timeout: float | None = None,
    signals_matter: bool = True,
    stdout: Tail | None = None,
) -> tuple[ExecResult, str]:
    """Run a shell command of a scorer in the workdir; returns how it ended and the tail of its output.

    `stdout` takes standard output once more, without what the command wrote to standard error.

    Raises:
        ScorerTimeout: it did not end in time.
        OutOfMemory: the kernel killed part of it.
        ScorerCrashed: a signal killed it, if `signals_matter`.

    """
    script = command.encode("utf-8", "replace")
    if len(script) > _ARGUMENT_LIMIT:
        context.sandbox.put([File(_SCRIPT_FILE, content=script, clean=True)])
        command = f"if command -v bash >/dev/null 2>&1; then exec bash {_SCRIPT_FILE}; else exec sh {_SCRIPT_FILE}; fi"
    limit = context.timeout if timeout is None else timeout
    tail = Tail()
    result = context.sandbox.exec(
        ("/bin/sh", "-c", _SHELL, "sh", command),
        timeout=limit,
        sink=tail,
        stdout=stdout,
        user=context.spec.user,
        env=context.env,
    )
    context.printed.append(tail.text())
    name = context.spec.name
    if result.timed_out or result.exit_status is None:
        raise ScorerTimeout(f"scorer {name!r} did not end within {limit:g} s. {_last(tail.text())}")
    if result.oom_kills:
        raise OutOfMemory(f"the container ran out of memory while scorer {name!r} graded it")
    if signals_matter and result.exit_status > _SIGNALLED:
        raise ScorerCrashed(
            f"scorer {name!r} was killed by signal {result.exit_status - _SIGNALLED}. {_last(tail.text())}"
        )
    return result, tail.text()


def _last(output: str) -> str:
    lines = output.strip().splitlines()
    return f"Its last line: {lines[-1][:200]}" if lines else "It printed nothing"
