"""The scorers `files` and `result_file`: passing, failing, partial, lying and crashing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.result import ScorerResult
from pytest_benchjobs.model.scenario import ScorerSpec
from pytest_benchjobs.scoring.expected_files import check_files, score_files
from pytest_benchjobs.scoring.protocol import Scorer
from pytest_benchjobs.scoring.result_file import Place, check_result_file, score_result_file

from .scoring import Files, left, scored

KINDS: dict[str, Scorer] = {"files": score_files, "result_file": score_result_file}


def _score(
    tmp_path: Path, kind: str, params: Mapping[str, Any], files: Files, *, setup: str = "true", **spec: Any
) -> ScorerResult:
    told = ScorerSpec(name="s", type=kind, params=dict(params), **spec)
    with left(files, setup) as sandbox:
        return scored(sandbox, told, KINDS[kind], tmp_path / "t")


@pytest.mark.parametrize(
    ("expected", "content", "score"),
    [
        ({"equals": "7\n"}, "7", 1.0),
        ({"equals": "a\nb"}, "a  \r\nb\n\n", 1.0),
        ({"equals": "7"}, "77", 0.0),
        ({"equals": ""}, "", 1.0),
        ({"contains": ["a", "b"]}, "b a", 1.0),
        ({"contains": ["a", "b"]}, "a", 0.0),
        ({"lacks": ["TODO"]}, "TODO: all", 0.0),
        ({"matches": r"^Done: \d+$"}, "so\nDone: 12\n", 1.0),
        ({"matches": r"^Done$"}, "Done.", 0.0),
        ({"json": {"a": [1, True]}}, '{"a": [1.0, true]}', 1.0),
        ({"json": {"a": 1}}, '{"a": true}', 0.0),
        ({"json": {"a": 1}}, '{"a": 1, "b": 2}', 0.0),
        ({"json": {"a": 1}}, "[" * 100_000, 0.0),
        ({"json": False}, "false", 1.0),
        ({"sha256": hashlib.sha256(b"\xff\0").hexdigest()}, b"\xff\0", 1.0),
        ({"sha256": "0" * 64}, b"\xff", 0.0),
        ({"max_bytes": 3}, "1234", 0.0),
        ({}, "", 1.0),
        ({"exists": False}, "", 0.0),
    ],
)
def test_a_file_is_as_expected_or_not(
    tmp_path: Path, expected: dict[str, Any], content: str | bytes, score: float
) -> None:
    result = _score(tmp_path, "files", {"files": [{"path": "f", **expected}]}, {"f": content})
    assert (result.score, result.error) == (score, None), result.output


def test_files_give_partial_credit_and_show_no_content(tmp_path: Path) -> None:
    params = {
        "files": [
            {"path": "a", "equals": "secret"},
            {"path": "/app/b", "equals": "secret", "contains": ["x"]},
            {"path": "c"},
            {"path": "d", "exists": False},
        ]
    }
    result = _score(tmp_path, "files", params, {"a": "secret", "b": "mine"})
    assert result.score == 0.5
    assert result.output.splitlines() == [
        "ok  a",
        "NOT  /app/b: it is not equal; it lacks 1 of 1 texts",
        "NOT  c: there is no such file",
        "ok  d",
    ]
    assert result.details == {"right": 2, "total": 4}


@pytest.mark.parametrize(
    "setup", ["mkdir f", "mkfifo f", "ln -s /dev/zero f", "ln -s f f", "ln -s /nowhere f"]
)
def test_what_is_no_file_is_wrong_and_holds_nobody_up(tmp_path: Path, setup: str) -> None:
    result = _score(tmp_path, "files", {"files": [{"path": "f"}]}, {}, setup=setup)
    assert result.score == 0.0 or result.error is not None


@pytest.mark.parametrize(
    ("params", "command", "words"),
    [
        ({}, None, "files"),
        ({"files": []}, None, "files"),
        ({"files": [{"path": "a", "matches": "("}]}, None, "not a valid regular expression"),
        ({"files": [{"path": "a", "exists": False, "equals": "x"}]}, None, "has no content"),
        ({"files": [{"path": "a", "equal": "x"}]}, None, "equal"),
        ({"files": [{"path": "a", "sha256": "XYZ"}]}, None, "sha256"),
        ({"file": "a"}, None, "command: is required"),
        ({}, "true", "file"),
        ({"file": "a", "worst": 1}, "true", "two different values"),
        ({"file": "a", "best": float("inf")}, "true", "best"),
    ],
)
def test_wrong_parameters_are_refused_before_a_trial(
    params: dict[str, Any], command: str | None, words: str
) -> None:
    is_result = command is not None or "file" in params
    spec = ScorerSpec(name="s", type="result_file" if is_result else "files", params=params, command=command)
    with pytest.raises(InputError, match="scorer 's'") as caught:
        (check_result_file if is_result else check_files)(spec)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("content", "params", "score"),
    [
        ("0.5", {}, 0.5),
        ('{"a": {"b": [0, 0.25]}}', {"key": "a.b.1"}, 0.25),
        ('{"s": 5}', {"key": "s", "worst": 60, "best": 5}, 1.0),
        ('{"s": 32.5}', {"key": "s", "worst": 60, "best": 5}, 0.5),
        ('{"s": 90}', {"key": "s", "worst": 60, "best": 5}, 0.0),
        ("85", {"best": 100}, 0.85),
    ],
)
def test_a_number_in_a_file_is_a_score(
    tmp_path: Path, content: str, params: dict[str, Any], score: float
) -> None:
    command = f"echo '{content}' > r.json"
    result = _score(tmp_path, "result_file", {"file": "r.json", **params}, {}, command=command)
    assert result.score == pytest.approx(score), result.error
    assert (tmp_path / "t" / "scorers" / "s" / "result").read_text().strip() == content


@pytest.mark.parametrize(
    ("command", "params", "class_"),
    [
        ("true", {}, "score_missing"),
        ("exit 3", {}, "scorer_crashed"),
        ("echo 1 > r.json; exit 3", {}, "scorer_crashed"),
        ("echo '{}' > r.json", {"key": "score"}, "score_missing"),
        ("echo '[1]' > r.json", {"key": "7"}, "score_missing"),
        ("echo 1.5 > r.json", {}, "score_invalid"),
        ("echo NaN > r.json", {"best": 100}, "score_invalid"),
        ("echo 1e999 > r.json", {"best": 100}, "score_invalid"),
        ("echo true > r.json", {}, "score_invalid"),
        ("echo '\"1\"' > r.json", {}, "score_invalid"),
        ("echo good > r.json", {}, "score_invalid"),
        ("head -c 100000 /dev/zero | tr '\\0' '[' > r.json", {}, "score_invalid"),
    ],
)
def test_what_is_no_result_is_an_error_although_the_agent_left_one(
    tmp_path: Path, command: str, params: dict[str, Any], class_: str
) -> None:
    """An agent that lies: it wrote a perfect result beforehand."""
    result = _score(
        tmp_path, "result_file", {"file": "r.json", **params}, {"r.json": '{"score": 1}'}, command=command
    )
    assert result.score is None
    assert result.error is not None
    assert result.error.class_ == class_
    assert "recursion" not in result.error.message


def test_a_link_in_place_of_the_result_leads_nowhere(tmp_path: Path) -> None:
    how = {"setup": "ln -s mine r.json", "command": "echo 0.5 > r.json; cat mine"}
    found = _score(tmp_path, "result_file", {"file": "r.json"}, {"mine": "1"}, **how)
    assert (found.score, found.output.strip()) == (0.5, "1")


_VALUES = st.floats(-1e150, 1e150, allow_nan=False)


@given(_VALUES, _VALUES, _VALUES)
def test_any_scale_gives_a_score_from_0_to_1(value: float, worst: float, best: float) -> None:
    if worst == best:
        return
    place = Place(file="f", worst=worst, best=best)
    assert 0 <= place.score(value, "it") <= 1
    assert (place.score(worst, "it"), place.score(best, "it")) == (0.0, 1.0)
