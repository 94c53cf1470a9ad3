"""Fetching programs, once per machine: checked, then put in place atomically."""

from __future__ import annotations

import base64
import contextlib
import datetime
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..model.environ import program_environment
from ..model.errors import InfrastructureError, InputError
from ..store.files import remove_tree
from ..system.keeping import beside, digest, locked, put_in_place
from ..system.units import size
from .packages import Package, PackageManifest, trouble
from .unpacking import identify, unpack

Progress = Callable[[str], None]
"""Callback for a line about progress."""
_NPM_TIMEOUT = 3600.0


def fetch(package: Package, on_progress: Progress, *, archive: Path | None = None) -> bool:
    """Make sure that a package is in the cache, from `archive` if given, else from the network. False: it was there.

    Raises:
        InputError: the archive is damaged, or is of another package.
        InfrastructureError: it cannot be fetched or written.
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

    Raises:
        InputError: an archive is of another package, or one is missing.
        InfrastructureError: it cannot be written.
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
