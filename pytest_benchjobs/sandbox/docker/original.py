"""An image's own files, from a container of it that never runs."""

from __future__ import annotations

import base64
import contextlib
import json
import posixpath
import tarfile
from collections.abc import Callable, Generator, Mapping
from typing import IO, Any

import docker
import docker.errors
from docker.types import LogConfig

from .images import ResolvedImage
from .library import BROKEN
from .transfer import opened

DIRECTORY, LINK, FILE, SPECIAL = "directory", "link", "file", "special"
_LINK_MODE, _DIRECTORY_MODE = 1 << 27, 1 << 31
_SPECIAL_MODES = 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19
_REMEMBERED = 200_000
_kinds: dict[tuple[str, str], str | None] = {}
"""Image and path -> what it is there. Images do not change, so this holds for all trials of a process."""


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
    # Without words nobody knows why: the archive of it comes with them.
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


class Original:
    """The image a container was made of. Asks the engine only for what is not known yet."""

    def __init__(self, client: docker.APIClient, image: ResolvedImage, labels: Mapping[str, str]) -> None:
        self._client = client
        self._image = image
        self._labels = dict(labels)
        self._container: str | None = None

    def close(self) -> None:
        """Remove the container, if one was needed."""
        if self._container is not None:
            container, self._container = self._container, None
            self._client.remove_container(container, force=True, v=True)

    def kind(self, path: str) -> str | None:
        """Return what is at `path` in the image; None: nothing."""
        key = self._image.id, path
        if key not in _kinds:
            if len(_kinds) > _REMEMBERED:
                _kinds.clear()
            parent = posixpath.dirname(path)
            there = parent == path or self.kind(parent) in (DIRECTORY, LINK)
            _kinds[key] = kind_of(stat_of(self._client, self._created, path)) if there else None
        return _kinds[key]

    def target(self, path: str) -> str:
        """Return where a link leads in the end; the path itself for anything else."""
        stat = stat_of(self._client, self._created, path)
        return str((stat or {}).get("linkTarget") or path)

    def read(self, path: str) -> bytes | None:
        """One regular file."""
        with contextlib.closing(self._members(path)) as members:
            for _, content in members:
                return None if content is None else content.read()
        return None

    def _members(self, path: str) -> Generator[tuple[tarfile.TarInfo, IO[bytes] | None], None, None]:
        """Yield what is in a file or directory, and the content of regular files. Nothing: it is not there."""
        try:
            chunks, _ = self._client.get_archive(self._created, path)
        except docker.errors.APIError:
            return
        with contextlib.closing(chunks):
            tar = opened(iter(chunks))
            for member in tar:
                yield member, tar.extractfile(member) if member.isreg() else None

    def copy(self, path: str, tar: tarfile.TarFile, wanted: Callable[[str], bool]) -> set[str]:
        """Add to `tar` what is `wanted` of the file or directory at `path`; returns what was added."""
        added: set[str] = set()
        linked: list[str] = []
        for member, content in self._members(path):
            name = posixpath.join(posixpath.dirname(path), member.name.rstrip("/"))
            if not wanted(name):
                continue
            if member.islnk() and name != path:
                # Its content stands under another name, which may not be wanted.
                linked.append(name)
                continue
            member.name = name.lstrip("/")
            tar.addfile(member, content)
            added.add(name)
        for name in linked:
            added |= self.copy(name, tar, name.__eq__)
        return added

    @property
    def _created(self) -> str:
        if self._container is None:
            config = self._client.create_host_config(network_mode="none", log_config=LogConfig(type="none"))
            created = self._client.create_container(
                self._image.id, ["true"], labels=self._labels, host_config=config
            )
            self._container = str(created["Id"])
        return self._container
