r"""Comparing a short answer with the right one. Pure functions: no files, no clock; `patterns` runs those of `regex`.

    exact     a text, without spaces around it
    integer   a whole number within a range
    number    JSON, each number within an absolute tolerance
    choice    a letter
    grid      grids of small integers, several tries for each
    json      JSON, of the same types and values
    regex     a text in which a pattern is found

An answer is either a file that the agent had to write, which counts as a whole; or the reply of a model, in which the
answer comes last, behind `ANSWER:` or in a `\boxed{}`. Answers are hostile: any text is either right or `Wrong`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt, StrictStr, TypeAdapter, ValidationError

from ..model.base import Model
from ..model.errors import ScoreInvalid
from ..model.pattern import pattern_fault
from .grids import answer_grid, is_grid
from .patterns import search
from .replies import (
    SEARCHED,
    Wrong,
    answer_in,
    is_second,
    last_array,
    number_in,
    parsed,
    places,
    says_something,
    value_in,
)
from .values import bare, integer, letter, number, plain

_TRIES = 50
"""The most tries of an answer that are read."""


Units = tuple[Annotated[StrictStr, Field(min_length=1, max_length=50)], ...]
"""Units that may follow a number in a reply, as they are written; degrees may always."""


def _alternatives(units: Units) -> str:
    return "|".join(map(re.escape, units))


class Exact(Model):
    """A text."""

    match: Literal["exact"]
    expected: StrictStr

    def grade(self, text: str, *, is_reply: bool) -> float:
        """Compare it with the whole text, or with what stands at a reply's final answer."""
        wanted = self.expected.strip()
        if text.strip() == wanted:
            return 1.0
        for place in places(text) if is_reply else ():
            inside = place.inside or ""
            if is_second(text, place):
                break
            if wanted in (inside.strip(), inside.strip(" \t*_`$."), bare(inside), bare(plain(inside))):
                return 1.0
            if place.is_weak or says_something(place):
                break
        raise Wrong("it is not equal")


class Integer(Model):
    """A whole number."""

    match: Literal["integer"]
    expected: StrictInt
    least: StrictInt | None = None
    most: StrictInt | None = None
    units: Units = ()

    def grade(self, text: str, *, is_reply: bool) -> float:
        """Compare it as a number: `+25` and `025` are 25."""
        if re.fullmatch(r"[+-]?[0-9]{1,400}", text.strip(), re.ASCII):
            found: int | None = int(text)
        else:
            found = answer_in(text, self._read) if is_reply else None
        if found is None:
            raise Wrong("it has no integer after ANSWER:" if is_reply else "it is not an integer")
        if not self._allows(found):
            raise Wrong("it is out of range")
        return _equal(found == self.expected)

    def model_post_init(self, _: Any) -> None:
        """Check that the right answer is a number in range."""
        if not self._allows(self.expected):
            raise ValueError("the expected integer is out of range")

    def _read(self, text: str) -> int | None:
        return integer(text, _alternatives(self.units))

    def _allows(self, number: int) -> bool:
        return (self.least is None or number >= self.least) and (self.most is None or number <= self.most)


class Number(Model):
    """Numbers, alone or in lists and tables."""

    match: Literal["number"]
    expected: Any
    tolerance: Any = 0
    """Absolute: one for all, or of the shape of `expected`."""
    key: StrictStr | None = None
    """The answer may be an object with its value at this key."""
    units: Units = ()

    def grade(self, text: str, *, is_reply: bool) -> float:
        """Compare it element by element. Further keys of a table do not matter."""
        given = self._given(text, is_reply=is_reply)
        compared = list(_within(given, self.expected, self.tolerance))
        right = sum(compared)
        if right < len(compared):
            raise Wrong(f"{right} of {len(compared)} values are within their tolerance")
        return 1.0

    def model_post_init(self, _: Any) -> None:
        """Check that the right answer is within its own tolerance."""
        if not all(_within(self.expected, self.expected, self.tolerance)):
            raise ValueError("the expected value is not within its own tolerance")

    def _given(self, text: str, *, is_reply: bool) -> Any:
        """Return the value to compare: JSON, or a single number of a reply in any form."""
        is_one = is_reply and _is_number(self.expected)
        try:
            given = value_in(text, is_reply=is_reply)
        except Wrong:
            if not is_one:
                raise
            given = None
        if isinstance(given, dict) and self.key is not None and self.key in given:
            return given[self.key]
        return number_in(text, self._read) if is_one else given

    def _read(self, text: str) -> float | None:
        if self.tolerance:
            text = re.sub(r"^(?:approximately|approx\.?|about|roughly|around)\s+", "", text)
        return number(text, _alternatives(self.units))


class Choice(Model):
    """A letter."""

    match: Literal["choice"]
    expected: Annotated[StrictStr, Field(pattern=r"^[A-Z]$")]
    letters: Annotated[StrictStr, Field(pattern=r"^[A-Z]{2,26}$")] = "ABCD"
    official: Literal["simple-evals"] | None = None
    """Read replies as this published program does: OpenAI's takes the first match, with its case."""

    def grade(self, text: str, *, is_reply: bool) -> float:
        """Compare the letter of the file or of the reply, in either case."""
        if is_reply and self.official is not None:
            match = re.search(rf"(?i)Answer[ \t]*:[ \t]*\$?([{self.letters}])\$?", text)
            found = match[1] if match else None
        elif is_reply:
            found = answer_in(text, self._read, equation="")
        else:
            whole = "".join(text.split()).upper() if len(text) <= SEARCHED else ""
            found = whole if len(whole) == 1 and whole in self.letters else None
        if found is None:
            raise Wrong(f"it has none of the letters {self.letters}")
        return _equal(found == self.expected)

    def model_post_init(self, _: Any) -> None:
        """Check that the right answer is one of the letters."""
        if self.expected not in self.letters:
            raise ValueError("the expected letter is none of the letters")

    def _read(self, text: str) -> str | None:
        return letter(text, self.letters)


class Grids(Model):
    """Grids, one for each test input."""

    match: Literal["grid"]
    expected: Annotated[list[list[list[Annotated[StrictInt, Field(ge=0, le=9)]]]], Field(min_length=1)]
    tries: Annotated[StrictInt, Field(ge=1)] = 1

    def grade(self, text: str, *, is_reply: bool) -> float:
        """Return the share of test inputs for which one of the first tries is exactly the grid."""
        given = self._given(text, is_reply=is_reply)
        right = sum(
            any(is_grid(grid) and grid == wanted for grid in grids[: self.tries])
            for grids, wanted in zip(given, self.expected, strict=False)
        )
        if not right:
            raise Wrong(f"0 of {len(self.expected)} grids are right")
        return right / len(self.expected)

    def _given(self, text: str, *, is_reply: bool) -> list[list[Any]]:
        """Return the tries for each test input."""
        given = parsed(text)
        replies = (
            given
            if isinstance(given, list) and given and all(isinstance(one, str) for one in given)
            else None
        )
        if is_reply and replies is not None:
            expected = [grid for grid in self.expected for _ in range(self.tries)]
            grids = [answer_grid(reply, grid) for reply, grid in zip(replies, expected, strict=False)]
            return [grids[at : at + self.tries] for at in range(0, len(grids), self.tries)]
        if given is None and is_reply:
            given = last_array(text)
            if len(self.expected) == 1 and (given is None or is_grid(given)):
                given = answer_grid(text, self.expected[0])
        if len(self.expected) == 1 and (is_grid(given) or isinstance(given, dict)):
            given = [given]
        if not isinstance(given, list):
            raise Wrong("it is not a JSON array with an entry for each test input")
        return [_tries(one) for one in given]


class Json(Model):
    """Any JSON."""

    match: Literal["json"]
    expected: Any

    def grade(self, text: str, *, is_reply: bool) -> float:
        """Compare it by types and values: `true` is not 1; 1 and 1.0 are the same number."""
        return _equal(same_json(value_in(text, is_reply=is_reply), self.expected))


class Regex(Model):
    """A text in which a pattern is found."""

    match: Literal["regex"]
    pattern: StrictStr

    def grade(self, text: str, *, is_reply: bool) -> float:  # noqa: ARG002
        """Look for the pattern in the first 100,000 characters."""
        return _equal(search(self.pattern, text[:SEARCHED].strip()))

    def model_post_init(self, _: Any) -> None:
        """Check that the pattern is valid."""
        if (fault := pattern_fault(self.pattern)) is not None:
            raise ValueError(f"`pattern` {fault}")


Match = Exact | Integer | Number | Choice | Grids | Json | Regex
"""A right answer; `grade` returns the score of a given one, and raises `Wrong` where it is not right, or not read."""


@functools.cache
def _kinds() -> TypeAdapter[Any]:
    return TypeAdapter(Annotated[Match, Field(discriminator="match")])


def match_of(params: object) -> Match:
    """Return the right answer of `params`. ScoreInvalid: they are wrong; the message does not reveal the answer."""
    try:
        match: Match = _kinds().validate_python(params)
    except ValidationError as error:
        from ..sources.complaints import first_mistake

        why = first_mistake(error, is_secret=True)
        raise ScoreInvalid(f"the params of this `answer` scorer are wrong: {why}") from None
    except (ArithmeticError, LookupError, TypeError, RecursionError) as error:
        raise ScoreInvalid(f"the params of this `answer` scorer are wrong: {type(error).__name__}") from None
    return match


def _equal(is_right: bool) -> float:
    if not is_right:
        raise Wrong("it is not equal")
    return 1.0


def _within(actual: Any, expected: Any, tolerance: Any) -> Iterator[bool]:
    """Yield for each expected value if the actual one is within its tolerance; once for what is missing.

    As in ReplicationBench's own harness the shape must be the same, except for further keys; `true` is not a number.
    """
    if isinstance(expected, dict):
        if not isinstance(actual, dict):
            yield False
            return
        for key, value in expected.items():
            bound = tolerance.get(key, 0) if isinstance(tolerance, dict) else tolerance
            if key in actual:
                yield from _within(actual[key], value, bound)
            else:
                yield False
    elif isinstance(expected, list):
        if not isinstance(actual, list) or len(actual) != len(expected):
            yield False
            return
        for at, value in enumerate(expected):
            bound = tolerance[at] if isinstance(tolerance, list) else tolerance
            yield from _within(actual[at], value, bound)
    elif _is_number(expected):
        yield _is_number(actual) and _near(actual, expected, tolerance if _is_number(tolerance) else 0)
    else:
        yield type(actual) is type(expected) and actual == expected


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _near(actual: float, expected: float, tolerance: float) -> bool:
    try:
        return abs(actual - expected) <= tolerance
    except OverflowError:
        return False


def same_json(one: Any, other: Any) -> bool:
    """Compare JSON values: numbers by value, everything else by type and value."""
    if _is_number(one) and _is_number(other):
        return bool(one == other)
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_json(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return bool(one == other)


def _tries(given: Any) -> list[Any]:
    """Return the tries for one test input: `{"attempt_1": grid, ...}`, a list of grids, or one grid."""
    if isinstance(given, dict):
        numbered = [given.get(f"attempt_{number}") for number in range(1, _TRIES + 1)]
        return [grid for grid in numbered if grid is not None]
    if is_grid(given):
        return [given]
    return given if isinstance(given, list) else []
