"""The door: what a command becomes an agent through, so that it reaches the gateway and nothing else of this machine.

It is a part of our program (`program/door.c`). It listens on the loopback of the container's own network, hands the
listening socket to the gateway over a unix socket that is mounted there, and then becomes the agent. So no other
container and no other program of this machine can connect, it works where there is no network at all, and no program of
ours runs beside the agent. An agent can replace the door, or hand over a socket of its own, in vain: the door is run
before there is an agent, put in anew for each of its turns, and the gateway takes one socket a turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..model.endpoint import GATEWAY_PORT
from ..model.errors import AgentSetupFailed
from .program import PROGRAM, needed_program
from .protocol import File

SOCKET = "/bench/gateway.sock"
"""Socket on which the gateway takes the listening socket: with SCM_RIGHTS, beside the agent's process id in 4 bytes,
the lowest first. The id is the number of the agent's process group in the container, for `Sandbox.signal`."""
DOOR_FAILED = 125
"""Exit status of a door that could not reach the gateway: there never was an agent. Agents can exit with it as well,
so believe it only if the gateway was handed no socket."""


def door_command(port: int, path: str) -> tuple[str, ...]:
    """The command that opens a door: it listens on this port, and connects to the unix socket at `path`."""
    return (PROGRAM, "door", str(port), path)


def door_of(argv: Sequence[str]) -> str | None:
    """The path of the socket that a command connects with, if it is a door."""
    return argv[3] if tuple(argv[:2]) == (PROGRAM, "door") else None


def is_ours(argv: Sequence[str]) -> bool:
    """True for a command that runs nothing but our program: a door becomes the agent, and a scorer has more started."""
    mode = tuple(argv[1:3])
    return argv[0] == PROGRAM and mode != ("serve", "scorer") and not (mode[:1] == ("door",) and argv[4:])


_DOOR = door_command(GATEWAY_PORT, SOCKET)


def through_door(argv: Iterable[str]) -> tuple[str, ...]:
    """The command that runs `argv` behind the door. A program without a path is left to the sandbox's shell."""
    command = tuple(argv)
    if not command[0].startswith("/"):
        command = ("/bin/sh", "-c", 'exec "$0" "$@"', *command)
    return (*_DOOR, *command)


def behind_door(argv: Sequence[str]) -> tuple[str, ...] | None:
    """The command that `argv` runs behind the door; None: it does not go through it."""
    head, rest = tuple(argv[: len(_DOOR)]), tuple(argv[len(_DOOR) :])
    return rest if head == _DOOR else None


def door_file(machine: str) -> File:
    """The door as a file for a sandbox; `machine` as `SandboxProvider.machine` says it.

    Raises:
        AgentSetupFailed: there is none for such machines.
        EnvironmentFailed: it cannot be compiled here.
    """
    return needed_program(machine, "agents that need a model can run", AgentSetupFailed)
