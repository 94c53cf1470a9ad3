"""`watch`: show a job while it runs, from any process that can read its files."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ..job.follow import Following, Landed
from ..model.exit_status import ExitStatus
from ..model.job import JobRecord, JobStatus
from ..report.overview import summary_document
from ..report.table import width
from ..store.project import directory_argument
from ..store.reader import HistoryReader
from ..store.results import find_bundle
from ..store.text import one_line
from ._directory import directory_option
from ._output import output_option, say
from ._screen import full_screen, is_possible
from ._watch_view import View, agents, ended, picture, progress
from .summary import summary_lines

_LOOK_SECONDS = 0.25
_INTERVAL = 30.0
_LOG_LINES = 100
_QUIT = frozenset("qQ")
_KEYS = re.compile(r"\x1b[\[O][A-D]|.", re.DOTALL)
_ENTER = frozenset("\r\n")
_BACK = frozenset({"\x1b", "\x7f", "\b", "\x1b[D", "\x1bOD"})
_MOVES = {"\x1b[A": -1, "\x1bOA": -1, "k": -1, "\x1b[B": 1, "\x1bOB": 1, "j": 1}
_INTERRUPTED = 130


@click.command()
@click.argument("job", default="last")
@directory_option
@output_option("watch")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=_INTERVAL,
    show_default=True,
    metavar="SECONDS",
    help="Time between progress lines, or between documents of -o json and yaml. No effect on the full-screen view.",
)
@click.option("--fail-on-unsolved", is_flag=True, help="Exit with status 1 if a scenario did not pass.")
def watch(job: str, directory: Path, output: str, interval: float, fail_on_unsolved: bool) -> int:
    """Watch JOB until it has ended: an id, the beginning of one, a name, or last. Any process may run it.

    On a terminal it fills the screen: arrow keys choose a trial, and Enter follows that trial. Elsewhere it prints a
    line for each trial that has ended, and a progress line at each interval. With -o json it prints a document per
    line, and a last one at the end.

    Exit status 0: the job completed, whatever its scores; 1: it failed, was cancelled, timed out or died; 75: it is
    paused until the quota of a provider is back; 130: you stopped watching, and the job continues.
    """
    with HistoryReader.of(directory) as history:
        following = Following(directory, find_bundle(history, job).id)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        if output == "text":
            stayed = _as_text(following, interval)
        else:
            for due in _looks(following, interval, []):
                if due or following.over:
                    _print_document(following, output)
            stayed = True
    except KeyboardInterrupt:
        stayed = False
    if not stayed:
        command = _command("watch", following.record, directory)
        say(f"The job continues. `{command}` shows it again.", err=True)
        return _INTERRUPTED
    if output == "text":
        _print_results(directory, following)
    return _status(directory, following, fail_on_unsolved)


def _as_text(following: Following, interval: float) -> bool:
    """Watch until the job has ended; return false when the user quits earlier."""
    landed = following.look()
    if following.over:
        return True
    if is_possible():
        return _on_screen(following)
    _as_lines(following, interval, landed)
    click.echo()
    return True


def _on_screen(following: Following) -> bool:
    choice = _Choice()
    with full_screen() as screen:
        while not following.over or choice.is_open:
            width, height = screen.size
            view = _view(following, choice)
            screen.show(picture(view, width, height, ascii_only=not screen.can_draw))
            keys = screen.wait(_LOOK_SECONDS)
            if _QUIT.intersection(keys):
                return following.over
            choice.press(keys, [one.node_id for one in view.rows])
            if not following.over:
                following.look()
    return True


@dataclasses.dataclass(slots=True)
class _Choice:
    """The trial chosen by keys."""

    node_id: str | None = None
    is_open: bool = False
    """True if the trial fills the screen."""

    def press(self, keys: str, listed: Sequence[str]) -> None:
        """Handle typed keys; `listed` are the trials in the order shown."""
        for key in _KEYS.findall(keys):
            if key in _ENTER:
                self.is_open = not self.is_open and bool(listed)
                if self.is_open and self.node_id not in listed:
                    self.node_id = listed[0]
            elif key in _BACK:
                self.is_open = False
            elif key in _MOVES and listed:
                step = _MOVES[key]
                at = listed.index(self.node_id) + step if self.node_id in listed else 0
                self.node_id = listed[max(0, min(at, len(listed) - 1))]


def _as_lines(following: Following, interval: float, landed: list[Landed]) -> None:
    for due in _looks(following, interval, landed):
        for event, number in landed:
            say(ended(event, number, following.live.all.planned))
        landed.clear()
        if due and not following.over:
            say(progress(_view(following)))


def _looks(following: Following, interval: float, landed: list[Landed]) -> Iterator[bool]:
    """Look at the job until it is over, and add the ended trials to `landed`; true when a progress line is due."""
    said = float("-inf")
    while True:
        landed += following.look()
        now = time.monotonic()
        due = now - said >= interval
        yield due
        if following.over:
            return
        said = now if due else said
        time.sleep(min(_LOOK_SECONDS, interval))


def _print_document(following: Following, output: str) -> None:
    data = following.document()
    if output == "json":
        click.echo(json.dumps(data))
        return
    import yaml

    click.echo(f"---\n{yaml.safe_dump(data, sort_keys=False, allow_unicode=True)}", nl=False)


def _print_results(directory: Path, following: Following) -> None:
    """Print the results, and a command that shows more."""
    record = following.record
    if following.died:
        for line in agents(following.live, width()):
            say(line)
        return
    with HistoryReader.of(directory) as history:
        document = summary_document(directory, history, record.id)
    for line in summary_lines(document, width(), config=False):
        say(line)
    if document.totals.trials:
        say(f"Every scenario: `{_command('summary -e', record, directory)}`", err=True)


def _status(directory: Path, following: Following, fail_on_unsolved: bool) -> int:
    """Return the exit status, and print on stderr why it is not 0."""
    record = following.record
    if following.died:
        owner = record.owner
        why = f"died: process {owner.pid} of {one_line(owner.host, 100)} is gone"
    elif record.status is not JobStatus.COMPLETED:
        why = record.status.value + (f": {one_line(record.message, 1000)}" if record.message else "")
    else:
        unsolved = following.unsolved() if fail_on_unsolved else 0
        if unsolved:
            say(f"{unsolved} {'scenario' if unsolved == 1 else 'scenarios'} did not pass", err=True)
        return 1 if unsolved else 0
    say(f"job {record.id} {why}", err=True)
    if record.status is not JobStatus.INITIALIZING and record.planned:
        say(f"`{_command('resume', record, directory)}` runs the missing trials", err=True)
    elif (log := following.log_file) is not None:
        say(f"pytest's output is in {log}", err=True)
    return ExitStatus.PAUSED if record.status is JobStatus.PAUSED and not following.died else 1


def _view(following: Following, choice: _Choice | None = None) -> View:
    view = View(
        following.record,
        following.live,
        datetime.datetime.now(datetime.UTC),
        silence=following.silence(),
        log=() if following.began else following.log(_LOG_LINES),
        chosen=None if choice is None else choice.node_id,
        quotas=following.quotas(),
    )
    if choice is None or not choice.is_open:
        return view
    row = next((one for one in view.rows if one.node_id == choice.node_id), None)
    if row is None:
        return view
    return dataclasses.replace(view, opened=row, log=following.trial_log(row, _LOG_LINES))


def _command(verb: str, record: JobRecord, directory: Path) -> str:
    """Return a command for this job, as the user would type it here."""
    return f"benchjobs {verb} {record.id}{directory_argument(directory)}"
