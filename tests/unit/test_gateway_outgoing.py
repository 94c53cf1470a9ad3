"""What a call is passed on as, and what it can cost at most when nobody says what it did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from pytest_benchjobs.gateway import outgoing as module
from pytest_benchjobs.gateway.allowed import Allowed
from pytest_benchjobs.gateway.outgoing import Outgoing, Unsendable, headers
from pytest_benchjobs.gateway.prices import load_prices
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
    for model, each, options in (
        ("plain", 1, {}),
        ("caches", 3, {}),
        ("plain", 5, {"speed": "fast"}),
    ):
        call = _outgoing(model=model, max_tokens=20, **options)
        sent = len(call.content)
        back = 50 if options else 10
        tokens, cost = call.most("x", prices)
        assert tokens == sent + 20
        assert cost == pytest.approx((sent * each + 20 * back) / 1e6)
    assert _outgoing(model="unheard-of").most("x", prices)[1] is None


@pytest.mark.parametrize(
    ("body", "rate"),
    [
        ({"service_tier": "priority"}, "priority"),
        ({"service_tier": "Priority"}, "priority"),
        ({"serviceTier": "fast"}, "fast"),
        ({"speed": "fast", "service_tier": "default"}, "fast"),
        ({"service_tier": "flex"}, None),
        ({"service_tier": 1}, None),
        ({}, None),
    ],
)
def test_a_dearer_rate_is_known_by_its_name(body: dict[str, Any], rate: str | None) -> None:
    assert _outgoing(**body).rate == rate


@pytest.mark.parametrize(
    ("body", "options"),
    [
        ({"stream": True}, {"include_usage": True}),
        ({"stream": 1}, {"include_usage": True}),
        (
            {"stream": True, "stream_options": {"x": 1, "include_usage": False}},
            {"x": 1, "include_usage": True},
        ),
        ({"stream": True, "stream_options": [1]}, {"include_usage": True}),
        ({"stream": True, "stream_options": {"include_usage": True}}, None),
        ({"stream": False}, None),
        ({"stream": None}, None),
        ({}, None),
    ],
)
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


def test_a_call_without_a_model_is_of_the_one_the_trial_is_about() -> None:
    for body in (b'{"messages": []}', b'{"model": null}'):
        call = Outgoing(CHAT, body, Allowed(["plain", "other"]))  # type: ignore[arg-type]
        assert (call.model, call.own, call.models) == ("plain", True, ("plain",))
        assert json.loads(call.content)["model"] == "plain"
    assert not _other("other").own


def _other(model: str) -> Outgoing:
    return Outgoing(CHAT, json.dumps({"model": model}).encode(), Allowed(["plain", "other"]))  # type: ignore[arg-type]


def test_as_many_models_may_be_named_as_anybody_needs_and_no_more() -> None:
    assert len(_outgoing(fallbacks=[f"m{number}" for number in range(99)]).models) == 100
    with pytest.raises(Unsendable, match="more than 100 models"):
        _outgoing(fallbacks=[f"m{number}" for number in range(100)])


@pytest.mark.parametrize(
    ("body", "models"),
    [
        ({"messages": [{"model": "said"}], "model": "a"}, {"a"}),
        ({"tools": [{"parameters": {"model": "said"}, "model": "b"}], "model": "a"}, {"a", "b"}),
        ({"model": "a", "x": [1, {"y": {"router_model": "b"}}]}, {"a", "b"}),
        ({"model": "a", "models": ["b", 1, "c"]}, {"a", "b", "c"}),
        ({"model": "a", "fallbacks": ["b"], "FallBack": "c", "my_fallback": "d"}, {"a", "b", "c"}),
        ({"model": "a", "preset": "p"}, {"a", "@preset/p"}),
        ({"model": "a", "preset": None}, {"a"}),
        ({"model": "a", "a": {"a_model": 1}, "b": {"a_model": "b"}}, {"a", "b"}),
    ],
)
def test_a_call_names_models_wherever_that_can_mean_one(body: dict[str, Any], models: set[str]) -> None:
    assert set(Outgoing(CHAT, json.dumps(body).encode(), Allowed(["a"])).models) == models  # type: ignore[arg-type]


def test_a_body_of_many_values_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_VALUES", 7)
    assert _outgoing(max_tokens=1, a=[1, 2]).model == "plain"  # a brace, two brackets, four commas
    with pytest.raises(Unsendable, match="more than 7 values"):
        _outgoing(max_tokens=1, a=[1, 2, 3])


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
        (b'{"model": 1}', "a model must be a string"),
        (b'{"models": "x"}', "`models` must be a list"),
        (b'{"background": true}', "background answers"),
    ],
)
def test_what_cannot_be_passed_on_says_why(body: bytes, words: str) -> None:
    with pytest.raises(Unsendable, match=words):
        Outgoing(CHAT, body, Allowed(["plain"]))  # type: ignore[arg-type]


def test_half_of_a_pair_is_passed_on_as_it_was_written() -> None:
    call = Outgoing(CHAT, b'{"model": "plain", "x": "\\ud800 \xc3\xa9"}', Allowed(["plain"]))  # type: ignore[arg-type]
    assert json.loads(call.content) == {"model": "plain", "x": "\ud800 é"}


def test_headers_that_say_something_to_an_endpoint_pass_and_answers_can_be_read() -> None:
    given = CIMultiDict(
        [
            ("User-Agent", "x/1"), ("X-Stainless-Lang", "js"), ("anthropic-beta", "a"), ("anthropic-beta", "b"),
            ("Authorization", "Bearer s"), ("Cookie", "c"), ("Accept-Encoding", "br"), ("Content-Type", "text/plain"),
        ]
    )  # fmt: skip
    with_body, without = (headers(CIMultiDictProxy(given), body=body) for body in (True, False))
    assert without.getall("anthropic-beta") == ["a", "b"]
    assert {name.lower() for name in without} == {
        "user-agent",
        "x-stainless-lang",
        "anthropic-beta",
        "accept-encoding",
    }
    assert with_body["Content-Type"] == "application/json"
    assert with_body["Accept-Encoding"] == "identity"
