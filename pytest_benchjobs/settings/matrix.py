"""The matrix: every agent with every combination of parameters, without excluded cells."""

from __future__ import annotations

import dataclasses
import fnmatch
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..model.agent import AgentSpec
from ..model.errors import InputError
from ..sources import did_you_mean
from .agents import changed
from .values import read_value, same, split_values

_AGENT, _BENCHMARK = "agent", "benchmark"
MAX_CELLS = 10_000


@dataclasses.dataclass(frozen=True, slots=True)
class Matrix:
    """Parameters with their values, and the excluded cells."""

    parameters: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    exclude: Sequence[Mapping[str, Any]] = ()

    def cells(self, agents: Iterable[AgentSpec]) -> tuple[AgentSpec, ...]:
        """Yield every agent with every combination."""
        names = list(self.parameters)
        combinations = [
            dict(zip(names, values, strict=True)) for values in itertools.product(*self.parameters.values())
        ]
        return tuple(
            changed(agent, params={**agent.params, **combination})
            for agent in agents
            for combination in combinations
        )

    def excludes(self, benchmark: str, agent: AgentSpec) -> bool:
        """Return whether the agent is left out of the benchmark."""
        return any(_matches(cell, benchmark, agent) for cell in self.exclude)

    def check(self, agents: Sequence[AgentSpec]) -> None:
        """Validate the matrix for these agents, before it is expanded. InputError: the first mistake."""
        count = len(agents)
        for name, values in self.parameters.items():
            if not values:
                raise InputError(f"{name} has no values")
            _refuse_repeats(name, values)
            count *= len(values)
            taken = next((agent for agent in agents if name in agent.params), None)
            if taken is not None:
                raise InputError(f"{name} is a parameter of the agent {taken} already")
        if count > MAX_CELLS:
            raise InputError(f"it has {count} agents with parameters; at most {MAX_CELLS} are allowed")
        for cell in self.exclude:
            self._check_exclusion(cell, agents)

    def _check_exclusion(self, cell: Mapping[str, Any], agents: Sequence[AgentSpec]) -> None:
        if not cell:
            raise InputError("an empty exclusion would exclude everything")
        for key, value in cell.items():
            if key == _AGENT:
                if not any(_is(agent, value) for agent in agents):
                    names = ", ".join(str(agent) for agent in agents)
                    raise InputError(f"exclude: no agent is called {_shown(value)}; available: {names}")
            elif key == _BENCHMARK:
                if not isinstance(value, str):
                    raise InputError(f"exclude: {_shown(value)} is not the name of a benchmark")
            elif key not in self.parameters:
                known = (_AGENT, _BENCHMARK, *self.parameters)
                hint = did_you_mean(key, known).strip() or f"available: {', '.join(known)}"
                raise InputError(f"exclude: {key!r} is not a parameter of the matrix; {hint}")
            elif not any(same(value, other) for other in self.parameters[key]):
                values = ", ".join(map(_shown, self.parameters[key]))
                raise InputError(f"exclude: {key} has no value {_shown(value)}; its values are {values}")


def parse_parameter(text: str) -> tuple[str, list[Any]]:
    """Parse `KEY=V1,V2`; each value is JSON if it can be, else text. InputError: it has another form, or no value."""
    key, equals, rest = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"{text!r} is not of the form KEY=V1,V2")
    values = split_values(rest)
    if "" in values:
        raise InputError(f"{text!r} has an empty value; write KEY=V1,V2")
    try:
        return key.strip(), [read_value(value) for value in values]
    except ValueError as error:
        raise InputError(f"{text!r}: {error}") from None


def parse_parameters(texts: Iterable[str]) -> dict[str, list[Any]]:
    """Parse several `KEY=V1,V2`. InputError: one is not of that form, or two have the same key."""
    found: dict[str, list[Any]] = {}
    for text in texts:
        key, values = parse_parameter(text)
        if key in found:
            raise InputError(f"{key} is given twice; write {key}=V1,V2")
        _refuse_repeats(key, values)
        found[key] = values
    return found


def _refuse_repeats(name: str, values: Sequence[Any]) -> None:
    for index, value in enumerate(values):
        if any(same(value, other) for other in values[:index]):
            raise InputError(f"{name} has the value {_shown(value)} twice")


def _matches(cell: Mapping[str, Any], benchmark: str, agent: AgentSpec) -> bool:
    return all(
        _is(agent, value)
        if key == _AGENT
        else fnmatch.fnmatchcase(benchmark, value)
        if key == _BENCHMARK
        else key in agent.params and same(agent.params[key], value)
        for key, value in cell.items()
    )


def _is(agent: AgentSpec, pattern: object) -> bool:
    """Return whether a pattern matches the agent: its name, with or without the model."""
    if not isinstance(pattern, str):
        return False
    model = f"{agent.name}:{agent.model}"
    names = (agent.name, model, changed(agent, params={}).label)
    return pattern in names or any(fnmatch.fnmatchcase(name, pattern) for name in names)


def _shown(value: object) -> str:
    return json.dumps(value) if not isinstance(value, str) else repr(value[:60])
