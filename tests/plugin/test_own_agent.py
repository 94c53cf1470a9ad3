"""Agents of a checkout: `mybot=./my-agent`, `mybot=command:SHELL`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .completions import Completions, serving
from .conftest import Bench

AGENT = """#!/bin/sh
cd "$(dirname "$0")" && cat number > "$OLDPWD/out.txt"
grep -q Write && echo read the problem
"""


@pytest.fixture
def mine(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("BENCHJOBS_CACHE", str(bench.path / "cache"))
    bench.toy()
    bench.write("bot/run.sh", AGENT)
    (bench.path / "bot" / "run.sh").chmod(0o700)
    bench.write("bot/number", "1\n")
    return bench


def test_an_agent_of_the_checkout_runs_with_the_files_beside_it(mine: Bench) -> None:
    result = mine.run("--bench-agent", "mybot=./bot", "--bench-scenario", "solved")
    assert result.ret == pytest.ExitCode.OK
    (trial,) = mine.results()
    assert trial["outcome"] == "passed"
    assert trial["agent"]["name"] == "mybot"
    assert trial["node_id"].endswith("::solved[mybot]")
    (log,) = mine.path.glob("reports/jobs/*/trials/*/solved/1/agent.log")
    assert "read the problem" in log.read_text()


def test_a_result_is_reused_until_a_file_of_the_agent_changes(mine: Bench) -> None:
    arguments = ("--bench-agent", "mybot=./bot", "--bench-scenario", "solved", "--bench-reuse")
    mine.run(*arguments)
    mine.write("bot/.git/HEAD", "elsewhere")
    again = mine.run(*arguments)
    again.stdout.fnmatch_lines(["*1 result reused*"])
    mine.write("bot/number", "7\n")
    changed = mine.run(*arguments)
    changed.stdout.no_fnmatch_line("*result reused*")
    assert changed.ret == pytest.ExitCode.TESTS_FAILED


def test_commands_are_told_apart_by_their_names(mine: Bench) -> None:
    result = mine.run(
        "--bench-agent", "one=command:echo 1 > out.txt", "--bench-agent", "two=command:echo 2 > out.txt",
        "--bench-scenario", "solved", "-v",
    )  # fmt: skip
    assert {trial["agent"]["name"]: trial["outcome"] for trial in mine.results()} == {
        "one": "passed",
        "two": "failed",
    }
    result.stdout.fnmatch_lines(["*solved[[]one[]]*"])


def test_a_path_in_the_ini_file_is_from_the_rootdir(mine: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    mine.write("pytest.ini", "[pytest]\nbench_sandbox = fake\nbench_agent = mybot=./bot\n")
    (mine.path / "below").mkdir()
    monkeypatch.chdir(mine.path / "below")
    result = mine.run("--rootdir", "..", "-c", "../pytest.ini", "..", "--bench-scenario", "solved")
    assert result.ret == pytest.ExitCode.OK


def test_a_program_that_cannot_be_started_ends_the_run_before_the_first_trial(mine: Bench) -> None:
    mine.write("mybot.agent.toml", 'name = "mybot"\nsource = { path = "bot" }\nargv = ["{agent}/run.sh"]\n')
    (mine.path / "bot" / "run.sh").chmod(0o644)
    result = mine.run("--bench-agent", "mybot")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: agent mybot: */bot/run.sh is not executable; run: chmod +x */bot/run.sh"]
    )
    assert not (mine.path / "reports").exists()


def test_a_wrong_agent_file_is_told_and_stops_only_who_names_its_agent(mine: Bench) -> None:
    mine.write("wrong.agent.toml", 'name = "theirs"\nargv = ["./run.sh"]\nsource = { path = "bot" }\n')
    where = "*wrong.agent.toml:2: argv?0?: './run.sh' is looked for in the scenario's working directory; write '{agent}/run.sh'"
    mine.run("--bench-agent", "oracle").stdout.fnmatch_lines(
        [f"bench: warning: an agent is left out: {where}"]
    )
    assert mine.results()
    result = mine.run("--bench-agent", "theirs")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --bench-agent: {where}"])
    result.stderr.no_fnmatch_line("*/wrong.agent.toml*")


def test_an_interpreter_that_the_image_lacks_is_named(mine: Bench) -> None:
    mine.write(
        "mybot.agent.toml",
        'name = "mybot"\nsource = { path = "bot" }\nargv = ["python9", "{agent}/run.sh"]\n',
    )
    mine.run("--bench-agent", "mybot", "--bench-scenario", "solved")
    (trial,) = mine.results()
    assert trial["failure"]["class"] == "agent_crashed"
    assert trial["failure"]["message"] == "the agent did not start (status 127): the image has no python9"
    (log,) = mine.path.glob("reports/jobs/*/trials/*/solved/1/agent.log")
    assert log.read_text().startswith("mybot: ")


LOOP = """
import json, os, urllib.request
said = [{"role": "user", "content": open(os.environ["BENCH_PROBLEM_FILE"]).read() + " " + os.environ["TOKEN"]}]
for more in ("and then?", None):
    body = json.dumps({"model": "m", "messages": said}).encode()
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    answer = json.load(urllib.request.urlopen(request))
    said += [answer["choices"][0]["message"], {"role": "user", "content": more}]
open("out.txt", "w").write("1")
"""


class Echo(Completions):
    def asked(self, body: dict[str, Any]) -> None:
        self.answer(body["model"], f"answer {len(body['messages'])}")


def test_its_conversation_is_made_from_its_calls(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of-a-scripted-endpoint")
    monkeypatch.setenv("MY_TOKEN", "a-secret-of-the-job")
    script = bench.write("agent.py", LOOP)
    bench.manifest({"talk": {"problem_statement": "Say it.", "script": "echo score=1"}})
    with serving(Echo) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        run = bench.run(
            *("--bench-secret=OPENAI_API_KEY=OPENAI_API_KEY", "--bench-secret=TOKEN=MY_TOKEN"),
            *("--bench-agent", f"talker=command:python3 {script}"),
        )
    assert run.ret == 0
    (result,) = bench.results()
    lines = (bench.bundle() / result["path"] / "trajectory.jsonl").read_text("utf-8").splitlines()
    steps = [json.loads(line) for line in lines][1:-1]
    assert [(step["source"], step["message"]) for step in steps] == [
        ("user", "Say it. [redacted:TOKEN]"),
        ("agent", "answer 1"),
        ("user", "and then?"),
        ("agent", "answer 3"),
    ]
    assert steps[1]["metrics"] == {"prompt_tokens": 7, "completion_tokens": 3}
    exported = bench.benchjobs("export", bench.bundle().name, "--format", "rl").stdout
    assert [message["role"] for message in json.loads(exported)["messages"]] == ["user", "assistant"] * 2
