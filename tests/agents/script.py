"""What the scripted model does next, decided by markers in the prompt and by how many tool results came back.

    <<<RUN: command>>>         one call of the agent's shell tool for each, in order
    <<<LOOK: path>>>           in the same order, one call of its tool that looks at an image
    <<<FIND: name>>>           in the same order, one search for a tool, by agents that offer some only then
    <<<CALL: name>>>           in the same order, one call of the tool whose name ends so, without arguments
    <<<SAY: text>>>            what it says when there is nothing more to run (default: all done)
    <<<LOOP>>>                 a tool call every time, for ever
    <<<SLEEP: seconds>>>       before every answer
    <<<ERR: 500>>>             every call is answered with this status
    <<<ERRAFTER: 400>>>        the same, from the first tool result on
    <<<CUT>>>                  streams break off in the middle; what is not streamed is whole
    <<<CUT: all>>>             all answers break off in the middle
    <<<STALL>>>                the request is read, and never answered
    <<<DRIP>>>                 an answer of a blank now and then, for ever
    <<<GARBAGE: kind>>>        200 with what is no answer: html, json, other or empty
    <<<NOEND>>>                streams lack the protocol's own end; what is not streamed is cut off
    <<<REFUSE>>>               the model refuses, in the protocol's own words
    <<<DROP>>>                 the connection is closed without an answer
    <<<ID: anything>>>         nothing; tells prompts apart

`ERR` takes a status or `quota` (the provider's hard quota); `ERR`, `ERRAFTER`, `CUT` and `DROP` take `times=N`,
after which all is well, and errors take `retry-after=SECONDS`: `<<<ERR: 429 times=1 retry-after=2>>>`.

The script has no other memory, so an agent that asks again is answered the same.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_MARKER = re.compile(r"<<<([A-Z]+)(?::\s*(.*?))?\s*>>>", re.DOTALL)
_KNOWN = frozenset(
    [
        *("RUN", "LOOK", "CALL", "FIND", "SAY", "LOOP", "SLEEP", "ERR", "ERRAFTER", "CUT", "DROP", "ID"),
        *("STALL", "DRIP", "GARBAGE", "NOEND", "REFUSE"),
    ]
)
_SHELLS = (
    "Bash", "bash", "exec_command", "shell_command", "shell", "local_shell", "run_shell_command",
    "developer__shell", "exec",
)  # fmt: skip
"""Names of shell tools, the one to prefer first."""
_LOOKING = {
    "Read": "file_path",
    "view_image": "path",
    "read_file": "file_path",
    "read_image": "source",
    "read": "filePath",
}
"""Names of tools that look at images -> their argument with the path."""
SEARCH = "tool_search"
"""Name of a tool for searches that has none, in Responses."""
_FINDING = ("ToolSearch", SEARCH)
_COMMAND_ARGUMENTS = ("command", "cmd", "script", "code")

Given = Callable[[str, int], bool]
"""Whether a fault that is to happen so many times is to happen once more; it counts."""


@dataclasses.dataclass(frozen=True)
class Tool:
    """A tool the agent offers."""

    name: str
    schema: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    custom: bool = False
    """It takes text (a program in JavaScript), not JSON."""
    namespace: str | None = None
    """Of Responses: the group of tools that it is in."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """A request, whatever protocol it came by."""

    model: str
    stream: bool
    texts: tuple[str, ...] = ()
    """What the user said."""
    results: tuple[str, ...] = ()
    """What tools gave back so far."""
    tools: tuple[Tool, ...] = ()


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of a tool."""

    id: str
    name: str
    arguments: Mapping[str, Any] | str
    """A string for a custom tool."""
    namespace: str | None = None

    @property
    def json(self) -> str:
        return json.dumps(self.arguments)


@dataclasses.dataclass(frozen=True)
class Fault:
    """An answer that is an error."""

    status: int
    quota: bool = False
    retry_after: str | None = None


@dataclasses.dataclass(frozen=True)
class Turn:
    """What to answer."""

    id: str
    text: str = ""
    call: Call | None = None
    fault: Fault | None = None
    sleep: float = 0.0
    cut: bool = False
    drop: bool = False
    stall: bool = False
    drip: bool = False
    garbage: str | None = None
    no_end: bool = False
    refuse: bool = False


class UnknownMarker(ValueError):
    """The test has a typo."""


def turn(asked: Asked, given: Given) -> Turn:
    """The answer to a request."""
    prompt = next((text for text in asked.texts if _MARKER.search(text)), "")
    markers = [(name, argument or "") for name, argument in _MARKER.findall(prompt)]
    if unknown := {name for name, _ in markers} - _KNOWN:
        raise UnknownMarker(f"the prompt has unknown markers: {', '.join(sorted(unknown))}")
    last = dict(markers)
    step = len(asked.results)
    digest = hashlib.sha256(prompt.encode("utf-8", "replace")).hexdigest()[:10]
    identity = f"{digest}{step:04d}"

    def happens(name: str) -> bool:
        return name in last and _happens(last[name], f"{digest}:{name}", given)

    fault = None
    if happens("ERR"):
        fault = _fault(last["ERR"])
    elif step and happens("ERRAFTER"):
        fault = _fault(last["ERRAFTER"])
    work = [(name, argument) for name, argument in markers if name in ("RUN", "LOOK", "CALL", "FIND")]
    if "LOOP" in last:
        work = [("RUN", f"echo turn {step}")] * (step + 1)
    name, argument = work[step] if step < len(work) else (None, "")
    tool = None
    if name == "CALL":
        tool = next((one for one in asked.tools if one.name.endswith(argument)), None)
    elif name is not None:
        tool = _offered(asked.tools, {"RUN": _SHELLS, "LOOK": _LOOKING, "FIND": _FINDING}[name])
    call = None
    if tool is not None and name == "LOOK":
        call = Call(f"call_{identity}", tool.name, {_LOOKING[tool.name]: argument})
    elif tool is not None and name == "FIND":
        call = Call(f"call_{identity}", tool.name, {"query": argument})
    elif tool is not None and name == "CALL":
        call = Call(f"call_{identity}", tool.name, {}, tool.namespace)
    elif tool is not None:
        call = _call(tool, argument, f"call_{identity}")
    return Turn(
        id=identity,
        text=(last.get("SAY") or "all done") if call is None else "",
        call=None if "REFUSE" in last else call,
        fault=fault,
        sleep=float(last.get("SLEEP", 0)),
        cut=(asked.stream or last.get("CUT") == "all") and fault is None and happens("CUT"),
        drop=fault is None and happens("DROP"),
        stall="STALL" in last,
        drip="DRIP" in last,
        garbage=last.get("GARBAGE"),
        no_end="NOEND" in last,
        refuse="REFUSE" in last,
    )


def _happens(argument: str, key: str, given: Given) -> bool:
    times = re.search(r"times=(\d+)", argument)
    return times is None or given(key, int(times[1]))


def _fault(argument: str) -> Fault:
    what = argument.split()[0]
    retry_after = re.search(r"retry-after=(\S+)", argument)
    return Fault(
        status=429 if what == "quota" else int(what),
        quota=what == "quota",
        retry_after=retry_after[1] if retry_after else None,
    )


def _offered(tools: tuple[Tool, ...], names: Iterable[str]) -> Tool | None:
    """The first of these that is among the tools."""
    offered = {tool.name: tool for tool in tools}
    return next((offered[name] for name in names if name in offered), None)


def _call(tool: Tool, command: str, identity: str) -> Call:
    if tool.custom:
        program = f"const r = await tools.exec_command({json.dumps({'cmd': command})});\ntext(r.output);\n"
        return Call(identity, tool.name, program)
    properties: Mapping[str, Any] = tool.schema.get("properties") or {}
    name = next((name for name in _COMMAND_ARGUMENTS if name in properties), "command")
    arguments: dict[str, Any] = {
        required: _filler(properties.get(required, {})) for required in tool.schema.get("required") or ()
    }
    listed = str(properties.get(name, {}).get("type", "")).lower() == "array"
    arguments[name] = ["bash", "-c", command] if listed else command
    return Call(identity, tool.name, arguments)


def _filler(schema: Mapping[str, Any]) -> Any:
    kind = str(schema.get("type", "string")).lower()
    return {"boolean": False, "integer": 60, "number": 60, "array": [], "object": {}}.get(kind, "as asked")
