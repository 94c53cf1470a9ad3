"""Known failures: turns entries and the marker `bench_known` into pytest's `xfail` and `skip` marks."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import pytest

from ..job.job_settings import JobSettings
from ..model.errors import InputError
from ..model.known_failure import Known, KnownMode
from ..model.result import TrialResult
from ..sources import did_you_mean
from ..store.text import clean, one_line
from .items import TrialItem, Unsolved
from .job_settings import names_trials, settings_of
from .state import state_of

if TYPE_CHECKING:
    from ..settings.known import Entry

MARK = "bench_known"
_REASON_LIMIT = 2000
_SHOWN = 20
_LIKE = 5000


def _marker(config: pytest.Config, entry: Entry) -> pytest.MarkDecorator:
    """Return the marker of an entry."""
    state = state_of(config)
    if id(entry) not in state.entry_markers:
        fields = entry.known.model_dump(include={"reason", "issue", "strict"})
        made: pytest.MarkDecorator = getattr(pytest.mark, MARK)(
            **fields, until=str(entry.known.until), mode=entry.known.mode.value
        )
        state.entry_markers[id(entry)] = made
        state.known_marks[id(made.mark)] = (made.mark, entry.known)
    return state.entry_markers[id(entry)]


def _content(config: pytest.Config, mark: pytest.Mark) -> Known:
    """Return the content of a marker; parsed once, as it may be on many items. InputError: it is wrong."""
    marks = state_of(config).known_marks
    if id(mark) not in marks:
        from ..settings.known import read_marker

        if mark.args:
            raise InputError("it takes keywords only: reason=..., until=..., issue=..., mode=..., strict=...")
        marks[id(mark)] = (mark, read_marker(mark.kwargs, datetime.date.today()))
    return marks[id(mark)][1]


def selector(settings: JobSettings, benchmark: str) -> Callable[[str], bool]:
    """Return the scenario filter of a benchmark; it also marks the known failures that match a scenario."""
    failures = settings.known
    if failures is None:
        return settings.selects

    def selects(scenario: str) -> bool:
        failures.about(benchmark, scenario)
        return settings.selects(scenario)

    return selects


def mark(item: TrialItem, entries: Iterable[Entry]) -> None:
    """Put the marker of the first entry that matches an item's agent on it."""
    for entry in entries:
        if entry.fits(item.agent):
            item.add_marker(_marker(item.config, entry))
            return


def expect(item: pytest.Item, known: Known) -> Known | None:
    """Put pytest's mark for a known failure on an item; return None if `--runxfail` ignores it.

    An `xfail` expects only `Unsolved`, so an infrastructure error stays one.
    """
    reason = one_line(known.text, _REASON_LIMIT)
    if known.mode is KnownMode.SKIP:
        item.add_marker(pytest.mark.skip(reason=reason))
    elif item.config.option.runxfail:
        return None
    else:
        item.add_marker(pytest.mark.xfail(reason=reason, raises=Unsolved, strict=known.strict))
    return known


def apply(session: pytest.Session) -> str | None:
    """Expect the failure of trials with the marker `bench_known`; return a problem of a marker.

    The closest marker wins, and of those on the item itself the last one: those that conftest.py files add come after
    those of the file.
    """
    inherited: dict[int, pytest.Mark | None] = {}
    ignored = 0
    for item in session.items:
        if not isinstance(item, TrialItem):
            continue
        own = item.own_markers  # mostly empty, and there may be 100,000 items
        found = next((one for one in reversed(own) if one.name == MARK), None) if own else None
        if found is None:
            parent = item.parent
            if id(parent) not in inherited:
                inherited[id(parent)] = parent.get_closest_marker(MARK) if parent is not None else None
            found = inherited[id(parent)]
        if found is None:
            continue
        try:
            item.known = expect(item, _content(session.config, found))
        except InputError as error:
            return clean(f"marker {MARK} of {item.nodeid}: {error}")
        ignored += item.known is None
    if ignored:
        _note(session.config, f"known failures: {ignored} treated as ordinary tests (--runxfail)")
    return None


def note_unmatched(session: pytest.Session) -> None:
    """Note entries that match no scenario of the collected benchmarks, unless only parts of these were collected."""
    failures, option = settings_of(session.config).known, session.config.option
    if failures is None or session.testsfailed or option.ignore or option.ignore_glob:
        return
    if state_of(session.config).chosen or names_trials(session.config):
        return
    seen = settings_of(session.config).seen
    unmatched = failures.unmatched()
    for entry in unmatched[:_SHOWN]:
        # The search for a similar id among 100,000 takes a second.
        hint = did_you_mean(entry.id, seen) if len(seen) <= _LIKE else ""
        if not hint and entry.benchmark is None and "/" not in entry.scenario:
            hint = " name the benchmark if it is for another one"
        names = one_line(", ".join(sorted(failures.benchmarks)), 200)
        where = f"{entry.known.place}: {entry.scenario} matches no scenario of {names}"
        _note(session.config, f"{where};{hint}" if hint else where)
    if len(unmatched) > _SHOWN:
        _note(session.config, f"... and {len(unmatched) - _SHOWN} more entries that match no scenario")


def summarise(
    terminal: pytest.TerminalReporter, config: pytest.Config, verdicts: Iterable[TrialResult]
) -> None:
    """Print the results of known failures, and problems of their list."""
    from ..analysis.known_failures import tally_known
    from ..report.known_failures import known_line

    tally = tally_known(verdicts)
    if tally:
        terminal.write_line(known_line(tally), yellow=bool(tally.passing))
    for line in state_of(config).notes:
        terminal.write_line(line, yellow=True)


def _note(config: pytest.Config, line: str) -> None:
    state_of(config).notes.append(one_line(line, 1000))
