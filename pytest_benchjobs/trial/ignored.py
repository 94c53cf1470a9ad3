"""Exclusion of files that git ignores: the agent's changes as a diff of its repository would have them.

git runs in the container for grading, before anything is copied there: so the ignore rules are those the agent began
with, and no program or configuration of the agent has any influence.
"""

from __future__ import annotations

import copy
import posixpath
import tarfile
import tempfile
from collections.abc import Collection, Iterable
from typing import IO

from ..model.errors import EnvironmentFailed
from ..sandbox.paths import directories_above
from ..sandbox.protocol import File, Sandbox, Taken
from ..scoring.output import Tail
from .fresh import Carried

_LIST = "/bench/carried"
_TIMEOUT = 300.0
_SPOOL = 8 * 1024 * 1024
_OUTPUT = 64 * 1024 * 1024
_TOLD = (0, 1)
"""Exit statuses of git: some paths are ignored, none is."""
_GIT = "git -c safe.directory='*'"


def without_ignored(carried: Carried, sandbox: Sandbox) -> Carried:
    """Return the collected files without those that git ignores in the workdir of `sandbox`, which is untouched.

    Raises:
        EnvironmentFailed: git fails.
        InfrastructureError: the engine failed.

    """
    [taken] = carried.taken  # of a patch
    names = {*_members(taken), *carried.gone}
    if not names:
        return carried
    ignored = _ignored(sandbox, names)
    if not ignored:
        return carried
    return Carried(
        taken=(_without(taken, ignored),), gone=tuple(path for path in carried.gone if path not in ignored)
    )


def _members(taken: Taken) -> list[str]:
    """Return absolute paths; those of directories end with a slash, as git expects."""
    with tarfile.open(fileobj=taken.archive, mode="r:") as tar:
        found = [f"/{member.name}{'/' if member.isdir() else ''}" for member in tar]
    taken.archive.seek(0)
    return found


def _ignored(sandbox: Sandbox, names: Collection[str]) -> frozenset[str]:
    """Return which of the paths git ignores."""
    status, found, said = _check(sandbox, names)
    if status in _TOLD:
        return found
    # Git fails on a path behind a link; ask for the link then, which the agent replaced by a directory.
    # It also fails on a path within a submodule, which is in no diff.
    links, submodules = _links(sandbox), _submodules(sandbox)
    within = {name for name in names if any(way in submodules for way in directories_above(name))}
    asked = {
        name: next((way for way in directories_above(name) if way in links), name)
        for name in names
        if name not in within
    }
    status, found, said = _check(sandbox, asked.values())
    if status not in _TOLD:
        raise EnvironmentFailed(
            f"git cannot tell what it ignores in {sandbox.workdir} of the container for grading: "
            f"{said[-300:].strip() or 'it said nothing'}"
        )
    return frozenset(name for name, instead in asked.items() if instead in found) | within


def _check(sandbox: Sandbox, names: Iterable[str]) -> tuple[int | None, frozenset[str], str]:
    """Run git to find ignored paths; return its exit status, the paths, and its messages."""
    listed = "\0".join(sorted(set(names))).encode("utf-8", "surrogateescape")
    sandbox.put([File(_LIST, content=listed, clean=True)])
    return _listed(sandbox, f"{_GIT} check-ignore -z --stdin <{_LIST}")


def _links(sandbox: Sandbox) -> frozenset[str]:
    return _listed(sandbox, 'find "$PWD" -name .git -prune -o -type l -print0')[1]


def _submodules(sandbox: Sandbox) -> frozenset[str]:
    _, entries, _ = _listed(sandbox, f"{_GIT} ls-files --stage -z")
    names = (entry.partition("\t")[2] for entry in entries if entry.startswith("160000 "))
    return frozenset(posixpath.join(sandbox.workdir, name) for name in names)


def _listed(sandbox: Sandbox, command: str) -> tuple[int | None, frozenset[str], str]:
    """Run a shell command as root; return its exit status, the printed entries, and the end of its output."""
    printed, said = Tail(_OUTPUT), Tail()
    result = sandbox.exec(
        ("/bin/sh", "-c", command), timeout=_TIMEOUT, sink=said, stdout=printed, user="root"
    )
    entries = printed.raw().decode("utf-8", "surrogateescape").split("\0")
    return result.exit_status, frozenset(filter(None, entries)), said.text()


def _without(taken: Taken, ignored: frozenset[str]) -> Taken:
    kept = tempfile.SpooledTemporaryFile(_SPOOL)  # noqa: SIM115  the caller closes it
    with (
        tarfile.open(fileobj=taken.archive, mode="r:") as source,
        tarfile.open(fileobj=kept, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for member in source:
            if ignored.isdisjoint((f"/{member.name}", f"/{member.name}/")):
                tar.addfile(*_with_content(source, member, ignored))
    kept.seek(0)
    return Taken(kept, taken.notes)


def _with_content(
    source: tarfile.TarFile, member: tarfile.TarInfo, ignored: frozenset[str]
) -> tuple[tarfile.TarInfo, IO[bytes] | None]:
    """Return a member and its content; a hard link to an excluded file becomes a file."""
    if member.islnk() and f"/{member.linkname}" in ignored:
        target = source.getmember(member.linkname)
        member = copy.copy(member)
        member.type, member.linkname, member.size = tarfile.REGTYPE, "", target.size
        return member, source.extractfile(target)
    return member, source.extractfile(member) if member.isreg() else None
