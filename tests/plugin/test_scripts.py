"""Trials driven by plain scripts, and models they reach through the gateway."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.agents.server import ModelServer

from .conftest import TOY, Bench

KEY = "canary-openai-0123456789"
HEAD = """
import asyncio
import json
import os
import time
import urllib.error
import urllib.request

import pytest_benchjobs as benchjobs
from pytest_benchjobs.testing import FakeProvider

about = {"agent": "mine", "sandbox": FakeProvider}
"""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def script(bench: Bench, text: str, **env: str) -> subprocess.CompletedProcess[str]:
    bench.toy()
    bench.write("loop.py", HEAD + text)
    return bench.process(sys.executable, "loop.py", **{"OPENAI_API_KEY": KEY, **env})


def test_scenarios_of_a_benchmark_are_listed_and_those_a_job_has_not_started(bench: Bench) -> None:
    bench.write(
        "benchmarks/other.bench.yaml",
        TOY.replace("benchmark: toy", "benchmark: mine").replace(
            "id: solved", "id: solved\n    archived: true"
        ),
    )
    done = script(
        bench,
        """
print(benchjobs.scenario_ids("toy.bench.yaml"), benchjobs.scenario_ids("mine"))
with benchjobs.DrivenJob(**about) as job:
    for scenario in job.pending_scenarios("toy.bench.yaml")[:1]:
        with job.start("toy.bench.yaml", scenario) as trial:
            trial.write_file("out.txt", "1")
    print(job.pending_scenarios("toy.bench.yaml"), job.pending_scenarios("toy.bench.yaml", attempt=2))
""",
    )
    assert done.stdout.splitlines() == [
        "('solved', 'partial', 'unscored') ('partial', 'unscored')",
        "('partial', 'unscored') ('solved', 'partial', 'unscored')",
    ], done.stderr


def test_a_script_drives_trials_whose_results_are_those_of_a_job(bench: Bench) -> None:
    done = script(
        bench,
        """
with benchjobs.start("toy.bench.yaml", "solved", **about) as trial:
    trial.write_file("out.txt", "1")
    kept = trial.snapshot("before")
    assert trial.score().passed
assert trial.complete() is trial.result and trial.result.outcome == "passed"

try:
    with benchjobs.start("toy.bench.yaml", "solved", **about) as trial:
        raise OSError("broken")
except OSError:
    assert trial.result.failure.class_ == "agent_crashed"

try:
    with benchjobs.start("toy.bench.yaml", "unscored", **about) as trial:
        trial.score()
        print(trial.score().outcome)
except benchjobs.TrialFailed:
    raise AssertionError
assert trial.result.outcome == "error"

async def many():
    async with benchjobs.DrivenJob(name="many", metadata={"why": "a test"}, min_score=0.5, **about) as job:
        async def one(number):
            async with job.start("toy.bench.yaml", "solved", attempt=number).aio as trial:
                await trial.exec(f"echo {number} > out.txt")
        await asyncio.gather(*(one(number) for number in (1, 2, 3)))
        assert sorted(one.score for one in job.results) == [0.0, 0.0, 1.0]
        try:
            job.start("toy.bench.yaml", "solved", attempt=3)
        except benchjobs.InputError as error:
            print("refused:", error)
    assert [one.score for one in job.results] == [1.0, 0.0, 0.0]
    assert job.verdict.report.job == job.id
    assert json.loads((job.directory / "job.json").read_text())["config"]["metadata"] == {"why": "a test"}
    async with benchjobs.start_async("toy.bench.yaml", "solved", **about) as trial:
        assert (await trial.score()).score == 0
asyncio.run(many())

for wrong in ({"scenario": "nope"}, {"benchmark": "nowhere"}, {"agent": "codex"}, {"colour": "red"}, {"agnet": "me"}):
    try:
        benchjobs.start(**{"benchmark": "toy.bench.yaml", "scenario": "solved", **about, **wrong})
    except benchjobs.InputError as error:
        print("refused:", error)

with benchjobs.start("toy.bench.yaml", "solved", **about) as trial:
    try:
        trial.chat([])
    except benchjobs.InputError as error:
        print("no model:", error)
    trial.cancel()

with benchjobs.start("toy.bench.yaml", "solved", agent_timeout=2, **about) as trial:
    trial.pause()
    time.sleep(3)  # longer than it may take, were it not paused
    trial.resume()
    trial.exec("echo 1 > out.txt")
    time.sleep(3)  # longer than it may take
    try:
        trial.exec("true")
        raise AssertionError
    except benchjobs.NotLive as error:
        assert "its time is up" in str(error), error
    assert trial.score().score == 1.0 and not trial.score().passed
    assert trial.exec("true").ok
assert trial.result.failure.class_ == "agent_timeout"

trial = benchjobs.start("toy.bench.yaml", "solved", **about)
trial.exec("true")
try:
    trial.cancel()
    trial.score()
except benchjobs.NotLive as error:
    print(error)

benchjobs.start("toy.bench.yaml", "solved", **about).exec("echo forgotten")
""",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("refused:") == 6
    assert "no model: the trial has no model; name one: start(..., model=NAME), or the mark" in done.stdout
    assert "there is no setting 'agnet'; did you mean 'agent'?" in done.stdout
    assert "there is no setting 'colour'" in done.stdout
    listed = json.loads(bench.benchjobs("list", "--selections", "-o", "json").stdout)
    statuses = [job["status"] for job in (listed["jobs"] if isinstance(listed, dict) else listed)]
    assert sorted(statuses) == sorted(["completed"] * 6 + ["cancelled"] * 3)
    repeated = bench.benchjobs("rerun", "last")
    assert "driven by loop.py" in repeated.stdout + repeated.stderr


LOOP = """
about |= {"model": "gpt-5.5", "base_url": os.environ["URL"], "params": {"openai_key_variable": "MINE"}}
with benchjobs.start("toy.bench.yaml", "solved", **about) as trial:
    said = trial.chat([{"role": "user", "content": "<<<SAY: 1>>>"}])
    trial.write_file("out.txt", said["content"])

    def ask(key):
        body = {"model": trial.model, "messages": [{"role": "user", "content": "<<<SAY: hi>>>"}]}
        request = urllib.request.Request(
            f"{trial.base_url}/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["choices"][0]["message"]["content"]

    assert ask(trial.api_key) == "hi"
    try:
        ask("guess")
        raise AssertionError
    except urllib.error.HTTPError as error:
        assert error.code == 401, error.code
    assert trial.env == {"OPENAI_BASE_URL": trial.base_url, "OPENAI_API_KEY": trial.api_key}
    assert trial.api_key not in trial.exec("env").output
    assert trial.score().passed
    try:
        trial.chat([])
        raise AssertionError
    except benchjobs.NotLive:
        pass
print(trial.result.usage.calls)
"""


def test_a_loop_of_ones_own_is_metered_by_the_gateway(bench: Bench, server: ModelServer) -> None:
    done = script(bench, LOOP, URL=f"{server.url}/v1", MINE=KEY, OPENAI_API_KEY="")
    assert done.returncode == 0, done.stderr
    (one,) = bench.results()
    assert one["usage"]["calls"] == len(server.calls) == 2
    steps = (bench.bundle() / one["path"] / "trajectory.jsonl").read_text()
    assert [steps.count(f'"message":"{said}"') for said in ("1", "<<<SAY: hi>>>", "hi")] == [1, 1, 1]
    assert one["usage"]["input_tokens"] == server.usage.input_tokens
    assert server.keys == {KEY}
    written = [path.read_text(errors="replace") for path in bench.bundle().rglob("*") if path.is_file()]
    assert not any(KEY in text for text in written)


def test_limits_of_the_gateway_end_a_loop(bench: Bench, server: ModelServer) -> None:
    done = script(
        bench,
        """
about |= {"model": "gpt-5.5", "base_url": os.environ["URL"], "trial_max_calls": 2}
try:
    with benchjobs.start("toy.bench.yaml", "solved", **about) as trial:
        trial.write_file("out.txt", "1")
        for _ in range(9):
            trial.chat([{"role": "user", "content": "<<<SAY: again>>>"}])
except (ConnectionError, benchjobs.NotLive) as error:
    print("ended:", error)
assert trial.result.failure.class_ == "limit_exceeded", trial.result
""",
        URL=f"{server.url}/v1",
    )
    assert done.returncode == 0, done.stderr
    assert "ended:" in done.stdout
    assert len(server.calls) == 2


def test_a_model_without_a_key_is_told_before_anything_starts(bench: Bench) -> None:
    done = script(
        bench, 'benchjobs.start("toy.bench.yaml", "solved", model="gpt-5.5", **about)', OPENAI_API_KEY=""
    )
    assert done.returncode == 1
    assert "OPENAI_API_KEY" in done.stderr
    assert not (bench.path / "reports").exists()


def test_an_interactive_test_has_the_model_of_its_mark_or_parameter(
    bench: Bench, server: ModelServer
) -> None:
    bench.toy()
    bench.write(
        "test_it.py",
        f"""
        import pytest

        @pytest.mark.parametrize("bench_model", ["gpt-5.5", "gpt-5.5-mini"])
        @pytest.mark.bench_scenario("toy.bench.yaml", "solved", agent="loop", base_url="{server.url}/v1")
        def test_loop(bench_trial, bench_model):
            assert bench_trial.model == bench_model
            bench_trial.write_file("out.txt", bench_trial.chat([{{"role": "user", "content": "<<<SAY: 1>>>"}}])["content"])
        """,
    )
    assert bench.run("test_it.py", "-n", "1").ret == 0
    called = {one["agent"]["model"]: one["usage"]["calls"] for one in bench.results()}
    assert called == {"gpt-5.5": 1, "gpt-5.5-mini": 1}


def test_feedback_gives_a_script_another_turn(bench: Bench) -> None:
    told = {
        "workdir": "/app",
        "problem_statement": "Guess.",
        "fresh_container": {"paths": ["."]},
        "feedback": {"statement": "{problem} It said {output}", "turns": 2},
        "script": "grep -q 2 out.txt && echo score=1 || echo score=0",
    }
    bench.manifest({"guess": told}, "told.bench.yaml")
    done = script(
        bench,
        """
with benchjobs.start("told.bench.yaml", "guess", **about) as trial:
    guess = 0
    while guess == 0 or not score.final:
        guess += 1
        print(trial.problem_statement)
        trial.exec(f"echo {guess} > out.txt")
        score = trial.score()
    assert (score.passed, score.score) == (True, 1.0)
assert trial.result.turns == (0.0, 1.0)
""",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Guess.\nGuess. It said The score is 0.\n"
