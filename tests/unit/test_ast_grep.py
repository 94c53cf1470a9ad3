"""The scorer `ast_grep`: what it counts, and what an agent cannot hide from it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.result import ScorerResult
from pytest_benchjobs.model.scenario import ScorerSpec
from pytest_benchjobs.sandbox.protocol import Fetched
from pytest_benchjobs.scoring import ast_grep
from pytest_benchjobs.scoring.ast_grep import check_ast_grep, score_ast_grep, source_text
from pytest_benchjobs.testing import FakeSandbox

from .scoring import Files, left, scored

EVAL: dict[str, Any] = {"pattern": "eval($A)", "lang": "python"}
FORBIDDEN = {**EVAL, "max": 0}
BOLD, WIDE, QUOTE = "\U0001d41e\U0001d42f\U0001d41a\U0001d425", "\uff45\uff56\uff41\uff4c", "\uff02"
"""`eval` in letters that Python takes for those, and a character that it does not take for `"`."""


def _spec(params: Mapping[str, Any]) -> ScorerSpec:
    return ScorerSpec(name="shape", type="ast_grep", params=dict(params))


def _score(
    tmp_path: Path, params: Mapping[str, Any], files: Files, *, setup: str = "true", timeout: float = 30
) -> ScorerResult:
    """The result for files in the workdir, after the agent's last command."""
    with left(files, setup) as sandbox:
        return scored(sandbox, _spec(params), score_ast_grep, tmp_path / "trial", timeout)


def test_a_pattern_that_is_found_is_1_and_one_that_is_not_is_0(tmp_path: Path) -> None:
    found = _score(tmp_path, EVAL, {"src/a.py": "x = eval('1')\n"})
    assert (found.score, found.error) == (1.0, None)
    (check,) = found.details["checks"]
    assert (check["holds"], check["matches"]) == (True, 1)
    assert _score(tmp_path, EVAL, {"src/a.py": "x = 1\n"}).score == 0.0


def test_several_checks_give_partial_credit(tmp_path: Path) -> None:
    params = {
        "checks": [
            {"pattern": "def add($$$) -> $T: $$$", "lang": "python", "path": "src"},
            {"rule": {"kind": "for_statement"}, "lang": "python", "max": 0},
            {"pattern": "print($$$)", "lang": "python", "min": 1, "max": 2},
            {"pattern": "add($A, $B)", "lang": "javascript", "path": "web"},
        ]
    }
    source = "def add(a: int, b: int) -> int:\n    return a + b\n\nfor i in (1, 2):\n    print(add(i, i))\n"
    result = _score(tmp_path, params, {"src/a.py": source})
    assert result.score == 0.5
    assert [check["holds"] for check in result.details["checks"]] == [True, False, True, False]
    assert "there is no web" in result.output


def test_words_in_comments_and_texts_are_no_code(tmp_path: Path) -> None:
    """An agent that only claims to have done it."""
    lying = '# eval(1)\nx = "eval(1)"\n'
    assert _score(tmp_path, EVAL, {"a.py": lying, "a.md": "eval(1)", "a.txt": "eval(1)"}).score == 0.0


@pytest.mark.parametrize(
    ("files", "setup"),
    [
        ({".hidden/a.py": "eval(1)\n"}, "true"),
        ({".gitignore": "*", ".ignore": "*", "a.py": "eval(1)\n"}, "git init -q . || true"),
        ({"a.py": "# ast-grep-ignore\neval(1)\n"}, "true"),
        ({"a.py": "# ast-grep-ignore: check-0\neval(1)\n"}, "true"),
        ({"a.py": b"# -*- coding: latin-1 -*-\nx = '\xff'\neval(1)\n"}, "true"),
        ({"a.py": f"{BOLD}(1)\n"}, "true"),
        ({"a.py": f"x = 'é{QUOTE}'; {WIDE}(1)  # é\n"}, "true"),
        ({"a.py": b"# coding: utf-7\n+AGUAdgBhAGw-(1)\n"}, "true"),
        ({"code.txt": "eval(1)\n"}, "ln -s code.txt a.py"),
        ({"a.py": "eval(1)\n", "sgconfig.yml": "ruleDirs: [none]\nlanguageGlobs: {html: ['*.py']}\n"}, "true"),
        ({"sgconfig.yml": "customLanguages: {p: {libraryPath: p.so, extensions: [py]}}", "a.py": "eval(1)"}, "true"),
    ],
    ids=[
        "hidden", "ignored", "silenced", "silenced by name", "not utf-8", "bold", "wide", "utf-7", "link", "project",
        "native library",
    ],
)  # fmt: skip
def test_forbidden_code_cannot_be_hidden(tmp_path: Path, files: dict[str, bytes | str], setup: str) -> None:
    result = _score(tmp_path, FORBIDDEN, files, setup=setup)
    assert (result.score, result.error) == (0.0, None), result.output


@pytest.mark.parametrize(
    ("name", "lang", "text", "pattern"),
    [
        ("a.js", "javascript", r"\u0065v\u{61}l('\\u0065')", "eval($A)"),
        ("a.tsx", "tsx", r"\u0065val(1)", "eval($A)"),
        ("a.java", "java", r"class A { int b = \uu0065val(1); }", "eval($A)"),
        ("a.cs", "csharp", r"class A { int b = \u0065val(1); }", "eval($A)"),
        ("a.rs", "rust", "fn main() { cafe\u0301(1); }", "caf\u00e9($A)"),
        ("a.py", "python", "cafe\u0301(1)", "caf\u00e9($A)"),
    ],
)
def test_a_name_is_found_however_it_is_written(
    tmp_path: Path, name: str, lang: str, text: str, pattern: str
) -> None:
    assert _score(tmp_path, {"pattern": pattern, "lang": lang}, {name: text}).score == 1.0


@pytest.mark.parametrize(
    "text",
    ["1" * 300_000, "a " * 200_000, "\u00e9" * 300_000, "e" + "\u0300\u0323" * 200_000, "\\" * 300_000],
)
def test_a_long_text_takes_no_longer_than_it_is_long(text: str) -> None:
    """Quadratic, it would take minutes."""
    assert [source_text(text.encode(), suffix) for suffix in (".py", ".js", ".rs")] == [text] * 3


def test_text_is_no_code_however_it_is_written(tmp_path: Path) -> None:
    """Only names are written otherwise: no text or comment ends or begins by it."""
    wide = f"x = '{QUOTE}{QUOTE}{QUOTE} {WIDE}(1)'\ny = 1\n"
    assert _score(tmp_path, FORBIDDEN, {"a.py": wide}).score == 1.0
    assert (
        _score(tmp_path, {**FORBIDDEN, "lang": "javascript"}, {"a.js": r"x = '\u0027; eval(1)//'"}).score
        == 1.0
    )


@pytest.mark.parametrize(
    ("note", "score"),
    [
        ("big.py: 99 bytes would exceed the limit of 10 bytes", 0.0),
        ("more than 10000 files: the rest is left out", 0.0),
        ("python3: a link that points outside, or to nothing", 1.0),
        ("pipe: neither a file nor a directory", 1.0),
    ],
)
def test_forbidden_code_is_not_absent_from_what_was_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, note: str, score: float
) -> None:
    fetch = FakeSandbox.fetch

    def incomplete(*args: Any, **options: Any) -> Fetched | None:
        fetched = fetch(*args, **options)
        return None if fetched is None else dataclasses.replace(fetched, notes=(note,))

    monkeypatch.setattr(FakeSandbox, "fetch", incomplete)
    result = _score(tmp_path, FORBIDDEN, {"a.py": "x = 1\n"})
    assert (result.score, "not all was searched" in result.output) == (score, score == 0)
    assert _score(tmp_path, EVAL, {"a.py": "eval(1)\n"}).score == 1.0


def test_a_link_to_more_than_can_be_searched_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ast_grep, "_FILES_LIMIT", 1000)
    result = _score(tmp_path, FORBIDDEN, {"a.txt": "#" * 900}, setup="ln -s a.txt a.py; ln -s a.txt b.py")
    assert result.score == 0.0


def test_a_file_that_makes_ast_grep_talk_without_end_earns_nothing_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pair of brackets matches with all that is inside it: the output grows with the square of the file."""
    monkeypatch.setattr(ast_grep, "_OUTPUT_LIMIT", 1 << 20)
    nested = {"rule": {"kind": "parenthesized_expression"}, "lang": "python"}
    depth = 3000
    result = _score(tmp_path, {**nested, "max": 9000}, {"a.py": "(" * depth + "1" + ")" * depth})
    assert (result.score, result.error) == (0.0, None)
    assert "too many matches" in result.output


def test_a_deleted_directory_is_not_free_of_forbidden_code(tmp_path: Path) -> None:
    result = _score(tmp_path, {**FORBIDDEN, "path": "src"}, {"src/a.py": "x = 1\n"}, setup="rm -r src")
    assert result.score == 0.0


def test_a_single_file_is_searched(tmp_path: Path) -> None:
    files = {"a.py": "x = 1\n", "b.py": "eval(1)\n"}
    assert _score(tmp_path, {**FORBIDDEN, "path": "a.py"}, files).score == 1.0
    assert _score(tmp_path, {**FORBIDDEN, "path": "/app/b.py"}, files).score == 0.0


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"lang": "python"}, "give pattern or rule"),
        ({**EVAL, "rule": {"kind": "call"}}, "give pattern or rule"),
        ({"pattern": "x"}, "lang"),
        ({**EVAL, "minimum": 2}, "minimum"),
        ({**EVAL, "min": 2, "max": 1}, "at least 2 and at most 1"),
        ({"checks": []}, "checks"),
        ({"checks": [{**EVAL, "min": -1}]}, "checks[0].min"),
    ],
)
def test_wrong_parameters_are_refused_before_a_trial_starts(params: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match="scorer 'shape'") as caught:
        check_ast_grep(_spec(params))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "params",
    [
        {"pattern": "x", "lang": "klingon"},
        {"rule": {"knd": "call"}, "lang": "python"},
        {"rule": {"kind": "no_such_kind"}, "lang": "python", "path": "which the agent never made"},
    ],
)
def test_a_rule_that_ast_grep_refuses_is_an_error_and_never_a_zero(
    tmp_path: Path, params: dict[str, Any]
) -> None:
    result = _score(tmp_path, params, {"a.py": "x = 1\n"})
    assert result.score is None
    assert result.error is not None
    assert result.error.class_ == "scorer_crashed"
    assert "ast-grep ended with status" in result.error.message


def _pretending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = tmp_path / "ast-grep"
    program.write_text(f"#!{sys.executable}\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(ast_grep, "_program", lambda _spec: str(program))


def test_an_ast_grep_that_crashes_or_hangs_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pretending(tmp_path, monkeypatch, "import os; os.kill(os.getpid(), 11)")
    crashed = _score(tmp_path, EVAL, {"a.py": "eval(1)"})
    assert crashed.error is not None
    assert crashed.error.class_ == "scorer_crashed"
    _pretending(tmp_path, monkeypatch, "import time; time.sleep(60)")
    late = _score(tmp_path, EVAL, {"a.py": "eval(1)"}, timeout=0.2)
    assert late.error is not None
    assert late.error.class_ == "scorer_timeout"


def test_ast_grep_is_given_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hidden")
    _pretending(tmp_path, monkeypatch, "import os, sys; sys.stderr.write(str(dict(os.environ))); sys.exit(3)")
    result = _score(tmp_path, EVAL, {"a.py": "eval(1)"})
    assert result.error is not None
    assert "PATH" in result.error.message
    assert "sk-hidden" not in result.error.message


def test_a_machine_without_ast_grep_is_told_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    with pytest.raises(InputError, match="ast-grep") as caught:
        check_ast_grep(_spec(EVAL))
    assert "pip install 'pytest-benchjobs[ast-grep]'" in str(caught.value)
