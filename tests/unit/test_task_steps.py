"""Trials of several steps: one after the other in one sandbox, each with its own instruction, grading and files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pytest_benchjobs.model.errors import EngineLost, EnvironmentFailed, FilesRefused
from pytest_benchjobs.model.job import JobConfig, Keep
from pytest_benchjobs.model.result import TrialResult
from pytest_benchjobs.model.scenario import (
    ArtifactSpec,
    CarriedPath,
    FreshContainer,
    HealthCheck,
    Reference,
    Scenario,
    ScorerSpec,
    Step,
    StepScore,
)
from pytest_benchjobs.scoring.builtin import builtin_scorers
from pytest_benchjobs.store.kept_names import kept_name, with_earlier_steps
from pytest_benchjobs.trial.signature import parts_of

from .records import trial
from .test_trial import SECRET, Bench, _failure, _kind
from .test_trial import bench as bench

FOLLOWS = 'command:sh -c "$(cat $BENCH_PROBLEM_FILE)"'
"""Does what the instruction says."""


def graded(name: str, script: str) -> ScorerSpec:
    return ScorerSpec(name=name, type="bash", script=script)


def step(name: str, instruction: str, **changes: Any) -> Step:
    return Step(name=name, instruction=instruction, scorers=(name,), **changes)


def lines(name: str, wanted: int) -> ScorerSpec:
    """Full score if out.txt has so many lines."""
    return graded(name, f"test $(cat out.txt | wc -l) -eq {wanted} && echo 1 || echo 0.25")


TWO = (step("first", "echo 1 >> out.txt"), step("second", "echo 2 >> out.txt"))
SOLVED = tuple(one.model_copy(update={"reference": Reference(script=one.instruction)}) for one in TWO)
OF_TWO = (lines("first", 1), lines("second", 2))

PASSED = ("passed", None, 1.0)

Run = Callable[..., TrialResult]


@pytest.fixture
def steps(bench: Bench) -> Run:
    def run(agent: str = FOLLOWS, **scenario: Any) -> TrialResult:
        return bench.run(agent, **{"steps": TWO, "scorers": OF_TWO, **scenario})

    return run


def told(result: TrialResult) -> list[tuple[str, float | None, str | None]]:
    return [(one.name, one.score, one.not_run) for one in result.steps]


def test_each_step_is_worked_on_and_graded_in_one_sandbox(bench: Bench, steps: Run) -> None:
    result = steps()
    assert _kind(result) == PASSED
    assert told(result) == [("first", 1.0, None), ("second", 1.0, None)]
    scores = [(one.name, one.step, one.score) for one in result.scorers]
    assert scores == [("first", "first", 1.0), ("second", "second", 1.0)]
    assert bench.provider.calls.count("start") == 1
    assert [one.path for one in result.steps] == ["steps/first", "steps/second"]
    first, second = result.steps
    assert 0 < first.seconds == first.end - first.start <= result.seconds
    assert first.end <= second.start
    assert {phase.name for phase in result.phases} >= {"agent", "score:first", "step", "score:second"}


def test_each_step_has_its_files_and_the_trial_has_one_log_of_all(bench: Bench, steps: Run) -> None:
    result = steps('command:cat "$BENCH_PROBLEM_FILE"; echo 1 >> out.txt')
    directory = bench.directory(result)
    assert (directory / "steps/first/agent.log").read_text() == "echo 1 >> out.txt"
    assert (directory / "steps/second/agent.log").read_text() == "echo 2 >> out.txt"
    assert (directory / "steps/second/scorers/second/output.log").read_text().strip() == "1"
    assert (directory / "agent.log").read_text() == (
        "=== step first ===\necho 1 >> out.txt\n=== step second ===\necho 2 >> out.txt\n"
    )
    written = json.loads((directory / "result.json").read_text())
    assert [one["name"] for one in written["steps"]] == ["first", "second"]


def test_the_score_is_the_mean_or_that_of_the_last_step(steps: Run) -> None:
    wrong = (lines("first", 1), lines("second", 9))
    assert steps(scorers=wrong).score == 0.625
    assert steps(scorers=wrong, step_score=StepScore.FINAL).score == 0.25
    heavy = (TWO[0].model_copy(update={"weight": 3.0}), TWO[1])
    assert steps(scorers=wrong, steps=heavy).score == 0.8125


def test_steps_after_one_that_misses_its_least_reward_do_not_run_and_count_as_0(
    bench: Bench, steps: Run
) -> None:
    three = (
        TWO[0].model_copy(update={"least": {"reward": 0.5}}), TWO[1], step("third", "true"),
    )  # fmt: skip
    scorers = (lines("first", 7), OF_TWO[1], lines("third", 2))
    result = steps(steps=three, scorers=scorers)
    assert _kind(result) == ("failed", "below_threshold", pytest.approx(0.25 / 3))
    why = "step first: its reward 0.25 is below the least, 0.5"
    assert told(result) == [("first", 0.25, None), ("second", None, why), ("third", None, why)]
    assert not (bench.directory(result) / "steps" / "second").exists()
    assert [one.name for one in result.scorers] == ["first"]
    assert steps(steps=three, scorers=scorers, step_score=StepScore.FINAL).score == 0.0
    allowed = (three[0].model_copy(update={"least": {"reward": 0.25}}), *three[1:])
    assert steps(steps=allowed, scorers=scorers).score == 0.75


def test_a_least_reward_of_a_key_that_the_tests_do_not_give_is_missed(
    bench: Bench, steps: Run, tmp_path: Path
) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test.sh").write_text(
        '#!/bin/sh\necho \'{"reward": 1, "style": 0.5}\' > $(dirname $BENCH_JUNIT)/reward.json\n'
    )
    scorers = (ScorerSpec(name="first", type="harbor", path=tests), OF_TWO[1])
    for least, why in (
        ({"style": 0.5}, None),
        ({"style": 0.6}, "step first: its style 0.5 is below the least, 0.6"),
        ({"safety": 0.0}, "step first: it has no safety, of which the least is 0"),
    ):
        result = steps(steps=(TWO[0].model_copy(update={"least": least}), TWO[1]), scorers=scorers)
        assert result.steps[1].not_run == why


@pytest.mark.parametrize("kind", ["harbor", "tests"])
def test_tests_of_a_step_are_put_over_those_of_the_task_and_are_gone_in_the_next(
    bench: Bench, steps: Run, tmp_path: Path, kind: str
) -> None:
    for path, text in {
        "shared/helper.sh": "echo shared",
        "shared/test.sh": "exit 3",
        "own/test.sh": "#!/bin/sh\nsh $BENCH_TESTS_DIR/helper.sh; echo 1 > $(dirname $BENCH_JUNIT)/reward.txt\n",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    of_task = {"path": tmp_path / "shared", "overlay": tmp_path / "own"}
    places = of_task if kind == "harbor" else {"path": tmp_path / "own"}
    over = ScorerSpec(name="first", type=kind, **places)
    agent = "command:find /tests /logs/verifier -type f; echo looked"
    result = steps(agent, scorers=(over, graded("second", "echo 1")))
    assert _kind(result) == PASSED, result.failure
    assert (bench.directory(result) / "steps/second/agent.log").read_text() == "looked\n"


def test_files_and_set_up_of_a_step_come_before_its_agent(bench: Bench, steps: Run, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "given.txt").write_text("given")
    (tmp_path / "work" / "setup.sh").write_text("#!/bin/sh\ncat given.txt > made.txt\n")
    second = step(
        "second",
        "cat made.txt given.txt; echo 2 >> out.txt",
        files=tmp_path / "work",
        setup="./setup.sh",
        healthcheck=HealthCheck(command="test -f made.txt", retries=1),
    )
    result = steps(steps=(TWO[0], second))
    assert _kind(result) == PASSED, result.failure
    assert (bench.directory(result) / "steps/second/agent.log").read_text() == "givengiven"
    words = ("given.txt", "made.txt", "setup")
    order = [call for call in bench.provider.calls if any(word in call for word in words)]
    assert order[0] == "put /app /app/setup.sh"
    assert order[1:3] == ["exec ./setup.sh", "exec test -f made.txt"]


def test_a_set_up_that_fails_before_any_agent_is_an_error(steps: Run) -> None:
    broken = TWO[0].model_copy(update={"setup": "echo broken; exit 3"})
    result = steps(steps=(broken, TWO[1]))
    assert _kind(result) == ("error", "environment", None)
    why = ["it was broken off", "an earlier step was broken off"]
    assert [one.not_run for one in result.steps] == why


def test_a_set_up_that_an_agent_prevents_is_its_failure_and_earlier_steps_keep_their_score(
    bench: Bench, steps: Run
) -> None:
    needs = TWO[1].model_copy(update={"setup": "test ! -e in-the-way"})
    result = steps("command:echo 1 >> out.txt; touch in-the-way", steps=(TWO[0], needs))
    assert _kind(result) == ("failed", "ungradable", 0.5)
    assert result.steps[0].score == 1.0
    assert "what the agent left prevents the set-up" in str(result.steps[1].not_run)
    assert bench.provider.calls.count("exec test ! -e in-the-way") == 2
    flaky = TWO[1].model_copy(update={"setup": "test -e ../twice || { touch ../twice; exit 1; }"})
    assert _kind(steps(steps=(TWO[0], flaky))) == PASSED
    blocks = Reference(script="echo 1 >> out.txt; touch in-the-way")
    oracle = (
        TWO[0].model_copy(update={"reference": blocks}),
        SOLVED[1].model_copy(update={"setup": needs.setup}),
    )
    assert _kind(steps("oracle", steps=oracle)) == ("error", "environment", None)


def test_the_oracle_has_a_reference_for_each_step_and_nop_does_nothing(steps: Run) -> None:
    assert _kind(steps("oracle", steps=SOLVED)) == PASSED
    result = steps("nop", steps=SOLVED)
    assert _kind(result) == ("failed", "below_threshold", 0.25)
    assert told(result) == [("first", 0.25, None), ("second", 0.25, None)]
    half = (SOLVED[0], TWO[1])
    assert not trial_of(half).scenario.has_reference
    assert _kind(steps("oracle", steps=half)) == ("error", "agent_setup", None)


def trial_of(steps: tuple[Step, ...], **changes: Any) -> Any:
    base = trial()
    values = {**dict(base.scenario), "steps": steps, "scorers": OF_TWO, **changes}
    return base.model_copy(update={"scenario": Scenario.model_validate(values)})


def test_a_timeout_of_one_step_fails_the_trial_and_independent_steps_go_on(steps: Run) -> None:
    slow = step("first", "echo 1 >> out.txt; sleep 60", agent_timeout=0.5)
    result = steps(steps=(slow, TWO[1]))
    assert _kind(result) == ("failed", "agent_timeout", 1.0)
    assert _failure(result).message == "step first: the agent did not end within 0.5 s"
    assert [one.score for one in result.steps] == [1.0, 1.0]
    assert result.agent_end is not None
    assert result.agent_end.timed_out


def test_a_scorer_that_breaks_makes_the_trial_an_error_and_nothing_follows(steps: Run) -> None:
    result = steps("oracle", steps=SOLVED, scorers=(graded("first", "exit 3"), OF_TWO[1]))
    assert _kind(result) == ("error", "scorer_crashed", None)
    assert told(result) == [("first", None, None), ("second", None, "step first: a scorer broke")]


def test_an_error_in_a_later_step_starts_the_whole_trial_anew(bench: Bench, steps: Run) -> None:
    bench.config["retry_errors"] = 1
    script = FOLLOWS.removeprefix("command:")
    bench.provider.faults[f"exec {script}"] = [None, EngineLost("gone")]
    result = steps()
    assert (result.tries, _kind(result)) == (2, PASSED)
    directory = bench.directory(result)
    assert (directory / "try-1" / "steps" / "first" / "agent.log").exists()
    assert (directory / "try-1" / "failure.json").exists()
    assert told(result) == [("first", 1.0, None), ("second", 1.0, None)]


def test_what_keeps_an_agent_from_going_on_is_its_own_doing(bench: Bench, steps: Run) -> None:
    calls: list[int] = []

    def in_the_way(sandbox: Any, files: Any) -> None:
        if any(file.path == "/bench/problem.md" for file in files):
            calls.append(1)
            if len(calls) != 2:  # the second is in an untouched sandbox
                raise FilesRefused("in the way")
        sandbox.put(files)

    bench.provider.faults["put"] = in_the_way
    result = steps()
    assert _kind(result) == ("failed", "ungradable", 0.5)
    assert result.steps[1].not_run is not None


def test_files_of_a_step_that_go_into_no_container_are_not_the_agents_fault(
    bench: Bench, steps: Run, tmp_path: Path
) -> None:
    def full(sandbox: Any, files: Any) -> None:
        if any(file.source == tmp_path for file in files):
            raise EnvironmentFailed("no space")
        sandbox.put(files)

    bench.provider.faults["put"] = full
    assert _kind(steps(steps=(TWO[0], step("second", "true", files=tmp_path)))) == (
        "error",
        "environment",
        None,
    )


def test_processes_of_a_step_end_before_it_is_graded(bench: Bench, steps: Run) -> None:
    steps("command:(sleep 30; echo late >> out.txt) >/dev/null 2>&1 & echo 1 >> out.txt")
    calls = bench.provider.calls
    assert calls.count("end_commands") >= 2
    assert calls.index("end_commands") < calls.index(f"exec {OF_TWO[0].script}")


def test_artifacts_of_a_step_are_kept_with_it(bench: Bench, steps: Run) -> None:
    first = TWO[0].model_copy(update={"artifacts": (ArtifactSpec(source="out.txt"),)})
    result = steps(steps=(first, TWO[1]), artifacts=(ArtifactSpec(source="*.txt", destination="all"),))
    directory = bench.directory(result)
    assert result.steps[0].artifacts == ("all/out.txt", "out.txt")
    assert result.steps[1].artifacts == ("all/out.txt",)
    assert (directory / "steps/first/artifacts/out.txt").read_text() == "1\n"
    assert (directory / "steps/second/artifacts/all/out.txt").read_text() == "1\n2\n"
    assert result.artifacts == ()


def test_a_step_may_be_graded_in_a_container_of_its_own(bench: Bench, steps: Run) -> None:
    fresh = FreshContainer(paths=(CarriedPath(source="out.txt"),))
    first = TWO[0].model_copy(update={"fresh_container": fresh})
    marks = graded("first", "touch seen; test $(cat out.txt | wc -l) -eq 1 && echo 1 || echo 0")
    looks = step("second", "ls; echo 2 >> out.txt")
    result = steps(steps=(first, looks), scorers=(marks, OF_TWO[1]))
    assert _kind(result) == PASSED, result.failure
    assert (bench.directory(result) / "steps/second/agent.log").read_text() == "out.txt\n"
    assert bench.provider.calls.count("start") == 2


def test_secrets_are_replaced_in_the_files_of_every_step(bench: Bench, steps: Run) -> None:
    bench.secrets = {"MY_TOKEN": SECRET}
    first = TWO[0].model_copy(update={"artifacts": (ArtifactSpec(source="leak.txt"),)})
    result = steps('command:echo "$MY_TOKEN" | tee leak.txt; echo 1 >> out.txt', steps=(first, TWO[1]))
    assert SECRET not in bench.everything_written()
    assert (bench.directory(result) / "steps/first/artifacts/leak.txt").exists()


def test_a_confidential_trial_quotes_no_step(steps: Run) -> None:
    missed = TWO[0].model_copy(update={"least": {"reward": 2.0}})
    result = steps(steps=(missed, TWO[1]), confidential=True)
    assert result.steps[1].not_run == "(confidential)"


# Keeping and grading again


def test_the_state_after_each_step_is_kept_and_dropped_with_the_others(
    bench: Bench, steps: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHJOBS_FAKE_KEPT", str(tmp_path / "kept"))
    bench.config["keep"] = Keep.ALWAYS
    result = steps()
    first, second = (one.kept for one in result.steps)
    assert first is not None
    assert second == result.kept != first
    assert set(with_earlier_steps(str(result.kept))) == {first, second}
    bench.config["keep"] = Keep.FAILED
    dropped = steps()
    assert (dropped.kept, [one.kept for one in dropped.steps]) == (None, [None, None])


def test_names_of_what_is_kept() -> None:
    assert kept_name("job", "a::b[c]") == kept_name("job", "a::b[c]")
    assert [*with_earlier_steps(f"kept:{kept_name('job', 'x', 3)}")] == [
        f"kept:{kept_name('job', 'x', number)}" for number in (3, 1, 2)
    ]
    assert [*with_earlier_steps("kept:job-abc")] == ["kept:job-abc"]


# Input


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"scorers": OF_TWO[:1]}, "each scorer grades one step"),
        ({"steps": (TWO[0], TWO[0])}, "two steps have the same name"),
        ({"steps": tuple(one.model_copy(update={"weight": 0.0}) for one in TWO)}, "no step has a weight"),
    ],
)  # fmt: skip
def test_steps_fit_together(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        trial_of(TWO, **changes) if "steps" not in changes else trial_of(**changes)


def test_steps_are_part_of_the_signature(bench: Bench) -> None:
    from pytest_benchjobs.agents.builtin import Command

    config = JobConfig(directory=bench.root)

    def parts(*steps: Step, **changes: Any) -> dict[str, str]:
        one = trial_of(steps, **changes)
        return parts_of(one, config, Command(), (None,), builtin_scorers(), {})

    base = parts(*TWO)

    def changed(*steps: Step, **changes: Any) -> list[str]:
        now = parts(*steps, **changes)
        return [name for name in base if base[name] != now[name]]

    assert changed(TWO[0], step("second", "echo 3")) == ["scenario"]
    assert changed(TWO[0], TWO[1].model_copy(update={"setup": "true"})) == ["scenario"]
    assert changed(TWO[0], TWO[1].model_copy(update={"least": {"reward": 1.0}})) == ["scorers"]
    assert changed(TWO[0], TWO[1].model_copy(update={"agent_timeout": 5.0})) == ["limits"]
    assert changed(*TWO, step_score=StepScore.FINAL) == ["scorers"]
