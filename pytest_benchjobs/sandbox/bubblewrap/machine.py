"""The part of this machine that a local sandbox sees: its programs, and those settings that everybody may read."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import stat
from pathlib import Path

_PROGRAMS = ("bin", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "sbin", "usr")
_MORE_PROGRAMS = Path("/opt")
# What a container of Docker has read-only there, and what it has not at all. Run by root, a sandbox's root is the
# kernel's too, and for much of /proc the kernel asks no more than that.
_KERNEL_READ_ONLY = ("bus", "fs", "irq", "sys", "sysrq-trigger")
_KERNEL_HIDDEN = (
    "acpi", "asound", "kcore", "keys", "latency_stats", "mtrr", "sched_debug", "scsi", "timer_list",
)  # fmt: skip
_ETC = Path("/etc")
# Who uses this machine and which one it is are nobody's business; those of a sandbox are its own.
_OWN = frozenset(
    {"group", "group-", "gshadow", "gshadow-", "hostname", "machine-id", "passwd", "passwd-", "shadow", "shadow-",
     "subgid", "subgid-", "subuid", "subuid-", "sudoers"}
)  # fmt: skip
_USERS = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
_GROUPS = "root:x:0:\nnogroup:x:65534:\n"
_RELEASES = (Path("/etc/os-release"), Path("/usr/lib/os-release"))


def programs() -> tuple[str, ...]:
    """Directories that hold programs, as absolute paths: of /opt those below it, where agents have theirs, too."""
    found = [f"/{name}" for name in _PROGRAMS if Path(f"/{name}").is_dir()]
    with contextlib.suppress(OSError):
        found += sorted(str(path) for path in _MORE_PROGRAMS.iterdir() if _open_to_all(path))
    return tuple(found)


def kernel_options() -> list[str]:
    """Have bubblewrap mount a /proc in which nothing of the machine can be changed."""
    options = ["--proc", "/proc"]
    for path in (Path("/proc", name) for name in _KERNEL_READ_ONLY):
        if path.exists():
            options += ["--ro-bind", str(path), str(path)]
    for path in (Path("/proc", name) for name in _KERNEL_HIDDEN):
        if path.is_dir():
            options += ["--tmpfs", str(path), "--remount-ro", str(path)]
        elif path.exists():
            options += ["--ro-bind", os.devnull, str(path)]
    return options


def release() -> str:
    """A digest of what says which release of which system this is."""
    told = b""
    for path in _RELEASES:
        with contextlib.suppress(OSError):
            told = path.read_bytes()
            break
    return hashlib.sha256(told + platform.machine().encode()).hexdigest()


def copy_settings(target: Path, hostname: str) -> None:
    """Copy to `target` what everybody may read of /etc, with users and a name of the sandbox's own.

    A copy, because root would read the rest as well. It is an `OSError` if it cannot be written.
    """
    target.mkdir(mode=0o755)
    for name, directories, files in os.walk(_ETC):
        here = Path(name)
        there = target / here.relative_to(_ETC)
        links = [one for one in directories if (here / one).is_symlink()]
        directories[:] = [one for one in directories if one not in links and _open_to_all(here / one)]
        for one in directories:
            (there / one).mkdir(mode=0o755)
        for one in (*links, *files):
            if here != _ETC or one not in _OWN:
                _copy(here / one, there / one)
    for name, content in (("passwd", _USERS), ("group", _GROUPS), ("hostname", f"{hostname}\n")):
        (target / name).write_text(content, "utf-8")
    with (target / "hosts").open("a", encoding="utf-8") as hosts:
        hosts.write(f"127.0.0.1\tlocalhost {hostname}\n")


def _open_to_all(directory: Path) -> bool:
    try:
        mode = directory.lstat().st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) and mode & 0o005 == 0o005


def _copy(source: Path, target: Path) -> None:
    """One file or link; nothing, if not everybody may read it."""
    if source.is_symlink() and _stays(source):
        target.symlink_to(source.readlink())
        return
    try:
        about = source.stat()
        if not (stat.S_ISREG(about.st_mode) and about.st_mode & 0o004):
            return
        content = source.open("rb")
    except OSError:
        return
    with content, target.open("xb") as copy:
        shutil.copyfileobj(content, copy)
    target.chmod(about.st_mode & 0o755 | 0o600)


def _stays(link: Path) -> bool:
    """Return True if a link leads to what a sandbox sees too."""
    real = os.path.realpath(link)
    return any(real.startswith(f"{top}/") for top in (*programs(), str(_ETC), "/proc"))
