"""Conversations as users run them: in pytest, from the console, by a function, and with a bare model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from .completions import Completions, serving
from .conftest import Bench

MANIFEST = """
benchmark: talk
defaults: {image: none, workdir: /app, threshold: 0.75}
scenarios:
  - id: strict
    category: one
    turns:
      - message: Write 1.
        expect: [done, {command: grep -q 1 out.txt}]
        forbid: sorry
        reply: Done.
        reference: echo 1 > out.txt
      - message: What was it?
        expect: one
        reply: One.
"""
SECOND = """
  - id: measured
    category: two
    mode: diagnostic
    turns:
      - message: Say one.
        expect: one
        forbid: sorry
        reply: One.
"""
WELL = "command:echo 1 > out.txt; echo done, one"


@pytest.fixture
def talk(bench: Bench) -> Bench:
    bench.write("talk.bench.yaml", MANIFEST + SECOND)
    return bench


def test_one_trial_is_one_item_with_one_score(talk: Bench) -> None:
    done = talk.run(
        "talk.bench.yaml", f"--bench-agent=well={WELL}", "--bench-agent=nop", "--bench-agent=oracle"
    )
    assert done.ret == 1
    assert sorted(talk.outcomes().values()) == ["failed", *["passed"] * 5]
    told = {result["node_id"].partition("::")[2]: result for result in talk.results()}
    assert told["strict[well]"]["score"] == 1.0
    assert told["strict[nop]"]["score"] == 0.0
    assert told["measured[nop]"]["outcome"] == "passed"
    assert [step["name"] for step in told["strict[well]"]["steps"]] == ["turn-1", "turn-2"]
    report = talk.job()
    means = {"well": 1.0, "nop": 0.0, "oracle": 1.0}
    assert [(row["agent"], row["category"], row["mean_scored"]) for row in report["categories"]] == [
        (agent, category, mean) for agent, mean in means.items() for category in ("one", "two")
    ]
    assert "| `nop` | `one` | 0 | 1 | 0.000 |" in (talk.bundle() / "summary.md").read_text()
    shown = talk.benchjobs("show", "strict[well]").stdout
    turns = [line.split()[:2] for line in shown.splitlines() if line.startswith("  turn-")]
    assert turns[:2] == [["turn-1", "1.0"], ["turn-2", "1.0"]]
    assert "steps/turn-2/reply.txt" in shown


def test_a_step_that_did_not_run_is_shown_with_the_reason(talk: Bench) -> None:
    talk.run("talk.bench.yaml", "--bench-scenario=strict", "--bench-agent=bad=command:exit 3")
    shown = talk.benchjobs("show", "strict[bad]").stdout
    assert "not run: step turn-1: the agent did not end by itself" in shown


def test_conversations_are_reused_rescored_and_checked(talk: Bench) -> None:
    talk.run("talk.bench.yaml", f"--bench-agent=well={WELL}", "--bench-keep=always")
    job = talk.bundle().name
    again = talk.run("talk.bench.yaml", f"--bench-agent=well={WELL}", "--bench-reuse")
    again.stdout.fnmatch_lines(["2 results reused*"])
    rescored = talk.benchjobs("rescore", job)
    assert rescored.returncode == 0, rescored.stdout + rescored.stderr
    assert {result["rescored"]["job"] for result in talk.results()} == {job}
    assert [step["score"] for result in talk.results() for step in result["steps"]] == [1.0] * 3
    manifest = (talk.path / "talk.bench.yaml").read_text()
    talk.write("talk.bench.yaml", manifest.replace("reply: Done.", "reply: Sorry."))
    checked = talk.benchjobs("check", "talk.bench.yaml", "--attempts", "1")
    assert checked.returncode == 1
    assert "oracle" in checked.stdout


def test_a_changed_check_makes_a_new_trial(talk: Bench) -> None:
    talk.run("talk.bench.yaml", "--bench-scenario=strict", f"--bench-agent=well={WELL}", "--bench-reuse")
    manifest = (talk.path / "talk.bench.yaml").read_text()
    talk.write("talk.bench.yaml", manifest.replace("expect: one", "expect: two"))
    talk.run("talk.bench.yaml", "--bench-scenario=strict", f"--bench-agent=well={WELL}", "--bench-reuse")
    (result,) = talk.results()
    assert result["reused"] is None
    assert result["score"] == 0.75


def test_a_function_may_hold_the_conversation(talk: Bench) -> None:
    talk.write(
        "test_talk.py",
        """
        import pytest

        @pytest.mark.bench_scenario("talk.bench.yaml", "strict")
        def test_talk(bench_trial):
            assert bench_trial.problem_statement == "Write 1."
            bench_trial.exec("echo 1 > out.txt")
            bench_trial.reply("done")
            score = bench_trial.score()
            assert (score.final, score.score) == (False, 1.0)
            assert bench_trial.problem_statement == "What was it?"
            bench_trial.reply("It was one.")
            score = bench_trial.score()
            assert score.final and score.passed and score.score == 1.0
        """,
    )
    done = talk.run("test_talk.py")
    done.assert_outcomes(passed=1)
    (result,) = talk.results()
    assert [step["score"] for step in result["steps"]] == [1.0, 1.0]
    exported = talk.benchjobs("export", talk.bundle().name, "--format", "rl").stdout
    said = [(one["role"], one["content"]) for one in json.loads(exported)["messages"] if one["content"]]
    assert [one for one in said if one[0] != "tool"] == [
        ("user", "Write 1."),
        ("assistant", "done"),
        ("user", "What was it?"),
        ("assistant", "It was one."),
    ]


class _Model(Completions):
    """Remembers nothing: it answers by the messages that it is sent."""

    calls: list[list[dict[str, Any]]]

    def asked(self, body: dict[str, Any]) -> None:
        self.calls.append(body["messages"])
        last = body["messages"][-1]["content"]
        before = any("done" in str(message["content"]) for message in body["messages"][:-1])
        self.answer(body["model"], "done" if "Write" in last else "one" if before else "nothing")


@pytest.fixture
def model() -> Iterator[str]:
    _Model.calls = []
    with serving(_Model) as url:
        yield f"model:m@{url}"


@pytest.mark.parametrize("tools", [True, False])
def test_a_bare_model_is_sent_all_messages_of_the_conversation(talk: Bench, model: str, tools: bool) -> None:
    extra = json.dumps({"tools": tools})
    done = talk.run(
        "talk.bench.yaml", "--bench-scenario=strict", f"--bench-agent={model}", "--bench-extra", extra
    )
    (result,) = talk.results()
    # It wrote no file, so one of four checks is missed.
    assert (result["outcome"], result["score"]) == ("passed", 0.75), done.stdout.str()
    assert result["usage"]["calls"] == 2
    assert result["usage"]["input_tokens"] == 14
    first, second = _Model.calls
    roles = [message["role"] for message in first]
    assert [message["role"] for message in second] == [*roles, "assistant", "user"]


def test_the_lifecycle_benchmark_runs_by_name(bench: Bench) -> None:
    two = ("--bench-agent=nop", "--bench-max-examples=2")
    assert bench.run("--bench", "orchestrator-lifecycle", *two).ret == 1
    assert list(bench.outcomes().values()) == ["failed", "failed"]
    measured = bench.run("--bench", "orchestrator_lifecycle", *two, "--bench-extra", '{"strict": false}')
    measured.assert_outcomes(passed=2, deselected=10)
    wrong = bench.run("--bench", "orchestrator-lifecycle", "--bench-extra", '{"strict": "maybe"}')
    wrong.stderr.fnmatch_lines(["*strict: true or false is expected, not 'maybe'*"])
