"""Lookup of trials by their printed ids.

Such an id is a node id (`ops.bench.yaml::fix[codex-2]`), one that begins with the name of a benchmark (`ops::fix`,
`ops::fix[codex]`), a part of one (`fix[codex]`, `fix`), or the path of a trial's files. Names may have `::` in them.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

from ..model.errors import InputError
from .listing import JOBS, page
from .reader import HistoryReader
from .results import find_job
from .rows import TrialRow
from .text import quoted

_JOBS = 1000
"""Number of newest jobs searched for a trial."""
_SHOWN = 10


class _Parsed(NamedTuple):
    """Parts of an id."""

    place: str | None
    """Name of the benchmark, or path of its file."""
    scenario: str
    label: str | None
    """Agent, with the attempt if there are several."""

    def fits(self, row: TrialRow) -> bool:
        """Return whether it may mean this trial."""
        if row.scenario != self.scenario:
            return False
        # Where there was one attempt, ids have no number: `fix[codex-1]` is of a job with several.
        if self.label not in (None, row.agent) and not row.node_id.endswith(f"[{self.label}]"):
            return False
        return (
            self.place is None
            or self.place == row.benchmark
            or _same_path(row.node_id.rpartition("::")[0], self.place)
        )


def means(text: str, row: TrialRow) -> bool:
    """Return whether `text` may be the id of a trial, or of its scenario."""
    return text == row.node_id or _parsed(text).fits(row)


def trials_named(
    history: HistoryReader, text: str, job: str | None = None, *, kept: bool = False
) -> list[TrialRow]:
    """Return the trials that `text` names, in `job`, else in the newest job with any; `kept` prefers a kept trial.

    The id of a scenario may name trials of several attempts and agents. Raises InputError: there is no such job, or no
    job has such a trial.
    """
    text = text.strip()
    if job is not None:
        job_id = find_job(history, job)
        found = _in_job(history, job_id, text)
        if not found:
            raise InputError(f"job {job_id} has no trial {quoted(text, 200)}{_near(history, text, job_id)}")
        return found
    if (by_path := _by_path(history, text)) is not None:
        return [by_path]
    found = []
    scenario = _parsed(text).scenario
    known = history.knows_scenario(scenario)
    if known or ".py::" in text:  # the id of an interactive test has the name of its function
        # If no job kept anything, do not search older ones.
        kept = kept and known and history.was_kept(scenario)
        for row in page(history, JOBS, limit=_JOBS).rows:
            here = _in_job(history, row.id, text)
            if here and (not kept or any(one.kept is not None for one in here)):
                return here
            found = found or here
    if not found:
        raise InputError(f"there is no trial {quoted(text, 200)}{_near(history, text, history.newest())}")
    return found


def job_or_trials(history: HistoryReader, text: str, *, kept: bool = False) -> tuple[str, list[TrialRow]]:
    """Return the job that `text` names and no trials, or the job and the trials that it names.

    Raises InputError: it names neither.
    """
    try:
        return find_job(history, text), []
    except InputError as no_job:
        try:
            rows = trials_named(history, text, kept=kept)
        except InputError as no_trial:
            meant = "::" in text or text.endswith("]") or "/" in text
            raise (no_trial if meant else no_job) from None
    return rows[0].job, rows


def trial_named(history: HistoryReader, text: str, job: str | None = None) -> TrialRow:
    """Return the only trial that `text` names. Raises InputError: as `trials_named`; or there are several."""
    found = trials_named(history, text, job)
    if len(found) == 1:
        return found[0]
    found.sort(key=lambda row: (row.benchmark, row.scenario, row.agent, row.attempt))
    listed = "".join(f"\n  {row.node_id}  {row.outcome}" for row in found[:_SHOWN])
    more = f"\n  ... and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    raise InputError(
        f"{quoted(text, 200)} names {len(found)} trials of job {found[0].job}; give the id of one:{listed}{more}"
    )


def _in_job(history: HistoryReader, job_id: str, text: str) -> list[TrialRow]:
    if (exact := history.trial(job_id, text)) is not None:
        return [exact]
    parsed = _parsed(text)
    return [row for row in history.trials(job_id, scenario=parsed.scenario) if parsed.fits(row)]


def _parsed(text: str) -> _Parsed:
    """Parse an id. Labels and scenarios have no bracket, and scenarios no `::`."""
    head, label = text, None
    if text.endswith("]") and "[" in text:
        head, _, label = text[:-1].rpartition("[")
    place, _, scenario = head.rpartition("::")
    return _Parsed(place or None, scenario, label)


def _by_path(history: HistoryReader, text: str) -> TrialRow | None:
    """Return the trial whose files are at a path, or include it."""
    parts = PurePath(text).parts
    if "trials" not in parts:
        return None
    at = parts.index("trials")
    if not at or len(parts) < at + 4 or history.job_row(parts[at - 1]) is None:
        return None
    wanted = "/".join(parts[at : at + 4])
    return next((row for row in history.each_trial(parts[at - 1]) if row.path == wanted), None)


def _same_path(place: str, typed: str) -> bool:
    """Return whether two paths may be the same file, relative to different directories."""
    typed = typed.removeprefix("./")
    while typed.startswith("../"):
        typed = typed[3:]
    return place == typed or place.endswith(f"/{typed}") or typed.endswith(f"/{place}")


def _near(history: HistoryReader, text: str, job_id: str | None) -> str:
    if job_id is None:
        return f": there are no jobs in {history.directory} yet"
    ids: Sequence[str] = list(dict.fromkeys(row.node_id for row in history.trials(job_id)))
    scenario = _parsed(text).scenario
    by_scenario = {node_id.rpartition("::")[2].partition("[")[0]: node_id for node_id in reversed(ids)}
    close = difflib.get_close_matches(text, ids, n=3) or [
        by_scenario[name] for name in difflib.get_close_matches(scenario, by_scenario, n=3)
    ]
    if close:
        return f". Did you mean {', '.join(quoted(one, 200) for one in close)}?"
    return f"; `benchjobs summary -e {job_id}` lists those of the newest job"
