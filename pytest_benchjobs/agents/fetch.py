"""Fetching programs, once per machine: checked, unpacked without trust in them, then put in place atomically."""

from __future__ import annotations

import base64
import contextlib
import datetime
import fnmatch
import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from ..model.environ import program_environment
from ..model.errors import InfrastructureError, InputError
from ..store.files import remove_tree
from ..system.keeping import beside, digest, locked, put_in_place
from ..system.units import size
from .packages import KeptFile, Package, PackageManifest, trouble
from .snapshot import make_directories

Progress = Callable[[str], None]
"""Callback for a line about progress."""
_NPM_TIMEOUT = 3600.0


def fetch(package: Package, on_progress: Progress, *, archive: Path | None = None) -> bool:
    """Make sure that a package is in the cache, from `archive` if given, else from the network. False: it was there.

    Raises InputError: the archive is damaged, or is of another package; InfrastructureError: it cannot be fetched or
    written.
    """
    if archive is None and trouble(package) is None:
        return False
    if package.platforms and package.platform not in package.platforms:
        raise InfrastructureError(
            f"{package} has no program for {package.platform}, the platform of the sandboxes; it has those for "
            f"{', '.join(package.platforms)}. Leave the agent out, or use an engine on such a machine"
        )
    directory = package.directory
    try:
        with locked(directory, lambda: on_progress(f"{package}: another process is fetching it")):
            if archive is None and trouble(package) is None:
                return False
            started = time.monotonic()
            manifest = _fetch(package, archive, on_progress)
            took = time.monotonic() - started
            on_progress(f"{package}: {size(manifest.bytes)} in {directory}, {took:.0f} s")
            return True
    except OSError as error:
        raise InfrastructureError(
            f"{package} cannot be kept in {directory}: {error.strerror or error}. "
            "Make room there, or name another place in BENCHJOBS_CACHE"
        ) from None


def fetch_from(packages: Sequence[Package], archives: Sequence[Path], on_progress: Progress) -> None:
    """Make sure that all packages are in the cache, from archives made elsewhere by `npm pack`, without a network.

    Raises InputError: an archive is of another package, or one is missing; InfrastructureError: it cannot be written.
    """
    wanted = {package.npm: package for package in packages}
    found: dict[str, Path] = {}
    for archive in archives:
        try:
            said = identify(archive)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", path=archive) from None
        if said not in wanted:
            raise InputError(f"is {said[:200]}; expected {' and '.join(wanted)}", path=archive)
        found[said] = archive
    for npm, package in wanted.items():
        if npm not in found and trouble(package) is not None:
            raise InputError(
                f"{packages[0]} also needs {npm}: make it with `npm pack {npm}`, and give it with --from"
            )
    for npm, archive in found.items():
        fetch(wanted[npm], on_progress, archive=archive)


def _fetch(package: Package, archive: Path | None, on_progress: Progress) -> PackageManifest:
    """Fetch a package; the caller holds the lock."""
    if archive is not None:
        return _install(package, archive, on_progress)
    kept = package.directory.with_name(f"{package.directory.name}.tgz")
    if kept.exists():
        # The process that fetched it was killed before unpacking.
        with contextlib.suppress(InputError):
            manifest = _install(package, kept, on_progress)
            kept.unlink()
            return manifest
        kept.unlink()
    _download(package, kept, on_progress)
    try:
        return _install(package, kept, on_progress)
    finally:
        kept.unlink(missing_ok=True)


def _download(package: Package, target: Path, on_progress: Progress) -> None:
    """Fetch the archive with npm, which checks it."""
    npm = shutil.which("npm")
    elsewhere = (
        f"where there is a network: npm pack {package.npm}; here: benchjobs agents fetch NAME --from FILE"
    )
    if npm is None:
        raise InfrastructureError(
            f"{package} is fetched with npm, which is not on PATH. Install Node.js; or, {elsewhere}"
        )
    on_progress(f"{package}: fetching {package.npm}")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as directory:
        options = ("--ignore-scripts", "--loglevel=error", "--no-update-notifier")
        try:
            done = subprocess.run(
                [npm, "pack", package.npm, *options],
                cwd=directory,
                env=program_environment("npm_", "NPM_", "NODE_", network=True),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_NPM_TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InfrastructureError(f"npm could not fetch {package.npm}: {error}") from None
        archives = list(Path(directory).glob("*.tgz"))
        if done.returncode != 0 or len(archives) != 1:
            said = done.stdout.decode("utf-8", "replace").replace("npm error ", "").splitlines()
            noise = ("code ", "A complete log", "npm warn")
            why = " ".join(line.strip() for line in said if line.strip() and not line.startswith(noise))
            raise InfrastructureError(
                f"npm cannot fetch {package.npm}: {why[:400].rstrip('. ')}. Or, {elsewhere}"
            )
        archives[0].replace(target)


def _install(package: Package, archive: Path, on_progress: Progress) -> PackageManifest:
    if package.integrity is not None:
        kind, _, value = package.integrity.partition("-")
        found = base64.b64encode(bytes.fromhex(digest(archive, kind))).decode()
        if found != value:
            raise InputError(
                f"is not {package.npm}: its digest is {kind}-{found}, and should be {package.integrity}",
                path=archive,
            )
    on_progress(f"{package}: unpacking {size(archive.stat().st_size)}")
    place = package.directory
    new = beside(place)
    (new / "files").mkdir(parents=True)
    try:
        (new / "files").chmod(0o755)
        said, files = unpack(archive, package, new / "files")
        if said != package.npm:
            raise InputError(f"is {said or 'nameless'}, and should be {package.npm}", path=archive)
        manifest = PackageManifest(
            npm=package.npm,
            archive_sha256=digest(archive),
            archive_bytes=archive.stat().st_size,
            fetched_at=datetime.datetime.now(datetime.UTC),
            files=files,
        )
        (new / "manifest.json").write_text(manifest.model_dump_json(indent=1), "utf-8")
        put_in_place(new, place)
    except BaseException:
        remove_tree(new)
        raise
    return manifest


_MAX_BYTES = 4 << 30
_MAX_FILES = 100_000
_CHUNK = 1 << 20
_MAX_ABOUT = 1 << 20
_BROKEN = (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError)


def unpack(archive: Path, package: Package, target: Path) -> tuple[str | None, tuple[KeptFile, ...]]:
    """Unpack the files of an archive that `package` keeps below `target`.

    Returns:
        The archive's own name and version (`PACKAGE@VERSION`), and the files.

    Raises InputError: it is not such an archive, is damaged, or contains something forbidden; OSError: it cannot be
    read, or there is no room.
    """
    said: str | None = None
    files: list[KeptFile] = []
    total = 0
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                path = _inside(archive, member)
                if member.isdir():
                    continue
                total += member.size
                stream = tar.extractfile(member) if member.isreg() else None
                if stream is None or total > _MAX_BYTES or len(files) >= _MAX_FILES:
                    raise InputError(
                        f"holds {member.name[:200]!r}, which is not a regular file, or holds too much",
                        path=archive,
                    )
                if str(path) == "package.json":
                    text = stream.read(_MAX_ABOUT)
                    said = _identity(text)
                    if not package.root:
                        files.append(_write(target, path, member, io.BytesIO(text)))
                elif (kept := _kept(path, package)) is not None:
                    files.append(_write(target, kept, member, stream))
    except _BROKEN as error:
        raise InputError(f"is not an npm archive, or is damaged: {error}", path=archive) from None
    if not files:
        raise InputError(f"has no files of {package.npm}", path=archive)
    return said, tuple(files)


def identify(archive: Path) -> str:
    """Name and version of an archive, as it states them: `PACKAGE@VERSION`.

    Raises InputError: it is not an npm archive; OSError: it cannot be read.
    """
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                path = _inside(archive, member)
                stream = tar.extractfile(member) if member.isreg() else None
                if str(path) == "package.json" and stream is not None:
                    said = _identity(stream.read(_MAX_ABOUT))
                    if said is not None:
                        return said
    except _BROKEN as error:
        raise InputError(f"is not an npm archive, or is damaged: {error}", path=archive) from None
    raise InputError("is not an npm archive: it has no package.json", path=archive)


def _inside(archive: Path, member: tarfile.TarInfo) -> PurePosixPath:
    """Path below the archive's single top-level directory, which may have any name."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or "\0" in member.name:
        raise InputError(f"holds {member.name[:200]!r}, which is outside of it", path=archive)
    return PurePosixPath(*path.parts[1:])


def _kept(path: PurePosixPath, package: Package) -> PurePosixPath | None:
    root = PurePosixPath(package.root)
    if not path.is_relative_to(root):
        return None
    path = path.relative_to(root)
    left_out = any(fnmatch.fnmatchcase(str(path), pattern) for pattern in package.leave_out)
    return None if left_out else path


def _write(target: Path, path: PurePosixPath, member: tarfile.TarInfo, content: IO[bytes]) -> KeptFile:
    place = target / path
    make_directories(target, place.parent)
    digest = hashlib.sha256()
    with place.open("xb") as file:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
    executable = bool(member.mode & 0o111)
    place.chmod(0o555 if executable else 0o444)
    about = place.stat()
    return KeptFile(
        path=str(path),
        size=about.st_size,
        mtime_ns=about.st_mtime_ns,
        sha256=digest.hexdigest(),
        executable=executable,
    )


def _identity(text: bytes) -> str | None:
    try:
        about = json.loads(text)
        return f"{about['name']}@{about['version']}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
