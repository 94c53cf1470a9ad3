"""BigCodeBench: from the official rows to scenarios, and from a reply to the program in it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.scoring.bigcodebench.program.sanitize import longest_program, sanitize
from pytest_benchjobs.sources.catalogue import find
from pytest_benchjobs.sources.catalogue.fetching import fetch
from pytest_benchjobs.sources.datasets.bigcodebench import (
    REPLY,
    SOLUTION,
    BigCodeBench,
    prepare,
    prepare_hard,
)

DATA = Path(__file__).parents[3] / "shared" / "data" / "bigcodebench"


def row(number: int = 13, **more: Any) -> dict[str, Any]:
    """A row of the official schema."""
    return {
        "task_id": f"BigCodeBench/{number}",
        "complete_prompt": 'import os\ndef task_func(path):\n    """Its size."""\n',
        "instruct_prompt": "The size of a file.\n",
        "canonical_solution": "    return os.stat(path).st_size",
        "code_prompt": "import os\ndef task_func(path):\n",
        "test": "import unittest\nclass TestCases(unittest.TestCase):\n    pass\n",
        "entry_point": "task_func",
        "doc_struct": "{}",
        "libs": "['os', 'numpy']",
        **more,
    }


def given(
    directory: Path, *rows: dict[str, Any], ids: list[str] | None = None, name: str = "r.jsonl"
) -> Path:
    """A directory with what a user gives."""
    place = directory / "given"
    place.mkdir()
    text = "".join(json.dumps(one) + "\n" for one in rows).encode()
    (place / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    if ids is not None:
        (place / "hard_ids.json").write_text(json.dumps(ids))
    return place


def source(entry: str, directory: Path) -> BigCodeBench:
    """What an entry makes of prepared rows."""
    found = find(entry)
    assert found is not None
    (made,) = found.sources(directory)
    assert isinstance(made, BigCodeBench)
    return made


def test_a_row_is_a_scenario(tmp_path: Path) -> None:
    prepare(given(tmp_path, row(), row(14, libs=["re"])), tmp_path)
    rows = source("bigcodebench", tmp_path)
    tags = {"bigcodebench-13": ("os", "numpy"), "bigcodebench-14": ("re",)}
    assert {ref.id: ref.tags for ref in rows.refs()} == tags
    scenario = rows.load("bigcodebench-13")
    assert set(scenario.scorers[0].params) == {"code_prompt", "test", "entry_point"}
    assert scenario.answer is not None
    assert scenario.answer.reference == f"{row()['complete_prompt']}\n    return os.stat(path).st_size"
    assert not scenario.is_question
    assert scenario.question is not None
    assert scenario.question.file == REPLY
    assert scenario.fresh_container is not None
    assert scenario.fresh_container.environment is not None
    assert scenario.fresh_container.environment.network == "none"
    assert f"`{SOLUTION}`" in scenario.statement_in_container
    assert "`task_func`" in scenario.statement_in_container


@pytest.mark.parametrize("count", [3, 149])
def test_rows_that_are_not_those_of_hard_need_the_list_of_its_ids(count: int, tmp_path: Path) -> None:
    place = given(tmp_path, *map(row, range(1, count + 1)))
    with pytest.raises(InputError, match=rf"{count} rows, and BigCodeBench-Hard has 148: .* hard_ids\.json"):
        prepare_hard(place, tmp_path)
    (place / "hard_ids.json").write_text(json.dumps(["BigCodeBench/3", "BigCodeBench/1"]))
    prepare_hard(place, tmp_path)
    refs = source("bigcodebench-hard-instruct", tmp_path).refs()
    assert [ref.id for ref in refs] == ["bigcodebench-1", "bigcodebench-3"]
    for name in ("bigcodebench-hard-instruct", "bigcodebench-hard-complete"):
        assert find(name).prepare.endswith(":prepare_hard")  # type: ignore[union-attr]


def test_all_rows_of_hard_need_no_list(tmp_path: Path) -> None:
    prepare_hard(given(tmp_path, *map(row, range(148))), tmp_path)
    assert len(source("bigcodebench-hard-instruct", tmp_path).refs()) == 148


@pytest.mark.parametrize("name", ["mine.jsonl", "mine.jsonl.gz"])
def test_a_file_of_rows_is_given_by_any_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHJOBS_CACHE", str(tmp_path / "cache"))
    wanted = find("bigcodebench")
    assert wanted is not None
    assert fetch(wanted, lambda _: None, given=given(tmp_path, row(), name=name) / name)
    assert [ref.id for ref in wanted.sources()[0].refs()] == ["bigcodebench-13"]


def test_the_prompts_are_those_of_the_official_harness(tmp_path: Path) -> None:
    prepare(given(tmp_path, row()), tmp_path)
    asked = "Please provide a self-contained Python script that solves the following problem in a markdown code block:"
    code = 'import os\ndef task_func(path):\n    """Its size."""'
    assert {
        entry: source(entry, tmp_path).load("bigcodebench-13").problem_statement
        for entry in ("bigcodebench", "bigcodebench_hard_instruct", "BigCodeBench-Hard")
    } == {
        "bigcodebench": f"{asked}\n```\n{code}\n```\n",
        "bigcodebench_hard_instruct": f"{asked}\nThe size of a file.\n",
        "BigCodeBench-Hard": f"{asked}\n```\n{code}\n```\n",
    }


def test_an_id_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"1 of its ids are not in r\.jsonl"):
        prepare(given(tmp_path, row(1), ids=["BigCodeBench/1", "BigCodeBench/2"]), tmp_path)


def test_rows_of_something_else_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a row of BigCodeBench: it has no task_id, complete_prompt"):
        prepare(given(tmp_path, {"id": 1}), tmp_path)


@pytest.mark.skipif(not DATA.is_dir(), reason="the official rows are not beside the repository")
def test_the_official_rows_are_read(tmp_path: Path) -> None:
    prepare(DATA, tmp_path)
    rows = source("bigcodebench-hard-instruct", tmp_path)
    refs = rows.refs()
    assert len(refs) == 148
    assert all(rows.load(ref.id).answer for ref in refs)


FUNCTION = "def task_func(x):\n    return x"


@pytest.mark.parametrize(
    ("reply", "program"),
    [
        (f"Here it is:\n```python\n{FUNCTION}\n```\nIt works.", FUNCTION),
        (FUNCTION, FUNCTION),
        (f"```\nimport os\nimport re as r\n{FUNCTION}\n```", f"import os\nimport re as r\n{FUNCTION}"),
        # Only what the function needs, and none of what is neither import nor definition.
        (f"A = 1\nB = A\nC = 2\ndef g():\n    return B\ndef unused(): pass\n{FUNCTION} + g()\nprint(task_func(1))", f"A = 1\nB = A\ndef g():\n    return B\n{FUNCTION} + g()"),
        ("C = 1\ndef task_func(x):\n    return f'{C}'", "C = 1\ndef task_func(x):\n    return f'{C}'"),
        (f"@cache\ndef g():\n    pass\n{FUNCTION}", FUNCTION),
        (f"from __future__ import annotations\n{FUNCTION}", FUNCTION),
        (f"{FUNCTION}\ndef task_func(x):\n    return 2", FUNCTION),
        (f"{FUNCTION}\nif __name__ == '__main__':\n    task_func(1)", FUNCTION),
        (f"x: int = 1\n{FUNCTION}", f"x: int = 1\n{FUNCTION}"),
        (f"name = 'é'\n{FUNCTION} + name", f"name = 'é'\n{FUNCTION} + name"),
        # The longest valid lines are the program, wherever the marks of the block are.
        (f"I\ncannot\n{FUNCTION}\nor\nso on", FUNCTION),
        ("no code here at all", "no code here at all"),
        ("", ""),
        # What the official one makes of a function in one line.
        ("def task_func(x): return x", "def task_func(x): return x"),
    ],
)  # fmt: skip
def test_the_program_in_a_reply(reply: str, program: str) -> None:
    assert sanitize(reply, "task_func") == program


def test_blank_lines_do_not_make_a_program_longer() -> None:
    assert longest_program("x = 1\n\n\n\n?\na = 1\nb = 2") == "a = 1\nb = 2"
    assert longest_program("a = 1\nb = 2\n?\nc = 1\nd = 2") == "a = 1\nb = 2"
