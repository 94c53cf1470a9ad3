"""Files of a carried tree that stay the fresh place's own, whatever the agent did there.

These are what tells git what to run, and what programs of the image are found in. Pure.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping

from .records import directories

_GIT = (
    b"config",
    b"config.worktree",
    b"hooks",
    b"info/attributes",
    b"info/grafts",
    b"objects/info/alternates",
)
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


class Own:
    """Paths below a root that stay: of `programs` (directories that these are found in) and of git's directories.

    Not those that the scenario has `named`. What leads to one has to be a directory: a link would lead elsewhere.
    """

    def __init__(self, programs: Iterable[bytes] = (), named: Collection[bytes] = ()) -> None:
        self._programs, self._named = tuple(programs), named
        self._paths: set[bytes] = set()
        self._ways: set[bytes] = set()

    def begin_root(self, root: bytes) -> None:
        """Begin with what stays below a root."""
        self._paths, self._ways = set(), set()
        for path in self._programs:
            is_named = any(_is_in(path, name) or _is_in(name, path) for name in self._named)
            if path != root and _is_in(path, root) and not is_named:
                # `bin` is a part of something: the interpreter in it loads what is beside it.
                above, _, name = path.rpartition(b"/")
                is_part = name in _PROGRAMS and above not in (root, b"")
                self._add(root, above if is_part else path)

    def add_git(self, directory: bytes) -> None:
        """Add what stays of a directory of git's: a name above it says nothing about what git runs."""
        for path in (directory + b"/" + name for name in _GIT):
            is_named = any(_is_in(one, path) for one in self._named)
            self._add(directory, path, stays=not is_named)

    def _add(self, top: bytes, path: bytes, *, stays: bool = True) -> None:
        if stays:
            self._paths.add(path)
        while (path := path.rpartition(b"/")[0]) and _is_in(path, top):
            self._ways.add(path)

    def has(self, path: bytes) -> bool:
        """Return True if all of it stays."""
        return path in self._paths

    def has_way(self, path: bytes) -> bool:
        """Return True if it leads to what stays."""
        return path in self._ways


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
