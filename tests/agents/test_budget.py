"""A job that may spend so much and no more, and is finished with a higher limit."""

from __future__ import annotations

import json
import signal

import pytest

from tests.agents.jobs import Job
from tests.support import containers_left, results, run, start, until

pytestmark = [pytest.mark.docker, pytest.mark.slow]

_PRICES = """
date = 2026-11-21
[[model]]
providers = ["openai-compatible"]
names = ["fake-model"]
input = 10
output = 100
cached = 10
cache_write = 10
"""
TRIALS = 40
CALLS = 4
LIMIT = 1.0


@pytest.mark.extended
def test_a_dollar_over_forty_concurrent_trials(job: Job) -> None:
    runs = " ".join(f"<<<RUN: echo {number} > step>>>" for number in range(CALLS - 2))
    job.scenarios(
        {
            f"t{number:02}": f"{runs} <<<RUN: echo hi > made.txt>>> <<<ID: {number}>>>"
            for number in range(TRIALS)
        }
    )
    (job.path / "prices.toml").write_text(_PRICES)
    agent = job.spec("model")
    arguments = ["--bench-agent", agent, "--bench-prices", "prices.toml", "--bench-concurrency", str(TRIALS)]
    found = job.run(*arguments, "--bench-max-cost", str(LIMIT))
    assert job.status == 13, job.output
    outcomes = {result["outcome"] for result in found}
    assert outcomes <= {"passed", "error"}
    cut = [result for result in found if result["outcome"] == "error"]
    assert cut
    assert {result["failure"]["class"] for result in cut} == {"budget"}
    assert all(result["score"] is None for result in cut)
    assert all(result["score"] == 1.0 for result in found if result["outcome"] == "passed")
    calls = sum(result["usage"]["calls"] or 0 for result in found)
    each = sum(result["usage"]["cost_usd"] or 0 for result in found) / calls
    assert LIMIT <= calls * each <= LIMIT + TRIALS * each
    assert calls == job.server.usage.calls
    before = {result["node_id"] for result in found if result["outcome"] == "passed"}
    again = run(job.path, "made.bench.yaml", "--bench-resume", "last", *arguments, "--bench-max-cost", "100")
    assert again.returncode == 0, again.stdout
    whole = results(job.path)
    assert len({result["job"] for result in whole}) == 1
    assert [result["outcome"] for result in whole] == ["passed"] * TRIALS
    assert job.server.usage.calls == calls + CALLS * (TRIALS - len(before))
    assert containers_left(found[0]["job"]) == []


@pytest.mark.extended
def test_what_was_spent_before_counts_when_a_job_is_taken_up_again(job: Job) -> None:
    job.scenarios({f"t{number}": "<<<RUN: echo hi > made.txt>>>" for number in range(3)})
    agent = job.spec("model")
    arguments = ["--bench-agent", agent, "--bench-concurrency", "1", "--bench-max-calls", "3"]
    job.run(*arguments)
    assert job.server.usage.calls == 3
    again = run(job.path, "made.bench.yaml", "--bench-resume", "last", *arguments)
    assert again.returncode == 13, again.stdout
    assert job.server.usage.calls == 3


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_what_trials_spent_that_were_stopped_in_flight_counts_when_the_job_is_finished(
    job: Job, number: signal.Signals
) -> None:
    job.scenarios(
        {"stuck": "<<<RUN: echo hi > made.txt>>> <<<RUN: test -e /tmp/on || { touch /tmp/on; sleep 60; }>>>"}
    )
    agent = ["--bench-agent", job.spec("model")]
    first = start(job.path, "made.bench.yaml", *agent, "--bench-max-calls", "3")
    until(lambda: job.server.usage.calls == 2)
    first.send_signal(number)
    first.communicate()
    assert results(job.path) == []
    again = run(job.path, "made.bench.yaml", "--bench-resume", "last", *agent, "--bench-max-calls", "3")
    assert again.returncode == 13, again.stdout
    assert job.server.usage.calls == 3
    (record,) = job.path.glob("reports/jobs/*/job.json")
    spent = json.loads(record.read_text())["spent"]
    assert (spent["calls"], spent["input_tokens"] > 0) == (3, True)
    assert not list(record.parent.glob(".spent*"))
