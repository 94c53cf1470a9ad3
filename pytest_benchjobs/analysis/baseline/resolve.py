"""Find the side a job is compared with, from `--bench-baseline SPEC`.

    NAME             a baseline that was set
    job:JOB          a job: an id, the beginning of one, a name, last~2
    last             the last completed job before this one, of the same benchmarks and agents
    branch:NAME[~M]  the last M completed jobs of a branch of git
    file:PATH        a baseline.json, the directory of a job, or a report.json
    none             nothing

A baseline that does not exist yet (a name that was not set, no earlier job, no file) is *missing*: an error, unless the
user says that this is a first run. A wrong one (an unknown job, lost results, a damaged file, an invalid spec) is
always an error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from ...model.base import Name
from ...model.errors import InputError
from ...model.gate import GateConfig, GateVerdict
from ...model.job import JobRecord, JobStatus
from ...sources.complaints import did_you_mean
from ...store.baselines import near
from ...store.checked import checked
from ...store.reader import HistoryReader
from ...store.results import LAST, find_job
from ...store.text import one_line, quoted
from ..sides import Side, cut_short, doubled, gone_of, side, two_tasks
from .candidates import branch_jobs, last_job
from .file import side_of_file

_BRANCH = re.compile(r"^(?P<branch>[^~^:\s\\?*\[]+)(?:~(?P<pool>[0-9]{1,4}))?$")
_NAME: TypeAdapter[str] = TypeAdapter(Name)
_KINDS = ("job", "branch", "file")
_ANEW = "set a new baseline, or restore its job"
_MOST = 100
_SHOWN = 5
_BRANCHES = 500
"""Newest jobs whose branches are candidates for "did you mean"."""
_FILES = 10_000
"""Files that are candidates for "did you mean"."""
FORMS = "NAME, job:ID, last, branch:NAME[~M], file:PATH or none"


@dataclasses.dataclass(frozen=True, slots=True)
class Spec:
    """A parsed baseline spec."""

    kind: Literal["name", "job", "last", "branch", "file", "none"]
    value: str = ""
    """Name, job, branch or path."""
    pool: int = 1
    """Number of jobs of the branch to pool."""


@dataclasses.dataclass(frozen=True, slots=True)
class Resolved:
    """One side of a comparison, or why there is none."""

    side: Side | None
    missing: str | None = None
    """Reason why there is no side, in one line."""
    notes: tuple[str, ...] = ()
    """Jobs that were pooled or left out, a line each."""
    cure: str | None = None
    """Advice about a baseline that exists or existed: a first run does not excuse its absence."""
    anchor: Resolved | None = None
    """Older baseline by which the job is judged too."""


def usable(found: Resolved, gate: GateConfig, flag: str = "--bench-first-run") -> Resolved:
    """Return the baseline of `gate`, if it exists or the user declared a first run.

    `flag` is the option that declares a first run.

    Raises InputError: it is missing.
    """
    if found.side is not None or not gate.names_baseline:
        return found
    missing = found.missing or "there is no baseline"
    if found.cure is not None:
        raise InputError(f"{missing}; {found.cure}")
    if gate.without is GateVerdict.NO_BASELINE:
        return found
    if missing.endswith("?"):
        raise InputError(missing)  # a slip of the pen, not a first run
    raise InputError(f"{missing}. For a first run, which has no baseline yet, give {flag}")


def with_anchor(
    gate: GateConfig, find: Callable[[str], Resolved], flag: str = "--bench-first-run"
) -> Resolved | None:
    """Return the baseline of `gate` with its anchor, by a function that resolves a spec; None if none is named.

    Raises InputError: one is missing, and the job is not declared a first run.
    """
    if gate.baseline is None:
        return None
    found = usable(find(gate.baseline), gate, flag)
    return (
        found
        if gate.anchor is None
        else dataclasses.replace(found, anchor=usable(find(gate.anchor), gate, flag))
    )


def parse_spec(text: str) -> Spec:
    """Parse a SPEC, without looking up the baseline. Raises InputError: it is not a valid spec."""
    text = text.strip()
    if text in ("last", "none"):
        return Spec("last" if text == "last" else "none")
    kind, colon, value = text.partition(":")
    if not colon:
        return Spec("name", checked_name(text))
    value = value.strip()
    if kind not in _KINDS:
        raise InputError(
            f"baseline {quoted(text)}: there is no {quoted(kind)};{did_you_mean(kind, _KINDS)} use {FORMS}"
        )
    if not value:
        raise InputError(f"baseline {quoted(text)}: a name is missing after the colon; use {FORMS}")
    if kind != "branch":
        return Spec("job" if kind == "job" else "file", value)
    match = _BRANCH.match(value)
    pool = int(match["pool"] or 1) if match else 0
    if match is None or not 1 <= pool <= _MOST:
        raise InputError(
            f"baseline {quoted(text)}: use branch:NAME or branch:NAME~M, with M jobs to pool, 1 to {_MOST}"
        )
    return Spec("branch", match["branch"], pool)


def checked_name(text: str) -> str:
    """Check the name of a baseline. Raises InputError: it is not a valid name."""
    try:
        return _NAME.validate_python(text)
    except ValidationError:
        raise InputError(
            f"{quoted(text)} is not a valid baseline name: letters, digits, '.', '_', '+', '=' and '-', "
            f"beginning with a letter or digit; a baseline may also be given as {FORMS.partition(', ')[2]}"
        ) from None


def resolve(
    spec: str,
    *,
    history: HistoryReader,
    directory: Path,
    root: Path,
    job: JobRecord | None,
    benchmarks: Collection[str] = (),
) -> Resolved:
    """Find the baseline of a job, which is never the job itself.

    `history` is that of `directory`. The repository is around `root`, and relative paths are below it. `job` is the
    judged job (None: any), and `benchmarks` names those it is going to run, while the history has no trial of it.

    Raises InputError: the spec or the file is wrong, or the job does not exist.
    """
    parsed = parse_spec(spec)
    if parsed.kind == "none":
        return Resolved(None, "no baseline is configured")
    if parsed.kind == "name":
        return _named(parsed.value, spec, history, job, root)
    if parsed.kind == "job":
        return _one(spec, _job(parsed.value, history, job), history)
    if parsed.kind == "file":
        return from_file(spec, root / parsed.value, None if job is None else job.id)
    if parsed.kind == "last":
        chosen = last_job(history, job, benchmarks)
        same = " of the same benchmarks and agents before this one" if job else ""
        why, hint = f"there is no completed job{same}", ""
    else:
        chosen = branch_jobs(history, parsed.value, parsed.pool, root, job, benchmarks)
        why, hint = _no_job_of_branch(history, parsed.value)
    if not chosen.jobs:
        return Resolved(None, f"{why} in {directory}{hint}", chosen.notes)
    return _pooled(spec, chosen.jobs, history, chosen.notes)


def from_file(spec: str, path: Path, judged: str | None) -> Resolved:
    """Read a baseline from a `baseline.json`, the directory of a job, or a `report.json`.

    Raises InputError: the file is damaged, or is that of the job `judged`.
    """
    if not path.exists():
        return Resolved(None, f"there is no file {one_line(str(path), 300)}{_near_file(path)}")
    return of_side(*side_of_file(spec, path, judged))


def _named(name: str, spec: str, history: HistoryReader, job: JobRecord | None, root: Path) -> Resolved:
    entry = history.baseline(name)
    if entry is None and (root / name).exists():
        return Resolved(None, f"there is no baseline {name!r}. Did you mean 'file:{name}'?")
    if entry is None:
        return Resolved(None, f"there is no baseline {name!r}{near(name, history.baselines())}")
    notes = []
    jobs = []
    for each in entry.jobs:
        record = history.job(each)
        if job is not None and each == job.id:
            notes.append(f"job {each} was left out of baseline {name}: it is the judged job")
        elif record is None:
            notes.append(f"job {each} of baseline {name} is no longer here")
        else:
            jobs.append(each)
            if record.status is not JobStatus.COMPLETED:
                notes.append(f"job {each} of baseline {name} did not complete: {record.status.value}")
    if not jobs:
        why = f"no job of baseline {name!r} can be used: {'; '.join(notes)}"
        return Resolved(None, why, tuple(notes), cure=_ANEW)
    by = f" by {one_line(entry.set_by, 100)}" if entry.set_by else ""
    why = f": {one_line(entry.reason, 200)}" if entry.reason else ""
    return _pooled(spec, jobs, history, [f"baseline {name} was set {entry.set_at:%Y-%m-%d}{by}{why}", *notes])


def _job(text: str, history: HistoryReader, job: JobRecord | None) -> str:
    """Return the named job. `last` is never the judged job."""
    last = LAST.match(text)
    if last is not None and job is not None:
        back, index = int(last[1] or 0), 0
        while (found := history.newest(index)) is not None:
            if found != job.id:
                if back == 0:
                    return found
                back -= 1
            index += 1
        raise InputError(f"there is no job {text} besides the judged one")
    found = find_job(history, text)
    if job is not None and found == job.id:
        raise InputError(f"job {found} is the judged job; a job cannot be its own baseline")
    return found


def _one(spec: str, job: str, history: HistoryReader) -> Resolved:
    """Return the side of a named job. An incomplete job is refused: what it did not run would not be missed."""
    record = history.job(job)
    results = sum(run.ended for run in history.runs(job))
    if record is not None and (why := cut_short(record, results)) is not None:
        cure = (
            f"`benchjobs resume {job}` finishes it, `benchjobs baseline set {job} --force` takes it as it is"
        )
        return Resolved(None, f"job {job} cannot be a baseline: {why}", cure=cure)
    return _pooled(spec, (job,), history)


def _pooled(spec: str, jobs: Sequence[str], history: HistoryReader, notes: Iterable[str] = ()) -> Resolved:
    notes = list(notes)
    rows, records = [], []
    for job in jobs:
        found = checked(history, job)
        why = gone_of(found.record, len(found.rows))
        if why is None and (names := doubled(found.rows)):
            why = two_tasks(names)
        why = why or found.wrong
        if why is not None:
            return Resolved(None, f"job {job} cannot be a baseline: {why}", tuple(notes), cure=_ANEW)
        notes += [found.note] if found.note else []
        rows.append((job, found.rows))
        records.append(found.record)
    return of_side(side(spec, rows, records), notes)


def _no_job_of_branch(history: HistoryReader, branch: str) -> tuple[str, str]:
    """Explain that a branch has no baseline, and suggest a branch with a similar name."""
    shown = one_line(branch, 200)
    branches = {
        str(git.get("branch"))
        for record in itertools.islice(history.completed(), _BRANCHES)
        if isinstance(git := record.reproducibility.get("git"), dict)
    } - {"None", branch}
    close = difflib.get_close_matches(branch, sorted(branches), 1)
    hint = f". Did you mean branch {quoted(close[0])}?" if close else ""
    return f"there is no matching completed job of branch {shown}", hint


def _near_file(path: Path) -> str:
    """Suggest a file with a similar name."""
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = sorted(each.name for each in itertools.islice(path.parent.iterdir(), _FILES))
    close = difflib.get_close_matches(path.name, names, 1)
    return f". Did you mean {quoted(str(path.with_name(close[0])))}?" if close else ""


def of_side(found: Side, notes: Iterable[str] = ()) -> Resolved:
    """Return the side with notes about it; missing where it is empty."""
    notes = list(notes)
    if not any(cell.scores or cell.errors for cell in found.cells.values()):
        jobs = f"job{'s' * (len(found.jobs) > 1)} {', '.join(found.jobs)}"
        why = f"the baseline is empty: no trial of {jobs if found.jobs else found.name} passed or failed"
        return Resolved(None, why, tuple(notes), cure=_ANEW)
    mixed = sorted({f"{cell.benchmark}/{cell.scenario}" for cell in found.cells.values() if cell.mixed})
    if mixed:
        shown = ", ".join(one_line(name, 100) for name in mixed[:_SHOWN])
        what = "1 scenario was different" if len(mixed) == 1 else f"{len(mixed)} scenarios were different"
        notes.append(f"{what} in older jobs; their attempts there were left out: {shown}{_more(mixed)}")
    return Resolved(found, None, tuple(notes))


def _more(listed: Sequence[str]) -> str:
    return f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
