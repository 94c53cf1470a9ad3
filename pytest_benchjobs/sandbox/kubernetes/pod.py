"""The Pod of a trial, as a manifest: pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...model.scenario import Environment
from ..program import PROGRAM
from ..protocol import SandboxSpec
from .api import NONCE

CONTAINER = "bench"
FILLER = "bench-files"
"""Container that runs before it, in which directories are filled."""
LABEL = "benchjobs/"
"""Prefix of labels and annotations of what is ours."""
OWNER = LABEL + "owner"
"""Label of everything: the name of the object that owns it."""
NETWORK = LABEL + "network"
"""Label of Pods, which network policies select."""
ATTACH = (PROGRAM, "attach")
_COMMAND = (PROGRAM, "serve", "pod")
_TO_START = 3600
"""Seconds that a Pod may take beyond its deadline, as the cluster counts from before its image is pulled."""
_HOSTNAME = "bench"
_LOST_AFTER = 30
"""Seconds after which a Pod on a node that is not ready is given up by the cluster."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# As for containers of Docker: forging packets, making devices, and handing capabilities on.
_DROPPED = ["MKNOD", "NET_RAW", "SETPCAP"]
_MOST_WEIGHT = 100
"""Of a preference, beside others."""
_LABEL_VALUE = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_VALUE = 63

Manifest = dict[str, Any]


def owner_reference(owner: Mapping[str, Any]) -> Manifest:
    """Return what ties an object to the one that owns it."""
    metadata = owner["metadata"]
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": metadata["name"], "uid": metadata["uid"]}


def manifest_of(
    name: str,
    spec: SandboxSpec,
    image: str,
    owner: Mapping[str, Any],
    machine: str,
    template: Mapping[str, Any],
    delivered: Sequence[str] = (),
    preferred: str | None = None,
) -> Manifest:
    """Return the Pod of a sandbox, from an image, owned by an object that holds our program.

    `delivered`: directories that are filled before its container starts, and are read-only there.
    `preferred`: the node to be on, if it has room.
    `template`: what people add to Pods; ours comes first where both say something that trials depend on.
    """
    owned = str(owner["metadata"]["name"])
    base: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {},
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "hostname": _HOSTNAME,
            "nodeSelector": {"kubernetes.io/arch": _ARCHITECTURES.get(machine, machine)},
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{what}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _LOST_AFTER,
                }
                for what in ("not-ready", "unreachable")
            ],
            "containers": [{"name": CONTAINER, "imagePullPolicy": "IfNotPresent", "resources": {}}],
        },
    }
    fixed: Manifest = {
        "metadata": {
            "name": name,
            "labels": {
                OWNER: owned,
                NONCE: name,
                NETWORK: spec.network,
                **{LABEL + key: label_value(value) for key, value in spec.labels.items()},
            },
            "annotations": {LABEL + key: value for key, value in spec.labels.items()},
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": _lifetime(spec) + _TO_START,
            "terminationGracePeriodSeconds": 0,
            "containers": [_container(spec, image, delivered)],
            "volumes": [
                {"name": "bench-program", "configMap": {"name": owned, "defaultMode": 0o555}},
                *({"name": _volume(at), "emptyDir": {}} for at in range(len(delivered))),
            ],
        },
    }
    if preferred is not None:
        named = {"key": "metadata.name", "operator": "In", "values": [preferred]}
        term = {"weight": _MOST_WEIGHT, "preference": {"matchFields": [named]}}
        fixed["spec"]["affinity"] = {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}
        }
    if delivered:
        fixed["spec"]["initContainers"] = [_filler(spec, image, delivered)]
    if spec.runtime is not None:
        fixed["spec"]["runtimeClassName"] = spec.runtime
    made = merged(merged(base, template), fixed)
    made["spec"]["containers"].sort(key=lambda one: one["name"] != CONTAINER)  # logs are of the first one
    return made


def _lifetime(spec: SandboxSpec) -> int:
    return max(1, int(spec.deadline))


def _filler(spec: SandboxSpec, image: str, delivered: Sequence[str]) -> Manifest:
    """Return the container in which directories are filled."""
    return {
        "name": FILLER,
        "image": image,
        "command": [*_COMMAND, str(_lifetime(spec))],
        "args": [],
        "resources": resources_of(spec.environment),
        "securityContext": _security(allow_sudo=False),
        "volumeMounts": _mounts(delivered, read_only=False),
    }


def _security(*, allow_sudo: bool) -> Manifest:
    return {
        "runAsUser": 0,
        "runAsGroup": 0,
        "allowPrivilegeEscalation": allow_sudo,
        "capabilities": {"drop": _DROPPED},
    }


def _mounts(delivered: Sequence[str], *, read_only: bool) -> list[Manifest]:
    return [
        {"name": "bench-program", "mountPath": PROGRAM, "subPath": "program", "readOnly": True},
        *(
            {"name": _volume(at), "mountPath": target, "readOnly": read_only}
            for at, target in enumerate(delivered)
        ),
    ]


def _volume(at: int) -> str:
    return f"bench-delivered-{at}"


def _container(spec: SandboxSpec, image: str, delivered: Sequence[str]) -> Manifest:
    environment = spec.environment
    container: Manifest = {
        "name": CONTAINER,
        "image": image,
        "command": [*_COMMAND, str(_lifetime(spec))],
        "args": [],
        "resources": resources_of(environment),
        "securityContext": _security(allow_sudo=environment.allow_sudo),
        "volumeMounts": _mounts(delivered, read_only=True),
    }
    if environment.workdir is not None:
        container["workingDir"] = environment.workdir
    return container


def resources_of(environment: Environment) -> dict[str, dict[str, str]]:
    """Return what is guaranteed to a container of this environment, and what it may take."""
    cpus, memory = environment.cpus, environment.memory
    requests = {
        "cpu": cpus if environment.cpus_request is None else environment.cpus_request,
        "memory": environment.memory_request or memory,
        "ephemeral-storage": environment.storage,
    }
    limits = {"cpu": cpus, "memory": memory, "ephemeral-storage": environment.storage}
    if environment.gpus:
        limits["nvidia.com/gpu"] = environment.gpus
    return {
        "requests": {name: _quantity(name, one) for name, one in requests.items() if one is not None},
        "limits": {name: _quantity(name, one) for name, one in limits.items() if one is not None},
    }


def _quantity(name: str, number: float) -> str:
    return f"{round(number * 1000)}m" if name == "cpu" else str(int(number))


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> Manifest:
    """Return both, `over` first; of lists, things of the same name are merged, and others added."""
    found = dict(base)
    for key, value in over.items():
        before = found.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            found[key] = merged(before, value)
        elif isinstance(before, list) and isinstance(value, list) and key not in ("command", "args", "drop"):
            found[key] = _merged_lists(before, value)
        else:
            found[key] = value
    return found


def _merged_lists(base: list[Any], over: list[Any]) -> list[Any]:
    found = list(base)
    for one in over:
        name = one.get("name") if isinstance(one, Mapping) else None
        same = (
            at for at, other in enumerate(found) if isinstance(other, Mapping) and other.get("name") == name
        )
        at = None if name is None else next(same, None)
        if at is None:
            found.append(one)
        else:
            found[at] = merged(found[at], one)
    return found


def label_value(text: str) -> str:
    """Return a text as the value of a label may be: the whole of it is in an annotation."""
    return _LABEL_VALUE.sub("-", text)[:_LONGEST_VALUE].strip("-_.")
