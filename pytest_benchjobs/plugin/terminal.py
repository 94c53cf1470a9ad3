"""Terminal output before, during and after trials."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from ..agents.parameters import unread
from ..analysis.known_failures import waived
from ..analysis.verdict import verdicts
from ..job.quotas import describe as describe_quota
from ..job.quotas import waiting
from ..model.errors import InputError
from ..model.escape import escaped
from ..model.quota import OnQuota
from ..report.alike import Alike, alike
from ..report.console import describe, failure_text, render_table, verdict_text
from ..report.excerpts import LINES, Evidence
from ..report.rescored import rescored_line
from ..report.summary import by_agent, by_turn, used_of_limits
from ..report.table import limited
from ..report.units import counted, some
from ..settings.table import BY_NAME
from ..store.outline import whole
from ..store.text import clean, harmless, one_line
from . import known
from .catalogue import hiding
from .items import TrialItem
from .job_settings import settings_of
from .progress import say
from .registry import agents_of
from .state import state_of
from .status_words import shown_root

if TYPE_CHECKING:
    from ..model.quota import Quota
    from ..model.result import TrialResult
    from .state import Job
    from .work import Work

_SHOWN = 20
_EXPLAINED, _EXPLAINED_VERBOSE, _EXPLAINED_ALL = 10, 50, 1000
"""Most trials explained: by default, with `-v`, and with `-vv` or `-rA`."""
_LINES_SHORT = 5
"""Last lines of each log with `--tb=short`."""


def announce(config: pytest.Config, job: Job, work: Work) -> None:
    """Print one line before the first trial, and what is odd about the parameters and secrets of the job."""
    trials = state_of(config).planned = sum(work.planned.values())
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or config.option.verbose < 0:
        return
    attempts = f" x {counted(job.config.attempts, 'attempt')}" if job.config.attempts > 1 else ""
    policy = f", policy {job.config.attempt_policy}" if job.config.attempt_policy.aggregates else ""
    terminal.ensure_newline()
    terminal.write_line(
        f"bench: {counted(trials, 'trial')} ({counted(work.scenarios, 'scenario')} x "
        f"{counted(len(work.planned), 'agent')}{attempts}"
        f"{policy}), {job.config.concurrency} at a time, "
        f"job {job.bundle.id}{' (resumed)' if job.resumed else ''}"
    )
    agents = agents_of(config)
    for line in (
        *hiding(config, work.benchmarks),
        *(f"warning: an agent is left out: {error}" for error in state_of(config).broken_agents.values()),
    ):
        terminal.write_line(f"bench: {one_line(line, 500)}")
    names = unread(job.config.params, job.config.agents, agents)
    read_by_benchmarks = _of_benchmarks(config) & job.config.params.keys() if names else ()
    if names := tuple(name for name in names if name not in read_by_benchmarks):
        many = "parameters" if len(names) > 1 else "parameter"
        terminal.write_line(
            f"warning: no agent of this job reads the {many} {one_line(', '.join(names), 300)} (--bench-param); "
            "only scorers may",
            yellow=True,
        )
    if places := settings_of(config).places:
        terminal.write_line(
            "secrets: " + ", ".join(f"{name} from {one_line(place, 200)}" for name, place in places.items())
        )


def _of_benchmarks(config: pytest.Config) -> set[str]:
    """Return the names of parameters that the named benchmarks read."""
    from ..sources.catalogue import find

    entries = (find(name.partition("@")[0]) for name in settings_of(config).benchmarks)
    return {name for entry in entries if entry is not None for name in entry.parameters}


class QuotaLines:
    """Says once what trials do about a quota, and when it is back. Call it often: it looks at a file."""

    def __init__(self, config: pytest.Config, job: Job) -> None:
        self._config = config
        self._quotas = job.trials.quotas
        self._job = job.bundle.id
        self._said: dict[str, Quota] = {}

    def __call__(self) -> None:
        """Print what has changed."""
        used_up = self._quotas.used_up()
        if used_up is self._said:
            return
        for name, quota in used_up.items():
            if self._said.get(name) != quota:
                # With -q, too: a job may stand still for hours.
                say(self._config, f"bench: {self._about(quota)}", least=-1)
        for name in self._said.keys() - used_up.keys():
            say(self._config, f"bench: the quota of {self._said[name].provider} is back; its trials go on")
        self._said = used_up

    def _about(self, quota: Quota) -> str:
        if self._quotas.on_quota is OnQuota.WAIT:
            return waiting(quota)
        return (
            f"{describe_quota(quota)}; no further trial of it begins, and the job is paused when the others have "
            f"ended: `benchjobs resume {self._job}`"
        )


def planned(session: pytest.Session) -> int:
    """Return the number of planned trials."""
    return state_of(session.config).planned or sum(
        item.attempts for item in session.items if isinstance(item, TrialItem)
    )


def why_stopped(session: pytest.Session, exitstatus: int) -> str | None:
    """Return why pytest did not run everything, if known."""
    if session.shouldfail:
        return str(session.shouldfail)
    if session.shouldstop:
        return str(session.shouldstop)
    return "interrupted" if exitstatus == pytest.ExitCode.INTERRUPTED else None


def summarise(job: Job, terminal: pytest.TerminalReporter) -> None:
    """Print the part of the terminal summary about trials."""
    requested, fresh = _apart(job)
    results = verdicts(requested, job.config)
    unsolved = alike(
        (result for result in results if result.outcome == "failed" and not waived(result)), job.config
    )
    most = _most(job, terminal.config)
    _explain(job, terminal, unsolved, most)
    terminal.write_sep("=", "benchmark")
    if results:
        for line in render_table(by_agent(results), terminal._tw.fullwidth):
            terminal.write_line(line)
    if fresh:
        solved = sum(result.outcome == "passed" for result in fresh)
        terminal.write_line(
            f"beside these {counted(len(fresh), 'fresh attempt')} (--bench-confirm), {solved} passed: the gate judges "
            "them apart, and `benchjobs list` counts them"
        )
    if (again := _graded_again(job, terminal.config)) is not None:
        terminal.write_line(harmless(one_line(again, 1000)), yellow=True)
    if job.ended is not None and (used := used_of_limits(job.ended)):
        terminal.write_line(f"models: {', '.join(used)}")
    for label, passed in by_turn(job.results):
        terminal.write_line(f"{escaped(label)}, {passed}")
    _list_unsolved(job, terminal, unsolved, quoted=not most)
    _list_errors(job, terminal, [result for result in results if result.outcome == "error"])
    known.summarise(terminal, terminal.config, results)
    _list_reused(job, terminal)
    _list_changed(job, terminal)
    missing = state_of(terminal.config).planned + job.unselected - len(job.results)
    if missing > 0:
        again = f"benchjobs resume {job.bundle.id}"
        terminal.write_line(f"{counted(missing, 'trial')} not run; `{again}` runs the rest", yellow=True)
    for trouble in job.problems.lines:
        terminal.write_line(one_line(trouble, 1000), yellow=True)
    if terminal.config.option.verbose >= -1:
        terminal.write_line(f"results: {escaped(str(job.bundle.root))}")


def _explain(job: Job, terminal: pytest.TerminalReporter, unsolved: Sequence[Alike], most: int) -> None:
    """Print the section UNSOLVED, according to `--tb`, `-v`, `-q` and `-r`: why trials failed.

    The time of pytest's own section FAILURES would grow with the square of the number of trials. This one is bounded.
    """
    config = terminal.config
    style = config.option.tbstyle
    # Not what a mark of pytest's own expected to fail.
    reported = {report.bench["node_id"] for report in terminal.stats.get("unsolved", ())}
    unsolved = [one for one in unsolved if clean(one.first.node_id) in reported]
    if style == "no" or not most or not unsolved:
        return
    root = job.bundle.root
    shown = shown_root(config, root)
    evidence = Evidence(root, job.results, job.config)
    terminal.write_sep("=", "UNSOLVED")
    for one in unsolved[:most]:
        if style == "line":
            terminal.write_line(harmless(f"{clean(one.title)}: {describe(one.first)}"))
            continue
        terminal.write_sep("_", clean(one.title), red=True, bold=True)
        last = evidence.of(one.first, lines=_LINES_SHORT if style == "short" else LINES)
        terminal.write_line(harmless(failure_text(whole(root, one.first), shown, last)))
    left = sum(len(one.results) for one in unsolved[most:])
    if left > 0:
        how = " -v explains more of them, -vv up to 1000." if most < _EXPLAINED_ALL else ""
        terminal.write_line(f"... and {counted(left, 'more trial')} unsolved.{how}")
    _name_show(job, terminal, unsolved[0].first)


def _name_show(job: Job, terminal: pytest.TerminalReporter, example: TrialResult) -> None:
    command = f"benchjobs show {shlex.quote(clean(example.node_id))}{_where(terminal.config, job)}"
    terminal.write_line(harmless(f"Everything about a trial: {command}"))


def _most(job: Job, config: pytest.Config) -> int:
    """Return how many trials are explained. Below a gate none is unless requested: its section fits a screen."""
    option = config.option
    if option.verbose < -1 or (job.gate.judges and option.verbose < 1 and option.tbstyle == "auto"):
        return 0
    if option.verbose > 1 or "a" in option.reportchars.lower():
        return _EXPLAINED_ALL
    return _EXPLAINED_VERBOSE if option.verbose == 1 else _EXPLAINED


def _where(config: pytest.Config, job: Job) -> str:
    """Return the option `--dir` for `benchjobs` commands, where they would look for results elsewhere."""
    directory = job.config.directory
    usual = config.rootpath / (config.getini(BY_NAME["dir"].option) or "reports")
    return "" if directory.resolve() == usual.resolve() else f" --dir {shlex.quote(str(directory))}"


def _apart(job: Job) -> tuple[list[TrialResult], list[TrialResult]]:
    """Return the attempts that pytest reports, and the fresh ones, which are selected for a loss and bias a mean."""
    requested: list[TrialResult] = []
    fresh: list[TrialResult] = []
    for result in job.results:
        beyond = result.attempt > job.config.of(result.benchmark).attempts
        (fresh if beyond and job.config.gate.confirm else requested).append(result)
    return requested, fresh


def _graded_again(job: Job, config: pytest.Config) -> str | None:
    """Return the scores of the same trials then and now, in a rescore."""
    parent = settings_of(config).rescore
    if parent is None:
        return None
    from ..store.reader import HistoryReader
    from ..store.results import find_job

    try:
        with HistoryReader.of(job.config.directory) as history:
            return rescored_line(history, job.bundle.id, find_job(history, parent))
    except InputError:
        return None  # only a remark: the results are complete


def _list_reused(job: Job, terminal: pytest.TerminalReporter) -> None:
    """Print the number of reused results, and with `--bench-explain-reuse` the reason for each trial."""
    jobs = Counter(result.reused.job for result in job.results if result.reused is not None)
    if jobs:
        origins = some(f"{count} of job {job}" for job, count in jobs.most_common())
        line = f"{counted(jobs.total(), 'result')} reused without running: {origins}"
        terminal.write_line(clean(line))
    if not settings_of(terminal.config).explain_reuse:
        return
    terminal.write_line("")
    for result in job.results:
        if result.reused is not None:
            line = f"reused: {result.node_id}: {result.outcome.value} in job {result.reused.job}"
        elif result.ran_because is not None:
            line = f"ran: {result.node_id}: {result.ran_because}"
        else:
            continue
        terminal.write_line(f"  {clean(line)}")


def _list_changed(job: Job, terminal: pytest.TerminalReporter) -> None:
    """Print the number of results in a resumed job that a new job would not have."""
    if job.unselected:
        terminal.write_line(f"{counted(job.unselected, 'result')} of trials that are not selected now, kept")
    if not job.trials.fates.changed:
        return
    terminal.write_line(
        f"{counted(len(job.trials.fates.changed), 'result')} from before something changed, kept; "
        "a new job would run these trials again",
        yellow=True,
    )
    changed = [*job.trials.fates.changed.items()]
    for line in limited(changed, _SHOWN // 2, lambda one: f"{clean(one[0])}: {one[1]}"):
        terminal.write_line(f"  {line}")


def _list_unsolved(
    job: Job, terminal: pytest.TerminalReporter, unsolved: Sequence[Alike], *, quoted: bool
) -> None:
    """Print a line for each trial, and if `quoted` the last line of its logs."""
    if not unsolved or terminal.config.option.verbose < -1:
        return
    terminal.write_line("")
    terminal.write_line(f"{sum(len(one.results) for one in unsolved)} unsolved:", red=True)
    evidence = Evidence(job.bundle.root, job.results, job.config)

    def line(one: Alike) -> str:
        result = one.first
        line = f"{clean(one.title)}: {describe(result) if len(one.results) == 1 else verdict_text(result)}"
        if result.failure is not None and result.failure.class_ != "below_threshold":
            # The score does not tell why: a timeout, or a crash of the agent.
            line += f": {one_line(result.failure.message, 200)}"
        last = evidence.in_a_line(result) if quoted else ""
        return f"{line}\n    {last}" if last else line

    for text in limited(unsolved, _SHOWN // 2 if quoted else _SHOWN, line):
        terminal.write_line(harmless(f"  {text}"))
    if quoted:
        _name_show(job, terminal, unsolved[0].first)


def _list_errors(job: Job, terminal: pytest.TerminalReporter, errors: Sequence[TrialResult]) -> None:
    if not errors:
        return
    terminal.write_line("")
    classes = Counter(result.failure.class_ if result.failure else "unknown" for result in errors)
    counts = ", ".join(f"{count} {name}" for name, count in classes.most_common())
    terminal.write_line(f"{counted(len(errors), 'error')} without a score: {one_line(counts, 300)}", red=True)
    if (problem := job.trials.engine_problem) is not None:
        terminal.write_line(f"  {harmless(one_line(problem.message, 500))}")
        errors = [
            error for error in errors if error.failure is None or error.failure.class_ != problem.class_
        ]

    def line(one: Alike) -> str:
        why = one.first.failure
        return f"{clean(one.title)}: {'' if why is None else f'{why.class_}: {one_line(why.message, 200)}'}"

    for text in limited(alike(errors, job.config), _SHOWN // 2, line):
        terminal.write_line(harmless(f"  {text}"))
