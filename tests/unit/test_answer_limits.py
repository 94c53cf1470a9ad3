"""Short answers at the bounds of what is looked at, and what is said of wrong ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_benchjobs.scoring.answers import grader
from pytest_benchjobs.scoring.replies import SEARCHED, Wrong, last_mark, parsed, value_in


def said(params: dict[str, Any], text: str, *, reply: bool = False) -> tuple[float, str]:
    """The score, and how the answer compares."""
    try:
        return grader(params)(text, is_reply=reply)
    except Wrong as wrong:
        return 0.0, str(wrong)


RIGHT = (1.0, "it is right")
UNEQUAL = (0.0, "it is not equal")


@pytest.mark.parametrize(
    ("bounds", "text", "found"),
    [
        ({"least": 5}, "5", RIGHT),
        ({"most": 5}, "5", RIGHT),
        ({"least": 5, "most": 5}, "5", RIGHT),
        ({"least": 4, "most": 6}, "4", UNEQUAL),
        ({"least": 4, "most": 6}, "6", UNEQUAL),
        ({"least": 4, "most": 6}, "3", (0.0, "it is out of range")),
        ({"least": 4, "most": 6}, "7", (0.0, "it is out of range")),
        ({"most": 6}, "-9", UNEQUAL),
        ({"least": 4}, "9" * 400, UNEQUAL),
        ({"least": 4}, "9" * 401, (0.0, "it is not an integer")),
        ({}, "x", (0.0, "it is not an integer")),
    ],
)
def test_an_integer_is_within_its_bounds(bounds: dict[str, int], text: str, found: tuple[float, str]) -> None:
    assert said({"match": "integer", "expected": 5, **bounds}, text) == found


def test_a_mark_of_the_second_kind_counts_where_there_is_none_of_the_first() -> None:
    assert last_mark("The answer is 5, so ANSWER: 6. The answer is 7") == len("The answer is 5, so ANSWER:")
    assert last_mark("the answer is 5, the answer is 6") == len("the answer is 5, the answer is ")
    assert last_mark("nothing") is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("C" + " " * (SEARCHED - 1), RIGHT),
        ("C" + " " * SEARCHED, (0.0, "it has none of the letters ABCD")),
        ("E", (0.0, "it has none of the letters ABCD")),
        ("BC", (0.0, "it has none of the letters ABCD")),
        ("", (0.0, "it has none of the letters ABCD")),
        ("B", UNEQUAL),
    ],
)
def test_a_letter_is_alone(text: str, found: tuple[float, str]) -> None:
    assert said({"match": "choice", "expected": "C"}, text) == found


@pytest.mark.parametrize(("at", "found"), [(SEARCHED - 1, RIGHT), (SEARCHED, UNEQUAL)])
def test_a_pattern_is_looked_for_in_the_beginning(at: int, found: tuple[float, str]) -> None:
    assert said({"match": "regex", "pattern": "z"}, "x" * at + "z") == found


@pytest.mark.parametrize("value", [[], [[]], [[1], []], [[1], 2], "x", None])
def test_a_grid_has_rows_and_cells(value: Any) -> None:
    params = {"match": "grid", "expected": [[[1]]]}
    assert said(params, json.dumps([[value]]))[0] == 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1]", [1]),
        ("ANSWER: **[1]**.\n", [1]),
        ("ANSWER: [1]\nas I said", [1]),
        ("ANSWER: see\n```\n[1]\n```\n```\n[2]\n```", [1]),
        ("```\n[1]\n```\n```\n[2]\n```\nANSWER: as above", [2]),
        ("```\n[1]\n```\n```\n[2]\n```\nso", [2]),
        ("so\n[1]", [1]),
        ("so\n[1]\n", [1]),
    ],
)
def test_json_is_behind_the_mark_else_in_a_fence_else_in_the_last_line(text: str, value: Any) -> None:
    assert value_in(text, is_reply=True) == value


def test_json_is_finite() -> None:
    assert parsed("[1.5e300]") == [1.5e300]
    assert [parsed(text) for text in ("1e400", "-1e400", "NaN", "x", "[" * 99_999)] == [None] * 5


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ([1, 2], [1, 2, 3], UNEQUAL),
        ({"a": 1}, {"b": 1}, UNEQUAL),
        ({"a": 1}, {"a": 2}, UNEQUAL),
        ({"a": [1.0, True]}, {"a": [1, True]}, RIGHT),
        ({"a": [1, True]}, {"a": [1, 1]}, UNEQUAL),
        ({"a": [1, True]}, {"a": [True, True]}, UNEQUAL),
        ({"a": 1}, {"a": 1, "b": 1}, UNEQUAL),
        (False, 0, UNEQUAL),
        (None, False, UNEQUAL),
        ("a", "a", RIGHT),
        ("a", "b", UNEQUAL),
    ],
)
def test_json_is_the_same_or_not(one: Any, other: Any, found: tuple[float, str]) -> None:
    assert said({"match": "json", "expected": one}, json.dumps(other)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("so\nANSWER: a b", RIGHT),
        ("so\nANSWER: `a b`.", RIGHT),
        ("so\nANSWER:\n a b\nthen", RIGHT),
        ("so\nANSWER: a", UNEQUAL),
        ("a", UNEQUAL),
    ],
)
def test_a_text_is_the_rest_of_a_line(text: str, found: tuple[float, str]) -> None:
    assert said({"match": "exact", "expected": " a b "}, text, reply=True) == found
