"""Identity of a process, unique on this machine also when pids are recycled."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
from pathlib import Path

from .environ import program_environment
from .job import Owner

# The initial pid namespace of a Linux kernel has this inode; any other means a container.
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
_DEAD_STATES = frozenset({"Z", "X", "x"})


def current_owner() -> Owner:
    """Identity of this process."""
    pid = os.getpid()
    started = _start_time(pid)
    if started is None:
        raise RuntimeError("the kernel does not tell when this process started")
    return Owner(host=_host(), boot=_boot(), pid=pid, started=started)


def is_alive(owner: Owner) -> bool:
    """False only if that process is surely dead: it ran on this host, before a reboot, or its pid is free or reused.

    Of a process of another host nothing is known, so it counts as alive.
    """
    if owner.host != _host():
        return True
    if owner.boot != _boot():
        return False
    return _start_time(owner.pid) == owner.started


@functools.cache
def _host() -> str:
    """The host's name; inside a container with pids of its own, the name of its pid namespace too.

    Two containers may share host name and kernel, and neither sees the processes of the other.
    """
    try:
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115  it is no path
    except OSError:
        namespace = _INITIAL_PID_NAMESPACE
    name = socket.gethostname() or "localhost"
    if namespace == _INITIAL_PID_NAMESPACE:
        return name
    return f"{name}+{''.join(filter(str.isdigit, namespace))}"


@functools.cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return "".join(filter(str.isalnum, _output("sysctl", "-n", "kern.boottime"))) or "unknown"


def _start_time(pid: int) -> str | None:
    """Start time of the process, from the kernel. None: no such process, or a zombie."""
    if not Path("/proc/self/stat").exists():
        return "".join(filter(str.isalnum, _output("ps", "-o", "lstart=", "-p", str(pid)))) or None
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # The second field is the program's name in brackets, and may itself hold spaces and brackets.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in _DEAD_STATES else fields[19]


def _output(*argv: str) -> str:
    try:
        return subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=10, env=program_environment()
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
