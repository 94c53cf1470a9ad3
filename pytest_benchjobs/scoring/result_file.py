"""`result_file`: runs an evaluation that writes its results into a file, and reads the score there.

The file is emptied before: what the agent left there is no result.
"""

from __future__ import annotations

import math
import posixpath
import reprlib
from typing import Annotated, Any, Self

from pydantic import Field, StrictStr, model_validator

from ..model.base import Model
from ..model.errors import InputError, ScoreInvalid, ScoreMissing
from ..model.scenario import ScorerSpec
from ..store.text import clean
from .metrics import has_own_score
from .params import parsed
from .protocol import Graded, ScoringContext, run_to_end
from .scores import checked, json_of

_FILE_LIMIT = 16 * 1024 * 1024
_KEPT_FILE = "result"


class Place(Model):
    """Parameters of the scorer."""

    file: Annotated[StrictStr, Field(min_length=1)]
    """File that the command writes; a relative path starts at the workdir."""
    key: StrictStr | None = None
    """Path of the number in JSON, such as `metrics.accuracy` or `runs.0.score`; default: the file is the number."""
    metrics: dict[StrictStr, StrictStr] = {}
    """Metric of the scorer -> path of its number in the same file."""
    worst: float = 0.0
    """Value that is worth 0."""
    best: float = 1.0
    """Value that is worth 1. Below `worst` if less is better, such as seconds."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.worst == self.best or not math.isfinite(self.best - self.worst):
            raise ValueError("worst and best have to be two different values")
        return self

    def score(self, value: float, who: str) -> float:
        """Return the score of a value. Within 0 to 1 by itself; on another scale, beyond its ends it is 0 or 1."""
        if {"worst", "best"} & self.model_fields_set:
            return min(1.0, max(0.0, (value - self.worst) / (self.best - self.worst)))
        return checked(value, who)


def check_result_file(spec: ScorerSpec) -> None:
    """Check the parameters. InputError: they are wrong, or there is no command."""
    place = parsed(Place, spec)
    if unknown := sorted(place.metrics.keys() - spec.metrics.keys()):
        raise InputError(
            f"scorer {spec.name!r}: params.metrics: {unknown[0]} is none of the scorer's metrics; add it there"
        )
    if not spec.command:
        raise InputError(
            f"scorer {spec.name!r}: command: is required but missing for a scorer of type 'result_file'; "
            "it writes the file"
        )


def score_result_file(context: ScoringContext) -> Graded:
    """`result_file`: the number that `command` leaves in a file.

    ScorerCrashed: the command fails. ScoreMissing: there is no file, or no such key. ScoreInvalid: it is no number, or
    not within [0, 1] without another scale.
    """
    spec = context.spec
    check_result_file(spec)
    place = parsed(Place, spec)
    path = posixpath.join(context.sandbox.workdir, place.file)
    # The engine does it: nothing that the agent left has a part in it.
    context.sandbox.put([context.empty(path)])
    output = run_to_end(context, spec.command or "", "the command of a result_file exits 0")
    try:
        content = context.sandbox.read(path, limit=_FILE_LIMIT)
    except ValueError:
        raise ScoreInvalid(f"{place.file} is larger than {_FILE_LIMIT >> 20} MiB") from None
    if not content or not content.strip():
        raise ScoreMissing(f"the command of scorer {spec.name!r} left nothing in {place.file}")
    (context.directory / _KEPT_FILE).write_bytes(content)
    found = json_of(content.decode("utf-8", "replace"), place.file, "JSON, or a number")
    value = _number(found, place, place.key) if has_own_score(spec) else None
    score = None if value is None else place.score(value, f"{place.file} of scorer {spec.name!r}")
    metrics = {name: _number(found, place, key) for name, key in place.metrics.items()}
    return Graded(score, output, {} if value is None else {"value": value}, metrics)


def _number(value: Any, place: Place, key: str | None) -> float:
    """Return the number at a path in the content. ScoreMissing: no such key. ScoreInvalid: no finite number."""
    for part in key.split(".") if key else ():
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (LookupError, TypeError, ValueError):
            raise ScoreMissing(
                f"{place.file} has no {clean(part, 100)!r} of {clean(key or '', 200)!r}"
            ) from None
    try:
        if not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass
    raise ScoreInvalid(
        f"{key or 'the value'} in {place.file} is {reprlib.repr(value)}, which is not a number"
    )
