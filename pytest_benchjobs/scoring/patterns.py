"""Regular expressions of authors, matched in processes of their own, which can be ended.

A pattern that backtracks takes hours, and meanwhile Python's `re` lets no other thread run: no other trial, no signal.
So another process matches it, for one thread at a time, and is killed when the time is up. It is kept for the next
pattern: starting one takes 20 ms, asking it a tenth of one.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import json
import math
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from ..model.environ import program_environment
from ..model.errors import ScorerCrashed, ScorerTimeout

_PROGRAM = Path(__file__).with_name("pattern_program.py")
_SECONDS = 60.0
"""Time for a pattern outside of `limited`."""
_LONGEST = 1_000_000.0
"""The longest wait in seconds: that of `poll` ends at 2**31 ms."""
_KEPT = 4
"""The most idle processes."""


class _Matcher:
    """A process that matches patterns."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=program_environment(),
            start_new_session=True,
        )

    def ask(self, request: Mapping[str, Any], seconds: float) -> Mapping[str, Any] | None:
        """Return its answer; None: it gave none in time, or was ended."""
        question, answers = self._process.stdin, self._process.stdout
        assert question is not None and answers is not None  # noqa: S101, PT018  asked for
        until = {"seconds": math.ceil(seconds) + 1}
        poll = select.poll()
        poll.register(answers, select.POLLIN)
        with contextlib.suppress(BrokenPipeError):
            question.write(json.dumps({**request, **until}).encode() + b"\n")
            question.flush()
            if poll.poll(seconds * 1000) and (line := answers.readline()).endswith(b"\n"):
                return dict(json.loads(line))
        return None

    def kill(self) -> None:
        """End it, from any thread."""
        self._process.kill()

    def close(self) -> None:
        """End it, and release what it holds here."""
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]  # both were asked for
        self._process.wait()


_idle: list[_Matcher] = []
_lock = threading.Lock()


@dataclasses.dataclass(slots=True)
class _Limit:
    """Time for the patterns of one scorer."""

    who: str
    seconds: float
    ends: float
    matcher: _Matcher | None = None
    ended: bool = False

    @property
    def is_over(self) -> bool:
        """Return whether no pattern may be matched any more."""
        return self.ended or time.monotonic() >= self.ends

    def end(self) -> None:
        """End the pattern that is being matched, and let none begin."""
        self.ended = True
        if (matcher := self.matcher) is not None:
            matcher.kill()


_limit: ContextVar[_Limit | None] = ContextVar("limit", default=None)


@contextlib.contextmanager
def limited(who: str, seconds: float) -> Iterator[Callable[[], None]]:
    """Let the patterns inside take these seconds together. What is yielded ends them, from another thread."""
    limit = _Limit(who, seconds, time.monotonic() + seconds)
    token = _limit.set(limit)
    try:
        yield limit.end
    finally:
        _limit.reset(token)


def search(pattern: str, text: str, flags: int = 0) -> bool:
    """Return whether a pattern is found in a text. ScorerTimeout: the time is up. ScorerCrashed: it cannot be done."""
    return bool(_ask({"pattern": pattern, "flags": int(flags), "text": text, "replacement": None}))


def substitute(pattern: str, replacement: str, text: str) -> str:
    """Return a text with all matches of a pattern replaced. Raises as `search` does."""
    return str(_ask({"pattern": pattern, "flags": 0, "text": text, "replacement": replacement}))


def _ask(request: Mapping[str, Any]) -> object:
    limit = _limit.get() or _Limit("a scorer", _SECONDS, time.monotonic() + _SECONDS)
    # Twice: an idle process may have been killed.
    answer = _answer(request, limit) or _answer(request, limit)
    if answer is None and limit.is_over:
        # Without the pattern, which may tell the right answer.
        raise ScorerTimeout(f"{limit.who}: a regular expression did not end within {limit.seconds:g} s")
    if answer is None or "error" in answer:
        why = "its process ended" if answer is None else answer["error"]
        raise ScorerCrashed(f"{limit.who}: a regular expression cannot be matched: {why}")
    return answer["found"]


def _answer(request: Mapping[str, Any], limit: _Limit) -> Mapping[str, Any] | None:
    if limit.is_over:
        return None
    with _lock:
        matcher = _idle.pop() if _idle else None
    limit.matcher = matcher = matcher or _Matcher()
    answer = None
    try:
        if not limit.is_over:
            answer = matcher.ask(request, min(limit.ends - time.monotonic(), _LONGEST))
    finally:
        limit.matcher = None
        with _lock:
            if keep := answer is not None and not limit.ended and len(_idle) < _KEPT:
                _idle.append(matcher)
        if not keep:
            matcher.close()
    return answer


@atexit.register
def close() -> None:
    """End the idle processes."""
    with _lock:
        matchers = [*_idle]
        _idle.clear()
    for matcher in matchers:
        matcher.close()
