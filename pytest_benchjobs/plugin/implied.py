"""Settings implied by pasted ids of trials: the agents and the number of attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ..model.errors import InputError
from ..settings.layers import Layer
from ..settings.table import BY_NAME
from ..store.layout import Layout
from ..system.paths import is_file
from . import options

if TYPE_CHECKING:
    from ..model.agent import AgentSpec
    from ..model.job import JobConfig, JobRecord
    from ..store.rows import TrialRow


def layer_of(config: pytest.Config) -> Layer | None:
    """Return the settings implied by ids among the arguments: agents and number of attempts.

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


_Implied = tuple["AgentSpec", int, Any]
"""Agent, number of attempts, and attempt policy if known."""


def _remembered(config: pytest.Config, argument: str) -> _Implied | None:
    """Return the settings of the newest job with the trial."""
    found = _earlier(config, argument)
    if found is None:
        return None
    rows, record = found
    if record is None or len({row.agent for row in rows}) > 1:
        return None
    agent = next((one for one in record.config.agents if one.label == rows[0].agent), None)
    if agent is None:
        return None
    here: JobConfig = record.config.of(rows[0].benchmark)
    return agent, here.attempts, here.attempt_policy


def _earlier(config: pytest.Config, argument: str) -> tuple[list[TrialRow], JobRecord | None] | None:
    """Return the trials with an id, and the newest job that has them."""
    on_line = options.on_line(config, "dir")
    text = on_line or options.ini(config, BY_NAME["dir"].option)
    base = config.invocation_params.dir if on_line else config.rootpath
    directory = base / (text or "reports")
    if not is_file(Layout(directory).history):
        return None
    from ..store.reader import HistoryReader
    from ..store.trial_ids import trials_named

    try:
        with HistoryReader.of(directory) as history:
            rows = trials_named(history, argument)
            return rows, history.job(rows[0].job)
    except InputError:
        try:
            # All attempts share one verdict, whose id has no number.
            with HistoryReader.of(directory) as history:
                rows = trials_named(history, f"{argument[:-1]}-1]")
                return rows, history.job(rows[0].job)
        except InputError:
            return None


def _guessed(argument: str) -> _Implied | None:
    """Return the settings in the id itself."""
    from ..model.agent import AgentSpec

    label = argument[:-1].rpartition("[")[2]
    name, dash, number = label.rpartition("-")
    attempt = int(number) if dash and number.isdecimal() and len(number) < 4 and ":" not in label else 0
    try:
        agent = AgentSpec.parse(name if attempt else label)
    except InputError:
        return None
    return (
        (agent, max(2, attempt) if attempt else 1, None)
        if agent.label == (name if attempt else label)
        else None
    )
