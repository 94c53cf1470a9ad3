"""Objects of a fake Kubernetes API server: kinds, versions, history, selectors, and answers that are no success."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import operator
import pickle
import re
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any

Object = dict[str, Any]
UNITS = {
    "": 1,
    "m": 1e-3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 1 << 10,
    "Mi": 1 << 20,
    "Gi": 1 << 30,
    "Ti": 1 << 40,
}


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of objects, and where in the API they are."""

    plural: str
    name: str
    version: str = "v1"
    """With its group, unless that is the core's."""
    namespaced: bool = True

    @property
    def group(self) -> str:
        return self.version.rpartition("/")[0]

    @property
    def qualified(self) -> str:
        """As messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


KINDS = {
    kind.plural: kind
    for kind in (
        Kind("pods", "Pod"),
        Kind("configmaps", "ConfigMap"),
        Kind("events", "Event"),
        Kind("resourcequotas", "ResourceQuota"),
        Kind("nodes", "Node", namespaced=False),
        Kind("namespaces", "Namespace", namespaced=False),
        Kind("networkpolicies", "NetworkPolicy", "networking.k8s.io/v1"),
        Kind("runtimeclasses", "RuntimeClass", "node.k8s.io/v1", namespaced=False),
        Kind(
            "selfsubjectaccessreviews", "SelfSubjectAccessReview", "authorization.k8s.io/v1", namespaced=False
        ),
    )
}


class Refused(Exception):
    """An answer of the API that is no success, as its Status object says it."""

    def __init__(self, code: int, reason: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            **({"details": details} if details or code in (404, 415) else {}),
            "code": code,
        }


def not_found(kind: Kind, name: str) -> Refused:
    return Refused(404, "NotFound", f'{kind.qualified} "{name}" not found', **details_of(kind, name))


def conflict(what: str, group: str, name: str, why: str) -> Refused:
    details = {"name": name, **({"group": group} if group else {}), "kind": what.partition(".")[0]}
    return Refused(409, "Conflict", f'Operation cannot be fulfilled on {what} "{name}": {why}', **details)


def forbidden(kind: Kind, name: str, why: str) -> Refused:
    message = f'{kind.qualified} "{name}" is forbidden: {why}'
    return Refused(403, "Forbidden", message, **details_of(kind, name))


def details_of(kind: Kind, name: str) -> Object:
    return {
        **({"name": name} if name else {}),
        **({"group": kind.group} if kind.group else {}),
        "kind": kind.plural,
    }


def now(fraction: str = "Z") -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S" + fraction)


def quantity(text: object) -> float:
    """The number that `500m`, `1.5` or `64Mi` is."""
    match = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(text))
    if match is None or match[2] not in UNITS:
        raise ValueError(text)
    return float(match[1]) * UNITS[match[2]]


def copied(obj: Any) -> Any:
    """A copy in depth, several times faster than the library's."""
    return pickle.loads(pickle.dumps(obj, pickle.HIGHEST_PROTOCOL))


def field(obj: object, path: str) -> Any:
    """What is at a dotted path, or None."""
    for part in path.split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector of an object is for these labels, fields of nodes among them; an empty one is for all."""
    selector = selector or {}
    wanted = [(key, "In", [value]) for key, value in (selector.get("matchLabels") or {}).items()]
    further = [*(selector.get("matchExpressions") or ()), *(selector.get("matchFields") or ())]
    wanted += [(e["key"], e["operator"], e.get("values", [])) for e in further]
    tests: dict[str, Callable[[str, list[str]], bool]] = {
        "In": lambda key, values: labels.get(key) in values,
        "NotIn": lambda key, values: labels.get(key) not in values,
        "Exists": lambda key, _: key in labels,
        "DoesNotExist": lambda key, _: key not in labels,
    }
    return all(tests[how](key, values) for key, how, values in wanted)


class Store:
    """All objects, with one counter of versions. Thread-safe."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.version = 1
        self.oldest = 0
        """Watches from before it are told that it is too old."""
        self._objects: dict[tuple[str, str, str], Object] = {}
        self._history: list[tuple[int, str, Kind, Object]] = []

    def create(self, kind: Kind, namespace: str, obj: Object) -> Object:
        obj = copied(obj)
        meta = obj.setdefault("metadata", {})
        name = meta["name"]
        with self.changed:
            if (kind.plural, namespace, name) in self._objects:
                message = f'{kind.qualified} "{name}" already exists'
                raise Refused(409, "AlreadyExists", message, **details_of(kind, name))
            meta |= {"uid": str(uuid.uuid4()), "creationTimestamp": now()}
            if kind.namespaced:
                meta["namespace"] = namespace
            return self._record("ADDED", kind, {"kind": kind.name, "apiVersion": kind.version, **obj})

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        with self.changed:
            try:
                return copied(self._objects[kind.plural, namespace, name])
            except KeyError:
                raise not_found(kind, name) from None

    def list(self, kind: Kind, namespace: str = "", labels: str = "", fields: str = "") -> list[Object]:
        with self.changed:
            return [
                copied(obj)
                for (plural, _, _), obj in sorted(self._objects.items(), key=operator.itemgetter(0))
                if plural == kind.plural and matches(obj, namespace, labels, fields)
            ]

    def orphans(self) -> list[tuple[Kind, Object]]:
        """All objects that have owners none of which is there."""
        with self.changed:
            living = {obj["metadata"]["uid"] for obj in self._objects.values()}
            return [
                (KINDS[plural], copied(obj))
                for (plural, _, _), obj in self._objects.items()
                if (owners := obj["metadata"].get("ownerReferences"))
                and living.isdisjoint(one["uid"] for one in owners)
            ]

    def update(self, kind: Kind, namespace: str, name: str, change: Callable[[Object], object]) -> Object:
        """Change an object in place; nothing is recorded where nothing changes."""
        with self.changed:
            obj = self.get(kind, namespace, name)
            before = copied(obj)
            change(obj)
            return obj if obj == before else self._record("MODIFIED", kind, obj)

    def remove(self, kind: Kind, namespace: str, name: str, uid: str | None = None) -> Object:
        with self.changed:
            obj = self.get(kind, namespace, name)
            if uid is not None and obj["metadata"]["uid"] != uid:
                raise not_found(kind, name)
            del self._objects[kind.plural, namespace, name]
            return self._record("DELETED", kind, obj)

    def _record(self, event: str, kind: Kind, obj: Object) -> Object:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        key = (kind.plural, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        if event != "DELETED":
            self._objects[key] = copied(obj)
        self._history.append((self.version, event, kind, copied(obj)))
        self.changed.notify_all()
        return obj

    def since(self, version: int) -> list[tuple[int, str, Kind, Object]]:
        """Changes after a version. Read only."""
        with self.changed:
            end = start = len(self._history)
            while start and self._history[start - 1][0] > version:
                start -= 1
            return self._history[start:end]

    def forget(self) -> None:
        """Compact: every watch from before now is told that it is too old."""
        with self.changed:
            self.oldest = self.version
            self.changed.notify_all()


def matches(obj: Object, namespace: str = "", labels: str = "", fields: str = "") -> bool:
    """Whether an object is one that a query is about."""
    meta = obj["metadata"]
    if namespace and meta.get("namespace") != namespace:
        return False
    own = meta.get("labels") or {}
    for key, equals, value in (part.partition("=") for part in labels.split(",") if part):
        if key not in own or (equals and own[key] != value.lstrip("=")):
            return False
    wanted = (part.partition("=") for part in fields.split(",") if part)
    return all(str(field(obj, path) or "") == value.lstrip("=") for path, _, value in wanted)


def merge(target: Object, patch: Mapping[str, Any]) -> None:
    """Apply a merge patch (RFC 7386)."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            if not isinstance(target.get(key), dict):
                target[key] = {}
            merge(target[key], value)
        else:
            target[key] = copied(value)


def content(config_map: Object) -> dict[str, bytes]:
    """What a ConfigMap holds."""
    coded, plain = config_map.get("binaryData") or {}, config_map.get("data") or {}
    return {key: base64.b64decode(value) for key, value in coded.items()} | {
        key: text.encode() for key, text in plain.items()
    }
