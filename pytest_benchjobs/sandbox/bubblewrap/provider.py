"""Makes local sandboxes, and removes what is left of them."""

from __future__ import annotations

import contextlib
import errno
import itertools
import posixpath
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from ...model.environ import program_environment
from ...model.errors import ContainerStartFailed, DiskFull, EngineUnavailable, ImageMissing
from ...model.finding import Finding, ok
from ...model.job import JobConfig, Owner
from ...model.owner import is_alive
from ...model.result import ImageRecord
from ...model.scenario import Scenario
from ...system.cutting import beginning_of
from ..memory import HostProvider
from ..paths import DEFAULT_PATH, is_below
from ..protocol import ImageRequest, Promise, SandboxSpec
from .machine import copy_settings, release
from .namespaces import HOSTNAME, Contained, Tree
from .sandbox import LocalSandbox, is_root

HOST = "host"
"""The image of scenarios that run on the programs of this machine."""
_READ_ONLY = (
    "/bin", "/dev", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/proc", "/sbin", "/sys", "/usr",
)  # fmt: skip
"""Directories of this machine or of the kernel, into which nothing is put."""
_LOCAL, _HAS_ONLY = "and in a local sandbox", "and a local sandbox has only"
_NO_CGROUP = "namespaces have no limits"
_LACKS = {
    Promise.IMAGES: "it runs the programs of this machine",
    Promise.USERS: "there is only root",
    Promise.MEMORY: _NO_CGROUP,
    Promise.OUT_OF_MEMORY: _NO_CGROUP,
    Promise.CPUS: _NO_CGROUP,
    Promise.PIDS: _NO_CGROUP,
    Promise.STORAGE: _NO_CGROUP,
    Promise.DAEMONS: "processes end with the command that started them",
    Promise.ALLOWLIST: "there are only `public` and `none`",
    Promise.EVIDENCE: "programs are read-only",
    Promise.KEEPING: "its directories are removed",
    Promise.SERVICES: "there is no engine to start them",
}
_PREFIX = "benchjobs-local-"
_OWNER = "owner.json"
_SETTINGS = "etc"
_TOOLS = ("head", "readlink", "rm", "tar")
_PROBE_SECONDS, _REMOVAL_SECONDS = 30.0, 600.0
_AS_ROOT = (
    "--unshare-user", "--uid", "0", "--gid", "0", "--cap-drop", "ALL", "--cap-add", "CAP_DAC_OVERRIDE",
)  # fmt: skip


class LocalProvider(HostProvider):
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

    def findings(self) -> Iterator[Finding]:
        """Return the program that makes sandboxes, which worked in `check`."""
        said = subprocess.run([_bwrap(), "--version"], capture_output=True, text=True, check=False)
        yield ok("engine", f"{said.stdout.strip() or 'bubblewrap'} makes sandboxes, {release()}")

    def lacks(self, runtime: str | None = None) -> Mapping[Promise, str]:  # noqa: ARG002
        """Return what needs an engine."""
        return _LACKS

    def incompatible(self, scenario: Scenario, config: JobConfig) -> str | None:
        """Return why a scenario is not for such sandboxes; None if it is."""
        environment, places = scenario.environment, scenario.places
        on_host = runs_on_host(ImageRequest.of(environment, config))
        image = environment.image or (
            "of its Dockerfile" if environment.snapshot is None else environment.image_shown
        )
        agents = (scenario.agent_user, *(step.agent_user for step in scenario.steps))
        users = (environment.user, *agents, *(scorer.user for scorer in scenario.scorers))
        user = next((user for user in users if not is_root(user)), None)
        networks = {
            environment.network,
            scenario.agent_network,
            *(step.agent_network for step in scenario.steps),
        }
        networks |= {scorer.network for scorer in scenario.scorers}
        written = (*scenario.files, *([environment.workdir] if environment.workdir else ()))
        path = next((path for path in written if is_below(posixpath.normpath(path), _READ_ONLY)), None)
        lacks = (
            (not on_host, f"needs an image ({image}), and there is no Docker"),
            (user is not None, f"needs the user {user!r}, {_HAS_ONLY} root"),
            ("allowlist" in networks, f"needs the network `allowlist`, {_HAS_ONLY} `public` and `none`"),
            (environment.git_history, "ends the history of repositories in an image, and there is no Docker"),
            (environment.gpus, "needs GPUs, and a local sandbox has no devices"),
            (environment.allow_sudo, "needs sudo, which a local sandbox does not allow"),
            (None in places, f"keeps processes running, {_LOCAL} they end with the command that started them"),
            (any(one and one.environment for one in places), "is graded in another image, and there is no Docker"),
            (environment.compose is not None, "has services of Docker Compose, and there is no Docker"),
            (environment.healthcheck, f"waits for a service, {_LOCAL} it ends with the command that started it"),
            (path is not None, f"writes to {path}, which is read-only in a local sandbox"),
        )  # fmt: skip
        return next((f"incompatible: {why}" for is_so, why in lacks if is_so), None)

    def identify(self, request: ImageRequest) -> str | None:
        """Return what stands for the programs of this machine: the release of its system. None: it needs an image."""
        return _key() if runs_on_host(request) and request.environment.compose is None else None

    def start(self, spec: SandboxSpec, on_phase: Callable[[str], None]) -> LocalSandbox:
        """Make the directories of a sandbox, and fill them."""
        on_phase("image")
        image = _image(spec)
        bwrap = _bwrap()
        spec.check_mounts()
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

    def sweep(self, *, shared: bool = False) -> int:  # noqa: ARG002  they share nothing
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
        """The directory of this process, accessible to it alone."""
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


def runs_on_host(request: ImageRequest) -> bool:
    """Return True if it needs no image but `host`: as it is written, or as the image map has it."""
    environment = request.environment
    if environment.image is None:
        return environment.dockerfile is None and environment.snapshot is None
    return request.image_map.get(environment.image, environment.image) == HOST


def _key() -> str:
    return f"{HOST}:{release()}"


def _image(spec: SandboxSpec) -> ImageRecord:
    """Return what stands for the image; an `ImageMissing`, if it needs a real one or something that was kept."""
    if spec.kept is not None:
        raise ImageMissing(
            f"{spec.kept} was kept from a Docker trial, and a local sandbox cannot start from it"
        )
    image = spec.environment.image
    if not runs_on_host(spec.image):
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
