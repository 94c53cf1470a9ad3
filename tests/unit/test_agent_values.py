"""Values in what an agent printed: each is taken for what it is, or for nothing."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pytest_benchjobs.agents.reading.endings import ending_of, ending_of_status
from pytest_benchjobs.agents.reading.values import bounded, count_at, money_at, spoken, text_of
from pytest_benchjobs.model.ending import Ending

MOST = 2**53


@pytest.mark.parametrize(
    ("value", "count", "money"),
    [
        (0, 0, 0.0),
        (MOST, MOST, float(MOST)),
        (MOST + 1, None, None),
        (-1, None, None),
        (True, None, None),
        (0.5, None, 0.5),
        (-0.5, None, None),
        (math.inf, None, None),
        (math.nan, None, None),
        ("7", None, None),
        (None, None, None),
    ],
)
def test_a_number_is_one_that_can_have_been_counted(
    value: Any, count: int | None, money: float | None
) -> None:
    found = count_at({"a": value}, "a"), money_at({"a": value}, "a")
    assert found == (count, money)
    assert [type(one) for one in found if one is not None] == [
        kind for kind, one in ((int, count), (float, money)) if one is not None
    ]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("one", "one"),
        ({"type": "text", "text": "one"}, "one"),
        ({"type": "image"}, "[image]"),
        ({"type": "x" * 51}, f"[{'x' * 50}]"),
        ({"type": "text", "text": 1}, "[text]"),
        ({"type": 1}, ""),
        (["one", {"text": "two"}, {"text": ""}, ["three"], None, {"type": "image"}], "one\ntwo\n[image]"),
        (None, ""),
        (1, ""),
    ],
)
def test_the_text_of_a_content_names_what_has_none(content: Any, text: str) -> None:
    assert text_of(content) == text


@pytest.mark.parametrize(
    ("content", "reply"),
    [
        ("plain", "plain"),
        ("<think>hm</think>\n\nso", "so"),
        ("hm</think> so", "so"),
        ("<think>a</think>b<think>c</think>d", "d"),
        (" <think>hm", ""),
        ("so <think>hm", "so <think>hm"),
        ([{"type": "text", "text": "a"}, {"type": "output_text", "text": "b"}], "a\nb"),
        ([{"type": "thinking", "text": "hm"}, {"text": "so"}, "and"], "so\nand"),
        ({"type": "text", "text": "a"}, "a"),
    ],
)
def test_a_reply_is_what_is_said_aloud(content: Any, reply: str) -> None:
    assert spoken(content) == reply


@pytest.mark.parametrize(
    ("number", "kept"),
    [
        (MOST, MOST),
        (-MOST, -MOST),
        (MOST + 1, str(MOST + 1)),
        (-MOST - 1, str(-MOST - 1)),
        (2**999 - 1, str(2**999 - 1)),
        (2**999, "[...]"),
    ],
)
def test_a_number_that_others_cannot_read_is_a_text(number: int, kept: int | str) -> None:
    assert bounded([number], 1000) == [kept]


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        (399, None),
        (400, Ending.REFUSED),
        (401, Ending.AUTHENTICATION),
        (402, Ending.QUOTA),
        (403, Ending.AUTHENTICATION),
        (404, Ending.UNKNOWN_MODEL),
        (408, Ending.ENDPOINT_DOWN),
        (429, Ending.RATE_LIMITED),
        (499, Ending.REFUSED),
        (500, Ending.ENDPOINT_DOWN),
        (529, Ending.ENDPOINT_DOWN),
    ],
)
def test_a_status_means_an_ending(status: int, ending: Ending | None) -> None:
    assert ending_of_status(status) is ending
    assert ending_of("whatever", status) is ending


@pytest.mark.parametrize(
    ("message", "status", "ending"),
    [
        ("insufficient_quota", 429, Ending.QUOTA),
        ("Claude AI usage limit reached|1760000400", None, Ending.QUOTA),
        ("You've hit your usage limit. Try again in 4 days 20 hours 9 minutes.", None, Ending.QUOTA),
        ("You have reached your specified API usage limits. You will regain", 400, Ending.QUOTA),
        ("status 503", 429, Ending.RATE_LIMITED),
        ("rate limit", None, Ending.RATE_LIMITED),
        ("error (404)", None, Ending.UNKNOWN_MODEL),
        ("it fell (503 Service Unavailable)", None, Ending.ENDPOINT_DOWN),
        ("API key not valid", 400, Ending.AUTHENTICATION),
        ("API key not valid", 404, Ending.UNKNOWN_MODEL),
        ("not valid", 400, Ending.REFUSED),
        ("API key not valid", None, Ending.AUTHENTICATION),
        ("x" * 3990 + "rate limit", None, Ending.RATE_LIMITED),
        ("x" * 3991 + "rate limit", None, None),
    ],
)
def test_a_quota_counts_first_then_the_status_then_other_words(
    message: str, status: int | None, ending: Ending | None
) -> None:
    assert ending_of(message, status) is ending
