"""Outcome of a trial, from its score, its threshold and its agent's ending. The table is in `model.ending`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..agents.protocol import Agent, AgentReading
from ..gateway.client import RouteReport
from ..model.ending import Ending
from ..model.errors import (
    BudgetSpent,
    EndpointDown,
    GatewayLost,
    InfrastructureError,
    ModelAuthFailed,
    ModelUnknown,
    QuotaReached,
    RateLimited,
    ReferenceFailed,
    ScorerCrashed,
)
from ..model.result import AgentEnd, Failure, FailureClass, Outcome, ScorerResult
from ..model.scenario import TURN, OnTamper
from ..sandbox.protocol import ExecResult
from ..scoring.grade import failure
from ..store.log import log_end
from ..store.text import clean
from .context import TrialContext
from .ending import some
from .fault import Evidence, Fault, fault
from .limits import Limits

_KILLED = 137
_SPENT = (Ending.BUDGET, Ending.QUOTA, Ending.TRIAL_LIMIT)
ERRORS: dict[Ending, type[InfrastructureError]] = {
    Ending.BUDGET: BudgetSpent,
    Ending.QUOTA: QuotaReached,
    Ending.AUTHENTICATION: ModelAuthFailed,
    Ending.UNKNOWN_MODEL: ModelUnknown,
    Ending.RATE_LIMITED: RateLimited,
    Ending.ENDPOINT_DOWN: EndpointDown,
    Ending.GATEWAY: GatewayLost,
}
"""Endings that the agent did not cause. The trial has no score then."""
_FAILURES: dict[Ending, tuple[FailureClass, str]] = {
    Ending.NO_LAST_WORD: (FailureClass.AGENT_CRASHED, "the agent crashed"),
    Ending.TURN_LIMIT: (FailureClass.TURN_LIMIT, "the agent reached its limit of turns"),
    Ending.TRIAL_LIMIT: (FailureClass.LIMIT_EXCEEDED, "the agent reached the trial's limit on models"),
    Ending.REFUSED: (
        FailureClass.MODEL_REFUSED,
        "the model or its endpoint refused the request",
    ),
    Ending.CRASHED: (FailureClass.AGENT_CRASHED, "the agent crashed"),
    Ending.KILLED: (FailureClass.AGENT_CRASHED, "the agent was killed"),
}


_STATUSES = {126: "a command was not executable", 127: "a command was not found", _KILLED: "it was killed"}
_TAIL = 500
_MESSAGE_LIMIT = 4000
_UNLESS_PASSED = frozenset({Ending.NO_LAST_WORD, Ending.REFUSED})
"""Endings with which a full score passes, when the exit status is 0."""


def ending_of(
    result: ExecResult,
    reading: AgentReading | None,
    report: RouteReport | None,
    agent_timeout: float = math.inf,
) -> tuple[Ending | None, str | None]:
    """Return the ending of an agent, and details in a line. None: only its exit status is known, and it is 0.

    The gateway's observations are certain. Where no call is to blame, the agent's own word counts, then its status.
    """
    seen = None if report is None else report.ending
    said = None if reading is None else reading.ending
    about = None if report is None else report.message
    if seen in _SPENT:
        return seen, about
    if report is not None:
        whose = fault(_evidence(result, said, report, agent_timeout))
        if whose is Fault.ENDPOINT:
            return (seen, about) if seen in ERRORS else (Ending.ENDPOINT_DOWN, _waited(report))
        if whose is Fault.GATEWAY:
            return Ending.GATEWAY, about if seen is Ending.GATEWAY else _held(report)
    if result.stopped and seen is not None:
        return seen, about
    if result.timed_out:
        return Ending.TIMED_OUT, None
    if seen is Ending.REFUSED:
        return seen, about
    if result.exit_status == _KILLED:
        return Ending.KILLED, None
    return _own_ending(result, reading, said, report)


def _own_ending(
    result: ExecResult, reading: AgentReading | None, said: Ending | None, report: RouteReport | None
) -> tuple[Ending | None, str | None]:
    """Return the ending of an agent by its own word, else by its exit status."""
    if said in ERRORS and report is not None:
        # Otherwise an agent could avoid a failure by blaming the endpoint: without the gateway's evidence it failed.
        return Ending.CRASHED, f"it reported {said}, for which the gateway saw no reason"
    if said is Ending.NO_LAST_WORD and reading is not None and result.exit_status:
        return Ending.CRASHED, reading.message
    if said is not None and reading is not None:
        return said, reading.message
    if result.exit_status:
        return Ending.CRASHED, f"the agent exited with status {_status(result.exit_status)}"
    return None, None


def graded_in_spite_of(report: RouteReport, ending: Ending | None) -> str | None:
    """Return a note on the failure of the agent's last call, if that is not how its trial ended."""
    if ending in ERRORS or ending in _SPENT:
        return None
    if report.ending in ERRORS:
        what = f"failed ({report.message})"
    elif report.answers_others:
        what = f"got no answer for {report.waited:.0f} s"
    else:
        return None
    others = "the endpoint answers others" if report.answers_others else "the agent went on without it"
    return f"the last call of the model {what}; {others}, so the work is graded"


def _evidence(result: ExecResult, said: Ending | None, report: RouteReport, agent_timeout: float) -> Evidence:
    """Return what is known about the calls of an agent."""
    given = agent_timeout + report.held
    ending = max(result.seconds - given, 0.0)  # seconds needed to end the agent
    return Evidence(
        answered=report.answered,
        failed=report.ending in ERRORS and report.ending is not Ending.GATEWAY,
        broke=report.ending is Ending.GATEWAY,
        unanswered=report.waited - ending,
        answers_others=report.answers_others,
        seconds=result.seconds - report.held - ending,
        timeout=0.0 if result.silent or math.isinf(agent_timeout) else agent_timeout,
        timed_out=result.timed_out,
        stopped=result.stopped,
        succeeded=said is Ending.SUCCESS,
    )


def _waited(report: RouteReport) -> str:
    return (
        f"the model's endpoint had been silent for {report.waited:.0f} s when the agent gave up or was ended"
    )


def _held(report: RouteReport) -> str:
    return (
        f"the gateway held the agent's calls for {report.held:.0f} s, longer than an agent's time is extended"
    )


def _status(exit_status: int) -> str:
    """Return an exit status, with its meaning where it has one."""
    why = _STATUSES.get(exit_status)
    return f"{exit_status}{f' ({why})' if why else ''}"


def infrastructure_error(ending: Ending | None, message: str | None) -> InfrastructureError | None:
    """Return the infrastructure error of an ending; None if it is not one."""
    kind = None if ending is None else ERRORS.get(ending)
    return None if kind is None else kind(message or str(ending))


def failing(
    end: AgentEnd | None,
    *,
    passed: bool,
    trusted: bool,
    agent_timeout: float,
    silent_timeout: float | None,
    memory: int | None = None,
) -> tuple[FailureClass, str] | None:
    """Return why a trial failed by its agent's ending; None if it did not. `passed`: the score is sufficient."""
    if end is None:
        return None
    if end.limit is not None:
        bound = f" of {memory / (1 << 20):g} MiB" if memory and end.limit == "memory" else ""
        return FailureClass.LIMIT_EXCEEDED, f"the agent exceeded its {end.limit} limit{bound}"
    if end.silent:
        return FailureClass.AGENT_TIMEOUT, f"the agent printed nothing for {silent_timeout or 0:g} s"
    if end.timed_out:
        return FailureClass.AGENT_TIMEOUT, f"the agent did not end within {agent_timeout:g} s"
    if trusted or end.ending is None or (passed and end.ending in _UNLESS_PASSED and end.exit_status == 0):
        return None
    found = _FAILURES.get(end.ending)
    return None if found is None else (found[0], end.message or found[1])


def _of_agent(context: TrialContext, *, passed: bool, trusted: bool) -> tuple[FailureClass, str] | None:
    """Return why a trial failed by the ending of its agent, in the first step that did; None if it did not.

    That ending is then the trial's.
    """
    for step, end, limits in _ends(context):
        found = failing(
            end,
            passed=passed,
            trusted=trusted,
            agent_timeout=limits.agent_timeout,
            silent_timeout=limits.silent_timeout,
            memory=context.scenario.environment.memory,
        )
        if found is not None:
            context.findings.agent_end = end
            return found[0], found[1] if step is None else f"step {step}: {found[1]}"
    return None


def _ends(context: TrialContext) -> list[tuple[str | None, AgentEnd, Limits]]:
    """Return the endings of the agent: one, or one for each step that ran."""
    if context.trial.scenario.steps:
        return [(one.step, one.end, one.limits) for one in context.progress.ends]
    end = context.findings.agent_end
    return [] if end is None else [(None, end, context.limits)]


def _tampered(context: TrialContext, agent: Agent) -> tuple[str, ...]:
    """Return what an agent changed for which its trial fails. What a reference changes is the task's answer."""
    if context.config.on_tamper is OnTamper.NOTE or agent.trusted:
        return ()
    return next((end.tampered for _, end, _ in _ends(context) if end.tampered), ())


def _forbidden(scorers: Sequence[ScorerResult]) -> tuple[FailureClass, str] | None:
    """Return the failure of an agent that did what a turn forbids; None if it did not."""
    for scorer in scorers:
        found = scorer.details.get("forbidden")
        if scorer.type == TURN and isinstance(found, list) and found:
            return FailureClass.FORBIDDEN, f"{scorer.step}: the agent did what is forbidden: {found[0]}"
    return None


def _below(score: float, threshold: float) -> str:
    """Return that a score is below the threshold, in as many digits as show it."""
    digits = next(
        (digits for digits in range(6, 17) if f"{score:.{digits}g}" != f"{threshold:.{digits}g}"), 17
    )
    return f"score {score:.{digits}g} is below the threshold {threshold:.{digits}g}"


def _reference_failed(context: TrialContext) -> Failure | None:
    """Return the error of a reference solution; None: it ended normally, and is merely wrong."""
    failed = ((step, end.exit_status) for step, end, _ in _ends(context) if end.exit_status)
    step, status = next(failed, (None, 0))
    if not status:
        return None
    layout = context.layout if step is None else context.layout.step(step)
    printed = log_end(layout.agent_log, _TAIL).decode("utf-8", "replace")
    said = clean(printed, _TAIL).strip()
    return failure(
        ReferenceFailed(
            f"the reference solution exited with status {_status(status)}, and what it "
            f"left does not pass{f'; it printed: {said}' if said else ''}"
        ),
        "agent",
    )


def _after(broken: Failure, ended: str) -> Failure:
    """Return the error of a scorer, with the ending of an agent that failed by itself."""
    return broken.model_copy(
        update={"message": clean(f"{broken.message}; before that, {ended}", _MESSAGE_LIMIT)}
    )


def decide(context: TrialContext, agent: Agent) -> Outcome:
    """Return the outcome from score and ending; the reason of a failure is in the findings."""
    findings, limits = context.findings, context.limits
    broken = next((score.error for score in findings.scorers if score.error is not None), None)
    if broken is None and findings.score is None:
        broken = failure(ScorerCrashed("no scorer ran"), None)
    score, threshold = findings.score, limits.threshold
    verdict = _of_agent(context, passed=score is not None and score >= threshold, trusted=agent.trusted)
    if broken is not None or score is None:
        findings.failure = broken if broken is None or verdict is None else _after(broken, verdict[1])
        return Outcome.ERROR
    if verdict is None and agent.trusted and score < threshold:
        broken = _reference_failed(context)
        if broken is not None:
            findings.score, findings.failure = None, broken
            return Outcome.ERROR
    if verdict is None and context.spoiled is not None:
        verdict = context.spoiled
    if verdict is None and (paths := _tampered(context, agent)):
        what = f"the agent changed {len(paths)} path(s) outside of the workdir, where it was graded"
        verdict, findings.score = (FailureClass.TAMPERED, f"{what}: {some(paths)}"), 0.0
    if verdict is None and not context.scenario.diagnostic:
        verdict = _forbidden(findings.scorers)
    if verdict is None and score < threshold:
        verdict = FailureClass.BELOW_THRESHOLD, _below(score, threshold)
    if verdict is None:
        return Outcome.PASSED
    loss = None if context.ended is None else context.ended.loss
    message = "; ".join(filter(None, (verdict[1], loss)))
    findings.failure = Failure(class_=verdict[0], message=message, phase="agent")
    return Outcome.FAILED
