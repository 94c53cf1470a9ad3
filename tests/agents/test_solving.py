"""The five public agents, unmodified, in real containers: they solve a scenario through the gateway."""

from __future__ import annotations

import dataclasses
import json

import pytest

from tests.agents.jobs import AGENTS, KEYS, Job, used
from tests.support import containers_left

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.daily]

_SOLVE = "<<<RUN: echo hi > made.txt>>> <<<SAY: all done>>>"


def test_each_makes_the_file_with_its_own_tool_and_is_metered_to_the_token(job: Job) -> None:
    job.scenarios({"make": _SOLVE})
    specs = [job.spec(agent, url=f"{job.server.url}/{agent}") for agent in AGENTS]
    found = job.run(*(f"--bench-agent={spec}" for spec in specs), "--bench-concurrency=5")
    by_agent = {result["agent"]["name"]: result for result in found}
    assert by_agent.keys() == set(AGENTS), job.output
    usages = {}
    for agent, result in by_agent.items():
        assert (result["outcome"], result["score"]) == ("passed", 1.0), job.output
        assert result["agent_end"]["ending"] == "success"
        usages[agent] = used(result)
        assert usages[agent] == dataclasses.asdict(job.server.usage_below(f"/{agent}/")), agent
        assert result["usage"]["source"] == "gateway"
        keys = {
            key for call in job.server.requests if call.path.startswith(f"/{agent}/") for key in call.keys
        }
        assert len(keys) == 1
        assert keys <= set(KEYS.values())
        trajectory = job.path / "reports/jobs" / result["job"] / result["path"] / "trajectory.jsonl"
        steps = [json.loads(line) for line in trajectory.read_text().splitlines()]
        calls = [call for step in steps for call in step.get("tool_calls") or ()]
        assert "made.txt" in json.dumps(calls), agent
    assert usages["claude-code"] == usages["codex"] == usages["goose"]
    assert containers_left(found[0]["job"]) == []


@pytest.mark.extended
def test_a_prompt_of_a_mebibyte_arrives_whole(job: Job) -> None:
    # Models take their time. A program of Node that ends while its pipe is full loses what is in it.
    prompt = f"{_SOLVE} <<<SLEEP: 2>>>"
    job.scenarios({"long": prompt + "x" * ((1 << 20) - len(prompt))})
    found = job.run(
        *(word for agent in AGENTS for word in ("--bench-agent", job.spec(agent))), "--bench-concurrency", "2"
    )
    assert {result["agent"]["name"]: result["outcome"] for result in found} == dict.fromkeys(
        AGENTS, "passed"
    ), job.output


@pytest.mark.extended
def test_a_solved_task_passes_although_the_last_word_is_lost_in_a_full_pipe(job: Job) -> None:
    # gemini-cli repeats the problem in its output, ends at once, and what its pipe had no room for is gone.
    job.scenarios({"long": _SOLVE + "x" * 1_300_000})
    (result,) = job.run("--bench-agent", job.spec("gemini-cli"))
    assert (result["outcome"], result["score"]) == ("passed", 1.0), job.output
    assert result["agent_end"]["ending"] in ("success", "no_last_word")
