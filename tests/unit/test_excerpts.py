"""Excerpts: the last lines of a trial's logs, bounded and safe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.job import JobConfig
from pytest_benchjobs.model.policy import Policy
from pytest_benchjobs.model.result import Failure, Outcome, ScorerResult, TrialResult
from pytest_benchjobs.report.console import failure_text
from pytest_benchjobs.report.excerpts import LINES, SIZE, Evidence, Excerpt, excerpts, last_lines
from pytest_benchjobs.report.junit import LIMIT, junit_xml
from pytest_benchjobs.report.markdown import summary_markdown
from pytest_benchjobs.store.log import log_end

from .records import record, result, trial

PATH = "trials/codex/s/1"


def failed(**changes: Any) -> TrialResult:
    why = Failure(class_="below_threshold", message="wrong")
    found = result(trial("s", "codex"), outcome=Outcome.FAILED, score=0.0, failure=why, path=PATH)
    return found.model_copy(update=changes)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "jobs" / "j"
    (root / PATH).mkdir(parents=True)
    return root


def _scorer(score: float | None, output: str, name: str = "right") -> ScorerResult:
    return ScorerResult(name=name, type="bash", weight=1, score=score, output=output)


@pytest.mark.parametrize(
    ("text", "lines", "size", "expected"),
    [
        ("", 3, 10, ()),
        ("\n \n", 3, 10, ()),
        ("one\ntwo\n\n", 3, 10, ("one", "two")),
        ("one\ntwo\nthree\nfour", 2, 100, ("three", "four")),
        ("abcdef\nxyz", 5, 6, ("xyz",)),
        ("abcdefghij", 5, 6, ("...hij",)),
        ("\x1b[31mred\x1b[0m\r\nnext\x00", 5, 100, ("red", "next")),
    ],
)
def test_the_last_lines_are_whole_and_clean(
    text: str, lines: int, size: int, expected: tuple[str, ...]
) -> None:
    assert last_lines(text, lines, size) == expected


def test_agent_and_imperfect_scorers_are_quoted(root: Path) -> None:
    (root / PATH / "agent.log").write_text("trying\nsh: 1: git: not found\n")
    scorers = (_scorer(1.0, "fine", "good"), _scorer(0.0, "expected 3\ngot 4\n"), _scorer(0.0, "", "silent"))
    assert excerpts(failed(scorers=scorers), root) == [
        Excerpt("last lines of the agent (agent.log)", ("trying", "sh: 1: git: not found")),
        Excerpt("last lines of scorer right (scorers/right/output.log)", ("expected 3", "got 4")),
    ]


def test_nothing_of_a_confidential_scenario_is_quoted(root: Path) -> None:
    (root / PATH / "agent.log").write_text("the question was ...")
    assert excerpts(failed(confidential=True, scorers=(_scorer(0.0, "the answer"),)), root) == []


def test_hostile_output_stays_within_its_bound(root: Path) -> None:
    (root / PATH / "agent.log").write_bytes(b"\x1b]0;title\x07" + b"x" * 9_000_000 + b"\xff\n" * 10_000)
    scorers = tuple(_scorer(0.0, "o" * 100_000, f"s{number}") for number in range(50))
    one = failed(scorers=scorers)
    shown = excerpts(one, root)
    assert len(shown) == 4
    for excerpt in shown:
        assert len(excerpt.lines) <= LINES
        assert sum(map(len, excerpt.lines)) <= SIZE
    assert len(failure_text(one, root, shown)) < 20_000


def test_the_verdict_of_several_attempts_quotes_the_one_that_ended_like_it(root: Path) -> None:
    results = []
    for attempt, outcome in ((1, Outcome.PASSED), (2, Outcome.FAILED)):
        path = f"trials/codex/s/{attempt}"
        (root / path).mkdir(exist_ok=True)
        (root / path / "agent.log").write_text(f"attempt {attempt}")
        node_id = f"b::s[codex-{attempt}]"
        results.append(failed(path=path, attempt=attempt, outcome=outcome, node_id=node_id))
    config = JobConfig(directory=root.parent.parent, attempts=2, attempt_policy=Policy(kind="all"))
    verdict = failed(node_id="b::s[codex]", path="")
    (shown,) = Evidence(root, results, config).of(verdict)
    assert shown.lines == ("attempt 2",)


def test_the_end_of_a_regular_file_is_read_and_nothing_held_open(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("0123456789")
    (tmp_path / "link").symlink_to(tmp_path / "log")
    os.mkfifo(tmp_path / "pipe")
    before = len(list(Path("/proc/self/fd").iterdir()))
    found = [log_end(tmp_path / name, 4) for name in ("log", "link", "pipe", "gone", ".")]
    assert found == [b"6789", b"", b"", b"", b""]
    assert log_end(tmp_path / "log", 10) == log_end(tmp_path / "log", 11) == b"0123456789"
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_reports_quote_logs_within_their_budgets(root: Path) -> None:
    # Twice what a file may have, if each were quoted.
    (root / PATH / "agent.log").write_text("<&>\n" * 1000)
    many = [failed(node_id=f"b::s{number}[codex]", scenario=f"s{number}") for number in range(5000)]
    short = junit_xml(record(root), many, evidence=Evidence(root))
    assert len(short) < LIMIT
    assert b"last lines of the agent (agent.log):\n  &lt;&amp;&gt;" in short
    assert short.count(b"<testcase") == 5000
    few = junit_xml(record(root), many[:3], evidence=Evidence(root)).decode()
    assert few.count("last lines of the agent (agent.log):") == 3
    summary = summary_markdown(record(root), many, evidence=Evidence(root))
    assert summary.count("    last lines of the agent (agent.log):\n      <&>") == 10


def test_a_summary_says_where_the_files_are_of_which_it_quotes_logs(root: Path) -> None:
    (root / PATH / "agent.log").write_text("from the log")
    said = {"scorers": (_scorer(0.0, "from the scorer"),)}
    here = failed(**said, node_id="b::here[codex]")
    nowhere = failed(**said, path="", node_id="b::nowhere[codex]")
    lines = summary_markdown(record(root), [here, nowhere], evidence=Evidence(root)).splitlines()
    assert f"`b::here[codex]`, files in `{PATH}`:" in lines
    assert "`b::nowhere[codex]`:" in lines
    assert lines.count("      from the scorer") == 2
