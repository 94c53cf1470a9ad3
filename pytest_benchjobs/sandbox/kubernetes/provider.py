"""The provider of sandboxes that are Pods of a cluster.

One object for each process, a ConfigMap, owns all that it makes there, and holds our program, which Pods mount: with
the owner all is gone. Queues, places and quotas are the cluster's.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from ...model.errors import (
    ContainerStartFailed,
    EnvironmentFailed,
    ImageMissing,
    InfrastructureError,
)
from ...model.finding import Finding, ok
from ...model.job import JobConfig, Owner
from ...model.scenario import Network, Scenario
from ..program import needed_program
from ..protocol import File, ImageRequest, Kept, Mount, Promise, SandboxSpec
from ..reaper import Reaper
from .images import ClusterImages, PodImage
from .pod import CONTAINER, FILLER, LABEL, OWNER, label_value, manifest_of
from .template import read_template

if TYPE_CHECKING:
    from ..proxy import Proxy
    from .sandbox import KubernetesSandbox

_MARGIN = 3600.0
"""Seconds after the deadline of its last Pod at which an owner is of no use to anybody."""
_NOT_ENFORCED = (
    "this cluster's network does not keep Pods from reaching others (no network policies): trials that ask for the "
    "network {network!r} would have it all. Use a cluster whose network enforces policies, or allow it by "
    "`--bench-sandbox-option unenforced_network=true`, which every result notes"
)
_NO_POLICIES = (
    "we have no right to create network policies, so Pods have the network that the cluster gives them"
)
_NOT_PROBED = (
    "whether this cluster enforces the network {network!r} cannot be tried from a Pod: its API has no IPv4 address "
    "there. `--bench-sandbox-option unenforced_network=true` goes on, and every result notes it"
)
_ENFORCED_WITHIN = 10.0
_NOT_OPENED = (
    f"{_ENFORCED_WITHIN:g} seconds after the network was made 'public', neither the cluster's API nor another node was "
    "reached from the Pod"
)
_LOOK = 0.2
_BLOCK = 4096
_LACKS = {
    Promise.PIDS: "a Pod has no limit of processes of its own",
    Promise.EVIDENCE: "nobody outside looks at the files of a Pod",
    Promise.KEEPING: "the file system of a Pod goes with it",
    Promise.SERVICES: "services of Docker Compose are not started in a cluster",
}


class ClusterSettings(BaseModel):
    """What `--bench-sandbox-option` takes."""

    kubeconfig: Path | None = None
    """None: `KUBECONFIG`, `~/.kube/config`, or the service account where this is a Pod."""
    context: str | None = None
    namespace: str | None = None
    template: Path | None = None
    """A YAML file that is merged into every Pod."""
    machine: str = "x86_64"
    """The architecture of the nodes that are asked for."""
    unenforced_network: bool = False
    """Go on where the cluster does not enforce network policies."""
    pods_per_second: float = Field(10.0, gt=0)
    """Pods are made no faster."""


class KubernetesProvider:
    """Starts Pods in one namespace of a cluster. Thread-safe."""

    Settings = ClusterSettings

    def __init__(self, owner: Owner, settings: ClusterSettings | None = None) -> None:
        from .api import Cluster

        self.settings = settings or ClusterSettings()
        self.owner = owner
        given = self.settings.kubeconfig  # absolute, as the reaper is elsewhere
        kubeconfig = None if given is None else str(given.expanduser().absolute())
        self._cluster = Cluster(kubeconfig, self.settings.context, self.settings.namespace)
        self._images = ClusterImages(owner, self.settings.machine)
        self._lock = threading.Lock()
        self._owning = threading.Lock()
        """Held by whoever asks the cluster for an owner, or for more of its time."""
        self._owned: tuple[Mapping[str, Any], float] | None = None
        """The owner of what this process makes, and its deadline."""
        self._reaper: Reaper | None = None
        self._live: dict[str, KubernetesSandbox] = {}
        self._starting = 0
        """Number of Pods that are waited for: whoever waits may have one that runs."""
        self._next_start = 0.0
        self._has_policies = True
        """False where we have no right to make network policies."""
        self._shows_opening: bool | None = None
        """Whether what is tried from Pods is reached by one whose network is public; None: that is not known."""
        self._template: Mapping[str, Any] | None = None

    def check(self) -> None:
        """Make sure that the cluster answers, and that the template can be read."""
        self._cluster.version()
        self._read_template()

    def machine(self) -> str:
        """Return the architecture of the nodes that are asked for."""
        return self.settings.machine

    def runtimes(self) -> tuple[str, ...]:
        """Return the names of the cluster's RuntimeClasses; the usual one has none."""
        return tuple(sorted(one["metadata"]["name"] for one in self._cluster.list("RuntimeClass")))

    def lacks(self, runtime: str | None = None) -> Mapping[Promise, str]:  # noqa: ARG002
        """Return what a Pod cannot promise."""
        return _LACKS

    def incompatible(self, scenario: Scenario, config: JobConfig) -> str | None:  # noqa: ARG002
        """Return why Pods are not for a scenario; None if they are."""
        environment = scenario.environment
        if environment.compose is not None:
            return "incompatible: has services of Docker Compose, which are not started in a cluster"
        if environment.snapshot is not None:
            return "incompatible: starts from a snapshot, which is an image of one Docker Engine"
        return None

    def identify(self, request: ImageRequest) -> str | None:
        """Return what decides the content of the image, as far as the Docker Engine here tells."""
        return self._images.identify(request)

    def start(self, spec: SandboxSpec, on_phase: Callable[[str], None]) -> KubernetesSandbox:
        """Have the image where the cluster gets it, make a Pod, and wait until it runs."""
        spec.check_mounts()
        on_phase("image")
        if spec.kept is not None:
            raise ImageMissing(f"{spec.kept} is kept on a Docker Engine, and no Pod can start from it")
        image = self._images.resolve(spec.image, lambda: on_phase("image"))
        on_phase("start")
        check = lambda: on_phase("start")  # noqa: E731  asking for the phase again tells that the trial is to stop
        owned = self._own(spec.deadline, check)
        self._wait_for_turn(check)
        spec = _movable(spec)
        with contextlib.ExitStack() as undo:
            proxy = None
            if spec.limited:
                from ..proxy import Proxy

                proxy = Proxy()
                undo.callback(proxy.close)
                spec = dataclasses.replace(spec, relayed=(*spec.relayed, proxy.mount))
            sandbox = self._started(spec, image, owned, proxy, check)
            undo.pop_all()
        return sandbox

    def _started(
        self,
        spec: SandboxSpec,
        image: PodImage,
        owned: Mapping[str, Any],
        proxy: Proxy | None,
        check: Callable[[], object],
    ) -> KubernetesSandbox:
        from .life import Life
        from .link import Link
        from .sandbox import KubernetesSandbox, fill
        from .server import PodServer

        name = f"bench-{secrets.token_hex(10)}"
        directories = tuple(mount for mount in spec.mounts if mount.source.is_dir())
        before = [
            one for one in tuple(self._live.values()) if spec.grading and one.spec.labels == spec.labels
        ]
        manifest = manifest_of(
            name,
            _with_room_for(directories, spec, before),
            image.reference,
            owned,
            self.machine(),
            self._read_template(),
            tuple(mount.target for mount in directories),
            next((one.node for one in before), None),
        )
        life = Life(self._cluster, manifest, lambda: len(self._live) > self._starting)

        def server_of(container: str) -> PodServer:
            return PodServer(Link(lambda: life.connect(container), life.check_end))

        try:
            life.create(check)
            with self._counted(), contextlib.ExitStack() as filling:
                if directories:
                    life.await_start(FILLER, check)
                    # It ends once it has heard of that, so it is let go of later.
                    fill(filling.enter_context(contextlib.closing(server_of(FILLER))), directories)
                record = image.record_in(life.await_start(CONTAINER, check))
            server = server_of(CONTAINER)
            sandbox = KubernetesSandbox(
                life, server, spec, record, image.user, self._forget, self._await_network, proxy
            )
        except BaseException:
            life.delete()
            raise
        self._live[sandbox.id] = sandbox
        try:
            sandbox.begin(image.variables, image.workdir)
            sandbox.await_entrypoint(image.entrypoint, check)
            if not self._has_policies:
                sandbox.note(_NO_POLICIES)
        except BaseException:
            sandbox.remove()
            raise
        return sandbox

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        with self._lock:
            self._starting += 1
        try:
            yield
        finally:
            with self._lock:
                self._starting -= 1

    def _await_network(self, sandbox: KubernetesSandbox, network: Network) -> None:
        """Try to get out of a Pod until it can, or cannot, as its network says; a cluster may take a moment for that.

        One that is public may have a way out, and none to what is tried.

        Raises EnvironmentFailed: it gets out, and is not to, and nobody has allowed that.
        """
        if network != "public":
            self._make_sure_it_is_apart(sandbox, network)
            return
        deadline = time.monotonic() + _ENFORCED_WITHIN
        while self._has_policies and self._shows_opening is not False:
            if sandbox.gets_out() is not False:
                self._shows_opening = True
                return
            if time.monotonic() >= deadline:
                self._shows_opening = bool(self._shows_opening)
                sandbox.note(_NOT_OPENED)
                return
            time.sleep(_LOOK)

    def _make_sure_it_is_apart(self, sandbox: KubernetesSandbox, network: Network) -> None:
        hopeless = self.settings.unenforced_network or not self._has_policies
        deadline = time.monotonic() + (0.0 if hopeless else _ENFORCED_WITHIN)
        while (out := sandbox.gets_out()) is not False:
            if time.monotonic() >= deadline:
                if not self.settings.unenforced_network:
                    if out is None:
                        raise EnvironmentFailed(_NOT_PROBED.format(network=network))
                    why = "" if self._has_policies else f"{_NO_POLICIES}: "
                    raise EnvironmentFailed(why + _NOT_ENFORCED.format(network=network))
                if out is None:
                    sandbox.note(f"it is not known whether this cluster enforces the network {network!r}")
                    return
                sandbox.note(f"the network {network!r} is not enforced by this cluster: all of it is open")
                return
            time.sleep(_LOOK)

    def kept(self) -> list[Kept]:
        """Return nothing: Pods are not kept."""
        return []

    def forget_kept(self, reference: str) -> bool:  # noqa: ARG002  nothing was
        """Return False: it is not there."""
        return False

    def sweep(self, *, shared: bool = False) -> int:  # noqa: ARG002  trials share nothing
        """Remove what dead processes left in this namespace; returns how many owners.

        Where nothing leads to a cluster, nothing was made in one.
        """
        from ..labels import abandoned

        if not self._cluster.is_known():
            return 0
        self._cluster.version()
        swept = 0
        for one in self._cluster.list("ConfigMap", OWNER):
            if abandoned(
                one["metadata"].get("annotations") or {}, self.owner, time.time(), LABEL, shared=True
            ):
                self._cluster.delete("ConfigMap", one["metadata"]["name"], uid=one["metadata"]["uid"])
                swept += 1
        return swept

    def findings(self) -> Iterator[Finding]:
        """Tell which cluster answers, and which rights it does not give us."""
        from .rights import findings

        yield ok(
            "engine",
            f"the cluster at {self._cluster.server} answers, version {self._cluster.version()}, namespace "
            f"{self._cluster.namespace}",
        )
        yield from findings(self._cluster)
        yield from self._images.findings()

    def close(self) -> None:
        """Remove whatever this process still has, and let go of the cluster."""
        for sandbox in tuple(self._live.values()):
            sandbox.remove()
        with self._owning:
            owned, self._owned = self._owned, None
        removed = owned is None
        if owned is not None:
            metadata = owned[0]["metadata"]
            with contextlib.suppress(InfrastructureError):
                self._cluster.delete("ConfigMap", metadata["name"], uid=metadata["uid"])
                removed = True
        if self._reaper is not None:
            self._reaper.close(nothing_left=removed)
        self._images.close()
        self._cluster.close()

    def _forget(self, sandbox: str) -> None:
        self._live.pop(sandbox, None)

    def _read_template(self) -> Mapping[str, Any]:
        if self._template is None:
            self._template = read_template(self.settings.template)
        return self._template

    def _own(self, deadline: float, check: Callable[[], object]) -> Mapping[str, Any]:
        """Return the owner of all that this process makes; its deadline is that of its last Pod, and more.

        A new one, where somebody has deleted it, and so all that it owned.
        """
        until = time.time() + deadline + _MARGIN
        if (owned := self._owned) is not None and until <= owned[1]:
            return owned[0]
        while not self._owning.acquire(timeout=_LOOK):
            check()
        try:
            if (owned := self._owned) is not None and until > owned[1]:
                until += _MARGIN
                changes = {"metadata": {"annotations": {f"{LABEL}deadline": str(int(until))}}}
                there = self._cluster.patch("ConfigMap", owned[0]["metadata"]["name"], changes, check=check)
                owned = self._owned = None if there is None else (owned[0], until)
            if owned is None:
                owned = self._owned = self._made_owner(until, check), until
                threading.Thread(target=self._sweep_quietly, name="bench-sweep", daemon=True).start()
            return owned[0]
        finally:
            self._owning.release()

    def _made_owner(self, until: float, check: Callable[[], object]) -> Mapping[str, Any]:
        """Make the owner, and what has to be there before its first Pod; or nothing."""
        from .reaper import command, environment

        program = needed_program(self.machine(), "Pods run", ContainerStartFailed)
        owned = self._cluster.create(self._owner_manifest(program, until), check=check)
        name = owned["metadata"]["name"]
        reaper = Reaper(command(self._cluster, name), environment())
        try:
            reaper.start()
            self._make_policies(owned, check)
            self._cluster.watch_pods(f"{OWNER}={name}", check=check)
        except BaseException:
            # Another trial begins anew; the reaper removes this one.
            reaper.close(nothing_left=False)
            raise
        if self._reaper is not None:
            self._reaper.close(nothing_left=True)
        self._reaper = reaper
        return owned

    def _owner_manifest(self, program: File, until: float) -> dict[str, Any]:
        name = f"bench-{secrets.token_hex(10)}"
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "labels": {OWNER: name, f"{LABEL}nonce": name, f"{LABEL}host": label_value(self.owner.host)},
                "annotations": {
                    f"{LABEL}owner": str(self.owner),
                    f"{LABEL}host": self.owner.host,
                    f"{LABEL}deadline": str(int(until)),
                },
            },
            "binaryData": {"program": base64.b64encode(program.content or b"").decode()},
        }

    def _make_policies(self, owned: Mapping[str, Any], check: Callable[[], object]) -> None:
        """Have Pods without a network reach nothing, and others all but the addresses by which clouds tell secrets."""
        from .api import NoRight
        from .policies import policies

        try:
            for manifest in policies(owned):
                self._cluster.create(manifest, check=check)
        except NoRight:
            self._has_policies = False

    def _wait_for_turn(self, check: Callable[[], object]) -> None:
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next_start)
            self._next_start = turn + 1 / self.settings.pods_per_second
        while (left := turn - time.monotonic()) > 0:
            check()
            time.sleep(min(left, 0.2))

    def _sweep_quietly(self) -> None:
        # Tidying up after others must not disturb anybody: it is tried again at the next start.
        with contextlib.suppress(InfrastructureError, OSError):
            self.sweep()


def _with_room_for(
    directories: Iterable[Mount], spec: SandboxSpec, before: Iterable[KubernetesSandbox]
) -> SandboxSpec:
    """Return the specification with what is to be asked of the cluster.

    That is more storage: a kubelet counts what is delivered, the trial's limit does not. And only as many processors as
    Pods `before` it, of the same trial, do not keep already and have no use for: a trial that has all the room that it
    gets, and waits for more, would wait for ever, with all others that do the same.
    """
    environment = spec.environment
    wanted = environment.cpus_request or environment.cpus
    kept = max(
        (one.spec.environment.cpus_request or one.spec.environment.cpus or 0 for one in before), default=0
    )
    if wanted is not None and kept:
        environment = environment.model_copy(update={"cpus_request": max(wanted - kept, 0.0)})
        spec = dataclasses.replace(spec, environment=environment)
    if environment.storage is None:
        return spec
    files = (path for mount in directories for path in mount.source.rglob("*"))
    size = sum(path.lstat().st_size + _BLOCK for path in files)
    return dataclasses.replace(
        spec, environment=environment.model_copy(update={"storage": environment.storage + size})
    )


def _movable(spec: SandboxSpec) -> SandboxSpec:
    """Return the specification with directories to be delivered, sockets to be relayed, and files to be put in."""
    sockets = tuple(mount for mount in spec.mounts if mount.source.is_socket())
    directories = tuple(mount for mount in spec.mounts if mount.source.is_dir())
    copies = (
        File(one.target, source=one.source, readable=True)
        for one in spec.mounts
        if one not in (*sockets, *directories)
    )
    return dataclasses.replace(spec, mounts=directories, relayed=sockets, files=(*spec.files, *copies))
