"""Makes local sandboxes, and removes what is left of them."""

from __future__ import annotations

import contextlib
import errno
import itertools
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from ...model.environ import program_environment
from ...model.errors import AgentSetupFailed, ContainerStartFailed, DiskFull, EngineUnavailable, ImageMissing
from ...model.job import JobConfig, Owner
from ...model.owner import is_alive
from ...model.result import ImageRecord
from ...model.scenario import Environment, Scenario
from ...system.cutting import beginning_of
from ..paths import DEFAULT_PATH
from ..protocol import Kept, SandboxSpec
from .fitness import HOST, incompatibility, runs_on_host
from .machine import copy_settings, release
from .namespaces import HOSTNAME, Contained, Tree
from .sandbox import LocalSandbox

_PREFIX = "benchjobs-local-"
_OWNER = "owner.json"
_SETTINGS = "etc"
_TOOLS = ("head", "readlink", "rm", "tar")
_PROBE_SECONDS, _REMOVAL_SECONDS = 30.0, 600.0
_AS_ROOT = (
    "--unshare-user", "--uid", "0", "--gid", "0", "--cap-drop", "ALL", "--cap-add", "CAP_DAC_OVERRIDE",
)  # fmt: skip


class LocalProvider:
    """Makes sandboxes with bubblewrap, from the programs of this machine. Thread-safe.

    `owner` is this process; its name is on everything that is made.
    """

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self._lock = threading.Lock()
        self._directory: Path | None = None
        self._numbers = itertools.count(1)
        self._live: set[LocalSandbox] = set()

    def check(self) -> None:
        """Make sure that sandboxes can be made here."""
        bwrap = _bwrap()
        missing = [name for name in _TOOLS if shutil.which(name, path=DEFAULT_PATH) is None]
        if missing:
            raise EngineUnavailable(
                f"local sandboxes need {', '.join(missing)} in one of the directories {DEFAULT_PATH}, and "
                "none is there"
            )
        with _telling(), tempfile.TemporaryDirectory(prefix=_PREFIX) as name:
            tree = Tree(Path(name) / "root", Path(name) / _SETTINGS)
            tree.root.mkdir()
            tree.settings.mkdir()
            tree.make_mount_points()
            options = tree.options(network=False, workdir="/", env={"PATH": DEFAULT_PATH})
            command = Contained(bwrap, options, ["true"])
            try:
                said = command.process.communicate(timeout=_PROBE_SECONDS)[0]
            except subprocess.TimeoutExpired:
                said = b"it does not end"
            status = command.close()
        if status != 0:
            why = beginning_of(said.decode("utf-8", "replace").strip(), 500)
            raise EngineUnavailable(
                f"bubblewrap cannot make a sandbox here: {why}. This needs "
                "a Linux kernel that allows user namespaces, which containers and hardened systems may forbid"
            )

    def machine(self) -> str:
        """The architecture of this machine."""
        return platform.machine()

    def incompatible(self, scenario: Scenario, config: JobConfig) -> str | None:
        """Return why a scenario is not for such sandboxes; None if it is."""
        return incompatibility(scenario, config)

    def identify(
        self,
        environment: Environment,
        image_map: Mapping[str, str],
        build_args: Mapping[str, str],  # noqa: ARG002  nothing is built
    ) -> str | None:
        """Return what stands for the programs of this machine: the release of its system. None: it needs an image."""
        return _key() if runs_on_host(environment, image_map) and environment.compose is None else None

    def start(self, spec: SandboxSpec, on_phase: Callable[[str], None]) -> LocalSandbox:
        """Make the directories of a sandbox, and fill them."""
        on_phase("image")
        image = _image(spec)
        bwrap = _bwrap()
        for mount in spec.mounts:
            if not mount.source.exists():
                raise AgentSetupFailed(f"{mount.source} does not exist; agents need it as {mount.target}")
        on_phase("start")
        with _telling():
            directory = self._own_directory()
            tree = Tree(directory / str(next(self._numbers)), directory / _SETTINGS, spec.mounts)
            sandbox = LocalSandbox(bwrap, tree, spec, image, self._forget)
            with self._lock:
                self._live.add(sandbox)
            try:
                sandbox.fill()
            except BaseException:
                sandbox.remove()
                raise
        return sandbox

    def kept(self) -> list[Kept]:
        """Nothing: local sandboxes are not kept."""
        return []

    def forget_kept(self, reference: str) -> bool:  # noqa: ARG002  nothing was
        """Nothing was kept."""
        return False

    def sweep(self) -> int:
        """Remove what dead processes of this machine left behind; returns how many of them."""
        swept = 0
        for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            try:
                owner = Owner.model_validate_json((path / _OWNER).read_bytes())
            except (OSError, ValidationError):
                continue  # another user's, or just being made
            if not is_alive(owner):
                _remove_tree(path)
                swept += not path.exists()
        return swept

    def close(self) -> None:
        """Remove whatever this process still has."""
        with self._lock:
            left = list(self._live)
        for sandbox in left:
            sandbox.kill()
            sandbox.remove()
        with self._lock:
            directory, self._directory = self._directory, None
        if directory is not None:
            _remove_tree(directory)

    def _own_directory(self) -> Path:
        """The directory of this process, which nobody else may enter."""
        with self._lock:
            if self._directory is None:
                directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
                self._directory = directory
                (directory / _OWNER).write_text(self.owner.model_dump_json(), "utf-8")
                copy_settings(directory / _SETTINGS, HOSTNAME)
            return self._directory

    def _forget(self, sandbox: LocalSandbox) -> None:
        _remove_tree(sandbox.tree.root)
        with self._lock:
            self._live.discard(sandbox)


def _remove_tree(path: Path) -> None:
    """Remove a directory and all in it, whatever an agent made of it. Never raises."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        # It is deeper than Python goes, or locked. Then root of a user namespace does it, and sees no more than that.
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                ["bwrap", *_AS_ROOT, "--ro-bind", "/", "/", "--bind", path, path, "rm", "-rf", "--", path],
                check=False,
                cwd="/",
                env=program_environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_REMOVAL_SECONDS,
            )
            path.rmdir()


def _key() -> str:
    return f"{HOST}:{release()}"


def _image(spec: SandboxSpec) -> ImageRecord:
    """Return what stands for the image; an `ImageMissing`, if it needs a real one or something that was kept."""
    if spec.kept is not None:
        raise ImageMissing(
            f"{spec.kept} was kept from a Docker trial, and a local sandbox cannot start from it"
        )
    image = spec.environment.image
    if not runs_on_host(spec.environment, spec.image_map):
        raise ImageMissing(
            f"there are no images without Docker, and this needs {spec.environment.image_shown}"
        )
    substituted = {image: HOST} if image not in (None, HOST) else {}
    return ImageRecord.model_validate(
        {"reference": image or HOST, "id": _key(), "key": _key(), "substituted": substituted}
    )


def _bwrap() -> str:
    """The program; an `EngineUnavailable`, if it is not here."""
    if sys.platform != "linux":
        raise EngineUnavailable("local sandboxes need Linux namespaces; use Docker")
    found = shutil.which("bwrap")
    if found is None:
        raise EngineUnavailable(
            "local sandboxes need the program bwrap, which is not installed: install bubblewrap (as root, on Debian or "
            "Ubuntu: apt-get install bubblewrap), or use Docker"
        )
    return found


@contextlib.contextmanager
def _telling() -> Iterator[None]:
    """Turn an `OSError` into an error of ours."""
    try:
        yield
    except OSError as error:
        place = tempfile.gettempdir()
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"{place}: no space left for sandboxes; free some, or set TMPDIR") from error
        raise ContainerStartFailed(f"a local sandbox cannot be made in {place}: {error}") from error
