"""What the command line and the ini file ask for. Every mistake is a `pytest.UsageError` of one line."""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from ..model.agent import AgentSpec
from ..model.errors import InputError
from ..model.job import JobConfig
from .options import ini

_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_SAME_NAME = (
    "concurrency",
    "agent_timeout",
    "scorer_timeout",
    "timeout_multiplier",
    "threshold",
    "retry_errors",
    "sandbox",
)
_FLAG_OF_FIELD = {"name": "--bench-job-name", "directory": "--bench-dir", "metadata": "--bench-meta"}


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """Everything that is asked for."""

    job: JobConfig
    benchmarks: tuple[str, ...]
    """As written: names, names with versions, paths, or `EVERY`."""
    agents: tuple[AgentSpec, ...]
    filters: tuple[tuple[str, str], ...]
    secrets: Mapping[str, str] = dataclasses.field(repr=False)
    seen: set[str] = dataclasses.field(default_factory=set)
    """Ids of all scenarios met, selected or not; for suggestions."""

    def wanted(self, scenario: str) -> bool:
        """Whether `--bench-scenario` selects this id."""
        self.seen.add(scenario)
        patterns = self.job.scenarios
        return not patterns or any(matches(scenario, pattern) for pattern in patterns)


def matches(scenario: str, pattern: str) -> bool:
    """Whether a pattern of `--bench-scenario` means this id."""
    return scenario == pattern or fnmatch.fnmatchcase(scenario, pattern)


_ASKED = pytest.StashKey[Asked]()


def asked(config: pytest.Config) -> Asked:
    """The options, read once.

    Raises:
        pytest.UsageError: any of them is wrong.
    """
    if _ASKED not in config.stash:
        config.stash[_ASKED] = _read(config)
    return config.stash[_ASKED]


def _read(config: pytest.Config) -> Asked:
    secrets = _secrets(config)
    # What the command line names replaces the agents of the ini file: both together would be a surprise.
    written = _strings(config, "agent", replace=True) or ["oracle"]
    for variable, value in secrets.items():
        if value and any(value in text for text in written):
            raise pytest.UsageError(
                f"--bench-agent: it holds the value of the secret {variable}, and would be in every report; "
                f"write ${variable} instead"
            )
    try:
        agents = tuple(AgentSpec.parse(text) for text in written)
    except InputError as error:
        raise pytest.UsageError(f"--bench-agent: {error}") from None
    labels = [agent.label for agent in agents]
    for label in labels:
        if labels.count(label) > 1:
            raise pytest.UsageError(
                f"--bench-agent: {label} is given twice; for repeats use --bench-attempts"
            )
    fields: dict[str, Any] = {
        "agents": agents,
        "scenarios": tuple(
            pattern.strip()
            for text in _strings(config, "scenario", replace=True)
            for pattern in text.split(",")
            if pattern.strip()
        ),
        "env": _table(config, "env", variables=True),
        "image_map": _table(config, "image_map"),
        "build_args": _table(config, "build_arg"),
        "keep_processes": tuple(_strings(config, "keep_processes")),
        "metadata": _table(config, "meta"),
        "directory": _directory(config),
        "attempts": _single(config, "attempts"),
        "name": _single(config, "job_name"),
        **{name: _single(config, name) for name in _SAME_NAME},
    }
    try:
        job = JobConfig.model_validate({key: value for key, value in fields.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = str(first["loc"][0])
        flag = _FLAG_OF_FIELD.get(field, "--bench-" + field.replace("_", "-"))
        raise pytest.UsageError(f"{flag}: {first['msg']} (got {first['input']!r})") from None
    return Asked(
        job=job,
        benchmarks=tuple(config.getoption("bench") or ini(config, "bench")),
        agents=agents,
        filters=tuple(_pairs("--bench-filter", _strings(config, "filter"))),
        secrets=secrets,
    )


def _strings(config: pytest.Config, name: str, *, replace: bool = False) -> list[str]:
    """Ini first, then the command line, which adds or replaces."""
    from_line: list[str] = config.getoption(f"bench_{name}") or []
    if replace and from_line:
        return from_line
    return [*ini(config, f"bench_{name}"), *from_line]


def _single(config: pytest.Config, name: str) -> Any:
    value = config.getoption(f"bench_{name}")
    return ini(config, f"bench_{name}") if value is None else value


def _pairs(flag: str, texts: Iterable[str], form: str = "KEY=VALUE") -> list[tuple[str, str]]:
    pairs = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise pytest.UsageError(f"{flag}: {text!r} is not of the form {form}")
        pairs.append((key.strip(), value))
    return pairs


def _table(config: pytest.Config, name: str, *, variables: bool = False) -> dict[str, str]:
    flag = "--bench-" + name.replace("_", "-")
    table = dict(_pairs(flag, _strings(config, name), "FROM=TO" if name == "image_map" else "KEY=VALUE"))
    if variables:
        _check_variables(flag, table)
    return table


def _check_variables(flag: str, names: Iterable[str]) -> None:
    for name in names:
        if not _VARIABLE.match(name):
            raise pytest.UsageError(
                f"{flag}: {name!r} is not a name for a variable (letters, digits and '_')"
            )


def _secrets(config: pytest.Config) -> dict[str, str]:
    sources = dict(_pairs("--bench-secret", _strings(config, "secret"), "VARIABLE=NAME"))
    _check_variables("--bench-secret", sources)
    missing = sorted({name for name in sources.values() if name not in os.environ})
    if missing:
        raise pytest.UsageError(
            f"--bench-secret: {', '.join(missing)} is not set here; export it before running pytest"
        )
    return {variable: os.environ[name] for variable, name in sources.items()}


def _directory(config: pytest.Config) -> Any:
    from_line = config.getoption("bench_dir")
    if from_line is not None and not from_line.strip():
        raise pytest.UsageError("--bench-dir: it is empty; name a directory, or leave the option out")
    if from_line is not None:
        return config.invocation_params.dir / os.path.expanduser(from_line)  # noqa: PTH111  a string until here
    return config.rootpath / (ini(config, "bench_dir") or "reports")
