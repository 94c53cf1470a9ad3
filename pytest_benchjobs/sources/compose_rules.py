"""Rules for files of Docker Compose: which keys services of a trial may have, and which would open this machine.

They hold for a file as it is written, where an error has a line, and once more for what Docker Compose makes of it:
with variables filled in, and short forms written out. Unknown keys are refused, so that a new one cannot open anything.
"""

from __future__ import annotations

import os.path
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..model.scenario import MAIN
from .plain import Place

Fault = tuple[Place, str]

UNKNOWN_HERE = "/benchjobs-has-no-such-directory"
"""Beginning of values of variables for directories of this machine, which other tools mount and a trial does not."""

_EVERYWHERE = frozenset(
    {
        "build", "command", "configs", "cpus", "depends_on", "deploy", "entrypoint", "env_file", "environment",
        "extends", "extra_hosts", "healthcheck", "hostname", "image", "ipc", "mem_limit", "network_mode", "networks",
        "pids_limit", "pid", "privileged", "scale", "secrets", "security_opt", "shm_size", "tmpfs", "user", "uts",
        "userns_mode", "volumes", "working_dir",
    }
)  # fmt: skip
_WITHOUT_EFFECT = frozenset(
    {
        "annotations", "attach", "cap_drop", "container_name", "develop", "expose", "init", "labels", "logging",
        "platform", "ports", "profiles", "pull_policy", "restart", "stdin_open", "stop_grace_period", "stop_signal",
        "tty", "ulimits",
    }
)  # fmt: skip
"""Allowed for `main`, whose container has its own way with them."""
_BESIDE_MAIN = frozenset(
    {
        "cap_add", "cpu_shares", "cpuset", "dns", "dns_opt", "dns_search", "domainname", "group_add", "links",
        "mem_reservation", "mem_swappiness", "memswap_limit", "oom_score_adj", "read_only", "sysctls",
    }
)  # fmt: skip
_REASONS = {
    "blkio_config": "devices of this machine cannot be named",
    "cgroup": "a container has its own control group",
    "cgroup_parent": "a container has its own control group",
    "credential_spec": "credentials of this machine are not for containers",
    "device_cgroup_rules": "devices of this machine are not for containers",
    "devices": "devices of this machine are not for containers",
    "external_links": "containers that are not part of the trial are not for it",
    "gpus": "GPUs are not for services",
    "mac_address": "addresses are given by the engine, because trials run side by side",
    "runtime": "the engine's own runtime is used",
    "storage_opt": "set `storage` of the environment instead",
    "use_api_socket": "the engine's socket is not for containers",
    "volumes_from": "name the volume in both services instead",
}
_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "IPC_LOCK", "KILL", "NET_ADMIN", "NET_BIND_SERVICE",
        "NET_RAW", "SETFCAP", "SETGID", "SETUID", "SYS_CHROOT", "SYS_NICE", "SYS_PTRACE",
    }
)  # fmt: skip
"""What a service beside `main` may have: nothing that reaches beyond its own container."""
_BUILD = frozenset(
    {"args", "cache_from", "cache_to", "context", "dockerfile", "labels", "network", "no_cache", "platforms",
     "provenance", "pull", "sbom", "shm_size", "tags"}
)  # fmt: skip
_OWN = {
    "network_mode": ("none",),
    "pid": (),
    "ipc": ("none", "private", "shareable"),
    "uts": (),
    "userns_mode": (),
}
_SOCKET = "docker.sock"


def faults(data: Mapping[str, Any], directory: Path) -> Iterator[Fault]:
    """Yield what is refused in a file whose directory this is.

    Args:
        data: The file, as it is written or as Docker Compose normalised it.
        directory: Nothing outside of it is for services.
    """
    if "include" in data:
        yield ("include",), "is not supported; write all services into this file"
    services = data.get("services")
    if not isinstance(services, dict) or not services:
        yield ("services",), "a table of services is expected"
        return
    for name, service in services.items():
        if isinstance(service, dict):
            yield from _service(name, service, directory)
        else:
            yield ("services", name), "a table of keys is expected"
    for table in ("networks", "volumes", "configs", "secrets"):
        found = data.get(table)
        for name, one in found.items() if isinstance(found, dict) else ():
            if isinstance(one, dict):
                yield from _shared(table, name, one, directory)


def bind_source(volume: object) -> str | None:
    """Return the path on this machine that an entry of `volumes` mounts; None: none, or it is not known yet."""
    if isinstance(volume, str):
        source, colon, _ = volume.partition(":")
        return source if colon and source.startswith((".", "/", "~")) else None
    if isinstance(volume, dict) and volume.get("type") == "bind":
        return str(volume.get("source") or "")
    return None


def listed(value: object) -> Sequence[Any]:
    """Return a value that may be one or a list of them, as a list."""
    return value if isinstance(value, list) else () if value is None else (value,)


def file_of(entry: object) -> str | None:
    """Return the path in an entry of `env_file`, which is a text or a table."""
    return entry if isinstance(entry, str) else str(entry.get("path")) if isinstance(entry, dict) else None


def _service(name: str, service: Mapping[str, Any], directory: Path) -> Iterator[Fault]:
    place: Place = ("services", name)
    is_main = name == MAIN
    allowed = _EVERYWHERE | _WITHOUT_EFFECT | (frozenset() if is_main else _BESIDE_MAIN)
    for key, value in service.items():
        if key.startswith("x-") or value is None or value is False or value in ({}, []):
            continue
        if key not in allowed:
            known = key in _BESIDE_MAIN
            reason = "the container of the trial keeps its own" if known else _REASONS.get(key)
            yield (*place, key), "is not supported" + ("" if reason is None else f": {reason}")
    if service.get("privileged"):
        yield (*place, "privileged"), "is not supported: it would give the service this machine"
    for key, fine in _OWN.items():
        value = service.get(key)
        if isinstance(value, str) and value and "$" not in value and value not in fine:
            yield (
                (*place, key),
                f"{value!r} is not supported: a container of a trial shares nothing with others",
            )
    for index, capability in enumerate(listed(service.get("cap_add"))):
        if str(capability).upper().removeprefix("CAP_") not in _CAPABILITIES:
            yield (
                (*place, "cap_add", index),
                f"{capability!r} is not supported: it reaches beyond the container",
            )
    for index, option in enumerate(listed(service.get("security_opt"))):
        if not str(option).startswith("no-new-privileges"):
            yield (*place, "security_opt", index), f"{option!r} is not supported"
    yield from _files(place, service, directory)
    yield from _others(place, service)
    build = service.get("build")
    if isinstance(build, dict):
        yield from _build((*place, "build"), build)


def _files(place: Place, service: Mapping[str, Any], directory: Path) -> Iterator[Fault]:
    for index, volume in enumerate(listed(service.get("volumes"))):
        at = (*place, "volumes", index)
        kind = volume.get("type", "volume") if isinstance(volume, dict) else "volume"
        if kind not in ("volume", "bind", "tmpfs"):
            yield at, f"the type {kind!r} is not supported; volume, bind and tmpfs are"
        source = bind_source(volume)
        if source is not None and (why := outside(source, directory)) is not None:
            yield at, why
    entries = listed(service.get("env_file"))
    for index, entry in enumerate(entries):
        path = file_of(entry)
        if path is not None and (why := outside(path, directory, known=True)) is not None:
            yield (*place, "env_file", index) if len(entries) > 1 else (*place, "env_file"), why
    build = service.get("build")
    context = build.get("context", ".") if isinstance(build, dict) else build
    if isinstance(context, str):
        if "://" in context or context.startswith("git@"):
            yield (
                (*place, "build"),
                f"{context!r} is not supported; the context is a directory beside this file",
            )
        elif (why := outside(context, directory)) is not None:
            yield (*place, "build"), why
    extended = service.get("extends")
    if isinstance(extended, dict) and extended.get("file"):
        yield (*place, "extends", "file"), "is not supported; write all services into this file"


def _others(place: Place, service: Mapping[str, Any]) -> Iterator[Fault]:
    networks = service.get("networks")
    for name, one in networks.items() if isinstance(networks, dict) else ():
        for key in one if isinstance(one, dict) else ():
            if key not in ("aliases", "priority", "gw_priority"):
                why = "is not supported: addresses are given by the engine, because trials run side by side"
                yield (*place, "networks", name, key), why
    hosts = service.get("extra_hosts")
    found = hosts.values() if isinstance(hosts, dict) else listed(hosts)
    if any("host-gateway" in str(host) for host in found):
        yield (*place, "extra_hosts"), "'host-gateway' is not supported: trials do not reach this machine"
    deploy = service.get("deploy")
    deploy = deploy if isinstance(deploy, dict) else {}
    if service.get("scale") not in (None, 1) or deploy.get("replicas") not in (None, 1):
        yield (
            (*place, "deploy" if "replicas" in deploy else "scale"),
            "more than one container is not supported",
        )
    resources = deploy.get("resources")
    reserved = resources.get("reservations") if isinstance(resources, dict) else None
    if isinstance(reserved, dict) and reserved.get("devices"):
        yield (
            (*place, "deploy", "resources", "reservations", "devices"),
            "is not supported: GPUs are not for services",
        )


def _build(place: Place, build: Mapping[str, Any]) -> Iterator[Fault]:
    for key, value in build.items():
        if key not in _BUILD and not key.startswith("x-") and value not in (None, False, [], {}):
            yield (*place, key), "is not supported; a Dockerfile, its context and args are"


def _shared(table: str, name: str, one: Mapping[str, Any], directory: Path) -> Iterator[Fault]:
    place: Place = (table, name)
    if one.get("external"):
        yield (*place, "external"), "is not supported: what is not part of the trial is not for it"
    if one.get("driver") not in (None, "default", "bridge" if table == "networks" else "local"):
        yield (*place, "driver"), f"{one['driver']!r} is not supported"
    if one.get("driver_opts"):
        yield (*place, "driver_opts"), "is not supported: it could name anything of this machine"
    ipam = one.get("ipam")
    if isinstance(ipam, dict) and any(ipam.values()):
        why = (
            "is not supported: addresses are given by the engine, because trials run side by side. Use names"
        )
        yield (*place, "ipam"), why
    if one.get("environment"):
        yield (*place, "environment"), "is not supported; give the service a variable in its `environment`"
    path = one.get("file") if table in ("configs", "secrets") else None
    if isinstance(path, str) and (refused := outside(path, directory)) is not None:
        yield (*place, "file"), refused


def outside(path: str, directory: Path, *, known: bool = False) -> str | None:
    """Return why a path of this machine is not for a service; None: it is in the directory of the file.

    A path with a variable is judged when that is filled in, unless it has to be `known`: Docker Compose reads it.
    """
    if "$" in path:
        return f"{path!r} is not supported: write the path without variables" if known else None
    if path.startswith(UNKNOWN_HERE):
        return None
    if _SOCKET in path:
        return f"{path!r} is not supported: the engine's socket would give the service this machine"
    if posixpath.isabs(path) and not Path(path).is_relative_to(directory):
        return (
            f"{path!r} is not supported: only files below the directory of this file can be mounted or read"
        )
    found = Path(os.path.realpath(directory / Path(path)))
    if path.startswith("~") or not found.is_relative_to(os.path.realpath(directory)):
        return f"{path!r} is outside of the directory of this file, which is all that services get of this machine"
    return None
