"""Agents given by a path or a shell command, with a name: `mybot=./my-agent`, `mybot=command:SHELL`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.agent import AgentSpec
from ..model.errors import InputError
from ..system.paths import exists, is_file
from .builtin import RESERVED, Command
from .described import SUFFIXES, DescribedAgent
from .protocol import Agent

if TYPE_CHECKING:
    from .description import Description

_INTERPRETERS = {
    ".sh": "/bin/sh",
    ".bash": "bash",
    ".py": "python3",
    ".js": "node",
    ".mjs": "node",
    ".cjs": "node",
}
"""Suffix of a file -> the program of the image that runs it, if it is not executable."""
_NAMES = ("run", "run.sh", "{name}", "{name}.sh", "agent", "agent.sh", "main.sh", "{name}.py", "agent.py", "main.py",
          "run.py", "__main__.py", "agent.js", "main.js", "index.js", "agent.mjs", "index.mjs")  # fmt: skip
"""Names of the file that starts the agent in a directory; the first one found counts."""


def given_agents(specs: Iterable[AgentSpec]) -> dict[str, Agent]:
    """The agents defined in the specifications themselves, by name.

    Raises InputError: a path does not exist, it is unclear how to start it, or a name has two meanings.
    """
    found: dict[str, Agent] = {}
    brought: dict[str, AgentSpec] = {}
    for spec in specs:
        if spec.path is None and spec.command is None:
            continue
        before = brought.setdefault(spec.name, spec)
        if (before.path, before.command) != (spec.path, spec.command):
            raise InputError(
                f"agent {spec.name} is given twice, with different programs; give one another name"
            )
        if spec.name in RESERVED:
            raise InputError(
                f"{spec.name!r} is the name of a built-in agent; choose another: my-{spec.name}=..."
            )
        if spec.command is not None:
            found[spec.name] = Command(name=spec.name, needs_model=False)
        elif spec.name not in found:
            try:
                found[spec.name] = _of_path(spec.name, Path(spec.path or ""))
            except OSError as error:
                raise InputError(
                    f"agent {spec.name}: cannot be read: {error.strerror}", path=error.filename or spec.path
                ) from None
    return found


def _of_path(name: str, path: Path) -> DescribedAgent:
    """The agent of a file or directory in a checkout."""
    if not exists(path):
        raise InputError(f"agent {name}: there is no {path}; give the path of a program or of its directory")
    if is_file(path):
        if path.name.endswith(SUFFIXES):
            return DescribedAgent.of_file(path, name=name)
        argv = _starting(path, "{agent}")
        if argv is None:
            raise InputError(
                f"agent {name}: nothing says how to start it; run `chmod +x {path.name}`, or write an agent file "
                f"{name}.agent.toml beside it:\n" + _example(name, path.name, "{agent}"),
                path=path,
            )
        return _described(name, path, argv)
    if (file := _agent_file(name, path)) is not None:
        return DescribedAgent.of_file(file, name=name)
    argv = starting_file(name, path)
    if argv is not None:
        return _described(name, path, argv)
    raise InputError(
        f"agent {name}: nothing says how to start it: there is none of {', '.join(_NAMES[:2])}, {name}, agent.py, "
        f"main.py and so on. Write an agent file {name}.agent.toml into it:\n"
        + _example(name, ".", "{agent}/my_program.py"),
        path=path,
    )


def starting_file(name: str, directory: Path) -> list[str] | None:
    """The arguments that start a directory without an agent file, by a file of a known name; None: there is none."""
    for candidate in _NAMES:
        file_name = candidate.format(name=name)
        argv = _starting(directory / file_name, f"{{agent}}/{file_name}")
        if argv is not None:
            return argv
    return None


def _agent_file(name: str, directory: Path) -> Path | None:
    """The agent file in a directory. Raises InputError: there are several, and none has the agent's name."""
    found = sorted(path for suffix in SUFFIXES for path in directory.glob(f"*{suffix}") if path.is_file())
    named = [path for path in found if path.name.partition(".agent.")[0] == name]
    if len(found) > 1 and len(named) != 1:
        names = ", ".join(path.name for path in found[:5])
        raise InputError(
            f"agent {name}: several agent files, {names}; give one of them: {name}={directory}/{found[0].name}",
            path=directory,
        )
    return next(iter(named or found), None)


def _starting(file: Path, place: str) -> list[str] | None:
    """The arguments that start a file which sandboxes see at `place`; None if it cannot be started."""
    if not is_file(file):
        return None
    interpreter = _INTERPRETERS.get(file.suffix)
    if os.access(file, os.X_OK):
        with file.open("rb") as content:
            begins = content.read(2)
        if interpreter is None or begins == b"#!":
            return [place]
    return None if interpreter is None else [interpreter, place]


def _described(name: str, path: Path, argv: Sequence[str]) -> DescribedAgent:
    """The agent of a path without an agent file."""

    def describe() -> Description:
        from .description import Description, ProgramSource

        about = f"{path}, started with {' '.join(argv)}"
        return Description(name=name, about=about, source=ProgramSource(path=str(path)), argv=tuple(argv))

    return DescribedAgent(name, describe)


def _example(name: str, path: str, program: str) -> str:
    return f'  name = "{name}"\n  source = {{ path = "{path}" }}\n  argv = ["python3", "{program}"]'
