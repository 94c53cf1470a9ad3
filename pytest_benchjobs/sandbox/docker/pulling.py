"""Pulling an image, and hearing what the engine says of something that takes long.

A registry that cannot be reached now may be there in a moment, so it is asked again, with growing pauses. Once that
did not help for one image, the registry is asked once for each further image, until it answers again: a machine without
a network waits once, and no image is given up because of another one.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import docker
import docker.errors
from docker.utils import parse_repository_tag

from ...model.errors import DiskFull
from .dockerfile import canonical
from .engine import Engine, disk_is_full
from .library import ERRORS

Check = Callable[[], object]
"""Called several times a second by whatever waits for an image; it raises where nobody wants that any more."""

LOOK = 0.2
_PAUSES = (1.0, 2.0, 4.0, 8.0)
# A registry that is out of reach must not hold up what can be built instead; one that is slow may take its time.
_FIRST_WORD = 30.0
_WHOLE_PULL = 1800.0
_UNREACHABLE = (
    "no such host", "dial tcp", "i/o timeout", "timeout exceeded", "connection refused", "network is unreachable",
    "tls handshake", "temporary failure", "server misbehaving", "connection reset", "unexpected eof", ": eof",
    "deadline exceeded", "broken pipe", "request canceled", "no route to host", "internal server error",
    "bad gateway", "service unavailable", "gateway timeout", "status: 5", "did not answer",
)  # fmt: skip


class Refused(Exception):
    """The engine's, or the registry's, own words."""


class Registries:
    """Pulls images, with patience for registries that do not answer. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._silent: set[str] = set()
        """Those that somebody has waited for in vain, since they answered last."""

    def pull(self, name: str, check: Check, *, patient: bool = True) -> None:
        """Pull an image, and wait for it; one that is not `patient` asks once.

        Raises:
            Refused: the registry does not have it, or stays out of reach.
            DiskFull: there is no room for it.
            library.BROKEN: the connection to the engine broke.
        """
        registry = canonical(name).partition("/")[0]
        pauses = iter(_PAUSES if patient and registry not in self._silent else ())
        while True:
            why = _pull(self._engine, name, check)
            if why is not None and disk_is_full(why):
                raise DiskFull(f"image {name} cannot be pulled, the Docker Engine's disk is full: {why}")
            if why is None or not _out_of_reach(why):
                self._silent.discard(registry)
                if why is None:
                    return
                raise Refused(why)
            pause = next(pauses, None)
            if pause is None:
                if patient:
                    self._silent.add(registry)
                raise Refused(why)
            rest(pause, check)


def rest(seconds: float, check: Check) -> None:
    """Sleep, and call `check` meanwhile."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        check()
        time.sleep(min(LOOK, left))
    check()


def hear(
    engine: Engine,
    call: Callable[[docker.APIClient], Iterator[dict[str, Any]]],
    check: Check,
    *,
    deadline: float,
    first: float | None = None,
) -> Generator[dict[str, Any], None, None]:
    """Yield what the engine says while it works on `call`. Whoever stops listening hangs up, and it gives up.

    `first` is how many seconds there may be until the first line.

    Raises:
        TimeoutError: it did not end by `deadline`, or said nothing at all.
        library.ERRORS, OSError: the engine refuses, or the connection broke.
    """
    news: queue.SimpleQueue[dict[str, Any] | BaseException | None] = queue.SimpleQueue()
    with engine.apart() as client:

        def listen() -> None:
            try:
                for line in call(client):
                    news.put(line)
                news.put(None)
            # Of a connection closed under it, too.
            except (*ERRORS, OSError, ValueError, AttributeError) as error:
                news.put(error)

        threading.Thread(target=listen, name="bench-engine", daemon=True).start()
        limit = deadline if first is None else min(deadline, time.monotonic() + first)
        while True:
            check()
            try:
                line = news.get(timeout=LOOK)
            except queue.Empty:
                line = {}
            if line is None:
                return
            if isinstance(line, BaseException):
                raise line
            if line:
                limit = deadline
                yield line
            if time.monotonic() >= limit:
                raise TimeoutError


def _pull(engine: Engine, name: str, check: Check) -> str | None:
    """Pull once; why that failed, if it did."""
    repository, tag = parse_repository_tag(name)
    lines = hear(
        engine,
        lambda client: client.pull(repository, tag=tag or "latest", stream=True, decode=True),
        check,
        deadline=time.monotonic() + _WHOLE_PULL,
        first=_FIRST_WORD,
    )
    try:
        with contextlib.closing(lines):
            for line in lines:
                if "error" in line:
                    return str(line["error"])
    except TimeoutError:
        return f"the registry did not answer within {_FIRST_WORD:g} s"
    except docker.errors.DockerException as error:
        return str(getattr(error, "explanation", None) or error)
    return None


def _out_of_reach(reason: str) -> bool:
    low = reason.lower()
    return any(sign in low for sign in _UNREACHABLE)
