"""A trial makes no call of the engine that it can do without: each of them takes as long as all that we compute."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.support import IMAGE, results, run

from .chaos.proxy import HarmfulSocket

pytestmark = pytest.mark.docker

TASK = f"""\
[environment]
docker_image = "{IMAGE}"
workdir = "/app"
allow_internet = false
"""
NATIVE = {
    "id": "native",
    "problem_statement": "Write ok to out.txt.",
    "reference": "echo ok > out.txt",
    "image": IMAGE,
    "workdir": "/app",
    "network": "none",
    "grade_in": "agent_container",
    "scorers": [{"name": "ok", "type": "bash", "script": "grep -qx ok out.txt && echo 1 || echo 0"}],
}
SOLVED = {
    "POST /containers/create": 1, "PUT /containers/{}/archive": 1, "POST /containers/{}/start": 1,
    "POST /containers/{}/exec": 2, "POST /exec/{}/start": 2, "GET /containers/{}/top": 1,
    "HEAD /containers/{}/archive": 1, "DELETE /containers/{}": 1,
}  # fmt: skip
# What was there before is listed once for an image, and our program put in again.
WATCHED = {
    **SOLVED, "PUT /containers/{}/archive": 2, "POST /containers/{}/exec": 3, "POST /exec/{}/start": 3,
    "HEAD /containers/{}/archive": 0, "GET /containers/{}/archive": 1,
}  # fmt: skip
# More often where a command, or its last process, takes a moment to be gone.
OFTEN = ("GET /exec/{}/json", "GET /containers/{}/json")


@pytest.mark.parametrize(
    ("agent", "calls"),
    [("oracle", {"harbor": SOLVED, "native": SOLVED}), ("command:echo ok > out.txt", {"harbor": WATCHED})],
    ids=["oracle", "command"],
)
def test_a_trial_that_is_graded_in_place_makes_few_calls(
    tmp_path: Path, agent: str, calls: dict[str, dict[str, int]]
) -> None:
    for name, text in {
        "task.toml": TASK,
        "instruction.md": "Write ok to out.txt.",
        "environment/empty": "",
        "solution/solve.sh": "#!/bin/bash\necho ok > out.txt\n",
        "tests/test.sh": "#!/bin/bash\ngrep -qx ok out.txt && echo 1 > /logs/verifier/reward.txt\n",
    }.items():
        (tmp_path / "harbor" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "harbor" / name).write_text(text)
    native = {"benchmark": "calls", "scenarios": [NATIVE]} if "native" in calls else {}
    (tmp_path / "b.bench.yaml").write_text(json.dumps(native))
    with HarmfulSocket() as socket:
        done = run(
            tmp_path,
            *(name if name == "harbor" else "b.bench.yaml" for name in calls),
            f"--bench-agent={agent}",
            "--bench-concurrency=1",
            DOCKER_HOST=socket.host,
        )
    assert {one["scenario"]: one["score"] for one in results(tmp_path)} == dict.fromkeys(calls, 1.0), done
    for scenario, wanted in calls.items():
        made = socket.counts(scenario)
        for call in OFTEN:
            del made[call]
        assert made == Counter(wanted)
