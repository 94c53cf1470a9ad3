"""Files of high scores: published scores of benchmarks, shown beside those of jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ..model.comparison import HighScore
from ..sources.complaints import Complaints, Written
from ..sources.documents import SETTINGS_BYTES, read_document
from ..sources.plain import Place
from ..sources.written import Number


class WrittenHighScore(Written):
    """The high score of a benchmark."""

    score: Annotated[Number, Field(ge=0)]
    unit: Literal["score", "%"] = "score"
    """`score`: from 0 to 1."""
    direction: Literal["higher"] = "higher"
    """A score is better when it is higher."""
    source: str | None = None

    @property
    def most(self) -> int:
        """The highest score that there can be."""
        return 1 if self.unit == "score" else 100

    @model_validator(mode="after")
    def _is_a_share(self) -> Self:
        if self.score > self.most:
            hint = "; for a percentage write unit = '%'" if self.most < self.score <= 100 else ""
            raise ValueError(f"score {self.score:g} is not within 0 and {self.most}{hint}")
        return self


def read_high_scores(path: Path) -> dict[str, HighScore]:
    """Return benchmark -> high score of a file with a table for each. InputErrors: every mistake, with its line."""
    document = read_document(path, keys="comparing.md", limit=SETTINGS_BYTES)
    complaints = Complaints(document)
    found: dict[str, HighScore] = {}
    for benchmark, entry in document.data.items():
        place: Place = (benchmark,)
        complaints.unknown_keys(WrittenHighScore, entry, place)
        one = complaints.check(WrittenHighScore, entry, lambda at, place=place: (*place, *at))  # type: ignore[misc]
        if one is not None:
            found[benchmark] = HighScore(score=one.score / one.most, unit=one.unit, source=one.source)
    complaints.raise_errors()
    return found
