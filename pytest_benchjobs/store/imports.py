"""Import of jobs from another history without their bundles, row by row."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..model.errors import InputError
from ..model.job import JobRecord, Totals
from ..model.result import Outcome
from .bundle import JobBundle
from .checksum import checksum_of, differs, is_checked
from .database import copy_database, explained
from .files import writing
from .history import History
from .incoming import MergeResult, ended_at
from .layout import Layout
from .rows import SCORE_COLUMNS, TRIAL_COLUMNS, PairRow
from .trials import what_is_wrong

_TYPES = {
    "'text'": "node_id benchmark scenario agent outcome started_at finished_at path",
    "'text', 'null'": "benchmark_version model class message provider signature reused rescored kept "
    "comparable known tags cluster metrics graded_in",
    "'integer', 'real'": "attempt tries threshold seconds",
    "'integer', 'real', 'null'": "score input_tokens output_tokens cost_usd cached_tokens reasoning_tokens "
    "calls",
}
# SQLite columns may hold values of any type.
_SOUND = " AND ".join(
    [
        *(f"typeof({name}) IN ({kinds})" for kinds, names in _TYPES.items() for name in names.split()),
        f"outcome IN ({', '.join(repr(outcome.value) for outcome in Outcome)})",
        "ifnull(score, 0) BETWEEN 0 AND 1",
        "CASE outcome WHEN 'passed' THEN ifnull(score >= threshold, 0) WHEN 'failed' THEN 1 ELSE score IS NULL END",
        "datetime(started_at) IS NOT NULL AND datetime(finished_at) IS NOT NULL",
    ]
)
_SOUND_SCORE = """
    typeof(scorer) = 'text' AND typeof(type) = 'text' AND typeof(weight) IN ('integer', 'real')
    AND typeof(scores.score) IN ('integer', 'real', 'null') AND typeof(scores.class) IN ('text', 'null')
    AND typeof(scores.seconds) IN ('integer', 'real')
"""
_ANY_UNSOUND = f"""
    SELECT 1 FROM incoming.trials WHERE job = ?1 AND NOT ({_SOUND})
    UNION ALL
    SELECT 1 FROM incoming.trials JOIN incoming.scores ON scores.trial = trials.id
    WHERE job = ?1 AND NOT ({_SOUND_SCORE})
    LIMIT 1
"""  # noqa: S608
# The newest trial that passed or failed stays, else the newest.
_FORGET_BEATEN = """
    DELETE FROM main.trials WHERE job = ? AND EXISTS (
        SELECT 1 FROM incoming.trials AS other WHERE other.job = trials.job AND other.node_id = trials.node_id
        AND (other.outcome IN ('passed', 'failed'), other.finished_at)
            > (trials.outcome IN ('passed', 'failed'), trials.finished_at)
    )
"""
_MISSING = """
    FROM incoming.trials AS other WHERE other.job = ?1 AND NOT EXISTS (
        SELECT 1 FROM main.trials AS mine WHERE mine.job = other.job AND mine.node_id = other.node_id
    )
"""
_PAIRS = (
    f"SELECT {', '.join(name.rstrip('_') for name in PairRow._fields)} FROM incoming.trials WHERE job = ?"  # noqa: S608
)
_ALL = (
    "SELECT * FROM incoming.trials WHERE job = ?",
    "SELECT scores.* FROM incoming.scores JOIN incoming.trials ON scores.trial = trials.id WHERE job = ?",
    "SELECT * FROM incoming.events WHERE job = ?",
)
_COPY_RUN = f"""
    INSERT INTO main.trials ({", ".join(TRIAL_COLUMNS)}, run) SELECT {", ".join(TRIAL_COLUMNS)}, ?2
    {_MISSING} AND other.benchmark = ?3 AND other.agent = ?4 ORDER BY other.id
"""
_COPY_SCORES = f"""
    INSERT INTO main.scores (trial, position, {", ".join(SCORE_COLUMNS)})
    SELECT mine.id, scores.position, {", ".join(f"scores.{name}" for name in SCORE_COLUMNS)}
    FROM main.trials AS mine
    JOIN incoming.trials AS other ON other.job = mine.job AND other.node_id = mine.node_id
    JOIN incoming.scores AS scores ON scores.trial = other.id
    WHERE mine.job = ? AND mine.id > ?
"""  # noqa: S608
_SEE_SCENARIOS = """
    INSERT INTO main.scenarios (benchmark, scenario, first_seen, last_seen)
    SELECT benchmark, scenario, min(started_at), max(finished_at) FROM main.trials
    WHERE job = ? AND id > ? AND reused IS NULL GROUP BY benchmark, scenario
    ON CONFLICT (benchmark, scenario) DO UPDATE SET
        first_seen = min(first_seen, excluded.first_seen), last_seen = max(last_seen, excluded.last_seen)
"""
_COPY_EVENTS = """
    INSERT INTO main.events (job, at, kind, message)
    SELECT job, at, kind, message FROM incoming.events WHERE job = ? AND datetime(at) IS NOT NULL ORDER BY id
"""
# In the order of the fields of `Totals`.
_TOTALS = """
    SELECT count(*), total(outcome = 'passed'), total(outcome = 'failed'), total(outcome = 'error'),
        total(outcome = 'cancelled'), total(outcome = 'skipped'), avg(score), count(reused),
        sum(CASE WHEN reused IS NULL AND rescored IS NULL THEN cost_usd END)
    FROM main.trials WHERE job = ?
"""


def take_in(history: History, source: Path, leave: Collection[str] = ()) -> Iterator[MergeResult]:
    """Import the jobs of another history, except those in `leave`. The other history is only read.

    Jobs whose files are here are skipped: the files are the truth. Raises InputError: it is not a history, damaged, or
    a newer version wrote it; DiskFull, ResultsUnwritable: the directory cannot be written.
    """
    with _attached(history, source):
        jobs = _rows(history, source, "SELECT id, record FROM incoming.jobs ORDER BY created_at, id")
        for job_id, text in (row for row in jobs if row[0] not in leave):
            try:
                record = JobRecord.model_validate_json(text)
                JobBundle(source, record.id)
                if record.id != job_id:
                    raise InputError(f"it is that of job {record.id}")
            except (ValidationError, InputError) as error:
                why = error.message if isinstance(error, InputError) else what_is_wrong(error)
                yield MergeResult(str(job_id), None, "refused", 0, f"its record is damaged: {why}")
                continue
            try:
                merged = _take_in(history, record, source)
            except InputError as error:
                # The job here cannot be read; continue with the next one.
                merged = MergeResult(record.id, record.name, "refused", 0, str(error))
            yield merged


@contextlib.contextmanager
def _attached(history: History, source: Path) -> Iterator[None]:
    """Attach a copy of the other history as `incoming`, upgraded if needed."""
    with writing(history.path):
        place = tempfile.TemporaryDirectory(dir=history.directory, prefix=".merge-")
    with place:
        copy = Layout(Path(place.name)).history
        copy_database(source, copy)
        History(copy).close()
        with explained(history.path):
            history.connection.execute("ATTACH ? AS incoming", (f"{copy.absolute().as_uri()}?mode=ro",))
        try:
            yield
        finally:
            history.connection.execute("DETACH incoming")


def _rows(history: History, source: Path, query: str, *values: object) -> list[Any]:
    """Return the rows of a query. Its cursor ends even if one cannot be read: `incoming` is locked until then."""
    with explained(source), contextlib.closing(history.connection.execute(query, values)) as cursor:
        return cursor.fetchall()


def _take_in(history: History, record: JobRecord, source: Path) -> MergeResult:
    for query in _ALL:  # bytes that are no text would be copied unread
        _rows(history, source, query, record.id)
    ((trials,),) = _rows(history, source, "SELECT count(*) FROM incoming.trials WHERE job = ?", record.id)
    unsound = _rows(history, source, _ANY_UNSOUND, record.id)
    rows = _rows(history, source, _PAIRS, record.id)
    changed = not unsound and differs(record, [PairRow._make(row) for row in rows])
    if unsound:
        return MergeResult(record.id, record.name, "refused", trials, "its trials are damaged")
    if changed:
        why = "its results are not those it ended with; run `benchjobs db rebuild` in its own directory"
        return MergeResult(record.id, record.name, "refused", trials, why)
    if not record.status.ended:
        why = f"it is still {record.status.value} in its own directory"
        return MergeResult(record.id, record.name, "refused", trials, why)
    here = history.job_row(record.id)
    if here is not None and record.id in history.job_ids():
        if trials > here.ended:
            why = f"it has {trials - here.ended} more trials than its files here; merge its directory"
            return MergeResult(record.id, record.name, "refused", trials, why)
        return MergeResult(record.id, here.name, "unchanged", here.ended)
    with history.transaction():
        merged = _unite(history, record)
    if merged.action != "unchanged":
        history.add_event(record.id, "imported", f"{merged.action}, without files")
    return merged


def _unite(history: History, record: JobRecord) -> MergeResult:
    """Import trials that are missing here, or better than those here."""
    execute = history.connection.execute
    earlier = history.job(record.id)
    later = earlier is None or ended_at(record) > ended_at(earlier)
    kept = record if earlier is None or later else earlier
    if earlier is not None and is_checked(record) and differs(earlier, history.paired_rows(record.id)):
        for table in ("trials", "runs"):  # those that come in are right
            execute(f"DELETE FROM main.{table} WHERE job = ?", (record.id,))  # noqa: S608
    execute(_FORGET_BEATEN, (record.id,))
    history.write_job(kept)
    execute("UPDATE main.jobs SET bundled = 0 WHERE id = ?", (record.id,))
    runs = execute(f"SELECT DISTINCT benchmark, agent {_MISSING}", (record.id,)).fetchall()
    (last,) = execute("SELECT ifnull(max(id), 0) FROM main.trials").fetchone()
    for run in runs:
        execute(_COPY_RUN, (record.id, history.run_number(record.id, *run), *run))
    execute(_COPY_SCORES, (record.id, last))
    execute(_SEE_SCENARIOS, (record.id, last))
    if earlier is None:
        execute(_COPY_EVENTS, (record.id,))
    counted = execute(_TOTALS, (record.id,)).fetchone()
    totals = Totals.model_validate(dict(zip(Totals.model_fields, counted, strict=True)))
    checksum = record.checksum
    if earlier is not None and checksum is not None:
        checksum = earlier.checksum and checksum_of(history.paired_rows(record.id))
    history.write_job(kept.model_copy(update={"totals": totals, "checksum": checksum}))
    if earlier is not None and not runs and not later:
        return MergeResult(record.id, kept.name, "unchanged", totals.trials)
    return MergeResult(record.id, kept.name, "updated" if earlier else "added", totals.trials)
