"""What goes wrong between an agent and its model, for each agent: the outcome and class that the docs say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.agents.jobs import AGENTS, EACH, Job
from tests.support import containers_left

pytestmark = [pytest.mark.docker, pytest.mark.slow]

_RUN = "<<<RUN: echo hi > made.txt>>>"
# Of every process whose program was mounted: bash has no other way to find them in an image without ps.
_KILL = "for p in /proc/[0-9]*; do if ls -l $p/exe 2>/dev/null | grep -q /opt/benchjobs; then kill -9 ${p#/proc/}; fi; done"

FAULTS: dict[str, tuple[str, str, str | None, str | None]] = {
    # scenario: prompt, outcome, class, ending
    "refused": (f"<<<ERR: 400>>> {_RUN}", "failed", "model_refused", "refused"),
    "limited-once": (f"<<<ERR: 429 times=1 retry-after=1>>> {_RUN}", "passed", None, "success"),
    "limited": (f"<<<ERR: 429 retry-after=1>>> {_RUN}", "error", "rate_limited", "rate_limited"),
    "down": (f"<<<ERR: 500>>> {_RUN}", "error", "endpoint_down", "endpoint_down"),
    "cut-once": (f"<<<CUT: times=1>>> {_RUN}", "passed", None, "success"),
    "cut": (f"<<<CUT>>> {_RUN}", "error", "endpoint_down", "endpoint_down"),
    "silent": (f"<<<SLEEP: 300>>> {_RUN}", "error", "endpoint_down", "endpoint_down"),
    "slow": (f"{_RUN} <<<SLEEP: 7>>>", "failed", "agent_timeout", "timed_out"),
    "killed": (f"<<<RUN: {_KILL}>>>", "failed", "agent_crashed", "killed"),
    "quota": (f"<<<ERR: quota>>> {_RUN}", "error", "budget", "quota"),
}


def _ends(found: list[dict[str, Any]]) -> dict[str, tuple[str, str | None, str | None]]:
    return {
        result["scenario"]: (
            result["outcome"],
            (result["failure"] or {}).get("class"),
            (result["agent_end"] or {}).get("ending"),
        )
        for result in found
    }


@pytest.mark.parametrize("agent", EACH)
def test_each_fault_has_the_outcome_and_class_of_the_table(job: Job, agent: str) -> None:
    # A quota ends the job, so it has one of its own.
    job.scenarios(
        {name: prompt for name, (prompt, *_) in FAULTS.items() if name != "quota"},
        timeout=120,
        timeouts={"silent": 15, "slow": 10},
    )
    found = job.run(
        "--bench-agent", job.spec(agent), "--bench-model-patience", "3", "--bench-concurrency", "4"
    )
    expected = {name: tuple(rest) for name, (_, *rest) in FAULTS.items() if name != "quota"}
    if agent == "claude-code":
        expected["cut"] = ("passed", None, "success")  # it asks once more, without a stream
    if agent == "gemini-cli":
        expected["cut-once"] = expected["cut"]  # it never asks again
    assert _ends(found) == expected, job.output
    assert all(result["score"] is None for result in found if result["outcome"] == "error")
    assert containers_left(found[0]["job"]) == []


@pytest.mark.parametrize("agent", EACH)
@pytest.mark.extended
def test_keys_models_and_addresses_that_are_wrong(job: Job, agent: str) -> None:
    job.scenarios({"make": _RUN})
    names = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_COMPATIBLE_API_KEY")
    bad = dict.fromkeys(names, "bad-key") | {"GEMINI_API_KEY": "bad-google-key"}
    found = job.run("--bench-agent", job.spec(agent), **bad)
    assert _ends(found) == {"make": ("error", "model_auth", "authentication")}, job.output
    found = job.run("--bench-agent", job.spec(agent, model="no-such-model"))
    assert _ends(found) == {"make": ("error", "model_unknown", "unknown_model")}, job.output
    nobody = job.spec(agent, url="http://127.0.0.1:9")
    found = job.run("--bench-agent", nobody, "--bench-model-patience", "2")
    assert _ends(found) == {"make": ("error", "endpoint_down", "endpoint_down")}, job.output


@pytest.mark.parametrize("agent", EACH)
@pytest.mark.extended
def test_a_hard_quota_and_an_endless_loop(job: Job, agent: str) -> None:
    job.scenarios({"make": FAULTS["quota"][0]})
    found = job.run("--bench-agent", job.spec(agent))
    assert _ends(found) == {"make": FAULTS["quota"][1:]}, job.output
    assert job.status == 13
    job.scenarios({"loop": "<<<LOOP>>>"})
    found = job.run("--bench-agent", job.spec(agent), "--bench-trial-max-calls", "7")
    assert _ends(found) == {"loop": ("failed", "limit_exceeded", "trial_limit")}, job.output
    assert found[0]["usage"]["calls"] == 7


@pytest.mark.parametrize("agents", [["codex"], pytest.param(AGENTS, marks=pytest.mark.extended)])
def test_usage_is_kept_of_agents_whose_time_is_up(job: Job, agents: Sequence[str]) -> None:
    job.scenarios({"late": f"{_RUN} <<<SLEEP: 3>>>"}, timeout=5)
    found = job.run(*(f"--bench-agent={job.spec(agent)}" for agent in agents), "--bench-concurrency=2")
    assert {result["agent"]["name"]: result["failure"]["class"] for result in found} == dict.fromkeys(
        agents, "agent_timeout"
    )
    for result in found:
        # Three seconds a call: one that is under way when the time is up was sent, and so it counts.
        assert result["usage"]["calls"] in (0, 1, 2), result["agent"]["name"]
