"""Putting back the programs that grading depends on, and what they load, after an agent had the container to itself.

The engine knows which paths differ from the image, and hands out the image's own files from a container of it that
never ran. Nothing inside the sandbox is asked or trusted.

What the image has gets its content back, and is found first. Adding programs is what tasks are about (`apt-get install
python3`), so additions stay, unless they get in front of something that the image has (a `bash` in /usr/local/bin, a
`pathlib` beside the standard library's), or are picked up by every program there is (ld.so.preload, sitecustomize.py).
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import posixpath
import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import IO

import docker

from ..archive import archive_of
from ..loading import (
    ACCOUNTS,
    LOADER_CACHE,
    Fate,
    Places,
    directories_above,
    is_below,
    python_root,
)
from ..protocol import Changed
from .images import ResolvedImage
from .loader_cache import leads_elsewhere
from .original import DIRECTORY, LINK, Original, kind_of, stat_of
from .transfer import opened

_CHANGED, _ADDED, _DELETED = 0, 1, 2
_SMALL = 1024 * 1024
_MANY = 40
"""So many files of one directory are taken from one archive of it."""
_SHOWN = 20
_TRACE = re.compile(
    r"/(tmp|run|dev|proc|sys|logs|bench|solution|tests|var/(tmp|log|cache|run))(/|$)|/(usr/)?sbin/docker-init$|"
    r".*/(__pycache__|\.cache)(/|$)|/root/\.(bash|python|lesshs)[^/]*$"
)
_PYTHON3 = re.compile(r"python3\.[0-9]+")


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


def outside(changes: Mapping[str, int], directory: str) -> tuple[str, ...] | None:
    """Files of `changes` that are not below a directory, or in a `.git` there; the first of many.

    Traces that anything leaves which runs do not count.
    """
    if directory == "/":
        return None
    below = f"{directory}/"
    outer = [
        path
        for path in changes
        if not (path.startswith(below) and "/.git" not in path) and not _TRACE.match(path)
    ]
    inner = {parent for path in changes for parent in directories_above(path)}
    found = (path for path in sorted(outer) if path not in inner and path != directory)
    return tuple(itertools.islice(found, _SHOWN))


def restore(
    client: docker.APIClient,
    container: str,
    image: ResolvedImage,
    labels: Mapping[str, str],
    places: Places,
    changes: Mapping[str, int],
) -> tuple[str, ...]:
    """Put back what was changed, deleted or shadowed; returns those paths. Costs nothing when nothing was.

    `labels` go on the container that is made for it; `changes` is what `changes_of` says.

    Raises:
        InfrastructureError: the engine refuses.
    """
    # Before anything is asked: most agents touch no such place.
    if not any(_matters(places, path, kind) for path, kind in changes.items()):
        return ()
    restoring = _Restoring(client, container, Original(client, image, labels), places, changes)
    try:
        return restoring.run()
    finally:
        restoring.original.close()


def _matters(places: Places, path: str, kind: int) -> bool:
    if kind == _ADDED:
        return places.fate(path) is not Fate.LEAVE
    return places.is_way(path) or places.is_restored(path)


class _Restoring:
    """One container, its image, and an archive of what has to be put in."""

    def __init__(
        self,
        client: docker.APIClient,
        container: str,
        original: Original,
        places: Places,
        changes: Mapping[str, int],
    ) -> None:
        self.client = client
        self.container = container
        self.original = original
        self.places = places
        self.changes = changes
        self.undone: list[str] = []
        self.removed: list[str] = []
        self.emptied: list[str] = []
        self._filled = False
        self._inner = {
            parent for path, kind in changes.items() if kind != _DELETED for parent in directories_above(path)
        }
        self._added_directories = {path for path in self._inner if changes.get(path) == _ADDED}

    def run(self) -> tuple[str, ...]:
        with archive_of(self._fill) as archive:
            if self._filled:
                self._put(archive)
        return tuple(dict.fromkeys(self.undone))

    def _fill(self, tar: tarfile.TarFile) -> None:
        whole = self._lost_directories()
        self._put_back(tar, [path for path in sorted(self.changes) if not is_below(path, whole)])
        for path in sorted(self.changes):
            if self.changes[path] == _ADDED:
                self._judge(tar, path)
        for path in self.emptied:
            if not is_below(path, self.removed):
                tar.addfile(_file(path))
        for path in self.removed:
            # There is no way to delete: nothing looks for a directory with the name of a file, or the other way round.
            named_as_file = "." in posixpath.basename(path) and path not in self._added_directories
            tar.addfile(_directory(path) if named_as_file else _file(path))
        self._filled = bool(tar.getmembers())

    def _lost_directories(self) -> set[str]:
        """Put back directories of the image where something else stands now."""
        lost: set[str] = set()
        for path in sorted(self.changes):
            if self.changes[path] != _CHANGED or path in self._inner or is_below(path, lost):
                continue
            if not self.places.is_way(path) and not self.places.is_restored(path):
                continue
            if self.original.kind(path) != DIRECTORY or self._kind_now(path) == DIRECTORY:
                continue
            self._make_anew(path)
            lost.add(path)
            self.undone.append(path)
        return lost

    def _make_anew(self, path: str) -> None:
        """Have a directory of the image at its place again, with all in it."""

        def replace(tar: tarfile.TarFile) -> None:
            # Whatever is there gives way to a file, and that to a directory.
            tar.addfile(_file(path))
            tar.addfile(_directory(path))

        for fill in (replace, lambda tar: self.original.copy(path, tar, lambda _: True)):
            with archive_of(fill) as archive:
                self._put(archive)

    def _put_back(self, tar: tarfile.TarFile, paths: Iterable[str]) -> None:
        """Files that the image has, and which are not as they were."""
        wanted, deleted = [], set()
        for path in paths:
            if self.changes[path] == _ADDED or not self.places.is_restored(path):
                continue
            if path == LOADER_CACHE and self.changes[path] == _CHANGED and not self._cache_leads_elsewhere():
                continue
            if path in ACCOUNTS and self.changes[path] == _CHANGED and self._names_root(path):
                continue
            if self.changes[path] == _DELETED:
                deleted.add(path)
            elif path in self._inner and self.original.kind(path) == DIRECTORY:
                continue
            wanted.append(path)
        here = set(wanted)

        def is_wanted(path: str) -> bool:
            return path in here or is_below(path, deleted)

        groups = Counter(_group(path) for path in wanted)
        for group in [group for group, count in groups.items() if count > _MANY]:
            self.undone += sorted(self.original.copy(group, tar, is_wanted) & here)
        for path in wanted:
            if groups[_group(path)] > _MANY or (
                self.changes[path] == _CHANGED and self.original.kind(path) == DIRECTORY
            ):
                continue
            if self.original.copy(path, tar, is_wanted):
                self.undone.append(path)

    def _judge(self, tar: tarfile.TarFile, path: str) -> None:
        """Decide on one path that was added."""
        if path in self._inner:
            return  # a directory: what is in it counts
        fate = self.places.fate(path)
        if fate is not Fate.LEAVE and self._is_of_new_python(path):
            return
        if fate is Fate.COMPILED:
            if posixpath.dirname(posixpath.dirname(path)) not in self._added_directories:
                self.emptied.append(path)
        elif fate is Fate.EMPTY:
            self.emptied.append(path)
            self.undone.append(path)
        elif fate is Fate.REMOVE:
            self._remove(path)
        elif fate is Fate.REMOVE_TOP:
            self._remove("/" + path.split("/")[1])
        elif fate is Fate.REMOVE_IF_LINK:
            if self._kind_now(path) == LINK:
                self._remove(path)
        elif fate is Fate.LINK_IF_IN_FRONT:
            if (behind := self._behind(path)) is not None:
                member = tarfile.TarInfo(path.lstrip("/"))
                member.type, member.linkname, member.mode = tarfile.SYMTYPE, behind, 0o777
                tar.addfile(member)
                self.undone.append(path)
        elif fate is Fate.REMOVE_IF_IN_FRONT:
            self._remove_if_in_front(path)
        elif fate is Fate.STRIP_PLUGINS:
            self._strip_plugins(tar, path)
        elif fate is Fate.CHECK_CACHE and self._cache_leads_elsewhere():
            self._remove(path)

    def _remove_if_in_front(self, path: str) -> None:
        directory, name = posixpath.split(path)
        package = name.startswith("__init__.") and directory in self._added_directories
        within = posixpath.dirname(directory) if package else directory
        if (
            within in self._added_directories
            and not within.endswith(("-packages", "/lib"))
            and "/python" in within
        ):
            return  # a part of something that is new as a whole
        if self._behind(path) is not None:
            self._remove(directory if package else path)

    def _is_of_new_python(self, path: str) -> bool:
        """Return True if it is for an interpreter that the agent installed; what that loads is its own."""
        root = python_root(path)
        if root is None or root not in self._added_directories:
            return False
        prefix, version = self._python
        return not version or not self.places.is_loaded_by(path, prefix, version)

    def _behind(self, path: str) -> str | None:
        """Return what the image has that this is in front of."""
        version = self._python[1] if path.count("/") <= 2 else None
        candidates = self.places.counterparts(path, version or None)
        return next((one for one in candidates if self._has(one)), None)

    def _has(self, path: str) -> bool:
        """Return True if the image has it under this very name: of links like /bin, all has another."""
        top = "/" + path.split("/")[1]
        return self.original.kind(top) == DIRECTORY and self.original.kind(path) is not None

    @functools.cached_property
    def _python(self) -> tuple[str, str]:
        """Return where the `python3` is that the image's PATH leads to, and its version; empty: it has none."""
        for directory in self.places.programs:
            program = f"{directory}/python3"
            if self.original.kind(program) is not None:
                name = posixpath.basename(self.original.target(program))
                return posixpath.dirname(directory), name if _PYTHON3.fullmatch(name) else ""
        return "", ""

    def _strip_plugins(self, tar: tarfile.TarFile, path: str) -> None:
        content = self._read_now(path)
        if content is None:
            self._remove(path)
            return
        kept = _without_plugins(content)
        if kept != content:
            member = _file(path)
            member.size = len(kept)
            tar.addfile(member, io.BytesIO(kept))
            self.undone.append(path)

    def _cache_leads_elsewhere(self) -> bool:
        content = self._read_now(LOADER_CACHE)
        original = self.original.read(LOADER_CACHE)
        return content is None or leads_elsewhere(content, original, core_only=self.places.restoring.packages)

    def _names_root(self, path: str) -> bool:
        """Return True if the engine can read it, and root is who root was, at home where it was."""
        content = self._read_now(path)
        if content is None:
            return False
        before, now = _root(self.original.read(path) or b""), _root(content)
        if path.endswith("/group"):
            return len(now) >= len(before)
        home = slice(5, 5 if self.places.restoring.packages else 6)
        return (now[2:4], now[home]) == (before[2:4], before[home])

    def _remove(self, path: str) -> None:
        if path not in self.removed:
            self.removed.append(path)
            self.undone.append(path)

    def _kind_now(self, path: str) -> str | None:
        return kind_of(stat_of(self.client, self.container, path))

    def _read_now(self, path: str) -> bytes | None:
        """A small regular file as the agent left it; None for anything else."""
        stat = stat_of(self.client, self.container, path)
        if stat is None or kind_of(stat) != "file" or stat["size"] > _SMALL:
            return None
        chunks, _ = self.client.get_archive(self.container, path)
        with contextlib.closing(chunks), opened(iter(chunks)) as tar:
            content = next((tar.extractfile(member) for member in tar if member.isreg()), None)
            return None if content is None else content.read()

    def _put(self, archive: IO[bytes]) -> None:
        self.client.put_archive(self.container, "/", archive)


def _without_plugins(content: bytes) -> bytes:
    """The text of an `entry_points.txt` without what pytest would load."""
    kept, drop = [], False
    for line in content.splitlines(keepends=True):
        if line.lstrip().startswith(b"["):
            drop = line.strip().strip(b"[]").strip() == b"pytest11"
        if not drop:
            kept.append(line)
    return b"".join(kept)


def _root(accounts: bytes) -> list[bytes]:
    """Return what is said of root; nothing, if nothing is."""
    lines = (line.split(b":") for line in accounts.splitlines())
    return next((fields for fields in lines if fields[0] == b"root"), [])


def _group(path: str) -> str:
    """The directory of the third level that a path is in."""
    return "/".join(path.split("/")[:4]) if path.count("/") > 3 else posixpath.dirname(path)


def _file(path: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path.lstrip("/"))
    member.mode = 0o644
    return member


def _directory(path: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path.lstrip("/"))
    member.type, member.mode = tarfile.DIRTYPE, 0o755
    return member
