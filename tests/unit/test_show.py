"""`benchjobs show`: one trial whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_benchjobs.model.job import Invocation
from pytest_benchjobs.model.result import AgentEnd, Phase, Usage

from .cli import Cli
from .jobs import ended

JOB = "20260101-000000-aaaaaa"
ID = "a.bench.yaml::count[oracle-1]"

MANIFEST = """
benchmark: texts
defaults: {image: debian}
scenarios:
  - {id: count, problem_statement: Count the letters., scorers: [{name: right, type: bash, script: echo 1}]}
"""


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    return Cli(tmp_path / "reports", capsys)


def _job(
    cli: Cli,
    config: dict[str, str] | None = None,
    said: dict[str, bool | str | tuple[str, ...]] | None = None,
    **changes: object,
) -> Path:
    """A results directory with one trial; returns the directory of its files."""
    root = cli.directory.parent
    (root / "a.bench.yaml").write_text(MANIFEST)
    values = {
        "phases": (Phase(name="prepare", start=0, end=1), Phase(name="agent", start=1, end=62.5)),
        "usage": Usage(input_tokens=1200, output_tokens=34, cost_usd=0.25, calls=3, source="gateway"),
        "models": {"gpt-5.5": 3},
        "agent_end": AgentEnd(exit_status=3),
        "notes": ("an artifact was missing",),
        **changes,
    }
    call = Invocation(arguments=(), settings=said, directory=root, rootdir=root)
    cli.make(JOB, [ended("F", **values)], config=config, invocation=call, name="nightly")
    return cli.bundle(JOB).root / "trials/oracle/count/1"


def _shown(cli: Cli) -> str:
    return cli("show", ID).out


def test_a_trial_is_shown_whole(cli: Cli) -> None:
    place = _job(cli)
    text = _shown(cli)
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
        f"  benchjobs logs {JOB} --scenario '{ID}' --dir {cli.directory}",
        "  # Run it again and keep",
        f"  benchjobs rerun '{ID}' --dir {cli.directory} -- --bench-keep always\n",
        "for `benchjobs shell` or `benchjobs rescore last`\n",
        f"  pytest '{ID}'",
    ):
        assert part in text, part


@pytest.mark.parametrize(
    ("kept", "shell", "rescore"),
    [("benchjobs-kept:x", True, True), ("answer", False, True), (None, False, False)],
)
def test_only_what_was_kept_is_looked_into_or_graded_again(
    cli: Cli, kept: str | None, shell: bool, rescore: bool
) -> None:
    _job(cli, kept=kept)
    text = _shown(cli)
    assert (f"  benchjobs shell '{ID}' --dir" in text) == shell
    assert (f"  benchjobs rescore {JOB} --scenario count --dir" in text) == rescore
    # Or it is run again and kept for both.
    assert ("--bench-keep" in text) == (kept is None)
    assert ("benchjobs shell" in text) == (shell or kept is None)


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
    cli: Cli, sandbox: str, said: dict[str, bool | str | tuple[str, ...]] | None, option: str
) -> None:
    _job(cli, config={"sandbox": sandbox}, said=said)
    text = _shown(cli)
    assert f"  # Run it again\n  pytest '{ID}'{option} --bench-dir={cli.directory}\n" in text
    # The file system of a local sandbox cannot be kept.
    assert ("--bench-keep" in text) == (sandbox != "local")
    assert f"  benchjobs rerun '{ID}' --dir {cli.directory}" in text


def test_commands_of_the_agent_come_from_its_trajectory(cli: Cli) -> None:
    place = _job(cli)
    steps = [{"schema_version": "ATIF-v1.7", "agent": {"name": "codex"}}]
    for number in range(150):
        given = {"command": ["ls", f"-{number}", "\x1b[2J"]}
        call = {"tool_call_id": f"call-{number}", "function_name": "shell", "arguments": given}
        result = {"source_call_id": f"call-{number}", "content": f"first\nfile {number}"}
        steps.append(
            {"step_id": number, "source": "agent", "message": "", "tool_calls": [call]}
            | {"observation": {"results": [result]}}
        )
    lines = [*map(json.dumps, steps), "{", "[]", '{"tool_calls": 3}']
    (place / "trajectory.jsonl").write_text("\n".join(lines))
    text = _shown(cli)
    assert "  ... 120 commands before these; trajectory.jsonl has all" in text
    assert "   149  shell  ls -149\n        -> first file 149" in text
    found = cli.document("show", ID)
    assert (len(found["commands"]), found["commands_left_out"]) == (100, 50)
    last = {"step": 149, "tool": "shell", "command": "ls -149", "output": "first file 149"}
    assert found["commands"][-1] == last
    assert found["statement"] == "Count the letters."
    assert found["result"]["node_id"] == ID
    assert {"path": "agent.log", "bytes": len(f"log of {ID} in {JOB}\n")} in found["files"]


def test_nothing_confidential_is_quoted(cli: Cli) -> None:
    _job(cli, confidential=True)
    text = _shown(cli)
    assert "Count the letters" not in text
    assert "log of" not in text
    assert "said so" not in text
    assert "agent.log" in text


def test_without_the_benchmark_the_rest_is_shown(cli: Cli) -> None:
    _job(cli)
    (cli.directory.parent / "a.bench.yaml").unlink()
    text = _shown(cli)
    assert "Statement" not in text
    assert "Last lines of the agent" in text


def test_a_benchmark_in_python_is_named_in_place_of_its_statement(cli: Cli) -> None:
    _job(cli)
    (cli.directory.parent / "a.bench.yaml").unlink()
    (path,) = cli.directory.glob("jobs/*/trials/oracle/count/1/result.json")
    path.write_text(path.read_text().replace("a.bench.yaml", "test_a.py"))
    assert "Statement\n  (in test_a.py, which this command does not import)\n" in _shown(cli)


def test_a_job_is_answered_with_its_trials(cli: Cli) -> None:
    _job(cli)
    assert (
        cli("show", "last", status=2).err
        == f"benchjobs: {JOB} is a job; show one of its trials:\n  {ID}  failed\n"
    )


def test_what_is_no_trial_is_one_clear_message(cli: Cli) -> None:
    _job(cli)
    assert f"there is no trial 'cuont'. Did you mean '{ID}'?" in cli.refused("show", "cuont")


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
def test_a_command_is_what_its_tool_was_told(cli: Cli, arguments: object, command: str) -> None:
    _steps(_job(cli), {"arguments": arguments})
    found = cli.document("show", ID)
    assert found["commands"] == [{"step": 0, "tool": "", "command": command, "output": None}]
    assert found["commands_left_out"] == 0


def test_of_what_a_command_printed_the_end_is_shown(cli: Cli) -> None:
    results = [{"source_call_id": "a", "content": "x" * 1000 + "end"}, {"source_call_id": "b"}]
    calls = [{"tool_call_id": name, "arguments": {"cmd": name}} for name in "abc"]
    _steps(_job(cli), *calls, observation={"results": results}, step_id=7)
    found = cli.document("show", ID)["commands"]
    assert found[0]["output"].endswith("xend")
    assert len(found[0]["output"]) == 300
    assert [one["output"] for one in found[1:]] == ["", None]
    assert {one["step"] for one in found} == {7}


def test_a_trajectory_that_is_a_link_is_not_followed(cli: Cli) -> None:
    place = _job(cli)
    _steps(cli.directory, {"arguments": {"cmd": "ls"}})
    (place / "trajectory.jsonl").symlink_to(cli.directory / "trajectory.jsonl")
    assert cli.document("show", ID)["commands"] == []


def test_of_many_files_two_hundred_are_listed_and_the_others_counted(cli: Cli) -> None:
    place = _job(cli)
    for number in range(210):
        (place / "artifacts" / f"{number:03}").write_text("x" * number)
    every = {
        path.relative_to(place).as_posix(): path.stat().st_size for path in place.rglob("*") if path.is_file()
    }
    found = cli.document("show", ID)
    assert (len(found["files"]), found["files_left_out"]) == (200, len(every) - 200)
    paths = [one["path"] for one in found["files"]]
    assert paths == sorted(paths)
    assert all(every[one["path"]] == one["bytes"] for one in found["files"])
