"""Files of containers in which agents work: listed before and after, to see what was done outside of the workdir."""

from __future__ import annotations

import dataclasses
import os
import posixpath
import struct
import threading
from collections.abc import Mapping
from typing import Protocol

from ...model.errors import EnvironmentFailed, Ungradable
from ...model.result import ImageRecord
from ..carry.compare import Listing, ends_of
from ..carry.evidence import changed_since
from ..program import PROGRAM
from ..protocol import SandboxSpec
from .running import Executes, run_program

_MOST = 256 << 20
_PATIENCE = 120.0
_REMEMBERED = 64 << 20
"""Most bytes of listings, which have about 70 for each file."""


class Container(Executes, Protocol):
    """A running container with our program."""

    image: ImageRecord

    def clock(self) -> tuple[float, float]:
        """Return when it was created, or a little earlier, and the time now, or a little later, by its own clock."""


class Untouched:
    """Listings of containers before their agents, of the last images and set-ups. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listings: dict[object, tuple[bytes, Mapping[int, int]]] = {}

    def of(self, key: object, container: Executes) -> tuple[bytes, Mapping[int, int]]:
        """Return a listing, and where its directories end: what is remembered, or that of this container."""
        if (found := self._listings.get(key)) is None:
            listing = list_all(container)
            found = listing, ends_of(listing)
            with self._lock:
                self._listings[key] = found
                while sum(len(one) for one, _ in self._listings.values()) > _REMEMBERED:
                    del self._listings[next(iter(self._listings))]
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class Watched:
    """State of files before the agent."""

    listing: bytes
    ends: Mapping[int, int]
    created: float
    since: float
    """Times by the container's clock."""

    @classmethod
    def begin(cls, known: Untouched, container: Container, spec: SandboxSpec) -> Watched:
        """Look at a container, or at what is known of others that began with the same files."""
        key = container.image.id, spec.environment.setup, tuple(file.path for file in spec.files)
        return cls(*known.of(key, container), *container.clock())

    def changed(self, container: Container, workdir: str) -> tuple[str, ...]:
        """Return what differs now outside of the workdir.

        Raises:
            Ungradable: the listing makes no sense.
            EnvironmentFailed, InfrastructureError: there is none.
        """
        now = list_all(container, "-s", str(int(self.created)))
        without = tuple(map(os.fsencode, (posixpath.normpath(workdir), posixpath.dirname(PROGRAM))))
        try:
            found = changed_since(Listing(self.listing, self.ends), now, self.since, without)
        except (struct.error, IndexError) as error:
            raise Ungradable("the list of the container's files is damaged") from error
        return tuple(path.decode("utf-8", "backslashreplace") for path in found)


def list_all(container: Executes, *options: str) -> bytes:
    """List the files of a container. Raises EnvironmentFailed: our program does not come to its end."""
    status, listing = run_program(container, "walk", *options, str(_MOST), "/", timeout=_PATIENCE)
    if status != 0:
        raise EnvironmentFailed(f"the container's files cannot be listed: exit status {status}")
    return listing
