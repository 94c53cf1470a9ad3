"""Rows of SWE-bench: from the official file to scenarios."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.scoring.swebench.logs import PARSERS
from pytest_benchjobs.sources.catalogue import find
from pytest_benchjobs.sources.datasets.files import MAX_TEXT, names
from pytest_benchjobs.sources.datasets.swebench import SWEBench, prepare

DATA = Path(__file__).parents[3] / "shared" / "data" / "swebench_verified"


def row(name: str = "pallets__flask-1", **more: Any) -> dict[str, Any]:
    """A row of the official schema of version 5."""
    return {
        "repo": "pallets/flask",
        "instance_id": name,
        "base_commit": "0" * 40,
        "patch": "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
        "test_patch": "",
        "problem_statement": "It is\r\nwrong.\n",
        "hints_text": "do not look",
        "created_at": "2023-03-04T18:36:21Z",
        "version": "2.3",
        "FAIL_TO_PASS": '["t::a"]',
        "PASS_TO_PASS": '["t::b", "t::c"]',
        "environment_setup_commit": "1" * 40,
        "difficulty": "<15 min fix",
        "eval_script": "#!/bin/bash\nset -uxo pipefail\n",
        "log_parser": "parse_log_flask",
        "eval_type": "pass_and_fail",
        "image": "swebench/sweb.eval.x86_64.pallets_1776_flask-1:latest",
        **more,
    }


def source(directory: Path, *rows: dict[str, Any]) -> SWEBench:
    """What is read of these rows."""
    given = directory / "given"
    given.mkdir()
    (given / "test.json").write_text(json.dumps(rows))
    prepare(given, directory)
    return read(directory)


def read(directory: Path) -> SWEBench:
    entry = find("swebench_verified")
    assert entry is not None
    (made,) = entry.sources(directory)
    assert isinstance(made, SWEBench)
    return made


def test_a_row_is_a_scenario(tmp_path: Path) -> None:
    rows = source(tmp_path, row(), row("pallets__flask-2", difficulty=">4 hours"))
    assert [(ref.id, ref.tags) for ref in rows.refs()] == [
        ("pallets__flask-1", ("pallets/flask", "under-15-minutes")),
        ("pallets__flask-2", ("pallets/flask", "over-4-hours")),
    ]
    scenario = rows.load("pallets__flask-1")
    assert scenario.problem_statement == "It is\r\nwrong.\n"
    assert scenario.environment.image == "swebench/sweb.eval.x86_64.pallets_1776_flask-1:latest"
    assert scenario.environment.workdir == "/testbed"
    assert scenario.reference is not None
    assert "+b\nBENCHJOBS_END" in (scenario.reference.script or "")
    (scorer,) = scenario.scorers
    assert (scorer.type, scorer.timeout, scorer.user) == ("swebench", 1800, "root")
    assert scorer.params == {
        "eval_script": "#!/bin/bash\nset -uxo pipefail\n",
        "log_parser": "parse_log_flask",
        "fail_to_pass": ["t::a"],
        "pass_to_pass": ["t::b", "t::c"],
    }
    assert scenario.fresh_container is not None
    assert (scenario.fresh_container.patch, scenario.fresh_container.ignored) == (True, False)
    assert "hints_text" not in (tmp_path / "rows.jsonl").read_text()


@pytest.mark.parametrize("older", [{"eval_script": None}, {"eval_script": ""}])
def test_a_row_of_before_version_5_is_one_clear_error(tmp_path: Path, older: dict[str, Any]) -> None:
    with pytest.raises(
        InputError, match=r"rows\.jsonl:2: .*no eval_script, so it is of SWE-bench before version 5"
    ):
        source(tmp_path, row(), row("b", **older), row("c", **older)).refs()


def test_a_row_that_is_graded_by_failures_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="eval_type: only 'pass_and_fail'"):
        source(tmp_path, row(eval_type="fail_only")).load("pallets__flask-1")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["a", "b"], ["a", "b"]),
        ('["a", "b"]', ["a", "b"]),
        ("['a', \"it's\"]", ["a", "it's"]),
        ("('a',)", ["a"]),
        ("", []),
        ("[]", []),
        (None, []),
    ],
)
def test_a_list_is_read_however_it_is_written(written: object, read: list[str]) -> None:
    assert names({"key": written}, "key") == read


@pytest.mark.parametrize(
    "written",
    [
        "a",
        "[1]",
        "{'a'}",
        "['a'",
        "__import__('os')",
        "[" * 100_000,
        "[" + " " * MAX_TEXT,
        [1],
        {"a": 1},
        "['a', b]",
    ],
)
def test_what_is_no_list_of_texts_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match=r"^key: "):
        names({"key": written}, "key")


def test_a_file_of_the_user_may_be_json_lines(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    text = json.dumps(row(problem_statement="a\u2028b"), ensure_ascii=False)
    (tmp_path / "in" / "rows.jsonl").write_text(f"{text}\n\n", "utf-8")
    prepare(tmp_path / "in", tmp_path)
    assert json.loads((tmp_path / "rows.jsonl").read_text())["problem_statement"] == "a\u2028b"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "one .parquet, .jsonl or .json file is expected, found none"),
        ({"a.json": "[]", "b.json": "[]"}, "found a.json, b.json"),
        ({"a.json": "{}"}, "a list of objects is expected"),
        ({"a.jsonl": "{"}, "cannot be read"),
        ({"a.parquet": "x"}, "cannot be read"),
    ],
)
def test_what_cannot_be_prepared_says_why(tmp_path: Path, files: dict[str, str], message: str) -> None:
    if "a.parquet" in files:
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    (tmp_path / "in").mkdir()
    for name, text in files.items():
        (tmp_path / "in" / name).write_text(text)
    with pytest.raises(InputError, match=message):
        prepare(tmp_path / "in", tmp_path)


def test_a_parquet_file_without_pyarrow_names_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"pip install 'pytest-benchjobs\[parquet\]'"):
        prepare(tmp_path, tmp_path)


def test_two_of_500_rows_are_two_that_are_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source(tmp_path, *(row(f"our__tiny-{number}") for number in range(500))).refs()  # the index is made
    parsed: list[str] = []

    def counted(line: bytes) -> Any:
        parsed.append(json.loads(line)["instance_id"])
        return json.loads(line)

    monkeypatch.setattr("pytest_benchjobs.sources.rows._row", counted)
    rows = read(tmp_path)
    chosen = [ref.id for ref in rows.refs({"our__tiny-7", "our__tiny-400"}.__contains__)]
    for name in chosen:
        rows.load(name)
    assert parsed == chosen == ["our__tiny-7", "our__tiny-400"]


def test_the_official_file_has_500_rows(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    if not DATA.is_dir():
        pytest.skip(f"the rows of SWE-bench Verified are not at {DATA}")
    entry = find("swe-bench-verified")
    assert entry is not None
    prepare(DATA, tmp_path)
    rows = read(tmp_path)
    ids = [ref.id for ref in rows.refs()]
    assert len(ids) == entry.scenarios == 500
    assert entry.exceptions.keys() <= set(ids)
    for name in ids:
        (scorer,) = rows.load(name).scorers
        assert scorer.params["fail_to_pass"]
        assert scorer.params["log_parser"].removeprefix("parse_log_") in PARSERS
