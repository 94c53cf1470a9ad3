"""Tools that an endpoint runs itself, such as a search: a way out of a container without a network.

Known are the tools that an agent runs. Whatever else a request offers is taken out of it. A request that leaves the
endpoint no choice is refused: one that forces such a tool, or has an address of content that the endpoint would fetch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ..model.endpoint import Wire
from .wires import Call, Kind, Unsendable

_OF_AGENTS: Mapping[Wire, frozenset[str]] = {
    "anthropic": frozenset(
        [
            *("custom", "bash", "text_editor", "computer", "memory"),
            *("tool_search_tool", "tool_search_tool_regex", "tool_search_tool_bm25"),
        ]
    ),
    "openai": frozenset(
        [
            *("function", "custom", "namespace", "local_shell", "apply_patch"),
            *("computer", "computer_use", "tool_search"),
        ]
    ),
    "google": frozenset(["function_declarations", "computer_use"]),
}
"""Tools that an agent runs, and searches among the tools of the request itself."""
_SETTING = re.compile(
    r"(?:^|_)(?:web|mcp|plugins?|connectors?|container|grounding|retrieval|data_sources|(?<!beam_)search)(?:_|$)"
)
"""Settings beside `tools` that make endpoints search, fetch or run something, by the words of their names."""
_SAME = {
    "mcp_servers": "mcp",
    "mcp_toolset": "mcp",
    "web_search_options": "web_search",
    "container": "code_execution",
}
"""Name of a setting or tool -> name of the tool that it is for."""
_ADDRESS = "url"
"""Name under which a scenario allows addresses of content."""
_FREE = frozenset(
    [
        *("args", "arguments", "response", "action", "parameters", "schema", "json_schema", "input_schema"),
        *("responseSchema", "responseJsonSchema", "response_schema", "response_json_schema", "metadata"),
        "current_url",  # of a browser that the agent runs
    ]
)
"""Keys below which names are free: what an agent's own tools take and give."""
_ANY = ("any", "required")
_OTHER = re.compile(r"\W+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_VERSION = re.compile(r"(?:_preview)?(?:_\d{8}|_\d{4}_\d{2}_\d{2})?$")


class ProviderTools:
    """Tools that the endpoints of a trial may run: those with these names. None: all."""

    def __init__(self, allowed: Sequence[str] | None) -> None:
        self._allowed = None if allowed is None else frozenset(allowed)

    def take_out(self, call: Call, request: dict[str, Any]) -> tuple[str, ...]:
        """Take all others out of a parsed request; return their names. Raises Unsendable: the request forces one."""
        return () if self._allowed is None else _Request(call, self._allowed).reduce(request)


EVERY_TOOL = ProviderTools(None)


class _Request:
    """One request that tools are taken out of."""

    def __init__(self, call: Call, allowed: frozenset[str]) -> None:
        self._permitted = allowed | _OF_AGENTS[call.wire]
        self._by_key = call.wire == "google"
        """The keys of a tool say what it is, not its `type`."""
        self._takes_no_tools = call.kind is Kind.RESPONSES
        """A list of tools may be empty, and a choice among none may be made."""
        self._gone: dict[str, None] = {}
        self._gone_names: list[object] = []
        """Names that the request has for them."""
        self._left = 0

    def reduce(self, request: dict[str, Any]) -> tuple[str, ...]:
        rest = {key: value for key, value in request.items() if not _SETTING.search(_name(key))}
        for key in [key for key in request if key not in rest]:
            if request[key] in (None, False) or not self._permits(_name(key)):
                del request[key]
        choice = rest.pop("tool_choice", None)
        self._walk(rest)
        request.update(rest)
        if self._gone:
            self._check_choice(request, choice)
            if request.get("tools") == [] and not self._takes_no_tools:
                for key in ("tools", "tool_choice", "parallel_tool_calls"):
                    request.pop(key, None)
        return tuple(self._gone)

    def _permits(self, name: str) -> bool:
        name = _SAME.get(name, name)
        if name in self._permitted:
            return True
        self._gone[name] = None
        return False

    def _walk(self, rest: dict[str, Any]) -> None:
        """Reduce all lists of tools, at whatever depth, and refuse addresses of content."""
        parts: list[Any] = [rest]
        while parts:
            part = parts.pop()
            if isinstance(part, list):
                parts += part
            elif isinstance(part, dict):
                for key, value in part.items():
                    if key == "tools":
                        part[key] = tools = self._reduced(value)
                        parts += (tool for tool in tools or () if isinstance(tool.get("tools"), list))
                    elif key not in _FREE and not (key == "input" and isinstance(value, dict)):
                        self._check_address(part, key, value)
                        parts.append(value)

    def _reduced(self, tools: object) -> list[dict[str, Any]] | None:
        if tools is None:
            return None
        if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
            raise Unsendable("`tools` must be a list of objects")
        left = [tool for tool in tools if (self._reduce_keys(tool) if self._by_key else self._stays(tool))]
        self._left += len(left)
        return left

    def _reduce_keys(self, tool: dict[str, Any]) -> bool:
        for key in [key for key in tool if not self._permits(_name(key))]:
            del tool[key]
        return bool(tool)

    def _stays(self, tool: Mapping[str, Any]) -> bool:
        kind = tool.get("type")
        if not isinstance(kind, str | None):
            raise Unsendable("the type of a tool must be a string")
        place = tool.get("environment")
        if kind == "shell" and isinstance(place, dict) and place.get("type") == "local":
            return True
        if kind is None or self._permits(_name(kind)):
            return True
        self._gone_names.append(tool.get("name"))
        return False

    def _check_address(self, part: Mapping[str, Any], key: str, value: object) -> None:
        """Refuse URLs of content, except those that hold the content itself."""
        name = key.lower()
        is_address = part.get("type") == "url" if name in ("url", "uri") else name.endswith(("url", "uri"))
        if not is_address or _ADDRESS in self._permitted:
            return
        for one in value if isinstance(value, list) else [value]:
            url = one.get("url") if isinstance(one, dict) else one
            if isinstance(url, str) and ":" in url and not url.lstrip().lower().startswith("data:"):
                self._refuse(_ADDRESS)

    def _check_choice(self, request: dict[str, Any], choice: object) -> None:
        """Refuse a choice that leaves only tools that are gone."""
        said = choice if isinstance(choice, dict) else {"type": choice}
        kind, left = said.get("type"), self._left
        if kind == "allowed_tools" and isinstance(among := said.get("allowed_tools", said), dict):
            among["tools"] = self._reduced(among.get("tools"))
            kind, left = among.get("mode"), len(among["tools"] or ())
            if not left:
                request["tool_choice"] = "none"
        if (
            (kind in _ANY and not left)
            or (kind == "tool" and said.get("name") in self._gone_names)
            or _name(str(kind)) in self._gone
        ):
            self._refuse(next(iter(self._gone)))

    def _refuse(self, name: str) -> NoReturn:
        raise Unsendable(
            f"it needs {name}, which runs at the endpoint, outside of this trial's network; a scenario allows it with "
            f"`provider_tools: [{name}]`"
        )


def _name(text: str) -> str:
    """Return the name of a tool or setting, the same in all spellings and versions."""
    return _VERSION.sub("", _OTHER.sub("_", _CAMEL.sub("_", text)).lower())
