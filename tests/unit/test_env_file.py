"""Env files: what is read, and what is refused, with its line and without its value."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import InputErrors
from pytest_benchjobs.settings.env_file import read_env_file


def read(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "keys.env"
    path.write_bytes(text.encode())
    return {name: variable.value for name, variable in read_env_file(path).items()}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A=plain", "plain"),
        ("export A=plain", "plain"),
        ("  export\tA=plain\r\n", "plain"),
        ("\ufeffA=plain", "plain"),
        ("A=", ""),
        ("A=   ", ""),
        ("A= # nothing", ""),
        ("A=one # a comment", "one"),
        ("A=a#b$", "a#b$"),
        ("A=http://x/?a=1&b=2", "http://x/?a=1&b=2"),
        ("A='a $B `c` \\n \"d\" # e'", 'a $B `c` \\n "d" # e'),
        ("A='two\nlines' # a comment", "two\nlines"),
        ('A="a\\n\\t\\"\\\\\\$B\\` # c"', 'a\n\t"\\$B` # c'),
        ('A="-----BEGIN\nkey\n-----END"\n', "-----BEGIN\nkey\n-----END"),
    ],
)
def test_a_value_is_what_a_shell_would_make_of_it(tmp_path: Path, text: str, value: str) -> None:
    assert read(tmp_path, text) == {"A": value}


def test_blank_lines_and_comments_count_for_lines_only(tmp_path: Path) -> None:
    assert read(tmp_path, "# keys\n\n  # more\nA=1\n\nB=2") == {"A": "1", "B": "2"}
    with pytest.raises(InputErrors, match=r"keys\.env:6: KEY=VALUE is expected"):
        read(tmp_path, "# keys\n\nA='x\ny'\n\nB\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("hunter2", "KEY=VALUE is expected"),
        ("A = hunter2", "KEY=VALUE is expected, without spaces around the `=`"),
        ("1A=hunter2", "KEY=VALUE is expected"),
        ("A-B=hunter2", "KEY=VALUE is expected"),
        ("A=hunter2 word", "A: spaces, quotes and backslashes have to be quoted"),
        ("A=hunter2\\", "A: spaces, quotes and backslashes have to be quoted"),
        ("A=hun'ter2'", "A: spaces, quotes and backslashes have to be quoted"),
        ("A='hunter2'x", "A: something follows the closing quote"),
        ("A='hunter2", "A: the quote is not closed"),
        ('A="hunter2\\"', "A: the quote is not closed"),
        ('A="hunter2\\q"', "A: an unknown escape in double quotes"),
        ("A=$(hunter2)", "A: variables and commands are not expanded here"),
        ("A=`hunter2`", "A: variables and commands are not expanded here"),
        ("A=${hunter2}", "A: variables and commands are not expanded here"),
        ('A="$hunter2"', "A: variables and commands are not expanded here"),
        ("A='hunter2\0'", "A: the value has a NUL character"),
        ("B=hunter3", "B is set already, in line 1; remove one of them"),
    ],
)
def test_what_could_mean_two_things_is_refused_without_its_value(
    tmp_path: Path, line: str, message: str
) -> None:
    with pytest.raises(InputErrors) as caught:
        read(tmp_path, f"B=1\n{line}\n")
    assert f"keys.env:2: {message}" in str(caught.value)
    assert "hunter" not in str(caught.value)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        read(tmp_path, "A\nB=1\nC=$D\n")
    assert [error.line for error in caught.value.errors] == [1, 3]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"none\.env: cannot be read: No such file or directory"):
        read_env_file(tmp_path / "none.env")


def test_a_value_is_in_no_representation(tmp_path: Path) -> None:
    path = tmp_path / "keys.env"
    path.write_text("A=hunter2\n")
    assert "hunter2" not in repr(read_env_file(path))
