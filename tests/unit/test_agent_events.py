"""Each event of an agent makes these steps, figures and endings, and no others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.ending import Ending

from .readings import read

Events = Sequence[dict[str, Any]]
LOST = (Ending.NO_LAST_WORD, "it ended without its final event")


def steps_of(directory: Path, agent: str, events: Events) -> list[dict[str, Any]]:
    _, (_, *steps, _) = read(directory, agent, "\n".join(map(json.dumps, events)))
    return [{name: value for name, value in step.items() if name != "step_id"} for step in steps]


def totals_of(directory: Path, agent: str, events: Events) -> dict[str, Any]:
    """Its figures, with short names and without those that are not known."""
    _, lines = read(directory, agent, "\n".join(map(json.dumps, events)))
    figures = lines[-1]["final_metrics"].items()
    return {name.removeprefix("total_"): value for name, value in figures if name != "total_steps"}


def ending_of(directory: Path, agent: str, events: Events) -> tuple[Ending | None, str | None]:
    reading, _ = read(directory, agent, "\n".join(map(json.dumps, events)))
    return reading.ending, reading.message


def says(text: str, source: str = "agent", **more: Any) -> dict[str, Any]:
    return {"source": source, "message": text, **more}


def calls(*said: tuple[str, dict[str, Any], str | None], first: int = 1, **more: Any) -> dict[str, Any]:
    """A step with these calls: name, arguments and result."""
    numbered = [(f"call-{number}", *one) for number, one in enumerate(said, first)]
    made = [
        {"tool_call_id": key, "function_name": name, "arguments": given} for key, name, given, _ in numbered
    ]
    results = [
        {"source_call_id": key, "content": result} for key, _, _, result in numbered if result is not None
    ]
    return says("", tool_calls=made, **({"observation": {"results": results}} if results else {}), **more)


# --- Codex -----------------------------------------------------------------------------------------------------------


def item(kind: str, *, event: str = "item.completed", **more: Any) -> dict[str, Any]:
    return {"type": event, "item": {"type": kind, "id": "i", **more}}


@pytest.mark.parametrize(
    ("kind", "fields", "step"),
    [
        ("agent_message", {"text": "hello"}, says("hello")),
        ("reasoning", {"text": "hm"}, says("", reasoning_content="hm")),
        ("error", {"message": "oh"}, says("oh", "system")),
        ("command_execution", {"command": "ls", "aggregated_output": "a"}, ("shell", {"command": "ls"}, "a")),
        ("command_execution", {"aggregated_output": "a", "exit_code": 0}, ("shell", {"command": None}, "a")),
        ("command_execution", {"aggregated_output": "a", "exit_code": 2}, ("shell", {"command": None}, "a\n[exit status 2]")),
        ("command_execution", {"aggregated_output": "a", "exit_code": "2"}, ("shell", {"command": None}, "a")),
        ("file_change", {"changes": [1], "status": "done"}, ("apply_patch", {"changes": [1]}, "done")),
        ("web_search", {"query": "q", "status": "done"}, ("web_search", {"query": "q"}, "done")),
        ("todo_list", {"items": ["x"]}, ("update_plan", {"items": ["x"]}, "")),
        ("mcp_tool_call", {"server": "s", "tool": "t", "arguments": {"a": 1}, "result": {"content": [{"text": "b"}, {"text": "c"}]}}, ("s.t", {"a": 1}, "b\nc")),
        ("mcp_tool_call", {"tool": "t", "arguments": [1], "error": {"message": "no"}, "result": {"content": [{"text": "b"}]}}, ("t", {"input": [1]}, "no")),
        ("mcp_tool_call", {}, ("tool", {"input": None}, "")),
        ("never_heard_of", {"text": "x"}, None),
    ],
)  # fmt: skip
def test_an_item_of_codex_is_a_step(tmp_path: Path, kind: str, fields: dict[str, Any], step: Any) -> None:
    wanted = calls(step) if isinstance(step, tuple) else step
    assert steps_of(tmp_path, "codex", [item(kind, **fields)]) == ([] if step is None else [wanted])


def test_what_codex_began_and_did_not_complete_comes_at_its_end_and_once(tmp_path: Path) -> None:
    begun = [
        item("command_execution", event="item.started", id=key, command=key, aggregated_output="so far")
        for key in ("a", "b")
    ]
    done = item("command_execution", id="a", command="a", aggregated_output="all")
    assert steps_of(tmp_path, "codex", [*begun, done]) == [
        calls(("shell", {"command": "a"}, "all")),
        calls(("shell", {"command": "b"}, None), first=2),
    ]
    many = [
        item("agent_message", event="item.started", id=str(number), text=str(number)) for number in range(501)
    ]
    (step,) = steps_of(tmp_path, "codex", many)
    assert step["message"].splitlines() == [str(number) for number in range(500)]


TURN = {"type": "turn.completed"}
FAILED = {"type": "turn.failed"}


def error(message: str) -> dict[str, Any]:
    return {"type": "error", "message": message}


BODY = json.dumps({"error": {"message": "prompt is too long"}})


# --- Claude Code -----------------------------------------------------------------------------------------------------


def spoke(key: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"type": "assistant", "message": {"id": key, "content": list(blocks)}}


def user(content: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"content": content}}


def test_claude_code_tells_a_message_in_events_of_one_id(tmp_path: Path) -> None:
    events = [
        {"type": "system", "subtype": "init", "claude_code_version": "2.1", "model": "claude-x"},
        {"type": "system", "subtype": "later", "claude_code_version": "9", "model": "other"},
        user("do it"),
        user([{"type": "text", "text": "now"}]),
        spoke("a", {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "one"}),
        spoke("a", {"type": "text", "text": "two"}, {"type": "image"}),
        spoke("a", {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}),
        user([{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a.txt"}]}]),
        spoke("b", {"type": "text", "text": "done"}),
    ]
    _, lines = read(tmp_path, "claude-code", "\n".join(map(json.dumps, events)))
    assert lines[0]["agent"] == {"name": "claude-code", "version": "2.1", "model_name": "claude-x"}
    call = calls(("Bash", {"command": "ls"}, "a.txt"), reasoning_content="hm")
    assert steps_of(tmp_path, "claude-code", events) == [
        says("do it\nnow", "user"),
        {**call, "message": "one\ntwo\n[image]"},
        says("done"),
    ]


# --- Gemini CLI ------------------------------------------------------------------------------------------------------


def test_gemini_tells_calls_and_errors(tmp_path: Path) -> None:
    def use(key: str, **more: Any) -> dict[str, Any]:
        return {"type": "tool_use", "tool_id": key, "tool_name": "shell", "parameters": {"key": key}, **more}

    events = [
        use("a"),
        {"type": "tool_result", "tool_id": "a", "output": "out", "error": {"message": "no"}},
        use("b"),
        {"type": "tool_result", "tool_id": "b", "error": {"message": "no"}},
        error("careful"),
        error("careful again"),
    ]
    assert steps_of(tmp_path, "gemini-cli", events) == [
        calls(("shell", {"key": "a"}, "out")),
        calls(("shell", {"key": "b"}, "no"), first=2),
        says("careful\ncareful again", "system"),
    ]


@pytest.mark.parametrize(
    ("stats", "figures"),
    [
        ({"input_tokens": 10, "total_tokens": 17, "cached": 3}, {"prompt_tokens": 10, "completion_tokens": 7, "cached_tokens": 3}),
        ({"input_tokens": 10, "total_tokens": 10}, {"prompt_tokens": 10, "completion_tokens": 0}),
        ({"input_tokens": 10, "total_tokens": 9}, {"prompt_tokens": 10}),
        ({"input_tokens": 10}, {"prompt_tokens": 10}),
        ({"total_tokens": 10}, {}),
        ("none", {}),
    ],
)  # fmt: skip
def test_gemini_has_written_what_it_did_not_send(tmp_path: Path, stats: Any, figures: dict[str, int]) -> None:
    assert totals_of(tmp_path, "gemini-cli", [{"type": "result", "stats": stats}]) == figures


# --- Goose -----------------------------------------------------------------------------------------------------------


def message(*parts: Any, role: str = "assistant", key: str = "k", **metadata: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"type": "message", "message": {"role": role, "id": key, "content": content, "metadata": metadata}}


COMPLETE = {"type": "complete"}
BY_MODEL = {"inference": {"provider": "openai"}}


def test_goose_tells_all_it_does_in_messages(tmp_path: Path) -> None:
    request = {
        "type": "toolRequest",
        "id": "t1",
        "toolCall": {"value": {"name": "shell", "arguments": {"command": "ls"}}},
    }
    answer = {"type": "toolResponse", "id": "t1", "toolResult": {"value": {"content": [{"text": "a"}]}}}
    refusal = {"type": "toolResponse", "id": "t2", "toolResult": {"error": "no"}}
    events = [
        message("do it", "now", role="user", key="u"),
        message("seen by nobody", userVisible=False, agentVisible=False),
        message("seen", userVisible=False, agentVisible=True, key="v"),
        message({"type": "thinking", "thinking": "hm"}, {"type": "reasoning", "text": "so"}, "one", key="a"),
        message("two", request, key="a"),
        message(answer, role="user", key="r"),
        message({**request, "id": "t2"}, key="b"),
        message(refusal, role="user", key="r"),
        message({"type": "error", "message": "oh"}, key="c"),
    ]
    made = calls(("shell", {"command": "ls"}, "a"), reasoning_content="hmso")
    assert steps_of(tmp_path, "goose", events) == [
        says("do it\nnow", "user"),
        says("seen"),
        {**made, "message": "onetwo"},
        calls(("shell", {"command": "ls"}, "no"), first=2),
        says("oh", "system"),
    ]


LIMIT = "I've reached the maximum number of actions"


# --- OpenCode --------------------------------------------------------------------------------------------------------


def part(kind: str, key: str = "m", **more: Any) -> dict[str, Any]:
    return {"type": kind, "part": {"messageID": key, **more}}


def test_opencode_tells_parts_of_messages(tmp_path: Path) -> None:
    def use(key: str, status: str, **state: Any) -> dict[str, Any]:
        return part(
            "tool_use", callID=key, tool="bash", state={"status": status, "input": {"key": key}, **state}
        )

    events = [
        part("reasoning", text="hm"),
        part("text", text="one"),
        part("text", text="two"),
        use("a", "completed", output="out", error="no"),
        use("b", "error", error="no"),
        use("c", "running", output="so far"),
        part("text", "n", text="three"),
    ]
    made = calls(("bash", {"key": "a"}, "out"), ("bash", {"key": "b"}, "no"), ("bash", {"key": "c"}, None))
    assert steps_of(tmp_path, "opencode", events) == [
        {**made, "message": "one\ntwo", "reasoning_content": "hm"},
        says("three"),
    ]


def finish(reason: str = "stop", **more: Any) -> dict[str, Any]:
    return part("step_finish", reason=reason, **more)


def test_opencode_counts_each_step_and_a_price_of_zero_is_none(tmp_path: Path) -> None:
    tokens = {"input": 1, "output": 2, "reasoning": 3, "cache": {"read": 40, "write": 500}}
    events = [
        part("text", text="x"),
        finish("tool-calls", tokens=tokens, cost=0.25),
        part("text", "n", text="y"),
        finish(tokens=tokens, cost=0.5),
        finish(cost=0),
    ]
    step = {"prompt_tokens": 541, "completion_tokens": 5, "cached_tokens": 40}
    assert [one.get("metrics") for one in steps_of(tmp_path, "opencode", events[:4])] == [
        {**step, "cost_usd": 0.25}, {**step, "cost_usd": 0.5},
    ]  # fmt: skip
    assert totals_of(tmp_path, "opencode", events) == {
        "prompt_tokens": 1082, "completion_tokens": 10, "cached_tokens": 80, "cost_usd": 0.75,
    }  # fmt: skip
    assert "cost_usd" not in totals_of(tmp_path, "opencode", [finish(tokens=tokens, cost=0)])


# --- our own ---------------------------------------------------------------------------------------------------------


def ends(reason: str, **more: Any) -> dict[str, Any]:
    return {"type": "end", "reason": reason, **more}


def test_answers_of_a_bare_model_are_a_step_each(tmp_path: Path) -> None:
    events = [
        {"type": "user", "text": "one"},
        {"type": "user", "text": "two"},
        {"type": "answer", "turn": 1, "text": "a", "usage": {"cached_tokens": 0}},
        {"type": "answer", "turn": 2, "text": "b"},
    ]
    assert steps_of(tmp_path, "model", events) == [
        says("one\ntwo", "user"),
        says("a", metrics={"cached_tokens": 0}),
        says("b"),
    ]


# --- how each of them ends -------------------------------------------------------------------------------------------


def result(**more: Any) -> dict[str, Any]:
    """The last event of Claude Code, and of Gemini."""
    return {"type": "result", **more}


ENDINGS: dict[str, list[tuple[Events, tuple[Ending, str | None]]]] = {
    "codex": [
        ([TURN], (Ending.SUCCESS, None)),
        ([FAILED], (Ending.CRASHED, "its turn failed")),
        ([error("status 429"), FAILED], (Ending.RATE_LIMITED, "status 429")),
        ([error("status 429"), {**FAILED, "error": {"message": "status 503"}}], (Ending.ENDPOINT_DOWN, "status 503")),
        ([{**FAILED, "error": {"message": BODY}}], (Ending.REFUSED, "prompt is too long")),
        ([{**FAILED, "error": {"message": "[" * 99_999}}], (Ending.CRASHED, "[" * 249 + "..." + "[" * 248)),
        ([{**FAILED, "error": {"message": "{}"}}], (Ending.CRASHED, "{}")),
        ([error("status 429"), TURN], (Ending.SUCCESS, None)),
        ([error(BODY)], (LOST[0], f"{LOST[1]}; its last error: prompt is too long")),
        ([TURN, error("oh")], (LOST[0], f"{LOST[1]}; its last error: oh")),
        ([TURN, error("")], LOST),
        ([TURN, item("agent_message", text="x")], (Ending.SUCCESS, None)),
        ([{**FAILED, "item": {"type": "agent_message"}}, TURN], (Ending.SUCCESS, None)),
    ],
    "claude-code": [
        ([result(subtype="success", is_error=False)], (Ending.SUCCESS, None)),
        ([result(subtype="success", is_error=False, stop_reason="refusal")], (Ending.REFUSED, "the model refused")),
        ([result(subtype="error_max_turns", is_error=False)], (Ending.TURN_LIMIT, "error_max_turns")),
        ([result(subtype="success", terminal_reason="max_turns", is_error=False, result="so far")], (Ending.TURN_LIMIT, "so far")),
        ([result(subtype="error_max_budget_usd", errors=["a", 1, "b"])], (Ending.BUDGET, "a; b")),
        ([result(subtype="success", is_error=True, result="odd")], (Ending.CRASHED, "odd")),
        ([result(subtype="success", result="odd")], (Ending.CRASHED, "odd")),
        ([result(subtype="error_during_execution", is_error=False)], (Ending.CRASHED, "error_during_execution")),
        ([result(subtype="x", errors="not a list")], (Ending.CRASHED, "x")),
        ([result(subtype="x", api_error_status=529)], (Ending.ENDPOINT_DOWN, "x")),
        ([result(subtype="x", api_error="rate limit")], (Ending.RATE_LIMITED, "x")),
        ([result(subtype="x", api_error_type="billing_error")], (Ending.QUOTA, "x")),
        ([result(subtype="x", result="not logged in")], (Ending.AUTHENTICATION, "not logged in")),
    ],
    "gemini-cli": [
        ([result(status="success")], (Ending.SUCCESS, None)),
        ([error("odd"), result(status="success")], (Ending.SUCCESS, None)),
        ([error("Loop detected now"), result(status="success")], (Ending.GAVE_UP, "Loop detected now")),
        ([error("a Loop detected"), result(status="success")], (Ending.SUCCESS, None)),
        ([error("first"), result(error={"message": "last"})], (Ending.CRASHED, "last")),
        ([error("status 503"), result(status="error")], (Ending.ENDPOINT_DOWN, "status 503")),
        ([result(status="error")], (Ending.CRASHED, "its result is an error")),
        ([result(error={"type": "FatalTurnLimitedError", "message": "so many"})], (Ending.TURN_LIMIT, "so many")),
        ([result(error={"type": "FatalError", "message": "fell"})], (Ending.CRASHED, "fell")),
    ],
    "goose": [
        ([COMPLETE], (Ending.SUCCESS, None)),
        ([message("done", **BY_MODEL), COMPLETE], (Ending.SUCCESS, None)),
        ([message("done")], LOST),
        ([message(LIMIT), COMPLETE], (Ending.TURN_LIMIT, LIMIT)),
        ([message(f" {LIMIT}"), COMPLETE], (Ending.TURN_LIMIT, LIMIT)),
        ([message(LIMIT)], LOST),
        ([message(f"{LIMIT[:9]}"), message(LIMIT[9:]), COMPLETE], (Ending.TURN_LIMIT, LIMIT)),
        ([message(LIMIT[:9]), message(LIMIT[9:], key="other"), COMPLETE], (Ending.SUCCESS, None)),
        ([message(LIMIT), message("more", **BY_MODEL), COMPLETE], (Ending.SUCCESS, None)),
        ([message(LIMIT, **BY_MODEL), COMPLETE], (Ending.SUCCESS, None)),
        ([message(f"I mean: {LIMIT}"), COMPLETE], (Ending.SUCCESS, None)),
        ([message("Ran into this error: 429", **BY_MODEL), COMPLETE], (Ending.SUCCESS, None)),
        ([message("Ran into this error: 429"), message("more", **BY_MODEL), COMPLETE], (Ending.SUCCESS, None)),
        ([message("I mean: Ran into this error: 429"), COMPLETE], (Ending.SUCCESS, None)),
        ([message("more", **BY_MODEL), message(LIMIT), COMPLETE], (Ending.TURN_LIMIT, LIMIT)),
        (
            [message("Ran into this error: status 429. Please retry if you think it may help"), COMPLETE],
            (Ending.RATE_LIMITED, "Ran into this error: status 429."),
        ),
        ([message("Network error: gone\nPlease resend your message")], (Ending.ENDPOINT_DOWN, "Network error: gone")),
        ([message("I say: Network error: gone"), COMPLETE], (Ending.SUCCESS, None)),
        ([message("Network error: gone", **BY_MODEL), COMPLETE], (Ending.SUCCESS, None)),
        ([{"type": "error", "error": "status 401"}, COMPLETE], (Ending.AUTHENTICATION, "status 401")),
        ([{"type": "error", "error": "fell"}], (Ending.CRASHED, "fell")),
        ([message({"type": "error", "message": "status 503"}), COMPLETE], (Ending.ENDPOINT_DOWN, "status 503")),
        ([{"type": "error", "error": "fell"}, message("Network error: gone")], (Ending.CRASHED, "fell")),
    ],
    "opencode": [
        ([finish("stop")], (Ending.SUCCESS, None)),
        ([finish("content-filter")], (Ending.REFUSED, "the model refused")),
        ([finish("length")], (Ending.GAVE_UP, "its last answer ended for the reason 'length'")),
        ([finish("tool-calls")], LOST),
        ([finish("stop"), finish("tool-calls")], LOST),
        ([{"type": "error", "error": {"name": "Odd"}}], (Ending.CRASHED, "Odd")),
        ([{"type": "error", "error": {"name": "Odd", "data": {"message": "why"}}}], (Ending.CRASHED, "why")),
        ([{"type": "error", "error": {"data": {"message": "why", "statusCode": 404}}}], (Ending.UNKNOWN_MODEL, "why")),
    ],
    "model": [
        ([ends("done")], (Ending.SUCCESS, None)),
        ([ends("gave_up", message="cut off")], (Ending.GAVE_UP, "cut off")),
        ([ends("refused")], (Ending.REFUSED, None)),
        ([ends("turn_limit")], (Ending.TURN_LIMIT, None)),
        ([ends("stopped")], (Ending.TIMED_OUT, None)),
        ([ends("endpoint_down")], (Ending.ENDPOINT_DOWN, None)),
        ([ends("error")], (Ending.CRASHED, "its call of the model failed")),
        ([ends("error", message="no", status=401)], (Ending.AUTHENTICATION, "no")),
        ([ends("error", message="status 503")], (Ending.ENDPOINT_DOWN, "status 503")),
        ([ends("never heard of")], LOST),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("agent", "events", "ending"), [(agent, *case) for agent, cases in ENDINGS.items() for case in cases]
)
def test_an_agent_ends_as_its_last_events_say(
    tmp_path: Path, agent: str, events: Events, ending: tuple[Ending, str | None]
) -> None:
    assert ending_of(tmp_path, agent, events) == ending
