"""Lookup of results: in a directory, of the job that a text names, and of the original files of a result.

`HistoryReader.of` opens the history of a results directory, `JobBundle.open` the files of a job by its id.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterator
from pathlib import Path

from ..model.errors import InputError
from ..model.result import TrialResult
from .bundle import JobBundle
from .copying import inside
from .database import refuse_lost
from .layout import Layout
from .listing import JOBS, page
from .reader import HistoryReader
from .text import quoted
from .trials import read_result

LAST = re.compile(r"^last(?:~(\d{1,9}))?$")
_SHOWN = 5
_STEPS = 100
"""Most reuses to follow; a cycle ends here too."""


def has_results(directory: Path) -> bool:
    """Return whether a directory has a history or jobs."""
    layout = Layout(directory)
    return layout.history.is_file() or layout.jobs.is_dir()


def find_job(history: HistoryReader, text: str) -> str:
    """Return the id of the job that `text` names.

    A text is an id or its beginning, `last`, `last~N` (N before the last), or a name, which means the newest job of
    that name.

    Raises InputError: there is none, or several ids begin like this.
    """
    text = text.strip()
    if not text:
        raise InputError("no job was named; give an id, the beginning of one, a name, or `last`")
    if history.job_row(text) is not None:
        return text
    last = LAST.match(text)
    if last is not None:
        return _last(history, int(last[1] or 0))
    found = history.beginning_with(text, _SHOWN + 1)
    if len(found) == 1:
        return found[0]
    named = history.named(text)
    if named is not None:
        return named
    if found:
        more = ", ..." if len(found) > _SHOWN else ""
        raise InputError(
            f"{quoted(text)} matches several jobs: {', '.join(found[:_SHOWN])}{more}; give more characters"
        )
    raise InputError(f"there is no job {quoted(text)}{_hint(history, text)}")


def find_bundle(history: HistoryReader, text: str) -> JobBundle:
    """Open the files of the job that `text` names.

    Raises InputError: as `find_job`; or only the history has the job.
    """
    job_id = find_job(history, text)
    directory = history.directory
    if not JobBundle(directory, job_id).root.is_dir():
        raise InputError(
            f"the files of job {job_id} are not in {directory}: it was merged without files, or they were removed. "
            f"`benchjobs list` and `benchjobs summary {job_id}` show what the history has of it"
        )
    return JobBundle.open(directory, job_id)


def origins(directory: Path, result: TrialResult) -> Iterator[tuple[Path, bool]]:
    """Yield directories of the original trials of a result, the nearest first, and whether the result is the same.

    A reused result is the same; a rescored one shares only the agent's work. The last directory is that of the trial in
    which the agent ran.

    Raises InputError: one is gone, damaged, or leads out of its job.
    """
    same = True
    for _ in range(_STEPS):
        origin = result.reused or result.rescored
        if origin is None:
            return
        place = inside(JobBundle.open(directory, origin.job).root, origin.path)
        if not place.is_dir():
            raise InputError("is gone; it had the files of this trial", path=place)
        same = same and result.reused is not None
        yield place, same
        result = read_result(place)
    raise InputError(f"the files of this trial are more than {_STEPS} jobs away", path=place)


def places_of(directory: Path, root: Path, result: TrialResult) -> Iterator[Path]:
    """Yield the directories that may have the agent's files: the trial's own below `root`, then its origins'."""
    yield root / result.path
    with contextlib.suppress(InputError):
        for place, _ in origins(directory, result):
            yield place


def _last(history: HistoryReader, back: int) -> str:
    found = history.newest(back)
    if found is not None:
        return found
    if back and history.newest() is not None:
        raise InputError(f"there is no job last~{back}: there are fewer jobs")
    refuse_without_jobs(history)
    raise InputError(f"there are no jobs in {history.directory} yet")


def refuse_without_jobs(history: HistoryReader) -> None:
    """Refuse an empty history if there are jobs. Raises InputError: there are."""
    if history.newest() is None:
        refuse_lost(history.path, "knows no job")


def _hint(history: HistoryReader, text: str) -> str:
    """Suggest jobs with similar names, or the latest ones."""
    latest = [job.id for job in page(history, JOBS, limit=_SHOWN).rows]
    if not latest:
        refuse_without_jobs(history)
        return f": there are none in {history.directory} yet"
    names = difflib.get_close_matches(text, [*history.names(), *latest], _SHOWN)
    if names:
        return f". Did you mean {', '.join(quoted(name) for name in names)}?"
    return f"; the latest are {', '.join(latest)}"
