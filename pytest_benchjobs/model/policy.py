"""One verdict from several attempts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer

from .base import Model
from .result import Outcome

_RATE = re.compile(r"^rate:(?P<number>\d*\.?\d+)(?P<percent>%?)$")


class Policy(Model):
    """Rule by which the outcomes of K attempts of one scenario and agent become one."""

    kind: str
    rate: Annotated[float, Field(gt=0, le=1)] = 1.0

    @property
    def aggregates(self) -> bool:
        """True if a scenario has one verdict; else each attempt is a test of its own."""
        return self.kind != "each"

    def __str__(self) -> str:
        return f"rate:{self.rate:g}" if self.kind == "rate" else self.kind

    def needed(self, attempts: int) -> int:
        """Number of attempts that have to pass."""
        if self.kind == "any":
            return 1
        # 0.7 * 10 is a little more than 7.
        return attempts if self.kind in ("all", "each") else math.ceil(round(self.rate * attempts, 9))

    def verdict(self, outcomes: Iterable[Outcome | str], attempts: int) -> Outcome:
        """`passed` or `failed` once that is certain whatever the rest would have been, else `error`.

        An attempt that ended in an error, or never ran, might have passed: it is neither a pass nor a failure.
        """
        ended = [Outcome(outcome) for outcome in outcomes]
        if ended and all(outcome is Outcome.SKIPPED for outcome in ended):
            return Outcome.SKIPPED
        passed = ended.count(Outcome.PASSED)
        needed = self.needed(attempts)
        if passed >= needed:
            return Outcome.PASSED
        if attempts - ended.count(Outcome.FAILED) < needed:
            return Outcome.FAILED
        return Outcome.ERROR


def parse_policy(value: Any) -> Any:
    """Read `each`, `any`, `all`, `rate:0.5` or `rate:50%`.

    Raises:
        ValueError: anything else.
    """
    if not isinstance(value, str):
        return value
    if value in ("each", "any", "all"):
        return Policy(kind=value)
    match = _RATE.match(value)
    if match is None or not 0 < float(match["number"]) <= (100 if match["percent"] else 1):
        raise ValueError(
            f"{value!r} is not a policy; write each, any, all or rate:X with X from 0 to 1, or in %"
        )
    return Policy(kind="rate", rate=float(match["number"]) / (100 if match["percent"] else 1))


EACH = Policy(kind="each")
AttemptPolicy = Annotated[Policy, BeforeValidator(parse_policy), PlainSerializer(str, return_type=str)]
"""Written as `each`, `any`, `all` or `rate:X`."""
