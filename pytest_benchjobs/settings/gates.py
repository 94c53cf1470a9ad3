"""Gates from settings: makes a `GateConfig` of the values of several settings."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from ..model.errors import InputError
from ..model.gate import NO_BASELINE, GateConfig, GateExit, GatePolicy, Rule
from .rules import FLOORS, floor, parse_absence, parse_rule
from .table import BY_NAME, SETTINGS

EVERY = "*"
"""Key of a floor for every benchmark and agent."""
KEYS = tuple(setting.name for setting in SETTINGS if setting.gate)
"""Names of the settings of gates."""
DEFAULT_RULE = "mean:any"
"""The rule of a baseline without other rules: no drop of the mean score that chance does not explain."""
CHOICES = {"policy": GatePolicy, "exit": GateExit}
_AS_THEY_ARE = ("policy", "exit", "regress_warn", "noise", "confirm")
_FIELDS = {"regress_warn": "warn"}
"""Setting -> field of the configuration, if the name differs."""
_OF_ALL = ("max_error_rate", "min_samples")
"""Floors of every gate."""
_POINTS = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>pp|%)?")


def gate_config(
    values: Mapping[str, Any], blame: Callable[[str], str] = str, base: GateConfig | None = None
) -> GateConfig:
    """Make the gates from the settings of `KEYS`, which override earlier ones.

    `blame` returns the place of a key, for messages.

    Raises InputError: a setting is wrong, or contradicts another.
    """
    base = base or GateConfig()
    said = _read(values, blame)
    baseline = said.get("baseline", base.baseline)
    needy = ("fail_on_regression", "require_baseline", "first_run", "anchor")
    needs = next((key for key in needy if said.get(key)), None)
    if baseline is None and needs is not None:
        name = _sibling(blame, needs, "baseline")
        raise InputError(f"{blame(needs)}: it needs a baseline; name one with {name}")
    fields = {_FIELDS.get(key, key): said[key] for key in _AS_THEY_ARE if key in said}
    rules = said.get("fail_on_regression") or [rule for rule in base.rules if not rule.floor]
    if baseline not in (None, NO_BASELINE) and not rules:
        rules = [parse_rule(DEFAULT_RULE).model_copy(update={"default": True})]
    for metric in FLOORS:
        if metric not in said:
            rules = [*rules, *(rule for rule in base.rules if rule.metric == metric)]
        for rule in said.get(metric, {}).values():
            if rule.only is None and metric in _OF_ALL:
                fields[metric] = int(rule.amount) if metric == "min_samples" else rule.amount
            else:
                rules = [*rules, rule]
    if said.get("allow_missing"):
        fields["allow_missing"] = tuple(dict.fromkeys((*base.allow_missing, *said["allow_missing"])))
    fields |= {key: True for key in ("require_baseline", "require_fresh", "until_decided") if said.get(key)}
    if "baseline" in said or said.get("first_run"):
        # `first_run` was given for the earlier baseline: a new one has to exist.
        fields["first_run"] = bool(said.get("first_run"))
    if baseline == NO_BASELINE:
        # From an ini file, for every call: not for this one in particular.
        fields |= {"require_baseline": False, "first_run": False}
    anchor = None if baseline == NO_BASELINE else said.get("anchor", base.anchor)
    update = {"baseline": baseline, "anchor": anchor, "rules": tuple(rules), **fields}
    return base.model_copy(update=update)


def _read(values: Mapping[str, Any], blame: Callable[[str], str]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for key in KEYS:
        if key in values:
            try:
                said[key] = gate_value(key, values[key])
            except ValueError as error:
                raise InputError(f"{blame(key)}: {error}") from None
    return said


def gate_value(key: str, value: Any) -> Any:
    """Parse the value of a gate setting: rules, absences, points, floors by name. ValueError: it is wrong."""
    try:
        match BY_NAME[key].kind:
            case "rules":
                return [parse_rule(text) for text in value]
            case "absences":
                return [parse_absence(text) for text in value]
            case "floors":
                return {name: _floor(key, name, amount) for name, amount in value.items()}
            case "noise":
                return {name: _points(points) for name, points in value.items()}
            case "points":
                return _points(value)
            case "gate choice":
                if value not in [*CHOICES[key]]:
                    raise ValueError(f"{str(value)!r} is none of {', '.join(CHOICES[key])}")
                return CHOICES[key](value)
    except InputError as error:
        raise ValueError(str(error)) from None
    return value


def _sibling(blame: Callable[[str], str], key: str, other: str) -> str:
    """Return the name of another key in the form of `key` at its place: an option or a key of a file."""
    here = blame(key)
    return here.replace(key.replace("_", "-"), other) if here.startswith("--") else f"`{other}`"


def _floor(metric: str, name: str, amount: object) -> Rule:
    written = str(amount) if name == EVERY else f"{name}={amount}"
    try:
        return floor(metric, written, f"{BY_NAME[metric].flag} {written}")
    except InputError as error:
        raise ValueError(str(error).partition(": ")[2]) from None


def _points(value: object) -> float:
    """Parse points of a score: `0.02`, or `2pp`."""
    text = str(value).strip()
    match = _POINTS.fullmatch(text)
    number = math.nan if match is None else float(match["number"]) / (100 if match["unit"] else 1)
    if not 0 <= number <= 1:
        raise ValueError(f"{text!r} is not a number of points; write 2pp or 0.02")
    return number
