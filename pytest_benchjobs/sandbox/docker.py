"""Starts sandboxes that are containers of a Docker Engine, through its API.

A trivial trial costs create, put, start, three calls per command, top and remove; nothing here may add to that.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import docker.errors
from docker.types import DeviceRequest, Ulimit
from docker.types import Mount as EngineMount

from ..model.errors import AgentSetupFailed, ContainerStartFailed, ImageMissing, InfrastructureError
from ..model.job import JobConfig, Owner
from ..model.scenario import Environment, Network, Scenario
from .container import NETWORK_OF, DockerSandbox
from .engine import BROKEN, LABEL, Engine
from .images import Images, ResolvedImage
from .keeping import environment_of, forget_kept, kept, kept_image
from .protocol import Kept, Mount, SandboxSpec
from .reaper import Reaper
from .sweep import sweep
from .watch import Events, StorageGuard

# The engine starts 7-8 containers a second whatever is asked of it; more than this at once only makes each slower.
_STARTS_AT_ONCE = 8
_HOSTNAME = "bench"
# Of the engine's default capabilities: forging packets, making devices, and handing capabilities on.
_DROPPED_CAPABILITIES = ["MKNOD", "NET_RAW", "SETPCAP"]
_NO_SUCH_SOURCE = "bind source path does not exist"
# The engine speaks of architectures as Go does.
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


class DockerProvider:
    """Starts sandboxes on the engine that `DOCKER_HOST` names, and answers for all of them. Thread-safe.

    Args:
        owner: This process; its name is on everything that is made.
        build_log_dir: Where the output of image builds goes; None: nowhere.

    """

    def __init__(self, owner: Owner, build_log_dir: Path | None = None) -> None:
        self.owner = owner
        self.engine = Engine()
        self.images = Images(self.engine, build_log_dir)
        self.storage = StorageGuard(self.engine)
        self._reaper = Reaper(self.engine.host, f"{LABEL}owner={owner}")
        self._events: Events | None = None
        self._starts = threading.BoundedSemaphore(_STARTS_AT_ONCE)
        self._lock = threading.Lock()
        self._live: dict[str, DockerSandbox] = {}
        self._machine: str | None = None

    @property
    def events(self) -> Events:
        """What happens to the containers of this process."""
        with self._lock:
            if self._events is None:
                # The first sandbox: from here on there is something to watch, to reap, and maybe to sweep.
                self._reaper.start()
                self._events = Events(self.engine, str(self.owner))
                threading.Thread(target=self._sweep_quietly, name="bench-sweep", daemon=True).start()
            return self._events

    def check(self) -> None:
        """Make sure the engine answers.

        Raises:
            EngineUnavailable: with what to do about it.

        """
        self.engine.check()

    def machine(self) -> str:
        """What the engine's machine calls itself, such as `x86_64`. One call, the first time.

        Raises:
            InfrastructureError: the engine does not answer.

        """
        if self._machine is None:
            with self.engine.guard(running=False):
                found = str(self.engine.client.version()["Arch"])
            self._machine = _MACHINES.get(found, found)
        return self._machine

    def incompatible(self, scenario: Scenario, config: JobConfig) -> str | None:  # noqa: ARG002
        """None: whatever is in a scenario, containers are what it was made for."""
        return None

    def identify(
        self, environment: Environment, image_map: Mapping[str, str], build_args: Mapping[str, str]
    ) -> str | None:
        """What decides the content of the image these would give; None when an image is not here.

        Raises:
            InfrastructureError: the engine does not answer, or a Dockerfile cannot be read.

        """
        with self.engine.guard(running=False):
            return self.images.identify(environment, image_map, build_args)

    def start(self, spec: SandboxSpec, on_phase: Callable[[str], None]) -> DockerSandbox:
        """Resolve or build the image, create, fill and start a container.

        Raises:
            InfrastructureError: of the class that fits.

        """
        if spec.network not in NETWORK_OF:
            raise ContainerStartFailed(
                f"network {spec.network!r} is not supported by the Docker sandbox; use `public` or `none`"
            )
        _check_mounts(spec.mounts, self.engine)
        on_phase("image")
        with self.engine.guard(running=False):
            events = self.events
            if spec.kept is not None:
                image = kept_image(self.engine, spec.kept)
            else:
                image = self.images.resolve(spec.environment, spec.image_map, spec.build_args)
            with self._starts:
                on_phase("start")
                sandbox = self._create(spec, image, events)
                try:
                    if spec.files:
                        sandbox.put(spec.files)
                    sandbox.begin()
                except BaseException:
                    sandbox.remove()
                    raise
        return sandbox

    def kept_environment(self, reference: str) -> Environment:
        """The workdir, user and limits of the trial that something was kept of; no variables, no network.

        Raises:
            ImageMissing: it is not there.
            InfrastructureError: the engine does not answer.

        """
        with self.engine.guard(running=False):
            return environment_of(self.engine, reference)

    def kept(self) -> list[Kept]:
        """What was kept of trials on this engine, the oldest first.

        Raises:
            InfrastructureError: the engine does not answer.

        """
        with self.engine.guard(running=False):
            return kept(self.engine)

    def forget_kept(self, reference: str) -> bool:
        """Remove what was kept. False: it is not there, or cannot be removed now. Never raises."""
        return forget_kept(self.engine, reference)

    def sweep(self) -> int:
        """Remove what dead processes of this machine left behind; returns how many things."""
        with self.engine.guard(running=False):
            return sweep(self.engine.client, self.owner).total

    def close(self) -> None:
        """Remove whatever this process still has, and let go of the engine."""
        with self._lock:
            left, events = list(self._live.values()), self._events
        for sandbox in left:
            sandbox.remove()
        self.storage.close()
        if events is not None:
            events.close()
        with self._lock:
            nothing_left = not self._live
        # What could not be removed is the reaper's: it acts when the pipe to us closes.
        self._reaper.close(nothing_left=nothing_left)
        self.engine.close()

    def forget(self, container: str) -> None:
        """The container is gone."""
        with self._lock:
            self._live.pop(container, None)
        self.storage.discard(container)
        if self._events is not None:
            self._events.forget(container)

    def _create(self, spec: SandboxSpec, image: ResolvedImage, events: Events) -> DockerSandbox:
        environment = spec.environment
        workdir = environment.workdir or image.workdir or "/"
        labels = {
            **{LABEL + key: value for key, value in spec.labels.items()},
            LABEL + "owner": str(self.owner),
            LABEL + "host": self.owner.host,
            LABEL + "deadline": str(int(time.time() + spec.deadline)),
        }
        lifetime = str(max(1, int(spec.deadline)))
        keep = environment.keep_entrypoint and bool(image.entrypoint)
        client = self.engine.client
        try:
            created = client.create_container(
                image.id,
                ["sleep", lifetime] if keep else [lifetime],
                entrypoint=list(image.entrypoint) if keep else ["sleep"],
                # Commands are given them one by one: what the engine keeps of a container it shows to everybody.
                environment=dict(environment.env) if keep else None,
                hostname=_HOSTNAME,
                # Out of reach of an agent that is not root. Commands run as the image's own user all the same.
                user=None if keep else "root",
                working_dir=workdir,
                labels=labels,
                host_config=client.create_host_config(**_host_config(environment, spec.network, spec.mounts)),
            )
        except docker.errors.ImageNotFound as error:
            self.images.forget(image)
            raise ImageMissing(f"image {image.record.reference} was removed meanwhile") from error
        except docker.errors.APIError as error:
            if _NO_SUCH_SOURCE in str(error.explanation):
                raise AgentSetupFailed(
                    f"the Docker Engine at {self.engine.host} does not see this machine's files, which agents need: "
                    f"{error.explanation}"
                ) from error
            raise
        sandbox = DockerSandbox(self, created["Id"], image, spec, workdir, labels, events)
        with self._lock:
            self._live[sandbox.id] = sandbox
        return sandbox

    def _sweep_quietly(self) -> None:
        # Tidying up after others must not disturb anybody: it is tried again at the next start.
        with contextlib.suppress(InfrastructureError, docker.errors.DockerException, OSError, *BROKEN):
            self.sweep()


def _check_mounts(mounts: tuple[Mount, ...], engine: Engine) -> None:
    if mounts and not engine.local:
        raise AgentSetupFailed(
            f"this agent needs files of this machine in its container, and the Docker Engine at {engine.host} is "
            "another's: unset DOCKER_HOST, or set it to the unix:// address of an engine on this machine"
        )
    for mount in mounts:
        if not mount.source.exists():
            raise AgentSetupFailed(f"{mount.source} is not there, which agents see as {mount.target}")


def _host_config(environment: Environment, network: Network, mounts: tuple[Mount, ...]) -> dict[str, Any]:
    config: dict[str, Any] = {
        "init": True,
        "network_mode": NETWORK_OF[network],
        "pids_limit": environment.pids,
        "cap_drop": _DROPPED_CAPABILITIES,
        # An agent can write to /proc/1/fd/1: what comes there is kept nowhere.
        "log_config": {"Type": "none"},
        # No limit on open files: an engine without CAP_SYS_RESOURCE may not raise its own.
        "ulimits": [Ulimit(name="core", soft=0, hard=0)],
    }
    if not environment.allow_sudo:
        config["security_opt"] = ["no-new-privileges"]
    if environment.memory is not None:
        config["mem_limit"] = config["memswap_limit"] = environment.memory
    if environment.cpus is not None:
        config["nano_cpus"] = int(environment.cpus * 1e9)
    if mounts:
        # Not `binds`: for those the engine makes a directory where it finds nothing.
        config["mounts"] = [
            EngineMount(mount.target, str(mount.source.absolute()), type="bind", read_only=True)
            for mount in mounts
        ]
    if environment.gpus:
        config["device_requests"] = [DeviceRequest(count=environment.gpus, capabilities=[["gpu"]])]
    return config
