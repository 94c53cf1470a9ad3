"""Files that a scenario names: those of references and scorers, which no image may hold, and those for the agent."""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .plain import table_of


def hidden_by(scenario: Mapping[str, Any], directory: Path) -> Iterator[Path]:
    """Yield the paths of references and scorers of a scenario as written, but for what its `files` give the agent."""
    given = [_at(directory, path) for path in _texts(scenario.get("files"))]
    for path in _named(scenario):
        found = _at(directory, path)
        if not any(found.is_relative_to(one) for one in given):
            yield found


def given_by(scenario: Mapping[str, Any], directory: Path) -> Iterator[Path]:
    """Yield the paths of what a scenario gives the agent: its `files`, and the build context of its image."""
    for path in _texts({**table_of(scenario.get("files")), "context": scenario.get("context")}):
        yield _at(directory, path)


def _named(scenario: Mapping[str, Any]) -> Iterator[str]:
    reference, scorers = scenario.get("reference"), scenario.get("scorers")
    if isinstance(reference, dict):
        yield from _texts({key: reference.get(key) for key in ("patch", "file")})
        yield from _texts(reference.get("files"))
    for scorer in scorers if isinstance(scorers, list) else ():
        if isinstance(scorer, dict):
            yield from _texts({"path": scorer.get("path")})


def _texts(table: object) -> Iterator[str]:
    if isinstance(table, dict):
        yield from (value for value in table.values() if isinstance(value, str) and value)


def _at(directory: Path, path: str) -> Path:
    return Path(os.path.normpath(directory / path))
