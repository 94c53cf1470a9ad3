"""A trial: its result, and a list of its files."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Literal

from ..job.follow import running_log
from ..model.job import JobRecord
from ..model.result import TrialResult
from ..report.documents import mirror
from ..report.documents.summary import InFlight
from ..report.documents.viewer import Command, LogHead, RunningTrial, TrialHead, ViewerFile, ViewerTrial
from ..report.scenarios import Scenarios
from ..report.trial import next_commands, statement_of
from ..store.layout import AGENT_FILES, RESULT, JobLayout
from ..store.opening import files_inside
from ..store.project import directory_argument
from ..store.reader import HistoryReader
from ..store.rows import TrialRow
from ..store.text import clean
from .lookup import Found, find_trial
from .query import Query
from .results import Results, record_of
from .trajectory import count_steps

_FILES = 500
_SIBLINGS = 200
_DIFFS = (".diff", ".patch")
_IMAGES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
"""Types that browsers only draw. SVG is none: it may have scripts."""
_BINARY = frozenset(
    (".gz", ".zip", ".tar", ".xz", ".bz2", ".zst", ".whl", ".so", ".o", ".a", ".pyc", ".bin", ".exe", ".pdf", ".db",
     ".sqlite", ".parquet", ".npy", ".npz", ".pkl", ".ico", ".woff", ".woff2", ".ttf", ".mp3", ".mp4", ".webm", ".wasm")
)  # fmt: skip
TRIAL = ("id",)


def trial(results: Results, history: HistoryReader, query: Query, job: str) -> ViewerTrial:
    """Return everything about a trial but its steps and the content of its files."""
    record = record_of(history, job)
    found = find_trial(results, history, job, query.needed("id"))
    siblings: tuple[TrialHead, ...] = ()
    if found.row is not None:
        of_scenario = history.trials(job, scenario=found.row.scenario)
        same = [one for one in of_scenario if one.benchmark == found.row.benchmark]
        siblings = others_of(found.row.node_id, alike(same))
    return trial_document(record, found, siblings, Scenarios(), directory_argument(results.directory))


def trial_document(
    record: JobRecord, found: Found, siblings: tuple[TrialHead, ...], scenarios: Scenarios, where: str
) -> ViewerTrial:
    """Describe a trial of a job; `where` is what commands need to find the results."""
    row, result = found.row, found.result
    files, left_out = ((), 0) if found.withheld else _files(found)
    return ViewerTrial(
        job=record.id,
        job_name=record.name,
        job_status=record.status.value,
        row=None if row is None else mirror(TrialHead, row),
        result=result,
        running=None if found.running is None else mirror(RunningTrial, InFlight.of(found.running)),
        withheld=found.withheld and (result is not None or found.running is not None),
        statement=None if result is None or found.withheld else statement_of(result, record, scenarios),
        steps=0 if found.withheld else count_steps(found.agent_places),
        logs=() if found.withheld else tuple(_logs(found)),
        files=files,
        files_left_out=left_out,
        commands=() if result is None else tuple(_commands(result, record, where)),
        siblings=siblings,
    )


def alike(rows: Iterable[TrialRow]) -> tuple[TrialHead, ...]:
    """Return trials of a scenario, by agent and attempt: as many as pages of them need."""
    ordered = sorted(rows, key=lambda row: (row.agent, row.attempt))
    return tuple(mirror(TrialHead, row) for row in ordered[: _SIBLINGS + 1])


def others_of(node_id: str, trials: Iterable[TrialHead]) -> tuple[TrialHead, ...]:
    """Return trials of a scenario besides one of them."""
    return tuple(one for one in trials if one.id != node_id)[:_SIBLINGS]


def kind_of(path: str) -> Literal["text", "diff", "image", "html", "binary"]:
    """Return the kind of a file, by its name."""
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in _IMAGES:
        return "image"
    if suffix in (".html", ".htm", ".xhtml", ".svg"):
        return "html"
    if suffix in _DIFFS:
        return "diff"
    return "binary" if suffix in _BINARY else "text"


def image_type(path: str) -> str:
    """Return the media type of a file of kind `image`."""
    return _IMAGES[PurePosixPath(path).suffix.lower()]


def _logs(found: Found) -> Iterator[LogHead]:
    """Return the logs: of the agent, also of earlier tries and turns, and of the scorers."""
    if found.running is not None and found.root is not None:
        running = running_log(JobLayout(found.root), found.running)
        if running is not None:
            with contextlib.suppress(FileNotFoundError):  # it ended in between
                yield LogHead(name=AGENT_FILES[0], bytes=running.lstat().st_size)
        return
    named: set[str] = set()
    for place in found.agent_places:
        for path, size in itertools.islice(files_inside(place), _FILES * 4):
            mine = place in found.places or path in AGENT_FILES
            if mine and path.endswith(".log") and not path.startswith("artifacts/") and path not in named:
                named.add(path)
                yield LogHead(name=path, bytes=size)


def _files(found: Found) -> tuple[tuple[ViewerFile, ...], int]:
    """Return the files but for logs and result, and the number of those beyond the limit."""
    files: dict[str, ViewerFile] = {}
    left_out = 0
    for place in found.places:
        for path, size in itertools.islice(files_inside(place), 100_000):
            if path in files or path in (RESULT, *AGENT_FILES):
                continue
            if len(files) >= _FILES:
                left_out += 1
            elif clean(path) == path:  # other names cannot be asked for
                files[path] = ViewerFile(path=path, bytes=size, kind=kind_of(path))
    return tuple(files.values()), left_out


def _commands(result: TrialResult, record: JobRecord, where: str) -> Iterator[Command]:
    for title, command in next_commands(result, record, where):
        yield Command(title=title, command=command)
