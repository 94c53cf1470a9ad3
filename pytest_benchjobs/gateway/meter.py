"""Reading the usage of a call from its answer while the bytes pass, the same way for all wires."""

from __future__ import annotations

import codecs
import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..system.cutting import beginning_of
from .counts import merge, tokens_of
from .tiers import tiers
from .tokens import Tokens
from .wires import Kind, parsed, table, tables

LONGEST_ANSWER = 64 << 20
"""The most bytes of one event, or of an answer in one piece."""
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})


@dataclasses.dataclass(slots=True)
class Reading:
    """Content of an answer so far."""

    model: str | None = None
    """Name of the model, as the endpoint gives it."""
    raw: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Usage in the wire's own keys, merged over all events."""
    told: dict[str, str] = dataclasses.field(default_factory=dict)
    """Rate of the call from the endpoint, as `tiers` reads it."""
    finished: bool = False
    """The answer said that it is complete."""
    choices: int = 1
    """Answers that the call asks for in one."""
    ends: set[str] = dataclasses.field(default_factory=set)
    """Choices of which it said why they end. All of them suffice where `finished` does not follow."""
    refused: str | None = None
    """The wire's word for a refusal by the model or a filter."""
    hollow: bool = False
    """It came in one piece, and contains no answer."""
    error: Mapping[str, Any] | None = None
    """Error that the answer reports."""
    owing: bool = False
    """Usage is incomplete: none was reported with that error, or after it."""

    @property
    def whole(self) -> bool:
        """True if the answer came to its end, which may be an error."""
        return self.finished or len(self.ends) >= self.choices or self.error is not None

    def tokens(self, kind: Kind) -> Tokens:
        """Usage in the gateway's terms."""
        return tokens_of(kind, self.raw)


# A CR at the end of what has come may be half of a line end.
_LINE_END = rb"(?:\n|\r(?:\n|(?!\n|\Z)))"
_EVENT_END = re.compile(_LINE_END + _LINE_END)


class Events:
    """Splitter of a stream into events, each with the empty line after it. One that is too long comes in pieces."""

    def __init__(self) -> None:
        self.held = bytearray()
        """The beginning of an event."""
        self._seen = 0
        """Length of the part of it in which no event ends."""

    def feed(self, data: bytes) -> list[bytes]:
        """Events that are whole now."""
        self.held += data
        events, start = [], 0
        for match in _EVENT_END.finditer(self.held, self._seen):
            events.append(bytes(self.held[start : match.end()]))
            start = match.end()
        del self.held[:start]
        if len(self.held) > LONGEST_ANSWER:
            events.append(self.rest())
        self._seen = max(len(self.held) - 3, 0)
        return events

    def rest(self) -> bytes:
        """Return the held bytes, at the end of the stream."""
        rest, self.held = bytes(self.held), bytearray()
        return rest


def _data(event: bytes) -> list[bytes]:
    """Lines of data of an event; none of one that is too long."""
    lines = [line for line in event.splitlines() if len(line) <= LONGEST_ANSWER]
    lines = [line.removeprefix(codecs.BOM_UTF8) for line in lines]
    return [line[5:].strip() for line in lines if line.startswith(b"data:")]


def first_event(stream: bytes) -> bytes:
    """Data of the first event of a stream, if it is whole."""
    event = next(iter(Events().feed(stream + b" ")), b"")  # a CR at its end ends a line, whatever follows
    return b"\n".join(_data(event))


class Meter:
    """Reader of the bytes of one answer, however they are split."""

    def __init__(self, kind: Kind, streamed: bool, choices: int = 1) -> None:
        self._kind = kind
        self._streamed = streamed
        self._telling = _FORMS[kind].telling
        self._events = Events()
        self._whole = bytearray()
        """An answer in one piece, so far; more than is read of it, where it is too long."""
        self.reading = Reading(choices=choices)

    def feed(self, data: bytes) -> None:
        """Read more of the answer."""
        if not self._streamed:
            if len(self._whole) <= LONGEST_ANSWER:
                self._whole += data
        elif self._events.held or not data.endswith((b"\n\n", b"\r\n\r\n")) or self._worth_parsing(data):
            for event in self._events.feed(data):
                self._lines(event)

    def finish(self) -> Reading:
        """Note the end of the answer."""
        if self._streamed:
            self._lines(self._events.rest())
        elif 0 < len(self._whole) <= LONGEST_ANSWER:
            answer = parsed(bytes(self._whole))
            self._whole.clear()
            for event in answer if isinstance(answer, list) else [answer]:
                self._event(event)
                self.reading.hollow |= isinstance(event, dict) and _hollow(self._kind, event)
            self.reading.finished = answer is not None
        return self.reading

    def _lines(self, event: bytes) -> None:
        """Read the data of an event, or of several: some servers leave out the empty line after each."""
        data: list[bytes] = []
        for line in _data(event):
            if len(data) == 1 and self._read(data[0]):
                data.clear()
            data.append(line)
        if not self._read(b"\n".join(data)):
            for line in data if len(data) > 1 else ():
                self._read(line)

    def _read(self, said: bytes) -> bool:
        """Read the data of an event; return False if it is none, but perhaps a part of one."""
        if said == b"[DONE]":
            self.reading.finished = True
            return True
        if not self._worth_parsing(said):
            return said.startswith(b"{") and said.endswith(b"}")
        event = parsed(said)
        self._event(event)
        return event is not None

    def _worth_parsing(self, data: bytes) -> bool:
        return self.reading.model is None or any(map(data.__contains__, self._telling))

    def _event(self, event: Any) -> None:
        if isinstance(event, dict):
            if "error" in (event.get("type"), event.get("object")):
                _fail(self.reading, event.get("error") or event)
            _FORMS[self._kind].read(event, self.reading)


def flaw(kind: Kind, answer: bytes) -> str | None:
    """Reason why this is no answer of a model, in one piece; None if it is one, or an error in the wire's own format.

    An answer that reports usage was made by a model, whatever else it lacks, and has to be counted.
    """
    if not answer.strip():
        return "the answer is empty"
    if len(answer) > LONGEST_ANSWER:
        return f"the answer has more than {LONGEST_ANSWER >> 20} MiB"
    said = parsed(answer)
    start = beginning_of(answer, 200).decode("utf-8", "replace")
    if said is None:
        return f"the answer is not JSON: {start}"
    for event in said if isinstance(said, list) and said else [said]:
        form = _FORMS[kind]
        if not isinstance(event, dict) or (_hollow(kind, event) and not table(event, form.usage)):
            return f"the answer has no `{form.answers}`: {start}"
    return None


def repaired(answer: bytes) -> bytes:
    """JSON without bytes that are no UTF-8: agents read strictly, and one wrong byte is no reason to ask again."""
    if json.detect_encoding(answer) != "utf-8":
        return answer
    return answer.decode("utf-8", "replace").encode()


def is_foreign(answer: bytes) -> bool:
    """True for a flawed answer that no model made: nothing, a page, other JSON. A part of JSON may be of one."""
    said = parsed(answer)
    if said is None:
        return answer.lstrip()[:1] not in (b"{", b"[")
    return not (isinstance(said, dict) and "error" in said)


def _hollow(kind: Kind, answer: Mapping[str, Any]) -> bool:
    """True if it has neither content, nor an error, nor a refusal by a filter."""
    if isinstance(answer.get("error"), dict) or "promptFeedback" in answer:
        return False
    found = answer.get(_FORMS[kind].answers)
    return not isinstance(found, list) or (kind is Kind.CHAT and not found)


def _note(reading: Reading, source: Mapping[str, Any], model: str = "model", usage: str = "usage") -> None:
    name = source.get(model)
    if reading.model is None and isinstance(name, str) and name:
        reading.model = name
    _fail(reading, source.get("error"))
    reading.told |= tiers(source)
    _note_usage(reading, table(source, usage))


def _note_usage(reading: Reading, usage: Mapping[str, Any], choice: object = None) -> None:
    """Merge reported usage. That of one `choice` of several is kept apart from that of the call."""
    merge(reading.raw, usage if choice is None else {"choices": [{**usage, "choice": f"choice {choice}"}]})
    reading.told |= tiers(usage)
    if any(isinstance(count, int | float) and count for count in usage.values()):
        reading.owing = False


def _fail(reading: Reading, error: object) -> None:
    """Note an error, in the form of any wire. What was used is unknown then, until it is said."""
    if isinstance(error, str) and error:
        error = {"message": error}
    if isinstance(error, dict) and reading.error is None:
        reading.error, reading.owing = error, True


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
    _note(reading, table(event, "message") if kind == "message_start" else event)
    reading.finished |= kind == "message_stop"
    for part in (event, table(event, "delta"), table(event, "message")):
        _refuse(reading, part.get("stop_reason"))


def _read_chat(event: dict[str, Any], reading: Reading) -> None:
    for choice in tables(event, "choices"):
        _fail(reading, choice.get("error"))
    _note(reading, event)
    for name in event:
        if name.startswith("x_"):  # what a provider adds, such as `x_groq`
            _note(reading, table(event, name))
    for choice in tables(event, "choices"):
        if usage := table(choice, "usage"):
            _note_usage(reading, usage, choice.get("index"))
        if choice.get("finish_reason"):
            reading.ends.add(str(choice.get("index")))
        said = table(choice, "delta").get("refusal") or table(choice, "message").get("refusal")
        _refuse(reading, "refusal" if said else choice.get("finish_reason"))


def _read_responses(event: dict[str, Any], reading: Reading) -> None:
    kind = event.get("type")
    response = table(event, "response") or event
    if kind == "response.failed" or (kind is None and response.get("status") == "failed"):
        _fail(reading, response.get("error") or "the endpoint does not say why it failed")
    _note(reading, response)
    reading.finished |= isinstance(kind, str) and kind in _ENDS
    _refuse(reading, table(response, "incomplete_details").get("reason"))
    if "response.refusal" in str(kind) or '"type": "refusal"' in json.dumps(response.get("output")):
        reading.refused = "refusal"


def _read_generate(event: dict[str, Any], reading: Reading) -> None:
    _note(reading, event, "modelVersion", "usageMetadata")
    for candidate in tables(event, "candidates"):
        if candidate.get("finishReason"):
            reading.ends.add(str(candidate.get("index")))
            reading.finished |= len(reading.ends) >= reading.choices
        _refuse(reading, candidate.get("finishReason"))
    if blocked := table(event, "promptFeedback").get("blockReason"):
        reading.finished, reading.refused = True, beginning_of(str(blocked), 50)


class _Form(NamedTuple):
    """Format of the answers to one kind of calls."""

    answers: str
    """Key of the list of answers."""
    usage: str
    """Key of the usage, in an answer in one piece."""
    read: Callable[[dict[str, Any], Reading], None]
    telling: tuple[bytes, ...]
    """Only events that contain one of these are parsed: most events are a few words of text."""


_OF_ALL = (b"usage", b'"error"', b"[DONE]")
_OF_RESPONSES = (b"refusal", b"incomplete", b"response.completed", b"response.failed")
_FORMS = {
    Kind.MESSAGES: _Form("content", "usage", _read_messages, (*_OF_ALL, b"message_st", b"refusal")),
    Kind.CHAT: _Form(
        "choices",
        "usage",
        _read_chat,
        (*_OF_ALL, b"refusal", b'finish_reason":"', b'finish_reason": "'),
    ),
    Kind.RESPONSES: _Form("output", "usage", _read_responses, (*_OF_ALL, *_OF_RESPONSES)),
    Kind.GENERATE: _Form(
        "candidates",
        "usageMetadata",
        _read_generate,
        (*_OF_ALL, b"finishReason", b"blockReason"),
    ),
}


class UsageRemover:
    """Filter that removes the usage event from a chat stream whose client did not ask for it; others pass unchanged."""

    def __init__(self) -> None:
        self._events = Events()

    def feed(self, data: bytes) -> bytes:
        """Bytes for the client, of these and of those held back."""
        return b"".join(event for event in self._events.feed(data) if not _only_usage(event))

    def finish(self) -> bytes:
        """Remaining bytes, at the end of the stream."""
        rest = self._events.rest()
        return b"" if _only_usage(rest) else rest


def _only_usage(event: bytes) -> bool:
    if b'"usage"' not in event:
        return False
    chunk = parsed(b"\n".join(_data(event)))
    return isinstance(chunk, dict) and chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)
