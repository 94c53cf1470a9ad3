"""`benchjobs show`: one trial whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_benchjobs.model.job import Invocation
from pytest_benchjobs.model.result import AgentEnd, Phase, Usage

from .jobs import documents, ended, make_job, run

JOB = "20260101-000000-aaaaaa"
ID = "a.bench.yaml::count[oracle-1]"

MANIFEST = """
benchmark: texts
defaults: {image: debian}
scenarios:
  - {id: count, problem_statement: Count the letters., scorers: [{name: right, type: bash, script: echo 1}]}
"""


def _job(
    tmp_path: Path,
    config: dict[str, str] | None = None,
    said: dict[str, bool | str | tuple[str, ...]] | None = None,
    **changes: object,
) -> Path:
    """A results directory with one trial; returns the directory of its files."""
    (tmp_path / "a.bench.yaml").write_text(MANIFEST)
    values = {
        "phases": (Phase(name="prepare", start=0, end=1), Phase(name="agent", start=1, end=62.5)),
        "usage": Usage(input_tokens=1200, output_tokens=34, cost_usd=0.25, calls=3, source="gateway"),
        "models": {"gpt-5.5": 3},
        "agent_end": AgentEnd(exit_status=3),
        "notes": ("an artifact was missing",),
        **changes,
    }
    call = Invocation(arguments=(), settings=said, directory=tmp_path, rootdir=tmp_path)
    trials = [ended("F", **values)]
    make_job(tmp_path / "reports", JOB, trials, config=config, invocation=call, name="nightly")
    return tmp_path / "reports" / "jobs" / JOB / "trials" / "oracle" / "count" / "1"


def _shown(capsys: pytest.CaptureFixture[str], tmp_path: Path, *arguments: str) -> str:
    assert run("show", *(arguments or (ID,)), "--dir", tmp_path / "reports") == 0
    return capsys.readouterr().out


def test_a_trial_is_shown_whole(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    place = _job(tmp_path)
    text = _shown(capsys, tmp_path)
    lines = text.splitlines()
    assert lines[0] == ID
    for part in (
        "Result:  score 0.0 < 1.0 (below_threshold) oracle a1 2.0s",
        "Why:     below_threshold of count",
        f"Job:     {JOB} (nightly), 2026-11-21 05:47 UTC, attempt 1",
        "Ended:   exit status 3",
        "Statement\n  Count the letters.",
        "  prepare   1.0s\n  agent    1m02s",
        "  right  bash  0.0  weight 1",
        f"Last lines of the agent (agent.log)\n  log of {ID} in {JOB}",
        "Last lines of scorer right (scorers/right/output.log)\n  said so",
        "Usage\n  3 calls of models, 1,200 input tokens, 34 output tokens, $0.25\n  gpt-5.5: 3 calls",
        "Notes\n  an artifact was missing",
        f"Files in {place}\n",
        "  artifacts/out.txt",
        f"  benchjobs logs {JOB} --scenario '{ID}' --dir {tmp_path}/reports",
        f"  benchjobs rerun '{ID}' --dir {tmp_path}/reports -- --bench-keep always",
        f"  pytest '{ID}'",
    ):
        assert part in text, part


def test_what_was_kept_can_be_looked_into(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _job(tmp_path, kept="benchjobs-kept:x")
    text = _shown(capsys, tmp_path)
    assert f"  benchjobs shell '{ID}' --dir" in text
    assert f"  benchjobs rescore {JOB} --scenario count --dir" in text
    assert "--bench-keep" not in text


def test_what_was_not_kept_is_not_offered_to_be_graded_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _job(tmp_path)
    text = _shown(capsys, tmp_path)
    assert f"benchjobs rescore {JOB}" not in text
    where = f"--dir {tmp_path}/reports"
    assert "  # Run it again and keep" in text
    assert f"  benchjobs rerun '{ID}' {where} -- --bench-keep always\n" in text
    assert "for `benchjobs shell` or `benchjobs rescore last`\n" in text


@pytest.mark.parametrize(
    ("sandbox", "said", "option"),
    [
        ("local", None, " --bench-no-docker"),
        ("docker", None, ""),
        ("docker", {"sandbox": "docker"}, " --bench-sandbox=docker"),
        ("of a plugin", None, " --bench-sandbox='of a plugin'"),
    ],
)
def test_a_trial_is_run_again_where_it_ran(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    sandbox: str,
    said: dict[str, bool | str | tuple[str, ...]] | None,
    option: str,
) -> None:
    _job(tmp_path, config={"sandbox": sandbox}, said=said)
    text = _shown(capsys, tmp_path)
    assert f"  # Run it again\n  pytest '{ID}'{option} --bench-dir={tmp_path}/reports\n" in text
    # The file system of a local sandbox cannot be kept.
    assert ("--bench-keep" in text) == (sandbox != "local")
    assert f"  benchjobs rerun '{ID}' --dir {tmp_path}/reports" in text


def test_a_kept_answer_is_graded_again_and_has_no_shell(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _job(tmp_path, kept="answer")
    text = _shown(capsys, tmp_path)
    assert f"  benchjobs rescore {JOB} --scenario count --dir" in text
    assert "benchjobs shell" not in text


def test_commands_of_the_agent_come_from_its_trajectory(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = _job(tmp_path)
    steps = [{"schema_version": "ATIF-v1.7", "agent": {"name": "codex"}}]
    for number in range(150):
        call = {
            "tool_call_id": f"call-{number}",
            "function_name": "shell",
            "arguments": {"command": ["ls", f"-{number}", "\x1b[2J"]},
        }
        result = {"source_call_id": f"call-{number}", "content": f"first\nfile {number}"}
        steps.append(
            {"step_id": number, "source": "agent", "message": "", "tool_calls": [call]}
            | {"observation": {"results": [result]}}
        )
    lines = [*map(json.dumps, steps), "{", "[]", '{"tool_calls": 3}']
    (place / "trajectory.jsonl").write_text("\n".join(lines))
    text = _shown(capsys, tmp_path)
    assert "  ... 120 commands before these; trajectory.jsonl has all" in text
    assert "   149  shell  ls -149\n        -> first file 149" in text
    (found,) = (documents(capsys, "show", "show", ID, "--dir", tmp_path / "reports"),)
    assert (len(found["commands"]), found["commands_left_out"]) == (100, 50)
    assert found["commands"][-1] == {
        "step": 149,
        "tool": "shell",
        "command": "ls -149",
        "output": "first file 149",
    }
    assert found["statement"] == "Count the letters."
    assert found["result"]["node_id"] == ID
    assert {"path": "agent.log", "bytes": len(f"log of {ID} in {JOB}\n")} in found["files"]


def test_nothing_confidential_is_quoted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _job(tmp_path, confidential=True)
    text = _shown(capsys, tmp_path)
    assert "Count the letters" not in text
    assert "log of" not in text
    assert "said so" not in text
    assert "agent.log" in text


def test_without_the_benchmark_the_rest_is_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _job(tmp_path)
    (tmp_path / "a.bench.yaml").unlink()
    text = _shown(capsys, tmp_path)
    assert "Statement" not in text
    assert "Last lines of the agent" in text


def test_a_job_is_answered_with_its_trials(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _job(tmp_path)
    assert run("show", "last", "--dir", tmp_path / "reports") == 2
    error = capsys.readouterr().err
    assert error == f"benchjobs: {JOB} is a job; show one of its trials:\n  {ID}  failed\n"


def test_what_is_no_trial_is_one_clear_message(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _job(tmp_path)
    assert run("show", "cuont", "--dir", tmp_path / "reports") == 2
    assert f"there is no trial 'cuont'. Did you mean '{ID}'?" in capsys.readouterr().err


def _steps(place: Path, *calls: dict[str, object], **more: object) -> None:
    (place / "trajectory.jsonl").write_text(json.dumps({"tool_calls": calls, **more}))


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ({"path": "x", "cmd": "ls"}, "ls"),
        ({"script": ["ls", "-l"]}, "ls -l"),
        ({"command": 3, "input": "ls"}, "ls"),
        ({"command": ["ls", 3]}, '{"command": ["ls", 3]}'),
        ({"path": "é"}, '{"path": "é"}'),
        (["ls"], '["ls"]'),
        (None, "null"),
    ],
)
def test_a_command_is_what_its_tool_was_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: object, command: str
) -> None:
    _steps(_job(tmp_path), {"arguments": arguments})
    found = documents(capsys, "show", "show", ID, "--dir", tmp_path / "reports")
    assert found["commands"] == [{"step": 0, "tool": "", "command": command, "output": None}]
    assert found["commands_left_out"] == 0


def test_of_what_a_command_printed_the_end_is_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    results = [{"source_call_id": "a", "content": "x" * 1000 + "end"}, {"source_call_id": "b"}]
    calls = [{"tool_call_id": name, "arguments": {"cmd": name}} for name in "abc"]
    _steps(_job(tmp_path), *calls, observation={"results": results}, step_id=7)
    found = documents(capsys, "show", "show", ID, "--dir", tmp_path / "reports")["commands"]
    assert found[0]["output"].endswith("xend")
    assert len(found[0]["output"]) == 300
    assert [one["output"] for one in found[1:]] == ["", None]
    assert {one["step"] for one in found} == {7}


def test_a_trajectory_that_is_a_link_is_not_followed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = _job(tmp_path)
    _steps(tmp_path, {"arguments": {"cmd": "ls"}})
    (place / "trajectory.jsonl").symlink_to(tmp_path / "trajectory.jsonl")
    assert documents(capsys, "show", "show", ID, "--dir", tmp_path / "reports")["commands"] == []


def test_of_many_files_two_hundred_are_listed_and_the_others_counted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = _job(tmp_path)
    for number in range(210):
        (place / "artifacts" / f"{number:03}").write_text("x" * number)
    every = {
        path.relative_to(place).as_posix(): path.stat().st_size for path in place.rglob("*") if path.is_file()
    }
    found = documents(capsys, "show", "show", ID, "--dir", tmp_path / "reports")
    assert (len(found["files"]), found["files_left_out"]) == (200, len(every) - 200)
    paths = [one["path"] for one in found["files"]]
    assert paths == sorted(paths)
    assert all(every[one["path"]] == one["bytes"] for one in found["files"])
