"""The four protocols: what is asked in each, and how an answer is said in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from .script import SEARCH, Asked, Call, Fault, Tool, Turn

JSON = dict[str, Any]

INPUT, CACHE_READ, CACHE_WRITE, OUTPUT, REASONING = 1000, 200, 30, 40, 5
"""Tokens of every call. The input is what no cache had; the output has the reasoning in it."""
INPUT_ALL = INPUT + CACHE_READ + CACHE_WRITE

_NAMES = {
    400: ("invalid_request_error", "INVALID_ARGUMENT"),
    401: ("authentication_error", "UNAUTHENTICATED"),
    403: ("permission_error", "PERMISSION_DENIED"),
    404: ("not_found_error", "NOT_FOUND"),
    413: ("request_too_large", "INVALID_ARGUMENT"),
    429: ("rate_limit_error", "RESOURCE_EXHAUSTED"),
    503: ("api_error", "UNAVAILABLE"),
    529: ("overloaded_error", "UNAVAILABLE"),
}


class Wire(Protocol):
    """One protocol."""

    def asked(self, body: JSON, model: str, stream: bool) -> Asked:
        """What a request asks."""

    def answer(self, turn: Turn, asked: Asked) -> JSON:
        """An answer in one piece."""

    def pieces(self, turn: Turn, asked: Asked, body: JSON) -> Iterator[bytes]:
        """An answer as a stream."""

    def error(self, fault: Fault, message: str) -> JSON:
        """An error."""


def words(text: str) -> list[str]:
    """Text in pieces, as a stream has it: at most 50 of them."""
    size = max(1, -(-len(text) // 50), min(8, len(text)))
    return [text[start : start + size] for start in range(0, len(text), size)]


def text_of(content: Any) -> list[str]:
    """All text in a message's content: a string, a part or a list of parts."""
    if isinstance(content, str):
        return [content]
    if isinstance(content, list):
        return [text for part in content for text in text_of(part)]
    if isinstance(content, Mapping) and isinstance(content.get("text"), str):
        return [content["text"]]
    return []


def sse(data: JSON, event: str | None = None) -> bytes:
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


_THINKING = {"output_tokens_details": {"thinking_tokens": REASONING}}


class Messages:
    """Anthropic Messages."""

    def asked(self, body: JSON, model: str, stream: bool) -> Asked:
        texts: list[str] = []
        results: list[str] = []
        for message in body.get("messages", ()):
            content = message["content"]
            parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
            for part in parts if message["role"] == "user" else ():
                if part.get("type") == "tool_result":
                    results.append("".join(text_of(part.get("content"))))
                else:
                    texts += text_of(part)
        tools = tuple(Tool(tool["name"], tool.get("input_schema", {})) for tool in body.get("tools", ()))
        return Asked(model, stream, tuple(texts), tuple(results), tools)

    def answer(self, turn: Turn, asked: Asked) -> JSON:
        message = self._message(turn, asked)
        message["usage"] |= _THINKING
        message["content"] = [self._block(turn.call, turn.text)]
        message["stop_reason"] = "refusal" if turn.refuse else "tool_use" if turn.call else "end_turn"
        return message

    def pieces(self, turn: Turn, asked: Asked, body: JSON) -> Iterator[bytes]:
        def event(name: str, **data: Any) -> bytes:
            return sse({"type": name, **data}, name)

        message = self._message(turn, asked)
        message["usage"]["output_tokens"] = 1
        yield event("message_start", message=message)
        block = self._block(turn.call and Call(turn.call.id, turn.call.name, {}), "")
        yield event("content_block_start", index=0, content_block=block)
        yield event("ping")
        for piece in words(turn.call.json if turn.call else turn.text):
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield event(
                "content_block_delta",
                index=0,
                delta=delta if turn.call else {"type": "text_delta", "text": piece},
            )
        yield event("content_block_stop", index=0)
        why = "refusal" if turn.refuse else "tool_use" if turn.call else "end_turn"
        stop = {"stop_reason": why, "stop_sequence": None}
        yield event("message_delta", delta=stop, usage={"output_tokens": OUTPUT, **_THINKING})
        yield event("message_stop")

    def error(self, fault: Fault, message: str) -> JSON:
        if fault.quota:
            kind, message = (
                "invalid_request_error",
                "Your credit balance is too low to access the Anthropic API.",
            )
        else:
            kind = _NAMES.get(fault.status, ("api_error", ""))[0]
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}

    def _block(self, call: Call | None, text: str) -> JSON:
        if call is None:
            return {"type": "text", "text": text}
        return {"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": call.arguments}

    def _message(self, turn: Turn, asked: Asked) -> JSON:
        return {
            "id": f"msg_{turn.id}",
            "type": "message",
            "role": "assistant",
            "model": asked.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {
                "input_tokens": INPUT,
                "cache_creation_input_tokens": CACHE_WRITE,
                "cache_read_input_tokens": CACHE_READ,
                "output_tokens": OUTPUT,
            },
        }


def _openai_error(fault: Fault, message: str) -> JSON:
    if fault.quota:
        message = "You exceeded your current quota, please check your plan and billing details."
        kind = code = "insufficient_quota"
    else:
        kind = _NAMES.get(fault.status, ("server_error", ""))[0]
        code = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}.get(fault.status)
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


class Chat:
    """OpenAI Chat Completions."""

    usage: JSON = {
        "prompt_tokens": INPUT_ALL,
        "completion_tokens": OUTPUT,
        "total_tokens": INPUT_ALL + OUTPUT,
        "prompt_tokens_details": {"cached_tokens": CACHE_READ, "cache_write_tokens": CACHE_WRITE},
        "completion_tokens_details": {"reasoning_tokens": REASONING},
    }

    def asked(self, body: JSON, model: str, stream: bool) -> Asked:
        said = body.get("messages", ())
        texts = [text for one in said if one["role"] == "user" for text in text_of(one.get("content"))]
        results = ["".join(text_of(one.get("content"))) for one in said if one["role"] == "tool"]
        functions = [tool["function"] for tool in body.get("tools") or () if tool.get("type") == "function"]
        tools = tuple(Tool(function["name"], function.get("parameters", {})) for function in functions)
        return Asked(model, stream, tuple(texts), tuple(results), tools)

    def answer(self, turn: Turn, asked: Asked) -> JSON:
        message: JSON = {"role": "assistant", "content": turn.text or None}
        if turn.call:
            message["tool_calls"] = [self._call(turn.call, turn.call.json)]
        choice = {"index": 0, "message": message, "finish_reason": self._why(turn)}
        whole = {**self._head(turn, asked, "chat.completion"), "choices": [choice]}
        return {**whole, "usage": self.usage}

    def pieces(self, turn: Turn, asked: Asked, body: JSON) -> Iterator[bytes]:
        head = self._head(turn, asked, "chat.completion.chunk")

        def chunk(delta: JSON, finish: str | None = None) -> bytes:
            return sse({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

        yield chunk({"role": "assistant", "content": ""})
        if turn.call:
            yield chunk({"tool_calls": [{"index": 0, **self._call(turn.call, "")}]})
            for piece in words(turn.call.json):
                yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        else:
            for piece in words(turn.text):
                yield chunk({"content": piece})
        yield chunk({}, self._why(turn))
        if (body.get("stream_options") or {}).get("include_usage"):
            yield sse({**head, "choices": [], "usage": self.usage})
        yield b"data: [DONE]\n\n"

    def error(self, fault: Fault, message: str) -> JSON:
        return _openai_error(fault, message)

    def _why(self, turn: Turn) -> str:
        return "content_filter" if turn.refuse else "tool_calls" if turn.call else "stop"

    def _head(self, turn: Turn, asked: Asked, kind: str) -> JSON:
        return {"id": f"chatcmpl-{turn.id}", "object": kind, "created": 1_750_000_000, "model": asked.model}

    def _call(self, call: Call, arguments: str) -> JSON:
        return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


class Responses:
    """OpenAI Responses."""

    usage: JSON = {
        "input_tokens": INPUT_ALL,
        "input_tokens_details": {"cached_tokens": CACHE_READ, "cache_write_tokens": CACHE_WRITE},
        "output_tokens": OUTPUT,
        "output_tokens_details": {"reasoning_tokens": REASONING},
        "total_tokens": INPUT_ALL + OUTPUT,
    }

    def asked(self, body: JSON, model: str, stream: bool) -> Asked:
        given = body.get("input", [])
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        texts: list[str] = []
        results: list[str] = []
        offered = list(body.get("tools") or ())
        for item in items:
            kind = item.get("type", "message")
            if kind == "message" and item.get("role") == "user":
                texts += text_of(item.get("content"))
            elif kind in ("function_call_output", "custom_tool_call_output"):
                results.append("".join(text_of(item.get("output"))))
            elif kind == "tool_search_output":
                results.append(json.dumps(item.get("tools")))
                offered += item.get("tools", ())
            elif kind == "additional_tools":
                offered += item.get("tools", ())
        return Asked(model, stream, tuple(texts), tuple(results), tuple(_responses_tools(offered)))

    def answer(self, turn: Turn, asked: Asked) -> JSON:
        return self._response(turn, asked, "completed", [self._item(turn)])

    def pieces(self, turn: Turn, asked: Asked, body: JSON) -> Iterator[bytes]:
        number = -1

        def event(name: str, **data: Any) -> bytes:
            nonlocal number
            number += 1
            return sse({"type": name, "sequence_number": number, **data}, name)

        yield event("response.created", response=self._response(turn, asked, "in_progress", []))
        yield event("response.in_progress", response=self._response(turn, asked, "in_progress", []))
        item = self._item(turn)
        place = {"item_id": item["id"], "output_index": 0}
        if turn.call and turn.call.name == SEARCH:
            yield event("response.output_item.added", output_index=0, item=item)
        elif turn.call:
            custom = isinstance(turn.call.arguments, str)
            field, name = (
                ("input", "custom_tool_call_input") if custom else ("arguments", "function_call_arguments")
            )
            yield event("response.output_item.added", output_index=0, item={**item, field: ""})
            for piece in words(item[field]):
                yield event(f"response.{name}.delta", **place, delta=piece)
            yield event(f"response.{name}.done", **place, **{field: item[field]})
        else:
            place["content_index"] = 0
            yield event("response.output_item.added", output_index=0, item={**item, "content": []})
            part = item["content"][0]
            yield event("response.content_part.added", **place, part={**part, "text": ""})
            for piece in words(turn.text):
                yield event("response.output_text.delta", **place, delta=piece)
            yield event("response.output_text.done", **place, text=turn.text)
            yield event("response.content_part.done", **place, part=part)
        yield event("response.output_item.done", output_index=0, item=item)
        if turn.refuse:
            response = self._response(turn, asked, "incomplete", [item])
            response["incomplete_details"] = {"reason": "content_filter"}
            yield event("response.incomplete", response=response)
            return
        yield event("response.completed", response=self._response(turn, asked, "completed", [item]))

    def error(self, fault: Fault, message: str) -> JSON:
        return _openai_error(fault, message)

    def _item(self, turn: Turn) -> JSON:
        if turn.call is None:
            part = {"type": "output_text", "text": turn.text, "annotations": []}
            message = {"type": "message", "status": "completed", "role": "assistant", "content": [part]}
            return {"id": f"msg_{turn.id}", **message}
        call: JSON = {
            "id": f"fc_{turn.id}",
            "call_id": turn.call.id,
            "name": turn.call.name,
            "status": "completed",
        }
        if turn.call.name == SEARCH:
            found = {"execution": "client", "arguments": turn.call.arguments}
            return {"type": "tool_search_call", **call, **found}
        if isinstance(turn.call.arguments, str):
            return {"type": "custom_tool_call", **call, "input": turn.call.arguments}
        if turn.call.namespace is not None:
            call["namespace"] = turn.call.namespace
        return {"type": "function_call", **call, "arguments": turn.call.json}

    def _response(self, turn: Turn, asked: Asked, status: str, output: list[JSON]) -> JSON:
        return {
            "id": f"resp_{turn.id}",
            "object": "response",
            "created_at": 1_750_000_000,
            "status": status,
            "model": asked.model,
            "error": None,
            "output": output,
            "usage": self.usage if status in ("completed", "incomplete") else None,
        }


def _responses_tools(offered: list[JSON], namespace: str | None = None) -> Iterator[Tool]:
    for tool in offered:
        custom = tool.get("type") == "custom"
        if tool.get("type") == "namespace":
            yield from _responses_tools(list(tool.get("tools", ())), tool["name"])
        elif tool.get("type") == SEARCH:
            yield Tool(SEARCH, tool.get("parameters") or {})
        elif "name" in tool:
            yield Tool(tool["name"], tool.get("parameters") or {}, custom=custom, namespace=namespace)


class Google:
    """Google generateContent and streamGenerateContent."""

    usage: JSON = {
        "promptTokenCount": INPUT_ALL,
        "cachedContentTokenCount": CACHE_READ,
        "candidatesTokenCount": OUTPUT - REASONING,
        "thoughtsTokenCount": REASONING,
        "totalTokenCount": INPUT_ALL + OUTPUT,
    }

    def asked(self, body: JSON, model: str, stream: bool) -> Asked:
        texts: list[str] = []
        results: list[str] = []
        for content in body.get("contents", ()):
            for part in content.get("parts", ()) if content.get("role", "user") != "model" else ():
                if "functionResponse" in part:
                    response = part["functionResponse"].get("response") or {}
                    results.append(str(response.get("output", json.dumps(response))))
                else:
                    texts += text_of(part)
        given = body.get("tools") or ()
        # Some clients send one object where the documentation has a list.
        offered = [given] if isinstance(given, Mapping) else given
        functions = [one for tool in offered for one in tool.get("functionDeclarations") or ()]
        tools = tuple(
            Tool(one["name"], one.get("parametersJsonSchema") or one.get("parameters") or {})
            for one in functions
        )
        return Asked(model, stream, tuple(texts), tuple(results), tools)

    def answer(self, turn: Turn, asked: Asked) -> JSON:
        return self._chunk(turn, asked, [self._part(turn)], "STOP")

    def pieces(self, turn: Turn, asked: Asked, body: JSON) -> Iterator[bytes]:
        parts = [self._part(turn)] if turn.call else [{"text": piece} for piece in words(turn.text)]
        for part in parts[:-1]:
            yield sse(self._chunk(turn, asked, [part], None))
        yield sse(self._chunk(turn, asked, parts[-1:], "SAFETY" if turn.refuse else "STOP"))

    def error(self, fault: Fault, message: str) -> JSON:
        error: JSON = {"code": fault.status, "message": message}
        error["status"] = _NAMES.get(fault.status, ("", "INTERNAL"))[1]
        if fault.quota:
            error["message"] = "You exceeded your current quota, please check your plan and billing details."
            violation = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel", "quotaValue": "50"}
            error["details"] = [
                {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}
            ]
        elif fault.retry_after and fault.retry_after.isdecimal():
            error["details"] = [
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{fault.retry_after}s"}
            ]
        return {"error": error}

    def _part(self, turn: Turn) -> JSON:
        if turn.call is None:
            return {"text": turn.text}
        return {"functionCall": {"id": turn.call.id, "name": turn.call.name, "args": turn.call.arguments}}

    def _chunk(self, turn: Turn, asked: Asked, parts: list[JSON], finish: str | None) -> JSON:
        candidate: JSON = {"content": {"role": "model", "parts": parts}, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        chunk: JSON = {"candidates": [candidate]}
        # Google's streams count up: only the last chunk has it all.
        chunk["usageMetadata"] = self.usage if finish else {"promptTokenCount": INPUT_ALL}
        return {**chunk, "modelVersion": asked.model, "responseId": turn.id}


WIRES: dict[str, Callable[[], Wire]] = {
    "anthropic": Messages,
    "chat": Chat,
    "responses": Responses,
    "google": Google,
}
