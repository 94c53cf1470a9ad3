"""Resources and runtime of a container: what is guaranteed and allowed, as Docker and Docker Compose both name it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from ...model.scenario import Environment
from ..protocol import Promise, SandboxSpec
from .dialects import Dialect

_SHARES = 1024
"""Weight of one processor, which is that of a container where nothing is said."""
_MOST_SHARES = 1 << 18
_LIMITS = {Promise.MEMORY: "MemoryLimit", Promise.CPUS: "CpuCfsQuota", Promise.PIDS: "PidsLimit"}
_IGNORED = (
    "an engine without root ignores limits on this machine, which does not delegate cgroups (v2) to users"
)
_UNDER_GVISOR = {
    Promise.OUT_OF_MEMORY: "gVisor ends the whole container where the memory is not enough",
    Promise.PIDS: "gVisor has processes that the engine does not count",
    Promise.DAEMONS: "gVisor has processes that the engine does not see, so all of them end with the agent",
    Promise.EVIDENCE: "under gVisor root reads the memory of what grades beside it, which leaves no trace",
    Promise.SERVICES: "gVisor does not ask the engine for names, so services are not found by theirs",
}
_LEAST_RESERVATION = 6 << 20
"""The engine takes none below it."""


def resources_of(environment: Environment, memory: int | None, cpus: float | None) -> dict[str, Any]:
    """Return settings of a container of this environment that has these limits."""
    found: dict[str, Any] = {"pids_limit": environment.pids}
    if memory is not None:
        found |= {"mem_limit": memory, "memswap_limit": memory}
        if environment.memory_request is not None:
            found["mem_reservation"] = min(memory, max(environment.memory_request, _LEAST_RESERVATION))
    if environment.cpus_request is not None and cpus is not None:
        found["cpu_shares"] = min(max(int(min(environment.cpus_request, cpus) * _SHARES), 2), _MOST_SHARES)
    return found


def runtimes_of(info: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of an engine's runtimes, the usual one first, by what it says of itself."""
    usual = info.get("DefaultRuntime")
    return tuple(dict.fromkeys((*([usual] if usual else []), *sorted(info.get("Runtimes") or ()))))


def lacking(info: Mapping[str, Any], dialect: Dialect, runtime: str | None = None) -> dict[Promise, str]:
    """Return what an engine cannot promise, by what it says of itself and of a runtime; None: its usual one."""
    # Podman says so itself, Docker by one of its options.
    rootless = info.get("Rootless") or "name=rootless" in (info.get("SecurityOptions") or ())
    ignored = info.get("CgroupDriver") == "none" or (rootless and str(info.get("CgroupVersion")) == "1")
    found = {
        promise: _IGNORED if ignored else f"the engine says that it cannot ({key})"
        for promise, key in _LIMITS.items()
        if ignored or not info.get(key)
    }
    if Promise.MEMORY in found:
        found[Promise.OUT_OF_MEMORY] = found[Promise.MEMORY]
    found |= dialect.lacks
    name = runtime or info.get("DefaultRuntime")
    about = (info.get("Runtimes") or {}).get(name)
    return found | (_UNDER_GVISOR if re.search("runsc|gvisor", f"{name} {about}") else {})


def on_machine(spec: SandboxSpec, cpus: float) -> SandboxSpec:
    """Return the specification for a machine of so many processors: an engine refuses to allow more.

    What is guaranteed stays: if that is too much, the engine says so.
    """
    environment = spec.environment
    limit, request = environment.cpus, environment.cpus_request
    if limit is None or request is None or limit <= (most := max(request, cpus)):
        return spec
    note = f"limit of cpus: {most:g} instead of {limit:g}, as the engine's machine has no more"
    own = environment.model_copy(update={"cpus": most})
    return dataclasses.replace(spec, environment=own, notes=(*spec.notes, note))
