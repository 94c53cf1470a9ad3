"""The agent `model`, in real jobs against the scripted model server."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from tests.agents.jobs import KEYS, Job, used

pytestmark = [pytest.mark.docker, pytest.mark.slow]


def trajectory(job: Job, result: dict[str, Any]) -> list[dict[str, Any]]:
    path = job.path / "reports/jobs" / result["job"] / result["path"] / "trajectory.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_it_works_in_the_sandbox_and_is_metered_like_any_agent(bare: Job) -> None:
    bare.scenarios({"make": "<<<RUN: echo hi > made.txt; pwd>>> <<<RUN: cat made.txt>>>"})
    agent = bare.spec("model", "gpt-5.5")
    (result,) = bare.run(f"--bench-agent={agent}", "--bench-param=temperature=0", "--bench-param=seed=7")
    assert (result["outcome"], result["score"], result["agent_end"]["ending"]) == ("passed", 1.0, "success")
    assert used(result) == dataclasses.asdict(bare.server.usage)
    assert bare.server.keys == {KEYS["OPENAI_API_KEY"]}
    assert [(call.body["temperature"], call.body["seed"]) for call in bare.server.calls] == [(0, 7)] * 3
    assert bare.server.calls[-1].asked is not None
    assert bare.server.calls[-1].asked.results == ("/app\n", "hi\n")
    lines = trajectory(bare, result)
    assert [line["source"] for line in lines[1:-1]] == ["system", "user", "agent", "agent", "agent"]


def test_without_tools_its_answer_is_a_file(bare: Job) -> None:
    bare.scenarios({"say": "<<<SAY: hi>>>"})
    extra = json.dumps({"tools": False, "answer_file": "made.txt"})
    (result,) = bare.run("--bench-agent", bare.spec("model", "gpt-5.5"), "--bench-extra", extra)
    assert (result["outcome"], result["score"]) == ("passed", 1.0)
    assert "tools" not in bare.server.calls[0].body


def test_errors_and_limits_end_it_as_documented(bare: Job) -> None:
    bare.scenarios(
        {
            "bad": "<<<RUN: echo hi > made.txt>>> <<<ERRAFTER: 400>>>",
            "loop": "<<<LOOP>>>",
            "slow": "<<<SLEEP: 30>>>",
        },
        timeouts={"slow": 12},
    )
    found = bare.run("--bench-agent", bare.spec("model", "gpt-5.5"), "--bench-param", "max_turns=3")
    assert {result["scenario"]: (result["outcome"], result["failure"]["class"]) for result in found} == {
        "bad": ("failed", "model_refused"),
        "loop": ("failed", "turn_limit"),
        "slow": ("error", "endpoint_down"),  # no call was ever answered
    }
