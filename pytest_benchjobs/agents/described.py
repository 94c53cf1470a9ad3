"""Agents described by data, such as the five that come with the package."""

from __future__ import annotations

import functools
import json
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ..model.agent import AgentSpec
from ..model.endpoint import GATEWAY_URL, PLACEHOLDER_KEY, Endpoint
from ..model.environ import HOST
from ..model.errors import AgentLacks, AgentSetupFailed, InputError
from ..model.scenario import McpServer
from ..sandbox.protocol import File, Mount
from .packages import PROGRAMS, Package, platform, trouble
from .protocol import AgentCall, AgentCommand
from .providers import ModelTarget, own_keys, target_of
from .reading import reader_of
from .snapshot import Snapshot, snapshot
from .starting import with_problem

if TYPE_CHECKING:
    # These models take time to build, so they are imported only when a description is used.
    from .description import CallSettings, Description, ProgramSource

SUFFIXES = (".agent.toml", ".agent.yaml", ".agent.yml")
"""Endings of the names of agent files."""
STATE = "/bench/agent"
"""Directory of an agent's own files, outside of its home, which belongs to the scenario."""
CA_FILE = f"{PROGRAMS}/ca.pem"
_NODE: dict[str, Any] = {
    "npm": "node-{platform}@{version}",
    "leave_out": ("include/*", "share/*"),
    "archives": {
        "linux-x64": "sha512-qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng==",
        "linux-arm64": "sha512-l3DAHZreylo+p9QXDtsOrjG2JXJqVzYXnAGmIQNOUNARcMppTO2cmewVQP+36tjJnSE+dzpMNtgW+c3oiDvXtA==",  # noqa: E501
    },
}
_NODE_VERSION = "22.23.3"
_OF_MODELS = frozenset({"temperature", "top_p", "reasoning_effort", "max_tokens", "max_turns"})
"""Parameters that can only be meant for the agent: one that does not take them reports an error."""


class DescribedAgent:
    """An agent defined by a description, which is read on first use."""

    trusted = False

    def __init__(self, name: str, read: Callable[[], Description], directory: Path | None = None) -> None:
        self.name = name
        self._read = read
        self._directory = directory
        self._snapshot: Snapshot | None = None
        self._lock = threading.Lock()

    @classmethod
    def of_file(cls, path: Path, name: str | None = None) -> DescribedAgent:
        """The agent that a file describes, under another name if one is given.

        Raises InputErrors: every mistake in it, with file and line.
        """
        description = _read(path)
        return cls(name or description.name, lambda: description, path.parent)

    @functools.cached_property
    def description(self) -> Description:
        """The parsed description."""
        return self._read()

    def _for(self, spec: AgentSpec) -> Description:
        """The description of a call, which has a model only if one was given or it needs one."""
        return self.description if spec.model is None else self.description.with_model()

    @property
    def source_path(self) -> Path | None:
        """The file or directory of this machine that has its program; None: it is fetched, or in the image."""
        path = self.description.source.path
        return None if path is None else (self._directory or Path()) / path

    @property
    def needs_model(self) -> bool:
        """True if `name` alone is an error."""
        return bool(self.description.wires)

    @property
    def parameters(self) -> frozenset[str] | None:
        """The parameters it reads; None: any, as programs of others may read them from their environment."""
        return frozenset(self.description.parameters) if self._directory is None else None

    @property
    def capabilities(self) -> frozenset[str] | None:
        """Its capabilities; None: unknown."""
        said = self.description.capabilities
        return None if said is None else frozenset(said)

    @property
    def resumes(self) -> bool:
        """True if it continues a conversation by itself."""
        return self.description.conversation is not None

    def packages(
        self, version: str | None = None, machine: Callable[[], str | None] = lambda: None
    ) -> tuple[Package, ...]:
        """Packages to fetch, its own program first. `machine` is that of the sandboxes, asked only if there are any."""
        source, found = self.description.source, []
        if source.npm is not None:
            found.append((self.name, version, self.description.version or "", source))
        if "node" in self.description.runtimes:
            from .description import ProgramSource

            found.append(("node", None, _NODE_VERSION, ProgramSource(**_NODE)))
        here = platform(machine()) if found else ""
        return tuple(_package(*about, here) for about in found)

    def endpoints(
        self, spec: AgentSpec, environ: Mapping[str, str], params: Mapping[str, Any]
    ) -> tuple[Endpoint, ...]:
        """The endpoints of its model. Raises InputError: the provider of its model is unknown."""
        target = self._target(spec, environ, params)
        return () if target is None else (target.endpoint,)

    def prepare(self, call: AgentCall) -> AgentCommand | None:
        """The command.

        Raises AgentSetupFailed: it was not fetched, or does not take a parameter; AgentLacks: it does not take an MCP
        server; InputError: the provider of its model is unknown.
        """
        from .description import filled

        description = self._for(call.spec)
        if call.spec.version is not None and description.source.npm is None:
            raise AgentSetupFailed(
                f"{self.name} has no versions to choose from; leave out @{call.spec.version}"
            )
        target = self._target(call.spec, HOST, call.params)
        packages = self.packages(call.spec.version, call.machine)
        for package in packages:
            if (why := trouble(package)) is not None:
                version = f"@{call.spec.version}" if call.spec.version is not None else ""
                other = "" if package.platform == platform() else f" --platform {package.platform}"
                raise AgentSetupFailed(
                    f"{package} {why}; run: benchjobs agents fetch {self.name}{version}{other}"
                )
        own = self.snapshot()
        values = self._values(call, target, packages)
        turn = None if call.conversation is None else len(call.conversation.exchanges) + 1
        settings = _merged(
            [
                (description.in_turn(turn), values),
                *(((case, values),) if target and (case := description.case_for(target.endpoint)) else ()),
                *self._parameters(call.params, values),
                *self._servers(call.scenario.environment.mcp_servers, values),
            ]
        )
        argv: tuple[str, ...] = tuple(settings.argv)
        if description.stdin:
            argv = with_problem(self.name, call.problem_file, argv)
        return AgentCommand(
            argv=argv,
            env={name: _text(value) for name, value in settings.env.items()},
            files=_state_files(settings.files),
            identity=", ".join([*map(str, packages), *([f"files {own.digest}"] if own is not None else [])]),
            version=call.spec.version or description.version,
            mounts=(
                *([Mount(own.files, f"{PROGRAMS}/{self.name}")] if own is not None else []),
                *(package.mount for package in packages),
                *self._authorities(),
            ),
            endpoints=() if target is None else (target.endpoint,),
            models=()
            if target is None
            else (target.model, *description.aliases.get(target.model, ()), *description.helper_models),
            skills=None if description.skills is None else str(filled(description.skills, values)),
            read=reader_of(
                description.reads,
                agent=self.name,
                version=call.spec.version or description.version,
                model=None if target is None else target.model,
            ),
        )

    def _target(
        self, spec: AgentSpec, environ: Mapping[str, str], params: Mapping[str, Any]
    ) -> ModelTarget | None:
        description = self._for(spec)
        if not description.wires:
            return None
        target = target_of(spec, description.wires, description.provider, environ, params)
        endpoint = target.endpoint
        if endpoint.provider != description.provider or not description.key_variables:
            return target
        if endpoint.key_variables != own_keys(endpoint.provider):
            return target  # that address gets only a key that was named for it
        variables = (*endpoint.key_variables, *description.key_variables)
        return ModelTarget(endpoint.model_copy(update={"key_variables": variables}), target.model)

    def _values(
        self, call: AgentCall, target: ModelTarget | None, packages: tuple[Package, ...]
    ) -> dict[str, Any]:
        values: dict[str, Any] = {"problem": call.problem_file, "state": STATE}
        for package in packages:
            if package.name == self.name:
                values["agent"] = package.target
            else:
                values["node"] = f"{package.target}/bin/node"
        if self.description.source.path is not None:
            values["agent"] = f"{PROGRAMS}/{self.name}"
        if "ca" in self.description.runtimes:
            values["ca"] = CA_FILE
        if target is not None:
            url = GATEWAY_URL[target.endpoint.wire]
            values |= {
                "model": target.model,
                "provider": target.endpoint.provider,
                "url": url,
                "host": url.removesuffix("/v1"),
                "key": PLACEHOLDER_KEY,
            }
        return values

    def _parameters(
        self, params: Mapping[str, Any], values: Mapping[str, Any]
    ) -> list[tuple[CallSettings, Mapping[str, Any]]]:
        known = self.description.parameters
        found: list[tuple[CallSettings, Mapping[str, Any]]] = []
        for name, value in sorted(params.items()):
            if name in known:
                if (fault := known[name].fault(value)) is not None:
                    raise AgentSetupFailed(f"{self.name}: parameter {name} {fault}: {str(value)[:100]!r}")
                found.append((known[name], {**values, "value": value}))
            elif name in _OF_MODELS:
                takes = ", ".join(sorted(known)) or "none"
                raise AgentSetupFailed(
                    f"{self.name} takes no parameter {name} (it takes: {takes}); leave it out, or use another agent"
                )
        return found

    def _servers(
        self, servers: Sequence[McpServer], values: Mapping[str, Any]
    ) -> list[tuple[CallSettings, Mapping[str, Any]]]:
        takes = self.description.mcp
        if takes is None or not servers:
            return []  # whether it may be left out is for `capabilities.py` to say
        found: list[tuple[CallSettings, Mapping[str, Any]]] = [(takes, values)]
        for server in servers:
            settings = getattr(takes, server.transport)
            if settings is None:
                raise AgentLacks(
                    f"{self.name} takes no MCP server of transport {server.transport} ({server.name}), only "
                    f"{' and '.join(takes.transports)}; use another agent"
                )
            found.append((settings, {**values, **_server_values(server)}))
        return found

    def snapshot(self) -> Snapshot | None:
        """The program beside the description, as it was at the first call; None if there is none.

        All trials of a job see the same files, even if the checkout changes meanwhile.

        Raises AgentSetupFailed: it does not exist, or cannot be read.
        """
        source = self.source_path
        if source is None:
            return None
        with self._lock:
            if self._snapshot is None:
                try:
                    self._snapshot = snapshot(source, self.name, self.description.source.leave_out)
                except InputError as error:
                    raise AgentSetupFailed(str(error)) from None
            return self._snapshot

    def _authorities(self) -> tuple[Mount, ...]:
        if "ca" not in self.description.runtimes:
            return ()
        import certifi

        return (Mount(Path(certifi.where()), CA_FILE),)


def packaged_agents() -> tuple[DescribedAgent, ...]:
    """The public agents that come with the package."""
    directory = Path(__file__).with_name("descriptions")
    return tuple(
        DescribedAgent(path.stem, functools.partial(_read, path)) for path in sorted(directory.glob("*.toml"))
    )


def _read(path: Path) -> Description:
    from .description import read_description

    return read_description(path)


def _package(name: str, version: str | None, default: str, source: ProgramSource, here: str) -> Package:
    from .description import filled_source

    wanted = version or default
    return Package(
        name=name,
        version=wanted,
        platform=here,
        npm=filled_source(source.npm or "", wanted, here),
        root=filled_source(source.root, wanted, here),
        leave_out=source.leave_out,
        integrity=source.archives.get(here) if wanted == default else None,
        platforms=tuple(sorted(source.archives)) if wanted == default else (),
    )


def _merged(parts: list[tuple[CallSettings, Mapping[str, Any]]]) -> CallSettings:
    """One call from several settings, with placeholders filled in."""
    from .description import CallSettings, filled

    argv: list[str] = []
    env: dict[str, Any] = {}
    files: dict[str, Any] = {}
    for settings, values in parts:
        argv += [str(argument) for argument in filled(settings.argv, values)]
        env = _laid_over(env, filled(settings.env, values))
        files = _laid_over(files, filled(settings.files, values))
    return CallSettings.model_construct(argv=tuple(argv), env=env, files=files)


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(below)
    for key, value in above.items():
        old = both.get(key)
        both[key] = _laid_over(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return both


def _server_values(server: McpServer) -> dict[str, Any]:
    argv = [server.command or "", *server.args]
    return {
        "server": server.name,
        "server_url": server.url or "",
        "server_command": server.command or "",
        "server_args": list(server.args),
        "server_argv": argv,
        "server_line": shlex.join(argv),
        "server_command_json": json.dumps(server.command or ""),
        "server_args_json": json.dumps(list(server.args)),
        "server_url_json": json.dumps(server.url or ""),
    }


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, separators=(",", ":"))


def _state_files(files: Mapping[str, Any]) -> tuple[File, ...]:
    """The agent's own directory with its initial files, writable for all: the agent may be any user."""
    made = {STATE: File(STATE, mode=0o777)}
    for name, value in files.items():
        path = PurePosixPath(STATE) / name
        if ".." in path.parts:
            raise InputError(
                f"the file {name!r} is outside of the agent's directory; write its absolute path"
            )
        inside = path.is_relative_to(STATE)
        for parent in reversed(path.parents) if inside else ():
            if parent.is_relative_to(STATE):
                made.setdefault(str(parent), File(str(parent), mode=0o777))
        made[str(path)] = File(str(path), content=_text(value).encode(), mode=0o666 if inside else 0o644)
    return tuple(made.values())
