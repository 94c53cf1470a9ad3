"""The job that a pytest session requests, read once: from the ini file, profiles, job files, pasted ids and options."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..job.job_settings import JobSettings, Said, settings_from
from ..model.environ import HOST, Variable
from ..model.errors import InputError
from ..settings.layers import Layer, as_one
from ..settings.setting import Setting
from ..settings.table import BY_NAME, LOCAL, SETTINGS
from ..store.layout import Layout
from ..system.paths import is_file
from .options import flag, ini, on_line, origin, usage_error
from .state import is_worker, state_of

if TYPE_CHECKING:
    from ..model.agent import AgentSpec
    from ..model.job import JobConfig, JobRecord
    from ..store.rows import TrialRow

    _Implied = tuple[AgentSpec, int, Any]
    """Agent, number of attempts, and attempt policy if known."""


def settings_of(config: pytest.Config) -> JobSettings:
    """Return the job that options, files and the ini file request. UsageError: a setting is wrong."""
    state = state_of(config)
    if state.settings is None:
        config.add_cleanup(HOST.lay_below(_env_files(config)))
        try:
            state.settings = settings_from(_said(config))
        except InputError as error:
            raise usage_error(str(error)) from None
    return state.settings


def _said(config: pytest.Config) -> Said:
    """Return all given settings, and their places."""
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
    """Return a layer for each place of settings, the lowest first."""
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
            between += filter(None, [_implied(config)])
        return [_layer(config, from_line=False), *between, _layer(config, from_line=True)]
    except InputError as error:
        raise usage_error(str(error).replace(f"{root}/", "")) from None


def _env_files(config: pytest.Config) -> dict[str, Variable]:
    """Return the variables of env files; the last file wins."""
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


def _implied(config: pytest.Config) -> Layer | None:
    """Return the agents and attempts that ids among the arguments imply.

    None without such ids, or if other arguments need the agents of the options.
    """
    ids = [argument for argument in config.args if "::" in argument and argument.endswith("]")]
    if not ids or not all(argument in ids or _is_ordinary(argument) for argument in config.args):
        return None
    ids = [argument for argument in ids if not _is_ordinary(argument) or _is_of_benchmark(config, argument)]
    found = [_remembered(config, argument) or _guessed(argument) for argument in ids]
    known = [one for one in found if one is not None]
    if not known or len(known) < len(ids):
        return None
    values: dict[str, Any] = {
        "agents": tuple({agent.label: agent for agent, _, _ in known}.values()),
        "attempts": max(attempts for _, attempts, _ in known),
    }
    if len(policies := {str(policy): policy for _, _, policy in known if policy is not None}) == 1:
        values["attempt_policy"] = next(iter(policies.values()))
    return Layer(values, origin=lambda _: "the id of a trial")


def names_trials(config: pytest.Config) -> bool:
    """Return whether trials were named one by one, which leaves others out without deselecting them.

    They are by ids, by `--lf`, and by task directories, each of which is a part of a benchmark, or their `task.toml`.
    """
    return bool(getattr(config.option, "lf", False)) or any(
        "::" in argument or _is_task(config.invocation_params.dir / argument) for argument in config.args
    )


def _is_task(place: Path) -> bool:
    from ..sources import open_source

    return place.name == "task.toml" or ((place / "task.toml").is_file() and open_source(place) is not None)


def _is_ordinary(argument: str) -> bool:
    """Return whether an argument is a Python test, or a file of them; or a trial of a benchmark in such a file."""
    return argument.partition("::")[0].endswith(".py")


def _is_of_benchmark(config: pytest.Config, argument: str) -> bool:
    """Return whether an id is that of a trial of a benchmark written in Python, which ran before."""
    if argument.count("::") < 2:
        return False
    name = argument.rpartition("::")[2].partition("[")[0]
    found = _earlier(config, argument)
    return found is not None and any(row.scenario == name for row in found[0])


def _remembered(config: pytest.Config, argument: str) -> _Implied | None:
    """Return the settings of the newest job with the trial."""
    if (found := _earlier(config, argument)) is None:
        return None
    rows, record = found
    if record is None or len({row.agent for row in rows}) > 1:
        return None
    agent = next((one for one in record.config.agents if one.label == rows[0].agent), None)
    here: JobConfig = record.config.of(rows[0].benchmark)
    return None if agent is None else (agent, here.attempts, here.attempt_policy)


def _earlier(config: pytest.Config, argument: str) -> tuple[list[TrialRow], JobRecord | None] | None:
    """Return the trials with an id, and the newest job that has them."""
    from_line = on_line(config, "dir")
    base = config.invocation_params.dir if from_line else config.rootpath
    directory = base / (from_line or ini(config, BY_NAME["dir"].option) or "reports")
    if not is_file(Layout(directory).history):
        return None
    from ..store.reader import HistoryReader
    from ..store.trial_ids import trials_named

    # Where all attempts share one verdict, its id has no number.
    for trial in (argument, f"{argument[:-1]}-1]"):
        with contextlib.suppress(InputError), HistoryReader.of(directory) as history:
            rows = trials_named(history, trial)
            return rows, history.job(rows[0].job)
    return None


def _guessed(argument: str) -> _Implied | None:
    """Return the settings in the id itself."""
    from ..model.agent import AgentSpec

    label = argument[:-1].rpartition("[")[2]
    name, dash, number = label.rpartition("-")
    attempt = int(number) if dash and number.isdecimal() and len(number) < 4 and ":" not in label else 0
    written = name if attempt else label
    try:
        agent = AgentSpec.parse(written)
    except InputError:
        return None
    return (agent, max(2, attempt) if attempt else 1, None) if agent.label == written else None
