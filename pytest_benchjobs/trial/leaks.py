"""A look for the reference solution where an agent could find it, for `benchjobs check`.

It is made in the sandbox of `nop`, where there is nothing of the reference but what everybody gets: whole files of it,
wherever they are, and files below the workdir and the home directory that contain each line of its script or patch.
"""

from __future__ import annotations

import functools
import hashlib
import posixpath
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..agents.protocol import AgentCommand, DrivenShell
from ..model.scenario import Reference, Scenario

SIGN = "leak: "
"""Beginning of the lines of the agent's log that name what was found."""
_LEAST = 24
"""Bytes of a file, or of the lines of a solution, that are not alike by chance."""
_LEAST_LINE = 8
_CODE = (".sh", ".py", ".patch", ".diff")
"""Files of a solution that the task lacks; its data may be in the task, too."""
_LARGEST = 1 << 20
_FOUND = 20
_TIMEOUT = 120.0


def looking(scenario: Scenario) -> AgentCommand | None:
    """Return a command that looks for the reference of a scenario; None if there is nothing to look for."""
    files = {name: content for name, content in _files(scenario.reference) if len(content.strip()) >= _LEAST}
    if not files:
        return None
    lines = {name: found for name, content in files.items() if (found := _lines(name, content))}
    identity = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()
    look = functools.partial(_look, files, lines, scenario.problem_statement)
    return AgentCommand(argv=(), identity=f"look {identity}", host=look)


def _files(reference: Reference | None) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file of the reference."""
    if reference is None:
        return
    if reference.script is not None:
        yield "its script", reference.script.encode("utf-8", "replace")
    paths = [] if reference.patch is None else [reference.patch]
    if reference.solution is not None:
        paths += sorted(path for path in reference.solution.rglob("*") if path.suffix in _CODE)
    for path in paths:
        if not path.is_symlink() and path.is_file() and path.stat().st_size <= _LARGEST:
            yield path.name, path.read_bytes()


def _lines(name: str, content: bytes) -> tuple[str, ...]:
    """Return the lines that make a solution, without those that say nothing; of a patch, the added ones."""
    text = content.decode("utf-8", "replace")
    lines = text.splitlines()
    if name.endswith((".patch", ".diff")) or text.startswith(("diff --git", "--- ")):
        lines = [line[1:] for line in lines if line.startswith("+") and line[:3] != "+++"]
    found = tuple(
        line for line in map(str.strip, lines) if len(line) >= _LEAST_LINE and not line.startswith("#")
    )
    return found if sum(map(len, found)) >= _LEAST else ()


def _look(
    files: Mapping[str, bytes], lines: Mapping[str, tuple[str, ...]], statement: str, shell: DrivenShell
) -> int:
    in_statement = (
        ("the problem statement", name) for name, wanted in lines.items() if _has(statement, wanted)
    )
    found: dict[str, str] = {}
    for place, name in (*in_statement, *_copies(files, shell), *_containing(lines, shell)):
        found.setdefault(place, name)
    for place, name in [*found.items()][:_FOUND]:
        shell.log(f"{SIGN}{place} has {name}")
    return 0


def _copies(files: Mapping[str, bytes], shell: DrivenShell) -> Iterator[tuple[str, str]]:
    """Yield files anywhere that are one of the reference, but for white space at the ends: their path, and its name."""
    named = {content.strip(): name for name, content in files.items()}
    # A file may have a line break at its end, or not.
    sizes = {len(content) + more for content in (*named, *files.values()) for more in (0, 1)}
    expression = " -o ".join(f"-size {size}c" for size in sorted(sizes)[:200])
    # Only file systems of the container itself: not /proc, nor what is mounted from outside.
    for path in _printed(shell, f"find / -xdev -type f \\( {expression} \\) 2>/dev/null | head -n 200"):
        if (name := named.get(_read(shell, path).strip())) is not None:
            yield path, name


def _containing(lines: Mapping[str, tuple[str, ...]], shell: DrivenShell) -> Iterator[tuple[str, str]]:
    """Yield files below the workdir and the home directory that have all lines of a file of the reference."""
    for name, wanted in lines.items():
        longest = shlex.quote(max(wanted, key=len))
        command = f'grep -rlF -e {longest} . "$HOME" 2>/dev/null | head -n {_FOUND}'
        for path in _printed(shell, command):
            path = posixpath.normpath(posixpath.join(shell.workdir, path))
            if _has(_read(shell, path).decode("utf-8", "replace"), wanted):
                yield path, name


def _has(text: str, wanted: tuple[str, ...]) -> bool:
    return {line.strip() for line in text.splitlines()}.issuperset(wanted)


def _printed(shell: DrivenShell, command: str) -> list[str]:
    return [line for line in shell.run(command, _TIMEOUT)[1].splitlines() if line]


def _read(shell: DrivenShell, path: str) -> bytes:
    try:
        return shell.read(path, _LARGEST) or b""
    except ValueError:
        return b""


def leaks_in(log: Path) -> tuple[str, ...]:
    """Return what a look has found, from the log of its trial."""
    try:
        text = log.read_text("utf-8", "replace")
    except OSError:
        return ()
    return tuple(line.removeprefix(SIGN) for line in text.splitlines() if line.startswith(SIGN))
