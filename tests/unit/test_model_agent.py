"""Our own agent, with a model that is a list of answers and a sandbox that is a function."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.agents.completion import CALL_LIMIT
from pytest_benchjobs.agents.conversation import HISTORY_LIMIT, OUTPUT_LIMIT
from pytest_benchjobs.agents.model_agent import ModelAgent
from pytest_benchjobs.agents.protocol import AgentCall, AgentCommand, AgentReading
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.ending import Ending
from pytest_benchjobs.model.endpoint import GATEWAY_URL
from pytest_benchjobs.model.errors import AgentSetupFailed, GatewayLost, InputError
from pytest_benchjobs.model.scenario import Answer, FreshContainer

from .records import trial

USAGE = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 20}}


def calls(*commands: object, name: str = "shell", text: str | None = None) -> dict[str, Any]:
    """An answer that calls the tool. A command that is no text is the arguments as they are."""
    said = [json.dumps({"command": one}) if isinstance(one, str) else one for one in commands]
    made = [
        {"id": f"id-{place}", "type": "function", "function": {"name": name, "arguments": one}}
        for place, one in enumerate(said)
    ]
    return answer({"role": "assistant", "content": text, "tool_calls": made}, "tool_calls")


def says(text: str, finish: str = "stop") -> dict[str, Any]:
    return answer({"role": "assistant", "content": text}, finish)


def answer(message: Any, finish: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": USAGE}


@dataclasses.dataclass
class FakeShell:
    """A sandbox and a gateway. What a model says is given beforehand; the last answer is given for ever."""

    answers: list[Any]
    run_with: Callable[[str], tuple[int | None, str]] = lambda command: (0, f"ran {command}")
    stopped_after: int | None = None
    commands: list[tuple[str, float]] = dataclasses.field(default_factory=list)
    bodies: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    files: dict[str, bytes] = dataclasses.field(default_factory=dict)
    lines: list[str] = dataclasses.field(default_factory=list)

    def run(self, command: str, timeout: float) -> tuple[int | None, str]:
        self.commands.append((command, timeout))
        return self.run_with(command)

    def write(self, path: str, content: bytes) -> None:
        self.files[path] = content

    def post(self, url: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        assert url == f"{GATEWAY_URL['openai']}/chat/completions"
        self.bodies.append(json.loads(json.dumps(body)))
        said = self.answers[min(len(self.bodies), len(self.answers)) - 1]
        if isinstance(said, BaseException):
            raise said
        return said if isinstance(said, tuple) else (200, said)

    def log(self, line: str) -> None:
        assert "\n" not in line
        self.lines.append(line)

    @property
    def stopped(self) -> bool:
        return self.stopped_after is not None and len(self.commands) >= self.stopped_after

    def roles(self, number: int = -1) -> list[str]:
        return [message["role"] for message in self.bodies[number]["messages"]]


def prepared(
    params: Mapping[str, Any] | None = None, model: str = "m@http://host:1/v1", **scenario: Any
) -> AgentCommand:
    changed = trial().scenario.model_copy(update={"problem_statement": "Count the lines.", **scenario})
    spec = AgentSpec.parse(f"model:{model}")
    command = ModelAgent().prepare(AgentCall(changed, spec, {}, 60, params=params or {}))
    assert command is not None
    return command


def host(command: AgentCommand, shell: FakeShell) -> int:
    """Its exit status."""
    assert command.host is not None
    return command.host(shell)


def worked(
    tmp_path: Path, shell: FakeShell, questions: tuple[str, ...] | None = None, **params: Any
) -> tuple[int, AgentReading, list[dict[str, Any]]]:
    """Exit status, what its log says, and its trajectory; with questions, of a scenario that wants a short answer."""
    answer = None if questions is None else Answer(file="out.txt", questions=questions)
    command = prepared(params, answer=answer)
    status = host(command, shell)
    log, trajectory = tmp_path / "agent.log", tmp_path / "trajectory.jsonl"
    log.write_text("".join(f"{line}\n" for line in shell.lines), encoding="utf-8", errors="replace")
    assert command.read is not None
    reading = command.read(log, trajectory)
    return status, reading, [json.loads(line) for line in trajectory.read_text().splitlines()]


def test_it_runs_what_the_model_says_until_it_says_nothing_more(tmp_path: Path) -> None:
    shell = FakeShell([calls("ls", text="Let me see."), calls("wc -l a", "cat a"), says("3 lines")])
    status, reading, trajectory = worked(tmp_path, shell)
    assert (status, reading) == (0, AgentReading(Ending.SUCCESS, None, 5, "3 lines"))
    assert [command for command, _ in shell.commands] == ["ls", "wc -l a", "cat a"]
    assert shell.roles() == ["system", "user", "assistant", "tool", "assistant", "tool", "tool"]
    assert shell.bodies[-1]["messages"][3] == {"role": "tool", "tool_call_id": "id-0", "content": "ran ls"}
    header, system, user, first, second, last, footer = trajectory
    assert header["agent"] == {"name": "model", "version": "1", "model_name": "m"}
    assert (system["source"], user["message"]) == ("system", "Count the lines.")
    assert first["message"] == "Let me see."
    assert first["metrics"] == {"prompt_tokens": 100, "completion_tokens": 7, "cached_tokens": 20}
    assert [call["arguments"]["command"] for call in second["tool_calls"]] == ["wc -l a", "cat a"]
    assert [result["content"] for result in second["observation"]["results"]] == ["ran wc -l a", "ran cat a"]
    assert last["message"] == "3 lines"
    assert footer["final_metrics"] == {
        "total_prompt_tokens": 300,
        "total_completion_tokens": 21,
        "total_cached_tokens": 60,
        "total_steps": 5,
    }


def test_a_command_that_fails_or_does_not_end_is_told_to_the_model(tmp_path: Path) -> None:
    ends = iter([(2, "no such file\n"), (None, "half"), (0, ""), (0, "x" * 100_000)])
    shell = FakeShell([calls("a", "b", "c", "d"), says("ok")], run_with=lambda _command: next(ends))
    worked(tmp_path, shell, command_timeout=5)
    told = [message["content"] for message in shell.bodies[-1]["messages"] if message["role"] == "tool"]
    assert told[:3] == [
        "no such file\n\n[exit status 2]",
        "half\n[it did not end within 5 s and was killed]",
        "[exit status 0]",
    ]
    assert OUTPUT_LIMIT - 10 < len(told[3]) <= OUTPUT_LIMIT
    assert [timeout for _, timeout in shell.commands] == [5] * 4


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("python", '{"command": "ls"}', "no tool 'python'"),
        ("shell", '{"command": ', "have to be JSON"),
        ("shell", '["ls"]', "have to be JSON"),
        ("shell", '{"command": 1}', "have to be JSON"),
        ("shell", None, "have to be JSON"),
        ("shell", '{"command": "a\\u0000b"}', "at most 100000 bytes"),
        ("shell", json.dumps({"command": "é" * 60_000}), "at most 100000 bytes"),
    ],
)
def test_a_call_that_makes_no_sense_is_answered_with_an_error(
    tmp_path: Path, name: str, arguments: str | None, told: str
) -> None:
    said = calls("", name=name)
    said["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = arguments
    shell = FakeShell([said, says("sorry")])
    assert worked(tmp_path, shell)[0] == 0
    assert told in shell.bodies[-1]["messages"][-1]["content"]
    assert shell.commands == []


def test_arguments_may_come_as_an_object_and_calls_without_an_id(tmp_path: Path) -> None:
    said = calls({"command": "ls"})
    del said["choices"][0]["message"]["tool_calls"][0]["id"]
    shell = FakeShell([said, says("ok")])
    worked(tmp_path, shell)
    assert [command for command, _ in shell.commands] == ["ls"]
    assert shell.bodies[-1]["messages"][-1]["tool_call_id"] == "call-1-1"


def test_calls_of_an_answer_are_limited(tmp_path: Path) -> None:
    shell = FakeShell([calls(*["x"] * 1000), says("ok")])
    worked(tmp_path, shell)
    assert len(shell.commands) == CALL_LIMIT
    assert len(shell.bodies[-1]["messages"][2]["tool_calls"]) == CALL_LIMIT


def test_the_oldest_turns_are_left_out_when_there_is_no_room(tmp_path: Path) -> None:
    shell = FakeShell([calls("x" * 90_000)], run_with=lambda _command: (0, "y" * 20_000))
    worked(tmp_path, shell, max_turns=12)
    sizes = [len(json.dumps(body["messages"])) for body in shell.bodies]
    assert max(sizes) < HISTORY_LIMIT * 1.1
    assert shell.roles()[:4] == ["system", "user", "assistant", "tool"]
    assert len(shell.roles()) == 2 + 2 * 3


@pytest.mark.parametrize(
    ("fields", "thought"),
    [
        ({"reasoning_content": "hm"}, "hm"),
        ({"reasoning": "so"}, "so"),
        ({"reasoning_content": "hm", "reasoning": "so"}, "hm"),
        ({}, None),
    ],
)
def test_reasoning_is_in_the_trajectory_whatever_a_server_calls_it(
    tmp_path: Path, fields: dict[str, str], thought: str | None
) -> None:
    shell = FakeShell([answer({"role": "assistant", "content": "ok", **fields}, "stop")])
    _, _, trajectory = worked(tmp_path, shell)
    assert trajectory[-2].get("reasoning_content") == thought
    assert trajectory[-2]["message"] == "ok"


@pytest.mark.parametrize(
    ("answers", "ending", "message"),
    [
        ([(401, {"error": {"message": "Incorrect API key"}})], Ending.AUTHENTICATION, "answered 401: Incorrect API key"),
        ([(404, {"error": {"message": "no model"}})], Ending.UNKNOWN_MODEL, "answered 404: no model"),
        ([(400, {"error": {"message": "too long"}})], Ending.REFUSED, "answered 400: too long"),
        ([(429, {"error": {"message": "slower"}})], Ending.RATE_LIMITED, "answered 429: slower"),
        ([(429, {"error": {"code": "insufficient_quota"}})], Ending.QUOTA, "insufficient_quota"),
        ([(400, {"message": "flat", "error": "short"})], Ending.REFUSED, "answered 400: flat"),
        ([(400, {"error": "short"})], Ending.REFUSED, "answered 400: short"),
        ([(400, {"x": "y" * 400})], Ending.REFUSED, f"answered 400: {json.dumps({'x': 'y' * 400})[:300]}"),
        ([(503, "<html>down</html>")], Ending.ENDPOINT_DOWN, "answered 503: <html>down</html>"),
        ([(200, {"choices": []})], Ending.ENDPOINT_DOWN, "not a chat completion"),
        ([(200, "hello")], Ending.ENDPOINT_DOWN, "not a chat completion: hello"),
        ([calls("a"), ConnectionResetError("the answer broke off")], Ending.ENDPOINT_DOWN, "the answer broke off"),
        ([calls("again")], Ending.TURN_LIMIT, "it reached its limit of 3 turns"),
    ],
)  # fmt: skip
def test_an_error_of_the_endpoint_and_a_limit_of_turns_end_it_at_once(
    tmp_path: Path, answers: list[Any], ending: Ending, message: str
) -> None:
    shell = FakeShell(answers)
    code, reading, _ = worked(tmp_path, shell, max_turns=3)
    assert (code, reading.ending) == (1, ending)
    assert len(shell.bodies) == (3 if ending is Ending.TURN_LIMIT else len(answers))
    assert message in (reading.message or "")


def test_an_answer_that_a_filter_held_back_is_a_refusal(tmp_path: Path) -> None:
    held = {"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]}
    code, reading, _ = worked(tmp_path, FakeShell([held]))
    assert (code, reading.ending) == (0, Ending.REFUSED)


def test_a_lost_gateway_is_no_affair_of_the_agent() -> None:
    with pytest.raises(GatewayLost):
        host(prepared(), FakeShell([GatewayLost("gone")]))


@pytest.mark.parametrize(
    "shell",
    [
        FakeShell([calls("a", "b", "c")], stopped_after=2),
        FakeShell([calls("a", "b"), TimeoutError("no answer from the model within 3 s")]),
    ],
)
def test_it_ends_when_its_time_is_up(tmp_path: Path, shell: FakeShell) -> None:
    status, reading, _ = worked(tmp_path, shell)
    assert (status, reading.ending) == (1, Ending.TIMED_OUT)
    assert [command for command, _ in shell.commands] == ["a", "b"]


def test_parameters_of_models_are_forwarded_and_others_are_not(tmp_path: Path) -> None:
    shell = FakeShell([says("ok")])
    given_ = {
        "temperature": 0, "top_p": 0.5, "seed": 7, "max_tokens": 99, "reasoning_effort": "low",
        "stop": ["END"],
    }  # fmt: skip
    worked(tmp_path, shell, **given_, max_turns=4, effort="of somebody else")
    body = shell.bodies[0]
    assert body == {**{name: body[name] for name in ("model", "messages", "tools")}, **given_}
    assert body["tools"][0]["function"]["name"] == "shell"


@pytest.mark.parametrize(
    ("params", "complaint"),
    [
        ({"temperature": "hot"}, "parameter temperature: .* not 'hot'"),
        ({"max_turns": 0}, "parameter max_turns"),
        ({"tools": "maybe"}, "parameter tools"),
        ({"stop": [1, {}]}, "parameter stop"),
    ],
)
def test_a_wrong_parameter_is_told_before_anything_is_spent(params: dict[str, Any], complaint: str) -> None:
    with pytest.raises(AgentSetupFailed, match=complaint):
        prepared(params)


def test_without_tools_its_answer_goes_to_a_file(tmp_path: Path) -> None:
    shell = FakeShell([says("42")])
    status, reading, trajectory = worked(tmp_path, shell, tools=False, answer_file="/app/out.txt")
    assert (status, reading.ending) == (0, Ending.SUCCESS)
    assert shell.files == {"/app/out.txt": b"42"}
    assert shell.bodies == [{"model": "m", "messages": [{"role": "user", "content": "Count the lines."}]}]
    assert [step.get("message") for step in trajectory[1:-1]] == ["Count the lines.", "42"]


def test_an_answer_that_was_cut_off_is_kept_and_said_to_be(tmp_path: Path) -> None:
    shell = FakeShell([says("4", finish="length")])
    status, reading, _ = worked(tmp_path, shell, tools=False)
    assert (status, reading.ending) == (0, Ending.GAVE_UP)
    assert shell.files == {"answer.txt": b"4"}


def test_its_endpoint_is_that_of_the_models_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GROQ_BASE_URL", raising=False)
    assert [one.base_url for one in prepared().endpoints] == ["http://host:1/v1"]
    agent, spec = ModelAgent(), AgentSpec.parse("model:groq/llama")
    (endpoint,) = agent.endpoints(spec, {}, {})
    assert (endpoint.provider, endpoint.key_variables) == ("groq", ("GROQ_API_KEY",))
    shell = FakeShell([says("ok")])
    host(prepared(model="groq/llama"), shell)
    assert shell.bodies[0]["model"] == "llama"
    with pytest.raises(InputError, match="the provider of model"):
        prepared(model="some-model")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
messages = st.fixed_dictionaries(
    {},
    optional={
        "role": json_values,
        "content": json_values,
        "reasoning_content": json_values,
        "tool_calls": json_values
        | st.lists(
            st.fixed_dictionaries(
                {"function": st.fixed_dictionaries({"name": st.just("shell"), "arguments": json_values})},
                optional={"id": json_values},
            ),
            max_size=3,
        ),
    },
)


@given(
    st.lists(st.tuples(st.sampled_from([200, 200, 200, 500]), json_values | messages), min_size=1, max_size=4)
)
def test_no_answer_makes_it_raise(said: list[tuple[int, Any]]) -> None:
    shell = FakeShell([(status, answer(message, "stop")) for status, message in said])
    assert host(prepared({"max_turns": 5}), shell) in (0, 1)
    events = [json.loads(line) for line in shell.lines]
    assert (events[0]["type"], events[-1]["type"]) == ("begin", "end")


@pytest.mark.parametrize(
    ("params", "files"),
    [
        ({}, {"reply.md": b"def f(): ..."}),
        ({"tools": True}, {}),
        ({"tools": False}, {"reply.md": b"def f(): ..."}),
    ],
)
def test_a_reply_that_has_to_be_run_goes_into_a_file_of_its_own(
    params: dict[str, Any], files: dict[str, bytes]
) -> None:
    """Also where there is a container, since it is graded there."""
    shell = FakeShell([says("def f(): ...")])
    answer = Answer(file="solution.py", reply_file="reply.md")
    assert host(prepared(params, answer=answer, fresh_container=FreshContainer(patch=True)), shell) == 0
    assert shell.files == files
    assert ("tools" in shell.bodies[0]) is (params.get("tools") is True)


def test_a_question_is_asked_alone_and_the_reply_is_the_answer(tmp_path: Path) -> None:
    shell = FakeShell([says("ANSWER: 3")])
    status, reading, _ = worked(tmp_path, shell, (), temperature=0)
    assert (status, reading.ending) == (0, Ending.SUCCESS)
    assert shell.bodies == [
        {"model": "m", "messages": [{"role": "user", "content": "Count the lines."}], "temperature": 0}
    ]
    assert shell.files == {"out.txt": b"ANSWER: 3"}


def test_several_questions_are_conversations_of_their_own(tmp_path: Path) -> None:
    shell = FakeShell([says("one"), says("two")])
    worked(tmp_path, shell, ("First?", "Second?"))
    asked = [[{"role": "user", "content": question}] for question in ("First?", "Second?")]
    assert [body["messages"] for body in shell.bodies] == asked
    assert json.loads(shell.files["out.txt"]) == ["one", "two"]


def test_replies_that_came_are_the_answer_where_the_next_does_not_come(tmp_path: Path) -> None:
    shell = FakeShell([says("one"), ConnectionError("gone")])
    status, reading, _ = worked(tmp_path, shell, ("First?", "Second?"))
    assert (status, reading.ending) == (1, Ending.ENDPOINT_DOWN)
    assert json.loads(shell.files["out.txt"]) == ["one"]


@pytest.mark.parametrize("place", [0, 1])
def test_a_reply_that_was_cut_is_told_whichever_it_is(tmp_path: Path, place: int) -> None:
    answers = [says("one"), says("two")]
    answers[place] = says("half", "length")
    status, reading, _ = worked(tmp_path, FakeShell(answers), ("First?", "Second?"))
    assert (status, reading.ending) == (0, Ending.GAVE_UP)
    assert reading.message == "an answer was cut off at its limit of tokens"


@pytest.mark.parametrize(
    ("content", "reply"),
    [
        ("<think>ANSWER: 4</think>\n\nANSWER: 3", "ANSWER: 3"),
        ("ANSWER: 4 would be wrong</think>ANSWER: 3", "ANSWER: 3"),
        (" <think>ANSWER: 4", ""),
        ("Let me <think>", "Let me <think>"),
        ([{"type": "thinking", "thinking": "4"}, {"type": "text", "text": "3"}], "3"),
        ([{"type": "reasoning", "text": "4"}, "3", {"type": "output_text", "text": "!"}], "3\n!"),
        ({"type": "text", "text": "3"}, "3"),
        (None, ""),
        (7, ""),
    ],
)
def test_reasoning_is_no_part_of_a_reply(tmp_path: Path, content: Any, reply: str) -> None:
    shell = FakeShell([answer({"role": "assistant", "content": content, "reasoning_content": "4"}, "stop")])
    worked(tmp_path, shell, ())
    assert shell.files == {"out.txt": reply.encode()}


def test_with_tools_a_question_is_a_task(tmp_path: Path) -> None:
    shell = FakeShell([says("done")])
    worked(tmp_path, shell, (), tools=True)
    assert shell.roles() == ["system", "user"]
    assert shell.files == {}
