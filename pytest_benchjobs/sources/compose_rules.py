"""Rules for files of Docker Compose: which keys services of a trial may have, and which would open this machine.

They hold for a file as it is written, where an error has a line, and once more for what Docker Compose makes of it:
with variables filled in, and short forms written out. Unknown keys are refused, so that a new one cannot open anything.
A value with a variable that only a trial has is judged when it is filled in.
"""

from __future__ import annotations

import os.path
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..model.scenario import MAIN
from .plain import Place

Fault = tuple[Place, str]
Text = Callable[[str], str | None]
"""Returns a text of a file with its variables filled in; None: it has one that only a trial has."""

UNKNOWN_HERE = "/benchjobs-has-no-such-directory"
"""Beginning of values of variables for directories of this machine, which other tools mount and a trial does not."""

PASSED_ON = frozenset({
    "cap_add", "command", "cpu_shares", "cpuset", "dns", "dns_opt", "dns_search", "domainname", "entrypoint",
    "environment", "extra_hosts", "group_add", "healthcheck", "hostname", "init", "ipc", "links", "mem_reservation",
    "mem_swappiness", "oom_score_adj", "read_only", "restart", "shm_size", "stdin_open", "stop_signal", "sysctls",
    "tmpfs", "tty", "ulimits", "user", "working_dir",
})  # fmt: skip
"""Keys of services beside `main` that Docker Compose gets as they are."""
_MADE_ANEW = frozenset({
    "annotations", "attach", "build", "cap_drop", "configs", "container_name", "cpus", "depends_on", "deploy",
    "develop", "env_file", "expose", "extends", "image", "labels", "logging", "mem_limit", "memswap_limit",
    "network_mode", "networks", "pid", "pids_limit", "platform", "ports", "privileged", "profiles", "pull_policy",
    "scale", "secrets", "security_opt", "stop_grace_period", "userns_mode", "uts", "volumes",
})  # fmt: skip
"""Those that it gets otherwise, or that are without effect."""
_NOT_OF_MAIN = frozenset({
    "cap_add", "cpu_shares", "cpuset", "dns", "dns_opt", "dns_search", "domainname", "group_add", "links",
    "mem_reservation", "mem_swappiness", "memswap_limit", "oom_score_adj", "read_only", "sysctls",
})  # fmt: skip
_ADDRESSES = "addresses are given by the engine, because trials run side by side"
_REASONS = {
    "blkio_config": "devices of this machine cannot be named",
    "cgroup": "a container has its own control group",
    "cgroup_parent": "a container has its own control group",
    "credential_spec": "credentials of this machine are not for containers",
    "device_cgroup_rules": "devices of this machine are not for containers",
    "devices": "devices of this machine are not for containers",
    "external_links": "containers that are not part of the trial are not for it",
    "gpus": "GPUs are not for services",
    "mac_address": _ADDRESSES,
    "runtime": "the job says which is used, by --bench-runtime",
    "storage_opt": "set `storage` of the environment instead",
    "use_api_socket": "the engine's socket is not for containers",
    "volumes_from": "name the volume in both services instead",
}
_CAPABILITIES = (
    "AUDIT_WRITE|CHOWN|DAC_OVERRIDE|FOWNER|FSETID|IPC_LOCK|KILL|NET_ADMIN|NET_BIND_SERVICE|NET_RAW|SETFCAP|SETGID|"
    "SETUID|SYS_CHROOT|SYS_NICE|SYS_PTRACE"
)
"""Keys that a service beside `main` may have: none that reaches beyond its own container."""
_BUILD = frozenset({
    "args", "cache_from", "cache_to", "context", "dockerfile", "labels", "network", "no_cache", "platforms",
    "provenance", "pull", "sbom", "shm_size", "tags",
})  # fmt: skip
_OWN = ": a container of a trial shares nothing with others"
_VALUES = {
    "network_mode": ("none", _OWN),
    "ipc": ("none|private|shareable", _OWN),
    **dict.fromkeys(("pid", "uts", "userns_mode"), ("", _OWN)),
    "cap_add": (rf"(?ai:(CAP_)?({_CAPABILITIES}))", ": it reaches beyond the container"),
    "security_opt": ("no-new-privileges.*", ""),
}
"""Key of services -> values that it may have, and why no others."""
_NOT_SHARED = {
    "external": ": what is not part of the trial is not for it",
    "driver_opts": ": it could name anything of this machine",
    "environment": "; give the service a variable in its `environment`",
}
"""Keys of what services share, and why they are not supported."""
_SOCKET = "docker.sock"
VARIABLES = ".env"
"""File beside any other, of which Docker Compose takes variables."""


def faults(data: Mapping[str, Any], directory: Path, text: Text = str) -> Iterator[Fault]:
    """Yield what is refused in a file, as it is written (then `text` reads it) or as Docker Compose normalised it.

    Nothing outside of `directory`, in which the file is, is for services.
    """
    if "include" in data:
        yield ("include",), "is not supported; write all services into this file"
    services = data.get("services")
    if not isinstance(services, dict) or not services:
        yield ("services",), "a table of services is expected"
        return
    for name, service in services.items():
        if isinstance(service, dict):
            yield from _keys(("services", name), service)
            yield from _service(("services", name), service, text)
            yield from _build(("services", name, "build"), service.get("build"), directory, text)
        else:
            yield ("services", name), "a table of keys is expected"
    for table in ("networks", "volumes", "configs", "secrets"):
        for name, one in _tables(data, table):
            yield from _shared((table, name), one)
    for place, path in paths_of(data):
        if (
            place[2:3] == ("env_file",) and "$" in path
        ):  # Docker Compose reads it, before anybody can look at it
            yield place, f"{path!r} is not supported: write the path without variables"
        elif (why := outside(path, directory, text)) is not None:
            yield place, why


def paths_of(data: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """Yield the paths of this machine that a file names, but for the contexts of images. Some have variables."""
    yield (VARIABLES,), VARIABLES
    for name, service in _tables(data, "services"):
        for index, volume in enumerate(listed(service.get("volumes"))):
            if isinstance(volume, str):
                source, colon, _ = volume.partition(":")
                if colon and source.startswith((".", "/", "~")):
                    yield ("services", name, "volumes", index), source
            elif isinstance(volume, dict) and volume.get("type") == "bind":
                yield ("services", name, "volumes", index), str(volume.get("source") or ".")
        entries = listed(service.get("env_file"))
        for index, entry in enumerate(entries):
            path = entry.get("path") if isinstance(entry, dict) else entry
            if isinstance(path, str):
                yield ("services", name, "env_file", *((index,) if len(entries) > 1 else ())), path
    for table in ("configs", "secrets"):
        for name, one in _tables(data, table):
            if isinstance(path := one.get("file"), str):
                yield (table, name, "file"), path


def listed(value: object) -> Sequence[Any]:
    """Return a value that may be one or a list of them, as a list."""
    return value if isinstance(value, list) else () if value is None else (value,)


def _tables(data: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield names and values of a table of tables, as far as it is one."""
    found = data.get(key)
    for name, one in found.items() if isinstance(found, dict) else ():
        if isinstance(one, dict):
            yield name, one


def _below(data: object, *keys: str) -> Any:
    """Return a value in tables that are in tables; None: there is none."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _keys(place: Place, service: Mapping[str, Any]) -> Iterator[Fault]:
    allowed = (PASSED_ON | _MADE_ANEW) - (_NOT_OF_MAIN if place[1] == MAIN else frozenset())
    for key, value in service.items():
        if key in allowed or key.startswith("x-") or value is None or value is False or value in ({}, []):
            continue
        reason = "the container of the trial keeps its own" if key in _NOT_OF_MAIN else _REASONS.get(key)
        yield (*place, key), "is not supported" + ("" if reason is None else f": {reason}")


def _service(place: Place, service: Mapping[str, Any], text: Text) -> Iterator[Fault]:
    if service.get("privileged"):
        yield (*place, "privileged"), "is not supported: it would give the service this machine"
    for key, (fine, why) in _VALUES.items():
        for index, value in enumerate(listed(service.get(key))):
            if value and (filled := text(str(value))) is not None and not re.fullmatch(fine, filled):
                at = (index,) if isinstance(service[key], list) else ()
                yield (*place, key, *at), f"{value!r} is not supported{why}"
    for index, volume in enumerate(listed(service.get("volumes"))):
        kind = volume.get("type", "volume") if isinstance(volume, dict) else "volume"
        if kind not in ("volume", "bind", "tmpfs"):
            why = f"the type {kind!r} is not supported; volume, bind and tmpfs are"
            yield (*place, "volumes", index), why
    for name, one in _tables(service, "networks"):
        for key in one:
            if key not in ("aliases", "priority", "gw_priority"):
                yield (*place, "networks", name, key), f"is not supported: {_ADDRESSES}"
    hosts = service.get("extra_hosts")
    if any(
        "host-gateway" in str(one) for one in (hosts.values() if isinstance(hosts, dict) else listed(hosts))
    ):
        yield (*place, "extra_hosts"), "'host-gateway' is not supported: trials do not reach this machine"
    if _below(service, "extends", "file"):
        yield (*place, "extends", "file"), "is not supported; write all services into this file"
    for number in (("deploy", "replicas"), ("scale",)):
        if _below(service, *number) not in (None, 1):
            yield (*place, number[0]), "more than one container is not supported"
    devices = ("deploy", "resources", "reservations", "devices")
    if _below(service, *devices):
        yield (*place, *devices), "is not supported: GPUs are not for services"


def _build(place: Place, build: object, directory: Path, text: Text) -> Iterator[Fault]:
    context = build.get("context", ".") if isinstance(build, dict) else build
    if isinstance(context, str):
        dockerfile = build.get("dockerfile") if isinstance(build, dict) else None
        if "://" in context or context.startswith("git@"):
            yield place, f"{context!r} is not supported; the context is a directory beside this file"
        elif (why := outside(context, directory, text)) is not None:
            yield place, why
        elif isinstance(dockerfile, str):
            here, name = text(context), text(dockerfile)
            if (
                here is not None
                and name is not None
                and (why := outside(posixpath.join(here, name), directory))
            ):
                yield (*place, "dockerfile"), why
    if not isinstance(build, dict):
        return
    if not isinstance(build.get("args", {}), dict | list | None):
        yield (*place, "args"), "a table of names and values, or a list of NAME=VALUE, is expected"
    for key, value in build.items():
        if key not in _BUILD and not key.startswith("x-") and value not in (None, False, [], {}):
            yield (*place, key), "is not supported; a Dockerfile, its context and args are"


def _shared(place: Place, one: Mapping[str, Any]) -> Iterator[Fault]:
    for key, why in _NOT_SHARED.items():
        if one.get(key):
            yield (*place, key), f"is not supported{why}"
    if one.get("driver") not in (None, "default", "bridge" if place[0] == "networks" else "local"):
        yield (*place, "driver"), f"{one['driver']!r} is not supported"
    ipam = one.get("ipam")
    if isinstance(ipam, dict) and any(ipam.values()):
        yield (*place, "ipam"), f"is not supported: {_ADDRESSES}. Use names"
    if not isinstance(one.get("file"), str | None):
        yield (*place, "file"), "a path is expected"


def outside(written: str, directory: Path, text: Text = str) -> str | None:
    """Return why a path is not for a service; None: it is in the directory of the file, or cannot be judged yet."""
    path = text(written)
    if path is None or posixpath.normpath(path).startswith(UNKNOWN_HERE):
        return None
    if _SOCKET in path:
        return f"{written!r} is not supported: the engine's socket would give the service this machine"
    if posixpath.isabs(path) and not Path(path).is_relative_to(directory):
        return f"{written!r} is not supported: only files below the directory of this file can be mounted or read"
    found = Path(os.path.realpath(directory / Path(path)))
    if path.startswith("~") or not found.is_relative_to(os.path.realpath(directory)):
        return f"{written!r} is outside of the directory of this file, which is all that services get of this machine"
    return None
