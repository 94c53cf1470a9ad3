"""Reading scores from the output of scorers, and from the files and reports they leave. Pure."""

from __future__ import annotations

import itertools
import json
import math
import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from ..model.errors import ScoreContradicted, ScoreInvalid, ScoreMissing
from ..system.cutting import beginning_of, last_line
from .protocol import Graded

_BYTE_ORDER_MARK = "\ufeff"
_REWARDS_SHOWN = 100
_HUGE = 1e300
_HAIR = 1e-12
# Possessive: a million digits before a letter would take hours.
NUMBER = r"[-+]?(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?|[-+]?(?:nan|inf(?:inity)?)"
_SCORE_LINE = re.compile(rf"^\s*score\s*=\s*({NUMBER})\s*$", re.IGNORECASE)
_NUMBER_LINE = re.compile(rf"^\s*({NUMBER})\s*$", re.IGNORECASE)


def checked(value: object, who: str) -> float:
    """Return a value as a score, a hair beside 0 or 1 as 0 or 1. ScoreInvalid: no number within [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise ScoreInvalid(f"{who} gave {reprlib.repr(value)}, which is not a number within [0, 1]")
    if not -_HAIR <= value <= 1 + _HAIR:
        shown = (
            "infinity"
            if abs(value) == math.inf
            else f"{value:.9g}"
            if abs(value) < _HUGE
            else "a huge number"
        )
        raise ScoreInvalid(f"{who} gave {shown}, which is outside [0, 1]")
    return 1.0 if value >= 1 - _HAIR else max(0.0, float(value))


def parse_score(output: str, who: str) -> float:
    """The score a script printed: its line `score=X`, else its last line if that is a number.

    ScoreMissing: it printed neither. ScoreContradicted: it printed two that differ. ScoreInvalid: not within [0, 1].
    """
    lines = [line for line in output.splitlines() if line.strip()]
    said = [match for line in lines if (match := _SCORE_LINE.match(line))]
    if (
        lines
        and (match := _NUMBER_LINE.match(lines[-1]))
        and (not said or -_HAIR <= float(match[1]) <= 1 + _HAIR)
    ):
        said.append(match)
    if said:
        scores = [checked(float(match[1]), who) for match in said]
        _check_same(f"{who} printed", scores)
        return scores[-1]
    last = f"its last line is {last_line(output, 200)!r}" if lines else "it printed nothing"
    raise ScoreMissing(f"{who} printed no score: {last}. Print `score=X`, or a number on the last line")


def _check_same(who: str, scores: Sequence[float]) -> None:
    """Refuse scores that differ (ScoreContradicted): code of the agent may have given either."""
    if min(scores) != max(scores):
        raise ScoreContradicted(
            f"{who} two scores that differ: {min(scores):g} and {max(scores):g}; give one score"
        )


def parse_reward(reward_json: str | None, reward_text: str | None, output: str = "") -> Graded:
    """The score in Harbor's reward files; `reward.json` takes precedence, and may have what `reward.txt` cannot.

    A JSON object may hold more keys. If it has `reward`, that is the score, else the mean of all numbers in it. All but
    `reward` are in the metrics, whatever their values. ScoreMissing: there is neither file, or the file is empty.
    ScoreContradicted: both give one reward, and not the same. ScoreInvalid: unreadable, or not within [0, 1].
    """
    if reward_json is not None:
        graded = _reward_of_json(reward_json.removeprefix(_BYTE_ORDER_MARK), output)
        other = _reward_of_text(reward_text)
        if other is not None and "reward" in graded.details.get("rewards", ("reward",)):
            _check_same("reward.json and reward.txt give", (graded.score or 0.0, other))
        return graded
    if reward_text is None:
        raise ScoreMissing(
            "the tests left neither /logs/verifier/reward.json nor reward.txt; "
            f"the last thing they printed: {last_line(output, 200) or 'nothing'}"
        )
    if not reward_text.removeprefix(_BYTE_ORDER_MARK).strip():
        raise ScoreMissing("reward.txt is empty")
    number = _reward_of_text(reward_text)
    if number is None:
        raise ScoreInvalid(
            f"reward.txt holds {beginning_of(reward_text.strip(), 100)!r}, which is not a number"
        )
    return Graded(checked(number, "reward.txt"), output)


def check_owner(owners: Mapping[str, int], owner: int) -> None:
    """Refuse reward files (path -> user id in `owners`) of other users than the scorer's: ScoreContradicted."""
    for name in ("reward.json", "reward.txt"):
        if owners.get(name, owner) != owner:
            raise ScoreContradicted(
                f"{name} belongs to user {owners[name]}, and not to the scorer's, {owner}: let the scorer write it"
            )


def _reward_of_text(text: str | None) -> float | None:
    """Return the number in a `reward.txt`; None if there is none."""
    try:
        return float((text or "").removeprefix(_BYTE_ORDER_MARK))
    except ValueError:
        return None


def without_repeats(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of JSON. ValueError: a key is repeated, so readers would disagree about which value counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is repeated")
    return found


def json_of(text: str, what: str, kind: str = "JSON") -> Any:
    """Parse JSON that a scorer left in `what`. ScoreInvalid: it is none, too deep, or has a key twice."""
    try:
        return json.loads(text.removeprefix(_BYTE_ORDER_MARK), object_pairs_hook=without_repeats)
    except RecursionError:
        raise ScoreInvalid(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise ScoreInvalid(f"{what} is not {kind}: {beginning_of(str(error), 200)}") from None


def _reward_of_json(text: str, output: str) -> Graded:
    if not text.strip():
        raise ScoreMissing("reward.json is empty")
    value = json_of(text, "reward.json")
    if not isinstance(value, dict):
        return Graded(checked(value, "reward.json"), output)
    if not value:
        raise ScoreMissing("reward.json holds no reward")
    if "reward" in value:
        # Other keys are for people to read.
        score = checked(value["reward"], "reward.json, key 'reward',")
    else:
        numbers = [
            checked(number, f"reward.json, key {beginning_of(key, 100)!r},") for key, number in value.items()
        ]
        score = min(math.fsum(numbers) / len(numbers), 1.0)
    shown = {beginning_of(key, 100): kept for key, kept in itertools.islice(value.items(), _REWARDS_SHOWN)}
    return Graded(score, output, {"rewards": shown}, {k: v for k, v in value.items() if k != "reward"})


class _WithoutDtd(ElementTree.TreeBuilder):
    """Parser that refuses a DTD, whose entities could expand until memory is full. Failures may quote one."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:  # noqa: ARG002
        """Refuse it."""
        raise ElementTree.ParseError("it has a DTD")


def counts(outcomes: Sequence[tuple[str, bool]] | None) -> tuple[int, int] | None:
    """Return how many tests of a report passed, and of how many; None: it is no report."""
    return None if outcomes is None else (sum(passed for _, passed in outcomes), len(outcomes))


def junit_outcomes(text: str) -> list[tuple[str, bool]] | None:
    """Names of the tests in a JUnit report, but skipped ones, and whether each passed; None when it is not one."""
    text = text.removeprefix(_BYTE_ORDER_MARK)
    try:
        root = ElementTree.fromstring(text, ElementTree.XMLParser(target=_WithoutDtd()))  # noqa: S314
    except ElementTree.ParseError:
        return None
    if root.tag not in ("testsuites", "testsuite"):
        return None
    outcomes: list[tuple[str, bool]] = []
    before: tuple[str | None, str | None] | None = None
    for case in root.iter("testcase"):
        if case.find("skipped") is not None:
            continue
        passed = case.find("failure") is None and case.find("error") is None
        this = None if passed or not case.get("name") else (case.get("classname"), case.get("name"))
        # pytest repeats a test that failed if its teardown breaks, too.
        if this is None or this != before or case.find("error") is None:
            outcomes.append((case.get("name", ""), passed))
        before = this
    return outcomes


def ctrf_outcomes(text: str) -> list[tuple[str, bool]] | None:
    """The same of a CTRF report."""
    try:
        report = json.loads(text.removeprefix(_BYTE_ORDER_MARK), object_pairs_hook=without_repeats)
        tests: Any = report["results"]["tests"]
        return [
            (str(test.get("name", "")), test["status"] == "passed")
            for test in tests
            if test["status"] not in ("skipped", "pending")
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
