"""Requests to an endpoint, built from the parsed request, never from the bytes an agent sent.

A body is one JSON object, written by the gateway: without line breaks, so that no server can take a part of it for
another request, and with each key once, so that every reader sees the same model.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from multidict import CIMultiDict, CIMultiDictProxy

from ..model.endpoint import Wire
from ..system.cutting import beginning_of
from .allowed import Allowed
from .prices import Prices
from .provider_tools import EVERY_TOOL, ProviderTools
from .tiers import tiers
from .tokens import Tokens, Unpriced
from .wires import Call, Kind, Unsendable, tables

_HEADERS = frozenset(
    [
        *("accept", "user-agent", "idempotency-key", "traceparent", "tracestate", "x-request-id"),
        *("anthropic-beta", "anthropic-version", "anthropic-dangerous-direct-browser-access", "openai-beta"),
        *("http-referer", "x-title", "x-app", "x-client-request-id", "x-goog-api-client"),
        *("originator", "version", "session_id", "session-id", "conversation_id", "x-session-affinity"),
    ]
)
_HEADER_BEGINNINGS = ("x-stainless-", "x-claude-code-", "x-codex-", "x-openrouter-")
# Some servers ignore the case of keys: to them these keys, in any case, are the ones checked here.
_LOOKED_AT = ("model", "models", "stream", "stream_options", "background", "tools", "tool_choice", "type")
_FREE = frozenset(
    [
        *("messages", "input", "contents", "instructions"),
        *("system", "systemInstruction", "system_instruction"),
        *("prompt", "function", "functions", "functionDeclarations", "function_declarations", "parameters"),
        *("input_schema", "schema", "json_schema", "responseSchema", "responseJsonSchema", "metadata"),
        *("client_metadata", "labels", "input_examples", "documents", "chat_template_kwargs"),
        *("guided_json", "structured_outputs", "format"),
    ]
)
"""Keys below which names are free: content, tools that the agent runs itself, and metadata."""
_MOST_MODELS = 100
_MOST_VALUES = 1_000_000
"""The most values in a body. Each takes up to two hundred bytes when parsed, however short it is in JSON."""
_LIMITS_OF_OUTPUT = ("max_completion_tokens", "max_tokens", "max_output_tokens", "maxOutputTokens")
_LONGEST_OUTPUT = 128_000
"""Tokens assumed for an answer without a limit."""
_FASTEST = 50_000
"""Tokens a second that no endpoint reaches, whatever it makes at once."""
_LONGEST_PROMPT = 1_000_000
"""Tokens assumed for a prompt of which a part is stored elsewhere."""
_ELSEWHERE = ("previous_response_id", "conversation", "prompt", "cachedContent", "container")
"""Keys of a call for whose prompt the endpoint has a part already."""
_OF_PARTS = ("file_id", "file_url", "fileData")
_LOG_IN = "sk-ant-oat"
"""Prefix of a log-in token. It is not a key: it is sent in another header."""
_PROMPTS = ("messages", "input", "contents", "system", "systemInstruction")


class Outgoing:
    """The body of one call, kept as bytes: parsed, a small body may take a lot of memory.

    A call that names no model is of the trial's own.

    Raises Unsendable: it cannot be passed on.
    """

    def __init__(self, call: Call, body: bytes, allowed: Allowed, tools: ProviderTools = EVERY_TOOL) -> None:
        request = {} if call.method == "GET" else _parsed(body)
        if call.kind in (Kind.CHAT, Kind.MESSAGES, Kind.RESPONSES) and request.get("model") is None:
            request |= {"model": allowed.model} if allowed.model else {}
        if request.get("background") not in (None, False):
            raise Unsendable("usage of background answers cannot be counted; leave `background` out")
        self.taken_out = tools.take_out(call, request)
        """Names of tools of the endpoint that it offered, and that the trial may not use."""
        self.models = tuple(itertools.islice(_models(call, request), _MOST_MODELS + 1))
        """All models that it names: in the path, in the body, as fallbacks, in tools that have their own."""
        if len(self.models) > _MOST_MODELS:
            raise Unsendable(f"it names more than {_MOST_MODELS} models")
        named = call.model or request.get("model")
        self.model: str | None = named if isinstance(named, str) else None
        self.own = allowed.is_own(self.model)
        """It names the trial's own model, not another one that the agent chose."""
        self.tiers = tiers(request)
        """Rates requested other than the standard one."""
        key = {Kind.CHAT: "n", Kind.GENERATE: "candidateCount"}.get(call.kind, "")
        self.choices = max(_count(place, key) or 1 for place in _places(request))
        """Answers that it asks for in one."""
        self.content = b"" if call.method == "GET" else _written(request, body.isascii())
        """The bytes to send."""
        self._known: tuple[bool, int] | None = None
        self.with_usage = _with_usage(request, self.content) if call.kind is Kind.CHAT else None
        """The same with a request for usage, for answers that would not report it."""

    def refers_elsewhere(self) -> bool:
        """True if the prompt is longer than the body: the endpoint has a part of it, or fetches one."""
        return self._facts()[0]

    def most(
        self,
        provider: str,
        prices: Prices,
        rate: str | None = None,
        *,
        public: bool = True,
        seconds: float = math.inf,
    ) -> tuple[int, float | None]:
        """Upper bound of its tokens and cost in USD, where its usage is unknown; None: no price is known.

        No token is shorter than a byte. `seconds` is how long the endpoint worked on it, where it has surely ended.
        """
        sent, (elsewhere, back) = len(self.content), self._facts()
        if elsewhere:
            sent = max(sent, _LONGEST_PROMPT)
        back = int(min(back, seconds * _FASTEST))
        costs = []
        for tokens in (
            Tokens(input=sent, output=back),
            Tokens(input=sent, output=back, cache_write=sent),
            Tokens(input=sent, output=back, cache_write=sent, cache_write_1h=sent),
        ):
            with contextlib.suppress(Unpriced):
                costs.append(prices.cost(provider, self.model or "", tokens, rate, public=public))
        return sent + back, max(costs, default=None)

    def _facts(self) -> tuple[bool, int]:
        # Few calls fail, so parsing their bodies again is cheaper than checking all of them.
        if self._known is None:
            request = json.loads(self.content or b"{}")
            self._known = _refers_elsewhere(request), _longest_answer(request)
        return self._known


def _refers_elsewhere(request: Mapping[str, Any]) -> bool:
    if any(request.get(name) is not None for name in _ELSEWHERE):
        return True
    parts: list[Any] = [request.get(name) for name in _PROMPTS]
    while parts:
        part = parts.pop()
        if isinstance(part, list):
            parts += part
        elif isinstance(part, dict):
            if any(name in part for name in _OF_PARTS) or _is_address(part.get("image_url", part.get("url"))):
                return True
            parts += part.values()
    return False


def _longest_answer(request: Mapping[str, Any]) -> int:
    lengths = (_count(place, name) for place in _places(request) for name in _LIMITS_OF_OUTPUT)
    length = next(filter(None, lengths), _LONGEST_OUTPUT)
    times = ("n", "best_of", "candidateCount")
    return length * max(_count(place, name) or 1 for place in _places(request) for name in times)


def _places(request: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the tables of a body that may have its limits."""
    settings = request.get("generationConfig")
    return request, settings if isinstance(settings, dict) else {}


def _with_usage(request: dict[str, Any], content: bytes) -> bytes | None:
    """Ask for usage with a plain `true`: servers differ in what else they read as true."""
    options = request.get("stream_options")
    options = options if isinstance(options, dict) else {}
    if request.get("stream") in (None, False) or options.get("include_usage") is True:
        return None
    wish = {"stream_options": {**options, "include_usage": True}}
    if "stream_options" in request:
        return _written(request | wish, content.isascii())
    return content[:-1] + b"," + _written(wish, ascii_only=True)[1:]


def _written(request: Mapping[str, Any], ascii_only: bool) -> bytes:
    try:
        if not ascii_only:
            # Half of a surrogate pair, which JSON may have and UTF-8 may not, is written in ASCII.
            with contextlib.suppress(UnicodeEncodeError):
                return _UTF_8.encode(request).encode()
        return _ASCII.encode(request).encode()
    except (ValueError, RecursionError):
        raise Unsendable("the body has a number that is too large, or is nested too deeply") from None


def headers(given: CIMultiDictProxy[str], *, body: bool) -> CIMultiDict[str]:
    """Headers of an agent's request that mean something to an endpoint of models; others are dropped."""
    kept = CIMultiDict(
        (name, value)
        for name, value in given.items()
        if (lower := name.lower()) in _HEADERS or lower.startswith(_HEADER_BEGINNINGS)
    )
    # Content that is metered, recorded and replayed must be readable.
    kept["Accept-Encoding"] = "identity"
    if body:
        kept["Content-Type"] = "application/json"
    return kept


def credentials(wire: Wire, key: str | None) -> dict[str, str]:
    """Headers that carry a key."""
    if key is None:
        return {}
    if wire == "anthropic" and key.startswith(_LOG_IN):
        return {"Authorization": f"Bearer {key}", "anthropic-beta": "oauth-2025-04-20"}
    return {
        "anthropic": {"x-api-key": key},
        "openai": {"Authorization": f"Bearer {key}"},
        "google": {"x-goog-api-key": key},
    }[wire]


def _refuse(constant: str) -> None:
    raise Unsendable(f"{constant} is not JSON")


# `json.loads` and `json.dumps` create new ones in each call; ASCII is written twice as fast.
_READER = json.JSONDecoder(parse_constant=_refuse)
_ASCII = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_UTF_8 = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _parsed(body: bytes) -> dict[str, Any]:
    if len(body) > _MOST_VALUES and sum(body.count(mark) for mark in (b",", b"[", b"{")) > _MOST_VALUES:
        raise Unsendable(f"the body has more than {_MOST_VALUES} values")
    try:
        request = _READER.decode(body.decode(json.detect_encoding(body), "surrogatepass"))
    except Unsendable:
        raise
    except RecursionError:
        raise Unsendable("the body is nested too deeply") from None
    except ValueError:
        raise Unsendable("the body is not JSON") from None
    if not isinstance(request, dict):
        raise Unsendable("the body is not a JSON object")
    for part in (request, *tables(request, "tools")):
        for key in part:
            if key not in _LOOKED_AT and (meant := key.casefold()) in _LOOKED_AT:
                raise Unsendable(
                    f"{beginning_of(key, 20)!r} can be read as `{meant}`; write it in lower case"
                )
    return request


def _models(call: Call, request: Mapping[str, Any]) -> Iterator[str]:
    """All models a call names, except below keys whose content is free."""
    if call.model is not None:
        yield call.model
    for part in (request, *tables(request, "tools")):
        if not isinstance(part.get("model"), str | None):
            raise Unsendable("a model must be a string")
        if not isinstance(part.get("models"), list | None):
            raise Unsendable("`models` must be a list")
    if request.get("preset") is not None:
        # Of OpenRouter: settings stored there, which may include fallback models.
        yield f"@preset/{request['preset']}"
    parts: list[Any] = [request]
    while parts:
        part = parts.pop()
        if isinstance(part, list):
            parts += part
        elif isinstance(part, dict):
            for key, value in part.items():
                if key in _FREE:
                    continue
                if "model" in (name := key.casefold()) or name.startswith("fallback"):
                    named = value if isinstance(value, list) else [value]
                    yield from (one for one in named if isinstance(one, str))
                parts.append(value)


def _is_address(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("http:", "https:", "gs:"))


def _count(place: Mapping[str, Any], name: str) -> int | None:
    value = place.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
