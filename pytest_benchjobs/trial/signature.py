"""The signature of a trial: a digest of what decides its result. Trials with the same signature are repeats.

Content counts, never a path, a clock, an order or a secret. A file counts by its bytes and its executable flag, a
variable with a secret by its name, and an agent by the command it prepared and every file that comes with it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import inspect
import json
import operator
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..agents.protocol import Agent, AgentCommand
from ..model.environ import HOST
from ..model.errors import InputError
from ..model.job import JobConfig
from ..model.result import Signature, Trial
from ..model.scenario import MAIN, Environment, FreshContainer, GradeIn, OnTamper, Scenario, ScorerSpec
from ..sandbox.protocol import BYTECODE, File
from ..scoring.builtin import builtin_scorers
from ..scoring.needs import needs_of
from ..scoring.protocol import Scorer
from ..settings.table import MODELS
from ..sources.compose import read_paths
from ..sources.template import fill
from ..system.keeping import version
from ..system.redact import looks_secret
from .limits import Limits
from .scorer_models import judging_model
from .secrets import secrets_of

_VERSION = 2
"""Increased when the same content is graded differently, so that no earlier result is reused."""
_GRADING = {GradeIn.FRESH: "strict", GradeIn.AGENT_CONTAINER: "contract"}
"""Words of earlier versions, so that their results can be compared with."""
_LIMITS = ("cpus", "memory", "storage", "pids", "gpus")
_REQUESTS = ("cpus_request", "memory_request")
_IMAGE_OR_LIMIT = {
    *("image", "dockerfile", "context", "snapshot", "build_args", "build_timeout", "hidden", "git_history"),
    *("setup_timeout", "skills_if_there", "compose"),  # the image has skills, or not
    *_LIMITS,
    *_REQUESTS,
}
_NEWER = frozenset({"mcp_servers", "skills_dir", "skills_if_there", "git_history", *_REQUESTS})
_spending = operator.attrgetter(*(setting.name for setting in MODELS if setting.signed))
_of_container, _requests = operator.attrgetter(*_LIMITS), operator.attrgetter(*_REQUESTS)
_OF_STEP = ("continues", "setup", "healthcheck", "agent_user", "agent_network", "agent_allowed_hosts")
"""Keys of a step that decide the agent's work."""
_LATER_KEYS = ("metrics", "requirements", "python_version", "runner")
"""Keys of scorers that count only where they are given."""
_OF_SCORERS = ("scorers", "place", "reading")
_OF_BOTH = ("environment", "parameters", "limits", "sandbox_options", "runtime", "headroom")
"""Parts that decide the agent's work, and the scorers' work as well."""
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str).encode


def parts_of(
    trial: Trial,
    config: JobConfig,
    agent: Agent,
    commands: Sequence[AgentCommand | None],
    scorers: Mapping[str, Scorer],
    given: Mapping[str, str],
) -> dict[str, str]:
    """Return the digests of all parts but `image`, which only the engine knows.

    `config` is that of the benchmark; `commands` are the agent's command, and those of later steps that differ
    from it; `given`, the secrets that the agent gets from the job. OSError: a file cannot be read.
    """
    scenario, spec, limits = trial.scenario, trial.agent, Limits(trial.scenario, config)
    secrets = secrets_of(scenario, config, given)
    # The content of an agent's files counts, in its commands; signatures of earlier versions have no `command`.
    left_out = {"params", "path", *(("command",) if spec.command is None else ())}
    of = _Parts(scenario, secrets, scorers, {**config.params, **spec.params})
    parts: dict[str, list[Any]] = {
        "scenario": of.task(),
        "environment": [of.environment() | {"grading": _GRADING[scenario.grade_in]}],
        "scorers": [_VERSION, *map(of.scorer, scenario.scorers), *of.where_graded()],
        "agent": [spec.model_dump(mode="json", exclude=left_out), of.commands(commands, agent)],
        "parameters": [of.params, of.from_host(config.env), sorted(given)],
        "limits": _limits(limits),
        "place": [
            *("agent_container" if fresh is None else "fresh" for fresh in scenario.places),
            *(("on_tamper",) if config.on_tamper is OnTamper.FAIL else ()),
        ],
    }
    digests = {name: _digest(part) for name, part in parts.items()}
    found = (needs_of(spec.type, scorers).reading(spec) for spec in scenario.scorers)
    readings = sorted({one for one in found if one is not None})
    named = {
        "reading": ", ".join(readings),
        "sandbox_options": config.sandbox_words,
        "runtime": config.runtime or "",
        "headroom": f"{limits.headroom:g}" if limits.headroom != 1 else "",
    }
    return digests | {name: words for name, words in named.items() if words}


def task_digest(scenario: Scenario) -> str:
    """Return the part `scenario` of a signature, without variables of this machine. OSError: a file is unreadable."""
    return _digest(_Parts(scenario, {}, {}, {}).task())


def signature(scenario: Scenario, parts: Mapping[str, str], image_key: str) -> Signature:
    """Return the signature, from `parts_of` and the identity of the image.

    Where a question is answered does not count, so that a bare model and an agent in a container can be compared.
    """
    whole = {**parts, "image": _digest("question" if scenario.is_question else image_key)}
    if scenario.is_question:
        whole["agent"] = _digest([parts["agent"], image_key])
    return Signature(value=_digest(whole, 32), parts=whole)


def graded_anew(before: Signature | None, now: Signature) -> Signature | None:
    """Return the signature of a rescored trial: the agent's parts of `before`, the scorers' of `now`; None: unknown."""
    if before is None:
        return None
    parts = {part: digest for part, digest in before.parts.items() if part not in _OF_SCORERS}
    parts |= {part: digest for part, digest in now.parts.items() if part in _OF_SCORERS}
    for part in _OF_BOTH:
        if parts.get(part) != now.parts.get(part):
            # The agent had the old part, scorers the new one: unlike any trial in one piece.
            parts[part] = _digest([parts.get(part), now.parts.get(part)])
    return Signature(value=_digest(parts, 32), parts=parts)


def content_of(path: Path) -> str:
    """Return a digest of names, bytes and executable flags, without bytecode, as `pack`. OSError: one is unreadable."""
    if not path.is_dir():
        return _file(path)
    entries = []
    for directory, names, files in os.walk(path):
        links = [name for name in names if (Path(directory) / name).is_symlink()]
        names[:] = sorted(name for name in names if name in links or name != BYTECODE)
        for name in sorted([*files, *links]):
            found = Path(directory) / name
            entries.append([found.relative_to(path).as_posix(), _file(found)])
        if not names and not files:
            entries.append([Path(directory).relative_to(path).as_posix(), "empty"])
    return _digest(entries)


def _file(path: Path) -> str:
    """Return the digest of one file; it is read again only when it changes."""
    about = path.lstat()
    if stat.S_ISLNK(about.st_mode):
        # The target of a scenario's link counts, if it is inside the scenario.
        return _file(path.resolve()) if path.is_file() else f"link:{path.readlink()}"
    if not stat.S_ISREG(about.st_mode):
        return "no file"
    return _content(path, b"x" if about.st_mode & 0o100 else b"-", version(about))


@functools.cache
def _content(path: Path, flag: bytes, _known_by: tuple[int, ...]) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.sha256(flag)).hexdigest()[:32]


def _limits(limits: Limits) -> list[Any]:
    scenario = limits.scenario
    spending, requests = _spending(limits.config), _requests(scenario.environment)
    return [
        limits.threshold,
        limits.agent_timeout,
        limits.silent_timeout,
        limits.setup_timeout,
        [limits.scorer_timeout(one) for one in scenario.scorers],
        _of_container(scenario.environment),
        # Only where there are any, which keeps the signatures of earlier results.
        *([spending] if any(spending) else []),
        *([["requests", *requests]] if any(requests) else []),
        *([["steps", *(step.agent_timeout for step in scenario.steps)]] if scenario.steps else []),
    ]


def _services(environment: Environment) -> dict[str, str]:
    """Return what services are made of beside images, if there are any: the file that describes them, what it names."""
    if environment.compose is None:
        return {}
    file = environment.compose.file
    paths = read_paths(file, environment.env)
    return {"compose": _digest([[os.path.relpath(one, file.parent), content_of(one)] for one in paths])}


def _dumped(environment: Environment, left_out: set[str]) -> dict[str, Any]:
    """Return the keys of an environment; newer ones only if they are used: signatures of earlier results lack them."""
    dumped = environment.model_dump(mode="json", exclude=left_out)
    return {key: value for key, value in dumped.items() if value or key not in _NEWER}


@dataclasses.dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of one scenario's signature, without secrets.

    What came with later versions is in a part only where it is used, which keeps the signatures of earlier results.
    """

    scenario: Scenario
    secrets: Mapping[str, str]
    scorers: Mapping[str, Scorer]
    params: Mapping[str, Any]

    def task(self) -> list[Any]:
        """Return the task of the agent."""
        scenario = self.scenario
        task: list[Any] = [
            scenario.benchmark,
            scenario.id,
            scenario.problem_statement,
            scenario.additional_context,
            {path: content_of(source) for path, source in scenario.files.items()},
            scenario.agent_user,
            self.from_host(scenario.agent_env),
            scenario.agent_network,
        ]
        if scenario.answer is not None:
            task.append(scenario.answer.model_dump(mode="json", exclude={"reference"}))
        if (feedback := scenario.feedback) is not None:
            usual = {"shows_output"} if feedback.shows_output else None
            task.append(["feedback", feedback.model_dump(mode="json", exclude=usual)])
        if scenario.steps:
            task.append(["steps"])
        for step in scenario.steps:
            dumped = step.model_dump(mode="json", include={"name", "instruction", *_OF_STEP})
            task[-1].append([dumped, None if step.files is None else content_of(step.files)])
        if scenario.agent_allowed_hosts is not None:
            task.append(["agent_allowed_hosts", *scenario.agent_allowed_hosts])
        if scenario.provider_tools is not None:
            task.append(["provider_tools", scenario.provider_tools])
        return task

    def environment(self) -> dict[str, Any]:
        """Return the environment of the agent, without its image and limits."""
        environment = self.scenario.environment
        own = {"env": self.from_host(environment.env)}
        return _dumped(environment, _IMAGE_OR_LIMIT) | own | _services(environment)

    def scorer(self, spec: ScorerSpec) -> list[Any]:
        """Return the identity of a scorer, with its files, and the address and name of the model that it asks."""
        unused = {name for name in _LATER_KEYS if not getattr(spec, name)}
        unused |= {"allowed_hosts"} if spec.allowed_hosts is None else set()
        written = spec.model_dump(mode="json", exclude={"path", "overlay", "timeout", "env", *unused})
        if needs_of(spec.type, self.scorers).reading(spec) is not None:
            written["params"] = {name: value for name, value in spec.params.items() if name != "official"}
        kind = self.scorers.get(spec.type)
        # A hook may override a built-in type.
        source = None if kind is None or kind is builtin_scorers().get(spec.type) else _source(kind)
        scorer: list[Any] = [written, spec.path and content_of(spec.path), self.from_host(spec.env), source]
        if spec.overlay is not None:
            scorer.append(content_of(spec.overlay))
        if (model := judging_model(spec, self.scorers, self.params)) is not None:
            address = self.unless_secret(model.endpoint.base_url)
            scorer.append(["model", model.endpoint.wire, address, model.name])
        return scorer

    def where_graded(self) -> list[Any]:
        """Return what is graded, if it is not everything in the agent's own container."""
        scenario = self.scenario
        where = self._fresh(scenario.fresh_container)
        if scenario.steps:
            where.append([scenario.step_score, scenario.diagnostic])
        for step in scenario.steps:
            graded = step.model_dump(mode="json", include={"name", "scorers", "weight", "least"})
            where.append([graded, *self._fresh(step.fresh_container)])
        return where

    def _fresh(self, fresh: FreshContainer | None) -> list[Any]:
        if fresh is None or fresh.is_default:
            return []
        carried = fresh.model_dump(mode="json", exclude={"environment", *(() if fresh.carry else ("carry",))})
        for path in (*carried["paths"], *carried.get("carry", ())):
            if path["service"] == MAIN:
                del path["service"]
        where: list[Any] = [carried]
        if (own := fresh.environment) is not None:
            where.append(_dumped(own, {"env", "dockerfile", "context", "hidden", "snapshot", "compose"}))
            where += _services(own).values()
            where.append(self.from_host(own.env))
            where += [content_of(path) for path in (own.dockerfile, own.context) if path is not None]
        return where

    def commands(self, commands: Sequence[AgentCommand | None], agent: Agent) -> list[Any] | None:
        """Return the identity of the agent's commands: of its only one, or of all that steps have.

        Their variables may come from anywhere, so names tell what is secret. Literal values of the scenario's reference
        are not, as elsewhere in a manifest.
        """
        if not self.scenario.steps:
            reference = self.scenario.reference
            return self._command(commands[0], {} if reference is None else reference.env, agent)
        literal = [{} if step.reference is None else step.reference.env for step in self.scenario.steps]
        return [self._command(*pair, agent) for pair in zip(commands, literal, strict=False)]

    def _command(
        self, command: AgentCommand | None, literal: Mapping[str, str], agent: Agent
    ) -> list[Any] | None:
        if command is None:
            return None
        files = sorted(command.files, key=lambda file: file.path)
        env = command.env.items()
        unknown = [name for name, value in env if looks_secret(name, value) and literal.get(name) != value]
        return [
            [self.unless_secret(argument) for argument in command.argv],
            {**self._variables(command.env), **dict.fromkeys(unknown)},
            [[file.path, _put(file), file.mode, file.clean] for file in files],
            command.user,
            *([command.identity] if command.identity else []),
            *([_host_code(command.host, agent)] if command.host is not None and not command.identity else []),
            *([[one.wire, one.provider, one.base_url] for one in command.endpoints]),
        ]

    def from_host(self, table: Mapping[str, str]) -> dict[str, str | None]:
        """Return variables that may refer to those of this machine: their content counts."""
        filled = dict(table)
        for name, value in table.items():
            with contextlib.suppress(InputError):  # overridden, or a trial reports it
                filled |= fill({name: value}, HOST)
        return self._variables(filled)

    def _variables(self, table: Mapping[str, str]) -> dict[str, str | None]:
        """Return names and values; of secrets only names."""
        return {
            name: None if name in self.secrets else self.unless_secret(value) for name, value in table.items()
        }

    def unless_secret(self, text: str) -> str:
        """Replace secrets in a text, and keep the rest: a secret may be as short as `1`."""
        if not self.secrets:
            return text
        values = {value for value in self.secrets.values() if value}
        for value in sorted(values, key=lambda value: (-len(value), value)):
            text = text.replace(value, "[secret]")
        return text


def _source(thing: object) -> str | None:
    """Return the identity of a plugin's scorer or agent: its `fingerprint`, else its code."""
    fingerprint = getattr(thing, "fingerprint", None)
    if isinstance(fingerprint, str):
        return fingerprint
    for candidate in (thing, type(thing)):
        with contextlib.suppress(OSError, TypeError):
            return inspect.getsource(candidate)  # type: ignore[arg-type]
    return getattr(type(thing), "__qualname__", None)


def _host_code(host: object, agent: Agent) -> list[str | None]:
    """Return the code of an agent that runs on this machine: its function, the function's owner, the agent itself."""
    while isinstance(host, functools.partial):
        host = host.func
    owner = getattr(host, "__self__", None)
    return [_source(one) for one in (host, owner, agent) if one is not None]


def _put(file: File) -> str | None:
    if file.content is not None:
        return hashlib.sha256(file.content).hexdigest()[:32]
    return None if file.source is None else content_of(file.source)


def _digest(value: object, length: int = 16) -> str:
    return hashlib.sha256(_encode(value).encode("utf-8", "replace")).hexdigest()[:length]
