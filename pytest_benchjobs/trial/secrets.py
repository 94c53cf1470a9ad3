"""Secrets of a trial: finding them, and redacting them wherever they may be."""

from __future__ import annotations

import contextlib
import enum
import itertools
import secrets
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from ..agents.keys import KEYS
from ..agents.providers import KEY_PARAMETER, PROVIDERS, own_keys
from ..model.endpoint import PLACEHOLDER_KEY
from ..model.environ import HOST
from ..model.errors import InputError
from ..model.job import JobConfig
from ..model.scenario import Scenario
from ..sources.template import fill, reference
from ..system.redact import UNMISTAKABLE, Redactor, looks_secret

JUDGE = "JUDGE_"
"""Prefix of variables with keys for models of scorers: JUDGE_OPENAI_API_KEY."""
MODEL_KEYS = frozenset(
    (
        *(
            prefix + name
            for one in PROVIDERS.values()
            for name in one.key_variables
            for prefix in ("", JUDGE)
        ),
        *itertools.chain(*KEYS.values()),
        *("ANTHROPIC_AUTH_TOKEN", "CODEX_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"),
    )
)
"""Variables with keys of known model providers, and other names that agents use for them."""
_CHUNK = 256 * 1024


class Split(NamedTuple):
    """Secrets of a job: those for the agent, and keys of models, for the gateway only."""

    passed: dict[str, str]
    keys: dict[str, str]


def model_keys(config: JobConfig) -> frozenset[str]:
    """Return variables with keys of models: known ones, and those that the job names for providers and addresses."""
    named = {
        value
        for table in (config.params, *(agent.params for agent in config.agents))
        for name, value in table.items()
        if name.endswith(KEY_PARAMETER) and isinstance(value, str)
    }
    own = {name for agent in config.agents if agent.provider is not None for name in own_keys(agent.provider)}
    return MODEL_KEYS | named | own


def split(given: Mapping[str, str], keys: Iterable[str] = ()) -> Split:
    """Separate the agent's secrets from keys of models, which are in `MODEL_KEYS` and `keys`."""
    withheld = {*MODEL_KEYS, *keys}
    return Split(
        {name: value for name, value in given.items() if name not in withheld},
        {name: value for name, value in given.items() if name in withheld},
    )


def keys_taken(table: Mapping[str, str], keys: Container[str] = MODEL_KEYS) -> dict[str, str]:
    """Return variables of a manifest's table that would get one of `keys` -> the variable here that has it."""
    return {
        name: variable
        for name, value in table.items()
        if (variable := reference(value)) is not None and variable in keys and HOST.get(variable)
    }


def without_keys(table: Mapping[str, str], keys: Container[str] = MODEL_KEYS) -> dict[str, str]:
    """Fill in a manifest's table from the host, with a placeholder for each of `keys`; InputError: one is missing."""
    return {**fill(table, HOST), **dict.fromkeys(keys_taken(table, keys), PLACEHOLDER_KEY)}


def known_keys(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return keys of models by variable: from the secrets `given` to the job, else from this machine.

    Unreadable ones are left out. A trial that needs one reports the error.
    """
    from ..settings.secret_store import find

    known = split(given or {}).keys
    for name in sorted(MODEL_KEYS - known.keys()):
        with contextlib.suppress(InputError):
            if (found := find(name)) is not None:
                known[name] = found.value
    return known


def unmistakable(given: Mapping[str, str]) -> dict[str, str]:
    """Return secrets `given` to a job and of this machine that are too long to be a word that is also a password."""
    keys = {name: HOST[name] for name in MODEL_KEYS if name in HOST}
    every = together(given, keys, env_file_secrets())
    return {name: value for name, value in every.items() if len(value) >= UNMISTAKABLE}


def env_file_secrets() -> dict[str, str]:
    """Return the values in env files with names of secrets, requested or not."""
    return {
        name: variable.value
        for name, variable in HOST.below.items()
        if looks_secret(name, variable.value) or name in MODEL_KEYS
    }


def secrets_of(scenario: Scenario, config: JobConfig, given: Mapping[str, str]) -> dict[str, str]:
    """Return the secret values of a trial's variables by name, filled in from the host.

    A literal value in a manifest is not a secret. One taken from the host, or given to the job, under such a name is.
    """
    found = [given]
    tables = (table for _, table in tables_after_agent(scenario))
    for table in (config.env, scenario.environment.env, scenario.agent_env, *tables):
        for name, value in table.items():
            filled = value
            with contextlib.suppress(InputError):  # `fill` reports it where it matters
                filled = fill({name: value}, HOST)[name]
            variable = value.removeprefix("${").rstrip("}").partition(":")[0]
            names = (name, variable) if filled != value else (name,) if table is config.env else ()
            if any(looks_secret(one, filled) for one in names):
                found.append({name: filled})
    return together(*found)


def tables_after_agent(scenario: Scenario) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the tables of variables for processes that run after an agent, or instead of one, with their names."""
    for scorer in scenario.scorers:
        yield f"scorer {scorer.name!r}", scorer.env
    for environment in scenario.environments[1:]:
        yield "the container for grading", environment.env
    for solution in (scenario.reference, *(step.reference for step in scenario.steps)):
        if solution is not None:
            yield "the reference solution", solution.env


def together(*tables: Mapping[str, str]) -> dict[str, str]:
    """Merge tables by name; a second value of a name gets a new name."""
    found: dict[str, str] = {}
    for name, value in (pair for table in tables for pair in table.items()):
        while found.get(name, value) != value:
            name += "_"
        found[name] = value
    return found


def redacted(fact: Any, redactor: Redactor) -> Any:
    """Copy a value of a result, redacted."""
    if isinstance(fact, str) and not isinstance(fact, enum.Enum):
        return redactor.redact_text(fact)
    if isinstance(fact, BaseModel):
        return type(fact).model_validate({name: redacted(value, redactor) for name, value in fact})
    if isinstance(fact, dict):
        return {redacted(key, redactor): redacted(value, redactor) for key, value in fact.items()}
    if isinstance(fact, list | tuple):
        return type(fact)(redacted(value, redactor) for value in fact)
    return fact


def redact_files(directory: Path, redactor: Redactor, names: Redactor) -> dict[str, str]:
    """Rewrite the files below `directory` without secrets, and rename those whose names hold one.

    A link whose name or target holds a secret is removed: `names` redacts these, `redactor` the content of files.
    Returns old path -> new path below `directory`, of renamed files. OSError: one cannot be rewritten.
    """
    moved: dict[str, str] = {}
    # The deepest first, so that a renamed directory has only redacted names in it.
    for path in sorted(directory.rglob("*"), key=lambda path: len(path.parts), reverse=True):
        name = str(path.relative_to(directory))
        harmless = names.redact_text(name)
        if path.is_symlink():
            if harmless != name or names.redact_text(target := str(path.readlink())) != target:
                path.unlink()
            continue
        if path.is_file():
            redact_file(path, redactor)
        if harmless != name and path.is_dir():
            path.rmdir()
        elif harmless != name:
            free = (directory / f"{harmless}-{number}" for number in itertools.count(2))
            new = directory / harmless
            new = new if not new.exists() else next(one for one in free if not one.exists())
            new.parent.mkdir(parents=True, exist_ok=True)
            path.rename(new)
            moved[name] = str(new.relative_to(directory))
    return moved


def redact_file(path: Path, redactor: Redactor) -> None:
    """Rewrite a file without secrets; OSError: it cannot be."""
    temporary = path.with_name(f".{secrets.token_hex(4)}")
    try:
        with path.open("rb") as source, temporary.open("xb") as target:
            stream = redactor.stream(target.write)
            while chunk := source.read(_CHUNK):
                stream.write(chunk)
            stream.close()
        temporary.chmod(path.stat().st_mode & 0o777)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
