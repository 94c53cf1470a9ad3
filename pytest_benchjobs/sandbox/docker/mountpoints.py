"""Checking that mounts would come back where they were, after an agent had the container to itself.

Nobody inside can move a mount, but root can rename a directory above it, and put something else in its place. When the
container is started again, the engine would follow a link from there to a shell or a scorer's program, and mount over
that; or it would find a file where a directory has to be, and refuse.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import docker
import docker.errors

from ...model.errors import Ungradable
from .library import BROKEN

DIRECTORY, LINK, FILE, SPECIAL = "directory", "link", "file", "special"
_LINK_MODE, _DIRECTORY_MODE = 1 << 27, 1 << 31
_SPECIAL_MODES = 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19


def check_mount_points(client: docker.APIClient, container: str, targets: Mapping[str, bool]) -> None:
    """Look at a container that is not running. Costs a call for each directory that was made for a mount.

    `targets`: path of each mount, and True if it is a directory.

    Raises Ungradable: a mount would come back elsewhere, or has no place any more.
    """
    changed = {str(change["Path"]) for change in client.diff(container) or []}
    ways = {  # each path, and True if it has to be a directory
        str(path): path != target or is_directory
        for name, is_directory in targets.items()
        for target in (PurePosixPath(name),)
        for path in (target, *target.parents)
    }
    for path in sorted(ways.keys() & changed):
        kind = kind_of(stat_of(client, container, path))
        # What is not there is made anew.
        if kind == LINK or (kind is not None and ways[path] != (kind == DIRECTORY)):
            now = "a link" if kind == LINK else "no directory" if ways[path] else "a directory"
            raise Ungradable(
                "nothing can be graded: the agent moved a directory in which something was mounted for it "
                f"({path} is {now} now)"
            )


def stat_of(client: docker.APIClient, container: str, path: str) -> Mapping[str, Any] | None:
    """Return what the engine says of a path, itself not followed; None: it is not there. One call without content."""
    with contextlib.suppress(*BROKEN):
        answer = client.head(
            f"{client.base_url}/v{client.api_version}/containers/{container}/archive",
            params={"path": path},
            timeout=client.timeout,
        )
        if answer.ok:
            return dict(json.loads(base64.b64decode(answer.headers["X-Docker-Container-Path-Stat"])))
    # The archive of it carries the reason, which an answer without words lacks.
    try:
        chunks, stat = client.get_archive(container, path)
    except docker.errors.APIError:
        return None
    chunks.close()
    return dict(stat)


def kind_of(stat: Mapping[str, Any] | None) -> str | None:
    """`DIRECTORY`, `LINK`, `FILE`, `SPECIAL` (pipes and the like), or None."""
    if stat is None:
        return None
    if stat["mode"] & _SPECIAL_MODES:
        return SPECIAL
    return DIRECTORY if stat["mode"] & _DIRECTORY_MODE else LINK if stat["mode"] & _LINK_MODE else FILE


def leads_to_small_file(client: docker.APIClient, container: str, path: str, most: int) -> bool:
    """Return True if a path, or where it leads, is a regular file of at most this size, or does not exist."""
    stat = stat_of(client, container, path)
    if stat is not None and kind_of(stat) == LINK:
        stat = stat_of(client, container, str(stat.get("linkTarget") or path))
    return stat is None or (kind_of(stat) == FILE and int(stat["size"]) <= most)
