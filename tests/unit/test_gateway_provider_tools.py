"""Tools that endpoints run themselves are taken out of requests, and requests that force one are refused."""

from __future__ import annotations

import contextlib
import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.gateway.provider_tools import ProviderTools
from pytest_benchjobs.gateway.wires import Unsendable, recognise

from .gateways import Model, Said, agent, running

PATHS = {
    "messages": "/anthropic/v1/messages",
    "chat": "/openai/v1/chat/completions",
    "responses": "/openai/v1/responses",
    "generate": "/google/v1beta/models/m-1:generateContent",
}
F: dict[str, Any] = {
    "type": "function",
    "name": "f",
    "parameters": {"tools": "free", "image_url": "http://x"},
}
OWN: dict[str, list[dict[str, Any]]] = {
    "messages": [{"name": "f", "input_schema": {}}, {"type": "bash_20250124", "name": "bash"}],
    "chat": [{"type": "function", "function": F}, {"type": "custom", "custom": {"name": "c"}}],
    "responses": [F, {"type": "shell", "environment": {"type": "local"}}, {"type": "computer_use_preview"}],
    "generate": [{"functionDeclarations": [F]}, {"computerUse": {}}],
}
OFFERED: list[tuple[str, dict[str, Any], str]] = [
    ("messages", {"type": "web_search_20250305", "name": "web_search"}, "web_search"),
    ("messages", {"type": "mcp_toolset", "mcp_server_name": "x"}, "mcp"),
    ("chat", {"type": "openrouter:web_search"}, "openrouter_web_search"),
    ("responses", {"type": "web_search_preview_2025_03_11"}, "web_search"),
    ("responses", {"type": "mcp", "server_url": "http://x"}, "mcp"),
    ("responses", {"type": "shell", "environment": {"type": "container_auto"}}, "shell"),
    ("generate", {"googleSearch": {}}, "google_search"),
    ("generate", {"url_context": {}}, "url_context"),
]
MCP = {"type": "mcp"}
URL = "https://example.com/secret.png"
SOURCE = {"source": {"type": "url", "url": URL}}
INPUTS: list[tuple[str, Any]] = [
    ("messages", {"content": [{"type": "image", **SOURCE}]}),
    ("messages", {"content": [{"type": "tool_result", "content": [SOURCE]}]}),
    ("chat", {"content": [{"type": "image_url", "image_url": {"url": URL}}]}),
    ("chat", {"content": [{"type": "video_url", "video_url": [URL]}]}),
    ("responses", {"content": [{"type": "input_file", "file_url": URL}]}),
    ("responses", {"type": "function_call_output", "output": [{"type": "input_image", "image_url": URL}]}),
    ("generate", {"parts": [{"fileData": {"fileUri": URL}}]}),
    ("generate", {"parts": [{"file_data": {"file_uri": "gs://bucket/x"}}]}),
]


def _taken(wire: str, asked: dict[str, Any], *allowed: str) -> tuple[str, ...]:
    call = recognise("POST", PATHS[wire])
    assert call is not None
    return ProviderTools(allowed).take_out(call, asked)


@pytest.mark.parametrize(("wire", "tool", "name"), OFFERED)
def test_what_is_offered_goes_and_tools_of_the_agent_stay(wire: str, tool: dict[str, Any], name: str) -> None:
    asked = {"tools": [*OWN[wire], copy.deepcopy(tool)], "tool_choice": {"type": "auto"}}
    assert _taken(wire, asked) == (name,)
    assert asked == {"tools": OWN[wire], "tool_choice": {"type": "auto"}}
    alone = {"tools": [copy.deepcopy(tool)], "tool_choice": "auto"}
    assert _taken(wire, alone) == (name,)
    assert alone == ({"tools": [], "tool_choice": "auto"} if wire == "responses" else {})
    assert _taken(wire, {"tools": [tool]}, name) == ()


@pytest.mark.parametrize(
    ("wire", "asked", "left", "name"),
    [
        ("messages", {"mcp_servers": [{"type": "url", "url": "http://x"}]}, {}, "mcp"),
        ("messages", {"container": "c"}, {}, "code_execution"),
        ("chat", {"web_search_options": {}, "use_beam_search": True}, {"use_beam_search": True}, "web_search"),
        ("chat", {"plugins": [{"id": "web"}]}, {}, "plugins"),
        ("responses", {"input": [{"tools": [MCP, F]}]}, {"input": [{"tools": [F]}]}, "mcp"),
        ("responses", {"tools": [{"type": "namespace", "tools": [F, MCP]}]}, {"tools": [{"type": "namespace", "tools": [F]}]}, "mcp"),
        ("responses", {"tools": [F, MCP], "tool_choice": {"type": "allowed_tools", "tools": [MCP]}}, {"tools": [F], "tool_choice": "none"}, "mcp"),
    ],
)  # fmt: skip
def test_it_is_found_anywhere(wire: str, asked: dict[str, Any], left: dict[str, Any], name: str) -> None:
    assert (_taken(wire, asked), asked) == ((name,), left)


SEARCH = {"type": "web_search_20250305", "name": "find"}


@pytest.mark.parametrize(
    ("wire", "asked"),
    [
        ("messages", {"tools": [SEARCH], "tool_choice": {"type": "tool", "name": "find"}}),
        ("messages", {"tools": [SEARCH], "tool_choice": {"type": "any"}}),
        ("responses", {"tools": [F, {"type": "web_search"}], "tool_choice": {"type": "web_search_preview"}}),
        ("responses", {"tools": [MCP], "tool_choice": "required"}),
        ("responses", {"tools": MCP}),
        ("responses", {"tools": [{"type": ["mcp"]}]}),
        *((wire, {"messages": [item]}) for wire, item in INPUTS),
    ],
)
def test_what_forces_one_is_refused(wire: str, asked: dict[str, Any]) -> None:
    with pytest.raises(Unsendable):
        _taken(wire, asked)


@pytest.mark.parametrize(("wire", "item"), INPUTS)
def test_addresses_pass_where_allowed_or_where_they_are_no_content(wire: str, item: Any) -> None:
    assert _taken(wire, {"messages": [item]}, "url") == ()
    assert (
        _taken(wire, {"messages": [{"input": item}, {"args": item}, {"action": item}, {"text": URL}]}) == ()
    )


@given(st.recursive(st.none() | st.text(), lambda one: st.lists(one) | st.dictionaries(st.text(), one)))
def test_any_json_is_refused_or_reduced_for_good(value: Any) -> None:
    for wire in PATHS:
        for key in ("tools", "tool_choice", "input", "container"):
            asked = {"tools": [{"type": "x", "x": {}}], key: copy.deepcopy(value)}
            with contextlib.suppress(Unsendable):
                _taken(wire, asked)
                assert _taken(wire, asked) == ()


@pytest.mark.parametrize("wire", PATHS)
def test_a_route_passes_on_what_is_left_and_reports_it(wire: str, tmp_path: Path, model: Model) -> None:
    tool, name = next((tool, name) for one, tool, name in OFFERED if one == wire)
    body = {"model": "m-1", "tools": [*OWN[wire], tool]}
    record, terms = tmp_path / "records", {"provider_tools": ()}
    model.otherwise = Said(400, b"{}")
    with running(tmp_path, record=record) as gateway, agent(gateway, model, terms=terms) as one:
        one.call(PATHS[wire], body)
        refused = one.call(PATHS[wire], {"model": "m-1", "messages": [dict(INPUTS)[wire]]})
        assert [asked.json["tools"] for asked in model.asked] == [OWN[wire]]
        assert (refused.status, "needs url" in refused.json["error"]["message"]) == (400, True)
        assert one.route.close().taken_out == (name,)
    replaying = running(tmp_path, replay=record, replay_exact=True)
    with replaying as gateway, agent(gateway, model, terms=terms) as one:
        assert one.call(PATHS[wire], body).status == 400
