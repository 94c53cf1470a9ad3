"""What a call is passed on as, and what it can cost at most when nobody says what it did."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.gateway import outgoing as module
from pytest_benchjobs.gateway.allowed import Allowed
from pytest_benchjobs.gateway.outgoing import Outgoing, Unsendable
from pytest_benchjobs.gateway.prices import load_prices
from pytest_benchjobs.gateway.tiers import rate, tiers
from pytest_benchjobs.gateway.wires import recognise

CHAT, MESSAGES, LIST = (
    recognise(*one)
    for one in (
        ("POST", "/openai/v1/chat/completions"),
        ("POST", "/anthropic/v1/messages"),
        ("GET", "/openai/v1/models"),
    )
)
TABLE = """
date = 2026-11-21
[[model]]
names = ["plain"]
input = 1
output = 10
[[model]]
names = ["caches"]
input = 1
output = 10
cache_write = 2
cache_write_1h = 3
[[model]]
names = ["plain (fast)"]
input = 5
output = 50
"""


def _outgoing(call: Any = CHAT, *, model: str = "plain", **body: Any) -> Outgoing:
    given = {"model": model, "messages": [], **body}
    return Outgoing(call, json.dumps(given).encode(), Allowed([model]))


@pytest.mark.parametrize(
    ("body", "longest"),
    [
        ({}, 128_000),
        ({"max_tokens": 7}, 7),
        ({"max_completion_tokens": 7, "max_tokens": 9}, 7),
        ({"max_output_tokens": 7}, 7),
        ({"generationConfig": {"maxOutputTokens": 7}}, 7),
        ({"generationConfig": {"maxOutputTokens": 7, "candidateCount": 3}}, 21),
        ({"generationConfig": [7]}, 128_000),
        ({"max_tokens": 0}, 128_000),
        ({"max_tokens": -7}, 128_000),
        ({"max_tokens": True}, 128_000),
        ({"max_tokens": "7"}, 128_000),
        ({"max_tokens": 1}, 1),
        ({"max_tokens": 7, "n": 2}, 14),
        ({"max_tokens": 7, "n": 2, "best_of": 5}, 35),
        ({"max_tokens": 7, "n": 0}, 7),
        ({"n": 2}, 256_000),
    ],
)
def test_an_answer_can_be_as_long_as_was_asked_for_each_time(body: dict[str, Any], longest: int) -> None:
    call = _outgoing(**body)
    tokens, _ = call.most("openai", load_prices())
    assert tokens == len(call.content) + longest


@pytest.mark.parametrize(
    ("body", "elsewhere"),
    [
        ({}, False),
        ({"messages": [{"role": "user", "content": "file_id"}]}, False),
        ({"previous_response_id": "r1"}, True),
        ({"previous_response_id": None}, False),
        ({"cachedContent": "c"}, True),
        ({"container": "c"}, True),
        ({"messages": [{"content": [{"type": "file", "file_id": "f"}]}]}, True),
        ({"contents": [{"parts": [{"fileData": {"uri": "x"}}]}]}, True),
        ({"system": {"image_url": "https://example.com/x.png"}}, True),
        ({"messages": [{"content": [{"image_url": {"url": "http://example.com/x.png"}}]}]}, True),
        ({"messages": [{"content": [{"image_url": {"url": "data:image/png;base64,AA"}}]}]}, False),
        ({"input": [{"url": "gs://bucket/x"}]}, True),
        ({"tools": [{"file_id": "f"}]}, False),
    ],
)
def test_what_a_call_can_use_is_bounded_by_what_it_refers_to(body: dict[str, Any], elsewhere: bool) -> None:
    call = _outgoing(max_tokens=1, **body)
    assert call.refers_elsewhere() is elsewhere
    tokens, _ = call.most("openai", load_prices())
    # A prompt of which a part is elsewhere is as long as prompts get.
    assert tokens == 1 + (1_000_000 if elsewhere else len(call.content))


def test_a_long_body_is_longer_than_what_is_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_PROMPT", 10)
    call = _outgoing(max_tokens=1, cachedContent="c")
    assert call.most("openai", load_prices())[0] == len(call.content) + 1


def test_the_most_a_call_can_cost_is_by_the_dearest_way_it_may_be_read(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(TABLE)
    prices = load_prices(tmp_path / "prices.toml")
    for model, each, options in (("plain", 1, {}), ("caches", 3, {}), ("plain", 5, {"speed": "fast"})):
        call = _outgoing(model=model, max_tokens=20, **options)
        sent = len(call.content)
        back = 50 if options else 10
        tokens, cost = call.most("x", prices, rate(call.tiers, {}))
        assert tokens == sent + 20
        assert cost == pytest.approx((sent * each + 20 * back) / 1e6)
    assert _outgoing(model="unheard-of").most("x", prices)[1] is None
    call = _outgoing(max_tokens=5000)
    for seconds, back in ((0.01, 500), (9.0, 5000), (math.inf, 5000)):
        assert call.most("x", prices, seconds=seconds)[0] == len(call.content) + back


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"service_tier": "priority"}, "priority"),
        ({"service_tier": "Priority"}, "priority"),
        ({"serviceTier": "fast"}, "fast"),
        ({"speed": "fast", "service_tier": "default"}, "fast"),
        ({"service_tier": "flex"}, "flex"),
        ({"service_tier": "auto"}, None),
        ({"speed": "fast", "inference_geo": "US"}, "fast, us"),
        ({"service_tier": "SERVICE_TIER_PRIORITY"}, "priority"),
        ({"service_tier": 1}, None),
        ({}, None),
    ],
)
def test_another_rate_is_known_by_its_name(body: dict[str, Any], name: str | None) -> None:
    assert rate(_outgoing(**body).tiers, {}) == name
    assert rate(_outgoing(**body).tiers, tiers({"service_tier": "default", "speed": "standard"})) in (
        None,
        "us",
    )


@pytest.mark.parametrize(
    ("body", "options"),
    [
        ({"stream": True}, {"include_usage": True}),
        ({"stream": 1}, {"include_usage": True}),
        ({"stream": True, "stream_options": {"x": 1, "include_usage": False}}, {"x": 1, "include_usage": True}),
        ({"stream": True, "stream_options": [1]}, {"include_usage": True}),
        ({"stream": True, "stream_options": {"include_usage": True}}, None),
        ({"stream": False}, None),
        ({"stream": None}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_usage_is_asked_for_where_a_stream_would_not_say_it(
    body: dict[str, Any], options: dict[str, Any] | None
) -> None:
    call = _outgoing(**body)
    assert (None if call.with_usage is None else json.loads(call.with_usage)["stream_options"]) == options
    # Each key once: whoever reads it sees the same.
    assert call.with_usage is None or call.with_usage.count(b"stream_options") == 1
    assert json.loads(call.content) == {"model": "plain", "messages": [], **body}
    assert _outgoing(MESSAGES, **body).with_usage is None


def test_what_only_asks_has_no_body_and_no_model() -> None:
    call = Outgoing(LIST, b"not looked at", Allowed(["plain"]))  # type: ignore[arg-type]
    assert (call.content, call.models, call.model, call.with_usage) == (b"", (), None, None)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"a": NaN}', "NaN is not JSON"),
        (b"[]", "not a JSON object"),
        (b"{", "the body is not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": 1e999}', "too large"),
        (b'{"Model": "x"}', "'Model' can be read as `model`"),
        (b'{"tools": [{"MODEL": "x"}]}', "'MODEL' can be read as `model`"),
        (b'{"MODELS": ["x"]}', "'MODELS' can be read as `models`"),
        ('{"model\u017f": ["x"]}'.encode(), "'model\u017f' can be read as `models`"),
        (b'{"Stream": true}', "'Stream' can be read as `stream`"),
        (b'{"model": 1}', "a model must be a string"),
        (b'{"model": ["x"]}', "a model must be a string"),
        (b'{"model": {"name": "x"}}', "a model must be a string"),
        (b'{"models": "x"}', "`models` must be a list"),
        (b'{"models": [' + b'"m",' * 200 + b'"m"]}', "it names more than 100 models"),
        (b'{"a": -Infinity}', "-Infinity is not JSON"),
        (b'{"a": ' + b"9" * 100_000 + b"}", "the body is not JSON"),
        (b'{"background": true}', "background answers"),
    ],
)
def test_what_cannot_be_passed_on_says_why(body: bytes, words: str) -> None:
    with pytest.raises(Unsendable, match=words):
        Outgoing(CHAT, body, Allowed(["plain"]))  # type: ignore[arg-type]


def test_half_of_a_pair_is_passed_on_as_it_was_written() -> None:
    call = Outgoing(CHAT, b'{"model": "plain", "x": "\\ud800 \xc3\xa9"}', Allowed(["plain"]))  # type: ignore[arg-type]
    assert json.loads(call.content) == {"model": "plain", "x": "\ud800 é"}
