"""Reading the usage of a call from its answer while the bytes pass, the same way for all wires."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .tokens import Tokens
from .wires import Kind, tables

LONGEST_ANSWER = 64 << 20
"""The most bytes of one event, or of an answer in one piece."""
_MOST = 1 << 53
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})


@dataclasses.dataclass(slots=True)
class Reading:
    """Content of an answer so far."""

    model: str | None = None
    """Name of the model, as the endpoint gives it."""
    raw: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Usage in the wire's own keys; later values replace earlier ones."""
    finished: bool = False
    """The answer said that it is complete."""
    ended: bool = False
    """The answer said why it ends. That suffices where `finished` does not follow."""
    refused: str | None = None
    """The wire's word for a refusal by the model or a filter."""
    hollow: bool = False
    """It came in one piece, and contains no answer."""
    error: Mapping[str, Any] | None = None
    """Error reported after the answer had begun well."""

    @property
    def whole(self) -> bool:
        """True if the answer came to its end, which may be an error."""
        return self.finished or self.ended or self.error is not None

    def tokens(self, kind: Kind) -> Tokens:
        """Usage in the gateway's terms."""
        return _FORMS[kind].tokens(self.raw)


class Meter:
    """Reader of the bytes of one answer, however they are split."""

    def __init__(self, kind: Kind, streamed: bool) -> None:
        self._kind = kind
        self._streamed = streamed
        self._telling = _FORMS[kind].telling
        self._held = bytearray()
        self._skipping = False
        self.reading = Reading()

    def feed(self, data: bytes) -> None:
        """Read more of the answer."""
        if not self._streamed:
            if len(self._held) + len(data) <= LONGEST_ANSWER:
                self._held += data
            else:
                self._skipping = True
            return
        if data.endswith(b"\n") and not (self._held or self._skipping or self._worth_parsing(data)):
            return
        first, *rest = data.split(b"\n")
        if not self._skipping:
            self._held += first
        if not rest:
            if len(self._held) > LONGEST_ANSWER:
                self._held.clear()
                self._skipping = True
            return
        *whole, last = rest
        self._line(bytes(self._held))
        self._held = bytearray(last)
        self._skipping = False
        for line in whole:
            self._line(line)

    def finish(self) -> Reading:
        """Note the end of the answer."""
        held, self._held = bytes(self._held), bytearray()
        if self._streamed:
            self._line(held)
        elif held and not self._skipping:
            answer = _parsed(held)
            for event in answer if isinstance(answer, list) else [answer]:
                self._event(event)
                self.reading.hollow |= isinstance(event, dict) and _hollow(self._kind, event)
            self.reading.finished = answer is not None
        return self.reading

    def _line(self, line: bytes) -> None:
        if not line.startswith(b"data:"):
            return
        said = line[5:].strip()
        if said == b"[DONE]":
            self.reading.finished = True
        elif self._worth_parsing(said):
            self._event(_parsed(said))

    def _worth_parsing(self, data: bytes) -> bool:
        return self.reading.model is None or any(map(data.__contains__, self._telling))

    def _event(self, event: Any) -> None:
        if isinstance(event, dict):
            _FORMS[self._kind].read(event, self.reading)


def flaw(kind: Kind, answer: bytes) -> str | None:
    """Reason why this is no answer of a model, in one piece; None if it is one, or an error in the wire's own format.

    An answer that reports usage was made by a model, whatever else it lacks, and has to be counted.
    """
    if not answer.strip():
        return "the answer is empty"
    if len(answer) > LONGEST_ANSWER:
        return f"the answer has more than {LONGEST_ANSWER >> 20} MiB"
    said = _parsed(answer)
    start = answer[:200].decode("utf-8", "replace")
    if said is None:
        return f"the answer is not JSON: {start}"
    for event in said if isinstance(said, list) and said else [said]:
        form = _FORMS[kind]
        if not isinstance(event, dict) or (_hollow(kind, event) and not _part(event, form.usage)):
            return f"the answer has no `{form.answers}`: {start}"
    return None


def _hollow(kind: Kind, answer: Mapping[str, Any]) -> bool:
    """True if it has neither content, nor an error, nor a refusal by a filter."""
    if isinstance(answer.get("error"), dict) or "promptFeedback" in answer:
        return False
    found = answer.get(_FORMS[kind].answers)
    return not isinstance(found, list) or (kind is Kind.CHAT and not found)


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _part(event: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = event.get(name)
    return part if isinstance(part, dict) else {}


def _note(reading: Reading, source: Mapping[str, Any], model: str = "model", usage: str = "usage") -> None:
    name = source.get(model)
    if reading.model is None and isinstance(name, str) and name:
        reading.model = name
    reading.raw |= {key: value for key, value in _part(source, usage).items() if value is not None}
    if isinstance(source.get("error"), dict):
        reading.error = source["error"]


_REFUSALS = frozenset(
    [
        "refusal",
        "content_filter",
        "SAFETY",
        "PROHIBITED_CONTENT",
        "BLOCKLIST",
        "SPII",
        "RECITATION",
        "IMAGE_SAFETY",
    ]
)


def _refuse(reading: Reading, why: object) -> None:
    if isinstance(why, str) and why in _REFUSALS:
        reading.refused = why


def _read_messages(event: dict[str, Any], reading: Reading) -> None:
    kind = event.get("type")
    _note(reading, _part(event, "message") if kind == "message_start" else event)
    reading.finished |= kind == "message_stop"
    for part in (event, _part(event, "delta"), _part(event, "message")):
        _refuse(reading, part.get("stop_reason"))


def _read_chat(event: dict[str, Any], reading: Reading) -> None:
    _note(reading, event)
    for choice in tables(event, "choices"):
        reading.ended |= bool(choice.get("finish_reason"))
        said = _part(choice, "delta").get("refusal") or _part(choice, "message").get("refusal")
        _refuse(reading, "refusal" if said else choice.get("finish_reason"))
    if "usage" not in event:
        _note(reading, _part(event, "x_groq"))


def _read_responses(event: dict[str, Any], reading: Reading) -> None:
    kind = event.get("type")
    _note(reading, _part(event, "response") if "response" in event else event)
    reading.finished |= kind in _ENDS
    response = _part(event, "response") or event
    _refuse(reading, _part(response, "incomplete_details").get("reason"))
    if "response.refusal" in str(kind) or '"type": "refusal"' in json.dumps(response.get("output")):
        reading.refused = "refusal"
    if kind == "error" and reading.error is None:
        reading.error = event


def _read_generate(event: dict[str, Any], reading: Reading) -> None:
    _note(reading, event, "modelVersion", "usageMetadata")
    for candidate in tables(event, "candidates"):
        reading.finished |= bool(candidate.get("finishReason"))
        _refuse(reading, candidate.get("finishReason"))
    if blocked := _part(event, "promptFeedback").get("blockReason"):
        reading.finished, reading.refused = True, str(blocked)[:50]


def _count(raw: Mapping[str, Any], *names: str) -> int | None:
    """The first of these keys whose value is a number of tokens."""
    for name in names:
        value = raw.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST:
            return value
    return None


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _messages_tokens(raw: Mapping[str, Any]) -> Tokens:
    cached = _count(raw, "cache_read_input_tokens")
    written = _count(raw, "cache_creation_input_tokens")
    return Tokens(
        # This wire counts tokens from or to a cache separately; `input` has all that was sent.
        input=_sum(_count(raw, "input_tokens"), cached, written),
        output=_count(raw, "output_tokens"),
        cached=cached,
        cache_write=written,
        cache_write_1h=_count(_part(raw, "cache_creation"), "ephemeral_1h_input_tokens"),
        reasoning=_count(_part(raw, "output_tokens_details"), "thinking_tokens", "reasoning_tokens"),
    )


def _openai_tokens(raw: Mapping[str, Any]) -> Tokens:
    sent = _part(raw, "prompt_tokens_details") or _part(raw, "input_tokens_details")
    back = _part(raw, "completion_tokens_details") or _part(raw, "output_tokens_details")
    return Tokens(
        input=_count(raw, "prompt_tokens", "input_tokens"),
        output=_count(raw, "completion_tokens", "output_tokens"),
        cached=_count({**raw, **sent}, "cached_tokens", "prompt_cache_hit_tokens"),
        cache_write=_count(sent, "cache_write_tokens", "cache_creation_tokens"),
        reasoning=_count(back, "reasoning_tokens"),
    )


def _generate_tokens(raw: Mapping[str, Any]) -> Tokens:
    thoughts = _count(raw, "thoughtsTokenCount")
    return Tokens(
        input=_sum(_count(raw, "promptTokenCount"), _count(raw, "toolUsePromptTokenCount")),
        output=_sum(_count(raw, "candidatesTokenCount"), thoughts),
        cached=_count(raw, "cachedContentTokenCount"),
        reasoning=thoughts,
    )


class _Form(NamedTuple):
    """Format of the answers to one kind of calls."""

    answers: str
    """Key of the list of answers."""
    usage: str
    """Key of the usage, in an answer in one piece."""
    read: Callable[[dict[str, Any], Reading], None]
    tokens: Callable[[Mapping[str, Any]], Tokens]
    telling: tuple[bytes, ...]
    """Only events that contain one of these are parsed: most events are a few words of text."""


_OF_ALL = (b"usage", b'"error"', b"[DONE]")
_OF_RESPONSES = (b"refusal", b"incomplete", b"response.completed", b"response.failed")
_FORMS = {
    Kind.MESSAGES: _Form(
        "content", "usage", _read_messages, _messages_tokens, (*_OF_ALL, b"message_st", b"refusal")
    ),
    Kind.CHAT: _Form(
        "choices",
        "usage",
        _read_chat,
        _openai_tokens,
        (*_OF_ALL, b"refusal", b'finish_reason":"', b'finish_reason": "'),
    ),
    Kind.RESPONSES: _Form("output", "usage", _read_responses, _openai_tokens, (*_OF_ALL, *_OF_RESPONSES)),
    Kind.GENERATE: _Form(
        "candidates",
        "usageMetadata",
        _read_generate,
        _generate_tokens,
        (*_OF_ALL, b"finishReason", b"blockReason"),
    ),
}


_EVENT_END = re.compile(rb"\n\n|\r\n\r\n")


class UsageRemover:
    """Filter that removes the usage event from a chat stream whose client did not ask for it; others pass unchanged."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._seen = 0
        """Length of the part of `_held` in which no event ends."""

    def feed(self, data: bytes) -> bytes:
        """Bytes for the client, of these and of those held back."""
        self._held += data
        passed, start = bytearray(), 0
        for match in _EVENT_END.finditer(self._held, self._seen):
            event, start = bytes(self._held[start : match.end()]), match.end()
            if not _only_usage(event):
                passed += event
        del self._held[:start]
        if len(self._held) > LONGEST_ANSWER:  # not the gateway's event: it is passed on in pieces
            passed += self._held
            self._held.clear()
        self._seen = max(len(self._held) - 3, 0)
        return bytes(passed)

    def finish(self) -> bytes:
        """Remaining bytes, at the end of the stream."""
        rest, self._held = bytes(self._held), bytearray()
        return b"" if _only_usage(rest) else rest


def _only_usage(event: bytes) -> bool:
    said = event.strip()
    if b'"usage"' not in said or not said.startswith(b"data:"):
        return False
    chunk = _parsed(said[5:])
    return isinstance(chunk, dict) and chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)
