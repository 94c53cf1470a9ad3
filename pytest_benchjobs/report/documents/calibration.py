"""The document of `calibrate`."""

from __future__ import annotations

from typing import Literal

from ...model.base import Model
from . import Document


class BenchmarkCalibration(Model):
    """Scores of a benchmark for agents whose results are certain."""

    benchmark: str
    status: Literal["valid", "missing", "all-right", "all-wrong", "flat", "mismatch"]
    suspicious: bool
    """Something is wrong with the benchmark."""
    why: str
    """In a line."""
    scores: dict[str, float]
    """Agent whose results are certain -> mean score."""
    mismatches: tuple[str, ...]
    """`scenario [agent]` of results that are not what is certain."""
    pattern: Literal["none", "all-zero", "all-one", "all-equal", "mixed"]
    """Of the mean scores of all other agents."""
    agents: int
    """Number of these scenarios."""


class CalibrationDocument(Document):
    """`benchjobs calibrate`."""

    benchmarks: tuple[BenchmarkCalibration, ...]
