"""The door: a tiny program through which an agent reaches the gateway, and nothing else of this machine.

It listens on the loopback of the container's own network, hands the listening socket to the gateway over a unix socket
that is mounted there, and then becomes the agent. So the gateway accepts connections where no other container and no
other program of this machine can make any, even where there is no network at all; and no program of ours runs beside
the agent.

It is put together here, for it has to run in every image: with no libc, as any user, without capabilities, on a
read-only file system. `assembly` knows the machines; this is the program, a system call in each line.

An agent can replace the door, and can try to hand over a socket of its own. Neither is worth anything: the door is run
before there is an agent, put in anew for each of its turns, and the gateway takes one socket a turn and no other.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable

from ..model.endpoint import GATEWAY_PORT
from ..model.errors import AgentSetupFailed
from .assembly import MACHINES, Register
from .protocol import File

DOOR = "/bench/door"
SOCKET = "/bench/gateway.sock"
"""Socket on which the gateway takes the listening socket: with SCM_RIGHTS, beside the agent's process id in 4 bytes,
the lowest first. The id is the number of the agent's process group in the container, for `Sandbox.signal`."""
PROXY_DOOR = "/bench/proxy-door"
"""Program that opens the proxy of a network `allowlist` in the same way: see `proxy.py`."""
DOOR_FAILED = 125
"""Exit status of a door that could not reach the gateway: there never was an agent. Agents can exit with it as well,
so believe it only if the gateway was handed no socket."""
NOT_RUN = 127
"""Exit status of a door that reached the gateway, and then could not run the agent's program."""

_LOOPBACK = "127.0.0.1"
_BACKLOG = 128
# Of Linux, wherever this is put together.
_SOL_SOCKET, _SCM_RIGHTS, _SO_REUSEADDR = 1, 1, 2
_CLOSE_ON_EXEC = 0o2000000
_NO_SIGNAL = 0x4000


def through_door(argv: Iterable[str]) -> tuple[str, ...]:
    """The command that runs `argv` behind the door. A program without a path is left to the sandbox's shell."""
    command = tuple(argv)
    if not command[0].startswith("/"):
        command = ("/bin/sh", "-c", 'exec "$0" "$@"', *command)
    return (DOOR, *command)


def door_file(machine: str) -> File:
    """The door as a file for a sandbox; `machine` as `SandboxProvider.machine` says it. Raises as `door_program`."""
    return File(DOOR, content=door_program(machine), mode=0o755)


def door_program(
    machine: str, *, port: int = GATEWAY_PORT, path: str = SOCKET, becomes: bool = True
) -> bytes:
    """The door as an executable, to be called with a command whose program has an absolute path.

    Args:
        machine: What `uname -m` says: `x86_64`, `aarch64`.
        port: Where it listens on the loopback.
        path: Of the unix socket it hands the listening socket to.
        becomes: False: it is called without a command, and ends once it has handed the socket over.

    Raises:
        AgentSetupFailed: there is none for such machines.
    """
    if machine not in MACHINES:
        raise AgentSetupFailed(
            f"agents that need a model can run on {' and '.join(MACHINES)}, and the sandboxes' machine is {machine}"
        )
    door = MACHINES[machine]()
    listener, gateway = Register.FIRST, Register.SECOND

    here = (
        struct.pack("<H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(_LOOPBACK) + bytes(8)
    )
    there = struct.pack("<H", socket.AF_UNIX) + path.encode() + b"\0"
    local_address, gateway_address = door.data(here), door.data(there)
    pid = door.data(bytes(4))
    yes = door.data(struct.pack("<I", 1))
    control = door.data(struct.pack("<QiiiI", 20, _SOL_SOCKET, _SCM_RIGHTS, 0, 0))
    descriptor = control + 16
    vector = door.data(struct.pack("<QQ", pid, 4))
    message = door.data(struct.pack("<7Q", 0, 0, vector, 1, control, 24, 0))
    unreached = door.complaint("bench: the gateway cannot be reached")
    not_run = door.complaint("bench: the agent's program cannot be run")

    kind = socket.SOCK_STREAM | _CLOSE_ON_EXEC
    door.call("socket", socket.AF_INET, kind, 0, keep=listener)
    # Connections of an earlier turn may not have timed out.
    door.attempt("setsockopt", listener, _SOL_SOCKET, _SO_REUSEADDR, yes, 4)
    door.call("bind", listener, local_address, len(here))
    door.call("listen", listener, _BACKLOG)
    door.call("socket", socket.AF_UNIX, kind, 0, keep=gateway)
    door.call("connect", gateway, gateway_address, len(there))
    door.call("getpid")
    door.store(None, pid)
    door.store(listener, descriptor)
    door.call("sendmsg", gateway, message, _NO_SIGNAL)
    door.call("close", listener)
    door.call("close", gateway)
    if becomes:
        door.become_arguments()
        door.give_up(not_run, NOT_RUN)
    else:
        door.exit(0)
    door.on_failure()
    door.give_up(unreached, DOOR_FAILED)
    return door.program()
