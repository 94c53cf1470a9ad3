"""The steps of a task: several instructions, one after the other, in one sandbox.

Each step is an agent at work, its end and the grading of its work, as `steps.py` has them for a whole trial. Meanwhile
the context has the scenario of the step alone, and the layout of its files, `steps/<name>/`. Limits and usage of models
are those of all steps together, timeouts apply to each step. `oracle` has a reference for each step. A rescore grades
the kept state of each step.

The remaining steps do not run if a step misses a least reward, if a scorer breaks, if the agent exceeded a limit, or if
a conversation is broken off. A step that did not run has the score 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..agents.protocol import Exchange
from ..model.ending import Ending
from ..model.errors import EnvironmentFailed, Ungradable
from ..model.result import FailureClass, StepResult
from ..model.scenario import Step, StepScore
from ..sandbox.protocol import File, Sandbox
from ..scoring.metrics import all_metrics
from ..scoring.needs import left_behind
from ..store.bundle import JobBundle
from ..store.files import writing
from ..store.layout import TrialLayout
from ..store.text import clean, one_line
from .connection import Connection
from .context import TrialContext
from .prepare import Prepared, prepare_step
from .progress import StepEnd
from .redacting import redact_output
from .replies import is_broken_off, kept_reply
from .setup import Setup
from .step_logs import merge_logs
from .turns import files_of_turn, put_for_turn


def begin_step(context: TrialContext, number: int) -> None:
    """Make the context that of a step, counted from 0, without findings of the step before.

    Raises:
        DiskFull, ResultsUnwritable: its directory cannot be made.
    """
    scenario, progress, findings = context.trial.scenario, context.progress, context.findings
    layout = context.directory.layout.step(scenario.steps[number].name)
    with writing(layout.root):
        layout.scorers.mkdir(parents=True)
        layout.artifacts.mkdir()
    context.narrow(scenario.at_step(number), layout)
    context.turn, context.is_ended = number + 1, False
    progress.number, progress.started = number, context.phases.now
    progress.said = progress.reply = None
    findings.score = None
    if context.original is None:
        findings.agent_end = findings.kept = None


def next_step(context: TrialContext, prepared: Prepared) -> Prepared:
    """Begin the next step, and get the agent's command for it.

    Raises:
        AgentSetupFailed: a requirement of the agent is missing.
    """
    begin_step(context, context.progress.number + 1)
    conversation = context.progress.conversation if context.is_conversation else None
    return prepare_step(context.trial, context.services, prepared, context.scenario, conversation)


def make_ready(
    context: TrialContext,
    sandbox: Sandbox,
    setup: Setup,
    prepared: Prepared,
    connection: Connection | None,
) -> str | None:
    """Make the sandbox ready for the agent at the current step; return why it cannot be, if the agent is the cause.

    Raises:
        EnvironmentFailed: the set-up fails, and no agent is the cause.
        InfrastructureError: the engine failed.
    """
    try:
        if context.progress.number:
            _reset(context, sandbox, setup, prepared, connection)
        _set_up_as_agent_left_it(context, sandbox, setup)
    except Ungradable as error:
        why = clean(one_line(str(error), 1000))
        step = context.current_step.name
        context.spoiled = context.spoiled or (FailureClass.UNGRADABLE, f"step {step}: {why}")
        return why
    return None


def _set_up_as_agent_left_it(context: TrialContext, sandbox: Sandbox, setup: Setup) -> None:
    """Set a step up, where an agent may have worked in earlier steps.

    Raises:
        EnvironmentFailed: that fails, and no agent is the cause.
        Ungradable: it fails twice after an agent's work.
    """
    step = context.current_step

    def put(files: Sequence[File]) -> None:
        if context.progress.number:
            put_for_turn(context, sandbox, files, clean_first=False)
        else:
            sandbox.put(files)

    try:
        setup.begin_step(step, put)
    except EnvironmentFailed:
        if not context.progress.number or not context.suspects_agent:
            raise
        try:
            setup.begin_step(step, put)  # a network that failed once is not the agent's fault
        except EnvironmentFailed as again:
            raise Ungradable(f"what the agent left prevents the set-up: {again}") from again


def _reset(
    context: TrialContext, sandbox: Sandbox, setup: Setup, prepared: Prepared, connection: Connection | None
) -> None:
    """Empty the directories of scorers, and put in the files of the agent and its instruction."""
    context.phases.enter_unless_cancelled("step")
    left = left_behind(context.trial.scenario.scorers, context.services.scorers)
    files = [File(path, mode=0o777) for path in left]
    if prepared.command is not None:
        files += files_of_turn(context, prepared, connection, keeps_state=context.is_conversation)
    put_for_turn(context, sandbox, files)
    if context.trial.scenario.steps[context.progress.number - 1].fresh_container is not None:
        # All processes ended, services among them.
        context.findings.notes += (clean(one_line(note, 500)) for note in setup.again())


def end_step(context: TrialContext) -> bool:
    """Add the current step to the findings, and those that will not run; return True if another follows."""
    progress, steps = context.progress, context.trial.scenario.steps
    step = context.current_step
    redact_output(context)
    why = _last_because(context, step)
    _add(context, step)
    following = progress.number + 1
    if why is not None:
        skip_from(context, following, f"step {step.name}: {why}")
    return why is None and following < len(steps)


def _add(context: TrialContext, step: Step) -> None:
    """Add the findings about the current step to those about the whole trial."""
    findings, progress = context.findings, context.progress
    graded = [one.model_copy(update={"step": step.name}) for one in findings.scorers]
    findings.steps.append(
        StepResult(
            name=step.name,
            score=findings.score if step.scorers else None,
            scorers=tuple(one.name for one in graded),
            agent_end=findings.agent_end,
            start=progress.started,
            end=context.phases.now,
            artifacts=tuple(findings.artifacts),
            kept=findings.kept,
            path=context.layout.root.relative_to(context.directory.path).as_posix(),
        )
    )
    if findings.agent_end is not None:
        progress.ends.append(StepEnd(step.name, findings.agent_end, context.limits))
    progress.conversation.exchanges.append(Exchange(step.instruction, progress.reply or ""))
    progress.scorers += graded
    findings.scorers.clear()
    findings.artifacts.clear()


def _last_because(context: TrialContext, step: Step) -> str | None:
    """Return why no further step runs after the current one; None if the next one may run."""
    findings = context.findings
    if any(one.error is not None for one in findings.scorers):
        return "a scorer broke"
    end = findings.agent_end
    if end is not None and (end.limit is not None or end.ending is Ending.TRIAL_LIMIT):
        return "the agent exceeded a limit"
    if step.continues and end is not None and is_broken_off(end):
        return "the agent did not end by itself"
    return _missed(step, _rewards(context))


def _rewards(context: TrialContext) -> Mapping[str, object]:
    """Return the rewards of the current step; `reward` is its score, unless a scorer names its rewards."""
    given = [one.details["rewards"] for one in context.findings.scorers if "rewards" in one.details]
    if not given:
        return {"reward": context.findings.score}
    return {name: value for rewards in given if isinstance(rewards, dict) for name, value in rewards.items()}


def _missed(step: Step, rewards: Mapping[str, object]) -> str | None:
    """Return the least reward that a step missed."""
    for name, least in step.least.items():
        value = rewards.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"it has no {name}, of which the least is {least:g}"
        if value < least:
            return f"its {name} {value:g} is below the least, {least:g}"
    return None


def skip_from(context: TrialContext, number: int, why: str) -> None:
    """Add the steps from a number on to the findings: none of them runs."""
    rest = context.trial.scenario.steps[number:]
    context.findings.steps += (StepResult(name=one.name, not_run=why) for one in rest)


def end_steps(context: TrialContext) -> None:
    """Make the context that of the whole trial again, with the score of all steps, and one log of all of them.

    Does nothing when called again.
    """
    findings, progress, scenario = context.findings, context.progress, context.trial.scenario
    if context.scenario is scenario:
        return
    known = {one.name for one in findings.steps}
    for step in scenario.steps:
        if step.name not in known:  # one that an error ended, and those behind it
            started = step.name == context.current_step.name
            why = "it was broken off" if started else "an earlier step was broken off"
            findings.steps.append(StepResult(name=step.name, not_run=why))
    redact_output(context)  # of a step that an error ended
    findings.scorers[:0] = progress.scorers
    findings.metrics = list(all_metrics(findings.scorers))
    findings.artifacts.clear()
    merge_logs(context.directory.layout, [step.name for step in scenario.steps])
    context.narrow(scenario, context.directory.layout)
    findings.score = _score(scenario.steps, scenario.step_score, findings.steps, broken=_is_broken(context))


def _is_broken(context: TrialContext) -> bool:
    return any(one.error is not None for one in context.findings.scorers)


def _score(
    steps: tuple[Step, ...], kind: StepScore, results: list[StepResult], *, broken: bool
) -> float | None:
    """Return the score of a trial; None if a step could not be graded."""
    if broken:
        return None
    scores = {one.name: one.score or 0.0 for one in results}
    if kind is StepScore.FINAL:
        return scores[steps[-1].name]
    total = math.fsum(step.weight for step in steps)
    return min(1.0, math.fsum(step.weight * scores[step.name] for step in steps) / total)


def take_original(context: TrialContext) -> str | None:
    """Take the agent's part of the current step from the trial to grade again; return the state kept of it, if any."""
    original = context.original
    assert original is not None  # noqa: S101  the caller has looked
    step = next((one for one in original.steps if one.name == context.current_step.name), None)
    if step is None or step.kept is None:
        return None
    origin = original.reused or original
    root = JobBundle(context.config.directory, origin.job).root / origin.path
    context.findings.agent_end, context.findings.kept = step.agent_end, step.kept
    if context.is_conversation:
        context.progress.reply = kept_reply(TrialLayout(root).step(step.name))
        if context.progress.reply is not None:
            context.layout.reply.write_text(context.progress.reply, "utf-8", "replace")
    return step.kept


def not_run_in_original(context: TrialContext, number: int) -> str:
    """Return why a step of the trial to grade again has no state."""
    assert context.original is not None  # noqa: S101  the caller has looked
    name = context.trial.scenario.steps[number].name
    found = next((one for one in context.original.steps if one.name == name), None)
    if found is None:
        return "the trial that is graded again had no such step"
    return found.not_run or "nothing of it was kept"
