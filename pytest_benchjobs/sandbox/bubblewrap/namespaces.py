"""One command in namespaces of its own: the options for bubblewrap, and their end.

Everything that a command starts ends with it, for the kernel ends its process namespace. So there is nothing that
could be left running, and nothing to look for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import secrets
import select
import signal
import stat
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

from ...model.errors import EngineError
from ..protocol import Mount
from .machine import kernel_options, programs

HOSTNAME = "bench"

_NAMESPACES = (
    "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--uid", "0",
    "--gid", "0", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
)  # fmt: skip
# Of root in the sandbox, over files of whoever runs it: without them root could not read what it has locked itself.
_CAPABILITIES = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_NET_BIND_SERVICE")
_END_SECONDS = 10.0


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """The directories of this machine that a sandbox is made of."""

    root: Path
    """Its own, and all of it that can be written."""
    settings: Path
    """Directory that it sees as /etc."""
    mounts: tuple[Mount, ...] = ()

    def options(self, *, network: bool, workdir: str, env: Mapping[str, str]) -> list[str]:
        """Return the options of bubblewrap. `network`: that of this machine; else there is only a loopback."""
        options = [*_NAMESPACES, *(() if network else ("--unshare-net",)), "--hostname", HOSTNAME]
        for name in _CAPABILITIES:
            options += ["--cap-add", name]
        options += ["--bind", str(self.root), "/"]
        for top in programs():
            options += ["--ro-bind", top, top]
        options += ["--ro-bind", str(self.settings), "/etc", *kernel_options(), "--dev", "/dev"]
        for mount in self.mounts:
            options += ["--ro-bind", str(mount.source.absolute()), mount.target]
        options += ["--chdir", workdir]
        for name, value in env.items():
            options += ["--setenv", name, value]
        return options

    def make_mount_points(self) -> None:
        """Have a real directory or file wherever something is mounted; an `OSError`, if that cannot be.

        Not left to bubblewrap: it would follow links that an agent has put there, out of the sandbox.
        """
        points = dict.fromkeys((*programs(), "/etc", "/proc", "/dev"), True)
        for target, is_directory in (
            points | {one.target: one.source.is_dir() for one in self.mounts}
        ).items():
            point = Path(target.lstrip("/"))
            for parent in reversed(point.parents[:-1]):
                _have(self.root / parent, is_directory=True)
            _have(self.root / point, is_directory=is_directory)


class Contained:
    """A command that runs in namespaces of its own, from its start until `close`.

    `options` are what the program `bwrap` is told, but not on its command line: everybody on this machine may read
    that. `stdin` and `stderr` are those of `subprocess.Popen`, whose `OSError` says that it cannot be started.
    """

    def __init__(
        self,
        bwrap: str,
        options: Sequence[str],
        argv: Iterable[str],
        *,
        stdin: int = subprocess.DEVNULL,
        stderr: int = subprocess.STDOUT,
    ) -> None:
        self._group: int | None = None
        self._first: int | None = None
        self._closed = False
        self._exit_status: int | None = None
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            status, tells = os.pipe()
            self._status: IO[bytes] = ours.enter_context(os.fdopen(status, "rb"))
            theirs.callback(os.close, tells)
            file = theirs.enter_context(os.fdopen(os.memfd_create("bench-sandbox"), "wb"))
            file.writelines(option.encode("utf-8", "surrogateescape") + b"\0" for option in options)
            file.flush()
            os.lseek(given := file.fileno(), 0, os.SEEK_SET)
            self.process = subprocess.Popen(
                [bwrap, "--args", str(given), "--json-status-fd", str(tells), "--", *argv],
                cwd="/",
                env={},
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                pass_fds=(given, tells),
                start_new_session=True,
                umask=0o022,
            )
            ours.callback(self.close)
            theirs.close()
            # The process that the namespace ends with. None: there never was one.
            if line := self._status.readline():
                self._group = int(json.loads(line)["child-pid"])
                with contextlib.suppress(ProcessLookupError):
                    self._first = os.pidfd_open(self._group)
            ours.pop_all()

    def write(self, data: bytes) -> None:
        """Write to its standard input, where that is a pipe."""
        assert self.process.stdin is not None  # noqa: S101  it was asked for
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the command and its children, but for those that left its process group. Never raises."""
        if self._group is not None and self._first is not None and not self._has_ended(0):
            # The group is led by the namespace's first process, which ignores everything but SIGKILL.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, number)

    def kill(self) -> None:
        """End it, and everything it started. From any thread; never raises."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            self.process.kill()
        if self._first is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)

    def close(self) -> int | None:
        """End it if it has not ended, and wait until nothing of it is left; an `EngineError`, if that cannot be.

        Returns its exit status; None, if the command was never started or bubblewrap was killed.
        """
        if self._closed:
            return self._exit_status
        self._closed = True
        self.kill()
        try:
            self.process.wait()
            if not self._has_ended(_END_SECONDS):
                raise EngineError("processes of a local sandbox do not end, though they were killed")
            for line in self._status.read().splitlines():
                self._exit_status = json.loads(line).get("exit-code", self._exit_status)
        finally:
            self._status.close()
            for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
                if pipe is not None:
                    pipe.close()
            first, self._first = self._first, None
            if first is not None:
                os.close(first)
        return self._exit_status

    def _has_ended(self, seconds: float) -> bool:
        """Return True if the namespace has. The kernel says so only when nothing in it is left."""
        if self._first is None:
            return True
        poll = select.poll()
        poll.register(self._first, select.POLLIN)
        return bool(poll.poll(seconds * 1000))


def _have(path: Path, *, is_directory: bool) -> None:
    with contextlib.suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            if mode & stat.S_IRWXU != stat.S_IRWXU:
                path.chmod(0o755)
            if is_directory:
                return
            path.rename(path.with_name(f".{path.name}.{secrets.token_hex(4)}"))
        elif stat.S_ISREG(mode) and not is_directory:
            return
        else:
            path.unlink()
    if is_directory:
        path.mkdir(mode=0o755)
    else:
        path.touch(mode=0o644)
