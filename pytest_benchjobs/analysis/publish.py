"""Reasons against publishing the results of a job, with their codes."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence

from ..model.exit_status import ExitStatus
from ..model.gate import GateVerdict, PublishReason
from ..model.job import JobRecord, JobStatus
from ..model.result import Outcome, TrialResult
from .gate import words
from .gate.job import Judged

CODES = {
    "not_completed": "the job did not complete",
    "partial": "only part of the scenarios was selected",
    "unclean_tree": "the job did not run from a commit, or had uncommitted changes",
    "no_version": "a benchmark has no version",
    "few_attempts": "a scenario has fewer than 3 attempts with a score",
    "errors": "an attempt ended in an infrastructure error",
    "skipped": "a trial was skipped",
    "reused": "all results of a scenario were reused",
    "substituted_image": "a base image was replaced by the image map",
    "expired_known": "a known failure has expired",
}
"""Code -> text."""
_ATTEMPTS = 3
_SHOWN = 3


def with_publishing(
    judged: Judged, record: JobRecord, results: Sequence[TrialResult], today: datetime.date
) -> Judged:
    """Add reasons against publishing to the verdict of a job; with any, it is `invalid`."""
    reasons = reasons_against(record, results, today)
    report = judged.report.model_copy(update={"publish": reasons})
    if not reasons:
        return Judged(report, judged.status)
    listed = ", ".join(reason.code for reason in reasons)
    if report.verdict is not GateVerdict.OK:
        listed = f"{listed}; and {report.why}"
    why = f"invalid: not to be published: {listed}"
    return Judged(report.model_copy(update={"verdict": GateVerdict.INVALID, "why": why}), ExitStatus.INVALID)


def reasons_against(
    record: JobRecord, results: Sequence[TrialResult], today: datetime.date
) -> tuple[PublishReason, ...]:
    """Reasons against publishing a job, in the order of `CODES`; empty if there are none."""
    found: list[PublishReason] = []

    def add(code: str, about: str | None = None) -> None:
        found.append(PublishReason(code=code, why=CODES[code] + (f": {about}" if about else "")))

    if record.status is not JobStatus.COMPLETED:
        add("not_completed", record.status.value)
    if record.partial:
        add("partial")
    git = record.reproducibility.get("git")
    if not isinstance(git, dict) or not git.get("commit") or git.get("dirty") is not False:
        add("unclean_tree")
    if unnamed := {result.benchmark for result in results if result.benchmark_version is None}:
        add("no_version", words.names(sorted(unnamed), _SHOWN))
    scored, ran = Counter[str](), Counter[str]()
    for result in results:
        name = f"{result.benchmark}/{result.scenario} [{result.agent.label}]"
        scored[name] += result.outcome in (Outcome.PASSED, Outcome.FAILED)
        ran[name] += result.reused is None
    if few := [name for name, count in scored.items() if count < _ATTEMPTS]:
        add("few_attempts", words.names(few, _SHOWN))
    for code, outcome in (("errors", Outcome.ERROR), ("skipped", Outcome.SKIPPED)):
        if ended := [result.node_id for result in results if result.outcome is outcome]:
            add(code, words.names(ended, _SHOWN))
    if old := [name for name, count in ran.items() if not count]:
        add("reused", words.names(old, _SHOWN))
    images = {image for result in results if result.image for image in result.image.substituted}
    if images:
        add("substituted_image", words.names(sorted(images), _SHOWN))
    expired = {
        result.known.place or result.scenario
        for result in results
        if result.known is not None and result.known.until is not None and result.known.until < today
    }
    if expired:
        add("expired_known", words.names(sorted(expired), _SHOWN))
    return tuple(found)
