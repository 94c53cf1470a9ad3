"""Search of runs and jobs: each word is somewhere in the names of a row, whatever the case of ASCII letters.

Runs have few different benchmarks, agents, providers and models, so a word is looked for in these values instead of the
rows. Of jobs, which have names, branches and commits of their own, all are looked at, in one index.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from .reader import Condition, HistoryReader

_OF_RUNS = ("benchmark", "agent", "provider", "model")
_NEVER_NULL = frozenset({"benchmark", "agent"})
_OF_JOBS = ("id", "name", "status", "branch", '"commit"')
_LIKE = "(" + " OR ".join(rf"{column} LIKE ? ESCAPE '\'" for column in _OF_JOBS) + ")"
_VALUES = 5000
"""Most values of a column that are looked at one by one."""
OFTEN = 10
"""A word is frequent if one in this many jobs or values has it. Then rows that fit are tried in the page's order."""
_NUMBERED = re.compile(r"(.*)\.(\d*)\Z", re.DOTALL)


class Found(NamedTuple):
    """Places at which a word was found."""

    word: str
    everywhere: bool
    """In every run."""
    often: bool
    values: dict[str, list[str] | None]
    """Column of runs -> its values that have the word; None where there are too many values to look at."""
    jobs: list[str] | None
    """Ids of jobs that have it; None for many."""


def in_runs(found: Found) -> Condition:
    """Return the condition that a word is in the names of a run, or of its job."""
    if found.everywhere:
        return "true", ()
    # A column with a plus sign is not looked up in an index.
    texts, values = _in_values(found, "+" if found.often else "")
    own, given = _of_jobs(found)
    texts.append(f"{'+' if found.often else ''}job IN (SELECT {own})")
    values += given
    if (numbered := _NUMBERED.match(found.word)) is not None:
        # The id of a run is that of its job, a dot, and its position.
        texts.append(
            r"(job IN (SELECT id FROM jobs WHERE id LIKE ? ESCAPE '\') AND CAST(position AS TEXT) LIKE ?)"
        )
        values += [f"%{_escaped(numbered[1])}", f"{numbered[2]}%"]
    return f"({' OR '.join(texts)})", values


def in_jobs(found: Found) -> Condition:
    """Return the condition that a word is in the names of a job, or of one of its runs."""
    texts, values = ["true"], list[object]()
    if not found.everywhere:
        texts, values = _in_values(found)
    runs = " OR ".join(texts)
    own, given = _of_jobs(found)
    if found.often:
        own, given = _LIKE, _patterns(found.word)
        others = f"EXISTS (SELECT 1 FROM runs WHERE runs.job = jobs.id AND ({runs}))"  # noqa: S608
    else:
        own, others = f"id IN (SELECT {own})", f"id IN (SELECT job FROM runs WHERE {runs})"  # noqa: S608
    return f"({own} OR {others})", [*given, *values]


def look_up(history: HistoryReader, word: str) -> Found:
    """Look a word up in the values of runs, and in jobs."""
    folded = word.encode().lower()
    values: dict[str, list[str] | None] = {}
    everywhere = often = False
    for column in _OF_RUNS:
        known = history.distinct(column, _VALUES + 1)
        if len(known) > _VALUES:
            values[column] = None
            continue
        having = [value for value in known if folded in value.encode().lower()]
        values[column] = having
        often = often or len(having) * OFTEN > len(known)
        everywhere = everywhere or (column in _NEVER_NULL and bool(known) and len(having) == len(known))
    if everywhere:
        return Found(word, True, True, values, None)
    ((all_,),) = history.select("SELECT count(*) FROM jobs")
    most = int(all_) // OFTEN + 1
    query = f"SELECT id FROM jobs INDEXED BY jobs_listed WHERE {_LIKE} LIMIT ?"  # noqa: S608
    jobs = [job_id for (job_id,) in history.select(query, *_patterns(word), most)]
    return Found(word, False, often or len(jobs) >= most, values, jobs if len(jobs) < most else None)


def _in_values(found: Found, sign: str = "") -> tuple[list[str], list[object]]:
    """Return conditions of runs, one for each column that may have the word, and their values."""
    texts, values = [], list[object]()
    for column, having in found.values.items():
        if having is None:
            texts.append(rf"{column} LIKE ? ESCAPE '\'")
            values.append(_pattern(found.word))
        elif having:
            texts.append(f"{sign}{column} IN (SELECT value FROM json_each(?))")  # noqa: S608
            values.append(json.dumps(having))
    return texts or ["false"], values


def _of_jobs(found: Found) -> tuple[str, list[object]]:
    """Return what follows SELECT for the ids of jobs that have the word, and its values."""
    if found.jobs is not None:
        return "value FROM json_each(?)", [json.dumps(found.jobs)]
    return f"id FROM jobs INDEXED BY jobs_listed WHERE {_LIKE}", _patterns(found.word)


def _patterns(word: str) -> list[object]:
    return [_pattern(word)] * len(_OF_JOBS)


def _pattern(word: str) -> str:
    return f"%{_escaped(word)}%"


def _escaped(word: str) -> str:
    return word.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
