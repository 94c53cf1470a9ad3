"""The program of ours that runs inside containers: first process, door to the gateway, carrier of files, and more.

It is one static file for each kind of machine, in C without a libc, for it has to run in every image: as any user,
without capabilities, on a read-only file system. Its first argument says what it is to be (`main.c`).

A wheel has it. In a checkout it is compiled at first use, into the cache of this machine.
"""

from __future__ import annotations

import functools
from pathlib import Path

from ...model.errors import EnvironmentFailed, InfrastructureError
from ...system.cache import cache_directory
from ...system.keeping import locked, replace_file
from ..protocol import File
from .compiling import MACHINES, CannotCompile, compile_program, sources_digest

PROGRAM = "/bench/program"


def program_file(machine: str) -> File | None:
    """The program as a file for a sandbox; None: there is none for such machines (`SandboxProvider.machine`).

    Raises:
        EnvironmentFailed: it cannot be compiled here.
    """
    return File(PROGRAM, content=_program(machine), mode=0o755, clean=True) if machine in MACHINES else None


def needed_program(machine: str, what: str, error: type[InfrastructureError]) -> File:
    """The same; where there is none, and so `what` is not possible, `error` is raised."""
    if (file := program_file(machine)) is None:
        raise error(f"{what} on {' and '.join(MACHINES)}, and the sandboxes' machine is {machine}")
    return file


@functools.cache
def _program(machine: str) -> bytes:
    built = Path(__file__).with_name(f"bench-{machine}")
    if built.is_file():
        return built.read_bytes()
    place = cache_directory("program") / f"{built.name}-{sources_digest()}"
    try:
        with locked(place, lambda: None):
            if not place.is_file():
                replace_file(place, compile_program(machine))
        return place.read_bytes()
    except (CannotCompile, OSError) as error:
        raise EnvironmentFailed(f"the program that runs in sandboxes cannot be compiled: {error}") from error
