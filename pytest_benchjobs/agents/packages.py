"""Fetched programs, and their place on this machine.

In `<cache>/agents/NAME/VERSION-PLATFORM/` there are `files/`, which sandboxes see, and `manifest.json` with the
digests, sizes and times of these files.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import platform as host
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from ..model.base import Model
from ..sandbox.protocol import Mount
from ..system.cache import cache_directory
from ..system.keeping import change_of, digest, version

PROGRAMS = "/opt/benchjobs"
"""Directory of programs in a sandbox."""
_seen: set[tuple[Path, datetime.datetime]] = set()
"""Packages all of whose files have been checked."""
_MACHINES = {"x86_64": "x64", "x64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def platform(machine: str | None = None) -> str:
    """Platform of sandboxes for a machine, by its `uname -m`: `linux-x64` or `linux-arm64`. None: this machine."""
    machine = (machine or host.machine()).lower()
    return f"linux-{_MACHINES.get(machine, machine)}"


@dataclasses.dataclass(frozen=True, slots=True)
class Package:
    """A program of one version, for one platform."""

    name: str
    version: str
    platform: str
    npm: str
    """`PACKAGE@VERSION`, as npm knows it."""
    root: str = ""
    """Directory within its archive to keep."""
    leave_out: tuple[str, ...] = ()
    """Patterns of paths in `root` that are left out."""
    integrity: str | None = None
    """`sha512-...` of its archive, if known in advance."""
    platforms: tuple[str, ...] = ()
    """All that it is for; none: unknown."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def target(self) -> str:
        """Path in a sandbox."""
        return f"{PROGRAMS}/{self.name}"

    @property
    def directory(self) -> Path:
        """Its place in the cache."""
        return cache_directory("agents") / self.name / f"{self.version}-{self.platform}"

    @property
    def files(self) -> Path:
        """Directory of its files."""
        return self.directory / "files"

    @property
    def mount(self) -> Mount:
        """Mount of the package in a sandbox."""
        return Mount(self.files, self.target)


class KeptFile(Model, defer_build=True):
    """A file of a fetched package."""

    path: str
    """Relative to the directory of the package's files."""
    size: int
    mtime_ns: int
    sha256: str
    executable: bool

    def is_changed(self, root: Path) -> bool:
        """Read the file, and return True if its content differs from the fetched one."""
        try:
            return digest(root / self.path) != self.sha256
        except OSError:
            return True


class PackageManifest(Model, defer_build=True):
    """Record of a fetched package. Written last: without it, the package counts as missing."""

    schema_version: int = 1
    npm: str
    archive_sha256: str
    archive_bytes: int
    fetched_at: datetime.datetime
    files: tuple[KeptFile, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def manifest_of(package: Package) -> PackageManifest | None:
    """Read the manifest of a package; None if the package was not fetched."""
    path = package.directory / "manifest.json"
    try:
        about = path.stat()
        return _read(path, version(about))
    except (OSError, ValidationError):
        return None


def trouble(package: Package) -> str | None:
    """Reason why a package cannot be used, in a few words; None if it can.

    Checks sizes and times, not content: of all files the first time, later in this process of programs only, which is
    cheap enough for every trial. `changed` reads everything.
    """
    path = package.directory / "manifest.json"
    manifest = manifest_of(package)
    if manifest is None:
        return "is not on this machine"
    seen = (path, manifest.fetched_at)
    for file in manifest.files:
        if seen in _seen and not file.executable:
            continue
        if (found := change_of(package.files, file.path, file.size, file.mtime_ns)) is not None:
            return found
    _seen.add(seen)
    return None


def changed(package: Package) -> Iterator[str]:
    """Return the paths whose content differs from the fetched one."""
    manifest = manifest_of(package)
    for file in manifest.files if manifest is not None else ():
        if file.is_changed(package.files):
            yield file.path


@functools.lru_cache(maxsize=64)
def _read(path: Path, _version: tuple[int, ...]) -> PackageManifest:
    return PackageManifest.model_validate_json(path.read_bytes())
