"""Leaving out what git ignores: the agent's changes as a diff of its repository would have them.

The repository is asked in the container for grading, before anything is put there: its rules are those the agent
began with, and no program or configuration of the agent's has a say.
"""

from __future__ import annotations

import copy
import posixpath
import tarfile
import tempfile
from collections.abc import Collection, Iterable
from typing import IO

from ..model.errors import EnvironmentFailed
from ..sandbox.loading import directories_above
from ..sandbox.protocol import File, Sandbox, Taken
from ..scoring.output import Tail
from .fresh import Carried

_LIST = "/bench/carried"
_TIMEOUT = 300.0
_SPOOL = 8 * 1024 * 1024
_OUTPUT = 64 * 1024 * 1024
_TOLD = (0, 1)
"""Exit statuses of git: some are ignored, none is."""
_GIT = "git -c safe.directory='*'"


def without_ignored(carried: Carried, sandbox: Sandbox) -> Carried:
    """Return what is carried without what git ignores in the workdir of `sandbox`, which is untouched.

    Raises:
        EnvironmentFailed: git cannot tell.
        InfrastructureError: the engine failed.

    """
    names = {*_members(carried.taken), *carried.gone}
    if not names:
        return carried
    ignored = _ignored(sandbox, names)
    if not ignored:
        return carried
    return Carried(
        _without(carried.taken, ignored), tuple(path for path in carried.gone if path not in ignored)
    )


def _members(taken: Taken) -> list[str]:
    """Absolute paths; of a directory, with a slash at the end, as git knows one."""
    with tarfile.open(fileobj=taken.archive, mode="r:") as tar:
        found = [f"/{member.name}{'/' if member.isdir() else ''}" for member in tar]
    taken.archive.seek(0)
    return found


def _ignored(sandbox: Sandbox, names: Collection[str]) -> frozenset[str]:
    """Return which of the paths git ignores."""
    status, found, said = _check(sandbox, names)
    if status in _TOLD:
        return found
    # Git gives up on a path behind a link, for which the link is asked then: the agent put a directory in its place.
    # It also does on one within a submodule, of which no diff has anything.
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
    """Have git tell which of the paths it ignores; returns its exit status, the paths, and what it said."""
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
    """Run a shell command as root; returns its exit status, the entries it printed, and the end of all it said."""
    printed, said = Tail(_OUTPUT), Tail()
    result = sandbox.exec(
        ("/bin/sh", "-c", command), timeout=_TIMEOUT, sink=said, stdout=printed, user="root"
    )
    entries = printed.raw().decode("utf-8", "surrogateescape").split("\0")
    return result.exit_status, frozenset(filter(None, entries)), said.text()


def _without(taken: Taken, ignored: frozenset[str]) -> Taken:
    kept = tempfile.SpooledTemporaryFile(_SPOOL)  # noqa: SIM115  whoever has it closes it
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
    """Return a member and its content; a hard link to what is left out becomes a file."""
    if member.islnk() and f"/{member.linkname}" in ignored:
        target = source.getmember(member.linkname)
        member = copy.copy(member)
        member.type, member.linkname, member.size = tarfile.REGTYPE, "", target.size
        return member, source.extractfile(target)
    return member, source.extractfile(member) if member.isreg() else None
