"""Short answers, right and wrong: files of agents, replies of models, and whatever else they may be."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.model.errors import ScoreInvalid
from pytest_benchjobs.scoring.answers import Match, match_of
from pytest_benchjobs.scoring.replies import SEARCHED, Wrong, parsed, value_in

pytestmark = pytest.mark.when_changed

AIME = {"match": "integer", "expected": 25, "least": 0, "most": 999}
LETTER = {"match": "choice", "expected": "C"}
GRID = [[1, 2], [3, 4]]
OTHER = [[0]]
GRIDS = {"match": "grid", "expected": [GRID, OTHER], "tries": 2}
NUMBER = {
    "match": "number",
    "expected": {"a": 1.0, "b": [2, 3]},
    "tolerance": {"a": 0.5, "b": 0.25},
    "key": "value",
}
JSON = {"match": "json", "expected": {"a": [1, True, None, "x"]}}
EXACT = {"match": "exact", "expected": "forty-two"}
REGEX = {"match": "regex", "pattern": r"^(?i:forty.two)$"}
ALL = [AIME, LETTER, GRIDS, NUMBER, JSON, EXACT, REGEX]


def said(params: dict[str, Any], text: str, *, reply: bool = False) -> tuple[float, str]:
    """The score, and why it is 0."""
    try:
        found = match_of(params).grade(text, is_reply=reply)
    except Wrong as wrong:
        return 0.0, str(wrong)
    return found, ""


def score(params: dict[str, Any], text: str, *, reply: bool = True) -> float:
    """Its score; 0 for a wrong one."""
    return said(params, text, reply=reply)[0]


NO_INTEGERS = [
    "", " ", "-25", "25.0", "25.", "2 5", "25 26", "twenty-five", "\u0662\u0665", "\uff12\uff15", "1025",
    "25e0", "0x19", "9" * 100_000,
]  # fmt: skip
NO_NUMBERS = ["NaN", "Infinity", "1e999", "-1e999", "[" * 100_000, "9" * 100_000, "1 2", ""]
ANY_NUMBER = {"match": "number", "expected": 1.0, "tolerance": 1e308}


@pytest.mark.parametrize(
    ("params", "text", "in_file", "in_reply"),
    [
        *((AIME, text, 1, 1) for text in ("25", " 25\n", "025", "+25", "0000025")),
        (AIME, "ANSWER: 25", 0, 1),
        *((AIME, text, 0, None) for text in NO_INTEGERS),
        *((AIME, f"ANSWER: {text}", 0, 0) for text in ("\u0662\u0665", "9" * 100_000, r"\textsubscript25")),
        ({"match": "integer", "expected": 1_234_567}, "ANSWER: 1,234,567", 0, 1),
        *((LETTER, text, 1, 1) for text in ("c", " C\n", "C")),
        (LETTER, "C" + " " * (SEARCHED - 1), 1, None),
        (LETTER, "C" + " " * SEARCHED, 0, None),
        (EXACT, " forty-two \n", 1, 1),
        (EXACT, "ANSWER: forty-two", 0, 1),
        (REGEX, "FORTY two", 1, 1),
        (REGEX, "forty two and more", 0, 0),
        *((ANY_NUMBER, text, 0, None) for text in NO_NUMBERS),
        *((ANY_NUMBER, f"ANSWER: {text}", 0, 0) for text in NO_NUMBERS),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_short_answer_is_right_or_wrong_in_a_file_and_in_a_reply(
    params: dict[str, Any], text: str, in_file: float, in_reply: float | None
) -> None:
    """None: it is not about replies."""
    assert score(params, text, reply=False) == in_file
    assert in_reply is None or score(params, text) == in_reply


@pytest.mark.parametrize(
    ("text", "official", "ours"),
    [
        ("Thinking ...\nAnswer: C", 1, 1),
        ("ANSWER :\tC", 1, 1),
        ("Answer: C\nAnswer: B", 1, 0),  # the first counts there, and the last here
        ("Answer: c", 0, 1),  # found, and not equal to C there
        ("Answer: **C**", 0, 1),
        ("C", 0, 1),
        ("Answer: C or A", 1, 0),
    ],
)
def test_the_choice_of_a_reply_is_read_by_our_rule_or_that_of_simple_evals(
    text: str, official: float, ours: float
) -> None:
    assert (score({**LETTER, "official": "simple-evals"}, text), score(LETTER, text)) == (official, ours)
    assert score(LETTER, text, reply=False) == (text == "C")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([{"attempt_1": GRID, "attempt_2": OTHER}, {"attempt_1": GRID, "attempt_2": OTHER}], 1),
        ([{"attempt_1": OTHER}, {"attempt_2": OTHER}], 0.5),
        ([[GRID, OTHER], [OTHER]], 1),
        ([GRID, OTHER], 1),
        ([[OTHER, OTHER, GRID], [GRID, GRID, OTHER]], 0),  # the third is not looked at
        ([GRID], 0.5),
        ([GRID, OTHER, GRID], 1),
        ([[[True, 2], [3, 4]], [[False]]], 0),
        ([[[1.0, 2], [3, 4]], [["0"]]], 0),
        ([[[1, 2], [3]], [[0, 0]]], 0),
        ([None, None], 0),
        ({}, 0),
        (7, 0),
    ],
)
def test_grids_are_compared_whole_and_each_has_two_tries(given: Any, expected: float) -> None:
    text = json.dumps(given)
    assert score(GRIDS, text, reply=False) == expected
    assert score(GRIDS, text) == expected


def test_one_test_input_needs_no_list_around_it() -> None:
    params = {**GRIDS, "expected": [GRID]}
    for one in (GRID, [GRID], [[OTHER, GRID]], {"attempt_2": GRID}):
        assert score(params, json.dumps(one), reply=False) == 1


def test_replies_are_tries_in_their_order_and_the_last_grid_of_each_counts() -> None:
    said = [
        f"Is it {OTHER}? No:\n```json\n{GRID}\n```",
        "I do not know",
        f"{GRID}",
        f"First {GRID}, then {json.dumps(OTHER)}. See [1].",
    ]
    assert score(GRIDS, json.dumps(said)) == 1
    assert score(GRIDS, json.dumps(said[:2])) == 0.5
    assert score(GRIDS, json.dumps(said), reply=False) == 0


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"a": 1.5, "b": [2, 3.25]}, 1),
        ({"value": {"a": 0.5, "b": [1.75, 3]}}, 1),
        ({"a": 1, "b": [2, 3], "more": "x"}, 1),
        *(({"a": a, "b": [2, 3]}, 0) for a in (1.51, True, "1.0", None, 10**400)),
        *((given, 0) for given in ({"a": 1, "b": [2, 3.26]}, {"a": 1, "b": [2]}, {"a": 1}, [1, [2, 3]])),
    ],
)
def test_numbers_are_within_an_absolute_tolerance_one_by_one(given: Any, expected: float) -> None:
    text = json.dumps(given)
    assert score(NUMBER, text, reply=False) == expected
    assert score(NUMBER, f"So I computed it.\nANSWER: {text}") == expected
    assert score(NUMBER, f"Thus:\n```json\n{json.dumps(given, indent=1)}\n```\nDone.") == expected


def test_each_form_of_an_answer_is_among_all() -> None:
    kinds = get_args(Match)
    assert {kind.model_fields["match"].annotation.__args__[0] for kind in kinds} == {
        one["match"] for one in ALL
    }


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"match": "nothing"},
        {**AIME, "expected": 1000},
        {**AIME, "expected": "25"},
        {**AIME, "expected": True},
        {**AIME, "more": 1},
        {**LETTER, "expected": "E"},
        {**LETTER, "expected": "c"},
        {**GRIDS, "expected": []},
        {**GRIDS, "expected": [[[True]]]},
        {**GRIDS, "expected": [[[10]]]},
        {**NUMBER, "expected": float("nan")},
        {"match": "number", "expected": [1, 2], "tolerance": [0]},
        {"match": "number", "expected": 1, "tolerance": -1},
        {"match": "regex", "pattern": "("},
        None,
        [],
    ],
)
def test_a_broken_reference_is_an_error_whatever_the_answer(params: Any) -> None:
    with pytest.raises(ScoreInvalid, match="params of this `answer` scorer are wrong"):
        match_of(params)


def test_what_is_wrong_with_a_reference_does_not_tell_it() -> None:
    with pytest.raises(ScoreInvalid) as caught:
        match_of({"match": "integer", "expected": "hunter2"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("params", ALL)
@pytest.mark.parametrize("reply", [True, False])
@given(text=st.text())
def test_any_text_has_a_score(params: dict[str, Any], reply: bool, text: str) -> None:
    assert 0 <= score(params, text, reply=reply) <= 1


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("ab"), inner, max_size=3),
)


@pytest.mark.parametrize("params", ALL)
@pytest.mark.parametrize("reply", [True, False])
@given(value=_JSON)
def test_any_json_has_a_score(params: dict[str, Any], reply: bool, value: Any) -> None:
    text = json.dumps(value)
    assert 0 <= score(params, text, reply=reply) <= 1
    assert 0 <= score(params, f"ANSWER: {text}", reply=reply) <= 1
    assert 0 <= score(params, json.dumps([text, text]), reply=reply) <= 1


@pytest.mark.parametrize("params", ALL)
@pytest.mark.parametrize(
    "text",
    [
        "[" * 300_000, "]" * 300_000, "{" * 300_000, "[[" * 100_000 + "]]" * 100_000, "answer" * 100_000,
        "answer: " * 100_000, "```" * 100_001, "\\boxed{" * 100_000, "ANSWER: " + "[" * 300_000,
        json.dumps(["[" * 100_000] * 3), json.dumps([["[["] * 100_000]), json.dumps(["1 2\n" * 500_000] * 2),
        ("ANSWER: " + "(" * 990 + "7" + ")" * 990 + "\n") * 50,
    ],
    ids=range(13),
)  # fmt: skip
def test_a_hostile_answer_is_wrong_at_once(params: dict[str, Any], text: str) -> None:
    assert score(params, text) == 0
    assert score(params, text, reply=False) == 0


@given(number=st.integers(0, 999), zeros=st.integers(0, 5))
def test_every_integer_of_the_range_is_read_however_it_is_written(number: int, zeros: int) -> None:
    params = {**AIME, "expected": number}
    written = "0" * zeros + str(number)
    for text in (written, f"+{written}", f"ANSWER: {written}", f"Thus $\\boxed{{{written}}}$, as 7 = 7."):
        assert score(params, text) == 1


@given(_JSON)
def test_json_is_itself(value: Any) -> None:
    text = json.dumps(value)
    if "NaN" in text or "Infinity" in text:
        return
    assert score({"match": "json", "expected": value}, text, reply=False) == 1


@pytest.mark.parametrize("cell", ["1.0", "true", '"1"', "null", "[1]"])
def test_a_grid_is_of_integers_whatever_it_is_in(cell: str) -> None:
    grid = f"[[{cell}, 2], [3, 4]]"
    params = {"match": "grid", "expected": [GRID], "tries": 2}
    for text in (f'[{{"attempt_1": {grid}}}]', f"[[{grid}]]", f"[{grid}]", grid):
        assert score(params, text, reply=False) == score(params, text) == 0


# Bounds of what is looked at, and what is said of wrong ones

RIGHT = (1.0, "")
UNEQUAL = (0.0, "it is not equal")
FIVE = {"match": "integer", "expected": 5}
Z = {"match": "regex", "pattern": "z"}


@pytest.mark.parametrize(
    ("params", "text", "found"),
    [
        ({**FIVE, "least": 5}, "5", RIGHT),
        ({**FIVE, "most": 5}, "5", RIGHT),
        ({**FIVE, "least": 5, "most": 5}, "5", RIGHT),
        ({**FIVE, "least": 4, "most": 6}, "4", UNEQUAL),
        ({**FIVE, "least": 4, "most": 6}, "6", UNEQUAL),
        ({**FIVE, "least": 4, "most": 6}, "3", (0.0, "it is out of range")),
        ({**FIVE, "least": 4, "most": 6}, "7", (0.0, "it is out of range")),
        ({**FIVE, "most": 6}, "-9", UNEQUAL),
        ({**FIVE, "least": 4}, "9" * 400, UNEQUAL),
        ({**FIVE, "least": 4}, "9" * 401, (0.0, "it is not an integer")),
        (FIVE, "x", (0.0, "it is not an integer")),
        (LETTER, "E", (0.0, "it has none of the letters ABCD")),
        (LETTER, "BC", (0.0, "it has none of the letters ABCD")),
        (LETTER, "", (0.0, "it has none of the letters ABCD")),
        (LETTER, "B", UNEQUAL),
        (Z, "x" * (SEARCHED - 1) + "z", RIGHT),
        (Z, "x" * SEARCHED + "z", UNEQUAL),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_said_of_an_answer(params: dict[str, Any], text: str, found: tuple[float, str]) -> None:
    assert said(params, text) == found


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
