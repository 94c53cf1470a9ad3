"""Create a container from its scenario, its trial and its owner."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from docker.types import DeviceRequest, Ulimit
from docker.types import Mount as EngineMount

from ...model.errors import AgentSetupFailed, EngineRefused, ImageMissing
from ..program import program_file
from ..protocol import SandboxSpec
from .container import DockerSandbox, begins_joined
from .engine import LABEL, ROOT_USER
from .images import ResolvedImage
from .processes import first_command
from .resources import resources_of
from .services import EngineServices
from .words import FILES_NOT_SEEN

if TYPE_CHECKING:
    from ..proxy import Proxy
    from .compose.project import Main
    from .compose.services import TrialServices

_HOSTNAME = "bench"
# Of the engine's default capabilities: forging packets, making devices, and handing capabilities on.
_DROPPED_CAPABILITIES = ["MKNOD", "NET_RAW", "SETPCAP"]


class FilesNotSeen(AgentSetupFailed):
    """The engine does not see files of this machine: this process is in a container that has only its socket."""


def create(
    services: EngineServices,
    spec: SandboxSpec,
    image: ResolvedImage,
    proxy: Proxy | None = None,
    beside: TrialServices | None = None,
) -> DockerSandbox:
    """Create a container, which is not started yet. It belongs to the caller of this thread.

    `proxy` serves it if it is to be limited to certain hosts. `beside` are the services of its trial, if it has any.

    Raises:
        ImageMissing: the image was removed meanwhile.
        AgentSetupFailed: the engine does not see the files of this machine that the agent needs.
    """
    environment = spec.environment
    workdir = environment.workdir or image.workdir or "/"
    lifetime = max(1, int(spec.deadline))
    first = program_file(services.engine.machine)
    client = services.engine.client
    network = services.network.of(
        "public" if begins_joined(services, spec, beside) else spec.network, image.id
    )
    joined = None if beside is None else beside.joined()
    networks = {} if joined is None else dict(joined.networks)
    if network.name != "none" or not networks:  # those of services come first
        networks[network.name] = ()
    first_network = next(iter(networks))
    try:
        created = client.create_container(
            image.id,
            [],
            # An ENTRYPOINT that is kept is a command like any other, which can be started again. Commands are given the
            # scenario's variables one by one: what the engine keeps of a container it shows to everybody.
            entrypoint=(["sleep", str(lifetime)] if first is None else first_command(lifetime)),
            # A name of its own, so that it is found where the answer is lost.
            name=f"bench-{secrets.token_hex(12)}",
            hostname=_HOSTNAME,
            # Commands run as the image's own user all the same.
            user=ROOT_USER,
            working_dir=workdir,
            # Podman stops what it is to remove, and the first process heeds nothing else.
            stop_signal="SIGKILL",
            labels=labels_of(services, spec),
            host_config=client.create_host_config(
                **_host_config(spec, first_network, joined), init=first is None
            ),
            networking_config=None if joined is None else _joining(client, first_network, networks),
        )
    except EngineRefused as error:
        if error.words in FILES_NOT_SEEN:
            raise FilesNotSeen(
                f"the Docker Engine at {services.engine.host} does not see this machine's files, which agents need: "
                f"{error.words}"
            ) from error
        if services.engine.get(f"/images/{image.id}/json") is None:
            services.images.forget(image.id)
            raise ImageMissing(f"image {image.record.reference} was removed meanwhile") from error
        raise
    sandbox = DockerSandbox(services, created["Id"], image, spec, workdir, first, network.note, proxy, beside)
    try:
        for name in [*networks][1:]:
            client.connect_container_to_network(created["Id"], name, aliases=list(networks[name]))
    except BaseException:
        sandbox.remove_alone()
        raise
    return sandbox


def labels_of(services: EngineServices, spec: SandboxSpec) -> dict[str, str]:
    """Return the labels of everything that a trial has in the engine."""
    return {
        **{LABEL + key: value for key, value in spec.labels.items()},
        LABEL + "owner": str(services.owner),
        LABEL + "host": services.owner.host,
        LABEL + "deadline": str(int(time.time() + spec.deadline)),
    }


def _joining(client: Any, first: str, networks: Mapping[str, tuple[str, ...]]) -> Any:
    endpoint = client.create_endpoint_config(aliases=list(networks[first]) or None)
    return client.create_networking_config({first: endpoint})


def _mounts_of(spec: SandboxSpec) -> list[EngineMount]:
    # Not `binds`: for those the engine makes a directory where it finds nothing.
    return [
        *(
            EngineMount(mount.target, str(mount.source.absolute()), type="bind", read_only=True)
            for mount in spec.mounts
        ),
        *(EngineMount(target, name, type="volume", read_only=True) for target, name in spec.delivered),
    ]


def _host_config(spec: SandboxSpec, network: str, joined: Main | None) -> dict[str, Any]:
    environment = spec.environment
    config: dict[str, Any] = {
        "network_mode": network,
        **resources_of(environment, environment.memory, environment.cpus),
        "cap_drop": _DROPPED_CAPABILITIES,
        # An agent can write to /proc/1/fd/1: what comes there is kept nowhere.
        "log_config": {"Type": "none"},
        # No limit on open files: an engine without CAP_SYS_RESOURCE may not raise its own.
        "ulimits": [Ulimit(name="core", soft=0, hard=0)],
    }
    if not environment.allow_sudo:
        config["security_opt"] = ["no-new-privileges"]
    if spec.runtime is not None:
        config["runtime"] = spec.runtime
    if environment.cpus is not None:
        config["nano_cpus"] = int(environment.cpus * 1e9)
    if mounts := _mounts_of(spec):
        config["mounts"] = mounts
    if joined is not None:
        config["mounts"] = [
            *config.get("mounts", ()),
            *(
                EngineMount(target, name, type="volume", read_only=only)
                for name, target, only in joined.volumes
            ),
        ]
        config["tmpfs"] = dict(joined.tmpfs)
        config["extra_hosts"] = dict(joined.hosts)
        config["shm_size"] = joined.shm_size
    if environment.gpus:
        config["device_requests"] = [DeviceRequest(count=environment.gpus, capabilities=[["gpu"]])]
    return config
