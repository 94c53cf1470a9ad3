"""What is passed on to an endpoint: built anew from what was parsed, never the bytes an agent sent.

A body is one JSON object, written by us: without line breaks, so no server can take any of it for another request,
and with each key once, so that all who read it see the same model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from multidict import CIMultiDict, CIMultiDictProxy

from .prices import Prices
from .tokens import Tokens
from .wires import Call, Kind

_HEADERS = frozenset(
    [
        *("accept", "user-agent", "idempotency-key", "traceparent", "tracestate", "x-request-id"),
        *("anthropic-beta", "anthropic-version", "anthropic-dangerous-direct-browser-access", "openai-beta"),
        *("http-referer", "x-title", "x-app", "x-client-request-id", "x-goog-api-client"),
        *("originator", "version", "session_id", "session-id", "conversation_id", "x-session-affinity"),
    ]
)
_HEADER_BEGINNINGS = ("x-stainless-", "x-claude-code-", "x-codex-", "x-openrouter-")
# Some servers do not mind the case of a key: to them these, written in any case, are one of ours.
_NAMES_OF_MODELS = ("model", "models")
_LIMITS_OF_OUTPUT = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_LONGEST_OUTPUT = 128_000
"""Tokens of an answer whose length was not limited."""
_LONGEST_PROMPT = 1_000_000
"""Tokens of a prompt of which a part is elsewhere."""
_ELSEWHERE = ("previous_response_id", "conversation", "prompt", "cachedContent", "container")
"""Keys of a call a part of whose prompt the endpoint has already."""
_OF_PARTS = ("file_id", "file_url", "fileData")
_PROMPTS = ("messages", "input", "contents", "system", "systemInstruction")


class Unreadable(ValueError):
    """What an agent sent is no JSON object that everybody reads in the same way."""


class Outgoing:
    """The body of one call.

    Args:
        call: What it is for.
        body: As the agent sent it.
        model: Of a call that names none.

    Raises:
        Unreadable: it cannot be passed on.

    """

    def __init__(self, call: Call, body: bytes, model: str | None) -> None:
        self._call = call
        self.asked = {} if call.method == "GET" else _parsed(body)
        if call.kind in (Kind.CHAT, Kind.MESSAGES, Kind.RESPONSES) and model is not None:
            self.asked.setdefault("model", model)
        named = call.model or self.asked.get("model")
        self.model: str | None = named if isinstance(named, str) else None

    def content(self, **instead: Any) -> bytes:
        """The body to be sent, with some keys replaced."""
        if self._call.method == "GET":
            return b""
        body = {**self.asked, **instead}
        try:
            return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:  # half of a pair, which JSON may have and UTF-8 may not
            return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()

    def models(self) -> Iterator[str]:
        """All models it names: of the path, of the body, of those to fall back to, of tools that have their own.

        Raises:
            Unreadable: one is named in a way that is not clear.

        """
        if self._call.model is not None:
            yield self._call.model
        for part in (self.asked, *_tools(self.asked)):
            if part.get("model") is not None:
                yield _name(part["model"])
            fallbacks = part.get("models")
            if fallbacks is not None:
                if not isinstance(fallbacks, list):
                    raise Unreadable("`models` is no list")
                yield from map(_name, fallbacks)

    def most(self, provider: str, prices: Prices) -> tuple[int, float | None]:
        """Tokens it can have used at most, and USD, if it is not known what it used; None: no price is known.

        No token is shorter than a byte.
        """
        sent = len(self.content())
        if self._refers_elsewhere():
            sent = max(sent, _LONGEST_PROMPT)
        back = self._longest_answer()
        costs = [
            prices.cost(provider, self.model or "", tokens)
            for tokens in (
                Tokens(input=sent, output=back),
                Tokens(input=sent, output=back, cache_write=sent),
                Tokens(input=sent, output=back, cache_write=sent, cache_write_1h=sent),
            )
        ]
        return sent + back, max((cost for cost in costs if cost is not None), default=None)

    def _refers_elsewhere(self) -> bool:
        """Whether the prompt is longer than what is sent of it."""
        if any(self.asked.get(name) is not None for name in _ELSEWHERE):
            return True
        parts: list[Any] = [self.asked.get(name) for name in _PROMPTS]
        while parts:
            part = parts.pop()
            if isinstance(part, list):
                parts += part
            elif isinstance(part, dict):
                if any(name in part for name in _OF_PARTS) or _is_address(
                    part.get("image_url", part.get("url"))
                ):
                    return True
                parts += part.values()
        return False

    def _longest_answer(self) -> int:
        settings = self.asked.get("generationConfig")
        places = (self.asked, settings if isinstance(settings, dict) else {})
        length = next(
            (
                n
                for place in places
                for name in (*_LIMITS_OF_OUTPUT, "maxOutputTokens")
                if (n := _count(place, name))
            ),
            _LONGEST_OUTPUT,
        )
        times = [_count(place, name) or 1 for place in places for name in ("n", "best_of", "candidateCount")]
        return length * max(times)


def headers(given: CIMultiDictProxy[str], *, body: bool) -> CIMultiDict[str]:
    """The headers of an agent's request that say something to an endpoint of models; no others are passed on."""
    kept = CIMultiDict((name, value) for name, value in given.items() if _passes(name.lower()))
    # What is metered, recorded and replayed has to be readable.
    kept["Accept-Encoding"] = "identity"
    if body:
        kept["Content-Type"] = "application/json"
    return kept


def _passes(name: str) -> bool:
    return name in _HEADERS or name.startswith(_HEADER_BEGINNINGS)


def _parsed(body: bytes) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise Unreadable(f"{constant} is no JSON")

    try:
        asked = json.loads(body, parse_constant=refuse)
    except Unreadable:
        raise
    except RecursionError:
        raise Unreadable("the body is nested too deeply") from None
    except ValueError:
        raise Unreadable("the body is no JSON") from None
    if not isinstance(asked, dict):
        raise Unreadable("the body is no JSON object")
    for part in (asked, *_tools(asked)):
        for key in part:
            if key not in _NAMES_OF_MODELS and key.casefold() in _NAMES_OF_MODELS:
                raise Unreadable(f"{key[:20]!r} can be read as a model; write it in lower case")
    return asked


def _tools(asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    tools = asked.get("tools")
    return [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []


def _name(model: object) -> str:
    if not isinstance(model, str):
        raise Unreadable("a model is no text")
    return model


def _is_address(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("http:", "https:", "gs:"))


def _count(place: Mapping[str, Any], name: str) -> int | None:
    value = place.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
