"""Directories that tell that nothing of an image was touched, so that the engine need not look through all of it.

On overlay file systems a container's changes are in a layer of its own, which is nearly empty at first. The first
change below a directory of the image copies that directory into the layer, and with it all directories above: an entry
is made in the lowest directory that was in the layer already, whose inode changes by that. So as long as the inodes of
those that are in the layer at the start do not change, nothing below them was changed, added or deleted. `first`
compares them; what it says costs two short calls, where the engine's list of changes takes a walk through the image.

Directories that are changed by every agent, and from which nothing is loaded, are left out: `free`. They have to be in
the layer from the start, or else they would change the root. In doubt the engine is asked.
"""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Iterable

from ..loading import Places, directories_above, is_below

_DRIVERS = frozenset({"overlay2", "overlayfs"})
"""As the engine calls file systems that copy directories up: of others nothing is known."""
_FREE = ("/tmp", "/run", "/bench", "/logs")  # noqa: S108
_MOST = 40


@dataclasses.dataclass(frozen=True, slots=True)
class Watched:
    """Directories of one container; none where in doubt."""

    directories: tuple[str, ...] = ()
    free: tuple[str, ...] = ()


NOTHING = Watched()


def watched(driver: str, places: Places, paths: Iterable[str]) -> Watched:
    """The directories to watch in a container.

    Args:
        driver: What keeps the layers of its image, in the engine's words.
        places: Where its programs load from.
        paths: What is put or mounted into it before it starts, all absolute.
    """
    workdir = places.workdir
    free = tuple(dict.fromkeys((*_FREE, workdir) if workdir else _FREE))
    homes = (home for home in places.homes if not workdir or not is_below(home, (workdir,)))
    loading = (*places.programs, *places.prefixes, *places.ways, *homes)
    if driver not in _DRIVERS or any(is_below(place, free) for place in loading):
        return NOTHING
    found = dict.fromkeys(["/"])
    for path in (*paths, *map(posixpath.dirname, free)):
        found |= dict.fromkeys(one for one in (path, *directories_above(path)) if not is_below(one, free))
    if workdir:
        # A history is part of the answer, as `outside` has it.
        found[f"{workdir}/.git"] = None
    return Watched(tuple(found), free) if len(found) + len(free) <= _MOST else NOTHING
