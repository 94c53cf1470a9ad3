"""Scores of the trials of a rescore, then and now."""

from __future__ import annotations

from ..model.node_ids import paths_of_names
from ..store.reader import HistoryReader
from .units import counted, mean_text, number, some

NOT_KEPT = "not_kept"
"""Class of a trial that was skipped because its file system was not kept."""


def rescored_line(history: HistoryReader, job_id: str, parent: str) -> str | None:
    """Compare the same trials then and now, by their mean and each score that changed. None: none was graded again."""
    now = history.trials(job_id)
    missing = sum(1 for row in now if row.class_ == NOT_KEPT)
    graded = [row for row in now if row.score is not None and row.rescored == parent]
    if not missing and not graded:
        return None
    earlier = history.trials(parent)
    paths = paths_of_names((row.node_id, row.benchmark) for row in (*earlier, *now))
    before = {paths.get(row.node_id, row.node_id): row.score for row in earlier}
    line = f"Of {counted(len(now), 'trial')} of job {parent}, {len(graded)} were graded again"
    if missing:
        line += f" and {missing} were not kept; those are in no figure here"
    known = [score for row in graded if (score := before.get(row.node_id)) is not None]
    if known and len(known) == len(graded):
        then, mean = sum(known) / len(known), sum(row.score or 0.0 for row in graded) / len(graded)
        line += f". Mean of the same {counted(len(graded), 'trial')}: {mean_text(then)} then, {mean_text(mean)} now"
    whole = [score for score in before.values() if score is not None]
    if missing and whole:
        line += f" (all of job {parent}: {mean_text(sum(whole) / len(whole))})"
    changed = [
        f"{row.node_id.rpartition('::')[2]} {number(was)} -> {number(row.score)}"
        for row in graded
        if (was := before.get(row.node_id)) is not None and was != row.score
    ]
    if changed:
        line += f"; other scores now: {some(changed)}"
    return line
