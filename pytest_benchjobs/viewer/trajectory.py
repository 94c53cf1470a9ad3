"""Steps of trajectories: pages of one, and two side by side. Files are read line by line, never whole."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from ..agents.reading.trajectory import STEP_LIMIT, Footer, Header, Step
from ..model.errors import InputError
from ..report.documents import mirror
from ..report.documents.viewer import AlignedChoice, AlignedRow, AlignedTrial, ViewerAlignment, ViewerSteps
from ..store.layout import TrialLayout
from ..store.opening import open_inside
from ..store.reader import HistoryReader
from ..store.rows import TrialRow
from ..store.text import plain
from .lookup import Found, find_trial
from .query import Query, Refused
from .results import Results, job_of, record_of

STEPS = ("id", "after", "limit", "q")
ALIGN = (
    "a_job", "b_job", "benchmark", "scenario", "a_agent", "b_agent", "a_attempt", "b_attempt", "after", "limit",
)  # fmt: skip
_LIMIT = 500
_PAGE = 100
_LINE_LIMIT = 16 << 20
_BYTES = 4 << 20
"""A page ends early where its steps have become larger."""
_TEXT = 100_000
_ATTEMPTS = 10_000
_CHOICES = 100
Kind = Literal["identical", "different", "tool_mismatch", "only_a", "only_b"]


def steps(results: Results, history: HistoryReader, query: Query, job: str) -> ViewerSteps:
    """Return steps of a trial, those that contain a text if one is given."""
    found = find_trial(results, history, job, query.needed("id"))
    after = query.number("after", 0, 0, STEP_LIMIT)
    limit = query.number("limit", _PAGE, 1, _LIMIT)
    text = (query.text("q") or "").casefold()
    page: list[dict[str, Any]] = []
    head: Header | None = None
    foot: Footer | None = None
    total = size = 0
    more = False
    for line in _lines(found):
        if (head_or_foot := _ends(line)) is not None:
            head, foot = (head_or_foot, foot) if isinstance(head_or_foot, Header) else (head, head_or_foot)
            continue
        if text and text not in _searched(line):
            continue
        total += 1
        if more or _number(line) <= after:
            continue
        if len(page) >= limit or size > _BYTES:
            more = True
        elif (step := _step(line)) is not None:
            page.append(step)
            size += len(line)
    return ViewerSteps(
        agent=None if head is None else _plain(head.agent.model_dump()),
        total=total,
        next=page[-1]["step_id"] if more and page else None,
        steps=page,
        notes=None if foot is None else str(_plain(foot.notes)),
        final_metrics=None if foot is None else foot.final_metrics.model_dump(exclude_none=True),
    )


def all_steps(places: Sequence[Path]) -> list[dict[str, Any]]:
    """Return all steps of a trial with its files in these directories."""
    found = (_step(line) for line in _lines_of(places) if _ends(line) is None)
    return [step for step in found if step is not None]


def count_steps(places: Sequence[Path]) -> int:
    """Count the steps of a trial with its files in these directories."""
    return sum(1 for line in _lines_of(places) if _ends(line) is None)


def align(results: Results, history: HistoryReader, query: Query) -> ViewerAlignment:
    """Return the steps of two trials of one scenario side by side."""
    sides = [_side(results, history, query, letter) for letter in "ab"]
    after = query.number("after", 0, 0, STEP_LIMIT)
    limit = query.number("limit", _PAGE, 1, _LIMIT)
    (row_a, steps_a, choices_a), (row_b, steps_b, choices_b) = sides
    rows = [AlignedRow(kind=_kind(a, b), a=a, b=b) for a, b in _zipped(steps_a, steps_b)]
    page: list[AlignedRow] = []
    size = 0
    for row in rows[after : after + limit]:
        if size > _BYTES:
            break
        page.append(row)
        size += len(json.dumps((row.a, row.b)))
    end = after + len(page)
    return ViewerAlignment(
        a=mirror(AlignedTrial, row_a, steps=len(steps_a), choices=choices_a),
        b=mirror(AlignedTrial, row_b, steps=len(steps_b), choices=choices_b),
        counts=dict(Counter(row.kind for row in rows)),
        total=len(rows),
        next=end if end < len(rows) else None,
        rows=page,
    )


def _side(
    results: Results, history: HistoryReader, query: Query, letter: str
) -> tuple[TrialRow, list[dict[str, Any]], tuple[AlignedChoice, ...]]:
    """Return a trial, its steps, and the trials that might be in its place.

    It is the first with steps, unless an attempt is named.
    """
    named = query.needed(f"{letter}_job")
    wanted = (query.needed("benchmark"), query.needed("scenario"), query.needed(f"{letter}_agent"))
    attempt = query.number(f"{letter}_attempt", 0, 0, _ATTEMPTS)
    rows = [
        row
        for job_id in _jobs_of(history, named)
        for row in sorted(history.trials(job_id, scenario=wanted[1]), key=lambda row: row.attempt)
        if (row.benchmark, row.scenario, row.agent) == wanted
    ][:_CHOICES]
    choices = tuple(mirror(AlignedChoice, row) for row in rows)
    first: tuple[TrialRow, list[dict[str, Any]], tuple[AlignedChoice, ...]] | None = None
    for row in rows:
        if attempt in (0, row.attempt):
            found = find_trial(results, history, row.job, row.node_id)
            side = (row, [] if found.withheld else all_steps(found.agent_places), choices)
            if side[1] or attempt:
                return side
            first = first or side
    if first is None:
        raise Refused(404, f"{named} has no such trial on side {letter.upper()}")
    return first


def _jobs_of(history: HistoryReader, named: str) -> Sequence[str]:
    """Return the id of a job, or those of a baseline with that name."""
    try:
        jobs: Sequence[str] = (job_of(history, named),)
    except Refused:
        entry = history.baseline(named)
        if entry is None:
            raise
        jobs = entry.jobs
    for job_id in jobs:
        record_of(history, job_id)
    return jobs


def _zipped(
    a: Sequence[dict[str, Any]], b: Sequence[dict[str, Any]]
) -> Iterator[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
    """Yield pairs of steps. A system prompt that one of them lacks moves no step of the agents."""
    more = _before(a) - _before(b)
    skip_a: list[dict[str, Any] | None] = [None] * -more
    skip_b: list[dict[str, Any] | None] = [None] * more
    return itertools.zip_longest([*skip_a, *a], [*skip_b, *b])


def _before(steps: Sequence[dict[str, Any]]) -> int:
    """Return the number of steps before the first one of the agent."""
    return next((place for place, step in enumerate(steps) if step["source"] == "agent"), len(steps))


def _kind(a: dict[str, Any] | None, b: dict[str, Any] | None) -> Kind:
    """Compare two steps by what was said, called and returned. Tokens and ids do not count."""
    if a is None or b is None:
        return "only_b" if a is None else "only_a"
    if _calls(a) != _calls(b):
        return "tool_mismatch"
    return "identical" if _content(a) == _content(b) else "different"


def _calls(step: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Return the tools that a step calls, with the names of their arguments."""
    return [(call["function_name"], sorted(call["arguments"])) for call in step.get("tool_calls") or ()]


def _content(step: dict[str, Any]) -> tuple[Any, ...]:
    results = (step.get("observation") or {}).get("results") or ()
    return (
        step["source"],
        step["message"],
        step.get("reasoning_content"),
        [(call["function_name"], call["arguments"]) for call in step.get("tool_calls") or ()],
        [result["content"] for result in results],
    )


def _lines(found: Found) -> Iterator[bytes]:
    if found.withheld:
        raise Refused(403, "its benchmark is confidential: its steps are withheld")
    return _lines_of(found.agent_places)


def _lines_of(places: Sequence[Path]) -> Iterator[bytes]:
    """Yield the lines of the first trajectory in these directories."""
    for place in places:
        try:
            file = open_inside(place, TrialLayout(place).trajectory.name)
        except InputError:
            continue
        with file:
            for _ in range(STEP_LIMIT + 2):
                line = file.readline(_LINE_LIMIT)
                if not line:
                    return
                if line.strip():
                    yield line
        return


def _ends(line: bytes) -> Header | Footer | None:
    """Parse a first or last line; None for any other."""
    if line.startswith(b'{"step_id"'):
        return None
    for kind in (Header, Footer):
        try:
            return kind.model_validate_json(line)
        except ValidationError:
            continue
    return None


def _step(line: bytes) -> dict[str, Any] | None:
    """Parse a step, with harmless texts; None for a line that was cut, or edited."""
    try:
        step = Step.model_validate_json(line)
    except ValidationError:
        return None
    found: dict[str, Any] = _plain(step.model_dump(mode="json", exclude_none=True))
    return found


def _number(line: bytes) -> int:
    try:
        number = json.loads(line)["step_id"]
        return number if isinstance(number, int) else 0
    except (ValueError, LookupError, TypeError, RecursionError):
        return 0


def _searched(line: bytes) -> str:
    """Return the texts of a step, in one case: what it says, calls and got, without the names of its fields."""
    try:
        return "\n".join(_texts(json.loads(line))).casefold()
    except (ValueError, RecursionError):
        return ""


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, int | float):
        yield str(value)
    elif isinstance(value, dict):
        for name, one in value.items():
            # Steps are numbered, and numbers of calls are ours.
            if name not in ("step_id", "tool_call_id", "source_call_id", "metrics"):
                yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _plain(value: Any) -> Any:
    return plain(value, _TEXT)
