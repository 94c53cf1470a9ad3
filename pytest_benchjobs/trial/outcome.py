"""Outcome of a trial, from its score, its threshold and its agent's ending. The table is in `model.ending`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from ..agents.protocol import Agent, AgentReading
from ..gateway.client import RouteReport
from ..model import errors
from ..model.ending import Ending
from ..model.result import AgentEnd, Failure, FailureClass, Outcome, ScorerResult
from ..model.scenario import TURN, OnTamper
from ..sandbox.protocol import ExecResult
from ..scoring.grade import failure
from ..store.log import log_end
from ..store.text import clean
from .context import TrialContext
from .end_agent import some
from .limits import Limits

Verdict = tuple[FailureClass, str]
"""Class and message of a failure."""
_KILLED = 137
_SPENT = (Ending.BUDGET, Ending.QUOTA, Ending.TRIAL_LIMIT)
ERRORS: dict[Ending, type[errors.InfrastructureError]] = {
    Ending.BUDGET: errors.BudgetSpent,
    Ending.QUOTA: errors.QuotaReached,
    Ending.AUTHENTICATION: errors.ModelAuthFailed,
    Ending.UNKNOWN_MODEL: errors.ModelUnknown,
    Ending.RATE_LIMITED: errors.RateLimited,
    Ending.ENDPOINT_DOWN: errors.EndpointDown,
    Ending.GATEWAY: errors.GatewayLost,
}
"""Endings that the agent did not cause. The trial has no score then."""
_FAILURES: dict[Ending, Verdict] = {
    Ending.NO_LAST_WORD: (FailureClass.AGENT_CRASHED, "the agent crashed"),
    Ending.TURN_LIMIT: (FailureClass.TURN_LIMIT, "the agent reached its limit of turns"),
    Ending.TRIAL_LIMIT: (FailureClass.LIMIT_EXCEEDED, "the agent reached the trial's limit on models"),
    Ending.REFUSED: (FailureClass.MODEL_REFUSED, "the model or its endpoint refused the request"),
    Ending.CRASHED: (FailureClass.AGENT_CRASHED, "the agent crashed"),
    Ending.KILLED: (FailureClass.AGENT_CRASHED, "the agent was killed"),
}
_STATUSES = {126: "a command was not executable", 127: "a command was not found", _KILLED: "it was killed"}
_TAIL = 500
_MESSAGE_LIMIT = 4000
_SLACK = 1.0
_AT_ALL, _LEAST, _LONG = 5.0, 10.0, 120.0
"""Seconds of silence that count as a failed call: if none was ever answered; at least if the agent timed out; else."""
_UNLESS_PASSED = frozenset({Ending.NO_LAST_WORD, Ending.REFUSED})
"""Endings with which a full score passes, when the exit status is 0."""


Fault = Literal["agent", "endpoint", "gateway"]


def fault(result: ExecResult, report: RouteReport, agent_timeout: float, *, succeeded: bool) -> Fault:
    """Return whose fault it is that the calls of an agent failed, or were not answered. Only this decides that.

        what became of the last call            calls answered   the endpoint answers others   whose fault
        it was answered, or there was none      any              -                             the agent's
        the gateway broke, or held it           any              -                             the gateway's
        it failed, or got no answer for long    none             -                             the endpoint's
        it failed, or got no answer for long    some             no                            the endpoint's
        it failed, or got no answer for long    some             yes                           the agent's

    An agent that reports success has got on without that call, so it is graded; but one of which no call was ever
    answered cannot know. An agent that the gateway stopped was stopped because the endpoint answered nobody.
    """
    failed = report.ending in ERRORS and report.ending is not Ending.GATEWAY
    to_end = max(result.seconds - agent_timeout - report.held, 0.0)  # seconds needed to end the agent
    seconds, unanswered = result.seconds - report.held - to_end, report.waited - to_end
    due = 0.0 if result.silent or math.isinf(agent_timeout) else agent_timeout
    if result.timed_out and not result.stopped and seconds < due - _SLACK:
        return "endpoint" if failed else "gateway"
    if report.ending is Ending.GATEWAY and not succeeded:
        return "gateway"
    patience = _AT_ALL
    if report.answered:  # so an agent that gives up by itself cannot blame the endpoint at will
        patience = max(_LEAST if result.timed_out else _LONG, seconds / 2)
    if not failed and unanswered < patience:
        return "agent"
    if report.answered == 0 or result.stopped:
        return "endpoint"
    return "agent" if report.answers_others or succeeded else "endpoint"


def ending_of(
    result: ExecResult,
    reading: AgentReading | None,
    report: RouteReport | None,
    agent_timeout: float = math.inf,
) -> tuple[Ending | None, str | None]:
    """Return the ending of an agent, and details in a line. None: only its exit status is known, and it is 0.

    The gateway's observations are certain. Where no call is to blame, the agent's own word counts, then its status.
    """
    seen, about = (None, None) if report is None else (report.ending, report.message)
    said = None if reading is None else reading.ending
    if seen in _SPENT:
        return seen, about
    if report is not None:
        whose = fault(result, report, agent_timeout, succeeded=said is Ending.SUCCESS)
        if whose == "endpoint":
            silence = f"the model's endpoint had been silent for {report.waited:.0f} s"
            waited = f"{silence} when the agent gave up or was ended"
            return (seen, about) if seen in ERRORS else (Ending.ENDPOINT_DOWN, waited)
        if whose == "gateway":
            held = f"the gateway held the agent's calls for {report.held:.0f} s"
            broke = about if seen is Ending.GATEWAY else f"{held}, longer than an agent's time is extended"
            return Ending.GATEWAY, broke
    if result.stopped and seen is not None:
        return seen, about
    if result.timed_out:
        return Ending.TIMED_OUT, None
    if seen is Ending.REFUSED:
        return seen, about
    if result.exit_status == _KILLED:
        return Ending.KILLED, None
    # What is left is the agent's own word, else its exit status.
    if said in ERRORS and report is not None:
        # Otherwise an agent could avoid a failure by blaming the endpoint: without the gateway's evidence it failed.
        return Ending.CRASHED, f"it reported {said}, for which the gateway saw no reason"
    if said is not None and reading is not None:
        crashed = said is Ending.NO_LAST_WORD and result.exit_status
        return Ending.CRASHED if crashed else said, reading.message
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


def _status(exit_status: int) -> str:
    """Return an exit status, with its meaning where it has one."""
    why = _STATUSES.get(exit_status)
    return f"{exit_status}{f' ({why})' if why else ''}"


def infrastructure_error(ending: Ending | None, message: str | None) -> errors.InfrastructureError | None:
    """Return the infrastructure error of an ending; None if it is not one."""
    kind = None if ending is None else ERRORS.get(ending)
    return None if kind is None else kind(message or str(ending))


def failing(end: AgentEnd | None, limits: Limits, *, passed: bool, trusted: bool) -> Verdict | None:
    """Return why a trial failed by its agent's ending; None if it did not. `passed`: the score is sufficient."""
    if end is None:
        return None
    if end.limit is not None:
        memory = limits.scenario.environment.memory
        bound = f" of {memory / (1 << 20):g} MiB" if memory and end.limit == "memory" else ""
        return FailureClass.LIMIT_EXCEEDED, f"the agent exceeded its {end.limit} limit{bound}"
    if end.silent:
        return FailureClass.AGENT_TIMEOUT, f"the agent printed nothing for {limits.silent_timeout or 0:g} s"
    if end.timed_out:
        return FailureClass.AGENT_TIMEOUT, f"the agent did not end within {limits.agent_timeout:g} s"
    if trusted or end.ending is None or (passed and end.ending in _UNLESS_PASSED and end.exit_status == 0):
        return None
    found = _FAILURES.get(end.ending)
    return None if found is None else (found[0], end.message or found[1])


def _of_agent(context: TrialContext, *, passed: bool, trusted: bool) -> Verdict | None:
    """Return why a trial failed by the ending of its agent, in the first step that did; it is then the trial's."""
    for step, end, limits in _ends(context):
        if (found := failing(end, limits, passed=passed, trusted=trusted)) is not None:
            context.findings.agent_end = end
            return found[0], found[1] if step is None else f"step {step}: {found[1]}"
    return None


def _ends(context: TrialContext) -> list[tuple[str | None, AgentEnd, Limits]]:
    """Return the endings of the agent: one, or one for each step that ran."""
    if context.trial.scenario.steps:
        return [*context.progress.ends]
    end = context.findings.agent_end
    return [] if end is None else [(None, end, context.limits)]


def _tampered(context: TrialContext, agent: Agent) -> Verdict | None:
    """Return the failure of an agent that changed its container. What a reference changes is the task's answer."""
    if context.config.on_tamper is OnTamper.NOTE or agent.trusted:
        return None
    paths = next((end.tampered for _, end, _ in _ends(context) if end.tampered), ())
    what = f"the agent changed {len(paths)} path(s) outside of the workdir, where it was graded"
    return (FailureClass.TAMPERED, f"{what}: {some(paths)}") if paths else None


def _forbidden(scorers: Sequence[ScorerResult]) -> Verdict | None:
    """Return the failure of an agent that did what a turn forbids."""
    for scorer in scorers:
        found = scorer.details.get("forbidden")
        if scorer.type == TURN and isinstance(found, list) and found:
            return FailureClass.FORBIDDEN, f"{scorer.step}: the agent did what is forbidden: {found[0]}"
    return None


def _below(score: float, threshold: float) -> Verdict | None:
    """Return the failure of a score below the threshold, in as many digits as show it."""
    if score >= threshold:
        return None
    digits = next((n for n in range(6, 17) if f"{score:.{n}g}" != f"{threshold:.{n}g}"), 17)
    why = f"score {score:.{digits}g} is below the threshold {threshold:.{digits}g}"
    return FailureClass.BELOW_THRESHOLD, why


def _reference_failed(context: TrialContext) -> Failure | None:
    """Return the error of a reference solution; None: it ended normally, and is merely wrong."""
    failed = ((step, end.exit_status) for step, end, _ in _ends(context) if end.exit_status)
    step, status = next(failed, (None, 0))
    if not status:
        return None
    layout = context.layout if step is None else context.layout.step(step)
    said = clean(log_end(layout.agent_log, _TAIL).decode("utf-8", "replace"), _TAIL).strip()
    why = f"the reference solution exited with status {_status(status)}, and what it left does not pass"
    return failure(errors.ReferenceFailed(f"{why}; it printed: {said}" if said else why), "agent")


def decide(context: TrialContext, agent: Agent) -> Outcome:
    """Return the outcome from score and ending; the reason of a failure is in the findings."""
    findings, threshold, score = context.findings, context.limits.threshold, context.findings.score
    broken = next((one.error for one in findings.scorers if one.error is not None), None)
    if broken is None and score is None:
        broken = failure(errors.ScorerCrashed("no scorer ran"), None)
    verdict = _of_agent(context, passed=score is not None and score >= threshold, trusted=agent.trusted)
    if broken is not None and verdict is not None:
        both = clean(f"{broken.message}; before that, {verdict[1]}", _MESSAGE_LIMIT)
        broken = broken.model_copy(update={"message": both})
    if broken is None and score is not None and score < threshold and verdict is None and agent.trusted:
        broken = _reference_failed(context)
        findings.score = score if broken is None else None
    if broken is not None or score is None:
        findings.failure = broken
        return Outcome.ERROR
    verdict = verdict or context.spoiled
    if verdict is None and (verdict := _tampered(context, agent)) is not None:
        findings.score = 0.0
    if verdict is None and not context.scenario.diagnostic:
        verdict = _forbidden(findings.scorers)
    verdict = verdict or _below(score, threshold)
    if verdict is None:
        return Outcome.PASSED
    loss = None if context.ended is None else context.ended.loss
    message = "; ".join(filter(None, (verdict[1], loss)))
    findings.failure = Failure(class_=verdict[0], message=message, phase="agent")
    return Outcome.FAILED
