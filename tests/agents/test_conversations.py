"""Public agents continue their own session: in its second turn the model is sent the first one, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents.jobs import EACH, Job
from tests.support import IMAGE

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.when_changed("agents", "gateway")]

TURNS: list[dict[str, Any]] = [
    {
        "message": "<<<ID: first>>> <<<RUN: echo one > out.txt>>> <<<SAY: alpha it is>>>",
        "expect": ["alpha it is", {"command": "grep -qx one out.txt"}],
    },
    {"message": "And what was it?", "expect": ["alpha it is"], "forbid": {"command": "! test -f out.txt"}},
]


@pytest.mark.parametrize("agent", EACH)
def test_an_agent_resumes_its_session(job: Job, agent: str) -> None:
    manifest = {
        "benchmark": "talk",
        "defaults": {"image": IMAGE, "workdir": "/app", "agent_timeout": 600, "network": "none"},
        "scenarios": [{"id": "talk", "turns": TURNS}],
    }
    (job.path / "made.bench.yaml").write_text(json.dumps(manifest))
    (result,) = job.run(f"--bench-agent={job.spec(agent)}")
    place = Path(next(job.path.glob("reports/jobs/*/trials/*/*/*/result.json"))).parent
    logs = {path.parent.name: path.read_text()[-3000:] for path in place.glob("steps/*/agent.log")}
    assert (result["outcome"], result["score"]) == ("passed", 1.0), (
        result["failure"],
        result["scorers"],
        logs,
    )
    assert [step["score"] for step in result["steps"]] == [1.0, 1.0]
    said = [(place / f"steps/turn-{turn}/reply.txt").read_text() for turn in (1, 2)]
    assert all("alpha it is" in text for text in said), said
    # The model has no memory: it answers a marker in the first message that it is sent. So that message was sent again.
    assert result["usage"]["calls"] >= 3
    assert (place / "trajectory.jsonl").exists()
