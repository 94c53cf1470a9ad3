"""Words with which engines were seen to refuse, and the same as nonsense."""

from __future__ import annotations

from typing import NamedTuple


class Words(NamedTuple):
    """One refusal, as it was seen."""

    name: str
    status: int
    text: str
    seen: str
    """The engine, or runtime, and version that said so."""


REMOVAL = Words(
    "removal in progress", 409, "removal of container 4f6a is already in progress", "Docker 20.10 to 28"
)
NO_EXEC = Words("no such exec", 404, "No such exec instance: 4f6a", "Docker 20.10 to 28")
STOPPED = Words(
    "stopped state",
    500,
    "OCI runtime exec failed: exec failed: cannot exec in a stopped state: unknown",
    "runc 1.1",
)
BUSY = Words(
    "device busy",
    500,
    'container 4f6a: driver "overlay2" failed to remove root filesystem: unlinkat '
    "/var/lib/docker/overlay2/1c/merged: device or resource busy",
    "Docker 20.10",
)
ENDPOINT = Words(
    "endpoint exists", 403, "endpoint with name bench already exists in network benchjobs", "Docker 20.10"
)
ADDRESS = Words(
    "address in use",
    500,
    "driver failed programming external connectivity on endpoint bench: Address already in use",
    "Docker 20.10",
)
POOL = Words(
    "no address pool",
    500,
    "could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network",
    "Docker 20.10 to 24",
)
NO_FILE = Words(
    "OCI no such file",
    500,
    "OCI runtime exec failed: exec failed: unable to start container process: error adding pid 7 to cgroups: "
    "failed to write 7: open /sys/fs/cgroup/pids/docker/4f6a/cgroup.procs: no such file or directory: unknown",
    "runc 1.1",
)
NO_FORK = Words(
    "OCI no fork",
    500,
    "OCI runtime exec failed: exec failed: fork/exec /proc/self/exe: resource temporarily unavailable: unknown",
    "runc 1.1",
)
NO_EXE = Words(
    "OCI permission denied",
    500,
    "OCI runtime exec failed: exec failed: error opening /proc/self/exe: permission denied: unknown",
    "runc 1.1",
)
CGROUP = Words(
    "cgroup is gone",
    500,
    "runc did not terminate successfully: unable to get all container pids: readdirent "
    "/sys/fs/cgroup/pids/docker/4f6a: no such file or directory: unknown",
    "Docker 20.10, runc 1.1",
)
EOF = Words("unexpected EOF", 500, "unexpected EOF", "Docker 20.10 to 28")
DEADLINE = Words("deadline exceeded", 500, "context deadline exceeded", "Docker 20.10 to 28")
ROOT_FILES = Words(
    "root file system",
    500,
    'container 4f6a: driver "overlay2" failed to remove root filesystem: open /var/lib/docker/overlay2/1c: '
    "no such file or directory",
    "Docker 20.10",
)
TTRPC = Words("ttrpc closed", 500, "ttrpc: closed: unknown", "containerd 1.6")
LSTAT = Words("lstat", 500, "runc: lstat : no such file or directory", "runc 1.1")
PAGE = Words("page not found", 404, "page not found", "Docker 20.10 to 28, and proxies")
NO_CONTAINER = Words("no such container", 404, "No such container: 4f6a", "Docker 20.10 to 28")
OVERLOADED = Words("overloaded", 503, "service unavailable", "proxies before an engine")

KNOWN = (
    REMOVAL, NO_EXEC, STOPPED, BUSY, ENDPOINT, ADDRESS, POOL, NO_FILE, NO_FORK, NO_EXE, CGROUP, EOF, DEADLINE,
    ROOT_FILES, TTRPC, LSTAT, PAGE, NO_CONTAINER, OVERLOADED,
)  # fmt: skip

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ROTATED = str.maketrans(
    _LETTERS + _LETTERS.upper(), _LETTERS[13:] + _LETTERS[:13] + _LETTERS[13:].upper() + _LETTERS[:13].upper()
)


def garble(text: str) -> str:
    """The same text with all letters rotated, so that it means nothing to anybody who reads it."""
    return text.translate(_ROTATED)
