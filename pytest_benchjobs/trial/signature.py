"""The signature of a trial: a digest of what decides its result. Trials with the same signature are repeats.

Content counts, never a path, a clock, an order or a secret. A file counts by its bytes and its executable flag, a
variable with a secret by its name, and an agent by the command it prepared and every file that comes with it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import json
import os
import stat
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..agents.protocol import Agent, AgentCommand
from ..model.agent import AgentSpec
from ..model.environ import HOST
from ..model.errors import InputError
from ..model.result import Signature
from ..model.scenario import (
    MAIN,
    Environment,
    Feedback,
    FreshContainer,
    GradeIn,
    OnTamper,
    Reference,
    Scenario,
    ScorerSpec,
    Step,
)
from ..sandbox.protocol import BYTECODE, File
from ..scoring.builtin import builtin_scorers
from ..scoring.needs import model_needed, reading_of
from ..scoring.protocol import Scorer
from ..settings.table import MODELS
from ..sources.compose import read_paths
from ..sources.template import fill
from ..system.redact import looks_secret
from .limits import Limits
from .scorer_models import judging_model

_VERSION = 2
"""Increased when the same content is graded differently, so that no earlier result is reused."""
_CHUNK = 1 << 20
_GRADING = {GradeIn.FRESH: "strict", GradeIn.AGENT_CONTAINER: "contract"}
"""Words of earlier versions, so that their results can be compared with."""
_LIMITS = ("cpus", "memory", "storage", "pids", "gpus")
_IMAGE_OR_LIMIT = {
    "image",
    "dockerfile",
    "context",
    "snapshot",
    "build_args",
    "build_timeout",
    "hidden",
    "git_history",
    "setup_timeout",
    "skills_if_there",  # the image says
    "compose",
    *_LIMITS,
}
_NEWER = frozenset({"mcp_servers", "skills_dir", "skills_if_there", "git_history"})
_SPENDING = tuple(setting.name for setting in MODELS if setting.signed)
_OF_STEP = ("continues", "setup", "healthcheck", "agent_user", "agent_network", "agent_allowed_hosts")
"""Keys of a step that decide the agent's work."""
_LATER_KEYS = ("metrics", "requirements", "python_version", "runner")
"""Keys of scorers that count only where they are given."""
_OF_SCORERS = ("scorers", "place", "reading")
_OF_BOTH = ("environment", "parameters", "limits")
"""Parts that decide the agent's work, and the scorers' work as well."""
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str).encode


def parts_of(
    scenario: Scenario,
    limits: Limits,
    spec: AgentSpec,
    agent: Agent,
    commands: Sequence[AgentCommand | None],
    scorers: Mapping[str, Scorer],
    secrets: Mapping[str, str],
    given: Iterable[str],
) -> dict[str, str]:
    """Return the digests of all parts but `image`, which only the engine knows.

    `commands` are the agent's command, and those of later steps that differ from it. `secrets` are all secret values,
    by name; `given`, the names of those that the agent gets from the job.

    Raises:
        OSError: a file of the scenario cannot be read.
    """
    config = limits.config
    params = {**config.params, **spec.params}
    graded = [_scorer(one, scorers, secrets, params) for one in scenario.scorers]
    called = _commands(commands, agent, scenario, secrets)
    parts: dict[str, list[Any]] = {
        "scenario": _scenario(scenario, secrets),
        "environment": [_environment(scenario, secrets) | {"grading": _GRADING[scenario.grade_in]}],
        "scorers": [_VERSION, *graded, *_where_graded(scenario, secrets)],
        "agent": [_agent(spec), called],
        "parameters": [params, _from_host(config.env, secrets), sorted(given)],
        "limits": _limits(limits),
        "place": [
            *("agent_container" if fresh is None else "fresh" for fresh in scenario.places),
            *(("on_tamper",) if config.on_tamper is OnTamper.FAIL else ()),
        ],
    }
    readings = sorted({one for spec in scenario.scorers if (one := reading_of(spec, scorers)) is not None})
    return {
        **{name: _digest(part) for name, part in parts.items()},
        **({"reading": ", ".join(readings)} if readings else {}),
    }


def task_digest(scenario: Scenario) -> str:
    """Return the part `scenario` of the signature, of one whose agent gets no variables of this machine.

    Raises:
        OSError: a file of the scenario cannot be read.
    """
    return _digest(_scenario(scenario, {}))


def signature(scenario: Scenario, parts: Mapping[str, str], image_key: str) -> Signature:
    """Return the signature, from `parts_of` and the identity of the image.

    Where a question is answered does not count, so that a bare model and an agent in a container can be compared.
    """
    if scenario.is_question:
        whole = {**parts, "agent": _digest([parts["agent"], image_key]), "image": _digest("question")}
    else:
        whole = {**parts, "image": _digest(image_key)}
    return Signature(value=_digest(whole, 32), parts=whole)


def graded_anew(before: Signature | None, now: Signature) -> Signature | None:
    """Return the signature of a rescored trial: its agent ran with the parts `before`, its scorers run with `now`.

    None where the earlier signature is unknown.
    """
    if before is None:
        return None
    kept = {part: digest for part, digest in before.parts.items() if part not in _OF_SCORERS}
    parts = {**kept, **{part: now.parts[part] for part in _OF_SCORERS if part in now.parts}}
    for part in _OF_BOTH:
        if parts.get(part) != now.parts[part]:
            # The agent had the old part, scorers the new one: unlike any trial in one piece.
            parts[part] = _digest([parts.get(part), now.parts[part]])
    return Signature(value=_digest(parts, 32), parts=parts)


def content_of(path: Path) -> str:
    """Return the digest of a file or directory: names, bytes, executable flags. Bytecode is left out, as in `pack`.

    Raises:
        OSError: it cannot be read.
    """
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


_Key = tuple[int, int, int, int]
_known: dict[Path, tuple[_Key, str]] = {}
_lock = threading.Lock()


def _file(path: Path) -> str:
    """Return the digest of one file; it is read again only when it changes."""
    about = path.lstat()
    if stat.S_ISLNK(about.st_mode):
        # The target of a scenario's link counts, if it is inside the scenario.
        return _file(path.resolve()) if path.is_file() else f"link:{path.readlink()}"
    key = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    with _lock:
        known = _known.get(path)
    if known is not None and known[0] == key:
        return known[1]
    if not stat.S_ISREG(about.st_mode):
        return "no file"
    digest = hashlib.sha256(b"x" if about.st_mode & 0o100 else b"-")
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    found = digest.hexdigest()[:32]
    with _lock:
        _known[path] = (key, found)
    return found


def _agent(spec: AgentSpec) -> dict[str, Any]:
    """Return the identity of the agent. The place of its files does not count; their content does, in `prepare`."""
    written = spec.model_dump(mode="json", exclude={"params", "path"})
    if spec.command is None:
        del written["command"]  # keeps the signatures of earlier results
    return written


def _scenario(scenario: Scenario, secrets: Mapping[str, str]) -> list[Any]:
    """Return the task of the agent and its environment."""
    return [
        scenario.benchmark,
        scenario.id,
        scenario.problem_statement,
        scenario.additional_context,
        {path: content_of(source) for path, source in scenario.files.items()},
        scenario.agent_user,
        _from_host(scenario.agent_env, secrets),
        scenario.agent_network,
        *(
            []
            if scenario.answer is None
            else [scenario.answer.model_dump(mode="json", exclude={"reference"})]
        ),
        *([] if scenario.feedback is None else [["feedback", _feedback(scenario.feedback)]]),
        *([["steps", *map(_step, scenario.steps)]] if scenario.steps else []),
        *(
            []
            if scenario.agent_allowed_hosts is None
            else [["agent_allowed_hosts", *scenario.agent_allowed_hosts]]
        ),
        *([] if scenario.provider_tools is None else [["provider_tools", scenario.provider_tools]]),
    ]


def _feedback(feedback: Feedback) -> dict[str, Any]:
    """Return its keys; without the newer one where all is as it was."""
    return feedback.model_dump(mode="json", exclude={"shows_output"} if feedback.shows_output else None)


def _step(step: Step) -> list[Any]:
    """Return the task of the agent in one step."""
    dumped = step.model_dump(mode="json", include={"name", "instruction", *_OF_STEP})
    return [dumped, None if step.files is None else content_of(step.files)]


def _environment(scenario: Scenario, secrets: Mapping[str, str]) -> dict[str, Any]:
    environment = scenario.environment
    dumped = _dumped(environment, _IMAGE_OR_LIMIT)
    return dumped | {"env": _from_host(environment.env, secrets)} | _services(environment)


def _services(environment: Environment) -> dict[str, str]:
    """Return what services are made of beside images, if there are any: the file that describes them, what it names."""
    if environment.compose is None:
        return {}
    file = environment.compose.file
    return {
        "compose": _digest([[os.path.relpath(one, file.parent), content_of(one)] for one in read_paths(file)])
    }


def _dumped(environment: Environment, left_out: set[str]) -> dict[str, Any]:
    """Return the keys of an environment; newer ones only if they are used: signatures of earlier results lack them."""
    dumped = environment.model_dump(mode="json", exclude=left_out)
    return {key: value for key, value in dumped.items() if value or key not in _NEWER}


def _limits(limits: Limits) -> list[Any]:
    scenario = limits.scenario
    spending = [getattr(limits.config, name) for name in _SPENDING]
    return [
        limits.threshold,
        limits.agent_timeout,
        limits.silent_timeout,
        limits.setup_timeout,
        [limits.scorer_timeout(one) for one in scenario.scorers],
        [getattr(scenario.environment, name) for name in _LIMITS],
        # Only where there are any, which keeps the signatures of earlier results.
        *([spending] if any(spending) else []),
        *([["steps", *(step.agent_timeout for step in scenario.steps)]] if scenario.steps else []),
    ]


def _scorer(
    spec: ScorerSpec, scorers: Mapping[str, Scorer], secrets: Mapping[str, str], params: Mapping[str, Any]
) -> list[Any]:
    written = spec.model_dump(mode="json", exclude={"path", "overlay", "timeout", "env"})
    for name in _LATER_KEYS:
        if not written[name]:
            del written[name]  # keeps the signatures of earlier results
    if spec.allowed_hosts is None:
        del written["allowed_hosts"]
    if reading_of(spec, scorers) is not None:
        written["params"] = {name: value for name, value in spec.params.items() if name != "official"}
    kind = scorers.get(spec.type)
    # A hook may override a built-in type.
    source = None if kind is None or kind is builtin_scorers().get(spec.type) else _source(kind)
    return [
        written,
        None if spec.path is None else content_of(spec.path),
        _from_host(spec.env, secrets),
        source,
        *([] if spec.overlay is None else [content_of(spec.overlay)]),
        *_judging(spec, scorers, secrets, params),
    ]


def _judging(
    spec: ScorerSpec, scorers: Mapping[str, Scorer], secrets: Mapping[str, str], params: Mapping[str, Any]
) -> list[Any]:
    """Return the address and name of the model that a scorer asks, if it asks one."""
    need = model_needed(spec, scorers)
    if need is None:
        return []
    endpoint, model = judging_model(spec, need, params)
    return [["model", endpoint.wire, _unless_secret(endpoint.base_url, secrets), model]]


def _where_graded(scenario: Scenario, secrets: Mapping[str, str]) -> list[Any]:
    """Return what is graded, if it is not everything in the agent's own container."""
    where: list[Any] = _fresh(scenario.fresh_container, secrets)
    if scenario.steps:
        where.append([scenario.step_score, scenario.diagnostic])
    for step in scenario.steps:
        graded = step.model_dump(mode="json", include={"name", "scorers", "weight", "least"})
        where.append([graded, *_fresh(step.fresh_container, secrets)])
    return where


def _fresh(fresh: FreshContainer | None, secrets: Mapping[str, str]) -> list[Any]:
    if fresh is None or fresh.is_default:
        return []
    # Without what is as it usually is, which keeps the signatures of earlier results.
    carried = fresh.model_dump(mode="json", exclude={"environment", *(() if fresh.carry else ("carry",))})
    for path in (*carried["paths"], *carried.get("carry", ())):
        if path["service"] == MAIN:
            del path["service"]
    where: list[Any] = [carried]
    if (own := fresh.environment) is not None:
        where.append(_dumped(own, {"env", "dockerfile", "context", "hidden", "snapshot", "compose"}))
        where += _services(own).values()
        where.append(_from_host(own.env, secrets))
        where += [content_of(path) for path in (own.dockerfile, own.context) if path is not None]
    return where


def _source(thing: object) -> str | None:
    """Return the identity of a plugin's scorer or agent: its `fingerprint`, else its code."""
    fingerprint = getattr(thing, "fingerprint", None)
    if isinstance(fingerprint, str):
        return fingerprint
    for candidate in (thing, type(thing)):
        try:
            return inspect.getsource(candidate)  # type: ignore[arg-type]
        except (OSError, TypeError):
            continue
    return getattr(type(thing), "__qualname__", None)


def _commands(
    commands: Sequence[AgentCommand | None], agent: Agent, scenario: Scenario, secrets: Mapping[str, str]
) -> list[Any] | None:
    """Return the identity of the agent's commands: of its only one, or of all that steps have."""
    if not scenario.steps:
        return _command(commands[0], agent, scenario.reference, secrets)
    references = [step.reference for step in scenario.steps]
    pairs = zip(commands, references, strict=False)
    return [_command(command, agent, reference, secrets) for command, reference in pairs]


def _command(
    command: AgentCommand | None, agent: Agent, reference: Reference | None, secrets: Mapping[str, str]
) -> list[Any] | None:
    if command is None:
        return None
    files = sorted(command.files, key=lambda file: file.path)
    return [
        [_unless_secret(argument, secrets) for argument in command.argv],
        _prepared(command.env, secrets, reference),
        [[file.path, _put(file), file.mode, file.clean] for file in files],
        command.user,
        *([command.identity] if command.identity else []),
        *([_host_code(command.host, agent)] if command.host is not None and not command.identity else []),
        *([[one.wire, one.provider, one.base_url] for one in command.endpoints]),
    ]


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


def _from_host(table: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str | None]:
    """Like `_variables`, for values that may refer to variables of this machine: their content counts."""
    filled = dict(table)
    for name, value in table.items():
        with contextlib.suppress(InputError):  # overridden, or a trial reports it
            filled |= fill({name: value}, HOST)
    return _variables(filled, secrets)


def _variables(table: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str | None]:
    """Return names and values; of secrets only names."""
    return {
        name: None if name in secrets else _unless_secret(value, secrets) for name, value in table.items()
    }


def _prepared(
    env: Mapping[str, str], secrets: Mapping[str, str], reference: Reference | None
) -> dict[str, str | None]:
    """Like `_variables`, for those that an agent prepared: they may come from anywhere, so names tell what is secret.

    Literal values of the scenario's reference are not secret, as elsewhere in a manifest.
    """
    said = {} if reference is None else reference.env
    unknown = [name for name, value in env.items() if looks_secret(name, value) and said.get(name) != value]
    return {**_variables(env, secrets), **dict.fromkeys(unknown)}


def _unless_secret(text: str, secrets: Mapping[str, str]) -> str:
    """Replace secrets in a text, and keep the rest: a secret may be as short as `1`."""
    if not secrets:
        return text
    for value in sorted(
        {value for value in secrets.values() if value}, key=lambda value: (-len(value), value)
    ):
        text = text.replace(value, "[secret]")
    return text


def _digest(value: object, length: int = 16) -> str:
    return hashlib.sha256(_encode(value).encode("utf-8", "replace")).hexdigest()[:length]
