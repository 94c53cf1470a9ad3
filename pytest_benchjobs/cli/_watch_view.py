"""View of a running job for `watch`, on a screen of any size. Names are cleaned; nothing in them is markup."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import itertools
from collections.abc import Sequence

from rich.cells import set_cell_size
from rich.text import Text

from ..analysis.live import Flying, Live, Tally
from ..model.event import Ended
from ..model.job import JobRecord
from ..model.quota import OnQuota, Quota
from ..model.result import Outcome
from ..report.documents.watch import elapsed
from ..report.table import Cell, Column, Shown, count_cell, marks, tabulate
from ..report.units import cost, duration, mean_text, number, tokens
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
_FAINT = "bright_black"
_NUMBER: Shown = (Column("No.", number=True, size=3), lambda trial: str(trial.attempt))
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
        lines = _trial(view, view.opened, width, height)
    else:
        lines = _lines(view, width, height, ascii_only)
    lines = _filled(lines, height)
    for line in lines:
        line.truncate(width)
    return lines


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
    score = number(event.score)
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
            lambda row: "-" if len(rows) > 1 and row is rows[-1] else mean_text(row[1].mean_score),
        ),
        (Column("Spend", number=True, spare=True), lambda row: cost(row[1].cost_usd)),
        (
            Column("Tokens", number=True, spare=True),
            lambda row: tokens(row[1].input_tokens, row[1].output_tokens),
        ),
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
    return count_cell(row[1].of(outcome), _COLOURS.get(outcome))


def _means(live: Live) -> str:
    """Format the mean of each agent."""
    scored = [(label, tally) for label, tally in live.agents.items() if tally.mean_score is not None]
    if len(scored) < 2:
        return mean_text(live.all.mean_score)
    shown = [f"{mean_text(tally.mean_score)} {one_line(label, 40)}" for label, tally in scored[:_MEANS]]
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
        lines += _beside(left, right, half)
    else:
        # Fixed rows, so that one list does not move when the other grows.
        most = max(view.record.config.concurrency, len(view.live.flying))
        below = max(2, room // 3, room - 1 - most - len(blank))
        above = _flying(view, width, room - below - len(blank), attempts)
        lines += [*above, *blank, *_lately(view, width, below, attempts)]
    return [*_filled(lines, height - len(foot)), *foot]


def _trial(view: View, trial: Flying | Ended, width: int, height: int) -> list[Text]:
    """Render one trial: its phase, and the last lines of its logs."""
    now = view.now.timestamp()
    if isinstance(trial, Flying):
        status = Text(f"{trial.phase} {_clock(now - trial.since)}, {_clock(now - trial.started)} in all")
    else:
        score = "" if trial.score is None else f", score {number(trial.score)}"
        why = f" ({one_line(trial.class_, 60)})" if trial.class_ else ""
        status = Text(f"{trial.outcome.value}{why}{score}", style=_COLOURS.get(trial.outcome, "dim"))
    number_of = f" a{trial.attempt}" if _attempts(view.record) else ""
    lines = [
        _apart(
            Text(f"{one_line(trial.scenario, 200)} {trial.agent}{number_of}", style="bold"), status, width
        ),
        Text(_cut(trial.node_id, width), style="dim"),
    ]
    blank = [Text()] if height >= _ROOMY else []
    foot = [*blank, Text(_TRIAL_FOOT[:width], style="dim")] if height > len(lines) + 2 else []
    room = max(0, height - len(lines) - len(blank) - len(foot))
    shown = view.log[-room:] if room else ()
    body = [Text(_cut(line, width)) for line in shown] or [Text("No output yet", style="dim")]
    return [*lines, *blank, *_filled(body, room), *foot]


def _title(view: View, width: int) -> Text:
    record = view.record
    status = Text(f"{record.status.value} {_clock(elapsed(record, view.now))}", style="bold")
    if view.silence > _SILENT_SECONDS:
        status = Text(f"no heartbeat for {_clock(view.silence)}", style="bold yellow")
    name = one_line(record.name or "", 100)
    full = f"{name} ({record.id})" if name else record.id
    fits = len(full) + len(_GAP) + len(status.plain) <= width
    return _apart(Text(full if fits or not name else name, style="bold"), status, width)


def _counts(view: View, width: int) -> Text:
    live = view.live
    before = f", {live.all.before} ended earlier" if live.all.before else ""
    left = f"{_done(live.all)} trials{before}, {len(live.flying)} running of at most {view.record.config.concurrency}"
    return _apart(Text(left), Text(f"ETA {_eta(view)}"), width)


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
    return _filled(lines, room)


def _flying(view: View, width: int, room: int, attempts: bool) -> list[Text]:
    trials = list(view.live.flying.values())
    now = view.now.timestamp()
    shown: list[Shown] = [
        (Column(f"Running {len(trials)}", fill=True), lambda trial: trial.scenario),
        (Column("Agent", size=_agent_width(view, width)), lambda trial: trial.agent),
        *([_NUMBER] if attempts else []),
        (Column("Phase", size=12), lambda trial: trial.phase),
        *([(Column("For", number=True, size=7), lambda trial: _clock(now - trial.since))] if width >= _WIDE else []),
        (Column("Age", number=True, size=7), lambda trial: _clock(now - trial.started)),
    ]  # fmt: skip
    fit = room - 1 if len(trials) < room else max(0, room - 2)
    lines = _list(view, trials[:fit], shown, width)
    if len(trials) > fit:
        lines.append(Text(_cut(f"... and {len(trials) - fit} more", width), style="dim"))
    return _filled(lines, room)


def _lately(view: View, width: int, room: int, attempts: bool) -> list[Text]:
    signs = marks()

    def why(event: Ended) -> Cell:
        text = event.class_ or ("" if event.outcome is Outcome.PASSED else event.outcome.value)
        return Cell(text, _COLOURS.get(event.outcome, _FAINT))

    shown: list[Shown] = [
        (Column("", size=1), lambda one: Cell(signs[one.outcome.value], _COLOURS.get(one.outcome, _FAINT))),
        (Column("Last ended", fill=True), lambda one: one.scenario),
        (Column("Agent", size=_agent_width(view, width)), lambda one: one.agent),
        *([_NUMBER] if attempts else []),
        (Column("Score", number=True, size=6), lambda one: number(one.score)),
        (Column("Time", number=True, size=7), _took),
        *([(Column("", size=15), why)] if width >= _NARROW else []),
    ]
    last = list(view.live.lately)[-max(1, room - 1) :]
    return _list(view, last[::-1], shown, width)[: max(0, room)]


def _list(view: View, trials: Sequence[Flying | Ended], shown: Sequence[Shown], width: int) -> list[Text]:
    """Render titles and trials, the chosen one highlighted."""
    lines = list(tabulate(trials, width, shown))
    titles, rows = lines[: len(lines) - len(trials)], lines[len(lines) - len(trials) :]
    shown_rows = [Text.from_ansi(row) for row in rows]
    for trial, row in zip(trials, shown_rows, strict=True):
        if view.chosen == trial.node_id:
            row.pad_right(max(0, width - row.cell_len))
            row.stylize("reverse")
    return [*(Text(line, style="dim") for line in titles), *shown_rows]


def _beside(left: Sequence[Text], right: Sequence[Text], half: int) -> list[Text]:
    lines = []
    for line, other in itertools.zip_longest(left, right, fillvalue=Text()):
        line = line.copy()
        line.pad_right(half + 3 - line.cell_len)
        lines.append(line.append_text(other))
    return lines


def _filled(lines: Sequence[Text], height: int) -> list[Text]:
    """Return `height` lines: blank ones follow, or the last ones are cut."""
    return [*lines, *(Text() for _ in range(height - len(lines)))][: max(0, height)]


def _apart(left: Text, right: Text, width: int) -> Text:
    """Put one text at the left margin and the other at the right; leave the right one out where both do not fit."""
    right = Text(one_line(right.plain), style=right.style)
    rest = width - right.cell_len - len(_GAP)
    if rest < 8:
        return Text(_cut(left.plain, width), style=left.style)
    return Text.assemble((_cut(left.plain, rest), left.style), _GAP, right)


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
