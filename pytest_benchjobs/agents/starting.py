"""Starting an agent's program: its command, faults seen on this machine, and why it did not start in a sandbox."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..sandbox.protocol import Mount
from ..sources.documents import has_windows_line_ends
from ..system.paths import exists, is_file, is_link
from .snapshot import is_excluded

if TYPE_CHECKING:
    from .described import DescribedAgent

# The program replaces the shell, which only opens the file. The shell's messages begin with its $0, the agent's name.
_WITH_PROBLEM = 'exec < "$1"; shift; exec "$@"'
_PLACE = "{agent}"
# Of the GNU core utilities, and of BusyBox.
_ENV_LACKS = re.compile(
    r"(?:\S*/)?env: (?:can't execute )?['\u2018]([^'\u2019]+)['\u2019]: No such file or directory"
)
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh"})
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
_MESSAGE_LIMIT = 1000
"""The most bytes of the shell's message; a log with more is the agent's own."""


def with_problem(name: str, problem_file: str, argv: Sequence[str]) -> tuple[str, ...]:
    """The command that starts a program with the problem statement as its standard input."""
    return ("/bin/sh", "-c", _WITH_PROBLEM, name, problem_file, *argv)


def start_fault(agent: DescribedAgent) -> str | None:
    """Return why an agent's program in a checkout cannot be started, and the remedy; None if nothing is seen.

    Only the program is looked at: `argv[0]`, and the script that an interpreter gets. What the image holds is unknown.
    """
    source = agent.source_path
    if source is None:
        return None
    name = f"agent {agent.name}"
    if not exists(source):
        return f"{name}: there is no {source}; `source.path` is from the directory of the agent file"
    argv = agent.description.argv
    place = next((word for word in argv if word == _PLACE or word.startswith(f"{_PLACE}/")), None)
    if place is None:
        return None
    inside = place.removeprefix(_PLACE).strip("/")
    file = source / inside if inside else source
    if is_link(file) and not exists(file):
        return None  # it may lead to a file of the image
    if not is_file(file):
        wrong = "is a directory" if file.is_dir() else "is not there"
        return f"{name}: it is started with {' '.join(argv)}, but {file} {wrong}; correct `argv` of the agent file"
    if inside and source.is_dir() and is_excluded(inside, agent.description.source.leave_out):
        return f"{name}: it is started with {' '.join(argv)}, but {file} is left out of what containers see; rename it"
    direct = argv[0] == place
    if direct and not file.stat().st_mode & 0o111:
        return f"{name}: {file} is not executable; run: chmod +x {shlex.quote(str(file))}"
    is_script = direct and _first_line(file).startswith(b"#!")
    if (is_script or Path(argv[0]).name in _SHELLS) and has_windows_line_ends(file):
        return (
            f"{name}: {file} has Windows line endings (CRLF), which containers cannot run; run: "
            f"sed -i 's/\\r$//' {shlex.quote(str(file))}"
        )
    return None


def not_started(argv: Sequence[str], mounts: Sequence[Mount], status: int | None, log: Path) -> str | None:
    """Return why the shell of `with_problem`, or `env` of a script, did not start it; None: it started, or is unknown.

    The agent can write the same message. It decides nothing but words: the agent has failed either way.
    """
    if status not in (_NOT_EXECUTABLE, _NOT_FOUND) or tuple(argv[1:3]) != ("-c", _WITH_PROBLEM):
        return None
    name, program = argv[3], argv[5]
    with log.open("rb") as file:
        said = file.read(_MESSAGE_LIMIT).decode("utf-8", "replace").strip()
    interpreter, by_env = _interpreter(program, mounts)
    lacks = _ENV_LACKS.fullmatch(said)
    if lacks is not None and by_env == lacks[1]:
        interpreter = by_env
    elif len(said.splitlines()) != 1 or not said.startswith(f"{name}: ") or Path(program).name not in said:
        return None
    first = f"the agent did not start (status {status}): "
    if status == _NOT_EXECUTABLE:
        return f"{first}the container's user may not execute {program}"
    if interpreter is not None:
        return f"{first}the image has no {interpreter}, which the first line of {program} names"
    return f"{first}the image has no {program}"


def _interpreter(program: str, mounts: Sequence[Mount]) -> tuple[str | None, str | None]:
    """Return the program in the first line of a script that is mounted, and what that, as `env`, is to start."""
    for mount in mounts:
        if program == mount.target or program.startswith(f"{mount.target}/"):
            inside = program.removeprefix(mount.target).strip("/")
            line = _first_line(mount.source / inside if inside else mount.source).decode("utf-8", "replace")
            words = line.removeprefix("#!").split() if line.startswith("#!") else []
            started = (word for word in words[1:] if not word.startswith("-") and "=" not in word)
            return next(iter(words), None), next(started, None)
    return None, None


def _first_line(file: Path) -> bytes:
    try:
        with file.open("rb") as content:
            return content.readline(500)
    except OSError:
        return b""
