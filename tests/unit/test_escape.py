"""Names of files, and text of agents, where a terminal or a CI system reads them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.escape import address, escaped
from pytest_benchjobs.store.text import inert


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("tasks/hello.bench.yaml", "tasks/hello.bench.yaml"),
        ("日本語/Übung x", "日本語/Übung x"),
        ("a#b/#1/##", "a#b/#1/##"),
        ("a:b/c::d", "a:b/c::d"),
        ("b\n::error::owned", r"b\n::error::owned"),
        ("::error::x/::y", r"\x3a:error::x/\x3a:y"),
        ("c##[group]", r"c\x23#[group]"),
        ("##vso[task]", r"\x23#vso[task]"),
        ("a\r\tb\x1b[31m\x9b\u2028\u202e\udc80", r"a\r\tb\x1b[31m\x9b\u2028\u202e\udc80"),
    ],
)
def test_a_path_is_shown_on_one_line_and_as_it_is_where_it_can_be(path: str, shown: str) -> None:
    assert escaped(path) == shown


def test_the_path_of_a_node_id_has_no_separator_in_it() -> None:
    assert address("a::b:::c/d") == r"a\x3a:b\x3a\x3a:c/d"
    assert address("plain/path.bench.yaml") == "plain/path.bench.yaml"


@given(st.text())
def test_no_path_is_more_than_a_line_or_a_command(path: str) -> None:
    shown = escaped(path)
    assert len(shown.splitlines()) <= 1
    assert not shown.startswith("::")
    assert not re.search(r"##\w*\[", shown)
    assert "::" not in address(path)


def test_an_error_names_its_file_on_one_line() -> None:
    assert str(InputError("is wrong", path=Path("b\n::error::x"), line=3)) == r"b\n::error::x:3: is wrong"
    assert str(InputError("is wrong", path=Path("::error::x"))) == r"\x3a:error::x: is wrong"


@pytest.mark.parametrize("end", ["\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\r\n"])
def test_a_command_behind_any_end_of_a_line_is_made_inert(end: str) -> None:
    assert inert(f"said{end} ::error::x") == f"said{end} : :error::x"
    assert inert(f"said{end}\x1b[31m::error::x") == f"said{end}\x1b[31m: :error::x"
