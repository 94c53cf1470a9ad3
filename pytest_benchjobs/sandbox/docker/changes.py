"""What differs from the image in a container, as the engine knows it: nothing inside is asked."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

import docker

from ..paths import directories_above
from ..protocol import Changed

_CHANGED, _ADDED, _DELETED = 0, 1, 2


def changes_of(client: docker.APIClient, container: str) -> dict[str, int]:
    """Path -> how it differs from the image. The engine looks through all of its files for it."""
    return {str(change["Path"]): int(change["Kind"]) for change in client.diff(container) or []}


def changed_below(changes: Mapping[str, int], directory: str) -> Changed:
    """Return what of `changes` is below a directory: of what is new or gone as a whole, only the top."""
    below = {path: kind for path, kind in changes.items() if path.startswith(f"{directory.rstrip('/')}/")}
    inner = {parent for path in below for parent in directories_above(path)}
    new = {path for path, kind in below.items() if kind == _ADDED}
    there = {path for path in new if posixpath.dirname(path) not in new}
    there |= {path for path, kind in below.items() if kind == _CHANGED and path not in inner}
    return Changed(
        tuple(sorted(there)), tuple(sorted(path for path, kind in below.items() if kind == _DELETED))
    )
