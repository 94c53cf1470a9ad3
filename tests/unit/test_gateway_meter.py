"""The same traffic gives the same usage on all wires, however its bytes are cut."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.gateway import meter
from pytest_benchjobs.gateway.meter import Meter, Reading, UsageRemover
from pytest_benchjobs.gateway.tokens import Tokens
from pytest_benchjobs.gateway.wires import Kind

# One call, as each wire reports it: 1230 sent, of which 200 came from a cache and 30 went to one; 40 back, 5 unseen.
USAGE: dict[Kind, dict[str, Any]] = {
    Kind.MESSAGES: {
        "input_tokens": 1000, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 30,
        "output_tokens": 40, "output_tokens_details": {"thinking_tokens": 5},
    },
    Kind.CHAT: {
        "prompt_tokens": 1230,
        "completion_tokens": 40,
        "prompt_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 30},
        "completion_tokens_details": {"reasoning_tokens": 5},
    },
    Kind.RESPONSES: {
        "input_tokens": 1230,
        "output_tokens": 40,
        "input_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 30},
        "output_tokens_details": {"reasoning_tokens": 5},
    },
    Kind.GENERATE: {
        "promptTokenCount": 1230, "cachedContentTokenCount": 200, "candidatesTokenCount": 35,
        "thoughtsTokenCount": 5,
    },
}  # fmt: skip
TOKENS = Tokens(input=1230, output=40, cached=200, cache_write=30, reasoning=5)


def expected(kind: Kind) -> Tokens:
    # One of the wires has no word for what went to a cache: unknown, not 0.
    return Tokens(1230, 40, 200, None, None, 5) if kind is Kind.GENERATE else TOKENS


def _sse(*events: Any, names: bool = False) -> bytes:
    lines = []
    for event in events:
        if names:
            lines.append(f"event: {event['type']}\n".encode())
        lines.append(
            b"data: " + (event if isinstance(event, bytes) else json.dumps(event).encode()) + b"\n\n"
        )
    return b"".join(lines)


STREAMS = {
    Kind.MESSAGES: _sse(
        {
            "type": "message_start",
            "message": {"model": "m", "usage": {**USAGE[Kind.MESSAGES], "output_tokens": 1}},
        },
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": 'héllo "usage" \n data: {'}},
        {
            "type": "message_delta",
            "usage": {"output_tokens": 40, "output_tokens_details": {"thinking_tokens": 5}},
        },
        {"type": "message_stop"},
        names=True,
    ),
    Kind.CHAT: _sse(
        {"model": "m", "choices": [{"delta": {"content": "hé"}}], "usage": None},
        {"model": "m", "choices": [{"delta": {}, "finish_reason": "stop"}]},
        {"model": "m", "choices": [], "usage": USAGE[Kind.CHAT]},
        b"[DONE]",
    ),
    Kind.RESPONSES: _sse(
        {"type": "response.created", "response": {"model": "m", "usage": None, "error": None}},
        {"type": "response.output_text.delta", "delta": "hé"},
        {
            "type": "response.completed",
            "response": {"model": "m", "usage": USAGE[Kind.RESPONSES], "error": None},
        },
        names=True,
    ),
    Kind.GENERATE: _sse(
        {"candidates": [{"content": {}}], "modelVersion": "m", "usageMetadata": {"promptTokenCount": 1230}},
        {
            "candidates": [{"finishReason": "STOP"}],
            "modelVersion": "m",
            "usageMetadata": USAGE[Kind.GENERATE],
        },
    ).replace(b"\n", b"\r\n"),
}
WHOLES = {
    Kind.MESSAGES: json.dumps({"type": "message", "model": "m", "usage": USAGE[Kind.MESSAGES]}),
    Kind.CHAT: json.dumps({"model": "m", "choices": [{"message": {}}], "usage": USAGE[Kind.CHAT]}),
    Kind.RESPONSES: json.dumps(
        {"object": "response", "model": "m", "error": None, "usage": USAGE[Kind.RESPONSES]}
    ),
    Kind.GENERATE: json.dumps(
        [
            {"candidates": [], "modelVersion": "m", "usageMetadata": {"promptTokenCount": 1}},
            {"candidates": [{"finishReason": "STOP"}], "usageMetadata": USAGE[Kind.GENERATE]},
        ],
        indent=1,
    ),
}
KINDS = sorted(STREAMS, key=lambda kind: kind.value)


def _read(kind: Kind, pieces: list[bytes], *, streamed: bool = True) -> Reading:
    meter = Meter(kind, streamed)
    for piece in pieces:
        meter.feed(piece)
    return meter.finish()


def _cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(marks)]


@given(st.sampled_from(KINDS), st.lists(st.integers(0, 5000), max_size=12))
def test_a_stream_means_the_same_however_it_is_cut(kind: Kind, places: list[int]) -> None:
    reading = _read(kind, _cut(STREAMS[kind], places))
    assert reading.tokens(kind) == expected(kind)
    assert (reading.model, reading.finished, reading.error) == ("m", True, None)


@given(st.sampled_from(KINDS), st.lists(st.integers(0, 5000), max_size=12))
def test_an_answer_in_one_piece_means_the_same_as_a_stream(kind: Kind, places: list[int]) -> None:
    reading = _read(kind, _cut(WHOLES[kind].encode(), places), streamed=False)
    assert reading.tokens(kind) == expected(kind)
    assert reading.model == "m"


@given(st.sampled_from(KINDS), st.integers(0, 5000))
def test_of_a_stream_that_broke_off_what_was_reported_counts_and_nothing_else(
    kind: Kind, length: int
) -> None:
    part = STREAMS[kind][: length % len(STREAMS[kind])]
    tokens = _read(kind, [part]).tokens(kind)
    for name in ("input", "output", "cached", "reasoning"):
        assert getattr(tokens, name) in (None, 0, 1, getattr(TOKENS, name)), name


@given(st.sampled_from(KINDS), st.binary(max_size=300), st.booleans())
def test_nonsense_has_no_usage(kind: Kind, data: bytes, streamed: bool) -> None:
    assert _read(kind, [b"data: ", data], streamed=streamed).tokens(kind) == Tokens()


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        (Kind.MESSAGES, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}),
        (Kind.CHAT, {"error": {"message": "busy"}}),
        (Kind.RESPONSES, {"type": "response.failed", "response": {"error": {"code": "x", "message": "busy"}}}),
        (Kind.RESPONSES, {"type": "error", "code": "x", "message": "busy"}),
        (Kind.GENERATE, {"error": {"code": 503, "message": "busy"}}),
    ],
)  # fmt: skip
def test_an_error_in_the_middle_of_an_answer_is_seen(kind: Kind, event: dict[str, Any]) -> None:
    reading = _read(kind, [STREAMS[kind][:100].rpartition(b"\n")[0], b"\n\n", _sse(event)])
    assert reading.error is not None
    assert reading.error["message"] == "busy"


@given(st.lists(st.integers(0, 5000), max_size=12), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_only_the_event_nobody_asked_for_is_taken_out(places: list[int], end: bytes) -> None:
    words = _sse({"model": "m", "choices": [{"delta": {"content": "usage: []"}}], "usage": None}).replace(
        b"\n", end
    )
    usage = _sse({"model": "m", "choices": [], "usage": USAGE[Kind.CHAT]}).replace(b"\n", end)
    done = b"data: [DONE]" + 2 * end
    remover = UsageRemover()
    out = [remover.feed(piece) for piece in _cut(b": comment" + 2 * end + words + usage + done, places)]
    assert b"".join([*out, remover.finish()]) == b": comment" + 2 * end + words + done


@pytest.mark.parametrize(("room", "found"), [(0, Tokens(input=9)), (-1, Tokens())])
def test_an_answer_in_pieces_is_held_up_to_a_size_only(
    monkeypatch: pytest.MonkeyPatch, room: int, found: Tokens
) -> None:
    body = b'{"choices": [{}], "usage": {"prompt_tokens": 9}}'
    monkeypatch.setattr(meter, "LONGEST_ANSWER", len(body) + room)
    for pieces in ([body], [body[:30], body[30:]], [body[:1], body[1:30], body[30:]]):
        reading = _read(Kind.CHAT, pieces, streamed=False)
        assert (reading.tokens(Kind.CHAT), reading.finished) == (found, found.input == 9)


@pytest.mark.parametrize(("room", "found"), [(0, Tokens(input=9, output=2)), (-1, Tokens(output=2))])
def test_an_event_in_pieces_is_held_up_to_a_size_only(
    monkeypatch: pytest.MonkeyPatch, room: int, found: Tokens
) -> None:
    line = b'data: {"usage": {"prompt_tokens": 9}}'
    monkeypatch.setattr(meter, "LONGEST_ANSWER", len(line) + room)
    more = b'data: {"usage":{"output_tokens":2}}\n\n'
    assert _read(Kind.CHAT, [line[:20], line[20:], b"\n\n", more[:9], more[9:]]).tokens(Kind.CHAT) == found


def test_an_event_of_many_lines_is_held_up_to_a_size_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "LONGEST_ANSWER", 100)
    stream = b'data: {"usage":\n' + b"data:    7\n" * 120 + b'data: {"prompt_tokens": 9}}\n\n'
    later = b'data: {"usage":\ndata: {"completion_tokens": 2}}\n\n'
    assert _read(Kind.CHAT, [stream, later]).tokens(Kind.CHAT) == Tokens(output=2)


def test_an_event_without_an_end_is_held_up_to_a_size_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "LONGEST_ANSWER", 1000)
    remover = UsageRemover()
    passed = [len(remover.feed(b"x" * 300)) for _ in range(7)]
    assert passed == [0, 0, 0, 1200, 0, 0, 0]
    assert len(remover.finish()) == 900


def _refusal(kind: Kind, event: Any) -> str | None:
    meter = Meter(kind, streamed=False)
    meter.feed(json.dumps(event).encode())
    return meter.finish().refused


_REFUSALS = ("refusal", "content_filter", "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "RECITATION")


@pytest.mark.parametrize(
    "why", [*_REFUSALS, "IMAGE_SAFETY", "stop", "STOP", "end_turn", "max_tokens", None, 7]
)
def test_an_answer_is_a_refusal_only_if_it_ended_as_one(why: object) -> None:
    said = why if why in (*_REFUSALS, "IMAGE_SAFETY") else None
    for key in ("delta", "message"):
        assert _refusal(Kind.MESSAGES, {"type": "message", key: {"stop_reason": why}}) == said
    assert _refusal(Kind.MESSAGES, {"type": "message", "stop_reason": why}) == said
    assert _refusal(Kind.CHAT, {"choices": [{"finish_reason": "stop"}, {"finish_reason": why}]}) == said
    assert _refusal(Kind.RESPONSES, {"incomplete_details": {"reason": why}}) == said
    assert _refusal(Kind.RESPONSES, {"response": {"incomplete_details": {"reason": why}}}) == said
    assert _refusal(Kind.GENERATE, {"candidates": [7, {"finishReason": why}]}) == said


def test_a_refusal_in_words_is_one_however_it_ended() -> None:
    for part in ("delta", "message"):
        for words, said in (("no", "refusal"), (None, None)):
            choice = {part: {"refusal": words}, "finish_reason": "stop"}
            assert _refusal(Kind.CHAT, {"choices": [choice]}) == said
    assert _refusal(Kind.RESPONSES, {"output": [{"content": [{"type": "refusal"}]}]}) == "refusal"
    assert _refusal(Kind.RESPONSES, {"output": [{"content": [{"type": "output_text"}]}]}) is None
    assert _refusal(Kind.GENERATE, {"promptFeedback": {"blockReason": "X" * 60}}) == "X" * 50
    assert _refusal(Kind.GENERATE, {"promptFeedback": {}}) is None


@pytest.mark.parametrize(
    ("kind", "ended", "choices", "whole"),
    [
        (Kind.CHAT, [0], 1, True),
        (Kind.CHAT, [None], 1, True),
        (Kind.CHAT, [0, 0], 2, False),
        (Kind.CHAT, [1, 0], 2, True),
        (Kind.GENERATE, [0], 2, False),
        (Kind.GENERATE, [0, 1], 2, True),
    ],
)
def test_an_answer_is_whole_when_all_its_choices_have_ended(
    kind: Kind, ended: list[int | None], choices: int, whole: bool
) -> None:
    meter = Meter(kind, True, choices)
    for index in ended:
        end = {"index": index, "finish_reason": "stop", "finishReason": "STOP"}
        event = {"choices": [end], "candidates": [end]}
        meter.feed(b"data: " + json.dumps(event).encode() + b"\n\n")
    assert meter.finish().whole is whole


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize(
    ("kind", "event"),
    [
        (Kind.MESSAGES, {"type": "message_stop"}),
        (Kind.MESSAGES, {"type": "message_delta", "delta": {"stop_reason": "refusal"}}),
        (Kind.MESSAGES, {"usage": {"output_tokens": 1}}),
        (Kind.CHAT, {"choices": [{"finish_reason": "stop"}]}),
        (Kind.CHAT, {"choices": [{"finish_reason": "content_filter"}]}),
        (Kind.CHAT, {"choices": [{"delta": {"refusal": "no"}}]}),
        (Kind.CHAT, {"x_groq": {"usage": {"prompt_tokens": 1}}}),
        (Kind.RESPONSES, {"type": "response.completed"}),
        (Kind.RESPONSES, {"type": "response.failed"}),
        (Kind.RESPONSES, {"type": "response.incomplete"}),
        (Kind.RESPONSES, {"response": {"incomplete_details": {"reason": "content_filter"}}}),
        (Kind.RESPONSES, {"type": "response.refusal.delta", "delta": "no"}),
        (Kind.RESPONSES, {"type": "error", "message": "broken"}),
        (Kind.GENERATE, {"candidates": [{"finishReason": "STOP"}]}),
        (Kind.GENERATE, {"candidates": [{"finishReason": "SAFETY"}]}),
        (Kind.GENERATE, {"promptFeedback": {"blockReason": "SAFETY"}}),
    ],
)
def test_an_event_that_tells_something_is_read(
    kind: Kind, event: dict[str, Any], separators: tuple[str, str]
) -> None:
    reader = Meter(kind, True)
    reader.reading.model = "m-1"
    reader.feed(b"data: " + json.dumps(event, separators=separators).encode() + b"\n\n")
    assert reader.finish() != Reading(model="m-1")
