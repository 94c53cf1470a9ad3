"""Pulling an image, without waiting for ever for a registry that says nothing."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any

import docker.errors
from docker.utils import parse_repository_tag

from .engine import Engine
from .library import ERRORS

# A registry that is out of reach must not hold up what can be built instead; one that is slow may take its time.
_FIRST_WORD = 30.0
_WHOLE_PULL = 1800.0


class Refused(Exception):
    """The engine's, or the registry's, own words."""


def pull(engine: Engine, name: str) -> None:
    """Pull an image, and wait for it.

    Raises:
        Refused: the registry does not have it, or is out of reach.
        TimeoutError: it says nothing.
        library.BROKEN: the connection to the engine broke.

    """
    try:
        _wait(engine, name)
    except docker.errors.DockerException as error:
        raise Refused(str(getattr(error, "explanation", None) or error)) from error


def _wait(engine: Engine, name: str) -> None:
    news: queue.SimpleQueue[dict[str, Any] | BaseException | None] = queue.SimpleQueue()
    repository, tag = parse_repository_tag(name)

    def listen() -> None:
        try:
            for line in engine.client.pull(repository, tag=tag or "latest", stream=True, decode=True):
                news.put(line)
            news.put(None)
        except (*ERRORS, OSError) as error:
            news.put(error)

    threading.Thread(target=listen, name="bench-pull", daemon=True).start()
    deadline = time.monotonic() + _WHOLE_PULL
    patience = _FIRST_WORD
    while True:
        try:
            line = news.get(timeout=min(patience, max(0.0, deadline - time.monotonic())))
        except queue.Empty:
            raise TimeoutError(f"the registry did not answer within {patience:g} s") from None
        if line is None:
            return
        if isinstance(line, BaseException):
            raise line
        if "error" in line:
            raise docker.errors.DockerException(line["error"])
        patience = _WHOLE_PULL
