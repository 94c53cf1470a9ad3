"""Choice of the images that are removed so that another one fits into what a job may take. Pure."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable


class Need(enum.IntEnum):
    """Need that trials have of an image, the least first."""

    NONE = 0
    COMING = 1
    """A trial of the job that has not begun."""
    RUNNING = 2
    """A trial that runs, a container, or another job: it stays."""


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """An image that the job brought."""

    id: str
    bytes: int
    used: float
    """Time at which it was used last."""
    need: Need = Need.NONE
    place: int = 0
    """Place of the first trial that will need it, in the order in which they run."""


def evictions(
    images: Iterable[Candidate], *, reserved: int, wanted: int, limit: int, ahead: bool
) -> tuple[Candidate, ...] | None:
    """Return what to remove so that `wanted` bytes more fit below the limit; None: they do not, whatever is removed.

    First goes what no trial needs, the least recently used first; then, but not for what is brought `ahead`, what is
    needed last.

    Args:
        images: All that the job brought.
        reserved: Bytes of what is being brought now.
        wanted: Bytes of what is to be brought.
        limit: Bytes for all of it.
        ahead: No trial waits for it yet.
    """
    found = list(images)
    over = sum(image.bytes for image in found) + reserved + wanted - limit
    unneeded = sorted((image for image in found if image.need is Need.NONE), key=lambda image: image.used)
    coming = sorted((image for image in found if image.need is Need.COMING), key=lambda image: -image.place)
    chosen: list[Candidate] = []
    for image in (*unneeded, *(() if ahead else coming)):
        if over <= 0:
            break
        chosen.append(image)
        over -= image.bytes
    return tuple(chosen) if over <= 0 else None
