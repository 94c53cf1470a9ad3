"""The first process of a container: it does nothing, cannot be got into, and ends all others when the engine says so.

What ends processes must not be theirs to stop. Whoever is root in a container can trace and rewrite each of its
processes, except one that is not dumpable: for that it takes CAP_SYS_PTRACE, which containers do not have. Nor can
signals from inside end the first process of a process namespace. So

    SIGUSR1    kill everybody else, again and again, until the kernel says that there is nobody else. It kills all at
               once: none can fork away meanwhile. Then look as for SIGUSR2. If /dev is not as it was at the start, end
               instead: only a new start gives a clean one
    SIGUSR2    look whether the directories it was given are as they were at the start (`untouched`), and change the
               name, which the engine sees
    deadline   end, and with it the container

The name is `bench-0-0`. The first digit changes by turns when all others were ended, the second when it has looked, and
then 4 is added to it if something has changed. An agent can send the signals as well: it dies by the first, so nobody
but the engine changes the first digit and is there to see it.

Where an image's own ENTRYPOINT is kept, the same program is what that is told to run: once it runs, the ENTRYPOINT has
done what it does before `exec "$@"`.
"""

from __future__ import annotations

import re
import struct

from ..assembly import MACHINES, Assembly
from ..protocol import File
from .untouched import NOTHING, Watched

FIRST = "/bench/first"
SIGNAL = "USR1"
LOOK = "USR2"
NAME = re.compile(r"bench-(?P<ended>[01])-(?P<looked>(?P<untouched>[01])|[45])")
"""Pattern of the names it gives itself."""
CHANGED = 3
"""Its exit status where somebody changed /dev."""
REACHED = "reached"
"""Its argument where it is what an ENTRYPOINT was told to run."""

_SET_NAME, _SET_DUMPABLE = 15, 4
_SET_MASK = 2
_SIGKILL, _SIGUSR1, _SIGUSR2, _SIGCHLD = 9, 10, 12, 17
_IGNORE = 1
_EVERYBODY = 0xFFFFFFFF
_EAGAIN = 11
_MASK_SIZE = 8
# Of `struct stat`, on both machines: its number, and when the inode was changed last, in seconds and nanoseconds.
_STAT_SIZE, _INODE, _CHANGED_AT = 144, 8, 104
_NOT_FOLLOWING = 0x100
_SAME_OWNER = 0xFFFFFFFF
_PAUSE = 1_000_000
_NAMES = (b"bench-0-0\0", b"bench-0-4\0")
_ENDED_DIGIT, _LOOKED_DIGIT = 6, 8


def first_file(machine: str, lifetime: int, watched: Watched = NOTHING) -> File | None:
    """The program as a file for a container; None: there is none for such machines."""
    if machine not in MACHINES:
        return None
    return File(FIRST, content=first_program(machine, lifetime, watched), mode=0o755, clean=True)


def first_program(machine: str, lifetime: int, watched: Watched = NOTHING) -> bytes:
    """The program as an executable that ends after `lifetime` seconds."""
    first = MACHINES[machine]()
    names = [first.data(name) for name in _NAMES]
    everything = first.data(struct.pack("<Q", 0xFFFFFFFFFFFFFFFF))
    awaited = first.data(struct.pack("<Q", 1 << _SIGUSR1 - 1 | 1 << _SIGUSR2 - 1))
    ends = first.data(struct.pack("<Q", _SIGUSR1))
    told = first.data(struct.pack("<Q", 0))
    ignored = first.data(struct.pack("<4Q", _IGNORE, 0, 0, 0))
    deadline = first.data(struct.pack("<QQ", lifetime, 0))
    pause = first.data(struct.pack("<QQ", 0, _PAUSE))
    devices = _Directory(first, "/dev")
    baseline = _Baseline(first, watched)

    first.attempt("prctl", _SET_DUMPABLE, 0)
    first.attempt("rt_sigprocmask", _SET_MASK, everything, 0, _MASK_SIZE)
    # So the kernel reaps what is orphaned.
    first.attempt("rt_sigaction", _SIGCHLD, ignored, 0, _MASK_SIZE)
    devices.note()
    baseline.note()
    first.attempt("prctl", _SET_NAME, names[0])
    waiting = first.here()
    first.attempt("rt_sigtimedwait", awaited, 0, deadline, _MASK_SIZE)
    late = first.jump_if_error(_EAGAIN)
    first.land(first.jump_if_failed(), waiting)
    first.store(None, told)
    looks = first.jump_if_different(told, ends)
    killing = first.here()
    first.attempt("kill", _EVERYBODY, _SIGKILL)
    alone = first.jump_if_failed()
    first.attempt("nanosleep", pause, 0)
    first.land(first.jump(), killing)
    first.land(alone)
    unclean = devices.look()
    for name in names:
        first.toggle(name + _ENDED_DIGIT)
    first.land(looks)
    for name in names:
        first.toggle(name + _LOOKED_DIGIT)
    touched = baseline.look()
    first.attempt("prctl", _SET_NAME, names[0])
    first.land(first.jump(), waiting)
    for jump in touched:
        first.land(jump)
    first.attempt("prctl", _SET_NAME, names[1])
    first.land(first.jump(), waiting)
    for jump in unclean:
        first.land(jump)
    first.attempt("exit_group", CHANGED)
    first.land(late)
    first.attempt("exit_group", 0)
    return first.program()


class _Directory:
    """One that is compared with what it was, by when its inode was changed: nobody without CAP_SYS_TIME sets that."""

    def __init__(self, first: Assembly, path: str) -> None:
        self._first = first
        self._path = first.data(path.encode() + b"\0")
        self._before, self._now = first.data(bytes(_STAT_SIZE)), first.data(bytes(_STAT_SIZE))

    def note(self) -> None:
        self._first.attempt("newfstatat", 0, self._path, self._before, 0)

    def look(self) -> list[int]:
        """Jumps that are taken where it has changed."""
        self._first.attempt("newfstatat", 0, self._path, self._now, 0)
        return [
            self._first.jump_if_different(self._before + place, self._now + place)
            for place in (_CHANGED_AT, _CHANGED_AT + 8)
        ]

    def jump_if_link(self) -> int:
        """A jump that is taken where the path is a link, after `note`."""
        self._first.attempt("newfstatat", 0, self._path, self._now, _NOT_FOLLOWING)
        return self._first.jump_if_different(self._before + _INODE, self._now + _INODE)

    def copy_up(self) -> None:
        """Have it copied to the container's own layer, which changes nothing else of it."""
        self._first.attempt("fchownat", 0, self._path, _SAME_OWNER, _SAME_OWNER, 0)


class _Baseline:
    """The directories that are looked at. In doubt they have changed."""

    def __init__(self, first: Assembly, watched: Watched) -> None:
        self._first = first
        self._usual = first.data(struct.pack("<Q", 0))
        self._doubt = first.data(struct.pack("<Q", 0))
        self._watched = [_Directory(first, path) for path in watched.directories]
        self._free = [_Directory(first, path) for path in watched.free]

    def note(self) -> None:
        for directory in self._free:
            directory.copy_up()
        for directory in (*self._watched, *self._free):
            directory.note()
        links = [directory.jump_if_link() for directory in (*self._watched, *self._free)]
        # Whoever is here already may have changed something before it was looked at.
        self._first.attempt("kill", _EVERYBODY, 0)
        alone = self._first.jump_if_failed()
        for jump in links:
            self._first.land(jump)
        self._first.toggle(self._doubt)
        self._first.land(alone)

    def look(self) -> list[int]:
        """Jumps that are taken where something has changed."""
        if not self._watched:
            return [self._first.jump()]
        doubt = self._first.jump_if_different(self._usual, self._doubt)
        return [doubt, *(jump for directory in self._watched for jump in directory.look())]
