"""An agent described by data: the source of its program, its call, and the models it can use.

    name = "my-agent"
    version = "1.4.0"
    wires = ["openai"]
    argv = ["{agent}/bin/my-agent", "run", "--model", "{model}"]
    env = {OPENAI_BASE_URL = "{url}", OPENAI_API_KEY = "{key}"}
    [source]
    npm = "my-agent-{platform}@{version}"

Texts may hold the placeholders of `PLACEHOLDERS`. A table as the value of a variable or file becomes JSON.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, Strict, ValidationInfo, model_validator

from ..model.base import Capability, Model, Name
from ..model.endpoint import Endpoint, Wire
from ..model.errors import InputError
from ..model.scenario import EnvName
from ..sources.complaints import Complaints, did_you_mean
from ..sources.documents import SETTINGS_BYTES, read_document
from ..sources.plain import Place, dotted

PLACEHOLDERS = {
    "agent": "directory with the agent's files",
    "node": "the program node, if `runtimes` has it",
    "ca": "a file with certificate authorities, if `runtimes` has it",
    "problem": "file with the problem statement",
    "state": "an empty directory the agent may write to",
    "model": "the model, as its provider calls it",
    "provider": "who serves it",
    "url": "base URL of the model, which ends in /v1 for the wire openai and has no version for the others",
    "host": "the same without /v1",
    "key": "value to use as the key",
    "value": "the parameter, in `parameters` only",
    "server": "name of an MCP server; this and the following in `mcp` only",
    "server_url": "its URL",
    "server_command": "its program",
    "server_args": "its arguments, a list",
    "server_argv": "its program and its arguments, a list",
    "server_line": "the same as a line for a shell",
    "server_command_json": "its program as JSON, for use within a text",
    "server_args_json": "its arguments as JSON, for use within a text",
    "server_url_json": "its URL as JSON, for use within a text",
}
"""Placeholders in braces -> the explanation of each."""
_OF_SOURCE = ("version", "platform", "arch")
_PLACEHOLDER = re.compile(r"(?<![${])\{([a-z_]+)\}(?!\})")
_OF_MODEL = {"model", "provider", "url", "host", "key"}
_OF_SERVER = {name for name in PLACEHOLDERS if name.startswith("server")}

_MEANT = {
    "args": "argv",
    "cmd": "argv",
    "command": "argv",
    "description": "about",
    "environment": "env",
    "path": "source",
    "program": "argv",
    "run": "argv",
    "start": "argv",
    "variables": "env",
}
"""Words for keys of other formats -> the key that is meant."""

_USUAL: dict[Wire, dict[str, str]] = {
    "openai": {"OPENAI_BASE_URL": "{url}", "OPENAI_API_KEY": "{key}"},
    "anthropic": {"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": "{key}"},
    "google": {"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": "{key}", "GOOGLE_API_KEY": "{key}"},
}
"""Wire -> the variables that libraries read, for an agent that names no wires."""

Text = Annotated[str, Field(min_length=1)]
Value = str | dict[str, Any]


class _Strict(Model):
    model_config = ConfigDict(use_attribute_docstrings=True)


class CallSettings(_Strict):
    """Additions to a call."""

    argv: tuple[str, ...] = ()
    """Arguments, added after the others."""
    env: dict[EnvName, Value] = {}
    """Variables. A table becomes JSON."""
    files: dict[Text, Value] = {}
    """Files: a path in `{state}`, or an absolute one -> a text, or a table that becomes JSON."""


class Case(CallSettings):
    """Settings for some endpoints."""

    wires: tuple[Wire, ...] = ()
    """Empty: any."""
    providers: tuple[Text, ...] = ()
    """Empty: any."""

    def fits(self, endpoint: Endpoint) -> bool:
        """True if they apply to this endpoint."""
        return (not self.wires or endpoint.wire in self.wires) and (
            not self.providers or endpoint.provider in self.providers
        )


class Parameter(CallSettings):
    """Settings for a parameter of `--bench-extra` or `--bench-matrix`, with `{value}` for its value."""

    type: Literal["integer", "number", "text"] = "text"
    choices: tuple[Text, ...] = ()
    """Allowed values of a text."""

    def fault(self, value: object) -> str | None:
        """Reason why a value is invalid, in a few words; None if it is valid."""
        if self.type == "text":
            if not isinstance(value, str):
                return "is no text"
            wrong = self.choices and value not in self.choices
            return f"is not one of {', '.join(self.choices)}" if wrong else None
        kinds = int if self.type == "integer" else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds):
            return f"is not a {'whole ' if self.type == 'integer' else ''}number"
        return None


class TurnSettings(_Strict):
    """The program and its arguments in a conversation of several turns, which it continues by itself."""

    first: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Those of the first turn; default: `argv` of the agent."""
    argv: Annotated[tuple[str, ...], Field(min_length=1)]
    """Those of every later turn, whose message is its standard input. Files in `{state}` are still there."""


class McpSettings(CallSettings):
    """Settings with which it is given the MCP servers of a scenario; those of a transport apply to each server.

    Without those of a transport it does not take such servers.
    """

    stdio: CallSettings | None = None
    """A program, which speaks on its standard streams."""
    http: CallSettings | None = None
    """Streamable HTTP."""
    sse: CallSettings | None = None
    """HTTP with server-sent events."""

    @property
    def transports(self) -> tuple[str, ...]:
        """The transports it takes."""
        return tuple(name for name in ("stdio", "http", "sse") if getattr(self, name) is not None)


class ProgramSource(_Strict):
    """Source of the program: `npm` or `path`; neither if it is in the image."""

    npm: Text | None = None
    """An npm package, such as `my-agent-{platform}@{version}`. Its install scripts are not run."""
    path: Text | None = None
    """A file or directory beside the description, `.` for the directory it is in. Sandboxes see it read-only."""
    root: str = ""
    """Directory of the package to keep; it may contain `{arch}`: x86_64 or aarch64."""
    leave_out: tuple[Text, ...] = ()
    """Patterns of files to leave out, relative to `root` or to the directory of `path`."""
    archives: dict[Text, Annotated[str, Field(pattern=r"^sha512-[A-Za-z0-9+/=]{88}$")]] = {}
    """Platform (`linux-x64`, `linux-arm64`) -> digest of the archive of the default version, as npm writes it. It has
    no program for other platforms, if there are any here."""

    @model_validator(mode="after")
    def _one_place(self) -> ProgramSource:
        if self.npm is not None and self.path is not None:
            raise ValueError("has both npm and path; give one of them")
        if self.npm is None and (self.root or self.archives):
            raise ValueError("root and archives need npm")
        if self.npm is None and self.path is None and self.leave_out:
            raise ValueError("leave_out needs npm or path")
        if self.npm is not None and "{version}" not in self.npm:
            raise ValueError("npm needs a {version}, for reproducible runs: my-agent@{version}")
        return self


class Description(CallSettings):
    """An agent."""

    name: Name
    """Name before the colon."""
    about: str = ""
    """Description in one line."""
    version: Text | None = None
    """Version that is fetched unless another is requested, as in `name@version:model`."""
    source: ProgramSource = ProgramSource()
    runtimes: tuple[Literal["node", "ca"], ...] = ()
    """Runtimes it needs: `node`, and `ca`, a file with certificate authorities."""
    argv: Annotated[tuple[str, ...], Field(min_length=1)]
    """The program and its arguments. It runs in the scenario's working directory, with the problem statement as its
    standard input."""
    stdin: Annotated[bool, Strict()] = True
    """True: its standard input is the problem statement. Else it is closed, and `argv` should contain `{problem}`."""
    wires: tuple[Wire, ...] = ()
    """Wires that it supports. None: it needs no model, and gets the usual variables of one that is given."""
    provider: Text | None = None
    """Default provider of its models. None: the name of the model tells the provider."""
    key_variables: tuple[EnvName, ...] = ()
    """Variables that may hold the key of `provider`, beside the provider's own."""
    helper_models: tuple[Text, ...] = ()
    """Small models it calls beside its own, such as for titles; `*` stands for anything. It may call no others."""
    aliases: dict[Text, tuple[Text, ...]] = {}
    """Short names of models it takes -> the models that they stand for, as in `sonnet = ["claude-*sonnet*"]`."""
    capabilities: tuple[Capability, ...] | None = None
    """Capabilities that scenarios may require, such as `shell` and `vision`. None: unknown, and all are assumed."""
    reads: Literal["claude-code", "codex", "gemini-cli", "opencode", "goose", "none"] = "none"
    """Format of its output."""
    cases: tuple[Case, ...] = ()
    """Settings for some endpoints: the first that fits applies. If there are any, one must fit."""
    parameters: dict[Text, Parameter] = {}
    """Parameters that it takes."""
    conversation: TurnSettings | None = None
    """Calls that continue a conversation. None: it cannot, and gets the conversation so far."""
    mcp: McpSettings | None = None
    """Settings for the MCP servers of a scenario."""
    skills: Text | None = None
    """Directory that the skills of a scenario are copied to, such as `{state}/skills`."""

    @model_validator(mode="after")
    def _fits_together(self, info: ValidationInfo) -> Description:
        if self.source.npm is not None and self.version is None:
            raise ValueError("a package of npm needs a version")
        if self.version is not None and self.source.npm is None:
            raise ValueError("only a package of npm has a version that can be fetched; leave it out")
        faults = list(self._unknown_placeholders())
        if isinstance(info.context, list):
            info.context.extend(faults)
        elif faults:
            place, fault = faults[0]
            raise ValueError(f"{dotted(place)}: {fault}")
        return self

    def _unknown_placeholders(self) -> Iterator[tuple[Place, str]]:
        """Yield each with its place."""
        without = set()
        if self.source.npm is None and self.source.path is None:
            without.add("agent")
        if not self.wires:
            without |= _OF_MODEL
        without |= {"node", "ca"} - set(self.runtimes)
        for place, text in self._all_texts():
            known = PLACEHOLDERS.keys() - without
            known -= set() if place[0] == "parameters" else {"value"}
            known -= set() if place[0] == "mcp" and place[1] in self._transports else _OF_SERVER
            for name in _PLACEHOLDER.findall(text):
                if name not in known:
                    near = "there is none here" if name in PLACEHOLDERS else did_you_mean(name, known).strip()
                    yield place, f"unknown placeholder {{{name}}}; {near or 'see docs/agents.md'}"

    def with_model(self) -> Description:
        """Itself, with the usual variables of a model's provider if it names no wires. Its own variables stay."""
        if self.wires:
            return self
        usual = (
            Case(wires=(wire,), env={**env, "BENCH_MODEL": "{model}", **self.env})
            for wire, env in _USUAL.items()
        )
        return self.model_copy(update={"wires": tuple(_USUAL), "cases": (*self.cases, *usual)})

    @property
    def _transports(self) -> tuple[str, ...]:
        return () if self.mcp is None else self.mcp.transports

    def _all_texts(self) -> Iterator[tuple[Place, str]]:
        """Yield the texts that may hold placeholders, with their places."""
        settings: list[tuple[Place, CallSettings]] = [((), self)]
        settings += ((("cases", index), case) for index, case in enumerate(self.cases))
        settings += ((("parameters", name), parameter) for name, parameter in self.parameters.items())
        if self.mcp is not None:
            settings.append((("mcp",), self.mcp))
            settings += ((("mcp", name), getattr(self.mcp, name)) for name in self._transports)
        for place, one in settings:
            for key in CallSettings.model_fields:
                yield from _texts(getattr(one, key), (*place, key))
        if self.conversation is not None:
            for key in TurnSettings.model_fields:
                yield from _texts(getattr(self.conversation, key), ("conversation", key))
        if self.skills is not None:
            yield ("skills",), self.skills

    def in_turn(self, turn: int | None) -> CallSettings:
        """The settings for a turn of a conversation, counted from 1; None: there is no conversation."""
        if turn is None or self.conversation is None:
            return self
        argv = self.conversation.argv if turn > 1 else self.conversation.first or self.argv
        return CallSettings(argv=argv, env=self.env, files=self.files)

    def case_for(self, endpoint: Endpoint) -> Case | None:
        """The settings for an endpoint; None if there are none for any.

        Raises InputError: there are some, and none fits.
        """
        found = next((case for case in self.cases if case.fits(endpoint)), None)
        if found is None and self.cases:
            raise InputError(f"{self.name} cannot use {endpoint.provider}")
        return found


def read_description(path: Path) -> Description:
    """Read a file; `.toml` is TOML, anything else YAML. Raises InputErrors: every mistake in it, with file and line."""
    document = read_document(path, keys="agents.md", limit=SETTINGS_BYTES)
    complaints = Complaints(document)
    complaints.unknown_keys(Description, document.data, otherwise=lambda _: " leave it out", meant=_MEANT)
    found = complaints.check(Description, document.data)
    if found is not None and found.argv[0].startswith(("./", "../")):
        source, file = found.source, posixpath.normpath(found.argv[0])
        if source.path or source.npm or (path.parent / file).exists():
            how = "" if source.path or source.npm else 'give source = { path = "." } and '
            why = f"{found.argv[0]!r} is looked for in the scenario's working directory; {how}write '{{agent}}/{file}'"
            complaints.wrong(("argv", 0), why)
    complaints.raise_errors()
    if found is None:  # an error was raised
        raise InputError("is no agent", path=path)
    return found


def description_schema() -> dict[str, Any]:
    """JSON Schema of a description, for editors and for `benchjobs schema`."""
    schema = Description.model_json_schema(mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def filled(value: Any, values: Mapping[str, Any]) -> Any:
    """A copy with placeholders replaced, in keys as well. One that is a whole text keeps the type of its value."""
    if isinstance(value, str):
        whole = _PLACEHOLDER.fullmatch(value)
        if whole is not None and whole[1] in values:
            return values[whole[1]]
        return _PLACEHOLDER.sub(lambda match: str(values.get(match[1], match[0])), value)
    if isinstance(value, Mapping):
        return {str(filled(key, values)): filled(item, values) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [filled(item, values) for item in value]
    return value


def filled_source(text: str, version: str, platform: str) -> str:
    """Fill in a text of a `ProgramSource`, for one version and platform."""
    arch = "aarch64" if platform.endswith("arm64") else "x86_64"
    for name, value in zip(_OF_SOURCE, (version, platform, arch), strict=True):
        text = text.replace(f"{{{name}}}", value)
    return text


def _texts(value: object, place: Place) -> Iterator[tuple[Place, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield (*place, key), key
            yield from _texts(item, (*place, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _texts(item, (*place, index))
