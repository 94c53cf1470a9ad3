"""Sources of rows: an index first, a row when it runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.scenario import Scenario
from pytest_benchjobs.sources import rows
from pytest_benchjobs.sources.protocol import ScenarioRef
from pytest_benchjobs.sources.rows import Row, RowSource

from .records import scenario_of


class Rows(RowSource):
    """Rows with an id, a word and a tag."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rows", "1")
        self.listed: list[str] = []

    def ref(self, row: Row) -> ScenarioRef:
        self.listed.append(row["id"])
        return ScenarioRef(row["id"], (row["tag"],))

    def scenario(self, row: Row, ref: ScenarioRef) -> Scenario:
        return scenario_of(ref.id, problem_statement=row["word"], source=self.path, line=ref.line)


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def row(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "word": f"do {name}", "tag": "easy", **more}


def test_references_come_in_the_order_of_the_file_and_a_row_when_it_runs(tmp_path: Path) -> None:
    source = Rows(write(tmp_path / "rows.jsonl", row("b"), row("a", tag="hard")))
    assert source.refs() == [ScenarioRef("b", ("easy",), 1), ScenarioRef("a", ("hard",), 2)]
    assert source.refs(lambda name: name == "a") == [ScenarioRef("a", ("hard",), 2)]
    assert source.load("a").problem_statement == "do a"


def test_rows_of_any_script_and_blank_lines_are_found_at_their_place(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(
        f"\n{json.dumps(row('ä', word='größe'), ensure_ascii=False)}\n\n{json.dumps(row('b'))}", "utf-8"
    )
    source = Rows(path)
    assert [(ref.id, ref.line) for ref in source.refs()] == [("ä", 2), ("b", 4)]
    assert [source.load(name).problem_statement for name in ("ä", "b")] == ["größe", "do b"]


def test_the_index_of_another_time_serves_and_parses_no_row(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", row("a"), row("b"))
    first = Rows(path)
    refs = first.refs()
    again = Rows(path)
    assert (again.refs(), again.listed, first.listed) == (refs, [], ["a", "b"])
    assert again.load("b").problem_statement == "do b"


def test_a_file_that_changed_is_listed_anew(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", row("a"))
    Rows(path).refs()
    about = path.stat()
    write(tmp_path / "new.jsonl", row("c")).replace(path)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))  # as in two tarballs of one time
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (about.st_size, about.st_mtime_ns)
    assert [ref.id for ref in Rows(path).refs()] == ["c"]


@pytest.mark.parametrize("rows", [("b", "a"), ("x" * 30, "b"), ("a" * 30, "b"), ()])
def test_a_file_that_is_replaced_during_a_run_gives_no_row_of_another_scenario(
    tmp_path: Path, rows: tuple[str, ...]
) -> None:
    path = write(tmp_path / "rows.jsonl", row("a"), row("b"))
    source = Rows(path)
    source.refs()
    write(tmp_path / "new.jsonl", *map(row, rows)).replace(path)
    with pytest.raises(InputError, match=r"rows\.jsonl:1: the row of 'a' is not where it was.*fetched again"):
        source.load("a")
    write(path, row("a", word="do c"), row("b"))
    assert source.load("a").problem_statement == "do c"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"of": 1}', '{"of": null, "rows": [["x"]]}'])
def test_a_damaged_index_is_made_anew(tmp_path: Path, content: str) -> None:
    path = write(tmp_path / "rows.jsonl", row("a"))
    Rows(path).refs()
    (index,) = set(tmp_path.iterdir()) - {path}
    index.write_text(content)
    assert [ref.id for ref in Rows(path).refs()] == ["a"]


def test_where_nothing_can_be_written_rows_are_still_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "rows.jsonl", row("a"))

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(rows, "replace_file", refuse)
    assert [ref.id for ref in Rows(path).refs()] == ["a"]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "x"}', "rows.jsonl:2: the row has no 'tag'"),
        ("[1]", "rows.jsonl:2: the row is wrong: an object is expected"),
        ("{", "rows.jsonl:2: the row is wrong: Expecting property name"),
        (json.dumps(row("a")), "rows.jsonl:2: 'a' is the id of line 1, too"),
    ],
)
def test_a_wrong_row_is_named_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{json.dumps(row('a'))}\n{line}\n")
    with pytest.raises(InputError) as caught:
        Rows(path).refs()
    assert message in str(caught.value)


def test_a_row_that_makes_no_scenario_is_named_when_it_runs(tmp_path: Path) -> None:
    source = Rows(write(tmp_path / "rows.jsonl", row("a"), row("b", word="")))
    assert len(source.refs()) == 2
    with pytest.raises(InputError, match=r"rows\.jsonl:2: the row is wrong: problem_statement: is empty"):
        source.load("b")


def test_an_unknown_scenario_and_a_missing_file_say_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no scenario 'one'\. did you mean 'once'"):
        Rows(write(tmp_path / "rows.jsonl", row("once"))).load("one")
    with pytest.raises(InputError, match="cannot be read: No such file"):
        Rows(tmp_path / "none.jsonl").refs()
