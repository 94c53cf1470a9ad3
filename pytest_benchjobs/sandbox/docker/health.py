"""Health of a Docker Engine: what it says of itself, and whether it does what it says; findings for `doctor`."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...model.errors import InfrastructureError
from ...model.finding import Finding, ok, problem, skipped
from ...model.job import Owner
from ...model.scenario import Environment
from ...system.units import counted, size
from ..protocol import SandboxSpec
from .resources import runtimes_of
from .sweep import left_behind

if TYPE_CHECKING:
    from .provider import DockerProvider

_MEMORY = 64 << 20
_PIDS = 64
_CPUS = 0.5
# Of cgroup v2, then v1. For CPU: quota and period, or the quota of a period of 100 ms.
_ASK = """
cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null | head -n 1
cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max 2>/dev/null | head -n 1
cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null | head -n 1
"""
_IMAGES_TRIED = 3
_SHELL = 500_000
"""Bytes of an image below which it has no shell: it is tried last."""
_LIFETIME = 60.0
ROOM_FOR_IMAGES = 5 << 30
SKEW = 5.0
"""Seconds that the engine's clock may differ from ours without harm."""
SET_CLOCK = "(sudo timedatectl set-ntp true)"


@dataclasses.dataclass(frozen=True, slots=True)
class EngineFacts:
    """Facts that the engine tells of itself."""

    name: str
    """`Docker Engine` or `Podman`."""
    version: str
    api: str
    storage_driver: str
    root: str
    """Directory of images and containers, on its own machine."""
    local: bool
    """True if that is this machine."""
    cpus: int
    memory: int
    """Bytes."""
    runtimes: tuple[str, ...]
    """The usual one first."""
    unsupported: tuple[str, ...]
    """Limits it cannot set."""
    skew: float
    """Seconds by which its clock is ahead of ours."""
    abandoned: int
    """Containers, networks and volumes of dead processes."""
    images: tuple[str, ...]
    """Ids of images that are here, the smallest first."""


def engine_facts(provider: DockerProvider, me: Owner) -> EngineFacts:
    """Ask the engine."""
    client = provider.engine.client
    with provider.engine.guard():
        version = client.version()
        before = time.time()
        info = client.info()
        ours = (before + time.time()) / 2
        images = sorted(
            (image for image in client.images() if image.get("RepoTags")),
            key=lambda image: (image["Size"] < _SHELL, image["Size"]),
        )
        abandoned = sum(map(len, left_behind(provider.engine, me)))
    skew = 0.0
    with contextlib.suppress(ValueError):  # it says nothing, or something odd
        skew = datetime.datetime.fromisoformat(str(info.get("SystemTime", ""))).timestamp() - ours
    limits = {"memory": "MemoryLimit", "cpus": "CpuCfsQuota", "pids": "PidsLimit"}
    root = str(info.get("DockerRootDir", ""))
    return EngineFacts(
        name=provider.engine.dialect.name,
        version=str(version.get("Version", "?")),
        api=str(version.get("ApiVersion", "?")),
        storage_driver=str(info.get("Driver", "?")),
        root=root,
        local=provider.engine.host.startswith("unix://") and Path(root).is_dir(),
        cpus=int(info.get("NCPU") or os.cpu_count() or 1),
        memory=int(info.get("MemTotal") or 0),
        runtimes=runtimes_of(info),
        unsupported=tuple(name for name, key in limits.items() if not info.get(key)),
        skew=skew,
        abandoned=abandoned,
        images=tuple(image["Id"] for image in images),
    )


def limits_missing(provider: DockerProvider, images: tuple[str, ...]) -> tuple[str, ...] | None:
    """Limits that a container was given and does not have, tried with the first image that starts.

    None: no image could be tried, for want of one with a shell.
    """
    environment = Environment(memory=_MEMORY, pids=_PIDS, cpus=_CPUS, network="none")
    for image in images[:_IMAGES_TRIED]:
        spec = SandboxSpec(
            environment=environment.model_copy(update={"image": image}),
            labels={"job": "doctor", "trial": "doctor"},
            network="none",
            deadline=_LIFETIME,
        )
        output = bytearray()
        try:
            sandbox = provider.start(spec, lambda _phase: None)
            try:
                result = sandbox.exec(["/bin/sh", "-c", _ASK], timeout=_LIFETIME / 2, sink=output.extend)
            finally:
                sandbox.remove()
        except InfrastructureError:
            continue
        found = output.decode("ascii", "replace").split("\n")
        if result.exit_status == 0 and len(found) == 4:
            given = {"memory": _MEMORY, "pids": _PIDS, "cpus": int(_CPUS * 100_000)}
            lines = zip(given.items(), found, strict=False)
            return tuple(name for (name, limit), line in lines if line.split(" ")[0] != str(limit))
    return None


def findings(provider: DockerProvider, me: Owner) -> Iterator[Finding]:
    """Check an engine that answers. A container is started and removed to test limits."""
    facts = engine_facts(provider, me)
    yield from engine(facts)
    yield limits(facts.unsupported, limits_missing(provider, facts.images))


def engine(facts: EngineFacts) -> Iterator[Finding]:
    """Check an engine that answers: its version, clock and disk, and left-overs of dead processes."""
    machine = f"{counted(facts.cpus, 'CPU')}, {size(facts.memory)} of memory"
    yield ok("engine", f"{facts.name} {facts.version}, API {facts.api}, {facts.storage_driver}, {machine}")
    yield ok("runtimes", f"{', '.join(facts.runtimes)}; the first is the usual one, see --bench-runtime")
    if abs(facts.skew) > SKEW:
        difference = f"{abs(facts.skew):.0f} s {'ahead of' if facts.skew > 0 else 'behind'} this machine's"
        yield problem("engine clock", difference, f"set the clock of the engine's machine {SET_CLOCK}")
    else:
        yield ok("engine clock", f"within {SKEW:g} s of this machine's")
    yield _engine_disk(facts)
    if facts.abandoned:
        left = f"{counted(facts.abandoned, 'object')} of dead processes in the engine"
        yield problem("left-overs", left, "benchjobs gc")
    else:
        yield ok("left-overs", "none in the engine")


def limits(unsupported: Sequence[str], missing: Sequence[str] | None) -> Finding:
    """Check limits of containers: the engine's support, and the effect on a test container."""
    not_there = sorted({*unsupported, *(missing or ())})
    if not_there:
        return problem(
            "limits",
            f"not enforced: {', '.join(not_there)}; agents can exceed the limits of scenarios",
            "run the engine as root with cgroup controllers (see `docker info` for its warnings)",
        )
    if missing is None:
        why = "the engine supports memory, cpus and pids; there is no local image to test them with"
        return skipped("limits", why)
    return ok("limits", "memory, cpus and pids hold in a container")


def _engine_disk(facts: EngineFacts) -> Finding:
    if not facts.local:
        return skipped("engine disk", "it is not on this machine")
    try:
        free = shutil.disk_usage(facts.root).free
    except OSError as error:
        return skipped("engine disk", f"{facts.root}: {error.strerror}")
    if free < ROOM_FOR_IMAGES:
        found = f"{size(free)} free in {facts.root}, less than {size(ROOM_FOR_IMAGES)}"
        return problem("engine disk", found, "docker image prune, or benchjobs gc --kept")
    return ok("engine disk", f"{size(free)} free in {facts.root}")
