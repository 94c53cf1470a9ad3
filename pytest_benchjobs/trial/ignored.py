"""What git ignores of what an agent changed: its work as a diff of the repository would have it.

git runs in the container for grading, before anything is carried there: so the ignore rules are those the agent began
with, and no program or configuration of the agent has any influence.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection, Iterable

from ..model.errors import EnvironmentFailed
from ..sandbox.paths import directories_above
from ..sandbox.runner import Runner
from ..scoring.output import Tail
from ..system.cutting import end_of

_TIMEOUT = 300.0
_OUTPUT = 64 * 1024 * 1024
_TOLD = (0, 1)
"""Exit statuses of git: some paths are ignored, none is."""
_GIT = "git -c safe.directory='*'"
_CHECK = f"{_GIT} check-ignore -z --stdin"


def ignored_by_git(place: Runner, workdir: str, paths: Collection[bytes]) -> frozenset[bytes]:
    """Return which paths the repository in `workdir` has git ignore.

    Those of directories come with a slash at their end, and are returned without.

    Raises:
        EnvironmentFailed: git fails.
        InfrastructureError: the engine failed.
    """
    if not paths:
        return frozenset()
    names = [*map(os.fsdecode, paths)]
    status, found, said = _listed(place, workdir, _CHECK, names)
    if status not in _TOLD:
        # Git fails on a path behind a link; ask for the link then, which the agent replaced by a directory.
        # It also fails on a path within a submodule, which is in no diff.
        links, submodules = _links(place, workdir), _submodules(place, workdir)
        within = {name for name in names if any(way in submodules for way in directories_above(name))}
        asked = {
            name: next((way for way in directories_above(name) if way in links), name)
            for name in names
            if name not in within
        }
        status, told, said = _listed(place, workdir, _CHECK, asked.values())
        found = within.union(name for name, instead in asked.items() if instead in told)
    if status not in _TOLD:
        raise EnvironmentFailed(
            f"git cannot tell what it ignores in {workdir} of the container for grading: "
            f"{end_of(said, 300).strip() or 'it said nothing'}"
        )
    return frozenset(os.fsencode(name.rstrip("/")) for name in found)


def _links(place: Runner, workdir: str) -> Collection[str]:
    return _listed(place, workdir, 'find "$PWD" -name .git -prune -o -type l -print0')[1]


def _submodules(place: Runner, workdir: str) -> Collection[str]:
    _, entries, _ = _listed(place, workdir, f"{_GIT} ls-files --stage -z")
    names = (entry.partition("\t")[2] for entry in entries if entry.startswith("160000 "))
    return {posixpath.join(workdir, name) for name in names}


def _listed(
    place: Runner, workdir: str, command: str, names: Iterable[str] = ()
) -> tuple[int | None, set[str], str]:
    """Run a shell command as root; return its exit status, the printed entries, and the end of its messages."""
    printed, said = Tail(_OUTPUT), Tail()
    status = place.run(
        ("/bin/sh", "-c", command),
        stdout=printed,
        stderr=said,
        stdin=(b"".join(os.fsencode(f"{name}\0") for name in sorted(set(names))),),
        workdir=workdir,
        timeout=_TIMEOUT,
    )
    return status, {*os.fsdecode(printed.raw()).split("\0")} - {""}, said.text()
