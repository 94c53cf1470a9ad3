"""Steps of an agent that tells none itself: its conversation, made from its calls of models, on any wire.

A call repeats the conversation so far. So a call whose messages begin with those of an earlier one goes on with that
conversation, and only what follows is new; any other begins a conversation, as sub-agents do, or an agent that has made
its history shorter. What the model said is taken from its answers: agents change it when they send it back.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ...store.calls import LoggedCall, logged_calls
from .trajectory import Metrics, Source, Trajectory
from .values import at, error_at, items_at, parsed, text_at, text_of

_CONVERSATIONS = 200
_OPEN = 200
_PARSED = 64 << 20
"""Most bytes of requests that are parsed, over all calls."""
_GOOGLE_ROLES: Mapping[str, Source] = {"model": "agent", "system": "system"}


class _Part(NamedTuple):
    """A message, or a part of one."""

    source: Source
    kind: str
    """`text`, `reasoning`, `call` or `result`."""
    text: str = ""
    id: str = ""
    """Of a call, and of its result; empty where the wire has none."""
    name: str = ""
    arguments: Any = None

    @property
    def digest(self) -> bytes:
        """What tells it from others that an agent may send in its place."""
        text = f"{self.source}\0{self.kind}\0{self.name}\0{self.text.strip()}"
        return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).digest()


class _Conversation:
    """What is known of one conversation."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.heard: list[bytes] = []
        """Digests of all that was not said by the model."""
        self.answers: set[str] = set()
        """Ids of answers that the endpoint stores."""
        self.open: dict[str, deque[str]] = {}
        """Ids of calls by name, for results that have none; those of calls whose results have ids stay."""


def write_steps(
    calls: Path, trajectory: Path, *, after: int = 0, agent: str, version: str | None, model: str | None
) -> int:
    """Write the trajectory of an agent from its calls `after` a byte, where earlier turns end; returns where they end.

    Raises OSError: a file cannot be read or written.
    """
    with calls.open("rb") as source, trajectory.open("wb") as target:
        written = Trajectory(target, agent, version, model)
        LoggedSteps(Steps(written), source, after).add()
        written.finish(None, "the steps are made from the calls of models")
        return source.tell()


class LoggedSteps:
    """Adds the calls of a file, of which those `after` which it begins were shown in earlier turns."""

    def __init__(self, steps: Steps, file: BinaryIO, after: int) -> None:
        self._steps, self._file, self._calls = steps, file, logged_calls(file)
        trajectory, steps.trajectory = steps.trajectory, Trajectory(io.BytesIO(), "")
        self.add(after)
        steps.trajectory = trajectory

    def add(self, end: float = math.inf) -> None:
        """Add the next calls, up to this byte of the file."""
        while self._file.tell() < end and (call := next(self._calls, None)) is not None:
            self._steps.add(call)


class Steps:
    """Adds calls of models, in their order, to a trajectory."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.trajectory = trajectory
        self._all: deque[_Conversation] = deque(maxlen=_CONVERSATIONS)
        self._last: _Conversation | None = None
        self._number = self._parsed = 0

    def add(self, call: LoggedCall) -> None:
        """Add what is new in a call, and its answer."""
        self._number += 1
        self._parsed += len(call.body)
        request = _json(call.body) if self._parsed <= _PARSED else None
        if isinstance(request, Mapping):
            parts = list(_REQUESTS[call.kind](request))
            conversation, parts = self._of(parts, text_at(request, "previous_response_id"))
            self._say(conversation, parts, f"sent-{self._number}")
        else:
            conversation = self._last or self._begin([])
            self._switch(conversation)
        if call.status and call.status < 400:
            self._answer(call, conversation)
        else:
            why = (
                "nobody waited for its answer"
                if not call.status
                else f"{call.status} {error_at(_json(call.answer))}"
            )
            self.trajectory.say("system", f"[a call of the model failed: {why.strip()}]", separator="\n")
        if call.cut and call.status:
            self.trajectory.say("system", "[the answer broke off]", separator="\n")

    def _of(self, parts: list[_Part], previous: str) -> tuple[_Conversation, list[_Part]]:
        """Return the conversation of a request, and what is new in it."""
        heard = [part.digest for part in parts if part.source != "agent"]
        if (
            previous
            and (stored := next((one for one in self._all if previous in one.answers), None)) is not None
        ):
            stored.heard += heard
            return stored, [part for part in parts if part.source != "agent"]
        fitting = [one for one in self._all if one.heard and one.heard == heard[: len(one.heard)]]
        if not fitting:
            return self._begin(heard), parts
        known = max(fitting, key=lambda one: (len(one.heard), one is self._last))
        count, known.heard = len(known.heard), heard
        return known, [part for part in parts if part.source != "agent"][count:]

    def _begin(self, heard: list[bytes]) -> _Conversation:
        conversation = _Conversation(self._all[-1].number + 1 if self._all else 1)
        conversation.heard = heard
        self._all.append(conversation)
        return conversation

    def _switch(self, conversation: _Conversation) -> None:
        """Tell conversations apart where there are several."""
        if self._last is not None and self._last is not conversation:
            self.trajectory.say(
                "system", f"[conversation {conversation.number}]", key=f"switch-{self._number}"
            )
        self._last = conversation

    def _say(self, conversation: _Conversation, parts: Iterable[_Part], key: str) -> None:
        self._switch(conversation)
        trajectory = self.trajectory
        for place, part in enumerate(parts):
            if part.kind == "result":
                waiting = conversation.open.get(part.name)
                trajectory.result(part.id or (waiting.popleft() if waiting else ""), part.text)
            elif part.kind == "call":
                identity = part.id or f"{key}-{place}"
                conversation.open.setdefault(part.name, deque(maxlen=_OPEN)).append(identity)
                trajectory.call(identity, part.name, part.arguments, key=key)
            elif part.kind == "reasoning":
                trajectory.think(part.text, key=key)
            else:
                trajectory.say(part.source, part.text, key=key, separator="\n")

    def _answer(self, call: LoggedCall, conversation: _Conversation) -> None:
        events = list(_events(call.answer))
        conversation.answers |= {
            one for event in events if (one := text_at(event, "response", "id") or text_at(event, "id"))
        }
        self._say(conversation, _ANSWERS[call.kind](events), f"received-{self._number}")
        prompt, completion, cached = call.tokens
        metrics = Metrics(
            prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached, cost_usd=call.cost
        )
        if metrics != Metrics():
            self.trajectory.measured(metrics)


def _json(content: bytes) -> Any:
    try:
        return json.loads(content.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _events(answer: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of an answer: of a stream each event, otherwise the whole, or the items of a list."""
    whole = _json(answer)
    if whole is None:
        lines = (line[5:].strip() for line in answer.splitlines() if line.startswith(b"data:"))
        whole = [_json(line) for line in lines]
    for event in whole if isinstance(whole, list) else [whole]:
        if isinstance(event, Mapping):
            yield event


def _source(role: str) -> Source:
    return "agent" if role == "assistant" else "system" if role in ("system", "developer") else "user"


# --- OpenAI, chat completions


def _chat_request(request: Mapping[str, Any]) -> Iterator[_Part]:
    for message in items_at(request, "messages"):
        role = text_at(message, "role")
        if role == "tool":
            yield _Part("user", "result", text_of(message.get("content")), text_at(message, "tool_call_id"))
        else:
            yield from _chat_message(message, _source(role))


def _chat_message(message: Mapping[str, Any], source: Source) -> Iterator[_Part]:
    if reasoning := text_at(message, "reasoning_content") or text_at(message, "reasoning"):
        yield _Part("agent", "reasoning", reasoning)
    if text := text_of(message.get("content")) or text_at(message, "refusal"):
        yield _Part(source, "text", text)
    for call in items_at(message, "tool_calls"):
        function = at(call, "function")
        name = text_at(function, "name")
        yield _Part("agent", "call", "", text_at(call, "id"), name, parsed(at(function, "arguments")))


def _chat_answer(events: list[Mapping[str, Any]]) -> Iterator[_Part]:
    """Join the pieces of a stream; an answer in one piece is a single one."""
    texts: dict[str, list[str]] = {"reasoning": [], "content": []}
    calls: dict[Any, dict[str, Any]] = {}
    for event in events:
        for choice in items_at(event, "choices"):
            if choice.get("index") not in (0, None):
                continue
            if isinstance(message := choice.get("message"), Mapping):
                yield from _chat_message(message, "agent")
            delta = at(choice, "delta")
            texts["reasoning"].append(text_at(delta, "reasoning_content") or text_at(delta, "reasoning"))
            texts["content"].append(text_of(at(delta, "content")) or text_at(delta, "refusal"))
            for call in items_at(delta, "tool_calls"):
                whole = calls.setdefault(
                    call.get("index"), {"id": "", "function": {"name": "", "arguments": ""}}
                )
                whole["id"] = whole["id"] or text_at(call, "id")
                for key in ("name", "arguments"):
                    whole["function"][key] += text_at(call, "function", key)
    joined = {key: "".join(pieces) for key, pieces in texts.items()}
    yield from _chat_message({**joined, "tool_calls": list(calls.values())}, "agent")


# --- OpenAI, responses


def _responses_request(request: Mapping[str, Any]) -> Iterator[_Part]:
    if instructions := text_at(request, "instructions"):
        yield _Part("system", "text", instructions)
    if text := text_at(request, "input"):
        yield _Part("user", "text", text)
    for item in items_at(request, "input"):
        yield from _responses_item(item)


def _responses_item(item: Mapping[str, Any]) -> Iterator[_Part]:
    kind = text_at(item, "type") or "message"
    if kind == "message":
        if text := text_of(item.get("content")):
            yield _Part(_source(text_at(item, "role")), "text", text)
    elif kind == "reasoning":
        if text := text_of(item.get("summary")) or text_of(item.get("content")):
            yield _Part("agent", "reasoning", text)
    elif kind.endswith("_output"):
        output = item.get("output")
        yield _Part("user", "result", text_of(output) or json.dumps(output), text_at(item, "call_id"))
    elif kind.endswith("_call"):
        given = item.get("arguments", item.get("input", item.get("action")))
        yield _Part(
            "agent", "call", "", text_at(item, "call_id"), text_at(item, "name") or kind, parsed(given)
        )


def _responses_answer(events: list[Mapping[str, Any]]) -> Iterator[_Part]:
    """Take the items of the last response that has any; of a stream that broke off those that were whole."""
    whole = [
        one
        for event in events
        for one in (at(event, "response"), event)
        if isinstance(at(one, "output"), list)
    ]
    items = list(items_at(whole[-1], "output")) if whole else []
    items = items or [item for event in events if isinstance(item := event.get("item"), Mapping)
                      and text_at(event, "type") == "response.output_item.done"]  # fmt: skip
    for item in items:
        yield from _responses_item(item)


# --- Anthropic, messages


def _messages_request(request: Mapping[str, Any]) -> Iterator[_Part]:
    if system := text_of(request.get("system")):
        yield _Part("system", "text", system)
    for message in items_at(request, "messages"):
        source, content = _source(text_at(message, "role")), message.get("content")
        yield from _blocks(
            [{"type": "text", "text": content}] if isinstance(content, str) else content, source
        )


def _blocks(content: Any, source: Source) -> Iterator[_Part]:
    for block in items_at({"content": content}, "content"):
        kind = text_at(block, "type")
        if kind in ("thinking", "redacted_thinking"):
            yield _Part("agent", "reasoning", text_at(block, "thinking") or f"[{kind}]")
        elif kind.endswith("tool_use"):
            yield _Part("agent", "call", "", text_at(block, "id"), text_at(block, "name"), block.get("input"))
        elif kind.endswith("tool_result"):
            yield _Part("user", "result", text_of(block.get("content")), text_at(block, "tool_use_id"))
        elif text := text_of(block):
            yield _Part(source, "text", text)


def _messages_answer(events: list[Mapping[str, Any]]) -> Iterator[_Part]:
    blocks: dict[Any, dict[str, Any]] = {}
    for event in events:
        if isinstance(event.get("content"), list):
            yield from _blocks(event["content"], "agent")
        place, delta = event.get("index"), at(event, "delta")
        if isinstance(place, int) and isinstance(begun := event.get("content_block"), Mapping):
            blocks[place] = {**begun, "json": ""}
        if isinstance(place, int) and (block := blocks.get(place)) is not None:
            for key in ("text", "thinking"):
                if piece := text_at(delta, key):
                    block[key] = text_at(block, key) + piece
            block["json"] += text_at(delta, "partial_json")
    for block in blocks.values():
        given = {"input": parsed(block["json"])} if block["json"] else {}
        yield from _blocks([{**block, **given}], "agent")


# --- Google, generateContent


def _generate_request(request: Mapping[str, Any]) -> Iterator[_Part]:
    for key in ("systemInstruction", "system_instruction"):
        yield from _google_parts(at(request, key, "parts"), "system")
    for content in items_at(request, "contents"):
        yield from _google_parts(content.get("parts"), _GOOGLE_ROLES.get(text_at(content, "role"), "user"))


def _google_parts(parts: Any, source: Source) -> Iterator[_Part]:
    for part in items_at({"parts": [parts] if isinstance(parts, Mapping) else parts}, "parts"):
        if isinstance(call := part.get("functionCall"), Mapping):
            yield _Part("agent", "call", "", text_at(call, "id"), text_at(call, "name"), call.get("args"))
        elif isinstance(result := part.get("functionResponse"), Mapping):
            text = json.dumps(result.get("response"), ensure_ascii=False)
            yield _Part("user", "result", text, text_at(result, "id"), text_at(result, "name"))
        elif text := text_of(part):
            yield _Part(source, "reasoning" if source == "agent" and part.get("thought") else "text", text)
        elif kind := next((name for name in ("inlineData", "fileData") if name in part), None):
            yield _Part(source, "text", f"[{kind}]")


def _generate_answer(events: list[Mapping[str, Any]]) -> Iterator[_Part]:
    """Join the texts of a stream's events, which are parts of one message."""
    text = ""
    for event in events:
        for part in _google_parts(at(next(items_at(event, "candidates"), None), "content", "parts"), "agent"):
            if part.kind == "text":
                text += part.text
                continue
            if text:
                yield _Part("agent", "text", text)
                text = ""
            yield part
    if text:
        yield _Part("agent", "text", text)


_REQUESTS = {
    "chat": _chat_request,
    "responses": _responses_request,
    "messages": _messages_request,
    "generate": _generate_request,
}
_ANSWERS = {
    "chat": _chat_answer,
    "responses": _responses_answer,
    "messages": _messages_answer,
    "generate": _generate_answer,
}
