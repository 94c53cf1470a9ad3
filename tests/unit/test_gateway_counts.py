"""Reported usage grows by rules: counts never fall, and what says nothing replaces nothing, however deep it is."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.gateway.counts import merge
from pytest_benchjobs.gateway.meter import Meter
from pytest_benchjobs.gateway.prices import load_prices
from pytest_benchjobs.gateway.tiers import rate
from pytest_benchjobs.gateway.tokens import Unpriced
from pytest_benchjobs.gateway.wires import Kind

WORDS = [
    *("input_tokens", "output_tokens", "prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens"),
    *("prompt_tokens_details", "completion_tokens_details", "cache_creation", "iterations", "audio_tokens"),
    *("reasoning_tokens", "cache_read_input_tokens", "ephemeral_1h_input_tokens", "service_tier", "speed"),
    *("promptTokenCount", "candidatesTokenCount", "promptTokensDetails", "modality", "tokenCount"),
    *(
        "usage",
        "usageMetadata",
        "message",
        "response",
        "choices",
        "x_groq",
        "error",
        "type",
        "model",
        "index",
    ),
]
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-2, 1 << 70)
    | st.floats()
    | st.sampled_from(["", "fast", "AUDIO", "7"])
)
ANYTHING = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=20,
)
USAGE = st.dictionaries(st.sampled_from(WORDS), ANYTHING, max_size=6)


def _no_less(before: Any, after: Any) -> bool:
    """True if everything known before is known after, and no count is less."""
    if isinstance(before, dict):
        return all(name in after and _no_less(value, after[name]) for name, value in before.items())
    if isinstance(before, list):
        return len(after) >= len(before) and all(map(_no_less, before, after))
    return isinstance(after, str) if isinstance(before, str) else bool(after >= before)


@given(USAGE, USAGE)
def test_nothing_that_is_known_gets_lost_or_less(first: dict[str, Any], second: dict[str, Any]) -> None:
    known: dict[str, Any] = {}
    merge(known, first)
    before = copy.deepcopy(known)
    merge(known, second)
    assert _no_less(before, known)


@given(USAGE)
def test_what_is_said_twice_counts_once(usage: dict[str, Any]) -> None:
    once: dict[str, Any] = {}
    merge(once, usage)
    twice = copy.deepcopy(once)
    merge(twice, usage)
    assert twice == once


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ([{"a": 1}, {"a": None}, {}, {"b": 0}], {"a": 1, "b": 0}),
        ([{"a": {"b": {"c": 5}}}, {"a": {"b": {}}}, {"a": {"b": {"c": 0, "d": 1}}}], {"a": {"b": {"c": 5, "d": 1}}}),
        ([{"a": 1}, {"a": {"b": 1}}, {"a": [1]}, {"a": "1"}, {"a": True}, {"a": -1}], {"a": 1}),
        ([{"a": "auto"}, {"a": "priority"}, {"a": ""}], {"a": "priority"}),
        ([{"a": "many"}, {"a": 2}], {"a": 2}),
        ([{"a": [{"m": "x", "n": 1}]}, {"a": [{"m": "y", "n": 2}, {"m": "x", "n": 3}]}], {"a": [{"m": "x", "n": 3}, {"m": "y", "n": 2}]}),
        ([{"a": [{"n": 1}, {"n": 5}]}, {"a": [{"n": 2}]}, {"a": []}], {"a": [{"n": 2}, {"n": 5}]}),
        ([{"a": 1.0}, {"b": 0.5}, {"c": float("inf")}, {"d": 1 << 53}], {"a": 1}),
    ],
)  # fmt: skip
def test_reports_are_merged_at_every_depth(said: list[dict[str, Any]], known: dict[str, Any]) -> None:
    merged: dict[str, Any] = {}
    for one in said:
        merge(merged, one)
    assert merged == known


def test_what_an_endpoint_can_make_the_gateway_keep_is_bounded() -> None:
    known: dict[str, Any] = {}
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"a": deep, "b": [deep], "c": 1}
    for number in range(5):
        merge(known, {"deep": deep, "many": [{"at": str(one)} for one in range(3000)], "text": "x" * 9999})
        merge(known, {f"{number}-{one}": one for one in range(3000)})
    assert len(json.dumps(known)) < 200_000


@given(
    st.sampled_from([kind for kind in Kind if kind is not Kind.OTHER]),
    st.lists(ANYTHING, max_size=4),
    st.booleans(),
)
def test_no_answer_breaks_the_meter_or_the_prices(kind: Kind, events: list[Any], streamed: bool) -> None:
    meter = Meter(kind, streamed)
    said = [json.dumps(event) for event in events]
    meter.feed(("".join(f"data: {one}\n\n" for one in said) if streamed else f"[{','.join(said)}]").encode())
    reading = meter.finish()
    tokens, at = reading.tokens(kind), rate({}, reading.told)
    for count in (tokens.input, tokens.output, tokens.cached, tokens.reasoning, *tokens.apart.values()):
        assert count is None or count >= 0
    for provider, model in (
        ("openai", "gpt-audio"),
        ("anthropic", "claude-opus-5"),
        ("google", "gemini-2.5-flash"),
    ):
        try:
            assert load_prices().cost(provider, model, tokens, at) >= 0
        except Unpriced as why:
            assert str(why)
