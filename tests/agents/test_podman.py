"""Real agents work in containers of Podman, and call their models through the gateway."""

from __future__ import annotations

import pytest

from tests.agents.jobs import Job
from tests.docker.podman import Podman, podman  # noqa: F401  a fixture

pytestmark = [pytest.mark.docker, pytest.mark.slow]


def test_a_real_agent_calls_its_model_through_the_gateway(job: Job, podman: Podman) -> None:  # noqa: F811
    job.scenarios({"make": "<<<RUN: echo hi > made.txt>>> <<<SAY: done>>>", "leave": "<<<SAY: no>>>"})
    found = job.run(f"--bench-agent={job.spec('codex')}", "--bench-agent=nop", DOCKER_HOST=podman.host)
    outcomes = {(one["scenario"], one["agent"]["name"]): one["outcome"] for one in found}
    passed = ("make", "codex")
    assert outcomes == {
        (scenario, agent): "passed" if (scenario, agent) == passed else "failed"
        for scenario in ("make", "leave")
        for agent in ("codex", "nop")
    }, job.output
    assert all(one["usage"]["calls"] for one in found if one["agent"]["name"] == "codex")
    assert podman.left() == []
