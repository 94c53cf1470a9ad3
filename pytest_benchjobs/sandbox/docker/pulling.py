"""Pulling and pushing images, and hearing what the engine says of something that takes long.

A registry that cannot be reached now, wants to be left alone for a while, or breaks off in the middle may do better in
a moment, so it is asked again, with growing pauses. One that has answered before is asked for minutes, and so is one
that says that it is asked too often: not before the time it names. Any other is given some seconds: there may be no
network.

Once that did not help for one image, the registry is asked once for each further image, until it answers again: a
machine without a network waits once, and no image is given up because of another one.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from typing import Any

import docker
import docker.errors
from docker.utils import parse_repository_tag

from ...model.errors import DiskFull
from .dockerfile import canonical
from .engine import Engine
from .library import BROKEN
from .registry import asked_to_wait
from .words import DISK_FULL, NOT_GIVEN, TOO_OFTEN

_Call = Callable[[docker.APIClient], Iterator[dict[str, Any]]]
Check = Callable[[], object]
"""Called several times a second while an image is waited for; it raises once the image is not needed any more."""

LOOK = 0.2
_PAUSES = (1.0, 2.0, 4.0, 8.0)
_LONG_PAUSES = (*_PAUSES, 15.0, *(30.0,) * 19)
"""Of a registry that has answered before: ten minutes."""
_LONGEST_WISH = 900.0
"""Seconds that a registry may ask for before it is asked again."""
# A registry that is out of reach must not hold up what can be built instead; one that is slow may take its time.
_FIRST_WORD = 30.0
_NO_PROGRESS = 300.0


class Refused(Exception):
    """The engine's, or the registry's, own words."""


class Unreachable(Refused):
    """The registry did not answer, or not to the end, or wants to be left alone. It may have the image."""


class Registries:
    """Pulls and pushes images, with patience for registries that do not answer. Thread-safe.

    `turn` waits for a turn to do so, which is given back while a registry is left alone; told what to call meanwhile.
    """

    def __init__(self, engine: Engine, turn: Callable[[Check], AbstractContextManager[None]]) -> None:
        self._engine = engine
        self._turn = turn
        self._answered: set[str] = set()
        self._silent: set[str] = set()
        """Those that somebody has waited for in vain, since they answered last."""
        self._closed: dict[str, float] = {}
        """Times before which registries do not want to be asked."""

    def pull(self, name: str, check: Check, *, patient: bool = True) -> None:
        """Pull an image, and wait for it. `patient`: also for a registry that has not answered so far.

        It is `Unreachable` if the registry stays so, `Refused` if it does not give the image, `DiskFull` if there is
        no room for it.
        """
        repository, tag = parse_repository_tag(name)
        try:
            self._ask(
                name,
                lambda client: client.pull(repository, tag=tag or "latest", stream=True, decode=True),
                check,
                patient=patient,
            )
        except Refused as error:
            if not isinstance(error, Unreachable) and str(error) in DISK_FULL:
                raise DiskFull(
                    f"image {name} cannot be pulled, the Docker Engine's disk is full: {error}"
                ) from error
            raise

    def push(self, image: str, name: str, check: Check) -> str:
        """Push the image with this id under a name, unless it is there; return the name by digest.

        Raises what `pull` raises, but for `DiskFull`. It needs a name of its own on the engine, which `name` is not
        afterwards.
        """
        repository, tag = parse_repository_tag(name)
        digest = _digest(self._engine, name, check)
        if digest is None:
            self._engine.client.tag(image, repository, tag)
            try:
                lines = self._ask(
                    name, lambda client: client.push(repository, tag=tag, stream=True, decode=True), check
                )
            finally:
                self.untag(name)
            digest = next(
                (line["aux"]["Digest"] for line in lines if "Digest" in (line.get("aux") or {})), None
            )
            if digest is None:
                raise Refused("the Docker Engine does not say what came of it")
        return f"{repository}@{digest}"

    def untag(self, name: str) -> None:
        """Take a name from an image that has others."""
        found = self._engine.get(f"/images/{name}/json")
        if found is not None and len(found.get("RepoTags") or ()) > 1:
            self._engine.client.remove_image(name)

    def _ask(self, name: str, call: _Call, check: Check, *, patient: bool = True) -> list[dict[str, Any]]:
        """Return what the engine says while it pulls or pushes, which is done once it succeeds."""
        registry = canonical(name).partition("/")[0]
        for tried in itertools.count():
            while (left := self._closed.get(registry, 0.0) - time.monotonic()) > 0:
                rest(min(left, 1.0), check)
            lines: list[dict[str, Any]] = []
            with self._turn(check):
                why = _carry(self._engine, call, check, lines)
            # How a connection broke is not for the words of registries: a JSON text that ends early is "invalid", too.
            words = "" if isinstance(why, Unreachable) else str(why)
            too_often = words in TOO_OFTEN
            if why is not None and words in DISK_FULL:
                raise why
            if why is None or (words in NOT_GIVEN and not too_often):
                self._answered.add(registry)
                self._silent.discard(registry)
                self._closed.pop(registry, None)
                if why is None:
                    return lines
                raise why
            pauses: tuple[float, ...] = _PAUSES if patient else ()
            if too_often or registry in self._answered:
                pauses = _LONG_PAUSES
            if tried >= len(pauses) or registry in self._silent:
                if pauses or patient:
                    self._silent.add(registry)
                raise Unreachable(str(why))
            if too_often and (wish := asked_to_wait(name)) is not None:
                self._closed[registry] = time.monotonic() + min(wish, _LONGEST_WISH)
            rest(pauses[tried], check)
        raise AssertionError("unreachable")


def rest(seconds: float, check: Check) -> None:
    """Sleep, and call `check` meanwhile."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        check()
        time.sleep(min(LOOK, left))
    check()


def hear(
    engine: Engine,
    call: _Call,
    check: Check,
    *,
    deadline: float = math.inf,
    first: float | None = None,
    silent: float = math.inf,
) -> Generator[dict[str, Any], None, None]:
    """Yield what the engine says while it works on `call`. Closing the generator closes the connection, which ends it.

    `first` is how many seconds there may be until the first line, `silent` until each further one; after that, or at
    `deadline`, it is a `TimeoutError`. Whatever `call` raises comes out here.
    """
    news: queue.SimpleQueue[dict[str, Any] | BaseException | None] = queue.SimpleQueue()
    with engine.apart() as client:

        def listen() -> None:
            try:
                for line in call(client):
                    news.put(line)
                news.put(None)
            except Exception as error:  # of a connection closed under it, too: whatever it is, it is the end
                news.put(error)

        threading.Thread(target=listen, name="bench-engine", daemon=True).start()
        limit = min(deadline, time.monotonic() + (silent if first is None else first))
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
                limit = min(deadline, time.monotonic() + silent)
                yield line
            if time.monotonic() >= limit:
                raise TimeoutError


def _carry(engine: Engine, call: _Call, check: Check, said: list[dict[str, Any]]) -> Refused | None:
    """Pull or push once, and note what the engine says of it; why that failed, if it did."""
    lines = hear(engine, call, check, silent=_NO_PROGRESS, first=_FIRST_WORD)
    try:
        with contextlib.closing(lines):
            for line in lines:
                if "error" in line:
                    return Refused(str(line["error"]))
                if "aux" in line:
                    said.append(line)
    except TimeoutError:
        limits = f"within {_FIRST_WORD:g} s, or not for {_NO_PROGRESS:g} s"
        return Unreachable(f"the registry did not answer {limits}")
    except docker.errors.DockerException as error:
        return Refused(str(getattr(error, "explanation", None) or error))
    except (*BROKEN, OSError) as error:
        return Unreachable(f"the connection with the Docker Engine broke: {error}")
    return None


def _digest(engine: Engine, name: str, check: Check) -> str | None:
    """Return the digest that a registry has for a name; None: it has none, or does not say."""

    def ask(client: Any) -> Iterator[dict[str, Any]]:
        yield client.inspect_distribution(name)

    lines = hear(engine, ask, check, silent=_FIRST_WORD)
    broken = (*BROKEN, docker.errors.DockerException, OSError, KeyError)
    with contextlib.suppress(*broken), contextlib.closing(lines):
        return next((str(line["Descriptor"]["digest"]) for line in lines), None)
    return None
