"""What a real API server refuses, in its words: objects that are not valid, and Pods that are not admitted."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

from .fake_store import (
    KINDS,
    Kind,
    Object,
    Refused,
    Store,
    content,
    details_of,
    field,
    forbidden,
    quantity,
)

MAX_CONFIG = 1 << 20
_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_REASONS = {
    "Required value": "Required",
    "Invalid value": "Invalid",
    "Not found": "NotFound",
    "Too long": "TooLong",
}
_BAD_NAME = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    f"with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_NAME}')"
)
_BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    f"with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)


def check(kind: Kind, obj: Object) -> None:
    """Raise Refused for an object that is not valid."""
    if wrong := list(_mistakes(kind, obj)):
        name, said = obj["metadata"].get("name", ""), [f"{path}: {what}" for path, what in wrong]
        causes = [
            {"reason": f"FieldValue{_REASONS[what.partition(':')[0]]}", "message": what, "field": path}
            for path, what in wrong
        ]
        text = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
        details = details_of(dataclasses.replace(kind, plural=kind.name), name)
        raise Refused(422, "Invalid", f'{kind.name} "{name}" is invalid: {text}', **details, causes=causes)


def _mistakes(kind: Kind, obj: Object) -> Iterator[tuple[str, str]]:
    meta = obj["metadata"]
    name = meta.get("name")
    if not name:
        yield "metadata.name", "Required value: name or generateName is required"
    elif not re.fullmatch(_NAME, name) or len(name) > 253:
        yield "metadata.name", f'Invalid value: "{name}": {_BAD_NAME}'
    for value in (meta.get("labels") or {}).values():
        if len(value) > 63:
            yield "metadata.labels", f'Invalid value: "{value}": must be no more than 63 characters'
        elif not re.fullmatch(_VALUE, value):
            yield "metadata.labels", f'Invalid value: "{value}": {_BAD_VALUE}'
    if kind.name == "ConfigMap" and sum(map(len, content(obj).values())) > MAX_CONFIG:
        yield "[]", f"Too long: must have at most {MAX_CONFIG} bytes"
    if kind.name == "Pod":
        yield from _mistakes_of_pod(obj.get("spec") or {})


def _mistakes_of_pod(spec: Object) -> Iterator[tuple[str, str]]:
    if not spec.get("containers"):
        yield "spec.containers", "Required value"
    volumes = {volume["name"] for volume in spec.get("volumes") or ()}
    for index, container in enumerate(spec.get("containers") or ()):
        at = f"spec.containers[{index}]"
        yield from (
            (f"{at}.{needed}", "Required value") for needed in ("name", "image") if not container.get(needed)
        )
        for place, mount in enumerate(container.get("volumeMounts") or ()):
            if mount["name"] not in volumes:
                yield f"{at}.volumeMounts[{place}].name", f'Not found: "{mount["name"]}"'
        limits = field(container, "resources.limits") or {}
        for what, amount in (field(container, "resources.requests") or {}).items():
            if what in limits and quantity(amount) > quantity(limits[what]):
                yield (
                    f"{at}.resources.requests",
                    f'Invalid value: "{amount}": must be less than or equal to {what} limit',
                )
    deadline = spec.get("activeDeadlineSeconds", 1)
    if not 1 <= deadline < 1 << 31:
        yield (
            "spec.activeDeadlineSeconds",
            f"Invalid value: {deadline}: must be between 1 and 2147483647, inclusive",
        )


def admit(store: Store, namespace: str, pod: Object) -> None:
    """Raise Refused for a Pod that names no RuntimeClass of the cluster, or that its namespace does not take."""
    for why in _objections(store, namespace, pod):
        raise forbidden(KINDS["pods"], pod["metadata"]["name"], why)


def _objections(store: Store, namespace: str, pod: Object) -> Iterator[str]:
    runtime = pod["spec"].get("runtimeClassName")
    if runtime and not store.list(KINDS["runtimeclasses"], fields=f"metadata.name={runtime}"):
        yield f'pod rejected: RuntimeClass "{runtime}" not found'
    labels = store.get(KINDS["namespaces"], "", namespace)["metadata"].get("labels") or {}
    if labels.get("pod-security.kubernetes.io/enforce") == "restricted" and (wrong := [*_as_root(pod)]):
        yield f'violates PodSecurity "restricted:latest": {", ".join(wrong)}'
    others = [one["status"]["phase"] for one in store.list(KINDS["pods"], namespace)]
    used = len([phase for phase in others if phase not in ("Succeeded", "Failed")])
    for quota in store.list(KINDS["resourcequotas"], namespace):
        name, limit = quota["metadata"]["name"], quota["spec"]["hard"]["pods"]
        if used >= quantity(limit):
            yield f"exceeded quota: {name}, requested: pods=1, used: pods={used}, limited: pods={limit}"


def _as_root(pod: Object) -> Iterator[str]:
    """What Pod Security says of containers that run as root; it has further rules."""
    for container in pod["spec"]["containers"]:
        own, named = container.get("securityContext") or {}, f'container "{container["name"]}"'
        if not own.get("runAsNonRoot"):
            yield f"runAsNonRoot != true (pod or {named} must set securityContext.runAsNonRoot=true)"
        if own.get("runAsUser") == 0:
            yield f"runAsUser=0 ({named} must not set runAsUser=0)"


def requested(pods: Iterable[Object], what: str) -> float:
    """What Pods claim together of `pods`, `cpu`, `memory` and others."""
    if what == "pods":
        return len(list(pods))
    amounts = (
        field(container, "resources.requests") or {}
        for pod in pods
        for container in pod["spec"]["containers"]
    )
    return sum(quantity(each.get(what, 0)) for each in amounts)
