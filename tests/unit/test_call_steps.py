"""Steps of an agent that tells none, made from its calls of models: each message once, in order, on every wire."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_benchjobs.agents.reading.calls import write_steps
from pytest_benchjobs.store.calls import CallLog, LoggedCall, logged_bytes, logged_calls
from tests.agents.script import Asked, Call, Turn
from tests.agents.wires import WIRES

Said = tuple[str, str]
"""Kind and text: `system`, `user`, `agent`, `call` (of a command), `result`."""
KINDS = {"chat": "chat", "responses": "responses", "messages": "anthropic", "generate": "google"}
"""Kind of a call -> its wire in the scripted model server."""


def chat(history: Sequence[Said]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    for place, (kind, text) in enumerate(history):
        if kind == "call":
            function = {"name": "shell", "arguments": json.dumps({"command": text})}
            call = {"id": f"id-{place}", "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif kind == "result":
            messages.append({"role": "tool", "tool_call_id": f"id-{place - 1}", "content": text})
        else:
            messages.append({"role": "assistant" if kind == "agent" else kind, "content": text})
    return {"messages": messages}


def responses(history: Sequence[Said]) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    for place, (kind, text) in enumerate(history):
        if kind == "call":
            given = {"name": "shell", "arguments": json.dumps({"command": text})}
            items.append({"type": "function_call", "call_id": f"id-{place}", **given})
        elif kind == "result":
            items.append({"type": "function_call_output", "call_id": f"id-{place - 1}", "output": text})
        elif kind != "system":
            role = "assistant" if kind == "agent" else kind
            items.append({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]})
    return {"instructions": "".join(text for kind, text in history if kind == "system"), "input": items}


def messages(history: Sequence[Said]) -> dict[str, Any]:
    said: list[dict[str, Any]] = []
    for place, (kind, text) in enumerate(history):
        if kind == "call":
            block = {
                "type": "tool_use",
                "id": f"toolu_id-{place}",
                "name": "shell",
                "input": {"command": text},
            }
            said.append({"role": "assistant", "content": [block]})
        elif kind == "result":
            block = {"type": "tool_result", "tool_use_id": f"toolu_id-{place - 1}", "content": text}
            said.append({"role": "user", "content": [block]})
        elif kind != "system":
            said.append({"role": "assistant" if kind == "agent" else kind, "content": text})
    return {"system": "".join(text for kind, text in history if kind == "system"), "messages": said}


def generate(history: Sequence[Said]) -> dict[str, Any]:
    contents: list[dict[str, Any]] = []
    for kind, text in history:
        part: dict[str, Any] = {"text": text}
        if kind == "call":
            part = {"functionCall": {"name": "shell", "args": {"command": text}}}
        elif kind == "result":
            part = {"functionResponse": {"name": "shell", "response": {"output": text}}}
        if kind != "system":
            contents.append({"role": "model" if kind in ("agent", "call") else "user", "parts": [part]})
    system = "".join(text for kind, text in history if kind == "system")
    return {"systemInstruction": {"parts": [{"text": system}]}, "contents": contents}


REQUESTS: dict[str, Callable[[Sequence[Said]], dict[str, Any]]] = {
    "chat": chat, "responses": responses, "messages": messages, "generate": generate,
}  # fmt: skip


def call(
    kind: str, history: Sequence[Said], answer: Said, *, stream: bool = False, **about: Any
) -> LoggedCall:
    """A call with this history, and its answer by the scripted model server."""
    wire, asked, place = WIRES[KINDS[kind]](), Asked("m", stream), len(history)
    made = Call(f"id-{place}", "shell", {"command": answer[1]}) if answer[0] == "call" else None
    turn = Turn(str(place), "" if made else answer[1], made)
    body = REQUESTS[kind](history)
    said = (
        b"".join(wire.pieces(turn, asked, body)) if stream else json.dumps(wire.answer(turn, asked)).encode()
    )
    whole = {"status": 200, "cut": False, "tokens": (10, 3, None), "cost": 0.5, **about}
    return LoggedCall(kind, body=json.dumps(body).encode(), answer=said, **whole)


def steps(directory: Path, calls: Sequence[LoggedCall], after: int = 0) -> list[dict[str, Any]]:
    log, trajectory = directory / "calls", directory / "trajectory.jsonl"
    log.unlink(missing_ok=True)
    written, ends = CallLog(log), [0]
    for one in calls:
        written.write(one)
        ends.append(logged_bytes(log))
    assert write_steps(log, trajectory, after=ends[after], agent="mine", version=None, model="m") == ends[-1]
    lines = [json.loads(line) for line in trajectory.read_text("utf-8").splitlines()]
    assert lines[0]["agent"]["name"] == "mine"
    return lines[1:-1]


def told(found: Sequence[dict[str, Any]]) -> list[Said]:
    """Everything that was said in steps, in order."""
    listed: list[Said] = []
    for step in found:
        if step["message"]:
            listed += [(step["source"], text) for text in step["message"].split("\n")]
        listed += [("call", one["arguments"]["command"]) for one in step.get("tool_calls", ())]
        listed += [
            ("result", _output(one["content"])) for one in step.get("observation", {}).get("results", ())
        ]
    return listed


def _output(content: str) -> str:
    return str(json.loads(content)["output"]) if content.startswith('{"output"') else content


WORDS = st.text("abc xyz", min_size=1, max_size=8).map(str.strip).filter(bool)
ROUNDS = st.lists(st.tuples(WORDS, st.booleans(), WORDS), min_size=1, max_size=8)


def grown(rounds: Sequence[tuple[str, bool, str]]) -> list[tuple[list[Said], Said]]:
    """Histories, each longer than the one before, and the answers: a text, or a call whose result follows."""
    history: list[Said] = [("system", "be good")]
    made = []
    for number, (said, calls, answered) in enumerate(rounds):
        before = history[-1][0]
        history.append(("result" if before == "call" else "user", f"{number} {said}"))
        answer = ("call" if calls else "agent", answered)
        made.append(([*history], answer))
        history.append(answer)
    return made


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", REQUESTS)
@settings(max_examples=30)
@given(rounds=ROUNDS)
def test_each_message_is_told_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, kind: str, stream: bool, rounds: list[tuple[str, bool, str]]
) -> None:
    made = grown(rounds)
    directory = tmp_path_factory.mktemp("calls")
    found = steps(directory, [call(kind, history, answer, stream=stream) for history, answer in made])
    assert told(found) == [*made[-1][0], made[-1][1]]
    results = [one for step in found for one in step.get("observation", {}).get("results", ())]
    assert all(one.get("source_call_id") for one in results), "each result is in the step of its call"
    assert sum(step.get("metrics", {}).get("prompt_tokens", 0) for step in found) == 10 * len(made)
    totals = json.loads((directory / "trajectory.jsonl").read_text("utf-8").splitlines()[-1])["final_metrics"]
    assert totals["total_cost_usd"] == 0.5 * len(made)
    # A later turn of the trial tells only what is new.
    half = len(made) // 2
    later = steps(directory, [call(kind, history, answer) for history, answer in made], after=half)
    begun = 0 if not half else len(made[half - 1][0]) + 1
    assert told(later) == [*made[-1][0], made[-1][1]][begun:]


def test_conversations_are_told_apart(tmp_path: Path) -> None:
    main: list[Said] = [("system", "main"), ("user", "do it")]
    other: list[Said] = [("system", "helper"), ("user", "look")]
    calls = [
        call("chat", main, ("agent", "a plan")),
        call("chat", other, ("agent", "seen")),
        call("chat", [*main, ("agent", "a plan"), ("user", "go on")], ("agent", "done")),
        # A shorter history is another conversation; what the agent itself wrote in the model's place is told, too.
        call(
            "chat",
            [("system", "main"), ("user", "summary"), ("agent", "understood")],
            ("agent", "on with it"),
        ),
    ]
    assert told(steps(tmp_path, calls)) == [
        ("system", "main"), ("user", "do it"), ("agent", "a plan"),
        ("system", "[conversation 2]"), ("system", "helper"), ("user", "look"), ("agent", "seen"),
        ("system", "[conversation 1]"), ("user", "go on"), ("agent", "done"),
        ("system", "[conversation 3]"), ("system", "main"), ("user", "summary"), ("agent", "understood"),
        ("agent", "on with it"),
    ]  # fmt: skip


def test_a_conversation_that_the_endpoint_stores_goes_on(tmp_path: Path) -> None:
    first = call("responses", [("user", "hello")], ("agent", "yes"))
    body = {"previous_response_id": "resp_1", "input": "and then?"}
    second = dataclasses.replace(call("responses", [], ("agent", "well")), body=json.dumps(body).encode())
    found = told(steps(tmp_path, [first, second]))
    assert found == [("user", "hello"), ("agent", "yes"), ("user", "and then?"), ("agent", "well")]


def test_calls_that_fail_are_told_and_tried_again_as_one(tmp_path: Path) -> None:
    history: list[Said] = [("user", "hello")]
    error = {"error": {"message": "overloaded"}}
    good = call("chat", history, ("agent", "yes"))
    calls = [
        dataclasses.replace(good, status=529, answer=json.dumps(error).encode()),
        dataclasses.replace(good, status=0, answer=b"", cut=True),
        dataclasses.replace(call("chat", history, ("agent", "half"), stream=True), cut=True),
        good,
    ]
    assert told(steps(tmp_path, calls)) == [
        ("user", "hello"),
        ("system", "[a call of the model failed: 529 overloaded]"),
        ("system", "[a call of the model failed: nobody waited for its answer]"),
        ("agent", "half"),
        ("system", "[the answer broke off]"),
        ("agent", "yes"),
    ]


@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b'"x"', b'{"messages": 3, "input": {}, "contents": [[1]], "system": [2]}',
        b'{"messages": [{"role": 1, "content": [[["x"]]], "tool_calls": [{"function": 3}]}], "choices": [{}]}',
        b'{"contents": [{"parts": [{"functionCall": {}}, {"functionResponse": {}}]}], "candidates": [1]}',
        b'data: {"delta": 3, "index": {}}\n\ndata: x\n\ndata: [1]', b"[" * 100_000, b"\xff\xfe",
        b'{"input": [{"type": "x_output"}, {"type": "y_call"}, {"type": 3}], "output": [3, {"type": "reasoning"}]}',
    ],
)  # fmt: skip
def test_whatever_an_agent_sends_is_read(tmp_path: Path, kind: str, content: bytes) -> None:
    steps(tmp_path, [LoggedCall(kind, 200, False, (None, None, None), None, content, content)] * 2)


@pytest.mark.parametrize("kept", [1, 40, -1])
def test_a_last_call_that_is_not_whole_is_left_out(tmp_path: Path, kept: int) -> None:
    log, one = tmp_path / "calls", call("chat", [("user", "hello")], ("agent", "yes"))
    CallLog(log).write(one)
    whole = log.read_bytes()
    log.write_bytes(whole + whole[:kept])
    with log.open("rb") as file:
        assert list(logged_calls(file)) == [one]


def test_a_file_of_calls_has_a_limit_that_counts_calls_without_a_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_benchjobs.store.calls._FILE_LIMIT", 1000)
    written = 0
    for turn in (1, 2):
        log = CallLog(tmp_path / "calls")
        for _ in range(100):
            log.write(LoggedCall("chat", 400))
        with (tmp_path / "calls").open("rb") as file:
            assert turn == 1 or written == len(list(logged_calls(file)))
        written += 100 - log.left_out
    assert 800 < (tmp_path / "calls").stat().st_size <= 1000


def test_calls_over_the_number_that_is_kept_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_benchjobs.store.calls._CALL_LIMIT", 3)
    log = CallLog(tmp_path / "calls")
    for _ in range(5):
        log.write(LoggedCall("chat", 400))
    with (tmp_path / "calls").open("rb") as file:
        assert (len(list(logged_calls(file))), log.left_out) == (3, 2)
