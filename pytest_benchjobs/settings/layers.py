"""Layers of settings, merged in order, and the origin of each value.

The lowest layer has the defaults, then come the ini file, profiles, the job file, `--bench-extra`, and on top the
options of the command line. A higher layer overrides a lower one. Within a layer, values for one benchmark override
those for all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .table import BY_NAME, SETTINGS
from .values import overlay

PER_BENCHMARK = tuple(setting.name for setting in SETTINGS if setting.per_benchmark)
"""Settings that may differ for one benchmark, besides `params`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Layer:
    """Values of one place."""

    values: Mapping[str, Any]
    per_benchmark: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    origin: Callable[[str], str] = str
    """Return the name of the place a value is from, for messages: of its key, or of `per_benchmark.NAME`."""


def merge(layers: Iterable[Layer]) -> Layer:
    """Merge layers: each overrides those before it, also their values for one benchmark by its own for all."""
    return _merged([*layers], above=True)


def as_one(layers: Sequence[Layer]) -> Layer:
    """Merge layers of one place: values for one benchmark override values for all, from any of them."""
    return _merged(layers, above=False)


def _merged(layers: Sequence[Layer], *, above: bool) -> Layer:
    values: dict[str, Any] = {}
    benchmarks: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        for entry in benchmarks.values() if above else ():
            _forget(entry, layer.values)
        values = _all_laid_over(values, layer.values)
        origins |= {key: layer.origin(key) for key in layer.values}
        origins |= {f"per_benchmark.{name}": layer.origin("per_benchmark") for name in layer.per_benchmark}
        for name, changes in layer.per_benchmark.items():
            benchmarks[name] = _all_laid_over(benchmarks.get(name, {}), changes)
    other = str if above else layers[-1].origin if layers else str
    return Layer(values, benchmarks, lambda key: origins.get(key) or other(key))


def _forget(changes: dict[str, Any], said: Mapping[str, Any]) -> None:
    """Remove values of one benchmark that a higher layer overrides for all."""
    for key in PER_BENCHMARK:
        if key in said:
            changes.pop(key, None)
    params = {
        name: value for name, value in changes.get("params", {}).items() if name not in said.get("params", ())
    }
    if "params" in changes:
        changes["params"] = params


def _all_laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    return {**below, **{key: _laid_over(key, below.get(key), value) for key, value in above.items()}}


def _laid_over(key: str, below: Any, above: Any) -> Any:
    merge = BY_NAME[key].written.merge if key in BY_NAME else "replace"
    if merge == "merge":
        return overlay(below or {}, above)
    return [*(below or ()), *above] if merge == "add" else above
