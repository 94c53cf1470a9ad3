"""View of a running job for `watch`, on a screen of any size. Names are cleaned; nothing in them is markup."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import set_cell_size
from rich.text import Text

from ..analysis.live import Flying, Live, Tally
from ..model.event import Ended
from ..model.job import JobRecord
from ..model.quota import OnQuota, Quota
from ..model.result import Outcome
from ..report.documents.watch import elapsed
from ..report.table import Cell, Column, Shown, marks, tabulate
from ..report.units import cost, duration, mean_text, number
from ..store.text import one_line

_SILENT_SECONDS = 30.0
_ROOMY = 20
"""Rows needed for blank lines between the parts."""
_TWO_COLUMNS = 150
"""Columns needed for the lists side by side."""
_WIDE = 90
"""Columns a list needs to show the age of the phase."""
_NARROW = 70
"""Columns a list needs to show why a trial did not pass."""
_QUOTAS = 3
"""Most used-up quotas that are shown."""
_MEANS = 3
"""Most agents whose means a progress line shows."""
_GAP = "  "
_COLOURS = {Outcome.PASSED: "green", Outcome.FAILED: "red", Outcome.ERROR: "yellow"}
_FOOT = "arrows, Enter: follow one trial; q or Ctrl-C: stop watching; the job continues"
_TRIAL_FOOT = "Enter or Esc: back to the job; q or Ctrl-C: stop watching; the job continues"
_WAITING = "Waiting for the first trial"


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """Snapshot of a job."""

    record: JobRecord
    live: Live
    now: datetime.datetime
    silence: float = 0.0
    """Seconds since the last heartbeat."""
    log: tuple[str, ...] = ()
    """Last lines of pytest's output before the first trial; of the logs of an opened trial."""
    chosen: str | None = None
    """Node id of the trial chosen by the arrow keys."""
    quotas: tuple[Quota, ...] = ()
    """Quotas of providers that are used up."""
    opened: Flying | Ended | None = None
    """The trial that fills the screen; None: the job fills it."""

    @property
    def rows(self) -> list[Flying | Ended]:
        """The trials in the order shown."""
        return [*self.live.flying.values(), *reversed(self.live.lately)]


def picture(view: View, width: int, height: int, *, ascii_only: bool = False) -> list[Text]:
    """Render `height` lines of at most `width` columns."""
    if view.opened is not None:
        lines = _trial(view, view.opened, width, height)[:height]
    else:
        lines = _lines(view, width, height, ascii_only)[:height]
    for line in lines:
        line.truncate(width)
    return [*lines, *[Text()] * (height - len(lines))]


def progress(view: View) -> str:
    """Render the state of the job in one line."""
    live = view.live
    if not live.flying and not live.all.done:
        return ": ".join([_WAITING, *view.log[-1:]])
    tally = live.all
    counts = [f"{tally.of(outcome)} {word}" for outcome, word in _words(tally)]
    if tally.reused:
        counts.append(f"{tally.reused} reused")
    parts = (
        f"{_done(tally)} trials ({', '.join(counts)})",
        f"{len(live.flying)} running",
        f"mean {_means(live)}",
        f"spend {cost(tally.cost_usd)}",
        f"elapsed {_clock(elapsed(view.record, view.now))}",
        f"ETA {_eta(view)}",
    )
    return "; ".join([", ".join(parts), *(one_line(_quota(view, quota), 300) for quota in view.quotas)])


def ended(event: Ended, count: int, planned: int | None) -> str:
    """Render an ended trial, the `count`th of the planned ones, in one line."""
    score = "-" if event.score is None else number(event.score)
    took = _took(event)
    why = f" ({one_line(event.class_, 60)})" if event.class_ else ""
    trial = f"{one_line(event.scenario, 200)} {one_line(event.agent, 80)} a{event.attempt}"
    place = f"{count}/{'?' if planned is None else planned}"
    return f"{place} {event.outcome.value} {trial} score {score}{why} {took}"


def agents(live: Live, room: int) -> list[str]:
    """Build a row for each agent, and a total for several."""
    rows = list(live.agents.items())
    if len(rows) != 1:
        rows.append(("all", live.all))
    outcomes = _words(live.all)
    shown: list[Shown] = [
        (Column("Agent", least=12), lambda row: row[0]),
        (Column("Done", number=True), lambda row: _done(row[1])),
        *((Column(word.capitalize(), number=True), functools.partial(_count, one)) for one, word in outcomes),
        (Column("Reused", number=True, spare=True), lambda row: str(row[1].reused)),
        # No mean over several agents: one may be the reference.
        (
            Column("Mean", number=True),
            lambda row: "-" if len(rows) > 1 and row is rows[-1] else _mean(row[1]),
        ),
        (Column("Spend", number=True, spare=True), lambda row: cost(row[1].cost_usd)),
        (Column("Tokens", number=True, spare=True), lambda row: _tokens(row[1])),
    ]
    return list(tabulate(rows, room, shown))


def _quota(view: View, quota: Quota) -> str:
    """Render a used-up quota: what its trials do, the time of the next try, and the words of the provider."""
    waits = view.record.config.on_quota is OnQuota.WAIT
    what = "wait" if waits else "are not run"
    when = ""
    if quota.until is not None:
        left = (quota.until - view.now).total_seconds()
        when = f" (next try in {_clock(left)})" if waits else f" (back in {_clock(left)})"
    return f"quota of {quota.provider} used up: its trials {what}{when}: {quota.message}"


def _count(outcome: Outcome, row: tuple[str, Tally]) -> Cell:
    count = row[1].of(outcome)
    return Cell(str(count), _COLOURS.get(outcome) if count else None)


def _mean(tally: Tally) -> str:
    return "-" if tally.mean_score is None else mean_text(tally.mean_score)


def _means(live: Live) -> str:
    """Format the mean of each agent."""
    scored = [(label, tally) for label, tally in live.agents.items() if tally.mean_score is not None]
    if len(scored) < 2:
        return _mean(live.all)
    shown = [f"{_mean(tally)} {one_line(label, 40)}" for label, tally in scored[:_MEANS]]
    return " ".join(shown) + (" ..." if len(scored) > _MEANS else "")


def _lines(view: View, width: int, height: int, ascii_only: bool) -> list[Text]:
    blank = [Text()] if height >= _ROOMY else []
    lines = [_title(view, width), _counts(view, width), _bar(view.live.all, width, ascii_only)]
    lines += [Text(_cut(_quota(view, quota), width), style="yellow") for quota in view.quotas[:_QUOTAS]]
    foot = [*blank, Text(_FOOT[:width], style="dim")] if blank else []
    if not view.live.flying and not view.live.all.done:
        waiting = _waiting(view, width, height - len(lines) - len(blank) - len(foot))
        return [*lines, *blank, *waiting, *foot]
    lines += [*blank, *_agents(view.live, width, max(1, (height - len(lines)) // 3)), *blank]
    room = height - len(lines) - len(foot)
    attempts = _attempts(view.record)
    if width >= _TWO_COLUMNS:
        half = (width - 3) // 2
        left, right = _flying(view, half, room, attempts), _lately(view, half, room, attempts)
        lines += _beside(left, right, half, room)
    else:
        # Fixed rows, so that one list does not move when the other grows.
        most = max(view.record.config.concurrency, len(view.live.flying))
        below = max(2, room // 3, room - 1 - most - len(blank))
        above = _flying(view, width, room - below - len(blank), attempts)
        lines += [*above, *blank, *_lately(view, width, below, attempts)]
    missing = height - len(lines) - len(foot)
    return [*lines, *[Text()] * max(0, missing), *foot]


def _trial(view: View, trial: Flying | Ended, width: int, height: int) -> list[Text]:
    """Render one trial: its phase, and the last lines of its logs."""
    now = view.now.timestamp()
    if isinstance(trial, Flying):
        status = _Part(f"{trial.phase} {_clock(now - trial.since)}, {_clock(now - trial.started)} in all")
    else:
        score = "" if trial.score is None else f", score {number(trial.score)}"
        why = f" ({one_line(trial.class_, 60)})" if trial.class_ else ""
        status = _Part(f"{trial.outcome.value}{why}{score}", style=_COLOURS.get(trial.outcome, "dim"))
    number_of = f" a{trial.attempt}" if _attempts(view.record) else ""
    lines = [
        _apart(
            _Part(f"{one_line(trial.scenario, 200)} {trial.agent}{number_of}", style="bold"), status, width
        ),
        Text(_cut(trial.node_id, width), style="dim"),
    ]
    blank = [Text()] if height >= _ROOMY else []
    foot = [*blank, Text(_TRIAL_FOOT[:width], style="dim")] if height > len(lines) + 2 else []
    room = max(0, height - len(lines) - len(blank) - len(foot))
    shown = view.log[-room:] if room else ()
    body = [Text(_cut(line, width)) for line in shown] or [Text("No output yet", style="dim")]
    return [*lines, *blank, *body, *[Text()] * (room - len(body)), *foot]


def _title(view: View, width: int) -> Text:
    record = view.record
    status = _Part(f"{record.status.value} {_clock(elapsed(record, view.now))}", style="bold")
    if view.silence > _SILENT_SECONDS:
        status = _Part(f"no heartbeat for {_clock(view.silence)}", style="bold yellow")
    name = one_line(record.name or "", 100)
    full = f"{name} ({record.id})" if name else record.id
    fits = len(full) + len(_GAP) + len(status.text) <= width
    return _apart(_Part(full if fits or not name else name, style="bold"), status, width)


def _counts(view: View, width: int) -> Text:
    live = view.live
    before = f", {live.all.before} ended earlier" if live.all.before else ""
    left = f"{_done(live.all)} trials{before}, {len(live.flying)} running of at most {view.record.config.concurrency}"
    return _apart(_Part(left), _Part(f"ETA {_eta(view)}"), width)


def _bar(tally: Tally, width: int, ascii_only: bool) -> Text:
    full, empty = ("#", "-") if ascii_only else ("━", "─")
    percent = f"{100 * tally.done // tally.planned if tally.planned else 0:>4}%"
    room = max(0, width - len(percent))
    whole = max(tally.planned or 0, tally.done, 1)
    pieces: list[tuple[str, str]] = []
    counted = drawn = 0
    for outcome in Outcome:
        counted += tally.of(outcome)
        length = room * counted // whole - drawn
        drawn += length
        pieces.append((full * length, _COLOURS.get(outcome, "dim")))
    return Text.assemble(*pieces, (empty * (room - drawn), "dim"), percent)


def _agents(live: Live, width: int, room: int) -> list[Text]:
    """Render as many agents as fit below the titles; always the total."""
    titles, *rows = agents(live, width)
    if len(rows) > room:
        left_out = len(rows) - max(1, room - 1)
        rows = [*rows[: max(0, room - 2)], *([f"... and {left_out} more"] if room > 2 else []), rows[-1]]
    return [Text(titles, style="dim"), *(Text.from_ansi(row) for row in rows)]


def _waiting(view: View, width: int, room: int) -> list[Text]:
    log = view.log[-max(1, room - 1) :]
    lines = [Text(_cut(_WAITING, width)), *(Text(f"  {_cut(line, width)}", style="dim") for line in log)]
    return [*lines, *[Text()] * (room - len(lines))]


def _flying(view: View, width: int, room: int, attempts: bool) -> list[Text]:
    trials = list(view.live.flying.values())
    agent = _agent_width(view, width)
    titles = [_Part(f"Running {len(trials)}"), _Part("Agent", agent)]
    titles += [_Part("Phase", 12), *([_Part("For", 7, right=True)] if width >= _WIDE else [])]
    titles += [_Part("Age", 7, right=True)]
    if attempts:
        titles.insert(2, _Part("No.", 3, right=True))

    def line(trial: Flying) -> Text:
        parts = [_Part(trial.scenario), _Part(trial.agent, agent), _Part(trial.phase, 12)]
        if width >= _WIDE:
            parts.append(_Part(_clock(view.now.timestamp() - trial.since), 7, right=True))
        parts.append(_Part(_clock(view.now.timestamp() - trial.started), 7, right=True))
        if attempts:
            parts.insert(2, _Part(str(trial.attempt), 3, right=True))
        return _marked(_row(parts, width), view, trial.node_id)

    fit = room - 1 if len(trials) < room else max(0, room - 2)
    lines = [_row(titles, width, "dim"), *(line(trial) for trial in trials[:fit])]
    if len(trials) > fit:
        lines.append(Text(_cut(f"... and {len(trials) - fit} more", width), style="dim"))
    return [*lines, *[Text()] * (room - len(lines))][: max(0, room)]


def _lately(view: View, width: int, room: int, attempts: bool) -> list[Text]:
    signs = marks()
    agent = _agent_width(view, width)
    titles = [_Part("", 1), _Part("Last ended"), _Part("Agent", agent)]
    titles += [_Part("Score", 6, right=True), _Part("Time", 7, right=True)]
    titles += [_Part("", 15)] if width >= _NARROW else []
    if attempts:
        titles.insert(3, _Part("No.", 3, right=True))

    def line(event: Ended) -> Text:
        colour = _COLOURS.get(event.outcome, "dim")
        why = event.class_ or ("" if event.outcome is Outcome.PASSED else event.outcome.value)
        parts = [
            _Part(signs[event.outcome.value], 1, colour),
            _Part(event.scenario),
            _Part(event.agent, agent),
        ]
        parts += [_Part("-" if event.score is None else number(event.score), 6, right=True)]
        parts += [_Part(_took(event), 7, right=True)]
        parts += [_Part(why, 15, colour)] if width >= _NARROW else []
        if attempts:
            parts.insert(3, _Part(str(event.attempt), 3, right=True))
        return _marked(_row(parts, width), view, event.node_id)

    last = list(view.live.lately)[-max(1, room - 1) :]
    return [_row(titles, width, "dim"), *map(line, reversed(last))][: max(0, room)]


def _marked(line: Text, view: View, node_id: str) -> Text:
    """Highlight the line of the chosen trial."""
    if view.chosen == node_id:
        line.stylize("reverse")
    return line


def _beside(left: Sequence[Text], right: Sequence[Text], half: int, room: int) -> list[Text]:
    lines = []
    for index in range(room):
        line = left[index].copy() if index < len(left) else Text()
        line.append(" " * (half + 3 - line.cell_len))
        lines.append(line.append_text(right[index]) if index < len(right) else line)
    return lines


class _Part(NamedTuple):
    """A cell of a line; without a size it takes the remaining width."""

    text: str
    size: int | None = None
    style: str = ""
    right: bool = False


def _row(parts: Sequence[_Part], width: int, style: str = "") -> Text:
    fixed = sum(part.size for part in parts if part.size is not None) + len(_GAP) * (len(parts) - 1)
    rest = max(0, width - fixed)
    pieces: list[str | tuple[str, str]] = []
    for part in parts:
        size = rest if part.size is None else part.size
        text = one_line(part.text, size)
        text = f"{text:>{size}}" if part.right else set_cell_size(text, size)
        pieces += [*([_GAP] if pieces else []), (text, part.style or style)]
    return Text.assemble(*pieces)


def _apart(left: _Part, right: _Part, width: int) -> Text:
    """Put one text at the left margin and the other at the right; leave the right one out where both do not fit."""
    if len(right.text) + len(_GAP) + 8 > width:
        return _row([left], width)
    return _row([left, right._replace(size=len(right.text))], width)


def _cut(text: str, width: int) -> str:
    return set_cell_size(one_line(text, width), width)


def _agent_width(view: View, width: int) -> int:
    """Return a width for both lists that does not depend on their content: jumping columns cannot be read."""
    labels = [*(agent.label for agent in view.record.config.agents), *view.live.agents]
    return min(max(map(len, labels)), max(8, width // 4))


def _attempts(record: JobRecord) -> bool:
    """Return whether trials differ in the number of their attempt."""
    config = record.config
    return max(config.attempts, *(other.attempts or 1 for other in config.per_benchmark.values()), 1) > 1


def _words(tally: Tally) -> list[tuple[Outcome, str]]:
    """Return the outcomes that get a column."""
    words = [(Outcome.PASSED, "passed"), (Outcome.FAILED, "failed"), (Outcome.ERROR, "errors")]
    rare = ((outcome, outcome.value) for outcome in (Outcome.CANCELLED, Outcome.SKIPPED))
    return words + [(outcome, word) for outcome, word in rare if tally.of(outcome)]


def _done(tally: Tally) -> str:
    return f"{tally.done}/{'?' if tally.planned is None else tally.planned}"


def _eta(view: View) -> str:
    left = view.live.seconds_left(view.now.timestamp())
    if left is None:
        return "-"
    return _clock(left) if left >= 1 else "soon"


def _took(event: Ended) -> str:
    if event.reused:
        return "reused"
    return "before" if event.before else duration(event.seconds)


def _clock(seconds: float) -> str:
    """`7s`, `4m12s`, `2h05m`."""
    return f"{max(0, int(seconds))}s" if seconds < 60 else duration(seconds)


def _tokens(tally: Tally) -> str:
    """`950`, `12k`, `3.4M`: input and output tokens."""
    if tally.input_tokens is None and tally.output_tokens is None:
        return "-"
    count = float((tally.input_tokens or 0) + (tally.output_tokens or 0))
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{letter}"
    return f"{count:.0f}"
