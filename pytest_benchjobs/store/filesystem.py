"""File systems: the kind of a directory's file system, and whether locks and SQLite's write-ahead log work there.

The log needs memory shared by all processes that have the file open. Network file systems claim to have it; it works
on one machine, and loses data with two.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import sqlite3
from pathlib import Path

_NETWORK = frozenset(
    {
        "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "fakeowner", "fhgfs", "gfs2",
        "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "osxfs", "panfs", "prl_fs", "pvfs2",
        "smb", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs", "webdav", "wekafs",
    }
)  # fmt: skip
_LOCAL_FUSE = frozenset({"fuseblk", "fuse.fuse-overlayfs", "fuse.ntfs-3g"})
_MOUNTS = Path("/proc/self/mountinfo")
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
_OCTAL = re.compile(rb"\\([0-7]{3})")


def filesystem_of(path: Path, mounts: Path = _MOUNTS) -> str | None:
    """Return the kernel's name of a directory's file system (`ext4`, `nfs4`, `fuse.sshfs`).

    None where it is unknown (only Linux has `/proc`), or the path does not exist.
    """
    try:
        device = path.stat().st_dev
        lines = mounts.read_bytes().splitlines()
        real = os.fsencode(path.resolve())
    except OSError:
        return None
    found: tuple[int, bytes] | None = None
    for line in lines:
        # 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
        before, _, after = line.partition(b" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = _OCTAL.sub(lambda match: bytes([int(match[1], 8)]), fields[4])
        if not (real == point or real.startswith(point.rstrip(b"/") + b"/")):
            continue
        # The mount with the longest path wins, of several at one path the last. A matching device number beats
        # both, as a mount may be hidden by another.
        major, _, minor = fields[2].partition(b":")
        exact = (int(major), int(minor)) == (os.major(device), os.minor(device))
        rank = len(point) + (1 << 20 if exact else 0)
        if found is None or rank >= found[0]:
            found = rank, after.split()[0]
    return None if found is None else found[1].decode("ascii", "replace")


def on_network(directory: Path) -> bool:
    """Return whether other machines may use the files of a directory too. An unknown kind counts as local."""
    kind = filesystem_of(directory)
    if kind is None:
        return False
    return kind in _NETWORK or (kind.startswith("fuse") and kind not in _LOCAL_FUSE)


def why_no_locks(directory: Path) -> str | None:
    """Return the system's reason why files of a directory cannot be locked; None if they can, or it is unknown.

    SQLite would take the error for another process's lock, and wait.
    """
    # Not with the database itself: closing it would drop all locks of this process on it.
    probe = directory / f".lock-probe-{secrets.token_hex(4)}"
    try:
        descriptor = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return os.strerror(error.errno) if error.errno in _NO_LOCKS else None
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            probe.unlink()
    return None


def wal_works(directory: Path) -> bool:
    """Return whether write-ahead logging works in a directory of this machine."""
    # It may be reported as on and fail at the first write, so try it on a temporary database.
    probe = directory / f".wal-probe-{secrets.token_hex(4)}"
    try:
        with contextlib.closing(sqlite3.connect(probe, isolation_level=None)) as writer:
            if writer.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
                return False
            writer.execute("CREATE TABLE probe (x)")
            writer.execute("INSERT INTO probe VALUES (1)")
            with contextlib.closing(sqlite3.connect(probe)) as reader:
                return bool(reader.execute("SELECT x FROM probe").fetchall() == [(1,)])
    except sqlite3.Error:
        return False
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(OSError):
                probe.with_name(probe.name + suffix).unlink()
