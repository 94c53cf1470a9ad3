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


OWN = r"""#!/bin/bash
# Two calls of a model on the wire of this agent, and the reply of the last into a file.
base=$PROBE_BASE; base=${base#http://}; host=${base%%/*}
ask() {
    exec 3<>/dev/tcp/${host%:*}/${host#*:}
    printf 'POST /%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %s\r\n' "$1" "${#2}" >&3
    printf 'Connection: close\r\n\r\n%s' "$2" >&3
    cat <&3
}
ask "${base#*/}$PATH_OF_CALL" "$FIRST" > /dev/null
ask "${base#*/}$PATH_OF_CALL" "$SECOND" > /dev/null
echo hi > made.txt
"""
SAY, MORE = "<<<SAY: of course>>>", "go on"


@pytest.mark.parametrize(
    ("wire", "variable", "path", "first", "second"),
    [
        (
            "openai", "OPENAI_BASE_URL", "/chat/completions",
            {"model": "gpt-5.5", "messages": [{"role": "user", "content": SAY}]},
            {"model": "gpt-5.5", "stream": True, "messages": [
                {"role": "user", "content": SAY}, {"role": "assistant", "content": "of course"},
                {"role": "user", "content": MORE}]},
        ),
        (
            "openai", "OPENAI_BASE_URL", "/responses",
            {"model": "gpt-5.5", "input": SAY},
            {"model": "gpt-5.5", "stream": True, "input": [
                {"role": "user", "content": SAY}, {"role": "assistant", "content": "of course"},
                {"role": "user", "content": MORE}]},
        ),
        (
            "anthropic", "ANTHROPIC_BASE_URL", "/v1/messages",
            {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": SAY}]},
            {"model": "claude-sonnet-4-5", "max_tokens": 9, "stream": True, "messages": [
                {"role": "user", "content": SAY}, {"role": "assistant", "content": "of course"},
                {"role": "user", "content": MORE}]},
        ),
        (
            "google", "GOOGLE_GEMINI_BASE_URL", "/v1beta/models/gemini-2.5-pro:generateContent",
            {"contents": [{"role": "user", "parts": [{"text": SAY}]}]},
            {"contents": [{"role": "user", "parts": [{"text": SAY}]}, {"role": "model", "parts": [{"text": "of course"}]},
                          {"role": "user", "parts": [{"text": MORE}]}]},
        ),
    ],
    ids=["chat", "responses", "messages", "generate"],
)  # fmt: skip
def test_an_agent_of_ones_own_has_the_steps_of_its_calls(
    bare: Job, wire: str, variable: str, path: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    bare.scenarios({"say": "Say it."})
    program = bare.path / "own"
    program.write_text(OWN.replace("PROBE_BASE", variable))
    program.chmod(0o755)
    model = {"openai": "gpt-5.5", "anthropic": "claude-sonnet-4-5", "google": "gemini-2.5-pro"}[wire]
    url = bare.server.url + ("/v1" if wire == "openai" else "")
    bodies = {"FIRST": json.dumps(first), "SECOND": json.dumps(second), "PATH_OF_CALL": path}
    env = [f"--bench-env={name}={value}" for name, value in bodies.items()]
    (result,) = bare.run("--bench-agent", f"own=./own:{model}@{url}", *env)
    assert (result["outcome"], result["usage"]["calls"]) == ("passed", 2)
    told = [(line["source"], line["message"]) for line in trajectory(bare, result)[1:-1]]
    assert told == [("user", SAY), ("agent", "of course"), ("user", MORE), ("agent", "of course")]
