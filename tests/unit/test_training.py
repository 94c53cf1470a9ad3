"""Export of attempts for training: prompt, trajectory, score and usage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_benchjobs.model.job import Invocation
from pytest_benchjobs.model.metric import Metric
from pytest_benchjobs.model.result import ScorerResult, Signature
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.report.documents import schema_of
from pytest_benchjobs.sources import open_source
from pytest_benchjobs.trial.signature import task_digest

from .cli import Cli, cli, origin
from .jobs import ended

__all__ = ["cli"]

JOB = "20261121-054712-4f9a2c"
NULLABLE = {"input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost_usd"}
STEPS = [
    {"schema_version": "ATIF-v1.7", "agent": {"name": "codex", "version": "1", "model_name": "gpt-5.5"}},
    {"step_id": 1, "source": "user", "message": "Count."},
    {
        "step_id": 2,
        "source": "agent",
        "message": "",
        "reasoning_content": "I look",
        "tool_calls": [
            {"tool_call_id": "call-1", "function_name": "Bash", "arguments": {"command": "wc -w in.txt"}}
        ],
        "observation": {"results": [{"source_call_id": "call-1", "content": "3"}]},
    },
    {"step_id": 3, "source": "agent", "message": "done \u001b[31m"},
    {"final_metrics": {"total_steps": 3}},
]


def exported(cli: Cli) -> tuple[list[dict[str, Any]], list[str]]:
    """Lines of the export, columns of which have one type, as the published schema says, and what stderr says."""
    out, err = cli("export", "last", "--format", "rl")
    found = [json.loads(line) for line in out.splitlines()]
    validator = jsonschema.Draft202012Validator(schema_of("training"))
    for row in found:
        validator.validate(row)
        assert {name for name, value in row.items() if value is None} <= NULLABLE
        for message in row["messages"]:
            assert {type(value) for name, value in message.items() if name != "tool_calls"} == {str}
            assert list(message) == ["role", "content", "reasoning", "tool_calls", "tool_call_id"]
    return found, err.splitlines()


def trajectory(cli: Cli, trial: str, lines: list[Any]) -> None:
    path = cli.bundle(JOB).root / "trials" / trial / "trajectory.jsonl"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))


def manifest(root: Path, statement: str = "Count the words.") -> Signature:
    """Write a benchmark; returns the signature of its task."""
    file = root / "a.bench.yaml"
    file.write_text(
        "benchmark: texts\nscenarios:\n  - id: count\n    image: debian\n"
        f"    problem_statement: {statement}\n    scorers: [{{type: command, command: 'true'}}]\n"
    )
    source = open_source(file)
    assert source is not None
    return Signature(value="x", parts={"scenario": task_digest(source.load("count"))})


def called_in(root: Path) -> Invocation:
    return Invocation(directory=root, rootdir=root, arguments=())


def test_an_attempt_is_one_line_of_prompt_messages_score_and_usage(cli: Cli, tmp_path: Path) -> None:
    signature = manifest(tmp_path)
    scorers = (
        ScorerResult(name="right", type="bash", weight=3, score=0.0),
        ScorerResult(name="there", type="bash", weight=1, score=1.0),
        ScorerResult(name="broke", type="bash", weight=1, score=None),
    )
    one = ended(
        "H", agent="codex:gpt-5.5", attempt=2, scorers=scorers, tags=("easy",), benchmark_version="2.1",
        usage=Usage(input_tokens=10, output_tokens=5, cost_usd=0.25), signature=signature,
        metrics=(Metric(name="seconds", value=2.5, unit="s", direction="lower"),),
    )  # fmt: skip
    cli.make(JOB, [one], config={"attempts": 2}, invocation=called_in(tmp_path))
    trajectory(cli, "codex_gpt-5.5/count/2", STEPS)
    (row,), err = exported(cli)
    assert err == []
    assert row == {
        "schema_version": 1,
        "job": JOB,
        "group": f"{JOB}/a.bench.yaml::count[codex:gpt-5.5]",
        "benchmark": "texts",
        "benchmark_version": "2.1",
        "scenario": "count",
        "tags": ["easy"],
        "agent": "codex:gpt-5.5",
        "model": "gpt-5.5",
        "attempt": 2,
        "prompt": "Count the words.",
        "messages": [
            {"role": "user", "content": "Count.", "reasoning": "", "tool_calls": [], "tool_call_id": ""},
            {
                "role": "assistant",
                "content": "",
                "reasoning": "I look",
                "tool_calls": [{"id": "call-1", "name": "Bash", "arguments": '{"command": "wc -w in.txt"}'}],
                "tool_call_id": "",
            },
            {"role": "tool", "content": "3", "reasoning": "", "tool_calls": [], "tool_call_id": "call-1"},
            {"role": "assistant", "content": "done ", "reasoning": "", "tool_calls": [], "tool_call_id": ""},
        ],
        "score": 0.25,
        "passed": False,
        "scores": [
            {"scorer": "right", "score": 0.0, "weight": 3.0},
            {"scorer": "there", "score": 1.0, "weight": 1.0},
        ],
        "metrics": [{"name": "seconds", "value": 2.5, "unit": "s", "direction": "lower"}],
        "outcome": "failed",
        "class": "below_threshold",
        "input_tokens": 10,
        "output_tokens": 5,
        "cached_tokens": None,
        "reasoning_tokens": None,
        "cost_usd": 0.25,
        "seconds": 2.0,
        "reused": "",
    }


def test_attempts_of_a_group_are_on_consecutive_lines_and_errors_have_none(cli: Cli) -> None:
    trials = [
        ended(letter, scenario, agent, attempt)
        for attempt, letter in ((10, "P"), (2, "F"), (1, "E"), (3, "C"))
        for scenario in ("sums", "count")
        for agent in ("oracle", "nop")
    ]
    cli.make(JOB, trials, config={"attempts": 10})
    rows, err = exported(cli)
    assert [(row["agent"], row["scenario"], row["attempt"], row["score"]) for row in rows] == [
        (agent, scenario, attempt, score)
        for agent in ("nop", "oracle")
        for scenario in ("count", "sums")
        for attempt, score in ((2, 0.0), (10, 1.0))
    ]
    assert len({row["group"] for row in rows}) == 4
    assert err == [
        "8 trials without a score left out: errors, cancelled and skipped ones have no reward",
        (
            "8 trials with an empty prompt: the task has none or has changed since, or the benchmark is not there or is "
            "in a Python file, which exports do not import"
        ),
    ]


@pytest.mark.parametrize(("statement", "prompt"), [("Count the words.", True), ("Count the lines.", False)])
def test_a_prompt_that_has_changed_since_is_not_passed_off_as_the_one_of_then(
    cli: Cli, tmp_path: Path, statement: str, prompt: bool
) -> None:
    signature = manifest(tmp_path)
    cli.make(JOB, [ended("P", signature=signature)], invocation=called_in(tmp_path))
    manifest(tmp_path, statement)
    (row,), err = exported(cli)
    assert row["prompt"] == (statement if prompt else "")
    assert len(err) == (0 if prompt else 1)


def test_nothing_of_a_confidential_benchmark_is_exported(cli: Cli) -> None:
    cli.make(JOB, [ended("P", confidential=True), ended("P", "open")])
    rows, err = exported(cli)
    assert [row["scenario"] for row in rows] == ["open"]
    assert err[0] == "1 trial of confidential benchmarks left out"


def test_a_reused_attempt_has_the_trajectory_of_the_job_that_ran_it(cli: Cli) -> None:
    cli.make(JOB, {"oracle": {"count": "P"}})
    trajectory(cli, "oracle/count/1", STEPS)
    cli.make("20261122-000000-bbbbbb", [ended("P", reused=origin(JOB))], hours_ago=1)
    (row,), _ = exported(cli)
    assert (row["reused"], len(row["messages"])) == (JOB, 4)


def test_a_trajectory_that_is_cut_edited_or_a_link_harms_nothing(cli: Cli, tmp_path: Path) -> None:
    cli.make(JOB, {"oracle": {"cut": "P", "linked": "P", "odd": "P"}})
    trajectory(cli, "oracle/cut/1", [STEPS[1], '{"step_id": 2, "source": "agent", "mess'])
    (tmp_path / "secret.jsonl").write_text(json.dumps(STEPS[1]))
    root = cli.bundle(JOB).root
    (root / "trials/oracle/linked/1/trajectory.jsonl").symlink_to(tmp_path / "secret.jsonl")
    odd: list[Any] = [
        [1], "7", {"step_id": 1, "source": ["x"], "message": 5, "tool_calls": 3}, {"step_id": 2, "tool_calls": ["x"]},
        {"step_id": 3, "source": "tool", "message": None, "observation": {"results": None}},
    ]  # fmt: skip
    trajectory(cli, "oracle/odd/1", odd)
    rows, _ = exported(cli)
    found = {row["scenario"]: [one["content"] for one in row["messages"]] for row in rows}
    assert found == {"cut": ["Count."], "linked": [], "odd": [""]}


def test_a_trial_whose_files_are_gone_is_left_out_and_told(cli: Cli) -> None:
    cli.make(JOB, {"oracle": {"count": "P", "gone": "P"}})
    (cli.bundle(JOB).root / "trials/oracle/gone/1/result.json").unlink()
    rows, err = exported(cli)
    assert [row["scenario"] for row in rows] == ["count"]
    assert "1 trial left out whose files are gone" in err
