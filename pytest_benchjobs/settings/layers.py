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
    """Return the name of the place a value is from, for messages."""


@dataclasses.dataclass(frozen=True, slots=True)
class Merged:
    """Values of all layers, merged."""

    values: dict[str, Any]
    per_benchmark: dict[str, dict[str, Any]]
    origins: dict[str, str]
    """Key, or `per_benchmark.NAME` -> place of its value."""

    def origin(self, key: str) -> str:
        """Return the name of the place a value is from."""
        return self.origins.get(key, key)


def merge(layers: Iterable[Layer]) -> Merged:
    """Merge layers: each overrides those before it."""
    values: dict[str, Any] = {}
    benchmarks: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        for entry in benchmarks.values():
            _forget(entry, layer.values)
        values = _all_laid_over(values, layer.values)
        origins |= {key: layer.origin(key) for key in layer.values}
        origins |= {f"per_benchmark.{name}": layer.origin("per_benchmark") for name in layer.per_benchmark}
        for name, changes in layer.per_benchmark.items():
            benchmarks[name] = _all_laid_over(benchmarks.get(name, {}), changes)
    return Merged(values, benchmarks, origins)


def as_one(layers: Sequence[Layer]) -> Layer:
    """Merge several layers into one. Values for one benchmark override values for all, from any layer."""
    values: dict[str, Any] = {}
    benchmarks: dict[str, dict[str, Any]] = {}
    for layer in layers:
        values = _all_laid_over(values, layer.values)
        for name, changes in layer.per_benchmark.items():
            benchmarks[name] = _all_laid_over(benchmarks.get(name, {}), changes)

    def origin(key: str) -> str:
        said = [layer for layer in layers if key in layer.values]
        return (said or layers)[-1].origin(key)

    return Layer(values, benchmarks, origin)


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
