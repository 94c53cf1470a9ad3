"""One commit of a git repository, by the program `git`: no history, and only the paths that are needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from ...model.environ import program_environment
from ...model.errors import InfrastructureError
from .copying import is_within, take
from .download import Progress
from .entry import GitOrigin

_PROGRESS_SECONDS = 2.0
_TRIES = 3
_NEVER = (
    "core.hooksPath=/dev/null",
    "core.autocrlf=false",
    "protocol.ext.allow=never",
    "advice.detachedHead=false",
)


def check_out(origin: GitOrigin, place: Path, target: Path, on_progress: Progress) -> None:
    """Copy the paths of a commit below `target`. `place` caches fetched objects for the next time.

    Raises InputError: one of the paths cannot be copied; InfrastructureError: there is no git, the fetch fails, or one
    of the paths is a link; OSError: it cannot be written.
    """
    if shutil.which("git") is None:
        raise InfrastructureError(
            f"{origin} is fetched with git, which is not on PATH. Install it; or use --from"
        )
    place.mkdir(parents=True, exist_ok=True)
    on_progress(f"fetching {origin}")
    _git(place, ["init", "--quiet"], on_progress)
    _fetch(origin, place, on_progress)
    places = origin.places
    if "" not in places:
        _git(place, ["sparse-checkout", "set", "--no-cone", *(f"/{path}" for path in places)], on_progress)
    _git(place, ["checkout", "--quiet", "--force", "--progress", "--detach", origin.commit], on_progress)
    for path, name in places.items():
        found = place / path
        if found.is_symlink() or not is_within(found, place):
            raise InfrastructureError(f"{origin} has a link to elsewhere at {path}, so it is not copied")
        if not found.exists():
            raise InfrastructureError(f"{origin} has no {path}")
        take(found, target, name)


def _fetch(origin: GitOrigin, place: Path, on_progress: Progress) -> None:
    command = ["fetch", "--depth=1", "--no-tags", "--filter=blob:none", "--progress"]
    for left in reversed(range(_TRIES)):
        try:
            _git(place, [*command, origin.repository, origin.commit], on_progress)
        except InfrastructureError as error:
            if not left:
                raise
            on_progress(f"{error}; again")
            time.sleep(2 * (_TRIES - left))
        else:
            break
    # The checkout fetches missing objects, which needs a named remote.
    settings = {"remote.origin.url": origin.repository, "remote.origin.promisor": "true"}
    for name, value in (*settings.items(), ("remote.origin.partialclonefilter", "blob:none")):
        _git(place, ["config", name, value], on_progress)


def _git(place: Path, arguments: Sequence[str], on_progress: Progress) -> None:
    options = [word for setting in _NEVER for word in ("-c", setting)]
    environment = program_environment("SSH_", "GIT_SSH", "GIT_CONFIG", network=True)
    process = subprocess.Popen(
        ["git", *options, "-C", str(place), *arguments],
        env={**environment, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    said = _told(process, on_progress)
    if process.wait() != 0:
        why = " ".join(line for line in said if line.startswith(("fatal", "error", "remote: "))) or " ".join(
            said[-2:]
        )
        raise InfrastructureError(f"git {arguments[0]} failed: {why[:400] or f'status {process.returncode}'}")


def _told(process: subprocess.Popen[bytes], on_progress: Progress) -> list[str]:
    """Report git's progress now and then, and return the last lines of its output."""
    assert process.stderr is not None  # noqa: S101  it is a pipe
    last: list[str] = []
    rest, shown = b"", time.monotonic()
    try:
        while chunk := os.read(process.stderr.fileno(), 1 << 16):
            *lines, rest = (rest + chunk).replace(b"\r", b"\n").split(b"\n")
            last = [*last, *(line.decode("utf-8", "replace").strip() for line in lines if line.strip())][-20:]
            if last and time.monotonic() - shown >= _PROGRESS_SECONDS:
                shown = time.monotonic()
                on_progress(last[-1])
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        process.stderr.close()
    return [*last, *filter(None, [rest.decode("utf-8", "replace").strip()])]
