"""The part of a scorer's result that an agent may know: names of failed tests, else the score alone.

A scorer runs beside hidden files, so nothing that it prints is told. The names are in a report that the agent's own
code may have written: told are only those that the scorer's files define.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..model.scenario import ScorerSpec
from ..store.text import clean
from .scores import ctrf_outcomes, junit_outcomes

_REPORTS = {"junit.xml": junit_outcomes, "ctrf.json": ctrf_outcomes}
_FUNCTION = re.compile(
    r"\b(?:def|fn|fun|func|function|sub|void)\s+(\w+)|^[ \t]*(\w+)[ \t]*\(\)[ \t]*\{", re.MULTILINE
)
_TITLE = re.compile(r"(?:\b(?:it|test|TEST_CASE)|@test)\b\W{0,2}([\"'`])(.{1,200}?)\1")
_NAMES = 100
_FILES = 1000
_FILE_LIMIT = 1 << 20


def told(spec: ScorerSpec, directory: Path, score: float | None) -> str:
    """Return the report on a scorer for an agent; the scorer's kept files are in `directory`."""
    outcomes = _outcomes(directory)
    failed = [name for name, passed in outcomes if not passed]
    if not failed:
        return f"The score is {score or 0:g}."
    functions, titles = _defined(spec.path)
    names = [one for name in failed if (one := _known(name, functions, titles)) is not None]
    listed = [f"\n- {clean(name)}" for name in list(dict.fromkeys(names))[:_NAMES]]
    return f"{len(failed)} of {len(outcomes)} tests failed{':' if listed else '.'}{''.join(listed)}"


def _outcomes(directory: Path) -> list[tuple[str, bool]]:
    for name, outcomes_of in _REPORTS.items():
        if (directory / name).is_file():
            return outcomes_of((directory / name).read_text("utf-8", "replace")) or []
    return []


def _known(name: str, functions: set[str], titles: set[str]) -> str | None:
    """Return the part of a name in a report that the scorer's files define; parameters are never part of it."""
    words = (re.match(r"\w*", part) for part in (name, name.rpartition("::")[2]))
    found = {word[0] for word in words if word is not None} & functions
    found |= {title for title in titles if name == title or name.endswith(f" {title}")}
    return max(found, key=len, default=None)


def _defined(path: Path | None) -> tuple[set[str], set[str]]:
    """Return the names of functions, and the titles of tests, in the files of a scorer."""
    functions: set[str] = set()
    titles: set[str] = set()
    files = (
        [] if path is None else [path] if path.is_file() else sorted(filter(Path.is_file, path.rglob("*")))
    )
    for file in files[:_FILES]:
        if file.stat().st_size <= _FILE_LIMIT:
            text = file.read_text("utf-8", "replace")
            functions |= {first or second for first, second in _FUNCTION.findall(text)}
            titles |= {title for _, title in _TITLE.findall(text)}
    return functions, titles
