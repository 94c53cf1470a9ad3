"""Only calls of models pass, without the agent's keys."""

from __future__ import annotations

import json

import pytest

from pytest_benchjobs.gateway.outgoing import credentials
from pytest_benchjobs.gateway.wires import Call, Kind, error_body, recognise, wire_of


@pytest.mark.parametrize(
    ("method", "target", "call"),
    [
        ("POST", "/anthropic/v1/messages?beta=true", Call("anthropic", Kind.MESSAGES, "POST", "/v1/messages?beta=true")),
        ("POST", "/anthropic/v1/messages/count_tokens", Call("anthropic", Kind.OTHER, "POST", "/v1/messages/count_tokens")),
        ("GET", "/anthropic/v1/models/claude-1", Call("anthropic", Kind.OTHER, "GET", "/v1/models/claude-1")),
        ("POST", "/openai/v1/chat/completions", Call("openai", Kind.CHAT, "POST", "/chat/completions")),
        ("POST", "/openai/v1/responses", Call("openai", Kind.RESPONSES, "POST", "/responses")),
        ("GET", "/openai/v1/models", Call("openai", Kind.OTHER, "GET", "/models")),
        ("GET", "/openai/v1/models/org/name", Call("openai", Kind.OTHER, "GET", "/models/org/name")),
        ("POST", "/google/v1beta/models/g-2.5:streamGenerateContent?alt=sse&key=abc", Call("google", Kind.GENERATE, "POST", "/v1beta/models/g-2.5:streamGenerateContent?alt=sse", "g-2.5")),
        ("POST", "/google/v1beta/models/g:generateContent?key=abc", Call("google", Kind.GENERATE, "POST", "/v1beta/models/g:generateContent", "g")),
        ("POST", "/google/v1beta/models/g:countTokens", Call("google", Kind.OTHER, "POST", "/v1beta/models/g:countTokens")),
    ],
)  # fmt: skip
def test_calls_of_models_are_known(method: str, target: str, call: Call) -> None:
    assert recognise(method, target) == call


@pytest.mark.parametrize(
    "line",
    [
        "GET /anthropic/v1/messages", "GET /openai/v1/models/%2e%2e/files", "GET /openai/v1/models/x y",
        "GET /", "GET http://127.0.0.1/openai/v1/models", "GET /openai/v1/models/%252e%252e/files",
        "GET /openai/v1/models/x%2f..%2f..%2ffiles", "GET /openai/v1/models//files", "GET /openai/v1/models/../files",
        "GET /openai/v1/models/x%0d%0aHost:y", "GET /openai/v1/responses/resp_1",
        "GET /openai/v1/realtime?model=m-1", "GET *", "POST /v1/messages", "POST /anthropic/v1/files",
        "POST /anthropicx/v1/messages", "POST /openai/chat/completions",
        "POST http://169.254.169.254/openai/v1/chat/completions", "POST //openai/v1/chat/completions",
        "POST /openai/v1//chat/completions", "POST /openai/v1/./chat/completions",
        "POST /openai/v1/x/../chat/completions", "POST /openai/v1/%2e%2e/v1/chat/completions",
        "POST /openai/v1/chat/completions/", "POST /openai/v1/chat/completions%00",
        "POST /openai/v1/chat/completions%0d%0aX:y", "POST /openai/v1/chat/completions;x",
        "POST /openai/v1/chat\\completions", "POST /openai/v1/realtime/sessions", "POST /openai/v1/batches",
        "POST /openai/v1/files", "POST /openai/v1/embeddings", "POST /openai/v1/completions",
        "POST /anthropic/v1/messages/batches", "POST /google/v1beta/models/m-1:batchGenerateContent",
        "POST /google/v1beta/models/m-1:generateContent:x",
        "POST /google/v1beta/models/../models/m-1:generateContent", "POST /google/v1beta/cachedContents",
        "POST /google/upload/v1beta/files", "DELETE /openai/v1/models/x", "CONNECT 127.0.0.1:22",
        "CONNECT /openai/v1/models",
    ],
)  # fmt: skip
def test_nothing_else_is(line: str) -> None:
    assert recognise(*line.split(" ", 1)) is None


def test_each_wire_carries_its_key_in_its_own_way() -> None:
    assert credentials("anthropic", "k") == {"x-api-key": "k"}
    assert credentials("openai", "k") == {"Authorization": "Bearer k"}
    assert credentials("google", "k") == {"x-goog-api-key": "k"}
    assert credentials("openai", None) == {}
    assert credentials("anthropic", "sk-ant-oat01-t") == {
        "Authorization": "Bearer sk-ant-oat01-t",
        "anthropic-beta": "oauth-2025-04-20",
    }


def test_each_wire_says_errors_in_its_own_way() -> None:
    assert json.loads(error_body("anthropic", 402, "no")) == {
        "type": "error",
        "error": {"type": "billing_error", "message": "no"},
    }
    assert json.loads(error_body("openai", 402, "no"))["error"]["message"] == "no"
    assert json.loads(error_body("google", 404, "no")) == {
        "error": {"code": 404, "message": "no", "status": "NOT_FOUND"}
    }
    # What OpenAI's own client takes for worth another try.
    for status, kind in ((499, "invalid_request_error"), (500, "server_error"), (503, "server_error")):
        assert json.loads(error_body("openai", status, "no"))["error"]["type"] == kind
    assert wire_of("/google/what") == "google"
    assert wire_of("/what") is None
