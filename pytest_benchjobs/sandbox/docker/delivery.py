"""Delivers directories of this machine to an engine that does not see them: once each, as a volume that trials mount.

A volume is filled through a container that is never started. That is given its name last, by which it is found: it says
that the volume is whole, and keeps the engine from removing it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import secrets
import tarfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import docker.errors
from docker.types import Mount as EngineMount

from ...model.errors import ContainerLost, EngineError, EngineLost
from ...system.keeping import digest, taken
from ..archive import pack
from ..protocol import BYTECODE, File
from .calling import Caller, caller
from .engine import LABEL, Engine

DELIVERED = LABEL + "delivered"
"""Label of the containers. Its value is the target of the mount."""
_KEPT_SECONDS = 7 * 86_400.0
_PREFIX = "bench-files-"
_IMAGE = "benchjobs-nothing"
"""An image without a file, from which nothing is ever run."""


class _Upload:
    """An archive on its way, which ends where its caller wants no more of it."""

    def __init__(self, archive: IO[bytes]) -> None:
        self._archive = archive
        self.seek, self.tell = archive.seek, archive.tell

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, or raise what the caller's check raises."""
        caller().check()
        return self._archive.read(size)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._archive)


class Deliveries:
    """Directories that one engine has got. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._known: dict[tuple[Path, str], str] = {}

    def volume(self, source: Path, target: str) -> str:
        """Return the name of the volume that has what is in the directory `source`, for a mount at `target`.

        What the check of its caller raises ends it at any time, also while another trial delivers.
        """
        if (known := self._known.get((source, target))) is not None:
            return known
        with taken(self._lock, caller().check), self._engine.guard():
            if (source, target) not in self._known:
                name = f"{_PREFIX}{_digest(source, target)}"
                self._known[source, target] = self._find(name) or self._fill(name, source, target)
            return self._known[source, target]

    def make_sure(self, volumes: Iterable[str]) -> None:
        """Make sure that volumes which a container has now are still whole: the engine makes an empty one for none.

        Raises EngineLost: they were removed before the container was made, and are to be delivered anew.
        """
        filters = {"label": [DELIVERED], "name": [_PREFIX]}
        whole = map(_volume_of, self._engine.get("/containers/json", all=True, filters=filters))
        if set(volumes) - set(whole):
            with self._lock:
                self._known.clear()
            raise EngineLost("what was delivered for the agent was removed meanwhile")

    def _find(self, name: str) -> str | None:
        about = self._engine.get(f"/containers/{name}/json")
        return None if about is None else _volume_of(about)

    def _fill(self, name: str, source: Path, target: str) -> str:
        client = self._engine.client
        if self._engine.get(f"/images/{_IMAGE}/json") is None:
            nothing = io.BytesIO()
            tarfile.open(fileobj=nothing, mode="w").close()
            client.import_image_from_data(nothing.getvalue(), repository=_IMAGE, tag="latest")
        made = client.create_container(
            _IMAGE,
            ["nothing"],
            name=f"bench-{secrets.token_hex(12)}",
            labels={DELIVERED: target},
            host_config=client.create_host_config(
                network_mode="none", mounts=[EngineMount(target, None, type="volume")]
            ),
        )["Id"]
        try:
            with pack([File(".", source=source, readable=True)], "/") as archive:
                client.put_archive(made, target, _Upload(archive))
            client.rename(made, name)
        except BaseException as error:
            with self._engine.guard(Caller()):  # also for a trial that wants no more calls
                client.remove_container(made, force=True, v=True)
            # Somebody else may have been faster.
            if isinstance(error, docker.errors.APIError | EngineError) and (there := self._find(name)):
                return there
            raise
        return _volume_of(client.inspect_container(made))


def forget_deliveries(engine: Engine) -> int:
    """Remove what was delivered a week ago or longer and no container has now; returns how many directories."""
    removed = 0
    for one in engine.get("/containers/json", all=True, filters={"label": [DELIVERED]}):
        if one["Created"] < time.time() - _KEPT_SECONDS and one["Mounts"]:
            # Somebody else may be at it, too.
            with contextlib.suppress(EngineError, ContainerLost), engine.guard():
                removed += _forget(engine, one)
    return removed


def _forget(engine: Engine, one: Mapping[str, Any]) -> bool:
    # Whoever makes a container for it from now on finds that it has lost its name.
    engine.client.rename(one["Id"], f"bench-{secrets.token_hex(12)}")
    in_use = engine.get("/containers/json", all=True, filters={"volume": [_volume_of(one)]})
    if len(in_use) > 1:
        engine.client.rename(one["Id"], one["Names"][0].lstrip("/"))
        return False
    engine.client.remove_container(one["Id"], v=True)
    return True


def _volume_of(about: Mapping[str, Any]) -> str:
    return str(about["Mounts"][0]["Name"])


def _digest(source: Path, target: str) -> str:
    """Return what names the content of a directory: paths, modes and contents of what is in it."""
    found = hashlib.sha256(target.encode())
    for directory, names, files in os.walk(source):
        names[:] = sorted(name for name in names if name != BYTECODE)
        for name in sorted((*files, *names)):
            caller().check()
            path = Path(directory, name)
            content = path.readlink() if path.is_symlink() else digest(path) if path.is_file() else ""
            found.update(os.fsencode(f"{path.relative_to(source)}\0{path.lstat().st_mode}\0{content}\0"))
    return found.hexdigest()[:32]
