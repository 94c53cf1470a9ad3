"""What a real API server refuses, in its words: objects that are not valid, quotas, Pod Security."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

from .fake_store import UNITS, Kind, Object, Refused, content, details_of, field, forbidden, quantity

MAX_CONFIG = 1 << 20
UNCHANGEABLE = (
    "nodeSelector",
    "volumes",
    "restartPolicy",
    "hostname",
    "securityContext",
    "runtimeClassName",
    "affinity",
)
"""Of a Pod's spec."""
_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_REASONS = {
    "Required value": "Required",
    "Invalid value": "Invalid",
    "Not found": "NotFound",
    "Too long": "TooLong",
    "Forbidden": "Forbidden",
}
_BAD_NAME = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    f"with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_NAME}')"
)
_BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    f"with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)
_FIXED = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`, "
    "`spec.activeDeadlineSeconds` or `spec.tolerations` (only additions to existing tolerations)"
)


def check(kind: Kind, obj: Object, fixed: Object | None = None) -> None:
    """Raise Refused for an object that is not valid; `fixed` is what its spec has to have kept."""
    wrong = list(_mistakes(kind, obj))
    if fixed is not None and {key: obj["spec"][key] for key in UNCHANGEABLE if key in obj["spec"]} != fixed:
        wrong.append(("spec", _FIXED))
    if wrong:
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
    name = meta.get("name") or meta.get("generateName", "").rstrip("-")
    if not name:
        yield "metadata.name", "Required value: name or generateName is required"
    elif not re.fullmatch(_NAME, name) or len(name) > 253:
        yield "metadata.name", f'Invalid value: "{name}": {_BAD_NAME}'
    for value in (meta.get("labels") or {}).values():
        if len(value) > 63:
            yield "metadata.labels", f'Invalid value: "{value}": must be no more than 63 characters'
        elif not re.fullmatch(_VALUE, value):
            yield "metadata.labels", f'Invalid value: "{value}": {_BAD_VALUE}'
    if kind.name in ("ConfigMap", "Secret") and sum(map(len, content(obj, kind).values())) > MAX_CONFIG:
        yield "[]" if kind.name == "ConfigMap" else "data", f"Too long: must have at most {MAX_CONFIG} bytes"
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


def quality(containers: list[Object]) -> str:
    """The class of service of a Pod."""
    resources = [container.get("resources") or {} for container in containers]
    if not any(resources):
        return "BestEffort"
    sure = all(
        {"cpu", "memory"} <= (each.get("limits") or {}).keys() and each["requests"] == each["limits"]
        for each in resources
    )
    return "Guaranteed" if sure else "Burstable"


def requested(pods: Iterable[Object], what: str) -> float:
    """What Pods claim together of `pods`, `cpu`, `requests.memory`, `limits.cpu` and others."""
    if what in ("pods", "count/pods"):
        return len(list(pods))
    part, _, resource = what.rpartition(".")
    amounts = (
        field(container, f"resources.{part or 'requests'}") or {}
        for pod in pods
        for container in pod["spec"]["containers"]
    )
    return sum(quantity(each.get(resource, 0)) for each in amounts)


def _shown(number: float, resource: str) -> str:
    """A quantity as the API writes it."""
    if resource.endswith(("memory", "storage")):
        unit = next((unit for unit in ("Gi", "Mi", "Ki") if number and number % UNITS[unit] == 0), "")
        return f"{int(number / UNITS[unit])}{unit}"
    return str(int(number)) if number == int(number) else f"{round(number * 1000)}m"


def check_quota(kind: Kind, pod: Object, quotas: Iterable[Object], others: Iterable[Object]) -> None:
    """Raise Refused for a Pod that a ResourceQuota has no room for."""
    name = pod["metadata"].get("name", "")
    living = [other for other in others if other["status"]["phase"] not in ("Succeeded", "Failed")]
    for quota in quotas:
        hard, called = quota["spec"].get("hard") or {}, quota["metadata"]["name"]
        if missing := sorted(what for what in hard if not requested([pod], what)):
            raise forbidden(kind, name, f"failed quota: {called}: must specify {','.join(missing)}")
        rows = [
            (what, requested([pod], what), requested(living, what), limit)
            for what, limit in sorted(hard.items())
        ]
        over = [row for row in rows if row[1] + row[2] > quantity(row[3])]
        if over:
            asked = ",".join(f"{what}={_shown(wanted, what)}" for what, wanted, _, _ in over)
            used = ",".join(f"{what}={_shown(there, what)}" for what, _, there, _ in over)
            limited = ",".join(f"{what}={limit}" for what, _, _, limit in over)
            raise forbidden(
                kind, name, f"exceeded quota: {called}, requested: {asked}, used: {used}, limited: {limited}"
            )


def check_security(kind: Kind, pod: Object, level: str) -> None:
    """Raise Refused for a Pod that the level `restricted` of Pod Security forbids; other levels forbid nothing here."""
    wrong: dict[str, list[str]] = {}
    for container in pod["spec"]["containers"]:
        own, named = container.get("securityContext") or {}, f'container "{container["name"]}"'
        both = {**(pod["spec"].get("securityContext") or {}), **own}
        rules = (
            (
                "allowPrivilegeEscalation != false",
                own.get("allowPrivilegeEscalation") is False,
                "",
                "allowPrivilegeEscalation=false",
            ),
            (
                "unrestricted capabilities",
                "ALL" in (field(own, "capabilities.drop") or ()),
                "",
                'capabilities.drop=["ALL"]',
            ),
            ("runAsNonRoot != true", both.get("runAsNonRoot") is True, "pod or ", "runAsNonRoot=true"),
            (
                "seccompProfile",
                field(both, "seccompProfile.type") in ("RuntimeDefault", "Localhost"),
                "pod or ",
                'seccompProfile.type to "RuntimeDefault" or "Localhost"',
            ),
        )
        for rule, is_met, who, what in rules:
            if not is_met:
                wrong.setdefault(rule, []).append(f"{who}{named} must set securityContext.{what}")
        if both.get("runAsUser") == 0:
            wrong.setdefault("runAsUser=0", []).append(f"{named} must not set runAsUser=0")
    if level == "restricted" and wrong:
        said = ", ".join(f"{rule} ({', '.join(what)})" for rule, what in wrong.items())
        raise forbidden(
            kind, pod["metadata"].get("name", ""), f'violates PodSecurity "restricted:latest": {said}'
        )
