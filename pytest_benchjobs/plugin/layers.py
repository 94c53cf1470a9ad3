"""Layers of settings from pytest: the ini file, profiles and job files, and the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ..job.job_settings import Said
from ..model.environ import Variable
from ..model.errors import InputError
from ..settings.layers import Layer, as_one
from ..settings.setting import Setting
from ..settings.table import BY_NAME, LOCAL, SETTINGS
from .options import flag, ini, on_line, origin, usage_error
from .state import is_worker


def said(config: pytest.Config) -> Said:
    """Return all given settings, and their places.

    Raises:
        pytest.UsageError: a setting is wrong.
    """
    line = {setting.name: on_line(config, setting.name) for setting in SETTINGS if setting.on_line}
    return Said(
        layers=_layers(config),
        line={name: written for name, written in line.items() if written is not None},
        ini={name: ini(config, BY_NAME[name].option) for name in ("benchmarks", "dir", "known")},
        place=lambda name: origin(config, BY_NAME[name].option),
        directory=config.invocation_params.dir,
        root=config.rootpath,
        worker=is_worker(config),
    )


def _layers(config: pytest.Config) -> list[Layer]:
    """Return a layer for each place of settings, the lowest first.

    Raises:
        pytest.UsageError: a setting is wrong.
    """
    here, root = config.invocation_params.dir, config.rootpath
    # Paths on the command line are relative to the working directory, those in the ini file to the rootdir.
    named = [(name, here) for name in on_line(config, "profile") or ()]
    profiles = named or [(name, root) for name in ini(config, "bench_profile")]
    files = [
        place / text
        for place, text in (
            (here, on_line(config, "job_file")),
            (root, ini(config, "bench_job_file")),
        )
        if text
    ][:1]
    lines, extra = ini(config, "bench_extra"), on_line(config, "extra") or ()
    between: list[Layer] = []
    try:
        if profiles or files or lines or extra:
            # Files need pydantic models, which take time to build.
            from ..settings.extra import extra_layer
            from ..settings.files import read_job_file, read_profile

            blame = origin(config, "bench_extra")
            between.append(as_one([extra_layer(text, root, blame) for text in lines]))
            between += (read_profile(name, root, place) for name, place in profiles)
            between += (read_job_file(path) for path in files)
            between.append(as_one([extra_layer(text, here) for text in extra]))
        # In a Python file a trial's id has the name of its benchmark, too: FILE::BENCHMARK::SCENARIO[AGENT].
        if any(argument.count("::") > (".py::" in argument) for argument in config.args):
            from .implied import layer_of

            if (implied := layer_of(config)) is not None:
                between.append(implied)
        return [_layer(config, from_line=False), *between, _layer(config, from_line=True)]
    except InputError as error:
        raise usage_error(str(error).replace(f"{root}/", "")) from None


def env_files(config: pytest.Config) -> dict[str, Variable]:
    """Return the variables of env files; the last file wins.

    Raises:
        pytest.UsageError: one cannot be read, or has errors, all of which are reported.
    """
    here, root = config.invocation_params.dir, config.rootpath
    written = [(origin(config, "bench_env_file"), root, name) for name in ini(config, "bench_env_file")]
    written += [(flag("env_file"), here, name) for name in on_line(config, "env_file") or ()]
    found: dict[str, Variable] = {}
    for blame, directory, name in written:
        from ..settings.env_file import read_env_file
        from ..system.paths import with_home

        try:
            found |= read_env_file(directory / with_home(name), name)
        except InputError as error:
            raise usage_error(f"{blame}: {error}") from None
    return found


def call_arguments(config: pytest.Config) -> list[str]:
    """Return the arguments of pytest, including those from environment variables."""
    arguments = [str(argument) for argument in config.invocation_params.args]
    # First: after a `--` they would be paths.
    return [*(f"--bench-env={name}={value}" for name, value in _from_environment().items()), *arguments]


def _layer(config: pytest.Config, *, from_line: bool) -> Layer:
    values: dict[str, Any] = {}
    if from_line and (variables := _from_environment()):
        values["env"] = variables
    for setting in SETTINGS:
        if setting.apart or not (setting.on_line if from_line else setting.has_ini):
            continue
        written = on_line(config, setting.name) if from_line else ini(config, setting.option)
        if written is None or written is False or written == []:
            continue
        directory = config.invocation_params.dir if from_line else config.rootpath
        value = _read(setting, written, _place(config, setting, from_line=from_line), directory)
        values[setting.name] = {**values.get(setting.name, {}), **value} if isinstance(value, dict) else value
    without, sandbox = BY_NAME["no_docker"], BY_NAME["sandbox"]
    says_so = on_line(config, without.name) if from_line else ini(config, without.option)
    if says_so and values.setdefault("sandbox", LOCAL) != LOCAL:
        one, other = (_place(config, setting, from_line=from_line) for setting in (without, sandbox))
        raise usage_error(f"{one} and {other} contradict each other: it means the sandbox {LOCAL}")
    return Layer(values, origin=lambda key: _place(config, BY_NAME[key], from_line=from_line))


def _place(config: pytest.Config, setting: Setting, *, from_line: bool) -> str:
    """Return the name of the place where a setting is written, for messages."""
    return setting.flag if from_line else origin(config, setting.option)


def _read(setting: Setting, written: Any, blame: str, directory: Path) -> Any:
    from ..settings.parse import parse  # imports types, which take time to build

    try:
        return parse(setting, written, blame, directory)
    except InputError as error:
        raise usage_error(str(error)) from None


def _from_environment() -> dict[str, str]:
    """Return the variables for agents that `benchjobs run` passed on."""
    setting = BY_NAME["env"]
    name = setting.variable or ""
    text = os.environ.get(name)
    if not text:
        return {}
    from ..settings.types import validated

    try:
        table: dict[str, str] = validated(setting, json.loads(text))
    except ValueError:
        raise usage_error(f"{name}: must be a JSON object of variables; unset it") from None
    return table
