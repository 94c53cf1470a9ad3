"""Means of a rescore when only a part of the earlier job's trials was kept."""

from __future__ import annotations

from ..model.node_ids import paths_of_names
from ..store.reader import HistoryReader
from .units import counted, mean_text

NOT_KEPT = "not_kept"
"""Class of a trial that was skipped because its file system was not kept."""


def rescored_line(history: HistoryReader, job_id: str, parent: str) -> str | None:
    """Compare the means of the same trials then and now. None: all trials were graded again."""
    now = history.trials(job_id)
    missing = sum(1 for row in now if row.class_ == NOT_KEPT)
    if not missing:
        return None
    earlier = history.trials(parent)
    paths = paths_of_names((row.node_id, row.benchmark) for row in (*earlier, *now))
    before = {paths.get(row.node_id, row.node_id): row.score for row in earlier}
    graded = [row for row in now if row.score is not None and row.rescored is not None]
    line = (
        f"Of {counted(len(now), 'trial')} of job {parent}, {len(graded)} were graded again and {missing} were not "
        "kept; those are in no figure here"
    )
    known = [score for row in graded if (score := before.get(row.node_id)) is not None]
    if known and len(known) == len(graded):
        then, mean = sum(known) / len(known), sum(row.score or 0.0 for row in graded) / len(graded)
        line += f". Mean of the same {counted(len(graded), 'trial')}: {mean_text(then)} then, {mean_text(mean)} now"
    whole = [score for score in before.values() if score is not None]
    if whole:
        line += f" (all of job {parent}: {mean_text(sum(whole) / len(whole))})"
    return line
