"""Files of high scores: published scores of benchmarks, shown beside those of jobs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..model.comparison import HighScore
from ..model.errors import InputError
from ..sources import did_you_mean
from ..sources.toml_data import load_toml

_KEYS = ("score", "unit", "direction", "source")
_SIZE_LIMIT = 1 << 20


def read_high_scores(path: Path) -> dict[str, HighScore]:
    """Return benchmark -> high score, from a TOML or JSON file with a table for each benchmark.

    `score` is a number; `unit` is `score` (from 0 to 1, the default) or `%`; `direction` may only be `higher`; `source`
    is a text.

    Raises:
        InputError: the file cannot be read, or is invalid.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; it should hold high scores") from None
    if len(content) > _SIZE_LIMIT:
        raise InputError(f"{path}: larger than 1 MiB; high scores are a few lines a benchmark")
    try:
        text = content.decode("utf-8")
        data: object = json.loads(text) if path.suffix == ".json" else load_toml(text)
    except (UnicodeError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: {error}") from None
    if not isinstance(data, Mapping):
        raise InputError(f"{path}: a table for each benchmark is expected, not {type(data).__name__}")
    return {str(benchmark): _high_score(path, str(benchmark), entry) for benchmark, entry in data.items()}


def _high_score(path: Path, benchmark: str, entry: Any) -> HighScore:
    where = f"{path}: {benchmark}"
    if not isinstance(entry, Mapping):
        raise InputError(f"{where}: a table with `score` is expected, such as {{score = 0.61}}")
    for key in entry:
        if key not in _KEYS:
            hint = did_you_mean(str(key), _KEYS).strip()
            raise InputError(f"{where}: unknown key {key!r}; {hint or 'known are ' + ', '.join(_KEYS)}")
    unit, direction = entry.get("unit", "score"), entry.get("direction", "higher")
    source = entry.get("source")
    if unit not in ("score", "%"):
        raise InputError(f"{where}: unit {unit!r}; `score` (from 0 to 1) or `%` is expected")
    if direction != "higher":
        raise InputError(f"{where}: direction {direction!r}; a score is better when it is `higher`")
    if source is not None and not isinstance(source, str):
        raise InputError(f"{where}: source is a text")
    number = entry.get("score")
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise InputError(f"{where}: score {number!r}; a number is expected")
    most = 1 if unit == "score" else 100
    if not 0 <= number <= most:
        hint = "; for a percentage write unit = '%'" if unit == "score" and 1 < number <= 100 else ""
        raise InputError(f"{where}: score {number:g} is not within 0 and {most}{hint}")
    return HighScore(score=number / most, unit=unit, source=source)
