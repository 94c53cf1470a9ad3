"""What `main` and each service get, from the file as Docker Compose normalised it. Pure.

Nothing of this machine is mounted: files beside the file are copied in, and volumes are made for the trial. Networks
lead to the services of the trial alone; a service reaches the internet as `main` does, by the network of public trials.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....model.errors import EnvironmentFailed
from ....model.scenario import MAIN, Environment, ServiceImage
from ....sources.compose_rules import UNKNOWN_HERE, faults, listed
from ....sources.plain import dotted
from ...protocol import File
from ..engine import LABEL

_KEPT = (
    "cap_add", "command", "cpu_shares", "cpuset", "dns", "dns_opt", "dns_search", "domainname", "entrypoint",
    "environment", "extra_hosts", "group_add", "healthcheck", "hostname", "init", "ipc", "links", "mem_reservation",
    "mem_swappiness", "oom_score_adj", "read_only", "restart", "shm_size", "stdin_open", "stop_signal", "sysctls",
    "tmpfs", "tty", "ulimits", "user", "working_dir",
)  # fmt: skip
"""Keys of services that Docker Compose gets as they are; all others are made anew, or without effect."""
_LIMITS = ("cpus", "mem_limit", "deploy")
_LOG_BYTES = "4m"
# As of the container of the trial.
_DROPPED_CAPABILITIES = ("MKNOD", "NET_RAW", "SETPCAP")
_KEEPS_ALIVE = (
    ("sleep", "infinity"),
    ("tail", "-f", "/dev/null"),
    ("sh", "-c", "sleep infinity"),
    ("bash", "-c", "sleep infinity"),
    ("/bin/sh", "-c", "sleep infinity"),
    ("/bin/bash", "-c", "sleep infinity"),
    ("sh", "-c", "tail -f /dev/null"),
    ("bash", "-c", "tail -f /dev/null"),
    ("sleep", "inf"),
    ("bash",),
    ("sh",),
    ("/bin/bash",),
    ("/bin/sh",),
)
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
    """What is to run beside the agent; None: nothing, or only what keeps a container running."""


@dataclasses.dataclass(frozen=True, slots=True)
class Project:
    """The services of a scenario."""

    file: Path
    main: Main
    services: Mapping[str, Mapping[str, Any]]
    """Service -> how Docker Compose is told of it, without image, labels and limits."""
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
        self,
        *,
        images: Mapping[str, str],
        networks: Mapping[str, str],
        volumes: Mapping[str, str],
        labels: Mapping[str, str],
        environment: Environment,
    ) -> str:
        """Return the text for Docker Compose: of the services beside `main`, and what `main` waits for.

        Args:
            images: Service -> the engine's id of its image.
            networks: Name in the file -> the engine's.
            volumes: Name in the file -> the engine's.
            labels: Of all containers.
            environment: That of the trial, whose limits each service has unless it says less.
        """
        services: dict[str, Any] = {}
        if self.waits:
            # Nothing is started by that name: Docker Compose waits for what it waits for.
            stand_in = {"image": next(iter(images.values())), "pull_policy": "never", "network_mode": "none"}
            services[MAIN] = {**stand_in, "deploy": {"replicas": 0}, "depends_on": self.waits}
        for name, service in self.services.items():
            joined = service["networks"]
            services[name] = {
                **{key: value for key, value in service.items() if key not in _LIMITS},
                **_limits(service, environment),
                "image": images[name],
                "pull_policy": "never",
                "labels": {**service.get("labels", {}), **labels},
                "logging": {"driver": "json-file", "options": {"max-size": _LOG_BYTES, "max-file": "1"}},
                "pids_limit": environment.pids,
                **({"networks": joined} if joined else {"network_mode": "none"}),
            }
            if not joined:
                del services[name]["networks"]
            if not environment.allow_sudo:
                services[name]["security_opt"] = ["no-new-privileges:true"]
        return json.dumps(
            {
                "services": services,
                "networks": {name: {"external": True, "name": real} for name, real in networks.items()},
                "volumes": {name: {"external": True, "name": real} for name, real in volumes.items()},
            }
        )


def read_project(text: str, file: Path) -> Project:
    """Read the file as Docker Compose normalised it.

    Raises:
        EnvironmentFailed: it asks for what services of a trial do not get.
    """
    data: dict[str, Any] = json.loads(text)
    found = [f"{dotted(place)}: {why}" for place, why in faults(data, file.parent)]
    if found:
        raise EnvironmentFailed(f"{file}: {'; '.join(found[:5])}")
    services: dict[str, dict[str, Any]] = data["services"]
    copied = {name: tuple(_files(service, data)) for name, service in services.items()}
    for name, files in copied.items():
        if files and name != MAIN and services[name].get("read_only"):
            raise EnvironmentFailed(
                f"{file}: services.{name}.read_only: is not supported for a service that gets files of this machine"
            )
    beside = {name: service for name, service in services.items() if name != MAIN}
    networks = {network for service in services.values() for network in service.get("networks") or {}}
    main = services.get(MAIN, {})
    if "networks" not in main and main.get("network_mode") != "none":
        # As Docker Compose does; a file may say nothing of `main`.
        main = {**main, "networks": {"default": None}}
        networks.add("default")
    mounted = (
        volume["source"] for one in services.values() for volume in _volumes(one) if "source" in volume
    )
    return Project(
        file=file,
        main=_main(main, copied.get(MAIN, ())),
        services={name: _service(service, beside) for name, service in beside.items()},
        images={name: _image(name, service, file) for name, service in beside.items()},
        files={name: files for name, files in copied.items() if files and name != MAIN},
        networks=tuple(sorted(networks)),
        volumes=tuple(sorted(set(mounted))),
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


def _service(service: Mapping[str, Any], beside: Container[str]) -> dict[str, Any]:
    kept = {key: service[key] for key in _KEPT if service.get(key) is not None}
    labels = service.get("labels") or {}
    waits = _waits(service, beside)
    alias = service.get("container_name")
    # A variable without a value would be filled in from this machine.
    env = {name: value for name, value in (service.get("environment") or {}).items() if value is not None}
    return {
        **kept,
        "environment": env,
        "networks": {
            name: {"aliases": [*((one or {}).get("aliases") or ()), *([alias] if alias else [])]}
            for name, one in (service.get("networks") or {}).items()
        },
        "volumes": _volumes(service),
        "labels": {name: value for name, value in labels.items() if not name.startswith(LABEL)},
        "cap_drop": list(dict.fromkeys((*listed(service.get("cap_drop")), *_dropped(service)))),
        **({"depends_on": waits} if waits else {}),
        **{key: service[key] for key in _LIMITS if service.get(key)},
    }


def _dropped(service: Mapping[str, Any]) -> Iterator[str]:
    added = {str(one).upper().removeprefix("CAP_") for one in listed(service.get("cap_add"))}
    yield from (one for one in _DROPPED_CAPABILITIES if one not in added)


def _limits(service: Mapping[str, Any], environment: Environment) -> dict[str, Any]:
    """Return the limits of a service, in place of those that the file gives in one way or another."""
    memory, cpus = _own_limits(service)
    memory, cpus = least(memory, environment.memory), least(cpus, environment.cpus)
    given = {"mem_limit": memory, "memswap_limit": memory, "cpus": cpus}
    return {key: value for key, value in given.items() if value is not None}


def _own_limits(service: Mapping[str, Any]) -> tuple[int | None, float | None]:
    """Return the bytes and processors that the file gives to a service."""
    limits = (((service.get("deploy") or {}).get("resources") or {}).get("limits")) or {}
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
                yield File(path, content=_plain(shared["content"]).encode(), mode=mode)
            else:
                yield File(path, source=Path(shared["file"]), mode=mode)


def _image(name: str, service: Mapping[str, Any], file: Path) -> ServiceImage:
    build = service.get("build")
    if build is None:
        if not service.get("image"):
            raise EnvironmentFailed(f"{file}: services.{name}: has neither image nor build")
        return ServiceImage(image=service["image"])
    context = Path(build["context"])
    args = build.get("args") or {}
    return ServiceImage(
        dockerfile=context / (build.get("dockerfile") or "Dockerfile"),
        context=context,
        build_args={key: _plain(str(value)) for key, value in args.items() if value is not None},
    )


def _main(service: Mapping[str, Any], files: tuple[File, ...]) -> Main:
    memory, cpus = _own_limits(service)
    volumes = _volumes(service)
    alias = service.get("container_name")
    tmpfs = {str(one).partition(":")[0]: str(one).partition(":")[2] for one in listed(service.get("tmpfs"))}
    tmpfs |= {volume["target"]: "" for volume in volumes if volume["type"] == "tmpfs"}
    command, entrypoint = service.get("command"), service.get("entrypoint")
    return Main(
        env={
            name: _plain(str(value))
            for name, value in (service.get("environment") or {}).items()
            if value is not None
        },
        files=files,
        volumes=tuple(
            (volume["source"], volume["target"], bool(volume.get("read_only")))
            for volume in volumes
            if volume["type"] == "volume" and "source" in volume
        ),
        tmpfs=tmpfs,
        networks={
            name: tuple(
                dict.fromkeys((MAIN, *((one or {}).get("aliases") or ()), *([alias] if alias else [])))
            )
            for name, one in (service.get("networks") or {}).items()
        },
        hosts=_hosts(service.get("extra_hosts")),
        shm_size=int(service["shm_size"]) if service.get("shm_size") else None,
        memory=memory,
        cpus=cpus,
        workdir=service.get("working_dir"),
        user=service.get("user"),
        entrypoint=None if entrypoint is None else tuple(map(_plain, entrypoint)),
        command=None if not command or tuple(command) in _KEEPS_ALIVE else tuple(map(_plain, command)),
    )


def _hosts(written: object) -> dict[str, str]:
    if isinstance(written, dict):
        return {name: str(listed(address)[0]) for name, address in written.items() if listed(address)}
    pairs = (str(one).replace("=", ":", 1).partition(":") for one in listed(written))
    return {name: address for name, _, address in pairs}


def _after_main(services: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the services that wait for `main`, also by others."""
    waiting: set[str] = set()
    reached: Sequence[str] = (MAIN,)
    while reached:
        reached = [
            name
            for name, service in services.items()
            if name not in waiting and not {*reached}.isdisjoint(service.get("depends_on") or {})
        ]
        waiting |= {*reached}
    return waiting


def _plain(text: str) -> str:
    """Return a text as it was meant: Docker Compose doubles each `$`."""
    return text.replace("$$", "$")
