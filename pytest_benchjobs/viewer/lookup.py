"""Lookup of a trial, and of the directories with its files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from ..analysis.live import Flying
from ..model.errors import InputError
from ..model.result import TrialResult
from ..report.overview import live_state
from ..store.copying import inside
from ..store.reader import HistoryReader
from ..store.results import origins
from ..store.rows import TrialRow
from ..store.text import clean, plain
from ..store.trials import read_result, what_is_wrong
from .query import Refused
from .results import Results, root_of

_UNUSUAL = re.compile(r"[^\x00-\x7f]|\\[ubf]")
"""What JSON has of texts that may need cleaning."""
_TEXT = 1 << 20


class Found(NamedTuple):
    """A trial with its files."""

    job: str
    row: TrialRow | None
    """None while it runs."""
    result: TrialResult | None
    """None while it runs, or without files."""
    places: tuple[Path, ...] = ()
    """Directories that may have its files, its own first; those of earlier jobs follow, for a reused result."""
    agent_places: tuple[Path, ...] = ()
    """Directories that may have files of its agent: these, and those of the job whose trial was rescored."""
    running: Flying | None = None
    root: Path | None = None

    @property
    def withheld(self) -> bool:
        """True if nothing of it may be quoted; also if that is unknown, as its files are gone."""
        if self.running is not None:
            return self.running.confidential
        return self.result is None or self.result.confidential


def find_trial(results: Results, history: HistoryReader, job_id: str, node_id: str) -> Found:
    """Find a trial, and the directories of its files. Raises Refused: there is none."""
    root = root_of(results, job_id)
    row = history.trial(job_id, node_id)
    if row is None:
        flying = None if root is None else live_state(root).flying.get(clean(node_id))
        if flying is None or root is None:
            raise Refused(404, f"job {job_id} has no trial {clean(node_id, 200)!r}")
        return Found(job_id, None, None, running=flying, root=root)
    if root is None or not row.path:
        return Found(job_id, row, None)
    try:
        place = inside(root, row.path)
        result = _harmless(read_result(place))
    except InputError:
        return Found(job_id, row, None)
    if result.node_id != row.node_id and clean(result.node_id) != row.node_id:
        return Found(job_id, row, None)
    # The path is where the file was found: its own content is untrusted.
    result = result.model_copy(update={"path": row.path})
    found = list(_origins(results, result))
    return Found(
        job_id,
        row,
        result,
        places=(place, *(origin for origin, same in found if same)),
        agent_places=(place, *(origin for origin, _ in found)),
        root=root,
    )


def _harmless(result: TrialResult) -> TrialResult:
    """Return a result without characters that turn the text around them, or that terminals obey."""
    if not _UNUSUAL.search(result.model_dump_json(by_alias=True)):
        return result
    data = plain(result.model_dump(mode="json", by_alias=True), _TEXT)
    try:
        return TrialResult.model_validate_json(json.dumps(data))
    except ValidationError as error:
        raise InputError(f"the result has texts that cannot be shown: {what_is_wrong(error)}") from None


def _origins(results: Results, result: TrialResult) -> Iterator[tuple[Path, bool]]:
    """Yield the directories of earlier trials that a result is made from, and whether it is the same result."""
    try:
        for origin, same in origins(results.directory, result):
            if root_of(results, origin.relative_to(results.directory).parts[1]) is not None:
                yield origin, same
    except InputError:
        return
