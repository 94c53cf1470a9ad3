r"""Comparing a short answer with the right one. Pure functions: no files, no clock, nothing is run.

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
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, TypeAdapter, ValidationError

from ..model.errors import ScoreInvalid
from .replies import SEARCHED, Wrong, integer_in, last_array, last_mark, parsed, value_in

_TRIES = 50
"""The most tries of an answer that are read."""


class _Match(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Exact(_Match):
    """A text."""

    match: Literal["exact"]
    expected: StrictStr

    def grade(self, text: str, *, is_reply: bool) -> float:
        """Compare it with the whole text, or with the rest of a reply's last `ANSWER:` line."""
        wanted = self.expected.strip()
        if text.strip() == wanted:
            return 1.0
        if is_reply and (mark := last_mark(text)) is not None:
            line = text[mark:].lstrip().partition("\n")[0]
            return _equal(wanted in (line.strip(), line.strip(" \t*_`$.")))
        raise Wrong("it is not equal")


class Integer(_Match):
    """A whole number."""

    match: Literal["integer"]
    expected: StrictInt
    least: StrictInt | None = None
    most: StrictInt | None = None

    def grade(self, text: str, *, is_reply: bool) -> float:
        """Compare it as a number: `+25` and `025` are 25."""
        found = integer_in(text, is_reply=is_reply)
        if not self._allows(found):
            raise Wrong("it is out of range")
        return _equal(found == self.expected)

    def model_post_init(self, _: Any) -> None:
        """Check that the right answer is a number in range."""
        if not self._allows(self.expected):
            raise ValueError("the expected integer is out of range")

    def _allows(self, number: int) -> bool:
        return (self.least is None or number >= self.least) and (self.most is None or number <= self.most)


class Number(_Match):
    """Numbers, alone or in lists and tables."""

    match: Literal["number"]
    expected: Any
    tolerance: Any = 0
    """Absolute: one for all, or of the shape of `expected`."""
    key: StrictStr | None = None
    """The answer may be an object with its value at this key."""

    def grade(self, text: str, *, is_reply: bool) -> float:
        """Compare it element by element. Further keys of a table do not matter."""
        given = value_in(text, is_reply=is_reply)
        if self.key is not None and isinstance(given, dict) and self.key in given:
            given = given[self.key]
        compared = list(_within(given, self.expected, self.tolerance))
        right = sum(compared)
        if right < len(compared):
            raise Wrong(f"{right} of {len(compared)} values are within their tolerance")
        return 1.0

    def model_post_init(self, _: Any) -> None:
        """Check that the right answer is within its own tolerance."""
        if not all(_within(self.expected, self.expected, self.tolerance)):
            raise ValueError("the expected value is not within its own tolerance")


class Choice(_Match):
    """A letter."""

    match: Literal["choice"]
    expected: Annotated[StrictStr, Field(pattern=r"^[A-Z]$")]
    letters: Annotated[StrictStr, Field(pattern=r"^[A-Z]{2,26}$")] = "ABCD"

    def grade(self, text: str, *, is_reply: bool) -> float:
        """Compare the letter of the file, in either case; in a reply the first `Answer: X`, as simple-evals does."""
        whole = "".join(text.split()) if len(text) <= SEARCHED else text
        if len(whole) == 1 and whole.upper() in self.letters:
            return _equal(whole.upper() == self.expected)
        found = re.search(rf"(?i)Answer[ \t]*:[ \t]*\$?([{self.letters}])\$?", text) if is_reply else None
        if found is None:
            raise Wrong(f"it has none of the letters {self.letters}")
        return _equal(found[1] == self.expected)

    def model_post_init(self, _: Any) -> None:
        """Check that the right answer is one of the letters."""
        if self.expected not in self.letters:
            raise ValueError("the expected letter is none of the letters")


Grid = list[list[int]]


class Grids(_Match):
    """Grids, one for each test input."""

    match: Literal["grid"]
    expected: Annotated[list[list[list[Annotated[StrictInt, Field(ge=0, le=9)]]]], Field(min_length=1)]
    tries: Annotated[StrictInt, Field(ge=1)] = 1

    def grade(self, text: str, *, is_reply: bool) -> float:
        """Return the share of test inputs for which one of the first tries is exactly the grid."""
        given = self._given(text, is_reply=is_reply)
        right = sum(
            any(_is_grid(grid) and grid == wanted for grid in grids[: self.tries])
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
            grids = [last_array(reply, _is_grid) for reply in replies]
            return [grids[at : at + self.tries] for at in range(0, len(grids), self.tries)]
        if given is None:
            given = last_array(text, _is_nested) if is_reply else None
        if len(self.expected) == 1 and (_is_grid(given) or isinstance(given, dict)):
            given = [given]
        if not isinstance(given, list):
            raise Wrong("it is not a JSON array with an entry for each test input")
        return [_tries(one) for one in given]


class Json(_Match):
    """Any JSON."""

    match: Literal["json"]
    expected: Any

    def grade(self, text: str, *, is_reply: bool) -> float:
        """Compare it by types and values: `true` is not 1; 1 and 1.0 are the same number."""
        return _equal(same_json(value_in(text, is_reply=is_reply), self.expected))


class Regex(_Match):
    """A text in which a pattern is found. A pattern that takes exponential time is its author's mistake."""

    match: Literal["regex"]
    pattern: StrictStr

    def grade(self, text: str, *, is_reply: bool) -> float:  # noqa: ARG002
        """Look for the pattern in the first 100,000 characters."""
        return _equal(re.search(self.pattern, text[:SEARCHED].strip()) is not None)

    def model_post_init(self, _: Any) -> None:
        """Check that the pattern is valid."""
        try:
            re.compile(self.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"`pattern` is not a valid regular expression: {error}") from None


class Grade(Protocol):
    """Grader of one answer."""

    def __call__(self, text: str, *, is_reply: bool) -> tuple[float, str]:
        """Return the score, and a description of the comparison.

        Raises:
            Wrong: the answer is not right, or cannot be read.
        """


_Any = Annotated[Exact | Integer | Number | Choice | Grids | Json | Regex, Field(discriminator="match")]


@functools.cache
def _kinds() -> TypeAdapter[Any]:
    return TypeAdapter(_Any)


def grader(params: object) -> Grade:
    """Make a grader of answers from `params`.

    Raises:
        ScoreInvalid: they are wrong. The message does not reveal the expected answer.
    """
    try:
        match = _kinds().validate_python(params)
    except ValidationError as error:
        from ..sources.complaints import first_mistake

        why = first_mistake(error, is_secret=True)
        raise ScoreInvalid(f"the params of this `answer` scorer are wrong: {why}") from None
    except (ArithmeticError, LookupError, TypeError, RecursionError) as error:
        raise ScoreInvalid(f"the params of this `answer` scorer are wrong: {type(error).__name__}") from None

    def grade(text: str, *, is_reply: bool) -> tuple[float, str]:
        score: float = match.grade(text, is_reply=is_reply)
        return score, "it is right" if score == 1 else f"{score:.3g} of it is right"

    return grade


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
    if _is_grid(given):
        return [given]
    return given if isinstance(given, list) else []


def _is_grid(value: Any) -> bool:
    """Return True for rows of whole numbers."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(row, list) and row for row in value)
        and all(type(cell) is int for row in value for cell in row)
    )


def _is_nested(value: Any) -> bool:
    """Return True for an array of arrays or objects."""
    return isinstance(value, list) and bool(value) and all(isinstance(one, list | dict) for one in value)
