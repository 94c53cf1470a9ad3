"""What pytest, its terminal and its other plugins are told about trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from ..analysis.known_failures import is_xfail, surprising, waived
from ..analysis.verdict import verdicts
from ..model.escape import escaped
from ..report.console import describe, failure_text, number, render_table
from ..report.properties import properties
from ..report.summary import by_agent
from ..store.text import clean, harmless, one_line
from . import known
from .asked import asked as read
from .items import TrialItem
from .state import is_worker, state_of

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from ..model.result import TrialResult
    from .state import Job

_SHOWN = 20
_Status = tuple[str, str, str | tuple[str, dict[str, bool]]]


def dress(item: TrialItem, report: pytest.TestReport) -> None:
    """Put the trial into the report: its time, its verdict, its properties. Nothing in it can break on its way.

    xdist ends the whole session at one value it cannot send, and what an agent printed may hold anything.
    """
    if report.user_properties:
        report.user_properties = [(clean(str(name)), _plain(value)) for name, value in report.user_properties]
    if report.sections:
        report.sections = [(clean(title), harmless(clean(text))) for title, text in report.sections]
    result = item.result
    if result is not None:
        tells = report.when == "call" or (report.when == "setup" and not report.passed)
        if tells:
            vars(report)["bench"] = _brief(result, item.landed, state_of(item.config).job)
            report.duration = 0.0 if result.reused else result.seconds
            if isinstance(report.longrepr, tuple):
                path, line, reason = report.longrepr
                if result.outcome in ("skipped", "cancelled") and item.ref.line is not None:
                    path, line = escaped(str(item.source.path)), item.ref.line
                report.longrepr = (path, line, harmless(clean(reason)))
            elif report.longrepr is not None and not (hasattr(report, "wasxfail") or _is_surprise(report)):
                report.longrepr = harmless(failure_text(result))
            item.properties = properties(result)
            _remember(item)
        if tells or report.when == "teardown":
            report.user_properties = [*report.user_properties, *item.properties]
        if report.when == "teardown":
            # Light again; and a plugin that runs the item once more gets a new trial.
            item.result = None
            item.landed = ()
            item.properties = ()


def reports_of(
    result: TrialResult, landed: Sequence[TrialResult], location: tuple[str, int | None, str]
) -> list[pytest.TestReport]:
    """What pytest would have reported of an item whose worker cannot any more, from the results of its trials."""
    error = result.outcome == "error"
    verdict: dict[str, Any] = {
        "outcome": "passed" if result.outcome == "passed" else "failed",
        "longrepr": None if result.outcome == "passed" else harmless(failure_text(result)),
        "duration": 0.0 if result.reused else result.seconds,
    }
    if result.known is not None and surprising(result):
        verdict |= {"outcome": "failed", "longrepr": f"[XPASS(strict)] {one_line(result.known.text, 2000)}"}
    elif waived(result):
        verdict["outcome"] = "skipped"
    silent: dict[str, Any] = {"outcome": "passed", "longrepr": None, "duration": 0}
    phases = [("setup", verdict if error else silent), ("call", verdict), ("teardown", silent)]
    if error:
        del phases[1]
    reports = []
    for when, fields in phases:
        report = pytest.TestReport(
            nodeid=result.node_id,
            location=location,
            keywords={},
            when=when,  # type: ignore[arg-type]
            user_properties=list(properties(result)),
            **fields,
        )
        if fields is verdict:
            vars(report)["bench"] = _brief(result, landed, None)
            if result.known is not None and is_xfail(result) and report.outcome != "failed":
                vars(report)["wasxfail"] = one_line(result.known.text, 2000)
        reports.append(report)
    return reports


def _remember(item: TrialItem) -> None:
    if not is_worker(item.config):
        job = state_of(item.config).job
        assert job is not None  # noqa: S101  a result is there, so a job has begun
        for result in item.landed:
            job.record(result)


def _is_surprise(report: pytest.TestReport) -> bool:
    """Whether the trial passed, and a strict `xfail` says that it should not."""
    bench: Mapping[str, Any] = vars(report)["bench"]
    return report.when == "call" and report.failed and bench["outcome"] == "passed"


def _brief(result: TrialResult, landed: Sequence[TrialResult], job: Job | None) -> dict[str, Any]:
    """A result in plain values, for the controller of xdist."""
    return {
        "node_id": clean(result.node_id),
        "outcome": result.outcome.value,
        "score": result.score,
        "class": clean(result.failure.class_) if result.failure else None,
        "reused": result.reused is not None,
        "changed": {
            clean(trial.node_id): job.trials.fates.changed[trial.node_id]
            for trial in landed
            if job is not None and trial.node_id in job.trials.fates.changed
        },
        "trials": [
            {
                "node_id": clean(trial.node_id),
                "path": clean(trial.path),
                "whole": None if trial.path else trial.model_dump_json(by_alias=True),
            }
            for trial in landed
        ],
    }


def _plain(value: object) -> str | int | float:
    return value if isinstance(value, int | float) else clean(str(value))


def status(report: pytest.TestReport) -> _Status | None:
    """Category, letter and word of a trial; None for anything else.

    A trial that fell short is *unsolved*: among `failed`, 10,000 of them would bury the errors, and pytest's summary
    takes time that grows with the square of their number.
    """
    bench: Mapping[str, Any] | None = getattr(report, "bench", None)
    if bench is None or hasattr(report, "wasxfail") or report.outcome not in ("passed", "failed"):
        return None
    score = "" if bench["score"] is None else f" score={number(bench['score'])}"
    score += " reused" if bench["reused"] else ""
    if report.when == "call":
        if report.passed:
            return "passed", ".", f"PASSED{score}"
        if _is_surprise(report):
            return None
        return "unsolved", "u", (f"UNSOLVED{score}", {"red": True})
    if bench["class"] == "engine_unavailable":
        # One engine, one problem: the summary says it once.
        return "no engine", "E", ("ERROR engine_unavailable", {"red": True})
    return "error", "E", (f"ERROR {bench['class']}", {"red": True})


def announce(config: pytest.Config, job: Job, items: Sequence[TrialItem]) -> None:
    """One line before the first trial."""
    announce_counts(
        config,
        job,
        trials=sum(item.attempts for item in items),
        scenarios=len({(id(item.source), item.ref.id) for item in items}),
        agents=len({item.agent.label for item in items}),
    )


def announce_counts(config: pytest.Config, job: Job, *, trials: int, scenarios: int, agents: int) -> None:
    """As `announce`, from counts."""
    state_of(config).planned = trials
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or config.option.verbose < 0:
        return
    attempts = f" x {_count(job.config.attempts, 'attempt')}" if job.config.attempts > 1 else ""
    policy = f", policy {job.config.attempt_policy}" if job.config.attempt_policy.aggregates else ""
    terminal.ensure_newline()
    terminal.write_line(
        f"bench: {_count(trials, 'trial')} ({_count(scenarios, 'scenario')} x {_count(agents, 'agent')}{attempts}"
        f"{policy}), {job.config.concurrency} at a time, "
        f"job {job.bundle.id}{' taken up again' if job.resumed else ''}"
    )
    if places := read(config).places:
        terminal.write_line(
            "secrets: " + ", ".join(f"{name} from {one_line(place, 200)}" for name, place in places.items())
        )


def say(config: pytest.Config, line: str) -> None:
    """Show a line while trials run, unless the user wants quiet."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and config.option.verbose >= 0:
        terminal.ensure_newline()
        terminal.write_line(one_line(line, 500))


def planned(session: pytest.Session) -> int:
    """How many trials were to run."""
    return state_of(session.config).planned or sum(
        item.attempts for item in session.items if isinstance(item, TrialItem)
    )


def why_stopped(session: pytest.Session, exitstatus: int) -> str | None:
    """Why pytest did not run everything, if it says so."""
    if session.shouldfail:
        return str(session.shouldfail)
    if session.shouldstop:
        return str(session.shouldstop)
    return "interrupted" if exitstatus == pytest.ExitCode.INTERRUPTED else None


def summarise(job: Job, terminal: TerminalReporter) -> None:
    """The part of the terminal summary that is about trials."""
    results = verdicts(job.results, job.config)
    terminal.section("benchmark", sep="=")
    if results:
        for line in render_table(by_agent(results), terminal._tw.fullwidth):
            terminal.write_line(line)
    _list_unsolved(
        terminal, [result for result in results if result.outcome == "failed" and not waived(result)]
    )
    _list_errors(job, terminal, [result for result in results if result.outcome == "error"])
    known.summarise(terminal, terminal.config, results)
    _list_reused(job, terminal)
    _list_changed(job, terminal)
    missing = state_of(terminal.config).planned + job.unselected - len(job.results)
    if missing > 0:
        terminal.write_line(f"{_count(missing, 'trial')} not run", yellow=True)
    for trouble in job.problems.lines:
        terminal.write_line(one_line(trouble, 1000), yellow=True)
    terminal.write_line(f"results: {escaped(str(job.bundle.root))}")


def _list_reused(job: Job, terminal: TerminalReporter) -> None:
    """Which results are those of earlier jobs, and with `--bench-explain-reuse` why each is, or is not."""
    jobs = Counter(result.reused.job for result in job.results if result.reused is not None)
    if jobs:
        origins = ", ".join(f"{count} of job {job}" for job, count in jobs.most_common(5))
        more = f" and {len(jobs) - 5} more jobs" if len(jobs) > 5 else ""
        line = f"{_count(jobs.total(), 'result')} reused, nothing run for them: {origins}{more}"
        terminal.write_line(clean(line))
    if not read(terminal.config).explain_reuse:
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


def _list_changed(job: Job, terminal: TerminalReporter) -> None:
    """What a job that was taken up again has, and would not have if it were begun now."""
    if job.unselected:
        terminal.write_line(f"{_count(job.unselected, 'result')} of trials that are not selected now: kept")
    if not job.trials.fates.changed:
        return
    terminal.write_line(
        f"{_count(len(job.trials.fates.changed), 'result')} of the time before something changed: kept; "
        "a new job would run them again",
        yellow=True,
    )
    for node_id, parts in list(job.trials.fates.changed.items())[: _SHOWN // 2]:
        terminal.write_line(f"  {clean(node_id)}: {parts}")
    _and_more(terminal, len(job.trials.fates.changed), _SHOWN // 2)


def _list_unsolved(terminal: TerminalReporter, unsolved: Sequence[TrialResult]) -> None:
    if not unsolved or terminal.config.option.verbose < -1:
        return
    terminal.write_line("")
    terminal.write_line(f"{len(unsolved)} unsolved:", red=True)
    for result in unsolved[:_SHOWN]:
        line = f"  {clean(result.node_id)}: {describe(result)}"
        if result.failure is not None and result.failure.class_ != "below_threshold":
            # The score does not say why: a time limit, a crash of the agent.
            line += f": {harmless(one_line(result.failure.message, 200))}"
        terminal.write_line(line)
    _and_more(terminal, len(unsolved))


def _list_errors(job: Job, terminal: TerminalReporter, errors: Sequence[TrialResult]) -> None:
    if not errors:
        return
    terminal.write_line("")
    classes = Counter(result.failure.class_ if result.failure else "unknown" for result in errors)
    counts = ", ".join(f"{count} {name}" for name, count in classes.most_common())
    terminal.write_line(
        f"{_count(len(errors), 'infrastructure error')} (no score): {one_line(counts, 300)}", red=True
    )
    if job.trials.engine_problem is not None:
        terminal.write_line(f"  {harmless(one_line(job.trials.engine_problem.message, 500))}")
        errors = [
            error for error in errors if error.failure is None or error.failure.class_ != "engine_unavailable"
        ]
    for result in errors[: _SHOWN // 2]:
        message = harmless(one_line(result.failure.message, 200)) if result.failure else ""
        terminal.write_line(
            f"  {clean(result.node_id)}: {result.failure.class_ if result.failure else ''}: {message}"
        )
    _and_more(terminal, len(errors), _SHOWN // 2)


def _and_more(terminal: TerminalReporter, total: int, shown: int = _SHOWN) -> None:
    if total > shown:
        terminal.write_line(f"  ... and {total - shown} more")


def _count(number_of: int, what: str) -> str:
    return f"{number_of} {what}" if number_of == 1 else f"{number_of} {what}s"
