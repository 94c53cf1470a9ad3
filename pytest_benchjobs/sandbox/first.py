"""The first process of a container: it does nothing, cannot be got into, and ends all others when the engine says so.

What ends processes must not be theirs to stop. Whoever is root in a container can trace and rewrite each of its
processes, except one that is not dumpable: for that it takes CAP_SYS_PTRACE, which containers do not have. Nor can
signals from inside end the first process of a process namespace. So

    SIGUSR1    kill everybody else, again and again, until the kernel says that there is nobody else. It kills all at
               once: none can fork away meanwhile. Then change the name (`bench-0`, `bench-1`), which the engine sees.
               If /dev is not as it was at the start, end instead: only a new start gives a clean one
    deadline   end, and with it the container

An agent can send the signal as well, and dies by it.

Where an image's own ENTRYPOINT is kept, the same program is what that is told to run: once it runs, the ENTRYPOINT has
done what it does before `exec "$@"`.
"""

from __future__ import annotations

import struct

from .assembly import MACHINES
from .protocol import File

FIRST = "/bench/first"
SIGNAL = "USR1"
NAMES = ("bench-0", "bench-1")
"""What it calls itself, by turns."""
REACHED = "reached"
"""Its argument where it is what an ENTRYPOINT was told to run."""

_SET_NAME, _SET_DUMPABLE = 15, 4
_SET_MASK = 2
_SIGKILL, _SIGUSR1, _SIGCHLD = 9, 10, 17
_IGNORE = 1
_EVERYBODY = 0xFFFFFFFF
_EAGAIN = 11
_MASK_SIZE = 8
# Of `struct stat`, on both machines: when the inode was changed last, in seconds and nanoseconds.
_STAT_SIZE, _CHANGED_AT = 144, 104
_PAUSE = 1_000_000


def first_file(machine: str, lifetime: int) -> File | None:
    """The program as a file for a container; None: there is none for such machines."""
    if machine not in MACHINES:
        return None
    return File(FIRST, content=first_program(machine, lifetime), mode=0o755, clean=True)


def first_program(machine: str, lifetime: int) -> bytes:
    """The program as an executable that ends after `lifetime` seconds."""
    first = MACHINES[machine]()
    name = first.data(NAMES[0].encode() + b"\0")
    everything = first.data(struct.pack("<Q", 0xFFFFFFFFFFFFFFFF))
    awaited = first.data(struct.pack("<Q", 1 << _SIGUSR1 - 1))
    ignored = first.data(struct.pack("<4Q", _IGNORE, 0, 0, 0))
    deadline = first.data(struct.pack("<QQ", lifetime, 0))
    pause = first.data(struct.pack("<QQ", 0, _PAUSE))
    devices = first.data(b"/dev\0")
    before, now = first.data(bytes(_STAT_SIZE)), first.data(bytes(_STAT_SIZE))

    first.attempt("prctl", _SET_DUMPABLE, 0)
    first.attempt("prctl", _SET_NAME, name)
    first.attempt("rt_sigprocmask", _SET_MASK, everything, 0, _MASK_SIZE)
    # So the kernel reaps what is orphaned.
    first.attempt("rt_sigaction", _SIGCHLD, ignored, 0, _MASK_SIZE)
    first.attempt("newfstatat", 0, devices, before, 0)
    waiting = first.here()
    first.attempt("rt_sigtimedwait", awaited, 0, deadline, _MASK_SIZE)
    late = first.jump_if_error(_EAGAIN)
    first.land(first.jump_if_failed(), waiting)
    killing = first.here()
    first.attempt("kill", _EVERYBODY, _SIGKILL)
    alone = first.jump_if_failed()
    first.attempt("nanosleep", pause, 0)
    first.land(first.jump(), killing)
    first.land(alone)
    first.attempt("newfstatat", 0, devices, now, 0)
    changed = [
        first.jump_if_different(before + place, now + place) for place in (_CHANGED_AT, _CHANGED_AT + 8)
    ]
    first.toggle(name + len(NAMES[0]) - 1)
    first.attempt("prctl", _SET_NAME, name)
    first.land(first.jump(), waiting)
    for jump in (late, *changed):
        first.land(jump)
    first.attempt("exit_group", 0)
    return first.program()
