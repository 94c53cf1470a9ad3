"""Checking that mounts would come back where they were, after an agent had the container to itself.

Nobody inside can move a mount, but root can rename a directory above it, and put something else in its place. When the
container is started again, the engine would follow a link from there to a shell or a scorer's program, and mount over
that; or it would find a file where a directory has to be, and refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

import docker
import docker.errors

from ...model.errors import Ungradable
from ..protocol import Mount
from .original import LINK, kind_of, stat_of


def check_mount_points(
    client: docker.APIClient, container: str, mounts: Iterable[Mount], changes: Mapping[str, int]
) -> None:
    """Look at a container that is not running. Costs a call for each directory that was made for a mount.

    `changes` are the paths that differ from its image.

    Raises:
        Ungradable: a mount would come back elsewhere.
        docker.errors.APIError: the engine refuses, among other things because a mount could not come back.
    """
    targets = [PurePosixPath(mount.target) for mount in mounts]
    on_the_way = {str(path) for target in targets for path in (target, *target.parents)}
    for path in sorted(on_the_way & changes.keys()):
        # What is not there is made anew, or the engine says why not when the container starts.
        if kind_of(stat_of(client, container, path)) == LINK:
            raise moved(f"{path} is a link now")


def moved(what: str) -> Ungradable:
    """The error for a container whose mounts do not come back."""
    return Ungradable(
        f"nothing can be graded: the agent moved a directory in which something was mounted for it ({what})"
    )


def lost(why: str, mounts: Iterable[Mount]) -> bool:
    """Return True if the engine refuses, in these words, because the container has no place for its mounts any more."""
    signs = ("not a directory", "is a directory", "could not find the file")
    return any(sign in why.lower() for sign in signs) and all(mount.source.exists() for mount in mounts)
