"""Checking that mounts would come back where they were, after an agent had the container to itself.

Nobody inside can move a mount, but root can rename a directory above it, and put something else in its place. When the
container is started again, the engine would follow a link from there to a shell or a scorer's program, and mount over
that; or it would find a file where a directory has to be, and refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

import docker

from ...model.errors import Ungradable
from ..protocol import Mount
from .original import DIRECTORY, LINK, kind_of, stat_of


def check_mount_points(
    client: docker.APIClient, container: str, mounts: Iterable[Mount], changes: Mapping[str, int]
) -> None:
    """Look at a container that is not running. Costs a call for each directory that was made for a mount.

    `changes` are the paths that differ from its image.

    Raises:
        Ungradable: a mount would come back elsewhere.
        InfrastructureError: the engine refuses.
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


def misplaced(client: docker.APIClient, container: str, mounts: Iterable[Mount]) -> str | None:
    """Return what stands where a mount has to be, if the container has no place for it any more."""
    for mount in mounts:
        path = PurePosixPath(mount.target)
        for at in (path, *path.parents):
            kind = kind_of(stat_of(client, container, str(at)))
            if kind is None:
                continue  # it is made anew
            if kind != DIRECTORY and (at != path or mount.source.is_dir()):
                return f"{at} is no directory now"
            if at == path and kind == DIRECTORY and not mount.source.is_dir():
                return f"{at} is a directory now"
    return None
