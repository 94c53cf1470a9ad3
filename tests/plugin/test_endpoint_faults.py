"""Endpoints that fail some trials of a job: each trial has its own outcome, and the job goes on."""

from __future__ import annotations

import collections
import json
from typing import Any

import pytest

from .completions import Completions, serving
from .conftest import Bench

AGENT = """
import json, os, sys, urllib.request
case, calls, patience, status = open(os.environ["BENCH_PROBLEM_FILE"]).read().split()
body = json.dumps({"model": "m", "messages": [{"role": "user", "content": case}]}).encode()
for _ in range(int(calls)):
    asked = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, {"Content-Type": "application/json"}
    )
    try:
        urllib.request.urlopen(asked, timeout=float(patience)).read()
    except OSError:
        sys.exit(int(status))
open("out.txt", "w").write("1")
"""
STATUSES = {
    "recovers": [503] * 6,  # for at least 7 s
    "dead": [500] * 99,
    "fails later": [200, *[500] * 99],
    "costs too much": [402] * 99,
    "well": [],
}
"""What the endpoint says to the calls of a scenario; after that, 200."""
CASES = {
    # scenario: calls of its agent, seconds until it gives one up, its exit status then, its timeout; and the outcome
    "recovers": (1, 60, 1, 6, "passed", None),
    "dead": (1, 1, 0, 60, "error", "endpoint_down"),
    "fails later": (2, 1, 1, 60, "failed", "agent_crashed"),
    "costs too much": (1, 60, 1, 60, "error", "endpoint_down"),
    "well": (3, 60, 1, 60, "passed", None),
}


class Endpoint(Completions):
    seen: collections.Counter[str] = collections.Counter()

    def asked(self, body: dict[str, Any]) -> None:
        case = body["messages"][-1]["content"].replace("-", " ")
        statuses = STATUSES.get(case, [])
        number = self.seen[case]
        self.seen[case] += 1
        if number >= len(statuses) or statuses[number] == 200:
            self.answer(body["model"], "ok")
            return
        self.send_response(statuses[number])
        self.send_header("Content-Length", "0")
        self.end_headers()


def test_each_trial_gets_what_is_its_own(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    Endpoint.seen.clear()
    monkeypatch.setenv("OPENAI_API_KEY", "of-a-scripted-endpoint")
    script = bench.write("agent.py", AGENT)
    bench.manifest(
        {
            case.replace(" ", "-"): {
                "problem_statement": f"{case.replace(' ', '-')} {calls} {patience} {status}",
                "agent_timeout": timeout,
                "script": "[ -f out.txt ] && echo score=1 || echo score=0",
            }
            for case, (calls, patience, status, timeout, *_) in CASES.items()
        }
    )
    with serving(Endpoint) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        run = bench.run(
            *("--bench-secret=OPENAI_API_KEY=OPENAI_API_KEY", "--bench-agent", f"command:python3 {script}"),
            *("--bench-model-patience=60", "--bench-concurrency=6"),
        )
    found = {result["scenario"].replace("-", " "): result for result in bench.results()}
    assert {name: (one["outcome"], (one["failure"] or {}).get("class")) for name, one in found.items()} == {
        name: expected for name, (*_, outcome, kind) in CASES.items() for expected in [(outcome, kind)]
    }, run.stdout.str()
    assert all((one["score"] is None) == (one["outcome"] == "error") for one in found.values())
    (note,) = [note for note in found["fails later"]["notes"] if "failed" in note]
    assert note.endswith("the endpoint answers others, so the work is graded")
    assert json.loads((bench.bundle() / "job.json").read_text())["status"] == "completed"
