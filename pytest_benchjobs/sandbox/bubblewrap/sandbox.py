"""One local sandbox: directories of its own, and a set of namespaces for each command that runs in them.

Programs of this machine move files, inside: there every link an agent has made leads where it would lead the agent.
They cannot be tampered with, and nothing of the agent runs beside them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import posixpath
import signal
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from ...model.errors import ContainerLost, ContainerStartFailed, EngineError, EnvironmentFailed
from ...model.result import ImageRecord
from ...model.scenario import Network
from ...system.cutting import HeadSink, beginning_of
from ..archive import unpack
from ..door import behind_door
from ..host_command import LocalCommand
from ..host_files import NOT_THERE, PACK, MovedByPrograms
from ..memory import Unobserved
from ..paths import DEFAULT_PATH
from ..program import program_file
from ..protocol import ROOT, ExecResult, Fetched, File, SandboxSpec, Sink, Stdin, Stopping
from .namespaces import HOSTNAME, Contained, Tree

_NOT_RUN = 127
_HEAD_OF_OUTPUT = 2000
# How bubblewrap says that the fault is in the command.
_FAULT_OF_THE_COMMAND = (b"bwrap: execvp ", b"bwrap: Can't chdir to ")
_DIRECTORIES = {
    "home": 0o755, "mnt": 0o755, "root": 0o700, "run": 0o755, "srv": 0o755, "tmp": 0o1777, "var": 0o755,
    "var/cache": 0o755, "var/lib": 0o755, "var/log": 0o755, "var/tmp": 0o1777,
}  # fmt: skip
_NO_NETWORK_BESIDE = (
    "the agent could reach only its models: a local sandbox cannot combine them with the public network"
)


class LocalSandbox(MovedByPrograms, Unobserved):
    """Directories of this machine that commands see as their own. Nothing runs between two commands.

    `bwrap` is the program, `image` what stands for the image. Nothing is at `tree` yet: `fill` makes it, and `forget`
    removes it.
    """

    user = "root"

    def __init__(
        self,
        bwrap: str,
        tree: Tree,
        spec: SandboxSpec,
        image: ImageRecord,
        forget: Callable[[LocalSandbox], None],
    ) -> None:
        self.tree = tree
        self._bwrap = bwrap
        self._spec = spec
        self._forget = forget
        self.id = str(tree.root)
        self.image = image
        self.workdir = spec.environment.workdir or "/"
        self.set_network(spec.network)
        self._notes: list[str] = []
        self.variables: Mapping[str, str] = {
            "PATH": DEFAULT_PATH,
            "HOME": "/root",
            "HOSTNAME": HOSTNAME,
            **spec.environment.env,
        }
        self._lock = threading.Lock()
        self._current: list[Contained] = []
        self._killed = False

    @property
    def notes(self) -> tuple[str, ...]:
        """Networks of the scenario that it did not give."""
        return tuple(self._notes)

    def fill(self) -> None:
        """Make the directories, and put the files of the trial in. It is an `OSError` if they cannot be made."""
        root = self.tree.root
        root.mkdir(mode=0o755)
        for name, mode in _DIRECTORIES.items():
            (root / name).mkdir()
            (root / name).chmod(mode)
        self.put([File(self.workdir), *self._spec.files] if self.workdir != "/" else self._spec.files)

    def exec(
        self,
        argv: Iterable[str],
        *,
        timeout: float,
        sink: Sink,
        stdout: Sink | None = None,
        user: str | None = None,
        workdir: str | None = None,
        env: Mapping[str, str] | None = None,
        silent: float | None = None,
        stopping: Stopping | None = None,
        stdin: Stdin | None = None,
    ) -> ExecResult:
        """Run a command to its end or its timeout. Nothing of it is left then, whatever it has started."""
        if not is_root(user):
            raise EnvironmentFailed(f"there is no user {user!r} in a local sandbox, only root")
        command = tuple(argv)
        head = HeadSink(_HEAD_OF_OUTPUT)

        def tee(data: bytes) -> None:
            head(data)
            sink(data)

        # The door listens on the loopback. That of this machine is everybody's.
        network = self._network == "public" and behind_door(command) is None
        if self._network == "public" and not network and _NO_NETWORK_BESIDE not in self._notes:
            self._notes.append(_NO_NETWORK_BESIDE)
        options = self.tree.options(
            network=network, workdir=workdir or self.workdir, env={**self.variables, **(env or {})}
        )
        stderr = subprocess.STDOUT if stdout is None else subprocess.PIPE
        given = subprocess.DEVNULL if stdin is None else subprocess.PIPE
        with self._running(options, command, stdin=given, stderr=stderr) as contained:
            if stdin is not None:
                stdin(contained.write)
            result = LocalCommand(contained.process, tee, stdout).run(timeout, silent, stopping)
            status = contained.close()
        if status is None and not result.timed_out:
            return _never_started(head.raw(), result)
        # Of one whose time was up it tells only where that was asked to end.
        told = stopping is not None or not result.timed_out
        return dataclasses.replace(result, exit_status=status if told else None)

    def fetch(
        self, path: str, destination: Path, *, limit: int, exclude: tuple[str, ...] = ()
    ) -> Fetched | None:
        """Copy a file or directory out, safely. None: not there."""
        path = posixpath.join(self.workdir, path)
        if posixpath.normpath(path) == "/":
            raise EngineError("a local sandbox cannot be fetched as a whole: most of it is this machine's")
        with self._transferring(("sh", "-c", PACK, "sh", path)) as contained:
            output = contained.process.stdout
            assert output is not None  # noqa: S101  it was asked for
            try:
                with tarfile.open(fileobj=output, mode="r|") as archive:
                    return unpack(archive, destination, limit=limit, exclude=exclude)
            except tarfile.ReadError as error:
                output.close()  # or what still writes to it would wait, too
                contained.process.wait()
                if contained.close() == NOT_THERE:
                    return None
                raise EngineError(f"{path} cannot be fetched from a local sandbox: {error}") from error

    def ready_to_serve(self) -> bool:
        """Put our program in; False: there is none for such a machine."""
        if (program := program_file(os.uname().machine)) is not None:
            self.put([program])
        return program is not None

    def signal(self, pid: int, name: str) -> None:
        """Send a signal to the commands that run. Never raises."""
        with self._lock:
            current = list(self._current)
        if pid > 1 and name in ("INT", "TERM"):
            for command in current:
                command.send(signal.Signals[f"SIG{name}"])

    def set_network(self, network: Network, allowed_hosts: Iterable[str] = ()) -> None:  # noqa: ARG002
        """Switch between `public` and `none`: from the next command on."""
        if network not in ("public", "none"):
            raise ContainerStartFailed(
                f"network {network!r} is not supported by a local sandbox; use `public` or `none`"
            )
        self._network = network

    def kill(self) -> None:
        """End it at once, from any thread. Never raises."""
        with self._lock:
            self._killed = True
            for command in self._current:
                command.kill()

    def remove(self) -> None:
        """Remove its directories. Never raises."""
        self._forget(self)

    @contextlib.contextmanager
    def _running(
        self, options: list[str], argv: Iterable[str], *, stdin: int, stderr: int
    ) -> Iterator[Contained]:
        """Start a command, and see that nothing of it is left afterwards."""
        self._check_killed()
        try:
            self.tree.make_mount_points()
            contained = Contained(self._bwrap, options, argv, stdin=stdin, stderr=stderr)
        except OSError as error:
            raise EngineError(f"a local sandbox cannot run a command: {error}") from error
        with self._lock:
            self._current.append(contained)
            if self._killed:
                contained.kill()
        try:
            yield contained
        finally:
            with self._lock:
                self._current.remove(contained)
            contained.close()
        self._check_killed()

    def _check_killed(self) -> None:
        if self._killed:
            raise ContainerLost("the sandbox was killed to stop the trial")

    def _transferring(
        self, argv: Iterable[str], stdin: int = subprocess.DEVNULL
    ) -> contextlib.AbstractContextManager[Contained]:
        """Run a program of this machine that moves files. It has no network, and knows nothing of the trial."""
        env = {"PATH": DEFAULT_PATH, "LC_ALL": "C.UTF-8"}
        options = self.tree.options(network=False, workdir="/", env=env)
        return self._running(options, argv, stdin=stdin, stderr=subprocess.PIPE)

    def run_program(
        self, argv: Iterable[str], stdin: int = subprocess.DEVNULL
    ) -> tuple[int | None, bytes, str]:
        """Run such a program to its end; return its status, its output, and the first line of its errors."""
        with self._transferring(argv, stdin) as contained:
            output, errors = contained.process.communicate()
            error = beginning_of(errors, _HEAD_OF_OUTPUT).decode("utf-8", "replace").strip()
            return contained.close(), output, error.partition("\n")[0]


def is_root(user: str | None) -> bool:
    """Return True if that is the one user there is."""
    return user is None or user in ROOT


def _never_started(head: bytes, result: ExecResult) -> ExecResult:
    """Return what to make of a command that bubblewrap did not start; an `EngineError`, if that was not its fault."""
    if head.startswith(_FAULT_OF_THE_COMMAND):
        return ExecResult(_NOT_RUN, timed_out=False, seconds=result.seconds, started=False)
    said = beginning_of(head.decode("utf-8", "replace").strip(), 500) or "bubblewrap was killed"
    raise EngineError(f"a local sandbox could not run a command: {said}")
