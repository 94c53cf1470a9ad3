"""A trial: its tries, the handling of errors, and the one result that is committed to the bundle.

`run_trial` never raises: errors are in the result, with their class.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..model.errors import (
    EngineLost,
    ImageMissing,
    InfrastructureError,
    InputError,
    OutputLost,
    QuotaReached,
    Ungradable,
)
from ..model.result import Failure, FailureClass, Outcome, Trial, TrialResult
from ..model.usage import Usage
from ..scoring.grade import describe, failure
from ..store.files import DISK_ERRORS, write_atomically, write_error
from ..store.text import clean, one_line
from ..store.trials import TrialDirectory
from .cancellation import Cancellation, Cancelled
from .confidential import failure_held_back
from .context import TrialContext
from .draft import Clock, Draft
from .prepare import Prepared, Services
from .secrets import redacted
from .steps import run_steps

_RETRY_PAUSE = 2.0
_NOBODY = re.compile(r"unable to find (user|group) (\S+?):? ")
_BEFORE_THE_AGENT = ("prepare", "image", "start")
_STARTS_OVER = 2
"""Number of times that a trial starts over which an engine lost before it cost anything, whatever `retry_errors` is."""


class _Try(NamedTuple):
    """The end of one try of a trial."""

    outcome: Outcome
    retryable: bool = False
    """True if another try may succeed."""
    starts_over: bool = False
    """True if another try costs nothing that was paid for."""
    is_cut: bool = False
    """True if a used-up quota cut it short, so that it runs again later."""


def run_trial(
    trial: Trial,
    services: Services,
    cancellation: Cancellation,
    *,
    original: TrialResult | None = None,
    ran_because: str | None = None,
    prepared: Prepared | None = None,
    counted: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
) -> TrialResult:
    """Run a trial, with new tries after infrastructure errors, and commit its directory to the bundle.

    With `original`, the result of a kept trial, no agent runs: the kept file system is graded again. The first try
    starts from `prepared`, if given. `counted` is the gateway's count of an earlier run that a used-up quota cut short;
    a trial that is cut short now has the outcome `cancelled`. `notes` are the first ones of the result.
    """
    clock = Clock()
    draft = Draft.of(
        trial, services.bundle.id, services.config.of(trial.scenario.benchmark), clock, ran_because
    )
    try:
        directory = services.bundle.begin(trial)
    except InfrastructureError as error:
        return draft.result(Outcome.ERROR, failure=failure(error, "results"))
    context: TrialContext | None = None
    over = 0
    for tries in itertools.count(1):
        context = TrialContext(
            trial, services, cancellation, directory, clock, original, context, counted, prepared
        )
        prepared = None
        context.findings.notes += tuple(notes)
        ended = _run_try(context)
        if ended.starts_over and over < _STARTS_OVER:
            over += 1
            why = context.findings.failure
            notes = (*notes, f"started over{'' if why is None else f': {one_line(why.message, 300)}'}")
        elif not ended.retryable or tries - over > services.config.retry_errors:
            break
        # Another try follows, so a request to stop cancels a trial that has not ended.
        if cancellation.requested or not _set_aside(context, tries):
            break
        if cancellation.wait(_RETRY_PAUSE):
            ended = ended._replace(outcome=Outcome.CANCELLED)
            break
    assert context is not None  # noqa: S101  there was a first try
    draft.facts["tries"] = tries
    findings = context.findings
    findings.phases = tuple(context.phases.ended)
    if ended.outcome is Outcome.CANCELLED:
        directory.discard()
        why = redacted(findings.failure, context.redactor) if ended.is_cut else None
        return draft.result(ended.outcome, phases=findings.phases, image=findings.image, failure=why)
    result = draft.result(ended.outcome, **findings.without_secrets(context.redactor))
    return _commit(result, draft, trial, services, directory)


def _commit(
    result: TrialResult, draft: Draft, trial: Trial, services: Services, directory: TrialDirectory
) -> TrialResult:
    """Write a result into the bundle; return the written result, or one with the reason why it was not."""
    try:
        return directory.commit(result)
    except InfrastructureError as error:
        directory.discard()
        result = draft.result(Outcome.ERROR, failure=failure(error, "results"))
    # Discarding the files may have made room for a short result.
    with contextlib.suppress(InfrastructureError):
        directory = services.bundle.begin(trial)
        try:
            return directory.commit(result)
        finally:
            directory.discard()
    return result


def _set_aside(context: TrialContext, number: int) -> bool:
    """Keep the files of a failed try, with the reason. False if there is no room, nor for another try."""
    directory = context.directory
    try:
        if why := redacted(context.findings.failure, context.redactor):
            why = failure_held_back(why) if context.scenario.confidential else why
            write_atomically(context.directory.layout.failure, why.model_dump_json(by_alias=True).encode())
        directory.set_aside(number)
    except InfrastructureError:
        return False
    return True


def _run_try(context: TrialContext) -> _Try:
    """Run the steps once; errors are in the findings."""
    context.phases.begin()
    try:
        return _Try(run_steps(context))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # agents and scorers of others may call pytest.skip or sys.exit
        return _failed(context, error)
    finally:
        _name_user(context)
        context.redact_output()
        context.phases.end()


def _failed(context: TrialContext, error: BaseException) -> _Try:
    """Return the end of a try that raised; the reason is in the findings."""
    findings, reached = context.findings, context.phases.reached
    # Killing the sandbox to stop a trial makes the current call fail: that is not an error.
    if isinstance(error, Cancelled) or context.cancellation.requested:
        context.drop_kept()
        return _Try(Outcome.CANCELLED)
    if isinstance(error, Ungradable):
        findings.score = 0.0
        why = clean(one_line(str(error), 2000))
        findings.failure = Failure(class_=FailureClass.UNGRADABLE, message=why, phase=reached)
        return _Try(Outcome.FAILED)
    if context.original is not None and isinstance(error, ImageMissing):
        # It cannot be graded again: the same as if nothing had been kept.
        findings.failure = Failure(class_="not_kept", message=clean(str(error), 2000), phase=reached)
        findings.rescored = findings.kept = None
        findings.usage = Usage()
        return _Try(Outcome.SKIPPED)
    error = classify(error, reached, context.layout.root)
    findings.failure = explain(error, reached)
    findings.score = None
    if context.is_driven:  # whoever drives an agent does so once
        return _Try(Outcome.ERROR)
    if isinstance(error, QuotaReached) and context.services.on_cut(context.trial, context.counted):
        context.drop_kept()
        return _Try(Outcome.CANCELLED, error.retryable, is_cut=True)
    starts_over = isinstance(error, EngineLost) and _starts_over(context, error)
    return _Try(Outcome.ERROR, isinstance(error, InfrastructureError) and error.retryable, starts_over)


def _name_user(context: TrialContext) -> None:
    """Add to a failure about a user or group that an image lacks which keys of the scenario ask for it."""
    failure, scenario = context.findings.failure, context.scenario
    if failure is None or (found := _NOBODY.search(failure.message)) is None:
        return
    users = {"user": scenario.environment.user, "agent_user": scenario.agent_user}
    users |= {f"scorer {spec.name!r}: user": spec.user for spec in scenario.scorers}
    keys = " and ".join(key for key, user in users.items() if user and found[2] in user.split(":"))
    what = f"the image has no {found[1]} {found[2]!r} ({keys or 'user'} in {scenario.place})"
    message = f"{failure.message.rstrip()}; {what}: name one that it has, or add it to the image"
    context.findings.failure = failure.model_copy(update={"message": message})


def _starts_over(context: TrialContext, error: EngineLost) -> bool:
    """Return True if the engine lost a trial before its agent, or only once the connection with the agent.

    An agent that closes its own output looks the same. So the second time counts as the agent's.
    """
    of_agent = isinstance(error, OutputLost) and context.phases.reached == "agent"
    first_time = of_agent and not context.output_was_lost
    context.output_was_lost |= of_agent
    return first_time or not context.is_spent


def classify(error: BaseException, phase: str, results: Path) -> BaseException:
    """Convert an error of the operating system into what it means in a phase. The trial writes into `results`."""
    if not isinstance(error, OSError):
        return error
    if error.errno in DISK_ERRORS:
        return write_error(results, error)
    if phase in _BEFORE_THE_AGENT and error.filename is not None:
        # A file of the scenario, which existed when it was collected.
        return InputError(f"cannot be read: {error.strerror}", path=os.fsdecode(error.filename))
    return error


def explain(error: BaseException, phase: str) -> Failure:
    """Return the failure for a result from an error, classified."""
    if isinstance(error, InfrastructureError):
        return failure(error, phase)
    if isinstance(error, InputError):
        return Failure(class_="input", message=clean(str(error), 2000), phase=phase)
    return Failure(
        class_="internal",
        message=clean(describe(error), 2000),
        phase=phase,
        detail=clean("".join(traceback.format_exception(error)), 8000),
    )
