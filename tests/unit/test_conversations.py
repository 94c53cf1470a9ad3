"""Turns of a conversation: replies are checked, effects too, and nothing is earned that was not done."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.agents.described import DescribedAgent
from pytest_benchjobs.agents.description import Description
from pytest_benchjobs.agents.protocol import (
    AgentCall,
    AgentCommand,
    AgentReading,
    Conversation,
    DrivenShell,
    Exchange,
)
from pytest_benchjobs.model.errors import InputErrors
from pytest_benchjobs.model.job import Keep
from pytest_benchjobs.model.result import TrialResult
from pytest_benchjobs.model.scenario import TURN, GradeIn
from pytest_benchjobs.sources.manifest import Manifest
from pytest_benchjobs.trial.prepare import retold
from pytest_benchjobs.trial.run import run_trial

from .test_trial import SECRET, Bench, _kind
from .test_trial import bench as bench

TWO = [
    {
        "message": "Write 1.",
        "expect": ["done", {"command": "grep -q 1 out.txt"}],
        "forbid": "sorry",
        "reply": "Done.",
        "reference": "echo 1 > out.txt",
    },
    {"message": "What did you write?", "expect": {"matches": r"\b(1|one)\b"}, "reply": "One."},
]

Run = Callable[..., TrialResult]


def manifest(directory: Path, turns: Any = TWO, **scenario: Any) -> Manifest:
    path = directory / "talk.bench.yaml"
    one = {"id": "talk", "turns": turns, **scenario}
    path.write_text(
        json.dumps(
            {"benchmark": "talks", "defaults": {"image": "none", "workdir": "/app"}, "scenarios": [one]}
        )
    )
    return Manifest(path)


@pytest.fixture
def talk(bench: Bench, tmp_path: Path) -> Run:
    def run(agent: str = "oracle", turns: Any = TWO, **scenario: Any) -> TrialResult:
        loaded = manifest(tmp_path, turns, **scenario).load("talk")
        changes = {name: value for name, value in loaded if name not in ("id", "benchmark", "environment")}
        return bench.run(agent, **changes)

    return run


def replying(*replies: str) -> str:
    """An agent that prints one reply after the other, and does nothing else."""
    script = "".join(f"{number}) printf '%s' '{text}';;" for number, text in enumerate(replies, 1))
    return f"command:echo x >> ../turns; case $(cat ../turns | wc -l) in {script} esac"


# Manifests


def test_turns_become_steps_of_a_conversation(tmp_path: Path) -> None:
    source = manifest(tmp_path, category="basics", tags=["t"], problem_statement="You are a clerk.")
    (ref,) = source.refs()
    assert (ref.tags, ref.scorers) == (("t", "basics"), (TURN,))
    scenario = source.load("talk")
    first, second = scenario.steps
    assert (first.name, second.name) == ("turn-1", "turn-2")
    assert first.instruction == "You are a clerk.\n\nWrite 1."
    assert second.instruction == "What did you write?"
    assert first.continues
    assert second.continues
    assert [(spec.name, spec.type, spec.weight) for spec in scenario.scorers] == [
        ("turn-1", TURN, 3.0),
        ("turn-2", TURN, 1.0),
    ]
    assert scenario.scorers[0].params == {
        "expect": [{"contains": "done"}, {"command": "grep -q 1 out.txt"}],
        "forbid": [{"contains": "sorry"}],
    }
    assert scenario.category == "basics"
    assert scenario.has_reference
    assert scenario.problem_statement == "You are a clerk.\n\n[user] Write 1.\n\n[user] What did you write?"


def test_what_others_say_comes_with_the_next_message_of_the_user(tmp_path: Path) -> None:
    turns = [
        {"actor": "system", "message": "It is Monday."},
        {"message": "Plan it.", "expect": "ok"},
        {"actor": "boss", "message": "Faster!"},
        {"actor": "boss", "message": "Now!"},
        {"message": "Well?", "timeout": 5},
    ]
    first, second = manifest(tmp_path, turns).load("talk").steps
    assert first.instruction == "[system] It is Monday.\n\nPlan it."
    assert second.instruction == "[boss] Faster!\n\n[boss] Now!\n\nWell?"
    assert (second.scorers, second.weight, second.agent_timeout) == ((), 0.0, 5.0)


@pytest.mark.parametrize(
    ("turns", "scenario", "wrong"),
    [
        ([{"message": "Hi."}], {}, "turns: no turn has a check, so there is nothing to score"),
        ([], {}, "turns: is empty"),
        ([{"message": "Hi.", "expect": " "}], {}, "expect"),
        ([{"message": "Hi.", "expect": {"matches": "("}}], {}, "is not a valid regular expression"),
        ([{"message": "Hi.", "expect": {"contains": "a", "command": "b"}}], {}, "a check is a text"),
        ([{"message": "Hi.", "expect": {"says": "a"}}], {}, "says"),
        ([{"message": "Hi.", "expect": {}}], {}, "a check is a text"),
        ([{"expect": "a"}], {}, "message"),
        ([*TWO, {"actor": "boss", "message": "Bye."}], {}, "a turn of the user has to follow"),
        ([{"actor": "boss", "message": "x", "expect": "y"}, *TWO], {}, "only a turn of the user has this"),
        ([{"actor": "assistant", "message": "x"}, *TWO], {}, "replies are the agent's own"),
        (TWO, {"feedback": {"statement": "x"}}, "feedback: does not go with turns"),
        (TWO, {"answer": {}}, "answer: does not go with turns"),
        (TWO, {"reference": "true"}, "reference: does not go with turns"),
        (TWO, {"fresh_container": {"patch": True}}, "fresh_container: does not go with turns"),
        (TWO, {"mode": "lenient"}, "mode"),
        (TWO, {"scorers": [{"type": "turn", "params": {"expect": ["a"]}}]}, "is for turns of a conversation"),
        (TWO, {"scorers": [{"name": "turn-1", "type": "command", "command": "true"}]}, "'turn-1' is the name of a turn"),
    ],
)  # fmt: skip
def test_mistakes_in_turns(turns: Any, scenario: dict[str, Any], wrong: str, tmp_path: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        manifest(tmp_path, turns, **scenario).refs()
    assert any(wrong in str(error) for error in caught.value.errors), caught.value.errors
    assert all(error.line is not None for error in caught.value.errors)


def test_a_mode_without_turns_is_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "a.bench.yaml"
    path.write_text(
        "benchmark: a\nscenarios:\n  - {id: b, image: none, problem_statement: x, mode: strict, "
        "scorers: [{type: command, command: 'true'}]}\n"
    )
    with pytest.raises(InputErrors, match="mode: has no effect without turns"):
        Manifest(path).refs()


def test_scorers_grade_after_the_last_turn(talk: Run) -> None:
    scorers = [{"name": "left", "type": "command", "command": "test -f out.txt", "weight": 4}]
    assert _kind(talk(scorers=scorers)) == ("passed", None, 1.0)
    result = talk(replying("done", "one"), scorers=scorers)
    assert [one.name for one in result.scorers] == ["turn-1", "turn-2", "left"]
    # 2 of 3 checks, 1 of 1, and a scorer that counts as four checks.
    assert result.score == pytest.approx(3 / 8)
    only = talk("command:touch out.txt", turns=[{"message": "Do."}], scorers=scorers)
    assert _kind(only) == ("passed", None, 1.0)
    assert [one.name for one in only.scorers] == ["left"]


# Scores


def test_the_oracle_is_right_and_nop_earns_nothing(talk: Run) -> None:
    result = talk("oracle")
    assert _kind(result) == ("passed", None, 1.0)
    assert [(one.name, one.score) for one in result.steps] == [("turn-1", 1.0), ("turn-2", 1.0)]
    nothing = talk("nop")
    assert _kind(nothing) == ("failed", "below_threshold", 0.0)
    assert nothing.scorers[0].details["satisfied"] == 0
    assert nothing.scorers[0].details["forbidden"] == []


@pytest.mark.parametrize(
    ("keys", "containers", "place"),
    [({}, 2, GradeIn.FRESH), ({"grade_in": "agent_container"}, 1, GradeIn.AGENT_CONTAINER)],
)
def test_only_a_turn_with_checks_that_run_commands_has_a_fresh_container(
    talk: Run, bench: Bench, keys: dict[str, Any], containers: int, place: GradeIn
) -> None:
    result = talk(**keys)
    assert (_kind(result), result.graded_in) == (("passed", None, 1.0), place)
    assert bench.provider.calls.count("start") == containers
    talk(turns=TWO[1:], **keys)
    assert bench.provider.calls.count("start") == containers + 1


def test_the_score_is_the_share_of_satisfied_checks(talk: Run, bench: Bench) -> None:
    result = talk(replying("  DONE\n it is", "I wrote one"), threshold=0.75)
    assert _kind(result) == ("passed", None, 0.75)
    assert result.scorers[0].details["missed"] == ["expect: command grep -q 1 out.txt"]
    directory = bench.directory(result)
    assert (directory / "steps/turn-1/reply.txt").read_text() == "DONE\n it is"
    assert talk(replying("done", "nine"), threshold=0.75).score == 0.5


def test_a_forbidden_behaviour_fails_a_strict_trial_and_not_a_diagnostic_one(talk: Run) -> None:
    agent = "command:echo 1 > out.txt; echo done, sorry, one"
    result = talk(agent, threshold=0.5)
    assert _kind(result) == ("failed", "forbidden", 0.75)
    assert result.failure is not None
    assert result.failure.message == "turn-1: the agent did what is forbidden: contains sorry"
    measured = talk(agent, mode="diagnostic")
    assert _kind(measured) == ("passed", None, 0.75)
    assert measured.threshold == 0.0
    assert measured.scorers[0].details["forbidden"] == ["contains sorry"]
    assert _kind(talk("nop", mode="diagnostic")) == ("passed", None, 0.0)
    assert _kind(talk("command:exit 3", mode="diagnostic"))[:2] == ("failed", "agent_crashed")


KEEP = [{"message": "Keep a.txt.", "expect": "ok", "forbid": {"command": "test ! -e a.txt"}}]
SAY = [{"message": "Say done.", "expect": "done", "forbid": "sorry"}]
MAKE = [{"message": "Make a.txt.", "expect": {"command": "test -f a.txt"}}]
NO_PROGRAM = {"command": "no-such-program"}
WORDS = [{"message": "a", "expect": "alpha"}, {"message": "b", "expect": "beta"}]
TICKING = [
    {"message": "a", "expect": "started"},
    {"message": "b", "expect": "looked", "forbid": {"command": "test -f ticking"}},
]
LATE = (
    "command:if test -f begun; then sleep 0.6; echo looked; else touch begun; "
    "(sleep 0.4; touch ticking) >/dev/null 2>&1 & echo started; fi"
)
PASSED, MISSED = ("passed", None, 1.0), ("failed", "below_threshold", 0.0)


@pytest.mark.parametrize(
    ("agent", "turns", "kind"),
    [
        # Forbidden effects are found.
        ("command:echo ok; echo a > a.txt", KEEP, PASSED),
        ("command:echo ok; rm -f a.txt", KEEP, ("failed", "forbidden", 0.5)),
        # Silence, crashes and files earn nothing.
        ("command:true", SAY, MISSED),
        ("command:echo done, one; exit 1", SAY, ("failed", "agent_crashed", 0.0)),
        ("command:echo done, one; sleep 60", SAY, ("failed", "agent_timeout", 0.0)),
        ("command:echo done, one >&2", SAY, MISSED),
        ("command:for f in reply.txt ../reply.txt steps answer.txt; do echo done one > $f; done", SAY, MISSED),
        # A turn can be earned by its effect alone.
        ("command:touch a.txt", MAKE, PASSED),
        ("command:echo hi", [{"message": "x", "expect": NO_PROGRAM, "forbid": NO_PROGRAM}], MISSED),
        # What one turn says is no reply of another, and no process of one turn lives in the next.
        (replying("alpha beta", "nothing"), WORDS, ("failed", "below_threshold", 0.5)),
        (replying("nothing", "alpha beta"), WORDS, ("failed", "below_threshold", 0.5)),
        (LATE, TICKING, PASSED),
    ],
)  # fmt: skip
def test_what_a_turn_earns(agent: str, turns: Any, kind: object, talk: Run) -> None:
    assert _kind(talk(agent, turns, agent_timeout=1 if turns is SAY else 60)) == kind


def test_a_conversation_that_is_broken_off_ends_and_the_rest_counts(talk: Run) -> None:
    result = talk("command:echo 1 > out.txt; echo done; exit 1")
    assert _kind(result)[:2] == ("failed", "agent_crashed")
    assert result.score == 0.0
    assert [one.not_run for one in result.steps] == [None, "step turn-1: the agent did not end by itself"]


def test_replies_are_redacted(talk: Run, bench: Bench) -> None:
    bench.secrets = {"MY_TOKEN": SECRET}
    talk('command:echo "done $MY_TOKEN"')
    assert SECRET not in bench.everything_written()


def test_turns_are_graded_again_with_their_replies_and_states(
    talk: Run, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHJOBS_FAKE_KEPT", str(tmp_path / "kept"))
    bench.config["keep"] = Keep.ALWAYS
    before = talk("command:echo 1 > out.txt; echo done one sorry")
    assert before.score == 0.75
    original = bench.bundle.root / before.path
    assert (original / "steps/turn-1/reply.txt").exists()
    seen: list[TrialResult] = []

    def again(one: Any, services: Any, cancellation: Any) -> TrialResult:
        seen.append(run_trial(one, services, cancellation, original=before))
        return seen[-1]

    monkeypatch.setattr("tests.unit.test_trial.run_trial", again)
    kinder = [{**TWO[0], "forbid": "dear me"}, TWO[1]]
    result = talk("command:echo 1 > out.txt; echo done one sorry", kinder)
    assert _kind(result) == ("passed", None, 1.0), result.failure
    assert result.rescored is not None
    assert [one.score for one in result.steps] == [1.0, 1.0]


# Continuing


def test_an_agent_that_cannot_resume_is_told_the_conversation(talk: Run, bench: Bench) -> None:
    result = talk("command:cat $BENCH_PROBLEM_FILE >&2; echo done, one")
    log = (bench.directory(result) / "steps/turn-2/agent.log").read_text()
    assert "This is a conversation of several turns." in log
    assert "## Turn 1: the user\n\nWrite 1.\n\n## Turn 1: you\n\ndone, one\n" in log
    assert "# The new message of the user\n\nWhat did you write?" in log
    first = (bench.directory(result) / "steps/turn-1/agent.log").read_text()
    assert "Write 1." in first
    assert "conversation" not in first


def test_a_long_conversation_is_told_from_its_end() -> None:
    exchanges = [Exchange(f"message {number}", "x" * 19_000) for number in range(20)]
    text = retold(Conversation(exchanges), "And?")
    assert len(text) < 220_000
    assert "message 19" in text
    assert "message 0\n" not in text
    assert "(earlier turns are left out)" in text
    assert retold(Conversation(), "Hi.") == "Hi."


class Python:
    """An agent in Python that answers with what it knows of the conversation."""

    name, needs_model, trusted, resumes = "py", False, False, True

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[tuple[str, str]]]] = []

    def prepare(self, call: AgentCall) -> AgentCommand:
        conversation = call.conversation
        assert conversation is not None

        def work(shell: DrivenShell) -> int:
            said = [(one.message, one.reply) for one in conversation.exchanges]
            self.calls.append((call.scenario.problem_statement, said))
            count = conversation.memory.setdefault("count", 0) + 1
            conversation.memory["count"] = count
            shell.run("echo 1 > out.txt", 10)
            shell.reply("ignored")
            shell.reply(f"done, one; turn {count}")
            return 0

        return AgentCommand(argv=(), host=work, identity="py")


def test_an_agent_in_python_has_the_conversation_and_a_memory(talk: Run, bench: Bench) -> None:
    agent = bench.agents["py"] = Python()
    result = talk("py")
    assert _kind(result) == ("passed", None, 1.0)
    assert agent.calls == [("Write 1.", []), ("What did you write?", [("Write 1.", "done, one; turn 1")])]
    assert (bench.directory(result) / "steps/turn-2/reply.txt").read_text() == "done, one; turn 2"


class Reads:
    """An agent whose log is read: its reply is the last message in it."""

    name, needs_model, trusted = "reads", False, False

    def prepare(self, call: AgentCall) -> AgentCommand:
        assert call.timeout

        def read(log: Path, trajectory: Path) -> AgentReading:
            assert trajectory
            return AgentReading(reply=log.read_text().splitlines()[-1])

        return AgentCommand(argv=("/bin/sh", "-c", "echo done; echo noise; echo one"), read=read)


def test_the_reply_of_an_agent_whose_output_is_known_is_its_last_message(talk: Run, bench: Bench) -> None:
    bench.agents["reads"] = Reads()
    result = talk("reads")
    assert (bench.directory(result) / "steps/turn-1/reply.txt").read_text() == "one"
    assert result.score == 0.5


def described(**changes: Any) -> DescribedAgent:
    values: Mapping[str, Any] = {
        "name": "mine",
        "argv": ("sh", "-c", "cat > {state}/first; echo done"),
        "files": {"config": "x", "deep/config": "y"},
        "conversation": {"argv": ("sh", "-c", "cat {state}/first {state}/config {state}/deep/config; cat")},
        **changes,
    }
    return DescribedAgent("mine", lambda: Description.model_validate(values))


def test_a_described_agent_resumes_with_its_own_call_and_files(talk: Run, bench: Bench) -> None:
    bench.agents["mine"] = described()
    result = talk("mine")
    assert (bench.directory(result) / "steps/turn-2/reply.txt").read_text() == "Write 1.xyWhat did you write?"
    assert described().resumes
    assert not described(conversation=None).resumes
    bench.agents["mine"] = described(
        conversation={"first": ("sh", "-c", "echo first"), "argv": ("sh", "-c", "echo later")}
    )
    result = talk("mine")
    replies = [(bench.directory(result) / f"steps/turn-{turn}/reply.txt").read_text() for turn in (1, 2)]
    assert replies == ["first", "later"]


def test_how_an_agent_resumes_is_part_of_the_signature(talk: Run, bench: Bench) -> None:
    bench.agents["mine"] = described()
    before = talk("mine").signature
    bench.agents["mine"] = described(conversation={"argv": ("sh", "-c", "echo later")})
    after = talk("mine").signature
    assert before is not None
    assert after is not None
    assert [name for name in before.parts if before.parts[name] != after.parts[name]] == ["agent"]
