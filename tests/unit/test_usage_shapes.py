"""Usage in the forms in which endpoints report it: exact to the token and millionth of a dollar, or unknown, with the reason.

Prices are public ones, in USD per million tokens, so a token of that price costs as many millionths of a dollar.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from pytest_benchjobs.gateway.client import Gateway, Terms, Upstream, open_route
from pytest_benchjobs.gateway.meter import Meter
from pytest_benchjobs.gateway.tokens import Tokens
from pytest_benchjobs.gateway.wires import Kind

from .gateways import EVENTS, Agent, Model, Said, agent, running

MESSAGES, CHAT, RESPONSES, GENERATE = Kind.MESSAGES, Kind.CHAT, Kind.RESPONSES, Kind.GENERATE
PATHS = {
    MESSAGES: "/anthropic/v1/messages",
    CHAT: "/openai/v1/chat/completions",
    RESPONSES: "/openai/v1/responses",
    GENERATE: "/google/v1beta/models/{}:streamGenerateContent?alt=sse",
}
SILENT, FAILED, CUT, UNKNOWN = "did not report", "ended with an error", "did not finish", ""
NO_USAGE = (None,) * 5
JSON = dict[str, Any]


class Shape(NamedTuple):
    name: str
    kind: Kind
    model: str
    answer: bytes
    tokens: tuple[int | None, ...]
    """input, output, cached, cache_write, reasoning"""
    cost: float | str
    """Millionths of a dollar, or the beginning of the reason why it is unknown."""
    asked: JSON = {}


def sse(*events: Any, end: bytes = b"\n") -> bytes:
    said = (event if isinstance(event, bytes) else json.dumps(event).encode() for event in events)
    return b"".join(b"data: " + one + end + end for one in said)


def c(*chunks: JSON, model: str = "gpt-5", end: bytes = b"\n", **more: Any) -> bytes:
    """A chat stream; a chunk without choices has none."""
    words = {"model": model, "choices": [{"index": 0, "delta": {"content": "hi"}}], **more}
    stop = {"model": model, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], **more}
    rest = ({"model": model, "choices": [], **more, **chunk} for chunk in chunks)
    return sse(words, stop, *rest, b"[DONE]", end=end)


def u(*usages: Any, **more: Any) -> bytes:
    """A chat stream that reports these, one after another."""
    return c(*({"usage": usage} for usage in usages), **more)


def w(usage: Any, model: str = "gpt-5", **more: Any) -> bytes:
    """A chat answer in one piece."""
    choice = {"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}
    return json.dumps({"model": model, "choices": [choice], "usage": usage, **more}).encode()


def a(
    start: Any,
    *deltas: Any,
    model: str = "claude-sonnet-4-5",
    end: tuple[JSON, ...] = ({"type": "message_stop"},),
) -> bytes:
    """A stream of Anthropic's."""
    begun = {"type": "message_start", "message": {"model": model, "content": [], "usage": start}}
    return sse(begun, *({"type": "message_delta", "delta": {}, "usage": one} for one in deltas), *end)


def aw(usage: Any, model: str = "claude-sonnet-4-5") -> bytes:
    return json.dumps(
        {"type": "message", "model": model, "content": [{"type": "text", "text": "hi"}], "usage": usage}
    ).encode()


def r(usage: Any, end: str = "completed", model: str = "gpt-5", **more: Any) -> bytes:
    """A stream of Responses."""
    return sse(
        {"type": "response.created", "response": {"model": model, "usage": None, "service_tier": "auto"}},
        {"type": "response.output_text.delta", "delta": "hi"},
        {"type": f"response.{end}", "response": {"model": model, "usage": usage, **more}},
    )


def g(*usages: Any, model: str = "gemini-2.5-flash", **last: Any) -> bytes:
    """A stream of Google's."""
    events: list[JSON] = [
        {
            "candidates": [{"content": {"parts": [{"text": "hi"}]}}],
            "modelVersion": model,
            "usageMetadata": usage,
        }
        for usage in usages
    ]
    events[-1] |= last or {"candidates": [{"finishReason": "STOP"}]}
    return sse(*events)


def chat(sent: Any = 1000, back: Any = 50, cached: Any = None, thought: Any = None, **more: Any) -> JSON:
    usage = {"prompt_tokens": sent, "completion_tokens": back, **more}
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    if thought is not None:
        usage["completion_tokens_details"] = {"reasoning_tokens": thought}
    return usage


def resp(sent: int = 1000, back: int = 50, cached: int = 200, thought: int = 30) -> JSON:
    details = {
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens_details": {"reasoning_tokens": thought},
    }
    return {"input_tokens": sent, "output_tokens": back, **details}


def claude(sent: Any = 1000, read: Any = 200, written: Any = 30, back: Any = 40, **more: Any) -> JSON:
    return {
        "input_tokens": sent, "cache_read_input_tokens": read, "cache_creation_input_tokens": written,
        "output_tokens": back, **more,
    }  # fmt: skip


def ttl(short: Any, hour: Any) -> JSON:
    return {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": hour}


def gem(sent: Any = 1000, back: Any = 50, thought: Any = None, cached: Any = None, **more: Any) -> JSON:
    usage = {"promptTokenCount": sent, "candidatesTokenCount": back, "thoughtsTokenCount": thought, **more}
    return {**usage, "cachedContentTokenCount": cached}


def by(**counts: int) -> list[JSON]:
    return [{"modality": name.upper(), "tokenCount": count} for name, count in counts.items()]


ZEROS = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
NULLS = {"prompt_tokens": None, "completion_tokens": None, "prompt_tokens_details": None}
# gpt-5: 1.25 in, 10 out, 0.125 cached. claude-sonnet-4-5: 3, 15, 0.3; writes 3.75, for an hour 6; twice above 200,000.
# gemini-2.5-flash: 0.3, 2.5, 0.03; audio 1, cached 0.1.
PLAIN, CACHED = (1000, 50, None, None, None), (1000, 50, 200, None, None)
THOUGHT = (1000, 50, 200, None, 30)
SONNET, KEPT = (1230, 40, 200, 30, None), (2400, 50, 300, 100, None)
FLASH = (1000, 50, None, None, None)
DETAILS = chat(cached=200)
BROKEN = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
COMPACTED = [
    {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3500},
    {"type": "message", "input_tokens": 23_000, "output_tokens": 1000},
]
SPLIT = claude(2000, 300, 100, 50, cache_creation=ttl(60, 40))
SPLIT_COST = 2000 * 3 + 300 * 0.3 + 60 * 3.75 + 40 * 6 + 50 * 15
AUDIO = {
    "prompt_tokens_details": {"audio_tokens": 900, "text_tokens": 100},
    "completion_tokens_details": {"audio_tokens": 450, "text_tokens": 50},
}
KIMI = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": chat(cached_tokens=100)}]}
TWO = {
    "choices": [
        {"index": at, "delta": {}, "finish_reason": "stop", "usage": chat(1000, 50 + at)} for at in (0, 1)
    ]
}
LONG = "gpt-5.5"

CHAT_SHAPES = [
    ("last chunk", u(chat()), PLAIN, 1750),
    ("one piece", w(chat()), PLAIN, 1750),
    ("null in each chunk", c({}, {"usage": chat(cached=200)}, usage=None), CACHED, 1525),
    ("growing", u(chat(1000, 1), chat(1000, 20), chat(1000, 50)), PLAIN, 1750),
    ("twice the same", u(chat(), chat()), PLAIN, 1750),
    ("later zeros", u(chat(), ZEROS), PLAIN, 1750),
    ("zeros first", u(ZEROS, chat()), PLAIN, 1750),
    ("zeros alone are what it used", u(ZEROS), (0, 0, None, None, None), 0),
    ("later nulls", u(DETAILS, NULLS), CACHED, 1525),
    ("later empty usage", u(DETAILS, {}), CACHED, 1525),
    ("later empty details", u(DETAILS, {**chat(), "prompt_tokens_details": {}}), CACHED, 1525),
    ("later nulls in details", u(DETAILS, chat(cached=None) | {"prompt_tokens_details": {"cached_tokens": None}}), CACHED, 1525),
    ("later zeros in details", u(DETAILS, chat(cached=0)), CACHED, 1525),
    ("later usage of another type", u(DETAILS, "none", [], 7, {"prompt_tokens": "many", "prompt_tokens_details": []}), CACHED, 1525),
    ("parts in different chunks", u({"prompt_tokens": 1000}, {"completion_tokens": 50}), PLAIN, 1750),
    ("details before the counts", u({"prompt_tokens_details": {"cached_tokens": 200}}, chat()), CACHED, 1525),
    ("two names of a count", u({**chat(), "input_tokens": 0, "output_tokens": 0}), PLAIN, 1750),
    ("names of Responses", u({"input_tokens": 1000, "output_tokens": 50}), PLAIN, 1750),
    ("fractions of 0", u(chat(1000.0, 50.0)), PLAIN, 1750),
    ("a half token is none", u(chat(1000.5, 50)), (None, 50, None, None, None), SILENT),
    ("negative counts are none", u(chat(-1, 50)), (None, 50, None, None, None), SILENT),
    ("true is no count", u(chat(True, 50)), (None, 50, None, None, None), SILENT),
    ("a number beyond all counts", u(chat(1 << 60, 50)), (None, 50, None, None, None), SILENT),
    ("the largest count, and one more", u(chat((1 << 53) - 1, 1 << 53)), ((1 << 53) - 1, None, None, None, None), SILENT),
    ("a text is no count", u(chat(-1, "7") | {"prompt_tokens_details": []}), NO_USAGE, SILENT),
    ("two names, unlike", u({**chat(), "input_tokens": 2000}), (2000, 50, None, None, None), 3000),
    ("two names, one for a text", u({**chat("1"), "input_tokens": 1000}), PLAIN, 1750),
    ("usage of another type", u("none", []), NO_USAGE, SILENT),
    ("no usage", c(), NO_USAGE, SILENT),
    ("no usage, in one piece", w(None), NO_USAGE, SILENT),
    ("empty usage", u({}), NO_USAGE, SILENT),
    ("only the prompt", u({"prompt_tokens": 1000}), (1000, None, None, None, None), SILENT),
    ("only the prompt, and the total", u({"prompt_tokens": 1000, "total_tokens": 1000}), (1000, 0, None, None, None), 1250),
    ("only the total", u({"total_tokens": 1050}), NO_USAGE, SILENT),
    ("prompt and total", u({"prompt_tokens": 1000, "total_tokens": 1050}), PLAIN, 1750),
    ("answer and total", u({"completion_tokens": 50, "total_tokens": 1050}), PLAIN, 1750),
    ("reasoning inside", u(chat(thought=30, total_tokens=1050)), (1000, 50, None, None, 30), 1750),
    ("reasoning outside (xAI)", u(chat(32, 9, thought=94, total_tokens=135)), (32, 103, None, None, 94), 1070),
    ("reasoning outside, no total", u(chat(32, 9, thought=94)), (32, 103, None, None, 94), 1070),
    ("less reasoning than answer, outside", u(chat(1000, 50, thought=30, total_tokens=1080)), (1000, 80, None, None, 30), 2050),
    ("reasoning outside, unnamed (Gemini's OpenAI API)", u(chat(1000, 50, total_tokens=1080)), (1000, 80, None, None, None), 2050),
    ("reasoning beside the details", u(chat(reasoning_tokens=30)), (1000, 50, None, None, 30), 1750),
    ("cached beside the details (Kimi)", u(chat(cached_tokens=200)), CACHED, 1525),
    ("cached beside and in them", u(chat(cached=0, cached_tokens=200)), CACHED, 1525),
    ("hits and misses (DeepSeek)", u(chat(prompt_cache_hit_tokens=200, prompt_cache_miss_tokens=800)), CACHED, 1525),
    ("names of Anthropic (LiteLLM)", u(chat(cache_read_input_tokens=200)), CACHED, 1525),
    ("more cached than sent", u(chat(1000, 50, cached=2000)), (3000, 50, 2000, None, None), 1250 + 250 + 500),
    ("cached outside, by the total", u(chat(1000, 50, cached=200, total_tokens=1250)), (1200, 50, 200, None, None), 1250 + 25 + 500),
    ("written to a cache (OpenRouter)", u({**chat(), "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 100}}), (1000, 50, 0, 100, None), 1750),
    ("predictions are part of it", u({**chat(), "completion_tokens_details": {"accepted_prediction_tokens": 9, "rejected_prediction_tokens": 8}}), PLAIN, 1750),
    ("details that are null (vLLM)", u({**chat(), "prompt_tokens_details": None, "total_tokens": 1050}), PLAIN, 1750),
    ("times beside the counts (Groq)", u(chat(queue_time=0.01, prompt_time=1e-3, total_tokens=1050, total_time=2)), PLAIN, 1750),
    ("cost beside the counts (OpenRouter)", u(chat(cost=0.5, is_byok=False, cost_details={"upstream_inference_cost": None})), PLAIN, 1750),
    ("in x_groq", c({"x_groq": {"id": "r", "usage": chat()}}), PLAIN, 1750),
    ("in x_groq, null beside", c({"usage": None, "x_groq": {"usage": chat()}}), PLAIN, 1750),
    ("in x_groq, and zeros beside", c({"usage": ZEROS, "x_groq": {"usage": chat()}}), PLAIN, 1750),
    ("in a choice (Kimi)", c(KIMI), (1000, 50, 100, None, None), 900 * 1.25 + 100 * 0.125 + 500),
    ("in a choice and beside", c(KIMI, {"usage": chat(1000, 50)}), (1000, 50, 100, None, None), 900 * 1.25 + 100 * 0.125 + 500),
    ("in each of two choices", c(TWO), (1000, 101, None, None, None), 1250 + 1010),
    ("three answers", u(chat(1000, 150)), (1000, 150, None, None, None), 2750),
    ("the word in the text only", c({"choices": [{"delta": {"content": '"usage": {"prompt_tokens": 9}'}}]}, {"usage": chat()}), PLAIN, 1750),
    ("in arguments of a tool", c({"choices": [{"delta": {"tool_calls": [{"function": {"arguments": '{"usage":{"prompt_tokens":9}}'}, "usage": {"prompt_tokens": 9999}}]}}]}, {"usage": chat()}), PLAIN, 1750),
    ("before the words", sse({"model": "gpt-5", "choices": [], "usage": chat()}, {"choices": [{"delta": {}, "finish_reason": "stop"}]}, b"[DONE]"), PLAIN, 1750),
    ("CRLF", u(chat(), end=b"\r\n"), PLAIN, 1750),
    ("CR alone", u(chat(), end=b"\r"), PLAIN, 1750),
    ("no empty lines", u(chat()).replace(b"\n\n", b"\n"), PLAIN, 1750),
    ("one event over several lines of data", c().replace(b"data: [DONE]", sse({"model": "gpt-5", "choices": [], "usage": chat()}).strip().replace(b', "usage"', b',\ndata: "usage"') + b"\n\ndata: [DONE]"), PLAIN, 1750),
    ("comments and other fields", b": ping\n\nid: 1\nretry: 9\n" + u(chat()), PLAIN, 1750),
    ("no space behind the colon", u(chat()).replace(b"data: ", b"data:"), PLAIN, 1750),
    ("a byte order mark", b"\xef\xbb\xbf" + sse({"model": "gpt-5", "choices": [], "usage": chat()}) + c(), PLAIN, 1750),
    ("empty lines before the answer", b"\n\n  \n" + w(chat()), PLAIN, 1750),
    ("no end of the last line", u(chat())[:-2], PLAIN, 1750),
    ("one byte that is no UTF-8", w(chat()).replace(b"hi", b"h\xff"), PLAIN, 1750),
    ("one byte that is no UTF-8, in a stream", u(chat(), note="#").replace(b"#", b"\xff"), PLAIN, 1750),
    ("an event that is no JSON", u(chat()).replace(b"data: [DONE]", b"data: {oops\n\ndata: [DONE]"), PLAIN, 1750),
    ("cut off", u(chat())[:-14], PLAIN, 1750),
    ("cut off before the usage", c()[:90], NO_USAGE, CUT),
    ("standard tier, told", u(chat(), service_tier="default"), PLAIN, 1750),
    ("priority, told", u(chat(cached=200), service_tier="priority"), CACHED, 3050),
    ("flex, told", u(chat(), service_tier="flex"), PLAIN, 875),
    ("a tier without a price", u(chat(), service_tier="scale"), PLAIN, "no price for gpt-5 (scale)"),
    ("audio", u(chat(1000, 500) | AUDIO, model="gpt-audio"), (1000, 500, None, None, None), 58_350),
    ("audio in one piece", w(chat(1000, 500) | AUDIO, model="gpt-audio"), (1000, 500, None, None, None), 58_350),
    ("audio that has no price", u(chat(1000, 500) | AUDIO, model="gpt-5"), (1000, 500, None, None, None), "no price for input_audio tokens of gpt-5"),
    ("no audio at all", u(chat() | {"prompt_tokens_details": {"audio_tokens": 0, "image_tokens": 0}}), PLAIN, 1750),
    ("images sent, at the price of text", u(chat() | {"prompt_tokens_details": {"image_tokens": 200, "text_tokens": 800}}), PLAIN, 1750),
    ("images made, without a price", u(chat() | {"completion_tokens_details": {"image_tokens": 20}}), PLAIN, "no price for output_image tokens of gpt-5"),
    ("at the limit of a price range", u(chat(272_000, 50), model=LONG), (272_000, 50, None, None, None), 272_000 * 5 + 50 * 30),
    ("above it", u(chat(272_001, 50), model=LONG), (272_001, 50, None, None, None), 272_001 * 10 + 50 * 45),
    ("an error without usage", c({"error": {"code": 502, "message": "busy"}}), NO_USAGE, FAILED),
    ("an error after usage", u(chat())[:-14] + sse({"error": {"code": 502, "message": "busy"}}), PLAIN, FAILED),
    ("an error with usage", c({"error": {"message": "busy"}, "usage": chat()}), PLAIN, 1750),
    ("usage after an error", c({"error": {"message": "busy"}}, {"usage": chat()}), PLAIN, 1750),
    ("zeros with an error", c({"error": {"message": "busy"}, "usage": ZEROS}), (0, 0, None, None, None), FAILED),
    ("an error in words", c({"error": "quota exceeded"}), NO_USAGE, FAILED),
    ("an error in a choice (OpenRouter)", c({"choices": [{"error": {"code": 502, "message": "busy"}, "finish_reason": "error"}]}), NO_USAGE, FAILED),
    ("an error in x_groq", c({"x_groq": {"error": "busy"}}), NO_USAGE, FAILED),
    ("an object that is an error (vLLM)", sse({"model": "gpt-5", "choices": []}, {"object": "error", "message": "busy", "code": 400}), NO_USAGE, FAILED),
    ("an error in one piece", json.dumps({"error": {"code": 502, "message": "busy"}}).encode(), NO_USAGE, UNKNOWN),
    ("a refusal without usage", c({"choices": [{"delta": {}, "finish_reason": "content_filter"}]}), NO_USAGE, "were refused"),
    ("a refusal with usage", c({"choices": [{"delta": {}, "finish_reason": "content_filter"}]}, {"usage": chat()}), PLAIN, 1750),
]  # fmt: skip
MESSAGES_SHAPES = [
    ("stream", a(claude(back=1), {"output_tokens": 40}), SONNET, 3772.5),
    ("one piece", aw(claude()), SONNET, 3772.5),
    ("all again at the end", a(claude(back=1), claude()), SONNET, 3772.5),
    ("zeros at the end", a(claude(back=1), claude(0, 0, 0, 40)), SONNET, 3772.5),
    ("nulls at the end", a(claude(back=1), claude(None, None, None, 40)), SONNET, 3772.5),
    ("zeros at the start", a(claude(0, 0, 0, 0), claude()), SONNET, 3772.5),
    ("nothing at the start", a(None, claude()), SONNET, 3772.5),
    ("growing", a(claude(back=1), {"output_tokens": 10}, {"output_tokens": 40}), SONNET, 3772.5),
    ("less at the end", a(claude(back=40), {"output_tokens": 1}), SONNET, 3772.5),
    ("only the answer", a(None, {"output_tokens": 40}), (None, 40, None, None, None), SILENT),
    ("cache of an hour", a(SPLIT, {"output_tokens": 50}), KEPT, SPLIT_COST),
    ("zeros in its split", a(SPLIT, {"output_tokens": 50, "cache_creation": ttl(0, 0)}), KEPT, SPLIT_COST),
    ("an empty split", a(SPLIT, {"output_tokens": 50, "cache_creation": {}}), KEPT, SPLIT_COST),
    ("nulls in its split", a(SPLIT, {"output_tokens": 50, "cache_creation": ttl(None, None)}), KEPT, SPLIT_COST),
    ("a split that is null", a(SPLIT, {"output_tokens": 50, "cache_creation": None}), KEPT, SPLIT_COST),
    ("a split without a total", a({"input_tokens": 2000, "cache_read_input_tokens": 300, "cache_creation": ttl(60, 40)}, {"output_tokens": 50}), KEPT, SPLIT_COST),
    ("a split with a total of 0", aw(SPLIT | {"cache_creation_input_tokens": 0}), KEPT, SPLIT_COST),
    ("a split that comes later", a(claude(2000, 300, 100, 1), {"output_tokens": 50, "cache_creation": ttl(60, 40)}), KEPT, SPLIT_COST),
    ("a part for an hour", aw(claude(1, 20, 300, 5, cache_creation={"ephemeral_1h_input_tokens": 100})), (321, 5, 20, 300, None), 3 + 6 + 200 * 3.75 + 600 + 75),
    ("zeros alone are what it used", aw(claude(0, 0, 0, 0)), (0, 0, 0, 0, None), 0),
    ("read from a cache alone", aw({"cache_read_input_tokens": 20}), (20, None, 20, None, None), SILENT),
    ("no caches", a({"input_tokens": 1000, "output_tokens": 1}, {"output_tokens": 40}), (1000, 40, None, None, None), 3600),
    ("thinking", aw(claude(output_tokens_details={"thinking_tokens": 5})), (1230, 40, 200, 30, 5), 3772.5),
    ("thinking, then no word of it", a(claude(output_tokens_details={"thinking_tokens": 5}), claude(output_tokens_details={})), (1230, 40, 200, 30, 5), 3772.5),
    ("200,000 tokens", aw(claude(200_000, 0, 0)), (200_000, 40, 0, 0, None), 600_600),
    ("more than those", aw(claude(200_001, 0, 0)), (200_001, 40, 0, 0, None), 200_001 * 6 + 40 * 22.5),
    ("compaction", a(claude(23_000, None, None, 1), {"output_tokens": 1000, "iterations": COMPACTED}, model="claude-opus-5"), (203_000, 4500, None, None, None), 1_127_500),
    ("compaction, in one piece", aw(claude(23_000, None, None, 1000, iterations=COMPACTED), model="claude-opus-5"), (203_000, 4500, None, None, None), 1_127_500),
    ("compaction, said twice", a(claude(23_000, None, None, 1, iterations=COMPACTED[1:]), {"iterations": COMPACTED}, {"iterations": COMPACTED}, model="claude-opus-5"), (203_000, 4500, None, None, None), 1_127_500),
    ("compaction, then no word of it", a(claude(23_000, None, None, 1), {"iterations": COMPACTED}, {"iterations": [], "output_tokens": 1000}, model="claude-opus-5"), (203_000, 4500, None, None, None), 1_127_500),
    ("each step has its own price range", aw(claude(23_000, None, None, 1000, iterations=COMPACTED)), (203_000, 4500, None, None, None), 203_000 * 3 + 4500 * 15),
    ("one step, and more at the top", a(claude(back=1, iterations=[{"type": "message", **claude(back=1)}]), {"output_tokens": 40}), SONNET, 3772.5),
    ("a step of another model", aw(claude(1000, None, None, 40, iterations=[{"type": "message", "input_tokens": 1000, "output_tokens": 40}, {"type": "advisor_message", "model": "claude-opus-5", "input_tokens": 100, "output_tokens": 10}])), (1100, 50, None, None, None), 3600 + 750),
    ("a step of an unknown model", aw(claude(1000, None, None, 40, iterations=[{"type": "advisor_message", "model": "claude-x", "input_tokens": 1, "output_tokens": 1}])), (1000, 40, None, None, None), "no price for claude-x"),
    ("steps without counts", aw(claude(iterations=[{"type": "message"}, 7, None])), SONNET, 3772.5),
    ("standard tier", aw(claude(service_tier="standard", inference_geo="not_available", speed="standard")), SONNET, 3772.5),
    ("fast, told", aw(claude(1000, None, None, 40, speed="fast"), model="claude-opus-5"), (1000, 40, None, None, None), 12_000),
    ("fast, told at the end", a(claude(1000, None, None, 1), {"output_tokens": 40, "speed": "fast"}, model="claude-opus-5"), (1000, 40, None, None, None), 12_000),
    ("fast without a price", aw(claude(speed="fast")), SONNET, "no price for claude-sonnet-4-5 (fast)"),
    ("priority, told", aw(claude(service_tier="priority")), SONNET, "no price for claude-sonnet-4-5 (priority)"),
    ("a region, told", aw(claude(inference_geo="us")), SONNET, "no price for claude-sonnet-4-5 (us)"),
    ("fast in a region", aw(claude(speed="fast", inference_geo="us"), model="claude-opus-5"), SONNET, "no price for claude-opus-5 (fast, us)"),
    ("searches", a(claude(back=1, server_tool_use={"web_search_requests": 0}), {"output_tokens": 40, "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 9}}), SONNET, 3772.5 + 20_000),
    ("searches, and no word of them", a(claude(server_tool_use={"web_search_requests": 1}), {"server_tool_use": {}}, {"server_tool_use": None}), SONNET, 3772.5 + 10_000),
    ("searches without a price", aw(claude(server_tool_use={"web_search_requests": 1}), model="claude-2"), SONNET, "no price for web searches of claude-2"),
    ("an error in the middle", a(claude(back=1), end=(BROKEN,)), (1230, 1, 200, 30, None), FAILED),
    ("an error after the usage", a(claude(back=1), {"output_tokens": 40}, end=(BROKEN,)), SONNET, FAILED),
    ("cut off", a(claude(back=1), end=()), (1230, 1, 200, 30, None), CUT),
    ("usage in the input of a tool", a(claude(back=1), {"output_tokens": 40}).replace(b"data: ", sse({"type": "content_block_start", "content_block": {"type": "tool_use", "input": {"usage": claude(9999)}, "usage": claude(9999)}, "delta": {"usage": claude(9999)}}) + b"data: ", 1), SONNET, 3772.5),
]  # fmt: skip
RESPONSES_SHAPES = [
    ("completed", r(resp()), THOUGHT, 1525),
    ("incomplete", r(resp(), "incomplete", incomplete_details={"reason": "max_output_tokens"}), THOUGHT, 1525),
    ("one piece", json.dumps({"object": "response", "model": "gpt-5", "output": [], "usage": resp()}).encode(), THOUGHT, 1525),
    ("usage on the way, null at the end", sse({"type": "response.in_progress", "response": {"model": "gpt-5", "usage": resp()}}) + r(None), THOUGHT, 1525),
    ("zeros at the end", sse({"type": "response.in_progress", "response": {"model": "gpt-5", "usage": resp()}}) + r(resp(0, 0, 0, 0)), THOUGHT, 1525),
    ("priority, told", r(resp(), service_tier="priority"), THOUGHT, 3050),
    ("priority asked for, standard told", r(resp(), service_tier="default"), THOUGHT, 1525, {"service_tier": "priority"}),
    ("priority asked for", r(resp()).replace(b', "service_tier": "auto"', b""), THOUGHT, 3050, {"service_tier": "priority"}),
    ("flex asked for", r(resp(), service_tier="flex"), THOUGHT, 762.5, {"service_tier": "flex"}),
    ("failed", r(None, "failed", error={"code": "server_error", "message": "busy"}), NO_USAGE, FAILED),
    ("failed, and says what it used", r(resp(), "failed", error={"code": "server_error", "message": "busy"}), THOUGHT, 1525),
    ("failed without a reason", r(None, "failed", error=None), NO_USAGE, FAILED),
    ("failed, in one piece", json.dumps({"object": "response", "model": "gpt-5", "status": "failed", "output": [], "error": {"message": "busy"}, "usage": None}).encode(), NO_USAGE, UNKNOWN),
    ("an error event", sse({"type": "response.created", "response": {"model": "gpt-5"}}, {"type": "error", "code": "server_error", "message": "busy"}), NO_USAGE, FAILED),
    ("no usage", r(None), NO_USAGE, SILENT),
    ("events whose type is no text", sse({"type": {}, "response": {"model": "gpt-5"}}, {"type": ["x"]}) + r(resp()), THOUGHT, 1525),
    ("reasoning beside the answer, by the total", r({**resp(1000, 50, 200, 30), "total_tokens": 1080}), (1000, 80, 200, None, 30), 1825),
    ("usage in an item", sse({"type": "response.output_item.done", "item": {"usage": resp(9999)}}) + r(resp()), THOUGHT, 1525),
    ("cut off", r(resp())[:200], NO_USAGE, CUT),
]  # fmt: skip
GENERATE_SHAPES = [
    ("stream", g(gem(1000, 1), gem()), FLASH, 425),
    ("thoughts", g(gem(1000, 50, 70, totalTokenCount=1120)), (1000, 120, None, None, 70), 600),
    ("later chunk without them", g(gem(1000, 10, 70), gem(1000, 50)), (1000, 120, None, None, 70), 600),
    ("later zeros", g(gem(1000, 50, 70), gem(0, 0, 0)), (1000, 120, None, None, 70), 600),
    ("later nulls", g(gem(1000, 50, 70), gem(None, None, None), {}), (1000, 120, None, None, 70), 600),
    ("thoughts by the total alone", g({"promptTokenCount": 1000, "candidatesTokenCount": 50, "totalTokenCount": 1120}), (1000, 120, None, None, None), 600),
    ("thoughts alone", g({"promptTokenCount": 1000, "thoughtsTokenCount": 120, "totalTokenCount": 1120}), (1000, 120, None, None, 120), 600),
    ("no thoughts alone", g({"thoughtsTokenCount": 0}), (None, 0, None, None, 0), SILENT),
    ("nothing came back", g({"promptTokenCount": 1000}), (1000, 0, None, None, None), 300),
    ("cached", g(gem(1000, 50, None, 200)), CACHED, 800 * 0.3 + 200 * 0.03 + 125),
    ("tools", g(gem(800, 50, toolUsePromptTokenCount=200, totalTokenCount=1050)), FLASH, 425),
    ("modality of text", g(gem(promptTokensDetails=by(text=1000), candidatesTokensDetails=by(text=50))), FLASH, 425),
    ("sound sent", g(gem(1000, 50, promptTokensDetails=by(text=100, audio=900))), FLASH, 100 * 0.3 + 900 + 125),
    ("sound of tools", g(gem(100, 50, toolUsePromptTokenCount=900, toolUsePromptTokensDetails=by(audio=900))), FLASH, 30 + 900 + 125),
    ("sound, said again and zeroed", g(gem(promptTokensDetails=by(text=100, audio=900)), gem(promptTokensDetails=by(audio=0)), gem(promptTokensDetails=[])), FLASH, 1055),
    ("sound from a cache", g(gem(1000, 50, None, 300, promptTokensDetails=by(text=100, audio=900), cacheTokensDetails=by(audio=300))), (1000, 50, 300, None, None), 30 + 600 + 30 + 125),
    ("cached, and not said whether sound", g(gem(1000, 50, None, 300, promptTokensDetails=by(audio=900))), (1000, 50, 300, None, None), "no price for these counts of gemini-2.5-flash"),
    ("images and documents sent", g(gem(1000, 50, promptTokensDetails=by(image=258, document=258, text=484))), FLASH, 425),
    ("an image made", g(gem(1000, 1290, candidatesTokensDetails=by(image=1290)), model="gemini-2.5-flash-image"), (1000, 1290, None, None, None), 39_000),
    ("an image made, without a price", g(gem(1000, 1290, candidatesTokensDetails=by(image=1290))), (1000, 1290, None, None, None), "no price for output_image tokens"),
    ("a modality nobody knows", g(gem(promptTokensDetails=by(smell=9))), FLASH, "no price for input_smell tokens"),
    ("a modality without a name", g(gem(promptTokensDetails=[{"tokenCount": 9}, 7], candidatesTokensDetails=by(modality_unspecified=9))), FLASH, 425),
    ("on demand (Vertex)", g(gem(trafficType="ON_DEMAND")), FLASH, 425),
    ("reserved (Vertex)", g(gem(trafficType="PROVISIONED_THROUGHPUT")), FLASH, "no price for gemini-2.5-flash (provisioned_throughput)"),
    ("priority (Vertex)", g(gem(trafficType="ON_DEMAND_PRIORITY")), FLASH, "no price for gemini-2.5-flash (priority)"),
    ("200,001 tokens", g(gem(200_001), model="gemini-2.5-pro"), (200_001, 50, None, None, None), 200_001 * 2.5 + 50 * 15),
    ("an array in one piece", b"[" + b",".join(one[6:] for one in g(gem(1000, 1), gem()).split(b"\n\n") if one) + b"]", FLASH, 425),
    ("blocked", g(gem(1000, None), promptFeedback={"blockReason": "SAFETY"}), (1000, 0, None, None, None), 300),
    ("an error in the middle", g(gem(1000, 1), {}, error={"code": 503, "message": "busy"}), (1000, 1, None, None, None), FAILED),
]  # fmt: skip
MODELS = {MESSAGES: "claude-sonnet-4-5", CHAT: "gpt-5", RESPONSES: "gpt-5", GENERATE: "gemini-2.5-flash"}
SHAPES = [
    Shape(f"{kind.value}: {row[0]}", kind, MODELS[kind], *row[1:])
    for kind, rows in (
        (CHAT, CHAT_SHAPES),
        (MESSAGES, MESSAGES_SHAPES),
        (RESPONSES, RESPONSES_SHAPES),
        (GENERATE, GENERATE_SHAPES),
    )
    for row in rows
]


def test_the_table_is_as_large_as_it_is_said_to_be() -> None:
    assert len({shape.name for shape in SHAPES}) == len(SHAPES) >= 180


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("gateway"), prices=None, patience=0) as started:
        yield started


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    answering = Model()
    yield answering
    answering.close()


def _streamed(answer: bytes) -> bool:
    return not answer.lstrip().startswith((b"{", b"["))


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.name for shape in SHAPES])
def test_usage_is_exact_or_unknown(gateway: Gateway, model: Model, shape: Shape) -> None:
    streamed = _streamed(shape.answer)
    cut = shape.cost == CUT
    model.says(Said(200, shape.answer, EVENTS if streamed else {}, cut=cut))
    named = json.loads(json.dumps(shape.asked)) | {"model": shape.model, "stream": streamed}
    with agent(gateway, model) as one:
        try:
            one.call(PATHS[shape.kind].format(shape.model), named)
        except (OSError, http.client.HTTPException):
            assert cut
        report = one.route.close()
    used = report.usage
    counts = (
        used.input_tokens,
        used.output_tokens,
        used.cached_tokens,
        used.cache_write_tokens,
        used.reasoning_tokens,
    )
    assert (used.calls, counts) == (1, shape.tokens)
    if isinstance(shape.cost, str):
        assert used.cost_usd is None
        assert [reason.startswith(shape.cost) for reason in report.unknown] == [True], report.unknown
    else:
        assert used.cost_usd == pytest.approx(shape.cost / 1e6, abs=1e-12)
        assert not report.unknown


def test_a_server_of_ones_own_is_not_priced_as_its_models_namesake(gateway: Gateway, model: Model) -> None:
    model.says(Said(200, w(chat())))
    ours = [Upstream(one.endpoint.model_copy(update={"public": False}), one.key) for one in model.upstreams()]
    with open_route(gateway.address, "a/s/1", ours, Terms()) as route:
        assert Agent(route).chat("gpt-5").status == 200
        report = route.close()
    assert (report.usage.input_tokens, report.usage.cost_usd) == (1000, None)
    assert report.unknown == {"no price for gpt-5": 1}


@pytest.mark.parametrize(("tier", "cost"), [("standard", 1750), ("priority", 3500), (None, 3500)])
def test_a_header_tells_the_tier(gateway: Gateway, model: Model, tier: str | None, cost: float) -> None:
    model.says(Said(200, w(chat()), headers={} if tier is None else {"X-Gemini-Service-Tier": tier}))
    with open_route(gateway.address, "a/s/1", model.upstreams(), Terms()) as route:
        assert Agent(route).chat("gpt-5", service_tier="priority").status == 200
        assert route.close().usage.cost_usd == pytest.approx(cost / 1e6)


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.name for shape in SHAPES])
def test_usage_is_the_same_however_its_bytes_come(shape: Shape) -> None:
    for size in (1, 2, 3, 7, 50):
        meter = Meter(shape.kind, _streamed(shape.answer))
        for at in range(0, len(shape.answer), size):
            meter.feed(shape.answer[at : at + size])
        assert _counts(meter.finish().tokens(shape.kind)) == shape.tokens, size


def _counts(tokens: Tokens) -> tuple[int | None, ...]:
    return (tokens.input, tokens.output, tokens.cached, tokens.cache_write, tokens.reasoning)
