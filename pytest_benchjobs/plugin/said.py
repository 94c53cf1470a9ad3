"""What the ini file and the command line say, each as a layer of settings."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from ..model.environ import Variable
from ..model.errors import InputError
from ..settings import VARIABLES
from ..settings.layers import Layer, as_one
from ..settings.matrix import parse_parameters
from ..settings.values import parse_ci, parse_job_name, parse_sample, parse_shard, read_number, read_value
from .options import LOCAL, OPTIONS, flag, ini, origin

_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_KEYS = {
    "agent": "agents",
    "scenario": "scenarios",
    "filter": "filters",
    "secret": "secrets",
    "build_arg": "build_args",
    "meta": "metadata",
    "job_name": "name",
    "param": "params",
    "matrix": "parameters",
}
"""Option -> what it sets, where that has another name."""
_ELSEWHERE = frozenset(
    {"dir", "env_file", "extra", "profile", "job_file", "known", "no_docker", "show_incompatible"}
)
_FORMS = {"image_map": "FROM=TO", "secret": "VARIABLE=NAME", "noise": "BENCHMARK=PP"}
_Read = Callable[[Any, str, str], Any]


def layers(config: pytest.Config) -> list[Layer]:
    """Everything that is said, the weakest first.

    Raises:
        pytest.UsageError: any of it is wrong.
    """
    here, root = config.invocation_params.dir, config.rootpath
    # A path on the command line is from where that was typed, one of the ini file from the rootdir.
    named = [(name, here) for name in config.getoption("bench_profile") or ()]
    profiles = named or [(name, root) for name in ini(config, "bench_profile")]
    files = [
        place / text
        for place, text in (
            (here, config.getoption("bench_job_file")),
            (root, ini(config, "bench_job_file")),
        )
        if text
    ][:1]
    lines, extra = ini(config, "bench_extra"), config.getoption("bench_extra") or ()
    between: list[Layer] = []
    try:
        if profiles or files or lines or extra:
            # Files have models of their own, which take time to build.
            from ..settings.extra import extra_layer
            from ..settings.files import read_job_file, read_profile

            blame = origin(config, "bench_extra")
            between.append(as_one([extra_layer(text, root, blame) for text in lines]))
            between += (read_profile(name, root, place) for name, place in profiles)
            between += (read_job_file(path) for path in files)
            between.append(as_one([extra_layer(text, here) for text in extra]))
        return [_layer(config, from_line=False), *between, _layer(config, from_line=True)]
    except InputError as error:
        raise pytest.UsageError(_relative(str(error), root)) from None


def env_files(config: pytest.Config) -> dict[str, Variable]:
    """What env files say, by variable; the last file has the last word.

    Raises:
        pytest.UsageError: one cannot be read; every mistake in it.
    """
    here, root = config.invocation_params.dir, config.rootpath
    written = [(origin(config, "bench_env_file"), root, name) for name in ini(config, "bench_env_file")]
    written += [(flag("env_file"), here, name) for name in config.getoption("bench_env_file") or ()]
    found: dict[str, Variable] = {}
    for blame, directory, name in written:
        if not name.strip():
            raise pytest.UsageError(f"{blame}: it is empty; give a value, or leave it out")
        from ..settings.env_file import read_env_file

        try:
            found |= read_env_file(directory / Path(name).expanduser(), name)
        except InputError as error:
            raise pytest.UsageError(f"{blame}: {error}") from None
    return found


def call_arguments(config: pytest.Config) -> list[str]:
    """How pytest was called, with what came through the environment as if it had been typed."""
    arguments = [str(argument) for argument in config.invocation_params.args]
    return [*arguments, *(f"--bench-env={name}={value}" for name, value in _from_environment().items())]


def _layer(config: pytest.Config, *, from_line: bool) -> Layer:
    values: dict[str, Any] = {}
    if from_line and (variables := _from_environment()):
        values["env"] = variables
    for name, _, _, kind in OPTIONS:
        if name in _ELSEWHERE:
            continue
        written = config.getoption(f"bench_{name}") if from_line else ini(config, f"bench_{name}")
        if written is None or written is False or written == []:
            continue
        blame = flag(name) if from_line else origin(config, f"bench_{name}")
        if any(not str(one).strip() for one in (written if isinstance(written, list) else [written])):
            raise pytest.UsageError(f"{blame}: it is empty; give a value, or leave it out")
        try:
            value = _READ.get(name, _NUMBERS.get(kind, _as_it_is))(written, blame, name)
        except (InputError, ValueError) as error:
            raise pytest.UsageError(f"{blame}: {error}") from None
        key = _KEYS.get(name, name)
        values[key] = {**values.get(key, {}), **value} if isinstance(value, dict) else value
    without = config.getoption("bench_no_docker") if from_line else ini(config, "bench_no_docker")
    if without and values.setdefault("sandbox", LOCAL) != LOCAL:
        one, other = (
            flag(name) if from_line else origin(config, f"bench_{name}") for name in ("no_docker", "sandbox")
        )
        raise pytest.UsageError(f"{one} and {other} contradict each other: it stands for the sandbox {LOCAL}")
    names = {key: name for name, key in _KEYS.items()}

    def where(key: str) -> str:
        name = names.get(key, key)
        return flag(name) if from_line else origin(config, f"bench_{name}")

    return Layer(values, origin=where)


def _as_it_is(written: Any, _blame: str, _name: str) -> Any:
    return written


def _number(written: object, _blame: str, _name: str) -> object:
    return read_number(written) if isinstance(written, str) else written


_NUMBERS: dict[str, _Read] = {"int": _number, "float": _number}


def _pairs(texts: Iterable[str], blame: str, name: str) -> list[tuple[str, str]]:
    pairs = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise pytest.UsageError(f"{blame}: {text!r} is not of the form {_FORMS.get(name, 'KEY=VALUE')}")
        pairs.append((key.strip(), value))
    return pairs


def _table(texts: Iterable[str], blame: str, name: str) -> dict[str, str]:
    return dict(_pairs(texts, blame, name))


def _variables(texts: Iterable[str], blame: str, name: str) -> dict[str, str]:
    table = _table(texts, blame, name)
    for variable in table:
        if not _VARIABLE.match(variable):
            raise pytest.UsageError(
                f"{blame}: {variable!r} is not a name for a variable (letters, digits and '_')"
            )
    return table


def _scenarios(texts: Iterable[str], blame: str, _name: str) -> list[str]:
    patterns = [part.strip() for text in texts for part in text.split(",")]
    if not any(patterns):
        raise pytest.UsageError(f"{blame}: it is empty; name a scenario, or leave it out")
    return [pattern for pattern in patterns if pattern]


def _names(texts: Iterable[str], blame: str, _name: str) -> list[str]:
    names = [part.strip() for text in texts for part in text.split(",")]
    if not all(names):
        raise pytest.UsageError(f"{blame}: a name is empty; leave it out")
    return names


def _params(texts: Iterable[str], blame: str, name: str) -> dict[str, Any]:
    return {key: read_value(value) for key, value in _pairs(texts, blame, name)}


def _rates(texts: Iterable[str], blame: str, _name: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for text in texts:
        provider, equals, value = text.rpartition("=")
        key = provider.strip() if equals else "*"
        if not key or key in found:
            raise pytest.UsageError(f"{blame}: {text!r}: write N, or PROVIDER=N once for each provider")
        found[key] = read_number(value.strip())
    return found


def _floors(texts: Iterable[str], blame: str, _name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        key = name.strip() if equals else "*"
        if not key or key in found:
            raise pytest.UsageError(f"{blame}: {text!r}: write X, or NAME=X once for each benchmark or agent")
        found[key] = value.strip()
    return found


_READ: dict[str, _Read] = {
    "filter": _pairs,
    "env": _variables,
    "secret": _variables,
    "image_map": _table,
    "build_arg": _table,
    "meta": _table,
    "scenario": _scenarios,
    "allow_model": _names,
    "allow_key": _names,
    "param": _params,
    "rpm": _rates,
    "tpm": _rates,
    "min_score": _floors,
    "min_pass_rate": _floors,
    "max_error_rate": _floors,
    "min_samples": _floors,
    "min_lift": _floors,
    "noise": _table,
    "matrix": lambda texts, _blame, _name: parse_parameters(texts),
    "job_name": lambda text, _blame, _name: parse_job_name(text),
    "sample": lambda text, _blame, _name: parse_sample(text),
    "ci": lambda text, _blame, _name: parse_ci(text),
    "shard": lambda text, _blame, _name: parse_shard(text),
}


def _from_environment() -> dict[str, str]:
    """Variables for agents that `benchjobs run` handed over."""
    text = os.environ.get(VARIABLES)
    if not text:
        return {}
    try:
        table = json.loads(text)
    except ValueError:
        table = None
    if not isinstance(table, dict) or not all(
        _VARIABLE.match(name) and isinstance(value, str) for name, value in table.items()
    ):
        raise pytest.UsageError(f"{VARIABLES}: it is no JSON object of variables; unset it")
    return table


def _relative(text: str, root: Path) -> str:
    return text.replace(f"{root}/", "")
