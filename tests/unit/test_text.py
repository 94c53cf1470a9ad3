from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.store.text import clean, cut, one_line, plain

hostile = st.text(
    st.one_of(st.characters(), st.sampled_from("\x1b[]m;\x07\x9b\x00\r\n\ud800\u202e")), max_size=300
)


@given(hostile)
def test_clean_text_has_no_control_characters_and_can_be_encoded(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode("utf-8")
    assert [
        char for char in cleaned if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t"
    ] == []
    assert not set(cleaned) & set("\u202e\u2066\ufeff\uffff")
    assert clean(cleaned) == cleaned


@given(st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S", "Zs"])))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert clean(text) == text


@given(hostile, st.integers(0, 120))
def test_a_limit_is_kept(text: str, limit: int) -> None:
    assert len(clean(text, limit)) <= limit
    line = one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;never ended", "]0;never ended"),
        ("\x1bP+q\x1b\\done", "done"),
        ("\x9b31mred", "red"),
        ("10%\r20%\r\nend\n", "10%\n20%\nend\n"),
        ("a\x08b\x00c\x7f", "abc"),
        ("safe\u202egnp.exe", "safegnp.exe"),
        ("half \ud83d", "half \ufffd"),
        ("\x1b\x1b[31m[31m", "[31m"),
        ("tab\tstays, so do ümlauts and 🙂", "tab\tstays, so do ümlauts and 🙂"),
    ],
)
def test_clean(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@pytest.mark.parametrize(
    "text", [" a b", "a b ", "\ta b", "a  b", "a\nb", " a b\n", "a\u00a0b".replace("\u00a0", " ")]
)
def test_a_line_has_no_blanks_at_its_ends_and_single_ones_within(text: str) -> None:
    assert one_line(text) == "a b"


def test_a_cut_says_how_much_is_missing() -> None:
    text = "a" * 500 + "b" * 500
    shortened = cut(text, 100)
    assert len(shortened) <= 100
    assert shortened.startswith("aaa")
    assert shortened.endswith("bbb")
    missing = 1000 - shortened.count("a", 0, 40) - shortened.count("b", 60)
    assert f"[... {missing} characters left out ...]" in shortened


@pytest.mark.parametrize("piece", ["\x1b]", "\x1b[", "\x1b[1;", "\x1bP", "\x9d", "\x1b", "\x1b "])
def test_hostile_sequences_end_in_nothing_hostile_and_in_this_life(piece: str) -> None:
    assert "\x1b" not in clean(piece * 200_000)


def test_plain_makes_json_of_anything() -> None:
    class Odd:
        def __repr__(self) -> str:
            return "<odd \x1b[31m>"

    value = {"a": [1, 2.5, None, True, float("inf")], 3: ("x\x00", Odd())}
    assert plain(value) == {"a": [1, 2.5, None, True, None], "3": ["x", "<odd >"]}
