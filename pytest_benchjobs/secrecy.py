"""What a trial must not let out: its secrets, and where they might be."""

from __future__ import annotations

import contextlib
import enum
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from pydantic import BaseModel

from .model.errors import InputError
from .model.job import JobConfig
from .model.scenario import Scenario
from .sources.template import fill
from .store.redact import Redactor, looks_secret

_CHUNK = 256 * 1024


def secrets_of(scenario: Scenario, config: JobConfig, given: Mapping[str, str]) -> dict[str, str]:
    """Values of a trial's variables that are secret, as they are once filled in from the host, by name.

    What a manifest says itself is no secret; what it takes from the host under such a name is.
    """
    pairs = [*given.items(), *((name, value) for name, value in config.env.items() if looks_secret(name))]
    reference = scenario.reference
    tables = [scenario.environment.env, scenario.agent_env, *(scorer.env for scorer in scenario.scorers)]
    tables += [config.env, reference.env if reference is not None else {}]
    for table in tables:
        for name, value in table.items():
            with contextlib.suppress(InputError):  # which `fill` will say again where it matters
                filled = fill({name: value}, os.environ)[name]
                variable = value.removeprefix("${").rstrip("}").partition(":")[0]
                if filled != value and (looks_secret(name) or looks_secret(variable)):
                    pairs.append((name, filled))
    found: dict[str, str] = {}
    for name, value in pairs:
        while found.get(name, value) != value:
            name += "_"
        found[name] = value
    return found


def redacted(fact: Any, redactor: Redactor) -> Any:
    """Copy a value of a result without secrets."""
    if isinstance(fact, str) and not isinstance(fact, enum.Enum):
        return redactor.redact_text(fact)
    if isinstance(fact, BaseModel):
        return type(fact).model_validate({name: redacted(value, redactor) for name, value in fact})
    if isinstance(fact, dict):
        return {redacted(key, redactor): redacted(value, redactor) for key, value in fact.items()}
    if isinstance(fact, list | tuple):
        return type(fact)(redacted(value, redactor) for value in fact)
    return fact


def redact_files(directory: Path, redactor: Redactor) -> None:
    """Rewrite the files below `directory` without secrets.

    Raises:
        OSError: one cannot be rewritten.

    """
    for path in sorted(directory.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        temporary = path.with_name(f".{secrets.token_hex(4)}")
        try:
            with path.open("rb") as source, temporary.open("xb") as target:
                _copy(source, target, redactor)
            temporary.chmod(path.stat().st_mode & 0o777)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _copy(source: IO[bytes], target: IO[bytes], redactor: Redactor) -> None:
    def write(data: bytes) -> None:
        target.write(data)

    stream = redactor.stream(write)
    while chunk := source.read(_CHUNK):
        stream.write(chunk)
    stream.close()
