"""The scripted model server says the same in four protocols."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from .server import ModelServer, Usage
from .wires import words

PROMPT = "Make it. <<<RUN: echo hi > made.txt>>> <<<SAY: It is made, I think>>>"
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}

WIRES = ("anthropic", "chat", "responses", "google")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def post(
    server: ModelServer, path: str, body: Any, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    try:
        connection.request("POST", path, json.dumps(body), headers or {})
        answer = connection.getresponse()
        content = answer.read()
        return answer.status, {name.lower(): value for name, value in answer.headers.items()}, content
    finally:
        connection.close()


def request(wire: str, prompt: str, *, stream: bool, results: tuple[str, ...] = (), model: str = "m") -> Any:
    """Path and body of a request in a protocol."""
    body: dict[str, Any]
    if wire == "anthropic":
        said: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": prompt}]}]
        said += [
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": result}]}
            for result in results
        ]
        tools = [{"name": "Bash", "input_schema": SCHEMA}]
        return "/v1/messages?beta=true", {"model": model, "messages": said, "tools": tools, "stream": stream}
    if wire == "chat":
        said = [{"role": "user", "content": prompt}]
        said += [{"role": "tool", "tool_call_id": "1", "content": result} for result in results]
        tools = [{"type": "function", "function": {"name": "shell", "parameters": SCHEMA}}]
        body = {"model": model, "messages": said, "tools": tools, "stream": stream}
        return "/v1/chat/completions", {**body, "stream_options": {"include_usage": True}}
    if wire == "responses":
        said = [{"role": "user", "content": [{"type": "input_text", "text": prompt}]}]
        said += [{"type": "function_call_output", "call_id": "1", "output": result} for result in results]
        tools = [{"type": "function", "name": "exec_command", "parameters": SCHEMA}]
        return "/v1/responses", {"model": model, "input": said, "tools": tools, "stream": stream}
    said = [{"role": "user", "parts": [{"text": prompt}]}]
    said += [
        {"role": "user", "parts": [{"functionResponse": {"name": "x", "response": {"output": result}}}]}
        for result in results
    ]
    functions = [{"name": "run_shell_command", "parametersJsonSchema": SCHEMA}]
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/v1beta/models/{model}:{method}", {
        "contents": said,
        "tools": [{"functionDeclarations": functions}],
    }


def events(content: bytes) -> list[Any]:
    return [
        json.loads(line.removeprefix(b"data: "))
        for line in content.splitlines()
        if line.startswith(b"data: ") and line != b"data: [DONE]"
    ]


def said(wire: str, content: bytes, *, stream: bool) -> tuple[str, list[Any]]:
    """Text and arguments of tool calls in an answer."""
    if not stream:
        whole = json.loads(content)
        if wire == "anthropic":
            parts = whole["content"]
            return "".join(part.get("text", "") for part in parts), [
                p["input"] for p in parts if "input" in p
            ]
        if wire == "chat":
            message = whole["choices"][0]["message"]
            calls = message.get("tool_calls", [])
            return message["content"] or "", [json.loads(call["function"]["arguments"]) for call in calls]
        if wire == "responses":
            text = "".join(p["text"] for item in whole["output"] for p in item.get("content", ()))
            return text, [json.loads(item["arguments"]) for item in whole["output"] if "arguments" in item]
        parts = whole["candidates"][0]["content"]["parts"]
        calls = [part["functionCall"]["args"] for part in parts if "functionCall" in part]
        return "".join(part.get("text", "") for part in parts), calls
    text, arguments = "", ""
    found = []
    for event in events(content):
        if wire == "anthropic":
            delta = event.get("delta", {})
            text += delta.get("text", "")
            arguments += delta.get("partial_json", "")
        elif wire == "chat":
            for choice in event["choices"]:
                text += choice["delta"].get("content") or ""
                for call in choice["delta"].get("tool_calls", ()):
                    arguments += call["function"]["arguments"]
        elif wire == "responses":
            text += event["delta"] if event["type"] == "response.output_text.delta" else ""
            arguments += event["delta"] if event["type"] == "response.function_call_arguments.delta" else ""
        else:
            for part in event["candidates"][0]["content"]["parts"]:
                text += part.get("text", "")
                found += [part["functionCall"]["args"]] if "functionCall" in part else []
    return text, found + ([json.loads(arguments)] if arguments else [])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", WIRES)
def test_the_script_is_the_same_in_every_protocol(server: ModelServer, wire: str, stream: bool) -> None:
    status, _, content = post(server, *request(wire, PROMPT, stream=stream))
    assert (status, said(wire, content, stream=stream)) == (200, ("", [{"command": "echo hi > made.txt"}]))
    status, _, content = post(server, *request(wire, PROMPT, stream=stream, results=("ok",)))
    assert (status, said(wire, content, stream=stream)) == (200, ("It is made, I think", []))
    assert [(call.wire, call.asked and call.asked.results, call.complete) for call in server.calls] == [
        (wire, (), True),
        (wire, ("ok",), True),
    ]
    written = None if wire == "google" else 60
    assert server.usage == Usage(2, 2460, 80, 400, written, 10)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", WIRES)
def test_what_an_answer_used_is_told_as_each_protocol_counts(
    server: ModelServer, wire: str, stream: bool
) -> None:
    _, _, content = post(server, *request(wire, "Say it.", stream=stream))
    answers = events(content) if stream else [json.loads(content)]
    if wire == "anthropic":
        used: dict[str, Any] = {}
        for answer in answers:
            used |= answer.get("message", answer).get("usage", {})
        total = used["input_tokens"] + used["cache_creation_input_tokens"] + used["cache_read_input_tokens"]
        assert (total, used["output_tokens"]) == (1230, 40)
    elif wire == "chat":
        used = answers[-1]["usage"]
        assert (used["prompt_tokens"], used["completion_tokens"], used["total_tokens"]) == (1230, 40, 1270)
    elif wire == "responses":
        used = answers[-1]["response"]["usage"] if stream else answers[-1]["usage"]
        assert (used["input_tokens"], used["output_tokens"], used["total_tokens"]) == (1230, 40, 1270)
    else:
        used = answers[-1]["usageMetadata"]
        assert used["promptTokenCount"] == 1230
        assert used["candidatesTokenCount"] + used["thoughtsTokenCount"] == 40
        assert used["totalTokenCount"] == 1270


@pytest.mark.parametrize("wire", WIRES)
def test_errors_have_the_protocols_shape_and_end_when_they_are_told_to(
    server: ModelServer, wire: str
) -> None:
    asked = request(wire, "<<<ERR: 429 times=2 retry-after=7>>>", stream=True)
    answers = [post(server, *asked) for _ in range(3)]
    assert [status for status, _, _ in answers] == [429, 429, 200]
    assert answers[0][1]["retry-after"] == "7"
    error = json.loads(answers[0][2])["error"]
    assert error.get("type") == "rate_limit_error" or error.get("status") == "RESOURCE_EXHAUSTED"
    server.reset()
    assert post(server, *asked)[0] == 429


@pytest.mark.parametrize("wire", WIRES)
def test_keys_and_models_are_refused(server: ModelServer, wire: str) -> None:
    path, body = request(wire, PROMPT, stream=False)
    header = {"anthropic": "x-api-key", "google": "x-goog-api-key"}.get(wire, "authorization")
    key = "Bearer bad-key" if header == "authorization" else "bad-key"
    assert post(server, path, body, {header: key})[0] == 401
    assert server.keys == {"bad-key"}
    assert post(server, *request(wire, PROMPT, stream=False, model="no-such-model"))[0] == 404
    assert server.usage.calls == 0


@pytest.mark.parametrize("wire", WIRES)
def test_a_cut_stream_has_no_end_and_is_not_counted(server: ModelServer, wire: str) -> None:
    with pytest.raises(http.client.IncompleteRead) as cut:
        post(server, *request(wire, "<<<CUT>>><<<SAY: a long enough text for several pieces>>>", stream=True))
    assert cut.value.partial
    assert [(call.complete, call.counted) for call in server.calls] == [(False, False)]


@pytest.mark.parametrize("wire", WIRES)
def test_a_broken_stream_ends_in_an_error(server: ModelServer, wire: str) -> None:
    _, _, content = post(server, *request(wire, "<<<BROKEN>>>", stream=True))
    last = events(content)[-1]
    assert last.get("type") in ("error", "response.failed") or "error" in last
    assert server.usage.calls == 0


def test_a_dropped_connection_has_no_answer(server: ModelServer) -> None:
    with pytest.raises(http.client.RemoteDisconnected):
        post(server, *request("chat", "<<<DROP>>>", stream=False))


@pytest.mark.parametrize("wire", WIRES)
def test_a_hard_quota_is_told_the_way_of_each_provider(server: ModelServer, wire: str) -> None:
    status, _, content = post(server, *request(wire, "<<<ERR: quota>>>", stream=False))
    assert status == (400 if wire == "anthropic" else 429)
    assert "credit balance" in str(content) or "quota" in str(content)


def test_usage_may_be_missing(server: ModelServer) -> None:
    for wire in WIRES:
        for stream in (False, True):
            _, _, content = post(server, *request(wire, "<<<USAGE: none>>>", stream=stream))
            assert b'"usage": {' not in content
            assert b"usageMetadata" not in content
    assert server.usage == Usage(cache_write_tokens=0)


def test_a_loop_never_ends(server: ModelServer) -> None:
    for turns in range(3):
        _, _, content = post(server, *request("chat", "<<<LOOP>>>", stream=False, results=("r",) * turns))
        assert said("chat", content, stream=False)[1] == [{"command": f"echo turn {turns}"}]


def test_a_typing_error_in_a_marker_is_told(server: ModelServer) -> None:
    status, _, content = post(server, *request("chat", "<<<RUNN: true>>>", stream=False))
    assert status == 400
    assert b"RUNN" in content


def test_google_streams_without_sse_are_one_array(server: ModelServer) -> None:
    path, body = request("google", "<<<SAY: something in pieces>>>", stream=True)
    _, _, content = post(server, path.replace("?alt=sse", ""), body)
    parts = [chunk["candidates"][0]["content"]["parts"] for chunk in json.loads(content)]
    assert "".join(part["text"] for (part,) in parts) == "something in pieces"


def test_closing_breaks_off_whoever_waits() -> None:
    server = ModelServer().start()
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    path, body = request("chat", "<<<SLEEP: 3600>>><<<DROP>>>", stream=False)
    connection.request("POST", path, json.dumps(body))
    server.close()
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        connection.getresponse()
    connection.close()


def test_words_are_all_of_the_text_in_few_pieces() -> None:
    for length in (0, 1, 7, 8, 9, 400, 100_001):
        text = "abcdefghij" * 20_000
        assert "".join(words(text[:length])) == text[:length]
        assert len(words(text[:length])) <= 51
