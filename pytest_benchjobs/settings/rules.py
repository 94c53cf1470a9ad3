"""Parser of gate rules, `METRIC[KEY=VALUE,...]:AMOUNT@LEVEL`, and floors. Explained in docs/gates.md."""

from __future__ import annotations

import math
import re
from typing import NoReturn

from ..model.errors import InputError
from ..model.gate import Absence, Rule, Unit
from ..model.metric import METRIC_NAME
from ..sources import did_you_mean

RATES = ("mean", "pass_rate", "pass@K", "pass^K")
"""Metrics within [0, 1]; more is better."""
SINGLE = ("scenario", "critical")
"""Metrics of one scenario at a time."""
SPENT = {"cost": "USD", "tokens": "tokens", "duration": "seconds"}
"""Metrics per attempt, with their unit; less is better."""
METRICS = (*RATES, *SINGLE, *SPENT)
NAMED = "metric"
"""Metric that scorers report, by its name: `metric:NAME`."""
FLOORS = {
    "min_score": "a score from 0 to 1",
    "min_pass_rate": "a share from 0 to 1",
    "max_error_rate": "a share from 0 to 1",
    "min_samples": "a number of scenarios, 1 or more",
    "min_lift": "how many times the score of chance, above 0",
}
"""Limits of a job without a baseline, and the form of their values."""
_KEYS = ("benchmark", "agent", "tag", "alone")
_YES = {"yes": True, "no": False}
_ABSENT = ("benchmark", "scenario", "agent")
"""Keys that select scenarios of the baseline that the job may lack."""
_LONGEST = 1000
_MOST_ATTEMPTS = 10_000
_LOWEST, _HIGHEST = 50.0, 99.99  # 20,000 random signs cannot resolve more than 99.99

_WORD = re.compile(r"[^\[\]:@^,\s]*")
_NAME = re.compile(rf"{METRIC_NAME}(?:#[0-9]{{1,3}})?(?=[\[:@]|$)")
_K = re.compile(r"[0-9]{1,6}")
_NEXT_KEY = re.compile(r",(?=\s*[A-Za-z_]+\s*=)")
_AMOUNT = re.compile(r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*(?P<unit>pp|%|)")
_ANY = "any"


def parse_rule(text: str) -> Rule:
    """Parse a rule, such as `mean:5pp`, `pass_rate[tag=easy]:3pp@90`, `cost:20%` or `critical:any`.

    Raises InputError: it is invalid; the message has the problem, its column, and the valid forms.
    """
    return _Reader(text.strip()).rule()


def floor(metric: str, value: str | float, text: str) -> Rule:
    """Parse the limit of a floor: `X`, or `NAME=X` for one benchmark or agent only; NAME may be a pattern.

    `metric` is a key of `FLOORS`; `text` is the source for messages, such as `--bench-min-score 0.5`.

    Raises InputError: it is invalid.
    """
    only, _, number = str(value).strip().rpartition("=")
    only, number = only.strip(), number.strip()
    match = _AMOUNT.fullmatch(number)
    whole = metric == "min_samples"
    amount = math.nan
    if match is not None and match["unit"] in ("", "%")[: 1 if whole or metric == "min_lift" else 2]:
        amount = float(match["number"]) / (100 if match["unit"] else 1)
    fits = math.isfinite(amount)
    if whole:
        fits = fits and amount >= 1 and amount == int(amount)
    elif metric == "min_lift":
        fits = fits and amount > 0
    else:
        fits = fits and amount <= 1
    if ("=" in str(value) and not only) or not only.isprintable() or len(only) > _LONGEST:
        raise InputError(
            f"{_plain(text)}: {_shown(only)} names no benchmark or agent. Write NAME=X, or X for all of them"
        )
    if not fits:
        raise InputError(
            f"{_plain(text)}: {_shown(number)} is not {FLOORS[metric]}. "
            "Write X, or NAME=X for one benchmark or agent"
        )
    return Rule(text=_plain(text), metric=metric, amount=amount, only=only or None)


def parse_absence(text: str) -> Absence:
    """Parse what a job may lack: the id of a scenario, or `KEY=PATTERN,...` with benchmark, scenario and agent."""
    text = text.strip()
    if not text or not text.isprintable() or len(text) > _LONGEST:
        raise InputError(f"{_shown(text)} names nothing. Write scenario=ID, agent=LABEL or benchmark=NAME")
    if "=" not in text:
        return Absence(text=text, scenario=text)
    scope: dict[str, str] = {}
    for part in _NEXT_KEY.split(text):
        key, _, value = (piece.strip() for piece in part.partition("="))
        if key in _ABSENT and value and key not in scope:
            scope[key] = value
        elif next(reversed(scope), None) == "agent" and key not in scope and not did_you_mean(key, _ABSENT):
            # Labels of a matrix end in parameters: `codex:gpt,temperature=0`.
            scope["agent"] += f",{part.strip()}"
        else:
            problem = f"{key} has no value" if key in _ABSENT and not value else f"unknown key {_shown(key)}"
            problem = f"{key} is given twice" if key in scope else problem
            near = did_you_mean(key, _ABSENT) if key not in _ABSENT else ""
            raise InputError(f"{_shown(text)}: {problem};{near} write KEY=PATTERN with {', '.join(_ABSENT)}")
    return Absence(text=text, **scope)


class _Reader:
    """Parser of a rule, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._metric = ""
        self._name: str | None = None

    def rule(self) -> Rule:
        text = self._text
        if not text:
            raise InputError(f"an empty gate was given. Write METRIC:AMOUNT, such as mean:5pp; {_metrics()}")
        if len(text) > _LONGEST:
            raise InputError(
                f"gate {_shown(text)}: {len(text)} characters are too long; {_LONGEST} are allowed"
            )
        if not text.isprintable():
            at = next(place for place, char in enumerate(text) if not char.isprintable())
            self._refuse(at, f"a character {text[at]!a}; only printable ones are allowed")
        k, at = self._read_metric()
        scope, at = self._read_scope(at)
        amount, unit, at = self._read_amount(at)
        level = self._read_level(at)
        return Rule(
            text=text,
            metric=self._metric,
            name=self._name,
            k=k,
            amount=amount,
            unit=unit,
            level=level,
            benchmark=scope.get("benchmark"),
            agent=scope.get("agent"),
            tag=scope.get("tag"),
            alone=_YES[scope.get("alone", "no")],
        )

    def _read_metric(self) -> tuple[int | None, int]:
        text = self._text
        word = _WORD.match(text)[0]  # type: ignore[index]  # matches nothing at least
        at = len(word)
        mark = text[at : at + 1]
        if word == "pass" and mark in ("@", "^"):
            self._metric = f"pass{mark}K"
            digits = _K.match(text, at + 1)
            if digits is None or not 1 <= int(digits[0]) <= _MOST_ATTEMPTS:
                self._refuse(at + 1, f"invalid number of attempts. Write for example pass{mark}3")
            return int(digits[0]), digits.end()
        if word == NAMED:
            name = _NAME.match(text, at + 1) if mark == ":" else None
            if name is None:
                self._refuse(
                    at, "a metric of scorers has a name. Write metric:NAME:AMOUNT, such as metric:seconds:20%"
                )
            self._metric, self._name = NAMED, name[0]
            return None, name.end()
        if word not in METRICS:
            if word in FLOORS:
                self._refuse(0, f"{word} is a floor: give --bench-{word.replace('_', '-')} instead")
            near = did_you_mean(word, (*METRICS, NAMED))
            self._refuse(0, f"unknown metric {_shown(word)};{near} {_metrics()}")
        self._metric = word
        return None, at

    def _read_scope(self, at: int) -> tuple[dict[str, str], int]:
        text = self._text
        scope: dict[str, str] = {}
        if text[at : at + 1] != "[":
            return scope, at
        # Patterns may have brackets; nothing after the scope does.
        end = text.rfind("]")
        if end < at:
            self._refuse(at, "the bracket is not closed. Write [KEY=VALUE,...]")
        start = at + 1
        last = ""
        for part in _NEXT_KEY.split(text[start:end]):
            key, equals, value = (piece.strip() for piece in part.partition("="))
            if not equals or key not in _KEYS:
                near = did_you_mean(key, _KEYS)
                if last != "agent" or near or not equals:
                    self._refuse(
                        start, f"unknown scope {_shown(key)};{near} write KEY=VALUE with {', '.join(_KEYS)}"
                    )
                # Labels of a matrix end in parameters: `codex:gpt,temperature=0`.
                scope[last] += f",{part.strip()}"
            elif not value:
                self._refuse(start, f"{key} has no value. Write {key}=NAME, or a pattern with *")
            elif key in scope:
                self._refuse(start, f"{key} is given twice")
            elif key == "alone" and value not in _YES:
                self._refuse(start, f"alone is {_shown(value)}. Write alone=yes for a rule that stands alone")
            else:
                scope[key] = value
                last = key
            start += len(part) + 1
        return scope, end + 1

    def _read_amount(self, at: int) -> tuple[float, Unit, int]:
        text = self._text
        if text[at : at + 1] != ":":
            return 0.0, Unit.ABSOLUTE, at
        end = text.find("@", at)
        end = len(text) if end < 0 else end
        start = at + 1
        written = text[start:end].strip()
        if written == _ANY:
            return 0.0, Unit.ABSOLUTE, end
        match = _AMOUNT.fullmatch(written)
        if match is None or not math.isfinite(float(match["number"])):
            self._refuse(start, f"invalid amount {_shown(written)}. {self._allowed()}")
        amount, unit = float(match["number"]), Unit(match["unit"])
        self._check_amount(start, amount, unit)
        return amount, unit, end

    def _check_amount(self, at: int, amount: float, unit: Unit) -> None:
        metric = self._metric
        if metric in SPENT:
            if unit is Unit.POINTS:
                self._refuse(
                    at, f"pp are points of a score, and {metric} is in {SPENT[metric]}. {self._allowed()}"
                )
            return
        if metric == NAMED:
            if unit is Unit.POINTS:
                self._refuse(
                    at, f"pp are points of a score, and {self._name} has its own unit. {self._allowed()}"
                )
            return
        if unit is Unit.RELATIVE and metric in SINGLE:
            self._refuse(at, f"{metric} takes no %: a scenario passes or does not. {self._allowed()}")
        if amount > (1 if unit is Unit.ABSOLUTE else 100):
            self._refuse(at, f"{amount:g}{unit} is more than a score can fall. {self._allowed()}")

    def _read_level(self, at: int) -> float:
        text = self._text
        if at == len(text):
            return 0.95
        if text[at] != "@":
            self._refuse(
                at,
                "only ':' and an amount, or '@' and a level, may follow. "
                "Write METRIC[KEY=VALUE,...]:AMOUNT@LEVEL",
            )
        match = _AMOUNT.fullmatch(text[at + 1 :].strip())
        level = float(match["number"]) if match is not None and not match["unit"] else math.nan
        if level < 1:
            level *= 100
        if not _LOWEST < level <= _HIGHEST:
            self._refuse(
                at + 1,
                f"invalid level {_shown(text[at + 1 :])}. Write a percentage above 50, such as 95 or 99.9",
            )
        return round(level / 100, 12)

    def _allowed(self) -> str:
        if self._metric in SPENT:
            return f"Write 20%, {SPENT[self._metric]} per attempt such as 0.5, or any"
        if self._metric == NAMED:
            return f"Write 20%, an amount of {self._name} such as 0.5, or any"
        if self._metric in SINGLE:
            return "Write 50pp, 0.5, or any"
        return "Write 5pp for points, 5% of the baseline, 0.05, or any"

    def _refuse(self, at: int, problem: str) -> NoReturn:
        raise InputError(f"gate {_shown(self._text)}, column {at + 1}: {problem}")


def _metrics() -> str:
    return f"there are {', '.join(METRICS)}, {NAMED}:NAME"


def _plain(text: str) -> str:
    return text if text.isprintable() else ascii(text)[1:-1]


def _shown(text: str) -> str:
    """Format any text on one line."""
    if text.isprintable():
        return repr(text[:100])
    return ascii(text if len(text) <= 100 else text[:97] + "...")
