"""Specification of an agent: `agent[@version]:model[@url]`, `name=./path[:model[@url]]` or `name=command:SHELL`."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from typing import Any

from .base import Model
from .errors import InputError

_AGENT = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")
_PATH = re.compile(r"^(?:\.{1,2}(?:/|$)|~?/)")
_UNSAFE = re.compile(r"[^A-Za-z0-9._+:/@=,-]+")
_LIKE_A_HOST = re.compile(r"[.:/]")
_LABEL_LIMIT = 60
_NAME = "letters, digits, '.', '_', '+' and '-' only"
COMMAND = "command"


class AgentSpec(Model):
    """One agent under test. `str()` is its label."""

    name: str
    version: str | None = None
    model: str | None = None
    """For `command`, the shell command itself."""
    provider: str | None = None
    """Provider of the model (`--bench-provider`): groq, vllm, ..."""
    base_url: str | None = None
    params: dict[str, Any] = {}
    """Parameters of this cell of a matrix (`--bench-matrix`), such as `{"temperature": 0}`."""
    path: str | None = None
    """Absolute path of the program, a file or directory of this machine (`NAME=./PATH`)."""
    command: str | None = None
    """Shell command that is the agent (`NAME=command:SHELL`)."""

    @classmethod
    def parse(cls, text: str) -> AgentSpec:
        """Read `NAME`, `NAME:MODEL`, `NAME@VERSION:MODEL@URL`, `command:SHELL`, `NAME=command:SHELL` or `NAME=./PATH`.

        Splits at the first colon, so models may contain colons. Whether the agent exists, and whether it needs a
        model, is for the registry of agents to say. A relative path stays relative.

        Raises:
            InputError: empty, no name before the colon, an impossible name, or nothing after the colon.
        """
        text = text.strip()
        if not text:
            raise InputError("an empty agent was given. Use format: agent:model, for example codex:gpt-5.5")
        name, colon, rest = text.partition(":")
        if "=" in name:
            return cls._named(text)
        name, at, version = name.partition("@")
        if not name:
            raise InputError(f"invalid agent {text!r}: no name before ':'. Use format: agent:model")
        if not _AGENT.match(name):
            raise InputError(_not_a_name(name))
        if at and not version:
            raise InputError(f"invalid agent {text!r}: no version after '@'. Use format: agent@version:model")
        if name == COMMAND and not rest.strip():
            raise InputError("command needs the shell command to run. Use format: command:SHELL COMMAND")
        if colon and not rest.strip():
            raise InputError(f"no model specified for agent {name!r}. Use format: {name}:model")
        if name == COMMAND:
            return cls(name=name, version=version or None, model=rest or None)
        return cls(name=name, version=version or None, **_model_of(rest))

    @classmethod
    def _named(cls, text: str) -> AgentSpec:
        """Read `NAME=command:SHELL`, `NAME=PATH` or `NAME=PATH:MODEL@URL`."""
        name, _, what = text.partition("=")
        name, what = name.strip(), what.strip()
        if not _AGENT.match(name):
            raise InputError(f"invalid agent name {name!r}: {_NAME}")
        if what.startswith(f"{COMMAND}:"):
            command = what.removeprefix(f"{COMMAND}:").strip()
            if not command:
                raise InputError(
                    f"{name} needs the shell command to run. Use format: {name}=command:SHELL COMMAND"
                )
            return cls(name=name, command=command)
        path, colon, rest = what.partition(":")
        if not _PATH.match(path):
            raise InputError(
                f"invalid agent {text!r}: after '=' a path is expected, beginning with './', '../', '~/' or '/', or "
                f"command:SHELL COMMAND. Use format: {name}=./{path.lstrip('/') or 'my-agent'}"
            )
        if colon and not rest.strip():
            raise InputError(f"no model specified for agent {name!r}. Use format: {name}={path}:model")
        return cls(name=name, path=path, **_model_of(rest))

    @functools.cached_property
    def label(self) -> str:
        """Name of this agent in node ids and tables, up to `agent@version:provider/model@host,key=value`.

        `https://` is left out, `http://` is not. A shell command, or whatever else would not survive in a node id, is
        shortened and ends in a digest.
        """
        full = self.name
        if self.version is not None:
            full += f"@{self.version}"
        if self.model is not None:
            full += f":{self.provider}/{self.model}" if self.provider is not None else f":{self.model}"
        if self.base_url is not None:
            host = self.base_url.removeprefix("https://").rstrip("/")
            full += f"@{host if _LIKE_A_HOST.search(host) else self.base_url}"
        full += "".join(f",{key}={_plain(value)}" for key, value in sorted(self.params.items()))
        safe = _UNSAFE.sub("_", full).replace("::", "_")
        # `m@some.host` may be a model of that name, or a model at that host.
        ambiguous = _LIKE_A_HOST.search((self.model or "").partition("@")[2]) is not None
        if safe == full and len(full) <= _LABEL_LIMIT and not ambiguous:
            return full
        exact = "\0".join((full, self.model or "")) if ambiguous else full
        digest = hashlib.sha256(exact.encode("utf-8", "replace")).hexdigest()[:8]
        return f"{safe[:_LABEL_LIMIT].rstrip('_')}-{digest}"

    def __hash__(self) -> int:
        return hash(self.label)  # `params` has no hash of its own

    def __str__(self) -> str:
        return self.label


def _not_a_name(name: str) -> str:
    """Say why a text is not the name of an agent, and what to write if it is a path or several agents."""
    if "/" in name:
        path = name if _PATH.match(name) else f"./{name}"
        return f"invalid agent {name!r}: an agent of a path needs a name; write NAME={path}"
    several = [part for part in re.split(r"[\s,;]+", name) if _AGENT.match(part)]
    if len(several) > 1:
        return (
            f"invalid agent {name!r}: one agent is expected; for several, repeat the option, or write one on each line "
            f"of the ini file: {several[0]}, then {several[1]}"
        )
    return f"invalid agent name {name!r}: {_NAME}"


def _model_of(rest: str) -> dict[str, str | None]:
    """Read what is behind the colon: `MODEL` or `MODEL@URL`."""
    model, _, url = rest.partition("@http")
    return {"model": model or None, "base_url": f"http{url}" if url else None}


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, separators=(",", ":"))
