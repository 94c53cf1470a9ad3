"""Questions: trials without a container, from the agent to the score, and graded anew."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.agents.builtin import builtin_agents
from pytest_benchjobs.agents.protocol import AgentCall, AgentCommand, Shell
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.errors import EngineUnavailable
from pytest_benchjobs.model.job import JobConfig, Keep
from pytest_benchjobs.model.result import Outcome, Trial, TrialResult
from pytest_benchjobs.model.scenario import (
    Answer,
    ArtifactSpec,
    Environment,
    HealthCheck,
    Scenario,
    ScorerSpec,
)
from pytest_benchjobs.scoring.answering import ANSWER_LIMIT
from pytest_benchjobs.scoring.builtin import builtin_scorers
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.testing import FakeProvider
from pytest_benchjobs.trial.answering import KEPT, is_question
from pytest_benchjobs.trial.cancellation import Cancellation
from pytest_benchjobs.trial.prepare import Services
from pytest_benchjobs.trial.run import run_trial

from .records import OWNER, record, trial

RIGHT = ScorerSpec(
    name="answer", type="answer", params={"match": "integer", "expected": 42, "least": 0, "most": 999}
)
BASH = ScorerSpec(name="file", type="bash", script='test "$(cat answer.txt)" = 42 && echo 1 || echo 0')


@dataclasses.dataclass
class Says:
    """An agent that answers with a text; None: with nothing."""

    text: bytes | None
    command: str | None = None
    name: str = "says"
    needs_model: bool = False
    trusted: bool = False

    def answers(self, params: Mapping[str, Any]) -> bool:
        return not params.get("container")

    def prepare(self, call: AgentCall) -> AgentCommand:
        assert call.scenario.answer is not None
        file = call.scenario.answer.file

        def work(shell: Shell) -> int:
            if self.command is not None:
                shell.run(self.command, 5)
            if self.text is not None:
                shell.write(file, self.text)
            return 0

        return AgentCommand(argv=(), identity=str(self.text), host=work)


class NoEngine(FakeProvider):
    problem = EngineUnavailable("no engine answers")


@dataclasses.dataclass
class Bench:
    root: Path
    bundle: JobBundle
    provider: FakeProvider = dataclasses.field(default_factory=lambda: NoEngine(OWNER))
    config: dict[str, Any] = dataclasses.field(default_factory=dict)

    def trial(self, agent: str, **changes: Any) -> Trial:
        base = trial(agent="oracle")
        fields = {"scorers": (RIGHT,), "answer": Answer(reference="42"), **changes}
        scenario = Scenario.model_validate({**dict(base.scenario), **fields})
        return base.model_copy(update={"agent": AgentSpec.parse(agent), "scenario": scenario})

    def in_another_job(self, number: int) -> None:
        self.bundle = JobBundle.create(self.root, record(self.root, id=f"20261121-05471{number}-000000"))

    def run(
        self, agent: str | Says = "oracle", original: TrialResult | None = None, **changes: Any
    ) -> TrialResult:
        agents: list[Any] = [*builtin_agents(), *([] if isinstance(agent, str) else [agent])]
        services = Services(
            config=JobConfig(directory=self.root, **self.config),
            bundle=self.bundle,
            provider=self.provider,
            agents={agent.name: agent for agent in agents},
            scorers=builtin_scorers(),
        )
        one = self.trial(agent if isinstance(agent, str) else agent.name, **changes)
        return run_trial(one, services, Cancellation(), original=original)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr("pytest_benchjobs.trial.run._RETRY_PAUSE", 0.0)
    return Bench(tmp_path, JobBundle.create(tmp_path, record(tmp_path)))


def about(result: TrialResult) -> Any:
    return result.scorers[0].details["answer"]


def failed(result: TrialResult) -> tuple[Outcome, str, str]:
    """Its outcome, and the class and message of its failure."""
    assert result.failure is not None
    return result.outcome, result.failure.class_, result.failure.message


def test_oracle_answers_right_and_nop_not_at_all_where_there_is_no_engine(bench: Bench) -> None:
    right, nothing = bench.run("oracle"), bench.run("nop")
    assert (right.outcome, right.score, right.image) == (Outcome.PASSED, 1.0, None)
    assert (nothing.outcome, nothing.score) == (Outcome.FAILED, 0.0)
    assert (about(right), about(nothing)) == ("it is right", "the agent left no answer")
    assert [phase.name for phase in right.phases] == ["prepare", "agent", "end", "score:answer"]


@pytest.mark.parametrize(
    ("text", "score", "said"),
    [
        (b"I think:\nANSWER: 42", 1.0, "it is right"),
        (b"ANSWER: 41", 0.0, "it is not equal"),
        (b"ANSWER: 4200", 0.0, "it is out of range"),
        (b"", 0.0, "it has no integer after ANSWER:"),
        (b"42\0", 0.0, "the answer is not text"),
        (b"\xff42", 0.0, "it has no integer after ANSWER:"),
        (b"4" * (ANSWER_LIMIT + 1), 0.0, "the answer is longer than 4 MiB"),
        (None, 0.0, "the agent left no answer"),
    ],
)
def test_a_reply_is_graded_on_this_machine(bench: Bench, text: bytes | None, score: float, said: str) -> None:
    result = bench.run(Says(text))
    assert (result.score, about(result)) == (score, said)
    assert (result.outcome is Outcome.PASSED) == (score == 1)


@pytest.mark.parametrize("text", [b"ANSWER: 7131", b"ANSWER: 7132"])
def test_neither_the_answer_nor_the_reference_is_in_a_result(bench: Bench, text: bytes) -> None:
    scorer = RIGHT.model_copy(update={"params": {"match": "integer", "expected": 7131}})
    result = bench.run(Says(text), scorers=(scorer,), answer=Answer(reference="7131"))
    assert "713" not in json.dumps([one.model_dump(exclude={"seconds"}) for one in result.scorers])


@pytest.mark.parametrize("official", [None, "simple-evals"])
def test_the_rule_by_which_a_reply_is_read_counts_for_reuse_and_not_in_comparisons(
    bench: Bench, official: str | None
) -> None:
    params = {"match": "choice", "expected": "C"}
    choice = ScorerSpec(
        name="answer", type="answer", params=params | ({"official": official} if official else {})
    )
    lenient = RIGHT.model_copy(update={"params": params})
    result = bench.run(Says(b"**Answer:** C"), scorers=(choice,), answer=Answer(reference="C"))
    assert (result.score, result.scorers[0].details["reading"]) == (
        (0, official) if official else (1, "lenient 1")
    )
    again = bench.run(Says(b"**Answer:** C"), scorers=(lenient,), answer=Answer(reference="C"))
    assert result.signature is not None
    assert again.signature is not None
    assert result.signature.parts["reading"] == (official or "lenient 1")
    assert result.signature.comparable == again.signature.comparable
    assert (result.signature.value == again.signature.value) == (official is None)
    # Of an earlier version.
    parts = {name: digest for name, digest in again.signature.parts.items() if name != "reading"}
    assert again.signature.model_copy(update={"parts": parts}).comparable == again.signature.comparable
    # The reference is a file, and so is read as one.
    assert bench.run("oracle", scorers=(choice,), answer=Answer(reference="C")).score == 1


def test_a_broken_reference_is_an_error_with_and_without_an_answer(bench: Bench) -> None:
    broken = RIGHT.model_copy(update={"params": {"match": "integer", "expected": "many"}})
    for agent in ("nop", "oracle", Says(b"42")):
        assert failed(bench.run(agent, scorers=(broken,)))[:2] == (Outcome.ERROR, "score_invalid")


@pytest.mark.parametrize(("questions", "seconds"), [((), 600.0), (("a", "b", "c", "d"), 2400.0)])
def test_time_is_for_each_question(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, questions: tuple[str, ...], seconds: float
) -> None:
    clock = [0.0]
    monkeypatch.setattr("pytest_benchjobs.trial.run_agent.time", SimpleNamespace(monotonic=lambda: clock[0]))
    stopped: list[bool] = []

    class Waits(Says):
        def prepare(self, call: AgentCall) -> AgentCommand:
            def work(shell: Shell) -> int:
                for now in (seconds - 1, seconds + 1):
                    clock[0] = now
                    stopped.append(shell.stopped)
                return 0

            return AgentCommand(argv=(), identity="waits", host=work)

    answer = Answer(reference="42", questions=questions)
    result = bench.run(Waits(None), answer=answer, agent_timeout=600.0)
    assert stopped == [False, True]
    assert failed(result)[1] == "agent_timeout"


def test_an_agent_that_runs_a_command_is_refused(bench: Bench) -> None:
    *ends, message = failed(bench.run(Says(b"42", command="ls")))
    assert ends == [Outcome.ERROR, "agent_setup"]
    assert "answered without a container" in message


@pytest.mark.parametrize(
    "changes",
    [
        {"answer": Answer(reference="42", needs_container=True)},
        {"files": {"data.txt": Path("data.txt")}},
        {"artifacts": (ArtifactSpec(source="x"),)},
        {"environment": Environment(image="debian", setup=("true",))},
        {"environment": Environment(image="debian", healthcheck=HealthCheck(command="true"))},
        {"scorers": (RIGHT, BASH)},
        {"answer": None},
    ],
)
def test_what_needs_more_than_an_answer_needs_a_container(bench: Bench, changes: dict[str, Any]) -> None:
    one = bench.trial("oracle", **changes)
    agents = {agent.name: agent for agent in builtin_agents()}
    config = JobConfig(directory=bench.root)
    assert not is_question(one, config, agents, builtin_scorers())
    assert is_question(bench.trial("oracle"), config, agents, builtin_scorers())
    assert not is_question(bench.trial("command:true"), config, agents, builtin_scorers())
    assert not is_question(bench.trial("nobody"), config, agents, builtin_scorers())


@pytest.mark.parametrize(
    ("params", "expected"),
    [({}, True), ({"tools": False}, True), ({"tools": True}, False), ({"tools": "what"}, False)],
)
def test_the_model_agent_answers_unless_it_is_to_have_tools(
    bench: Bench, params: dict[str, Any], expected: bool
) -> None:
    config = JobConfig(directory=bench.root, params=params)
    agents = {agent.name: agent for agent in builtin_agents()}
    assert is_question(bench.trial("model:m"), config, agents, builtin_scorers()) is expected


@pytest.mark.parametrize(
    ("command", "score"),
    [
        ("echo 42 > answer.txt", 1.0),
        ("echo 'ANSWER: 42' > answer.txt", 0.0),  # of a file all counts
        ("echo 41 > answer.txt", 0.0),
        ("true", 0.0),
        ("mkdir answer.txt", 0.0),
        ("head -c 5000000 /dev/zero > answer.txt", 0.0),
    ],
)
def test_another_agent_works_in_a_container_and_its_file_is_graded(
    bench: Bench, command: str, score: float
) -> None:
    bench.provider = FakeProvider(OWNER)
    result = bench.run(f"command:{command}")
    assert (result.score, result.image is None) == (score, False)


def test_who_works_in_a_container_is_told_where_to_write(bench: Bench) -> None:
    bench.provider = FakeProvider(OWNER)
    answer = Answer(file="out/42.txt", instruction="Write it to {file}. {x}", reference="42")
    tell = "command:mkdir out; tail -1 $BENCH_PROBLEM_FILE | grep -qxF 'Write it to out/42.txt. {x}' && echo 42 > out/42.txt"
    assert bench.run(tell, answer=answer).score == 1
    seen: list[str] = []

    class Asks(Says):
        def prepare(self, call: AgentCall) -> AgentCommand:
            seen.append(call.scenario.problem_statement)
            return super().prepare(call)

    bench.run(Asks(b"42"), answer=answer)
    bench.config["params"] = {"container": True}
    bench.run(Asks(b"42"), answer=answer)
    assert seen == ["Count.", "Count.\n\nWrite it to out/42.txt. {x}"]


def test_scorers_that_need_a_container_grade_in_one(bench: Bench) -> None:
    bench.provider = FakeProvider(OWNER)
    result = bench.run("oracle", scorers=(RIGHT, BASH))
    assert [one.score for one in result.scorers] == [1.0, 1.0]


def test_a_bare_model_and_an_agent_in_a_container_are_compared(bench: Bench) -> None:
    alone = bench.run("oracle").signature
    bench.provider = FakeProvider(OWNER)
    inside = bench.run("command:echo 42 > answer.txt").signature
    assert alone is not None
    assert inside is not None
    assert alone.comparable == inside.comparable
    assert alone.value != inside.value


@pytest.mark.parametrize("keep", list(Keep))
def test_an_answer_is_always_kept_and_can_be_graded_anew(bench: Bench, keep: Keep) -> None:
    bench.config["keep"] = keep
    first = bench.run(Says(b"ANSWER: 42"))
    assert first.kept == KEPT
    assert (bench.bundle.root / first.path / "answer.txt").read_text() == "ANSWER: 42"
    other = RIGHT.model_copy(update={"params": {"match": "integer", "expected": 41}})
    bench.in_another_job(1)
    again = bench.run(Says(None), original=first, scorers=(other,))
    assert (again.score, again.kept, again.outcome) == (0.0, KEPT, Outcome.FAILED)
    bench.in_another_job(2)
    third = bench.run(Says(None), original=again)
    assert (third.score, third.kept) == (1.0, KEPT)
    (bench.root / "jobs" / again.job / again.path / "answer.txt").unlink()
    bench.in_another_job(3)
    assert failed(bench.run(Says(None), original=again))[:2] == (Outcome.SKIPPED, "not_kept")


def test_nothing_is_kept_where_nothing_was_answered(bench: Bench) -> None:
    assert bench.run("nop").kept is None


def test_oracle_needs_an_answer_or_a_reference(bench: Bench) -> None:
    assert "has no reference solution" in failed(bench.run("oracle", answer=Answer()))[2]
