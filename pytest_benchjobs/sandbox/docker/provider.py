"""The provider of sandboxes that are containers of a Docker Engine, through its API.

A trivial trial that is graded in place costs create, put, start, three calls per command, top, a look at our program,
and remove; nothing here may add to that.
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ...model.errors import EnvironmentFailed
from ...model.finding import Finding
from ...model.job import JobConfig, Owner
from ...model.scenario import Environment, Network, Scenario
from ...system.keeping import taken
from ..protocol import File, ImageRequest, Kept, Promise, SandboxSpec
from .calling import Caller
from .image_budget import Urgency
from .images import ResolvedImage
from .network import in_network
from .resources import lacking, on_machine, runtimes_of
from .services import EngineServices
from .sweep import sweep

if TYPE_CHECKING:
    from .compose.services import TrialServices
    from .container import DockerSandbox

_TRIED_FOR = 120.0
_VISIT = 24 * 3600.0
"""Seconds after which an abandoned shell ends by itself."""
# The engine starts 7-8 containers a second whatever is asked of it; more than this at once only makes each slower.
_STARTS_AT_ONCE = 8


class DockerProvider:
    """Starts sandboxes on the engine that `DOCKER_HOST` names, and answers for all of them. Thread-safe."""

    def __init__(self, owner: Owner) -> None:
        self.services = EngineServices(owner)
        self._starts = threading.BoundedSemaphore(_STARTS_AT_ONCE)
        self.owner = owner
        """This process; its name is on everything that is made."""
        self.engine = self.services.engine
        self.builder = self.services.images
        self._trying = threading.Lock()
        self._shares_files: dict[str, bool] = {}
        """Runtimes that were tried."""
        self._sees_files = True
        """False once the engine was found not to see files of this machine."""

    def check(self) -> None:
        """Make sure the engine answers."""
        self.engine.check()

    def machine(self) -> str:
        """Return what the engine's machine calls itself, such as `x86_64`. One call, the first time."""
        return self.engine.machine

    def runtimes(self) -> tuple[str, ...]:
        """Return the names of the engine's runtimes, the usual one first."""
        return runtimes_of(self.services.info)

    def lacks(self, runtime: str | None = None) -> Mapping[Promise, str]:
        """Return what the engine says that it cannot do, or is known for. Two calls, the first time."""
        return lacking(self.services.info, self.engine.dialect, runtime)

    def incompatible(self, scenario: Scenario, config: JobConfig) -> str | None:  # noqa: ARG002
        """None: whatever is in a scenario, containers are what it was made for."""
        return None

    def identify(self, request: ImageRequest) -> str | None:
        """Return what decides the content of the image; None when it, or that of a service, is not here."""
        return self.builder.identify(request)

    def start(self, spec: SandboxSpec, on_phase: Callable[[str], None]) -> DockerSandbox:
        """Resolve or build the image, create, fill and start a container."""
        from .keeping import kept_image  # from here on the engine's client library is needed

        spec.check_mounts()
        if spec.environment.cpus_request is not None:
            spec = on_machine(spec, self.services.info["NCPU"])
        on_phase("image")
        now = "image"
        # Asking for the phase again is what tells that the trial is to stop.
        who = Caller(lambda: on_phase(now))

        def enter(phase: str) -> None:
            nonlocal now
            now = phase
            on_phase(phase)

        with self.engine.guard(who):
            self.services.begin()
            if spec.kept is not None:
                image = kept_image(self.engine, spec.kept)
            else:
                image = self._resolve(spec, spec.image, on_phase)
            if spec.runtime is not None:
                self._try_runtime(spec, spec.runtime, image, enter)
            start = self._start_alone if spec.environment.compose is None else self._start_with_services
            sandbox = start(spec, image, enter)
        who.settle()
        return sandbox

    def _try_runtime(
        self, spec: SandboxSpec, runtime: str, image: ResolvedImage, on_phase: Callable[[str], None]
    ) -> None:
        """Make sure, once, that containers of a runtime share files with the engine: else no work could be graded."""
        with self._trying:
            if runtime not in self._shares_files:
                alone = Environment(image=spec.environment.image, network="none")
                wanted = SandboxSpec(alone, spec.labels, "none", _TRIED_FOR, runtime=runtime)
                sandbox = self._start_alone(wanted, image, on_phase)
                try:
                    if (shared := _shares_files(sandbox)) is not None:
                        self._shares_files[runtime] = shared
                finally:
                    sandbox.remove()
            if not self._shares_files.get(runtime, True):
                raise EnvironmentFailed(
                    f"containers of the runtime {runtime!r} do not share their files with the engine, so nothing of an "
                    "agent's work could be graded; gVisor does with `--overlay2=none` and `--file-access=shared` among "
                    "its runtimeArgs"
                )

    def _resolve(
        self, spec: SandboxSpec, request: ImageRequest, on_phase: Callable[[str], None]
    ) -> ResolvedImage:
        urgency = Urgency.GRADING if spec.grading else Urgency.TRIAL
        return self.builder.resolve(request, lambda: on_phase("image"), urgency)

    def _start_alone(
        self,
        spec: SandboxSpec,
        image: ResolvedImage,
        on_phase: Callable[[str], None],
        beside: TrialServices | None = None,
    ) -> DockerSandbox:
        """Start a container, and wait for its ENTRYPOINT."""
        from .creating import FilesNotSeen

        def start() -> DockerSandbox:
            self._mountable(spec)  # what takes long to deliver is there then: others start meanwhile
            with taken(self._starts, lambda: on_phase("image" if beside is None else "start")):
                on_phase("start")
                return in_network(self.services.network, lambda: self._started(spec, image, beside))

        try:
            sandbox = start()
        except FilesNotSeen:
            spec.check_mounts()  # something may have gone meanwhile
            self._sees_files = False
            sandbox = start()
        with _undone_by(sandbox.remove):
            # It may take its time, and others may start meanwhile. Asking for the phase tells whether to go on.
            sandbox.await_entrypoint(lambda: on_phase("start"))
        return sandbox

    def _start_with_services(
        self, spec: SandboxSpec, image: ResolvedImage, on_phase: Callable[[str], None]
    ) -> DockerSandbox:
        """Start services and the container of the trial, in the order in which they wait for each other."""
        from .compose.services import TrialServices
        from .creating import labels_of

        beside = TrialServices(self.services, spec, labels_of(self.services, spec), on_phase)
        images = {
            name: self._resolve(spec, spec.image.of_service(service), on_phase)
            for name, service in beside.project.images.items()
        }
        self.services.remember(beside.id, beside.remove)
        with _undone_by(beside.remove):
            beside.begin(images)
            files = (*beside.project.main.files, *spec.files)
            spec = dataclasses.replace(spec, environment=beside.environment(), files=files)
            keys = {name: found.record.key for name, found in images.items()}
            sandbox = self._start_alone(spec, beside.image(image, keys), on_phase, beside)
            with _undone_by(sandbox.remove):
                beside.after_main()
        return sandbox

    def _started(
        self, spec: SandboxSpec, image: ResolvedImage, beside: TrialServices | None
    ) -> DockerSandbox:
        from .creating import create

        with contextlib.ExitStack() as undo:
            proxy = None
            if spec.limited:
                from ..proxy import Proxy

                proxy = Proxy()
                undo.callback(proxy.close)
                files = (*spec.files, proxy.door(self.engine.machine))
                spec = dataclasses.replace(spec, mounts=(*spec.mounts, proxy.mount), files=files)
            sandbox = create(self.services, self._mountable(spec), image, proxy, beside)
            undo.pop_all()
        self.services.remember(sandbox.id, sandbox.remove)
        with _undone_by(sandbox.remove_alone):
            sandbox.begin()
        return sandbox

    def _mountable(self, spec: SandboxSpec) -> SandboxSpec:
        """Return the specification with what the engine can mount: other files are delivered, and sockets relayed."""
        shared = self._sees_files and self.engine.local
        # Sockets: gVisor and Kata pass none on, and on macOS an engine is in a machine of its own.
        if not spec.mounts or (shared and spec.runtime is None and sys.platform == "linux"):
            return spec
        sockets = tuple(mount for mount in spec.mounts if mount.source.is_socket())
        others = tuple(mount for mount in spec.mounts if mount not in sockets)
        if shared:
            return dataclasses.replace(spec, mounts=others, relayed=sockets)
        volume = self.services.deliveries.volume
        copies = (
            File(one.target, source=one.source, readable=True) for one in others if one.source.is_file()
        )
        return dataclasses.replace(
            spec,
            mounts=(),
            relayed=sockets,
            delivered=tuple(
                (one.target, volume(one.source, one.target)) for one in others if one.source.is_dir()
            ),
            files=(*spec.files, *copies),
        )

    def kept(self) -> list[Kept]:
        """Return what was kept of trials on this engine, the oldest first."""
        from .keeping import kept

        with self.engine.guard():
            return kept(self.engine)

    def forget_kept(self, reference: str) -> bool:
        """Remove what was kept. False: it is not there, or cannot be removed now. Never raises."""
        from .keeping import forget_kept

        return forget_kept(self.engine, reference)

    def sweep(self, *, shared: bool = False) -> int:
        """Remove what dead processes of this machine left behind; returns how many things.

        Trials share their network, and what an engine elsewhere was given.
        """
        if shared:
            self.check()
        swept = sweep(self.engine, self.owner)
        if shared:
            from .delivery import forget_deliveries
            from .network import remove_public_network

            swept += remove_public_network(self.engine, self.owner) + forget_deliveries(self.engine)
        return swept

    def findings(self) -> Iterator[Finding]:
        """Check the engine, its clock, disk and limits."""
        from .health import findings

        return findings(self, self.owner)

    def open(
        self,
        reference: str,
        command: Sequence[str],
        *,
        labels: Mapping[str, str],
        user: str | None = None,
        env: Mapping[str, str],
        network: Network,
        welcome: str,
    ) -> int:
        """Run a command, or a shell, in a new container that starts from what was kept."""
        from .keeping import environment_of
        from .terminal import visit

        with self.engine.guard():
            kept = environment_of(self.engine, reference)
        environment = kept.model_copy(update={"network": network})
        spec = SandboxSpec(environment, labels, network, _VISIT, kept=reference)
        user = user or environment.user
        return visit(self.engine, self._visited, spec, command, user=user, env=env, welcome=welcome)

    def _visited(self, spec: SandboxSpec) -> DockerSandbox:
        return self.start(spec, lambda _phase: None)

    def close(self) -> None:
        """Remove whatever this process still has, and let go of the engine."""
        self.services.close()


def _shares_files(sandbox: DockerSandbox) -> bool | None:
    """Return whether a container and its engine see each other's files.

    A runtime may keep them in a layer of its own, or remember what it has seen of one that is replaced from outside.

    None: its image has no shell, so it cannot be asked.
    """
    token = secrets.token_hex(8).encode()

    def run(script: str) -> bool:
        command = ("/bin/sh", "-c", script)
        return sandbox.exec(command, timeout=_TRIED_FOR, sink=lambda _: None, user="0").started

    if not run("mkdir /bench-in && : > /bench-in/x"):
        return None
    replaced = File("/bench-in", clean=True), File("/bench-in/x", content=token, readable=True)
    sandbox.put_from_outside(replaced)
    run("cat /bench-in/x > /bench-out")
    return sandbox.read("/bench-out", limit=len(token)) == token


@contextlib.contextmanager
def _undone_by(undo: Callable[[], object]) -> Iterator[None]:
    """Call this if anything is raised inside the context."""
    try:
        yield
    except BaseException:
        undo()
        raise
