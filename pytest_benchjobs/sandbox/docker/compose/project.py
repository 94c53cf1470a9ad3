"""Settings of `main` and of each service, from the file as Docker Compose normalised it. Pure.

Nothing of this machine is mounted: files beside the file are copied in, and volumes are made for the trial. Networks
lead to the services of the trial alone; a service reaches the internet as `main` does, by the network of public trials.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

from ....model.errors import EnvironmentFailed
from ....model.scenario import MAIN, Environment, ServiceImage
from ....sources.compose import service_image
from ....sources.compose_rules import PASSED_ON, UNKNOWN_HERE, faults, listed
from ....sources.plain import dotted
from ...protocol import File, SandboxSpec
from ..engine import LABEL
from ..resources import resources_of

_LOG_BYTES = "4m"
# As of the container of the trial.
_DROPPED_CAPABILITIES = ("MKNOD", "NET_RAW", "SETPCAP")
_KEEPS_ALIVE = (
    ("sleep", "infinity"), ("sleep", "inf"), ("tail", "-f", "/dev/null"),
    ("sh",), ("bash",), ("/bin/sh",), ("/bin/bash",),
    ("sh", "-c", "sleep infinity"), ("/bin/sh", "-c", "sleep infinity"), ("sh", "-c", "tail -f /dev/null"),
    ("bash", "-c", "sleep infinity"), ("/bin/bash", "-c", "sleep infinity"), ("bash", "-c", "tail -f /dev/null"),
)  # fmt: skip
"""Commands that only keep a container running, which that of a trial does anyway."""


@dataclasses.dataclass(frozen=True, slots=True)
class Main:
    """Additions of the file to the container of the trial."""

    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    files: tuple[File, ...] = ()
    volumes: tuple[tuple[str, str, bool], ...] = ()
    """Name of a volume in the file, path in the container, and True if it is read-only."""
    tmpfs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    networks: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Name of a network in the file -> its names there."""
    hosts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    shm_size: int | None = None
    memory: int | None = None
    cpus: float | None = None
    workdir: str | None = None
    user: str | None = None
    entrypoint: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    """Command to run beside the agent; None: none, or one that only keeps the container running."""


@dataclasses.dataclass(frozen=True, slots=True)
class Project:
    """The services of a scenario."""

    file: Path
    main: Main
    services: Mapping[str, Mapping[str, Any]]
    """Service beside `main` -> how the file describes it."""
    images: Mapping[str, ServiceImage]
    files: Mapping[str, tuple[File, ...]]
    """Service -> files to put in before it starts."""
    networks: tuple[str, ...]
    volumes: tuple[str, ...]
    after_main: frozenset[str]
    """Services that wait for `main`."""
    waits: Mapping[str, Any]
    """Services that `main` waits for, and until when, as in `depends_on`."""
    healthy: frozenset[str]
    """Services whose health others wait for: they may not end, be it without an error."""

    def description(
        self, prefix: str, images: Mapping[str, str], labels: Mapping[str, str], spec: SandboxSpec
    ) -> str:
        """Return the text for Docker Compose: of the services beside `main`, and what `main` waits for.

        `prefix` begins the engine's names of networks and volumes, `images` are ids by service, `labels` are of all
        containers. Each service has the runtime of the trial, and the limits of its environment, unless it says less.
        """
        services: dict[str, Any] = {}
        if self.waits:
            # Nothing is started by that name: Docker Compose waits for what it waits for.
            stand_in = {"image": next(iter(images.values())), "pull_policy": "never", "network_mode": "none"}
            services[MAIN] = {**stand_in, "deploy": {"replicas": 0}, "depends_on": self.waits}
        for name, service in self.services.items():
            described = _service(service, self.services, spec.environment)
            described["labels"] |= labels
            if spec.runtime is not None:
                described["runtime"] = spec.runtime
            services[name] = {**described, "image": images[name]}
        text = json.dumps(
            {
                "services": services,
                **{
                    kind: {name: {"external": True, "name": f"{prefix}-{name}"} for name in names}
                    for kind, names in (("networks", self.networks), ("volumes", self.volumes))
                },
            }
        )
        return text.replace("$", "$$")


def read_project(text: str, file: Path) -> Project:
    """Read the file as Docker Compose normalised it.

    What services of a trial do not get is an `EnvironmentFailed`.
    """
    # Docker Compose doubles each `$`.
    data: dict[str, Any] = json.loads(text.replace("$$", "$"))
    found = [f"{dotted(place)}: {why}" for place, why in faults(data, file.parent)]
    if found:
        raise EnvironmentFailed(f"{file}: {'; '.join(found[:5])}")
    services: dict[str, dict[str, Any]] = data["services"]
    files = {name: tuple(_files(service, data)) for name, service in services.items()}
    main, of_main = services.get(MAIN, {}), files.pop(MAIN, ())
    beside = {name: service for name, service in services.items() if name != MAIN}
    for name, service in beside.items():
        if files[name] and service.get("read_only"):
            raise EnvironmentFailed(
                f"{file}: services.{name}.read_only: is not supported for a service that gets files of this machine"
            )
    if "networks" not in main and main.get("network_mode") != "none":
        # As Docker Compose does; a file may say nothing of `main`.
        main = {**main, "networks": {"default": None}}
    networks = {network for service in (main, *beside.values()) for network in service.get("networks") or {}}
    mounted = {
        volume["source"] for one in services.values() for volume in _volumes(one) if "source" in volume
    }
    return Project(
        file=file,
        main=_main(main, of_main),
        services=beside,
        images={name: _image(name, service, file) for name, service in beside.items()},
        files={name: some for name, some in files.items() if some},
        networks=tuple(sorted(networks)),
        volumes=tuple(sorted(mounted)),
        after_main=frozenset(_after_main(services)),
        waits=_waits(main, beside),
        healthy=frozenset(
            name
            for service in services.values()
            for name, wait in _waits(service, beside).items()
            if wait.get("condition") == "service_healthy"
        ),
    )


def _waits(service: Mapping[str, Any], beside: Container[str]) -> dict[str, Any]:
    """Return the services beside `main` that a service waits for, as in `depends_on`."""
    return {name: wait for name, wait in (service.get("depends_on") or {}).items() if name in beside}


def _service(service: Mapping[str, Any], beside: Container[str], environment: Environment) -> dict[str, Any]:
    """Return a service as Docker Compose reads it, without its image and the labels of the trial."""
    labels = service.get("labels") or {}
    waits, networks = _waits(service, beside), _networks(service)
    added = {str(one).upper().removeprefix("CAP_") for one in listed(service.get("cap_add"))}
    dropped = (one for one in _DROPPED_CAPABILITIES if one not in added)
    memory, cpus = _limits(service)
    memory, cpus = least(memory, environment.memory), least(cpus, environment.cpus)
    joined = {name: {"aliases": [*aliases]} for name, aliases in networks.items()}
    return {
        **{key: service[key] for key in sorted(PASSED_ON) if service.get(key) is not None},
        **resources_of(environment, memory, cpus),
        **({} if cpus is None else {"cpus": cpus}),
        "environment": _environment(service),
        "volumes": _volumes(service),
        "labels": {name: value for name, value in labels.items() if not name.startswith(LABEL)},
        "cap_drop": list(dict.fromkeys((*listed(service.get("cap_drop")), *dropped))),
        "pull_policy": "never",
        "logging": {"driver": "json-file", "options": {"max-size": _LOG_BYTES, "max-file": "1"}},
        **({"networks": joined} if joined else {"network_mode": "none"}),
        **({"depends_on": waits} if waits else {}),
        **({} if environment.allow_sudo else {"security_opt": ["no-new-privileges:true"]}),
    }


def _environment(service: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables that have a value: of others it would be filled in from this machine."""
    return {name: value for name, value in (service.get("environment") or {}).items() if value is not None}


def _networks(service: Mapping[str, Any], *own: str) -> dict[str, tuple[str, ...]]:
    """Return the networks of a service, with its names there besides that of the service."""
    alias = service.get("container_name")
    return {
        name: tuple(dict.fromkeys((*own, *((one or {}).get("aliases") or ()), *([alias] if alias else ()))))
        for name, one in (service.get("networks") or {}).items()
    }


def _limits(service: Mapping[str, Any]) -> tuple[int | None, float | None]:
    """Return the bytes and processors that the file gives to a service, in one way or another."""
    limits = ((service.get("deploy") or {}).get("resources") or {}).get("limits") or {}
    memory = int(service.get("mem_limit") or limits.get("memory") or 0)
    cpus = float(service.get("cpus") or limits.get("cpus") or 0)
    return memory or None, cpus or None


def least(*limits: Any) -> Any:
    """Return the least of the limits that are given; None: none is."""
    return min((one for one in limits if one is not None), default=None)


def _volumes(service: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the mounts of a service that are nothing of this machine."""
    return [dict(volume) for volume in service.get("volumes") or () if volume["type"] != "bind"]


def _files(service: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[File]:
    """Yield what a service would have mounted from beside the file."""
    for volume in service.get("volumes") or ():
        if volume["type"] != "bind" or volume["source"].startswith(UNKNOWN_HERE):
            continue
        source = Path(volume["source"])
        # As Docker does where there is nothing to mount.
        yield File(volume["target"], source=source) if source.exists() else File(volume["target"])
    for table, place in (("configs", "/"), ("secrets", "/run/secrets/")):
        for one in service.get(table) or ():
            shared = (data.get(table) or {})[one["source"]]
            target = one.get("target") or one["source"]
            path = target if target.startswith("/") else place + target
            mode = one.get("mode")
            mode = int(mode, 8) if isinstance(mode, str) else mode
            if "content" in shared:
                yield File(path, content=shared["content"].encode(), mode=mode)
            else:
                yield File(path, source=Path(shared["file"]), mode=mode)


def _image(name: str, service: Mapping[str, Any], file: Path) -> ServiceImage:
    image = service_image(service, file.parent, lambda value: value if isinstance(value, str) else None)
    if image is None:
        raise EnvironmentFailed(f"{file}: services.{name}: has neither image nor build")
    return image


def _main(service: Mapping[str, Any], files: tuple[File, ...]) -> Main:
    memory, cpus = _limits(service)
    volumes = _volumes(service)
    tmpfs = {str(one).partition(":")[0]: str(one).partition(":")[2] for one in listed(service.get("tmpfs"))}
    tmpfs |= {volume["target"]: "" for volume in volumes if volume["type"] == "tmpfs"}
    command, entrypoint = service.get("command"), service.get("entrypoint")
    return Main(
        env={name: str(value) for name, value in _environment(service).items()},
        files=files,
        volumes=tuple(
            (volume["source"], volume["target"], bool(volume.get("read_only")))
            for volume in volumes
            if volume["type"] == "volume" and "source" in volume
        ),
        tmpfs=tmpfs,
        networks=_networks(service, MAIN),
        hosts=_hosts(service.get("extra_hosts")),
        shm_size=int(service["shm_size"]) if service.get("shm_size") else None,
        memory=memory,
        cpus=cpus,
        workdir=service.get("working_dir"),
        user=service.get("user"),
        entrypoint=None if entrypoint is None else tuple(entrypoint),
        command=None if not command or tuple(command) in _KEEPS_ALIVE else tuple(command),
    )


def _hosts(written: object) -> dict[str, str]:
    if isinstance(written, dict):
        return {name: str(listed(address)[0]) for name, address in written.items() if listed(address)}
    pairs = (str(one).replace("=", ":", 1).partition(":") for one in listed(written))
    return {name: address for name, _, address in pairs}


def _after_main(services: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the services that wait for `main`, also by others."""
    waiting: set[str] = set()
    reached = {MAIN}
    while reached:
        reached = {
            name
            for name, service in services.items()
            if name not in waiting and not reached.isdisjoint(service.get("depends_on") or ())
        }
        waiting |= reached
    return waiting
