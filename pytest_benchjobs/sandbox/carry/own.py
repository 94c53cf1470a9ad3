"""What of a carried tree stays the fresh place's own, whatever the agent did there.

These are what tells git what to run, and what programs of the image are found in. Pure.
"""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Mapping

from .records import directories

Guards = dict[bytes, "Guards | None"]
"""Names in a directory -> the same below them; None: all of it is the fresh place's own.

What leads there has to be a directory: a link would lead elsewhere.
"""
GIT: Guards = {
    b"config": None,
    b"config.worktree": None,
    b"hooks": None,
    b"info": {b"attributes": None, b"grafts": None},
    b"objects": {b"info": {b"alternates": None}},
}
"""Of a directory of git's. Its alternates may lead out of the tree."""
WHY = "git, or what finds programs, goes by it: it is as image and set-up have it, unless `carry` names it"

PROGRAM_VARIABLES = ("PATH", "NODE_PATH", "VIRTUAL_ENV")
"""Variables that programs and modules of an image are found by."""
_PROGRAMS = (b"bin", b".bin")
_TELLING = frozenset((b"HEAD", b"commondir", b"objects", b"refs"))


def program_paths(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the directories that such variables have programs and modules found in."""
    named = (path for name in PROGRAM_VARIABLES for path in env.get(name, "").split(":"))
    return tuple(dict.fromkeys(posixpath.normpath(path) for path in named if path.startswith("/")))


@dataclasses.dataclass(frozen=True, slots=True)
class Own:
    """What stays."""

    programs: tuple[bytes, ...] = ()
    """Directories that programs are found in."""
    named: tuple[bytes, ...] = ()
    """What is carried because the scenario names it."""

    def below(self, root: bytes) -> Guards:
        """Return what stays in the directory that holds a root."""
        above: Guards = {}
        for path in self.programs:
            is_named = any(_is_in(path, name) or _is_in(name, path) for name in self.named)
            if path == root or not _is_in(path, root) or is_named:
                continue
            parts, at = path[len(root) :].strip(b"/").split(b"/"), above
            # `bin` is a part of something: the interpreter in it loads what is beside it.
            is_part = parts[-1] in _PROGRAMS and parts[1:]
            way = (root.rpartition(b"/")[2] or b".", *(parts[:-1] if is_part else parts))
            for name in way[:-1]:
                inner = at.setdefault(name, {})
                if inner is None:
                    break
                at = inner
            else:
                at[way[-1]] = None
        return above

    def in_git(self, directory: bytes, guards: Guards = GIT) -> Guards:
        """Return what stays of a directory of git's: a name above it says nothing about what git runs."""
        found: Guards = {}
        for name, inner in guards.items():
            path = directory + b"/" + name
            if inner is not None:
                found[name] = self.in_git(path, inner)
            elif not any(_is_in(one, path) for one in self.named):
                found[name] = None
        return found


def git_directories(listing: bytes) -> frozenset[int]:
    """Return where in a listing those directories begin that git takes for one of its own, by what they hold.

    They may have any name: a file or a link `.git` leads to them. Damaged listings are a `struct.error` or an
    IndexError.
    """
    return frozenset(
        start
        for start, _, names in directories(listing, _TELLING)
        if names >= {b"objects", b"refs"} or names >= {b"HEAD", b"commondir"}
    )


def _is_in(path: bytes, directory: bytes) -> bool:
    return path == directory or path.startswith(directory.rstrip(b"/") + b"/")
