from __future__ import annotations

import csv
import datetime
import importlib.util
import io
import json
import os
import re
import threading
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.model.result import ScorerResult
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.report.documents import schema_of
from pytest_benchjobs.report.export import COLUMNS, csv_lines, rows
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.reader import HistoryReader

from .cli import Cli, cli, origin
from .jobs import ended

__all__ = ["cli"]

JOB, EARLIER = "20261121-054712-4f9a2c", "20261120-000000-000000"


def exported(cli: Cli, *jobs: str) -> list[dict[str, Any]]:
    """Rows of `export --format jsonl`, each checked against the published schema."""
    said = cli("export", *jobs, "--format", "jsonl")
    assert said.err == ""
    found = [json.loads(line) for line in said.lines]
    validator = jsonschema.Draft202012Validator(schema_of("export"))
    for row in found:
        validator.validate(row)
        assert tuple(row) == COLUMNS
    return found


def test_json_lines_have_what_training_and_frames_need(cli: Cli) -> None:
    scorers = (
        ScorerResult(name="right", type="bash", weight=3, score=0.0),
        ScorerResult(name="exists", type="command", weight=1, score=1.0),
        ScorerResult(name="exists", type="command", weight=1, score=None),
    )
    usage = Usage(input_tokens=10, output_tokens=5, cached_tokens=2, reasoning_tokens=1, cost_usd=0.25)
    one = ended("H", agent="codex:gpt-5.5", attempt=2, scorers=scorers, usage=usage)
    cli.make(JOB, [one, ended("E", "lost")], name="nightly", config={"attempts": 2})
    place = cli.bundle(JOB).root / "trials/codex_gpt-5.5/count/2"
    (place / "trajectory.jsonl").write_text("{}\n")
    first, second = exported(cli, "nightly")
    assert first == {
        "schema_version": 1, "job": JOB, "job_name": "nightly", "run": f"{JOB}.1", "benchmark": "texts",
        "benchmark_version": None, "scenario": "count", "attempt": 2, "tries": 1, "agent": "codex:gpt-5.5",
        "model": "gpt-5.5", "provider": None, "node_id": "a.bench.yaml::count[codex:gpt-5.5-2]",
        "group": f"{JOB}/a.bench.yaml::count[codex:gpt-5.5]", "outcome": "failed", "class": "below_threshold",
        "message": "below_threshold of count", "score": 0.25, "threshold": 1.0,
        "scores": {"right": 0.0, "exists": 1.0, "exists#2": None}, "metrics": {},
        "started_at": "2026-11-21T05:47:12+00:00", "finished_at": "2026-11-21T05:47:14+00:00", "seconds": 2.0,
        "input_tokens": 10, "output_tokens": 5, "cached_tokens": 2, "reasoning_tokens": 1, "cost_usd": 0.25,
        "signature": None, "reused": None, "rescored": None, "log": "trials/codex_gpt-5.5/count/2/agent.log",
        "trajectory": "trials/codex_gpt-5.5/count/2/trajectory.jsonl",
    }  # fmt: skip
    assert (second["outcome"], second["score"], second["class"]) == ("error", None, "engine_lost")
    assert (second["cost_usd"], second["trajectory"]) == (None, None)


@pytest.mark.parametrize("job", ["../../../outside", EARLIER, "missing"])
def test_no_file_outside_of_the_results_is_named(cli: Cli, tmp_path: Path, job: str) -> None:
    cli = cli.at(tmp_path / "a" / "reports")
    cli.make(EARLIER, {"oracle": {"count": "P"}})
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("agent.log", "trajectory.jsonl"):
        (outside / name).write_text("secret")
    cli.make(JOB, [ended("P", reused=origin(job, "../../../../outside"))])
    other = cli.make("other", [ended("P"), ended("P", "link")])
    linked = cli.bundle("other").root / "trials/oracle/link/1/agent.log"
    linked.unlink()
    linked.symlink_to(outside / "agent.log")
    with History.of(cli.directory) as history:
        history.save_trials([ended("P", job=other.id, path="../../../../outside")])
    found = exported(cli, JOB, "other")
    assert [(row["log"], row["trajectory"]) for row in found] == [(None, None)] * 3


def test_several_jobs_follow_each_other(cli: Cli) -> None:
    cli.make(EARLIER, {"oracle": {"count": "P"}})
    cli.make(JOB, {"oracle": {"count": "P", "sums": "P"}}, hours_ago=1)
    assert [row["job"] for row in exported(cli, "last~1", "last", JOB)] == [EARLIER, JOB, JOB]


def test_csv_says_the_same_as_json_lines(cli: Cli) -> None:
    cli.make(JOB, {"oracle": {"count": "PH"}, "codex:gpt-5.5": {"count": "E"}})
    lines = exported(cli, "last")
    text = cli("export", "last", "--format", "csv").out
    assert text.startswith("schema_version,job,job_name,run,benchmark,")
    assert text.count("\n") == text.count("\r\n") == 4
    table = list(csv.DictReader(io.StringIO(text, newline="")))
    for row, line in zip(table, lines, strict=True):
        for name, value in line.items():
            cell = row[name]
            if isinstance(value, dict):
                assert json.loads(cell) == value
            elif isinstance(value, float):
                assert float(cell) == value
            else:
                assert cell == ("" if value is None else str(value))


@pytest.mark.parametrize(
    ("message", "cell"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+1+cmd|'/C calc'!A0", "'+1+cmd|'/C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-2.5e3", "-2.5e3"),
        ("+1", "+1"),
        ('say "x", \n y', 'say "x", \n y'),
        ("plain", "plain"),
    ],
)
def test_no_cell_is_a_formula(cli: Cli, tmp_path: Path, message: str, cell: str) -> None:
    why = ended("F").failure
    assert why is not None
    cli.make(JOB, [ended("F", failure=why.model_copy(update={"message": message}))])
    with HistoryReader.of(tmp_path) as history:
        text = "".join(csv_lines(rows(tmp_path, history, JOB)))
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert row["message"] == cell


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=1, max_size=5))
def test_any_text_comes_back_from_csv_and_none_is_a_formula(texts: list[str]) -> None:
    exported = [{**dict.fromkeys(COLUMNS), "message": text} for text in texts]
    table = list(csv.DictReader(io.StringIO("".join(csv_lines(exported)), newline="")))
    for row, text in zip(table, texts, strict=True):
        assert row["message"] in (text, f"'{text}")
        if row["message"][:1] in ("=", "+", "-", "@"):
            float(row["message"])


def test_a_file_appears_whole_or_not_at_all(cli: Cli, tmp_path: Path) -> None:
    cli.make(JOB, {"oracle": {"count": "P"}})
    out = tmp_path / "out" / "trials.csv"
    out.parent.mkdir()
    assert cli("export", "last", "--format", "csv", "--out", out) == ("", "")
    before = out.read_bytes()
    assert before.count(b"\r\n") == 2
    (tmp_path / "jobs" / JOB / "trials/oracle/count/1/result.json").unlink()
    cli.refused("export", "last", "nope", "--format", "csv", "--out", out)
    assert out.read_bytes() == before
    assert [path.name for path in out.parent.iterdir()] == ["trials.csv"]
    cli.refused("export", "last", "--format", "csv", "--out", tmp_path / "missing" / "x.csv")


@pytest.mark.parametrize("arguments", [[], ["last", "--format", "xml"], ["last", "--format"]])
def test_a_mistake_is_one_line(cli: Cli, arguments: list[str]) -> None:
    cli.make(JOB, {"oracle": {"count": "P"}})
    cli.refused("export", *arguments)


def test_the_form_is_that_of_the_file(cli: Cli, tmp_path: Path) -> None:
    cli.make(JOB, {"oracle": {"count": "P"}})
    csv_begins = "schema_version,"
    for name, begins in (("a.csv", csv_begins), ("a.jsonl", '{"schema_version"')):
        cli("export", "last", "--out", tmp_path / name)
        assert (tmp_path / name).read_text().startswith(begins)
    assert cli("export", "last").out.startswith(csv_begins)


def test_every_column_has_a_row_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "results.md").read_text("utf-8")
    table = page.partition("\n## Rows\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*`) \|", table, re.MULTILINE)
    assert [name for cell in cells for name in re.findall(r"`(\w+)`", cell)] == list(COLUMNS)


def test_a_pipe_is_written_to_and_a_link_followed(cli: Cli, tmp_path: Path) -> None:
    cli.make(JOB, {"oracle": {"count": "P"}})
    pipe, target, link = tmp_path / "pipe", tmp_path / "target.csv", tmp_path / "link.csv"
    os.mkfifo(pipe)
    link.symlink_to(target)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    cli("export", "last", "--out", pipe)
    reader.join()
    assert read[0].count("\n") == 2
    assert pipe.is_fifo()
    cli("export", "last", "--out", link)
    assert link.is_symlink()
    assert target.read_text() == read[0]


def test_a_row_that_names_no_place_has_no_files(cli: Cli, tmp_path: Path) -> None:
    cli.make(JOB, {"oracle": {"count": "P"}})
    with History.of(tmp_path) as history:
        history.connection.execute("UPDATE trials SET path = ''")
        history.connection.commit()
    (row,) = exported(cli, JOB)
    assert (row["log"], row["trajectory"]) == (None, None)


def test_files_of_a_trial_that_was_reused_twice_or_rescored_are_those_of_where_it_ran(cli: Cli) -> None:
    cli.make("first", {"oracle": {"count": "P"}}, hours_ago=9)
    (cli.bundle("first").root / "trials/oracle/count/1/trajectory.jsonl").write_text("{}\n")
    cli.make("second", [ended("P", rescored=origin("first"))], hours_ago=8)
    cli.make("third", [ended("P", reused=origin("second"))], hours_ago=7)
    (cli.bundle("second").root / "trials/oracle/count/1/agent.log").unlink()
    there = "../first/trials/oracle/count/1"
    for job, reused in (("second", None), ("third", "second")):
        (row,) = exported(cli, job)
        assert row["reused"] == reused
        assert (cli.bundle(job).root / row["log"]).is_file()
        assert (row["log"], row["trajectory"]) == (f"{there}/agent.log", f"{there}/trajectory.jsonl")


def test_parquet_has_typed_columns(cli: Cli, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    cli.make(JOB, [ended("P", usage=Usage(input_tokens=10, cost_usd=0.25)), ended("E", "lost")])
    cli("export", JOB, "--out", tmp_path / "t.parquet")
    table = parquet.read_table(tmp_path / "t.parquet").to_pylist()
    rows_of = exported(cli, JOB)
    for row in rows_of:
        row |= {name: json.dumps(row[name]) for name in ("scores", "metrics")}
        row |= {name: datetime.datetime.fromisoformat(row[name]) for name in ("started_at", "finished_at")}
    assert table == rows_of


def test_parquet_without_pyarrow_names_the_cure(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.make(JOB, {"oracle": {"count": "P"}})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install 'pytest-benchjobs[parquet]'" in cli.refused(
        "export", JOB, "--out", tmp_path / "t.parquet"
    )


def test_an_unknown_suffix_is_refused_without_a_format(cli: Cli, tmp_path: Path) -> None:
    cli.make(JOB, {"oracle": {"count": "P"}})
    assert "t.xlsx: unknown suffix .xlsx; name a file in .csv, " in cli.refused(
        "export", JOB, "--out", tmp_path / "t.xlsx"
    )
    assert not (tmp_path / "t.xlsx").exists()
    assert cli("export", JOB, "--out", tmp_path / "t.xlsx", "--format", "csv").err == ""
