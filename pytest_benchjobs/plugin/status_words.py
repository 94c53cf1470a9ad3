"""Reports of trials for pytest and its plugins. A separate plugin, registered when a job begins."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..analysis.known_failures import is_xfail, surprising, waived
from ..analysis.verdict import explaining
from ..model.escape import escaped
from ..report.console import failure_text
from ..report.excerpts import Excerpt, excerpts
from ..report.properties import properties
from ..report.units import number
from ..store.text import clean, harmless, one_line
from .items import TrialItem
from .state import is_worker, state_of

if TYPE_CHECKING:
    from ..model.result import TrialResult
    from .state import Job

_EXPLAINED = 1000
"""Most failures of a process that quote logs: pytest keeps reports in memory, and 10,000 quotes are not read."""
TOLD = pytest.StashKey[tuple[Sequence[tuple[str, str | int | float]], bool]]()
"""Properties of the reported result of an item, and whether the report was of a call that failed."""
_Status = tuple[str, str, str | tuple[str, dict[str, bool]]]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the result of a trial into its report."""
    report = yield
    if isinstance(item, TrialItem):
        _dress(item, report)
    return report


def _dress(item: TrialItem, report: pytest.TestReport) -> None:
    """Put time, verdict and properties of a trial into the report, in a form that xdist can send.

    xdist ends the whole session at one value it cannot send, and an agent may print anything.
    """
    if report.user_properties:
        report.user_properties = [
            (clean(str(name)), value if isinstance(value, int | float) else clean(str(value)))
            for name, value in report.user_properties
        ]
    if report.sections:
        report.sections = [(clean(title), harmless(clean(text))) for title, text in report.sections]
    result = item.result
    if result is not None:
        tells = report.when == "call" or (report.when == "setup" and not report.passed)
        if tells:
            vars(report)["bench"] = brief(result, item.landed, state_of(item.config).job)
            report.duration = 0.0 if result.reused else result.seconds
            if isinstance(report.longrepr, tuple):
                path, line, reason = report.longrepr
                if result.outcome in ("skipped", "cancelled") and item.ref.line is not None:
                    path, line = escaped(str(item.source.path)), item.ref.line
                report.longrepr = (path, line, harmless(clean(reason)))
            elif report.longrepr is not None and not (hasattr(report, "wasxfail") or _is_surprise(report)):
                report.longrepr = harmless(explained(item.config, result, item.landed))
            job = state_of(item.config).job
            if job is not None and not is_worker(item.config):
                for landed in item.landed:
                    job.record(landed)
        add_properties(item, report, result if tells else None)
        if report.when == "teardown":
            # Release the memory. A plugin that reruns the item gets a new trial.
            item.result = None
            item.landed = ()


def add_properties(item: pytest.Item, report: pytest.TestReport, told: TrialResult | None) -> None:
    """Add the properties of a result to the report that tells it, and to that of the teardown.

    pytest's JUnit file takes those of the teardown. A test that fails in its call and again in its teardown is two
    cases there: the first has the properties of the call, and no trial must count twice.
    """
    if told is not None:
        item.stash[TOLD] = properties(told), report.when == "call" and report.failed
    listed, has_case = item.stash.get(TOLD, ((), False))
    if told is not None or (report.when == "teardown" and not (has_case and report.failed)):
        report.user_properties = [*report.user_properties, *listed]
    if report.when == "teardown" and TOLD in item.stash:
        del item.stash[TOLD]


def explained(config: pytest.Config, result: TrialResult, landed: Sequence[TrialResult]) -> str:
    """Return the text of a failure, with the last lines of its logs for the first failures only."""
    state = state_of(config)
    assert state.job is not None  # noqa: S101  a result is there, so a job has begun
    root = state.job.bundle.root
    shown: Sequence[Excerpt] = ()
    if state.explained < _EXPLAINED:
        state.explained += 1
        shown = excerpts(explaining(result, landed), root)
    return failure_text(result, shown_root(config, root), shown)


def shown_root(config: pytest.Config, root: Path) -> Path:
    """Return the directory of a job relative to where pytest was started, for commands."""
    with contextlib.suppress(ValueError):
        return root.relative_to(config.invocation_params.dir)
    return root


def reports_of(
    config: pytest.Config,
    result: TrialResult,
    landed: Sequence[TrialResult],
    location: tuple[str, int | None, str],
) -> list[pytest.TestReport]:
    """Make pytest's reports for an item whose worker died, from the results of its trials."""
    error = result.outcome == "error"
    verdict: dict[str, Any] = {
        "outcome": "passed" if result.outcome == "passed" else "failed",
        "longrepr": None if result.outcome == "passed" else harmless(explained(config, result, landed)),
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
            vars(report)["bench"] = brief(result, landed, None)
            if result.known is not None and is_xfail(result) and report.outcome != "failed":
                vars(report)["wasxfail"] = one_line(result.known.text, 2000)
        reports.append(report)
    return reports


def _is_surprise(report: pytest.TestReport) -> bool:
    """Return whether the trial passed against a strict `xfail`."""
    bench: Mapping[str, Any] = vars(report)["bench"]
    return report.when == "call" and report.failed and bench["outcome"] == "passed"


def brief(result: TrialResult, landed: Sequence[TrialResult], job: Job | None) -> dict[str, Any]:
    """Return a result in plain values, for the xdist controller."""
    return {
        "node_id": clean(result.node_id),
        "outcome": result.outcome.value,
        "score": result.score,
        "class": clean(result.failure.class_) if result.failure else None,
        "reused": result.reused is not None,
        "engine_retries": result.engine_retries,
        "changed": {
            clean(trial.node_id): job.trials.fates.changed[trial.node_id]
            for trial in landed
            if trial.node_id in job.trials.fates.changed
        }
        if job is not None and job.trials.fates.changed
        else {},
        "trials": [
            {
                "node_id": clean(trial.node_id),
                "path": clean(trial.path),
                "whole": None if trial.path else trial.model_dump_json(by_alias=True),
            }
            for trial in landed
        ],
    }


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport, config: pytest.Config) -> _Status | None:
    """Return category, letter and word of a trial; None for anything else.

    A failed trial is *unsolved*: in the category `failed`, 10,000 of them would bury the errors, and the time of
    pytest's summary grows with the square of their number.
    """
    bench: Mapping[str, Any] | None = getattr(report, "bench", None)
    if bench is None or hasattr(report, "wasxfail") or report.outcome not in ("passed", "failed"):
        return None
    if report.when == "teardown":
        return None  # an interactive test, whose trial ended after its function
    score = "" if bench["score"] is None else f" score={number(bench['score'])}"
    score += " reused" if bench["reused"] else ""
    if config.option.verbose > 1 and bench["engine_retries"]:
        score += f" engine_retries={bench['engine_retries']}"
    if report.when == "call" and bench["outcome"] != "error":
        if report.passed:
            return "passed", ".", f"PASSED{score}"
        if _is_surprise(report):
            return None
        return "unsolved", "u", (f"UNSOLVED{score}", {"red": True})
    if bench["class"] == "engine_unavailable":
        # The summary reports the engine's problem once.
        return "no engine", "E", ("ERROR engine_unavailable", {"red": True})
    return "error", "E", (f"ERROR {bench['class']}", {"red": True})
