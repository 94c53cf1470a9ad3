"""What a user says about gates, under the names of options and of keys in files, as one `GateConfig`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from ..model.errors import InputError
from ..model.gate import NO_BASELINE, Absence, GateConfig, GateExit, GatePolicy, Rule
from .rules import FLOORS, floor, parse_absence, parse_rule

EVERY = "*"
"""Key of a floor that is for each benchmark and agent."""
KEYS = (
    *("baseline", "require_baseline", "first_run", "fail_on_regression"),
    *FLOORS,
    *("policy", "exit", "regress_warn", "noise", "allow_missing", "confirm", "until_decided"),
)
"""What settings say about gates."""
_MOST_FRESH = 1000
DEFAULT_RULE = "mean:any"
"""What a baseline alone asks for: no drop of the mean score that chance does not explain."""
_OF_ALL = ("max_error_rate", "min_samples")
"""Floors every gate has."""
_POINTS = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>pp|%)?")


def gate_config(
    values: Mapping[str, Any], blame: Callable[[str], str] = str, asked: GateConfig | None = None
) -> GateConfig:
    """Gates from what settings say of `KEYS`, laid over what was asked for before.

    `blame` names the place that said something of a key.

    Raises:
        InputError: any of it is wrong, or contradicts something else.

    """
    try:
        return _config(values, blame, asked or GateConfig())
    except _WrongError as error:
        raise InputError(f"{blame(error.key)}: {error}") from None


class _WrongError(Exception):
    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def _config(values: Mapping[str, Any], blame: Callable[[str], str], asked: GateConfig) -> GateConfig:
    baseline = values.get("baseline", asked.baseline)
    rules = [_rule(text) for text in values.get("fail_on_regression", ())]
    rules = rules or [rule for rule in asked.rules if not rule.floor]
    needy = ("fail_on_regression", "require_baseline", "first_run")
    needs = next((key for key in needy if values.get(key)), None)
    if baseline is None and needs is not None:
        name = _sibling(blame, needs, "baseline")
        raise _WrongError(needs, f"there is nothing to compare with; name a baseline with {name}")
    if baseline not in (None, NO_BASELINE) and not rules:
        rules = [parse_rule(DEFAULT_RULE)]
    fields: dict[str, Any] = {}
    for metric in FLOORS:
        if metric not in values:
            rules += (rule for rule in asked.rules if rule.metric == metric)
        for name, value in values.get(metric, {}).items():
            written = str(value) if name == EVERY else f"{name}={value}"
            try:
                rule = floor(metric, written, f"{_flag(metric)} {written}")
            except InputError as error:
                raise _WrongError(metric, str(error).partition(": ")[2]) from None
            if rule.only is None and metric in _OF_ALL:
                fields[metric] = int(rule.amount) if metric == "min_samples" else rule.amount
            else:
                rules.append(rule)
    if "policy" in values:
        fields["policy"] = _one_of("policy", GatePolicy, values["policy"])
    if "exit" in values:
        fields["exit"] = _one_of("exit", GateExit, values["exit"])
    if "regress_warn" in values:
        fields["warn"] = _points("regress_warn", values["regress_warn"])
    if "noise" in values:
        fields["noise"] = {name: _points("noise", value) for name, value in values["noise"].items()}
    if values.get("allow_missing"):
        absent = dict.fromkeys((*asked.allow_missing, *map(_absence, values["allow_missing"])))
        fields["allow_missing"] = tuple(absent)
    if values.get("require_baseline"):
        fields["require_baseline"] = True
    if "baseline" in values or values.get("first_run"):
        # Another baseline than the one that was missing then has to be there.
        fields["first_run"] = bool(values.get("first_run"))
    if baseline == NO_BASELINE:
        # Set for every call in an ini file, and not for this one.
        fields |= {"require_baseline": False, "first_run": False}
    if "confirm" in values:
        if not 0 <= values["confirm"] <= _MOST_FRESH:
            raise _WrongError(
                "confirm", f"{values['confirm']} is no number of attempts from 0 to {_MOST_FRESH}"
            )
        fields["confirm"] = values["confirm"]
    if values.get("until_decided"):
        fields["until_decided"] = True
    return asked.model_copy(update={"baseline": baseline, "rules": tuple(rules), **fields})


def _flag(key: str) -> str:
    return f"--bench-{key.replace('_', '-')}"


def _sibling(blame: Callable[[str], str], key: str, other: str) -> str:
    """How another key is written where `key` was."""
    here = blame(key)
    return here.replace(key.replace("_", "-"), other) if here.startswith("--") else f"`{other}`"


def _rule(text: str) -> Rule:
    try:
        return parse_rule(text)
    except InputError as error:
        raise _WrongError("fail_on_regression", str(error)) from None


def _absence(text: str) -> Absence:
    try:
        return parse_absence(text)
    except InputError as error:
        raise _WrongError("allow_missing", str(error)) from None


def _points(key: str, value: object) -> float:
    """Points of score: `0.02`, or `2pp`."""
    text = str(value).strip()
    match = _POINTS.fullmatch(text)
    number = math.nan if match is None else float(match["number"]) / (100 if match["unit"] else 1)
    if not 0 <= number <= 1:
        raise _WrongError(key, f"{text!r} is no number of points; write 2pp or 0.02")
    return number


def _one_of(key: str, kind: Any, text: object) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise _WrongError(key, f"{str(text)!r} is none of {', '.join(kind)}") from None
