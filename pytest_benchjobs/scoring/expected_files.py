"""`files`: compares files that the agent left, on this machine. Nothing is run in the container."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import (
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    field_validator,
    model_validator,
)

from ..model.base import Model
from ..model.pattern import pattern_fault
from ..model.scenario import ScorerSpec
from ..store.text import clean
from .answers import same_json
from .params import parsed
from .patterns import search
from .protocol import Graded, ScoringContext

_FILE_LIMIT = 64 * 1024 * 1024
_SEARCHED = 100_000
"""Characters of a file in which a regular expression is looked for: as in short answers."""


class Expected(Model):
    """Conditions on one file. All that are given have to hold."""

    path: Annotated[StrictStr, Field(min_length=1)]
    """Relative to the workdir, or absolute."""
    exists: StrictBool = True
    equals: StrictStr | None = None
    """Its text. Spaces at the ends of lines, and empty lines at its end, do not matter."""
    contains: tuple[StrictStr, ...] = ()
    """Texts that it contains."""
    lacks: tuple[StrictStr, ...] = ()
    """Texts that it does not contain."""
    matches: StrictStr | None = None
    """A regular expression that is found in its first 100,000 characters. `^` and `$` are the ends of lines."""
    json_: Any = Field(None, alias="json")
    """Its content as JSON, with the same types and values; null is no expectation."""
    sha256: Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    max_bytes: Annotated[StrictInt, Field(ge=0)] | None = None

    @field_validator("matches")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        if (fault := pattern_fault(pattern or "")) is not None:
            raise ValueError(fault)
        return pattern

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if not self.exists and self.model_fields_set - {"path", "exists"}:
            raise ValueError("a file that must not exist has no content")
        return self

    def faults(self, content: bytes) -> Iterator[str]:
        """Yield what is wrong with the file, without what is expected or what is there."""
        text = content.decode("utf-8", "replace")
        if self.equals is not None and _lines(text) != _lines(self.equals):
            yield "it is not equal"
        missing = sum(part not in text for part in self.contains)
        if missing:
            yield f"it lacks {missing} of {len(self.contains)} texts"
        if any(part in text for part in self.lacks):
            yield "it contains what it must not"
        if self.matches is not None and not search(self.matches, text[:_SEARCHED], re.MULTILINE):
            yield "it does not match"
        if self.json_ is not None and not self._is_json(text):
            yield "it is not the same JSON"
        if self.sha256 is not None and hashlib.sha256(content).hexdigest() != self.sha256:
            yield "it has another SHA-256"
        if self.max_bytes is not None and len(content) > self.max_bytes:
            yield f"it has more than {self.max_bytes} bytes"

    def _is_json(self, text: str) -> bool:
        try:
            return same_json(json.loads(text), self.json_)
        except (ValueError, RecursionError):
            return False


class Expectations(Model):
    """Parameters of the scorer."""

    files: Annotated[tuple[Expected, ...], Field(min_length=1, max_length=1000)]


def check_files(spec: ScorerSpec) -> None:
    """Check the parameters. InputError: they are wrong."""
    parsed(Expectations, spec)


def score_files(context: ScoringContext) -> Graded:
    """`files`: the share of files that are as expected. A file that is missing or too large is not."""
    expected = parsed(Expectations, context.spec).files
    lines, right = [], 0
    for one in expected:
        faults = list(_faults(context, one))
        right += not faults
        why = f": {'; '.join(faults)}" if faults else ""
        lines.append(f"{'NOT' if faults else 'ok'}  {clean(one.path, 200)}{why}")
    return Graded(right / len(expected), "\n".join(lines), {"right": right, "total": len(expected)})


def _faults(context: ScoringContext, expected: Expected) -> Iterator[str]:
    place = posixpath.join(context.sandbox.workdir, expected.path)
    try:
        content = context.sandbox.read(place, limit=_FILE_LIMIT)
    except ValueError:
        yield f"it has more than {_FILE_LIMIT >> 20} MiB" if expected.exists else "it exists"
        return
    if content is None:
        if expected.exists:
            yield "there is no such file"
    elif expected.exists:
        yield from expected.faults(content)
    else:
        yield "it exists"


def _lines(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip()
