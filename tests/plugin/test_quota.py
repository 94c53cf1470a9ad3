"""Quotas of providers that are used up: jobs that end, wait or pause, in one process and in several."""

from __future__ import annotations

import json
import re
import threading
import time
from typing import Any, Self

import pytest

from tests.support import until

from .completions import Completions, serving
from .conftest import Bench
from .test_answering import sums
from .test_judge import KEY, MANIFEST

__all__ = ["sums"]

TRIALS = 6
WORKERS = [(), ("-n", "2")]


class Provider:
    """An endpoint whose quota is used up after so many calls, until it is told otherwise or a time has come."""

    def __init__(self, calls: int | None = None, seconds: float | None = None, *, tells: bool = True) -> None:
        self.calls, self.seconds, self.tells = calls, seconds, tells
        self.lock = threading.Lock()
        self.answered = self.refused = 0
        self.back: float | None = None
        provider = self

        class Handler(Completions):
            def asked(self, body: dict[str, Any]) -> None:
                if (said := provider.refusal()) is None:
                    self.answer(body["model"], provider.reply(body["messages"][-1]["content"]))
                    return
                content = json.dumps({"error": said}).encode()
                self.send_response(429)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self._serving = serving(Handler)

    def __enter__(self) -> Self:
        self.url = self._serving.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._serving.__exit__(None, None, None)

    def reply(self, prompt: str) -> str:
        """The sum that is wanted."""
        return f"ANSWER: {sum(map(int, re.findall('[0-9]+', prompt)[:2]))}"

    def refusal(self) -> dict[str, Any] | None:
        """What a call is refused with, None if it is answered."""
        with self.lock:
            if self.back is not None and time.time() >= self.back:
                self.calls, self.back = None, None
            if self.calls is None or self.answered < self.calls:
                self.answered += 1
                return None
            self.refused += 1
            said: dict[str, Any] = {"message": "You exceeded your quota", "code": "insufficient_quota"}
            if self.seconds is not None:
                self.back = self.back or time.time() + self.seconds
                if self.tells:
                    said["resets_at"] = self.back
            return said

    def agent(self, model: str) -> str:
        return f"model:{model}@{self.url}"


def call(*agents: str) -> list[str]:
    return ["--bench", "sums", *(f"--bench-agent={agent}" for agent in agents), "--bench-concurrency", "2"]


def figures(bench: Bench) -> dict[str, tuple[Any, ...]]:
    return {
        result["node_id"]: (result["outcome"], result["score"], result["usage"]["calls"])
        for result in bench.results()
    }


def record(bench: Bench) -> dict[str, Any]:
    return json.loads((bench.bundle() / "job.json").read_text("utf-8"))  # type: ignore[no-any-return]


def test_by_default_the_job_ends(sums: Bench) -> None:
    with Provider(2) as poor, Provider() as rich:
        run = sums.run(*call(poor.agent("poor"), rich.agent("rich")))
        assert run.ret == 13
        assert record(sums)["status"] == "budget"
        assert {result["outcome"] for result in sums.results()} <= {"passed", "error"}
        assert rich.answered < TRIALS


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.extended
def test_a_paused_job_is_finished_to_the_results_of_one_that_never_paused(
    sums: Bench, workers: tuple[str, ...]
) -> None:
    with Provider(2) as poor, Provider() as rich:
        arguments = call(poor.agent("poor"), rich.agent("rich"))
        run = sums.run(*arguments, "--bench-on-quota", "pause", "--junitxml", "junit.xml", *workers)
        output = run.stdout.str()
        assert run.ret == 75, output
        assert "job paused: the quota of openai-compatible is used up" in output
        found = record(sums)
        assert (found["status"], found["planned"], found["totals"]["trials"]) == ("paused", 12, TRIALS + 2)
        assert f"`benchjobs resume {found['id']}`" in found["message"]
        assert [quota["provider"] for quota in found["decisions"]["quotas"]] == ["openai-compatible"]
        passed = [node for node, outcome in sums.outcomes().items() if outcome == "passed"]
        assert len(passed) == len(sums.outcomes()) == TRIALS + 2
        assert sum("rich" in node for node in passed) == TRIALS
        junit = (sums.path / "junit.xml").read_text("utf-8")
        assert 'errors="0"' in junit
        assert 'failures="0"' in junit
        assert 'skipped="4"' in junit
        ours = (sums.bundle() / "junit.xml").read_text("utf-8")
        assert ours.count("<testcase") == TRIALS + 2
        assert not (sums.bundle() / ".flight").exists()

        listed = json.loads(sums.benchjobs("list", "--status", "paused", "-o", "json").stdout)
        assert [job["id"] for job in listed["jobs"]] == [found["id"]]
        watched = sums.benchjobs("watch", "last")
        assert watched.returncode == 75
        assert f"`benchjobs resume {found['id']}` runs the missing trials" in watched.stderr
        document = json.loads(sums.benchjobs("watch", "last", "-o", "json").stdout)
        assert document["status"] == "paused"
        assert document["quotas"][0]["message"].endswith("You exceeded your quota")
        gate = sums.benchjobs("gate", "last", "--min-score", "0.5")
        assert gate.returncode == 75
        assert "paused" in gate.stdout

        again = sums.benchjobs("resume", "last")
        assert again.returncode == 75, again.stdout + again.stderr
        assert poor.answered == 2
        poor.calls = None
        again = sums.benchjobs("resume", "last")
        assert again.returncode == 0, again.stdout + again.stderr
        resumed = figures(sums)
        assert (record(sums)["status"], record(sums)["id"]) == ("completed", found["id"])
        assert record(sums)["decisions"]["quotas"] == []
        assert poor.answered == rich.answered == TRIALS
        sums.run(*arguments, *workers).assert_outcomes(passed=12)
        assert record(sums)["id"] != found["id"]
        assert figures(sums) == resumed


@pytest.mark.parametrize("workers", [(), pytest.param(("-n", "2"), marks=pytest.mark.extended)])
def test_trials_wait_until_the_quota_is_back_and_others_go_on(sums: Bench, workers: tuple[str, ...]) -> None:
    with Provider(1, seconds=5) as poor, Provider() as rich:
        began = time.time()
        arguments = call(poor.agent("poor"), rich.agent("rich"))
        run = sums.run(*arguments, "--bench-on-quota", "wait", *workers)
        output = run.stdout.str()
        run.assert_outcomes(passed=12)
        results = sums.results()
        assert record(sums)["status"] == "completed"
        ended = {"poor": [], "rich": []}  # type: dict[str, list[str]]
        for result in results:
            ended["poor" if "poor" in result["node_id"] else "rich"].append(result["finished_at"])
        assert sum(one > max(ended["rich"]) for one in ended["poor"]) == TRIALS - 1
        assert time.time() - began > 5
        assert poor.refused <= 2
        cut = [result for result in results if any("began anew" in note for note in result["notes"])]
        assert 1 <= len(cut) <= 2
        # The clock of a trial stands still meanwhile, but its calls count.
        assert all(result["seconds"] < 4 for result in results)
        assert {result["usage"]["calls"] for result in cut} <= {1, 2}
        if not workers:
            assert "the quota of openai-compatible is used up until" in output
            assert "its trials wait" in output
            assert "the quota of openai-compatible is back" in output


def test_a_waiting_job_is_watched_and_cancelled(sums: Bench) -> None:
    with Provider(1, seconds=3600) as poor:
        process = sums.start(*call(poor.agent("poor")), "--bench-on-quota", "wait")
        try:
            until(
                lambda: list(sums.path.glob("reports/jobs/*/.flight/quotas.json")), what="no quota is used up"
            )
            watching = sums.benchjobs("cancel", "last", "--no-wait")
            assert watching.returncode == 0, watching.stderr
            output, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert record(sums)["status"] == "cancelled", output
    assert record(sums)["decisions"]["quotas"][0]["told"] is True
    assert len(sums.results()) == 1


def test_a_job_out_of_time_says_what_it_waited_for(sums: Bench) -> None:
    with Provider(1, seconds=3600) as poor:
        limited = ("--bench-on-quota", "wait", "--bench-job-timeout", "5")
        run = sums.run(*call(poor.agent("poor")), *limited, "-q")
    assert "bench: the quota of openai-compatible is used up" in run.stdout.str()
    found = record(sums)
    assert found["status"] == "timeout"
    assert (
        "it exceeded the job timeout of 5 s; the quota of openai-compatible is used up until"
        in found["message"]
    )


class Judge(Provider):
    def reply(self, prompt: str) -> str:
        return json.dumps({"reason": "seen", "score": 1})


@pytest.mark.parametrize("on_quota", ["pause", "wait"])
def test_the_quota_of_a_judge_is_that_of_its_trials(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, on_quota: str
) -> None:
    bench.write("letters.bench.yaml", MANIFEST)
    monkeypatch.setenv("JUDGE_OPENAI_API_KEY", KEY)
    with Judge(1, seconds=3 if on_quota == "wait" else None) as judge:
        monkeypatch.setenv("OPENAI_BASE_URL", judge.url)
        run = bench.run("letters.bench.yaml", "--bench-on-quota", on_quota, "--bench-concurrency", "1")
        if on_quota == "pause":
            assert run.ret == 75, run.stdout.str()
            assert list(bench.outcomes().values()) == ["passed"]
            judge.calls = None
            assert bench.benchjobs("resume", "last").returncode == 0
        assert list(bench.outcomes().values()) == ["passed"] * 2
        assert judge.answered == 2


def test_an_interactive_trial_cannot_be_run_again_by_itself(bench: Bench) -> None:
    bench.toy()
    with Provider(1) as poor:
        bench.write(
            "test_it.py",
            f"""
            import pytest

            @pytest.mark.bench_scenario(
                "toy.bench.yaml", "solved", agent="loop", model="m", base_url="{poor.url}"
            )
            def test_loop(bench_trial):
                bench_trial.exec("echo 1 > out.txt")
                for _ in range(2):
                    bench_trial.chat([{{"role": "user", "content": "How much is 1 + 1?"}}])
            """,
        )
        run = bench.run("test_it.py", "--bench-on-quota", "pause")
        assert run.ret == 75, run.stdout.str()
        (one,) = bench.results()
        assert (one["outcome"], one["score"], one["failure"]["class"]) == ("error", None, "budget")
        assert record(bench)["status"] == "paused"
        poor.calls = None
        assert bench.benchjobs("resume", "last").returncode == 0
        assert [result["outcome"] for result in bench.results()] == ["passed"]


def test_a_recorded_quota_is_not_waited_for(sums: Bench) -> None:
    with Provider(0) as poor:
        spec = poor.agent("poor")
        sums.run(*call(spec), "-k", "sum-1", "--bench-record", "traffic")
        poor.calls = None
        for on_quota in ("wait", "pause"):
            run = sums.run(
                *call(spec), "-k", "sum-1", "--bench-replay", "traffic", "--bench-on-quota", on_quota
            )
            assert run.ret == 1
            assert record(sums)["status"] == "completed"
            assert [result["failure"]["class"] for result in sums.results()] == ["budget"]
    assert poor.answered == 0
