"""The first process of a container: it does nothing, cannot be got into, and ends all others when the engine says so.

What ends processes must not be theirs to stop. Whoever is root in a container can trace and rewrite each of its
processes, except one that is not dumpable: for that it takes CAP_SYS_PTRACE, which containers do not have. Nor can
signals from inside end the first process of a process namespace. So

    SIGUSR1    kill everybody else, again and again, until the kernel says that there is nobody else. It kills all at
               once: none can fork away meanwhile. Then change the name, which the engine sees
    deadline   end, and with it the container

The name is `bench-0`, whose digit changes by turns. An agent can send the signal as well: it dies by it, so nobody but
the engine changes the digit and is there to see it.

It is a part of our program (`../program/first.c`). Where an image's own ENTRYPOINT is kept, the same program is what
that is told to run: once it runs, the ENTRYPOINT has done what it does before `exec "$@"`.
"""

from __future__ import annotations

import re

from ..program import PROGRAM

SIGNAL = "USR1"
NAME = re.compile(r"bench-(?P<ended>[01])")
"""Pattern of the names it gives itself."""
REACHED = (PROGRAM, "reached")
"""Command that an ENTRYPOINT is told to run."""

_FIRST = (PROGRAM, "first")


def first_command(lifetime: int) -> list[str]:
    """The command of a container whose first process it is, for `lifetime` seconds."""
    return [*_FIRST, str(lifetime)]


def is_first(command: str) -> bool:
    """Return True for such a command, as the engine lists it."""
    return command.startswith(" ".join(_FIRST) + " ")
