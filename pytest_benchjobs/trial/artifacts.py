"""Artifacts of a scenario, fetched from the sandbox.

An artifact may be a path or a pattern (`*`, `?`, `[...]`, as a shell reads them). A path costs one round trip.
A pattern is expanded by the sandbox's shell, after the agent has ended. The agent chose the names, so each is accepted
only if it matches the pattern and is harmless on the host.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import posixpath
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from ..model.errors import ContainerLost, EngineError
from ..model.scenario import MAIN, ArtifactSpec
from ..sandbox.protocol import Sandbox, Service
from ..sandbox.shell import shell
from ..store.files import DISK_ERRORS
from ..store.text import clean, one_line
from .fresh import service_of

ARTIFACT_LIMIT = 256 * 1024 * 1024
"""Most bytes of one artifact, or of all matches of one pattern."""
MATCH_LIMIT = 200
"""Most paths of one pattern."""
FILE_LIMIT = 10_000
"""Files and directories of all patterns of a trial from which on no further path is fetched. One path has at most twice
as many itself."""
_LIST_LIMIT = 256 * 1024
_LIST_TIMEOUT = 60.0
_NOTES = 20
_NAME_BYTES = 200
_WILD = re.compile(r"[*?\[]")
_SPECIAL = re.compile(r"(\[[^/\[\]]+\]|[*?])")


def keep_artifacts(
    sandbox: Sandbox, specs: Sequence[ArtifactSpec], directory: Path, before_each: Callable[[], None]
) -> tuple[list[str], list[str]]:
    """Fetch artifacts into `directory`; return the files, relative to it, and notes on missing ones."""
    keeping = _Keeping(directory, before_each)
    for spec in specs:
        before_each()
        container = service_of(sandbox, spec.service)
        try:
            keeping.keep(container, spec)
        except (ContainerLost, EngineError) as error:
            if spec.service == MAIN:
                raise
            # Such as a pattern in a service that has ended, where nothing can be listed.
            what = f"artifact {spec.source} of service {spec.service} cannot be fetched"
            keeping.notes.append(clean(f"{what}: {error}", 300))
    return keeping.kept, keeping.notes


@dataclasses.dataclass(slots=True)
class _Keeping:
    directory: Path
    before_each: Callable[[], None]
    kept: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    entries: int = 0
    """Number of files and directories fetched by patterns."""

    def keep(self, container: Service, spec: ArtifactSpec) -> None:
        """Fetch one artifact, which may be a pattern."""
        fixed, pattern = _split(posixpath.normpath(spec.source))
        place = spec.destination or place_of(spec, fixed)
        wanted = [(fixed, place)]
        if pattern is not None:
            names = _matches(container, posixpath.join(container.workdir, fixed), pattern, self.notes)
            wanted = [(posixpath.join(fixed, name), posixpath.join(place, name)) for name in names]
        room, missing = ARTIFACT_LIMIT, 0
        said: list[str] = []
        for number, (path, relative) in enumerate(wanted):
            if pattern is not None and self.entries >= FILE_LIMIT:
                # The first note: the agent chose the names in the following ones.
                left_out = f"{len(wanted) - number} of {len(wanted)} paths are left out"
                said.insert(0, f"artifact {pattern}: patterns have matched {FILE_LIMIT} files: {left_out}")
                break
            self.before_each()
            source, target = posixpath.join(container.workdir, path), self.directory / relative
            try:
                fetched = container.fetch(source, target, limit=room, exclude=spec.exclude)
            except OSError as error:
                if error.errno in DISK_ERRORS:
                    raise
                said.append(f"artifact {one_line(path, 200)} could not be kept: {error.strerror}")
                continue
            if fetched is None:
                missing += 1
                continue
            single = target.is_file()
            self.kept += [relative if single else posixpath.join(relative, name) for name in fetched.files]
            room -= fetched.bytes
            self.entries += 0 if pattern is None else _entries(target)
            said += [clean(note, 300) for note in fetched.notes]
        self.notes += said[:_NOTES]
        if (more := len(said) - _NOTES) > 0:
            self.notes.append(f"artifact {spec.source}: {more} more notes")
        if missing == len(wanted):
            self.notes.append(f"artifact {spec.source} does not exist")


def _entries(path: Path) -> int:
    """Count the files and directories in a directory, including empty ones. A file counts as one."""
    return 1 if path.is_file() else sum(len(names) + len(files) for _, names, files in os.walk(path))


def place_of(spec: ArtifactSpec, source: str) -> str:
    """Return the path of an artifact below a directory of the host; of a service, below the service's name."""
    inside = posixpath.normpath(f"/{source}").lstrip("/")
    return inside if spec.service == MAIN else posixpath.join(spec.service, inside)


def _split(source: str) -> tuple[str, str | None]:
    """Return the literal directory and the pattern below it; no pattern without wildcards."""
    parts = source.split("/")
    wild = next((number for number, part in enumerate(parts) if _WILD.search(part)), None)
    if wild is None:
        return source, None
    return "/".join(parts[:wild]) or ("/" if source.startswith("/") else ""), "/".join(parts[wild:])


def _matches(sandbox: Service, top: str, pattern: str, notes: list[str]) -> list[str]:
    """Return the paths below `top` in the sandbox that match a pattern."""
    output = bytearray()

    def take(data: bytes) -> None:
        output.extend(data[: max(0, _LIST_LIMIT - len(output))])

    quoted = "".join(
        part if _SPECIAL.fullmatch(part) else shlex.quote(part) for part in _SPECIAL.split(pattern) if part
    )
    listing = (
        f"cd {shlex.quote(top)} 2>/dev/null || exit; "
        f"""for name in {quoted}; do if [ -e "$name" ]; then printf '%s\\0' "$name"; fi; done"""
    )
    sandbox.exec(shell(listing), timeout=_LIST_TIMEOUT, sink=take, user="root")
    names = [name.decode("utf-8", "replace") for name in bytes(output).split(b"\0")[:-1]]
    good = [name for name in names if _believable(name, pattern)]
    if len(good) < len(names):
        notes.append(
            f"artifact {pattern}: {len(names) - len(good)} name(s) left out: invalid on this machine"
        )
    if len(good) > MATCH_LIMIT or len(output) >= _LIST_LIMIT:
        notes.append(f"artifact {pattern} matches more than {MATCH_LIMIT} paths: the rest is left out")
    return good[:MATCH_LIMIT]


def _believable(name: str, pattern: str) -> bool:
    parts, wanted = name.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(
        part not in ("", ".", "..")
        and part.isprintable()
        and "\ufffd" not in part
        and len(part.encode("utf-8", "replace")) <= _NAME_BYTES
        and fnmatch.fnmatchcase(part, want.replace("[^", "[!"))
        for part, want in zip(parts, wanted, strict=True)
    )
