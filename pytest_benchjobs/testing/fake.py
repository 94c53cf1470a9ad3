"""For the tests of plugins and conftest.py files: sandboxes that need no container engine.

    def pytest_benchjobs_sandboxes(config):
        return {"fake": FakeProvider}

and `--bench-sandbox fake`. Commands then run on this machine, as you, in a temporary directory. **There is no isolation
whatsoever: run nothing in it that you would not type yourself.** Paths which a trial puts files at (`/app`, `/tests`,
`/bench`, `/logs`, `/solution` ...) are rewritten, in commands and variables, to places in that directory; so is the
address of the gateway, to a port that is this sandbox's own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
import platform
import re
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath

from ..model.endpoint import GATEWAY_PORT
from ..model.environ import host_environment
from ..model.errors import ImageMissing
from ..model.job import JobConfig, Owner
from ..model.result import ImageRecord
from ..model.scenario import Scenario
from ..sandbox.door import DOOR_FAILED, SOCKET, behind_door
from ..sandbox.host_command import LocalCommand, LocalDoor, send
from ..sandbox.memory import Unobserved
from ..sandbox.protocol import (
    BYTECODE,
    ExecResult,
    Fetched,
    File,
    ImageRequest,
    Kept,
    Promise,
    SandboxSpec,
    Sink,
    Stdin,
    Stopping,
)

_WORKDIR = "/app"
_TOPS = frozenset({"app", "bench", "logs", "solution", "tests"})
_KEPT = "fake-kept:"
_KEPT_ROOT = "BENCHJOBS_FAKE_KEPT"
_ABOUT = "kept.json"
_HELD = {Promise.KEEPING}


class FakeProvider:
    """Makes `FakeSandbox`es. `problem` makes `check` and `start` raise it, to see how errors look."""

    problem: Exception | None = None

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self._open: set[FakeSandbox] = set()
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raise the problem, if there is one."""
        if self.problem is not None:
            raise self.problem

    def machine(self) -> str:
        """That of where it runs."""
        return platform.machine()

    def lacks(self, runtime: str | None = None) -> Mapping[Promise, str]:  # noqa: ARG002
        """Return all that needs more than a directory: it pretends to be everything, and isolates nothing."""
        return {promise: "it isolates nothing" for promise in Promise if promise not in _HELD}

    def incompatible(self, scenario: Scenario, config: JobConfig) -> str | None:  # noqa: ARG002
        """None: it pretends to be everything."""
        return None

    def identify(self, request: ImageRequest) -> str | None:
        """The name of the image: there is nothing behind it."""
        self.check()
        return _record(request).key

    def start(self, spec: SandboxSpec, on_phase: Callable[[str], None]) -> FakeSandbox:
        """A new directory with the files of the trial."""
        on_phase("image")
        self.check()
        on_phase("start")
        sandbox = FakeSandbox(spec, self._forget)
        with self._lock:
            self._open.add(sandbox)
        return sandbox

    def kept(self) -> list[Kept]:
        """Copies of directories, the oldest first."""
        found = []
        for path in _kept_root().glob(f"*/{_ABOUT}"):
            about = json.loads(path.read_text("utf-8"))
            files = (file for file in path.parent.rglob("*") if file.is_file() and not file.is_symlink())
            found.append(
                Kept(
                    reference=f"{_KEPT}{path.parent.name}",
                    job=about["labels"].get("job", ""),
                    trial=about["labels"].get("trial", ""),
                    bundle=about["labels"].get("bundle", ""),
                    bytes=sum(file.stat().st_size for file in files),
                    created=datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC),
                )
            )
        return sorted(found, key=lambda one: (one.created, one.reference))

    def forget_kept(self, reference: str) -> bool:
        """Remove a copy."""
        path = _kept_path(reference)
        if path is None:
            return False
        shutil.rmtree(path, ignore_errors=True)
        return True

    def sweep(self, *, shared: bool = False) -> int:  # noqa: ARG002
        """Nothing is left behind that would matter."""
        return 0

    def close(self) -> None:
        """Remove the sandboxes that are still there."""
        with self._lock:
            left = list(self._open)
        for sandbox in left:
            sandbox.kill()
            sandbox.remove()

    def _forget(self, sandbox: FakeSandbox) -> None:
        with self._lock:
            self._open.discard(sandbox)


@dataclasses.dataclass(eq=False)
class FakeSandbox(Unobserved):
    """A directory, and the processes started in it."""

    spec: SandboxSpec
    forget: Callable[[FakeSandbox], None]
    root: Path = dataclasses.field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="benchjobs-fake-")))
    killed: bool = False
    _port: int = GATEWAY_PORT
    _groups: set[int] = dataclasses.field(default_factory=set)

    def __post_init__(self) -> None:
        self.id = str(self.root)
        self.workdir = self.spec.environment.workdir or _WORKDIR
        self.image = _record(self.spec.image)
        given = [file.path for file in self.spec.files] + [mount.target for mount in self.spec.mounts]
        absolute = (PurePosixPath(path) for path in (self.workdir, *given) if path.startswith("/"))
        tops = {path.parts[1] for path in absolute if len(path.parts) > 1}
        self._inside = re.compile(
            rf"(?<![\w./])/(?={'|'.join(map(re.escape, sorted(tops | _TOPS)))})(?=\w+(?:/|\b))"
        )
        try:
            if self.spec.kept is not None:
                self._take(self.spec.kept)
            self._host(self.workdir).mkdir(parents=True, exist_ok=True)
            self._mount()
            self.put(self.spec.files)
        except BaseException:
            shutil.rmtree(self.root, ignore_errors=True)
            raise

    def exec(
        self,
        argv: Iterable[str],
        *,
        timeout: float,
        sink: Sink,
        stdout: Sink | None = None,
        user: str | None = None,  # noqa: ARG002  everything runs as you
        workdir: str | None = None,
        env: Mapping[str, str] | None = None,
        silent: float | None = None,
        stopping: Stopping | None = None,
        stdin: Stdin | None = None,  # noqa: ARG002  it serves nothing
    ) -> ExecResult:
        """Run a command here. One behind the door is given a port of its own to reach the gateway at."""
        command_line = tuple(argv)
        with contextlib.ExitStack() as stack:
            door = None
            if (behind := behind_door(command_line)) is not None:
                try:
                    door = stack.enter_context(contextlib.closing(LocalDoor(self._host(SOCKET))))
                except OSError as error:
                    sink(f"bench: the gateway cannot be reached: {error}\n".encode())
                    return ExecResult(DOOR_FAILED, timed_out=False, seconds=0)
                self._port, command_line = door.port, behind
            given = {**self.spec.environment.env, **(env or {})}
            command = LocalCommand.start(
                [self._translate(argument) for argument in command_line],
                self._host(workdir or self.workdir),
                {**host_environment(), **{name: self._translate(value) for name, value in given.items()}},
                sink,
                stdout,
            )
            self._groups.add(command.pid)
            if door is not None:
                door.hand_over(command.pid)
        if self.killed:
            self.end_processes()
        return command.run(timeout, silent, stopping)

    def put(self, files: Iterable[File]) -> None:
        """Write files."""
        for file in files:
            target = self._host(file.path)
            if file.clean and target.exists():
                shutil.rmtree(target) if target.is_dir() else target.unlink()
            target.parent.mkdir(parents=True, exist_ok=True)
            if file.content is not None:
                target.write_bytes(file.content)
            elif file.source is None:
                target.mkdir(parents=True, exist_ok=True)
            elif file.source.is_dir():
                bytecode = shutil.ignore_patterns(BYTECODE)
                shutil.copytree(file.source, target, symlinks=True, dirs_exist_ok=True, ignore=bytecode)
            else:
                shutil.copy(file.source, target)
            if file.mode is not None:
                target.chmod(file.mode)

    def read(self, path: str, *, limit: int) -> bytes | None:
        """One file."""
        target = self._host(path)
        if not target.is_file():
            return None
        if target.stat().st_size > limit:
            raise ValueError(f"{path} is larger than {limit} bytes")
        return target.read_bytes()

    def fetch(
        self,
        path: str,
        destination: Path,
        *,
        limit: int,  # noqa: ARG002  yours are the files, yours is the disk
        exclude: tuple[str, ...] = (),
    ) -> Fetched | None:
        """Copy a file or directory."""
        source = self._host(path)
        if not source.exists():
            return None
        destination.parent.mkdir(parents=True, exist_ok=True)
        if source.is_file():
            destination = destination / source.name if destination.is_dir() else destination
            shutil.copy(source, destination)
            return Fetched((destination.name,), source.stat().st_size)
        shutil.copytree(
            source, destination, dirs_exist_ok=True, symlinks=True, ignore=shutil.ignore_patterns(*exclude)
        )
        files = [file for file in sorted(destination.rglob("*")) if file.is_file()]
        return Fetched(
            tuple(file.relative_to(destination).as_posix() for file in files),
            sum(file.stat().st_size for file in files),
        )

    def signal(self, pid: int, name: str) -> None:
        """Send a signal to what was started here."""
        if pid in self._groups:
            send(pid, signal.Signals[f"SIG{name}"])

    def end_commands(self, variable: str) -> tuple[str, ...]:  # noqa: ARG002  all were given it
        """Kill every process group that was started here."""
        self.end_processes()
        return ()

    def end_processes(self) -> None:
        """Kill every process group that was started here."""
        for group in list(self._groups):
            send(group, signal.SIGKILL)

    def keep(self, name: str) -> str:
        """Copy the directory to `$BENCHJOBS_FAKE_KEPT`, by default a place of yours among the temporary files."""
        target = _kept_root() / name
        shutil.copytree(self.root, target / "files", symlinks=True)
        for mount in self.spec.mounts:
            (target / "files" / mount.target.lstrip("/")).unlink()
        about = {"labels": dict(self.spec.labels), "image": self.image.model_dump(mode="json")}
        (target / _ABOUT).write_text(json.dumps(about), "utf-8")
        return f"{_KEPT}{name}"

    def kill(self) -> None:
        """End everything."""
        self.killed = True
        self.end_processes()

    def remove(self) -> None:
        """Remove the directory."""
        self.end_processes()
        shutil.rmtree(self.root, ignore_errors=True)
        self.forget(self)

    def _take(self, reference: str) -> None:
        path = _kept_path(reference)
        if path is None:
            raise ImageMissing(f"{reference} is not there any more; run the trial again with --bench-keep")
        shutil.copytree(path / "files", self.root, symlinks=True, dirs_exist_ok=True)
        about = json.loads((path / _ABOUT).read_text("utf-8"))
        self.image = ImageRecord.model_validate(about["image"])

    def _mount(self) -> None:
        """Links do: nothing here is read-only, either."""
        self.spec.check_mounts()
        for mount in self.spec.mounts:
            target = self._host(mount.target)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(mount.source.absolute())

    def _host(self, path: str) -> Path:
        return self.root / str(PurePosixPath(self.workdir) / path).lstrip("/")

    def _translate(self, text: str) -> str:
        text = text.replace(f"127.0.0.1:{GATEWAY_PORT}", f"127.0.0.1:{self._port}")
        return self._inside.sub(f"{self.root}/", text)


def _record(request: ImageRequest) -> ImageRecord:
    reference = request.environment.image or "Dockerfile"
    return ImageRecord(reference=reference, id="fake", key=request.image_map.get(reference, reference))


def _kept_root() -> Path:
    own = Path(tempfile.gettempdir()) / f"benchjobs-fake-kept-{os.getuid()}"
    return Path(os.environ.get(_KEPT_ROOT) or own)


def _kept_path(reference: str) -> Path | None:
    name = reference.removeprefix(_KEPT)
    path = _kept_root() / name
    found = reference.startswith(_KEPT) and name == path.name and (path / _ABOUT).is_file()
    return path if found else None
