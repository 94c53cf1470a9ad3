"""Agents in local sandboxes, through the gateway, against the scripted model server."""

from __future__ import annotations

import dataclasses
import json

import pytest

from tests.agents.conftest import bare, fetched, job
from tests.agents.jobs import AGENTS, Job, used
from tests.support import IMAGE

from .test_sandbox import running

__all__ = ("bare", "fetched", "job")

pytestmark = pytest.mark.slow

NO_DOCKER = ("--bench-no-docker", f"--bench-image-map={IMAGE}=host")
# Where there is no network but the loopback, and nothing that agents could do there.
_PROBE = "cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' ' > seen.txt; ls -A /root /home >> seen.txt"
_SOLVE = f"<<<RUN: echo hi > made.txt; {_PROBE}; env >> seen.txt>>> <<<SAY: all done>>>"


def test_an_agent_of_this_machine_works_in_the_sandbox(bare: Job) -> None:
    bare.scenarios({"make": "<<<RUN: echo hi > made.txt; pwd>>> <<<RUN: cat made.txt>>>"})
    (result,) = bare.run("--bench-agent", f"model:gpt-5.5@{bare.server.url}/v1", *NO_DOCKER)
    assert (result["outcome"], result["score"]) == ("passed", 1.0), bare.output
    assert not any("local sandbox" in note for note in result["notes"])
    assert used(result) == dataclasses.asdict(bare.server.usage)
    assert bare.server.calls[-1].asked is not None
    assert bare.server.calls[-1].asked.results == ("/app\n", "hi\n")
    assert result["image"]["substituted"] == {IMAGE: "host"}


@pytest.mark.parametrize("network", ["none", "public"])
def test_a_real_agent_reaches_its_model_and_nothing_else(job: Job, network: str) -> None:
    job.scenarios({"make": _SOLVE, "again": _SOLVE})
    manifest = json.loads((job.path / "made.bench.yaml").read_text())
    manifest["defaults"] |= {"network": network, "artifacts": ["seen.txt"]}
    (job.path / "made.bench.yaml").write_text(json.dumps(manifest))
    results = job.run("--bench-agent", job.spec("codex"), *NO_DOCKER)
    assert [(result["outcome"], result["score"]) for result in results] == [("passed", 1.0)] * 2, job.output
    total = {key: sum(used(result)[key] or 0 for result in results) for key in ("input_tokens", "calls")}
    reported = dataclasses.asdict(job.server.usage)
    assert total == {key: reported[key] for key in total}
    for result in results:
        beside = [note for note in result["notes"] if "could reach only its models" in note]
        assert bool(beside) == (network == "public")
        kept = job.path / "reports/jobs" / result["job"] / result["path"] / "artifacts" / "seen.txt"
        seen = kept.read_text()
        assert seen.splitlines()[0] == "lo"
        assert "canary" not in seen
        assert "eth0" not in seen


@pytest.mark.extended
def test_all_public_agents_solve_it(job: Job) -> None:
    job.scenarios({"make": _SOLVE})
    agents = (word for agent in AGENTS for word in ("--bench-agent", job.spec(agent)))
    results = job.run(*agents, "--bench-concurrency", "2", *NO_DOCKER)
    outcomes = {result["agent"]["name"]: (result["outcome"], result["score"]) for result in results}
    assert outcomes == dict.fromkeys(AGENTS, ("passed", 1.0)), job.output


@pytest.mark.extended
def test_one_that_never_ends_is_asked_to_and_then_nothing_of_it_is_left(job: Job) -> None:
    # Less than the ten seconds after which codex itself goes on without its command.
    job.scenarios({"loop": "<<<RUN: sleep 3600 & sleep 3601>>>"}, timeout=8)
    (result,) = job.run("--bench-agent", job.spec("codex"), *NO_DOCKER)
    assert (result["outcome"], result["failure"]["class"]) == ("failed", "agent_timeout"), job.output
    assert result["usage"]["calls"] == 1
    assert not running("sleep", "3600", "3601")
