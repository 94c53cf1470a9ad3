from __future__ import annotations

import io
import sys
import unicodedata

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.report.table import Cell, Column, marks, paint, render

TEXT = st.text(st.characters(codec="utf-8"), max_size=40)


def cells_of(line: str) -> int:
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in line
    )


@given(st.lists(st.tuples(TEXT, TEXT, st.integers(0, 10**6)), max_size=6), st.integers(30, 120))
def test_lines_fit_whatever_the_cells_hold(rows: list[tuple[str, str, int]], room: int) -> None:
    columns = [Column("NAME", least=6), Column("WHY", least=6), Column("NUMBER OF", number=True)]
    shown = list(render(columns, [(name, why, str(number)) for name, why, number in rows], room))
    assert len(shown) in (len(rows) + 1, len(rows) + 2)
    for line in shown:
        assert cells_of(line) <= room
        assert "\n" not in line
        assert "\x1b" not in line
    # Numbers end in one column, so all lines are as long as each other.
    assert len({cells_of(line) for line in shown[-len(rows) :]}) <= 1 or not rows


def test_columns_are_aligned_and_numbers_stand_at_the_right() -> None:
    shown = list(render([Column("A"), Column("B", number=True)], [("x", "1"), ("long", "1000")], 80))
    assert shown == ["A        B", "x        1", "long  1000"]


def test_wide_characters_take_two_columns() -> None:
    shown = list(render([Column("A"), Column("B")], [("東京", "x"), ("ab", "y")], 80))
    assert shown == ["A     B", "東京  x", "ab    y"]


def test_the_widest_column_gives_way_first_and_is_cut_in_the_middle() -> None:
    columns = [Column("A", least=4), Column("B", least=4)]
    assert list(render(columns, [("a" * 10 + "z" * 10, "b" * 6)], 20))[1] == "aaaaa...zzzz  bbbbbb"


def test_a_cell_that_is_very_long_does_not_make_every_line_so() -> None:
    shown = list(render([Column("A", most=8), Column("B")], [("a" * 500, "x"), ("b", "y")], 10_000))
    assert shown == ["A         B", "aaa...aa  x", "b         y"]


def test_a_table_without_titles_has_only_rows() -> None:
    assert list(render([Column(""), Column("")], [("a", "b")], 80)) == ["a  b"]


def test_colours_do_not_move_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(Cell("passed", "green"), "x"), ("no", "y")]
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = list(render([Column("A"), Column("B")], rows, 80))
    assert coloured[1] == "\x1b[32mpassed\x1b[0m  x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("x", "red") == "x"
    assert list(render([Column("A"), Column("B")], rows, 80)) == [click.unstyle(line) for line in coloured]


def test_marks_are_ascii_where_stdout_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding, expected in (("utf-8", "✓✗!--"), ("ascii", "+x!--")):
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
        assert "".join(marks().values()) == expected
