"""Calls that a gateway passes on, and the error format of each wire."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

from ..model.endpoint import Wire


class Unsendable(ValueError):
    """A request that is not passed on: servers could read it in two ways, or it asks for what its trial may not use."""


class TooLarge(Unsendable):
    """A request that is larger than any that is passed on."""


class Kind(enum.Enum):
    """Kind of a call; decides the place of usage in its answer."""

    MESSAGES = "messages"
    CHAT = "chat"
    RESPONSES = "responses"
    GENERATE = "generate"
    OTHER = "other"
    """Costs nothing: lists of models, counts of tokens."""


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A known call."""

    wire: Wire
    kind: Kind
    method: str
    path: str
    """Path after the endpoint's base URL, with the query, without a key."""
    model: str | None = None
    """Model, if the path names it."""

    @property
    def metered(self) -> bool:
        """True if a model answers."""
        return self.kind is not Kind.OTHER


_NAME = r"[A-Za-z0-9._:@+/-]+"
_PREFIXES: dict[str, Wire] = {"/anthropic": "anthropic", "/openai/v1": "openai", "/google": "google"}
_CALLS: dict[Wire, tuple[tuple[str, re.Pattern[str], Kind], ...]] = {
    "anthropic": (
        ("POST", re.compile(r"/v1/messages"), Kind.MESSAGES),
        ("POST", re.compile(r"/v1/messages/count_tokens"), Kind.OTHER),
        ("GET", re.compile(rf"/v1/models(/{_NAME})?"), Kind.OTHER),
    ),
    "openai": (
        ("POST", re.compile(r"/chat/completions"), Kind.CHAT),
        ("POST", re.compile(r"/responses"), Kind.RESPONSES),
        ("GET", re.compile(rf"/models(/{_NAME})?"), Kind.OTHER),
    ),
    "google": (
        (
            "POST",
            re.compile(rf"/v1(?:beta)?/models/(?P<model>{_NAME}):(?:stream)?[gG]enerateContent"),
            Kind.GENERATE,
        ),
        ("POST", re.compile(rf"/v1(?:beta)?/models/{_NAME}:countTokens"), Kind.OTHER),
        ("GET", re.compile(rf"/v1(?:beta)?/models(/{_NAME})?"), Kind.OTHER),
    ),
}
_PARAMETERS: dict[Wire, frozenset[str]] = {
    "anthropic": frozenset({"beta", "limit", "after_id", "before_id"}),
    "openai": frozenset({"api-version", "client_version", "limit", "after", "order"}),
    "google": frozenset({"alt", "pageSize", "pageToken"}),
}
"""Query parameters that are passed on. Others could remove usage from an answer, or carry a key."""
_VALUE = re.compile(r"[A-Za-z0-9._:@+/=~-]{1,500}")
_ANSWERS = frozenset({"sse", "json"})


@functools.lru_cache(maxsize=64)
def recognise(method: str, target: str) -> Call | None:
    """The call of a request line; None if it is not passed on."""
    path, _, query = target.partition("?")
    for prefix, wire in _PREFIXES.items():
        if not path.startswith(prefix + "/"):
            continue
        rest = urllib.parse.unquote(path[len(prefix) :])
        if any(part in ("", ".", "..") for part in rest.split("/")[1:]):
            return None
        for known, pattern, kind in _CALLS[wire]:
            if method == known and (match := pattern.fullmatch(rest)):
                passed_on = urllib.parse.quote(rest, safe="/:@+") + _query(wire, query)
                return Call(wire, kind, method, passed_on, match.groupdict().get("model"))
    return None


def parsed(text: bytes) -> Any:
    """The JSON of an answer, with what is not UTF-8 replaced; None if it is none."""
    try:
        return json.loads(text)
    except UnicodeDecodeError:
        return parsed(text.decode("utf-8", "replace").encode())
    except (ValueError, RecursionError):
        return None


def table(said: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The object `name`, in JSON of any form; an empty one if there is none."""
    found = said.get(name)
    return found if isinstance(found, dict) else {}


def tables(said: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects in the list `name`, in JSON of any form."""
    listed = said.get(name)
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def wire_of(target: str) -> Wire | None:
    """Wire whose error format a request understands."""
    return next((wire for prefix, wire in _PREFIXES.items() if target.startswith(prefix)), None)


def _query(wire: Wire, query: str) -> str:
    kept = [
        (name, value)
        for name, value in urllib.parse.parse_qsl(query)
        if name in _PARAMETERS[wire] and _VALUE.fullmatch(value) and (name != "alt" or value in _ANSWERS)
    ]
    return "?" + urllib.parse.urlencode(kept) if kept else ""


_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    402: "billing_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}
_GOOGLE_STATUSES = {
    400: "INVALID_ARGUMENT",
    402: "RESOURCE_EXHAUSTED",
    404: "NOT_FOUND",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
}


def error_body(wire: Wire | None, status: int, message: str) -> bytes:
    """An error of the gateway's own, in the format that the wire's clients expect."""
    body: Mapping[str, Any]
    if wire == "anthropic":
        kind = _ANTHROPIC_TYPES.get(status, "api_error")
        body = {"type": "error", "error": {"type": kind, "message": message}}
    elif wire == "google":
        kind = _GOOGLE_STATUSES.get(status, "UNAVAILABLE")
        body = {"error": {"code": status, "message": message, "status": kind}}
    else:
        kind = "invalid_request_error" if status < 500 else "server_error"
        body = {"error": {"message": message, "type": kind, "param": None, "code": None}}
    return json.dumps(body).encode() + b"\n"
