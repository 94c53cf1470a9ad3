"""The turns of an agent: one, or further ones where the scenario gives feedback, or one for each step of its task.

Limits and usage of models are those of all turns together, timeouts apply to each. With feedback, each turn is a new
process in the same sandbox, which knows only its problem statement, and is graded in a fresh one. A turn that does not
end by itself is the last one, and so is one that breaks. `oracle` and `nop` have one turn, as they would do the same
again, and so has a rescore, of the kept state of the last turn.

While a step runs, the context has the scenario of that step alone, and the layout of its files, `steps/<name>/`.
`oracle` has a reference for each step. A rescore grades the kept state of each step. The remaining steps do not run if
a step misses a least reward, if a scorer breaks, if the agent exceeded a limit, or if a conversation is broken off. A
step that did not run has the score 0.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence

from ..agents.protocol import Exchange
from ..agents.reading.merging import merge_trajectories
from ..model.ending import Ending
from ..model.errors import EnvironmentFailed, InfrastructureError, ScorerCrashed, ScorerTimeout, Ungradable
from ..model.result import FailureClass, StepResult
from ..model.scenario import Feedback, ScorerSpec, Step, StepScore
from ..sandbox.protocol import File, Sandbox
from ..scoring.metrics import all_metrics
from ..scoring.needs import needs_of_all
from ..scoring.patterns import limited, substitute
from ..scoring.told import told
from ..store.files import writing
from ..store.layout import TrialLayout
from ..store.log import CappedLog
from ..store.text import clean, one_line
from ..system.cutting import end_of
from .answering import kept_layout
from .context import TrialContext
from .prepare import Prepared, prepare_again
from .run_agent import is_broken_off
from .sandboxes import Setup, agent_files, open_directories, or_blame, untouched_sandbox

_CHUNK = 64 << 10
_NOTHING = "The tests printed nothing."
_PLACEHOLDER = re.compile(r"\{(problem|output)\}")


def begin_step(context: TrialContext, number: int) -> None:
    """Make the context that of a step, counted from 0. DiskFull, ResultsUnwritable: its directory cannot be made."""
    scenario, progress, findings = context.trial.scenario, context.progress, context.findings
    layout = context.directory.layout.step(scenario.steps[number].name)
    with writing(layout.root):
        layout.scorers.mkdir(parents=True)
        layout.artifacts.mkdir()
    context.narrow(scenario.at_step(number), layout)
    context.begin_turn(number + 1)
    progress.number, progress.started = number, context.phases.now
    progress.said = progress.reply = None
    if context.original is None:
        findings.agent_end = findings.kept = None


def make_ready(context: TrialContext, setup: Setup, prepared: Prepared) -> bool:
    """Make the sandbox ready for the agent's turn; False: what the agent left prevents the step, and all behind it.

    Ungradable: what the agent left prevents another turn with feedback. EnvironmentFailed: the set-up fails, and no
    agent is the cause. InfrastructureError: the engine failed.
    """
    steps, number = context.trial.scenario.steps, context.progress.number
    try:
        if number or context.findings.turns:
            _go_on(context, setup, prepared)
        if steps:
            _set_step_up(context, setup)
    except Ungradable as error:
        if not steps:
            raise
        why = clean(one_line(str(error), 1000))
        context.spoiled = context.spoiled or (FailureClass.UNGRADABLE, f"step {steps[number].name}: {why}")
        _skip_from(context, number, why)
        return False
    return True


def _set_step_up(context: TrialContext, setup: Setup) -> None:
    """Set a step up, where an agent may have worked in earlier steps: `Ungradable` if that fails twice after it."""
    step, is_later = context.current_step, context.progress.number > 0
    put = functools.partial(_put, context, setup.sandbox) if is_later else setup.sandbox.put
    for is_last in (False, True):
        if files := setup.files_of(step):
            put(files)
        try:
            setup.begin_step(step)
        except EnvironmentFailed as error:
            if not is_later or not context.suspects_agent:
                raise
            if is_last:
                raise Ungradable(f"what the agent left prevents the set-up: {error}") from error
            # A network that failed once is not the agent's fault.
        else:
            return


def _go_on(context: TrialContext, setup: Setup, prepared: Prepared) -> None:
    """Put the files and the instruction of a later turn or step in, in place of whatever the agent left there."""
    steps, command = context.trial.scenario.steps, prepared.command
    context.phases.enter_unless_cancelled("step" if steps else "feedback")
    needs = needs_of_all(context.trial.scenario.scorers if steps else (), context.services.scorers)
    files = open_directories(path for need in needs for path in need.leaves)
    if command is not None:
        if context.route is not None:
            context.route.again()
        # In a conversation, the agent keeps what it wrote into its directories, such as the conversation so far.
        directories = [file for file in command.files if file.content is None and file.source is None]
        own = agent_files(context, command, prepared.statement)
        files += (file for file in own if not context.is_conversation or file not in directories)
    _put(context, setup.sandbox, [dataclasses.replace(file, clean=True) for file in files])
    if not steps:
        context.drop_kept()
        context.redact_output()
        context.directory.set_turn_aside(context.turn)
        context.begin_turn(context.turn + 1)
        context.spoiled = None
    if not steps or steps[context.progress.number - 1].fresh_container is not None:
        # All processes ended, services among them.
        context.findings.notes += tuple(clean(one_line(note, 500)) for note in setup.again())


def _put(context: TrialContext, sandbox: Sandbox, files: Sequence[File]) -> None:
    """Put files in where an agent has worked."""

    def control() -> None:
        with untouched_sandbox(context, "control") as made:
            made.sandbox.put(files)

    why = "prevents another turn, which an untouched container allows"
    or_blame(context, lambda: sandbox.put(files), control, why)


def next_turn(context: TrialContext, prepared: Prepared) -> Prepared | None:
    """End a turn or step that was graded; return what is prepared for the next, None if there is none.

    Raises `AgentSetupFailed` where a requirement of the agent is missing.
    """
    trial, services = context.trial, context.services
    if not trial.scenario.steps:
        statement = _next_statement(context)
        if statement is None:
            return None
        following = trial.scenario.model_copy(update={"problem_statement": statement})
        return prepare_again(trial, services, prepared, following)
    step = context.current_step
    prepared.conversation.exchanges.append(Exchange(step.instruction, context.progress.reply or ""))
    if not _end_step(context):
        return None
    begin_step(context, context.progress.number + 1)
    return prepare_again(trial, services, prepared, context.scenario, continues=context.is_conversation)


def _next_statement(context: TrialContext) -> str | None:
    """Note the score of this turn; return the problem statement of the next turn, None if there is none."""
    findings, feedback = context.findings, context.scenario.feedback
    if feedback is None or findings.score is None:
        return None
    findings.turns += (findings.score,)
    end = findings.agent_end
    is_cut_short = end is not None and (
        end.timed_out or end.silent or end.limit is not None or end.ending is Ending.TRIAL_LIMIT
    )
    # `oracle` and `nop` would do the same again.
    is_last = not context.suspects_agent or context.turn >= feedback.turns
    if is_last or findings.score >= context.limits.threshold or is_cut_short:
        return None
    scorers = context.scenario.scorers
    spec = next((one for one in scorers if one.name == feedback.scorer), scorers[0])
    try:
        with (
            limited("feedback.replace", context.limits.scorer_timeout(spec)) as end_pattern,
            context.cancellation.interrupting(end_pattern),
        ):
            output = _output(context, feedback, spec)
            return statement_of(feedback, context.scenario.problem_statement, output)
    except (ScorerTimeout, ScorerCrashed) as error:
        context.cancellation.check()
        # What was to be replaced may be secret, so nothing is told. The score of this turn is one.
        context.note(f"{error}: no further turn")
        return None


def statement_of(feedback: Feedback, problem: str, output: str) -> str:
    """Return the problem statement of another turn, from the first one and the report on the scorer."""
    for pattern, text in feedback.replace:
        output = substitute(pattern, text, output)
    shown = end_of(output.strip("\n"), feedback.characters) or _NOTHING
    texts = {"problem": problem, "output": shown}
    return _PLACEHOLDER.sub(lambda match: texts[match[1]], feedback.statement)


def _output(context: TrialContext, feedback: Feedback, spec: ScorerSpec) -> str:
    """Return the report on the scorer."""
    directory = context.layout.scorer(spec.name)
    if not feedback.shows_output:
        score = next(one.score for one in context.findings.scorers if one.name == spec.name)
        return told(spec, directory, score)
    try:
        # The result has only the end of it.
        return (directory / "output.log").read_text("utf-8", "replace")
    except FileNotFoundError:
        return ""


def _end_step(context: TrialContext) -> bool:
    """Add the current step to the findings, and those that will not run; return True if another follows."""
    findings, progress, steps = context.findings, context.progress, context.trial.scenario.steps
    step = context.current_step
    context.redact_output()
    why = _last_because(context, step)
    graded = [one.model_copy(update={"step": step.name}) for one in findings.scorers]
    findings.steps += (
        StepResult(
            name=step.name,
            score=findings.score if step.scorers else None,
            scorers=tuple(one.name for one in graded),
            agent_end=findings.agent_end,
            start=progress.started,
            end=context.phases.now,
            artifacts=findings.artifacts,
            kept=findings.kept,
            path=context.layout.root.relative_to(context.directory.path).as_posix(),
        ),
    )
    if findings.agent_end is not None:
        progress.ends.append((step.name, findings.agent_end, context.limits))
    progress.scorers += graded
    findings.scorers = findings.artifacts = ()
    following = progress.number + 1
    if why is not None:
        _skip_from(context, following, f"step {step.name}: {why}")
    return why is None and following < len(steps)


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
    rewards = _rewards(context)
    for name, least in step.least.items():
        value = rewards.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"it has no {name}, of which the least is {least:g}"
        if value < least:
            return f"its {name} {value:g} is below the least, {least:g}"
    return None


def _rewards(context: TrialContext) -> Mapping[str, object]:
    """Return the rewards of the current step; `reward` is its score, unless a scorer names its rewards."""
    given = [one.details["rewards"] for one in context.findings.scorers if "rewards" in one.details]
    if not given:
        return {"reward": context.findings.score}
    return {name: value for rewards in given if isinstance(rewards, dict) for name, value in rewards.items()}


def _skip_from(context: TrialContext, number: int, why: str) -> None:
    """Add the steps from a number on to the findings: none of them runs."""
    rest = context.trial.scenario.steps[number:]
    context.findings.steps += tuple(StepResult(name=one.name, not_run=why) for one in rest)


def end_steps(context: TrialContext) -> None:
    """Make the context that of the whole trial, with the score and one log of all steps; once, if there are any."""
    findings, progress, scenario = context.findings, context.progress, context.trial.scenario
    if context.scenario is scenario:
        return
    known = {one.name for one in findings.steps}
    for step in scenario.steps:
        if step.name not in known:  # one that an error ended, and those behind it
            started = step.name == context.current_step.name
            why = "it was broken off" if started else "an earlier step was broken off"
            findings.steps += (StepResult(name=step.name, not_run=why),)
    context.redact_output()  # of a step that an error ended
    findings.scorers = (*progress.scorers, *findings.scorers)
    findings.metrics, findings.artifacts = all_metrics(findings.scorers), ()
    _merge_logs(context.directory.layout, [step.name for step in scenario.steps])
    context.narrow(scenario, context.directory.layout)
    findings.score = _score(context)


def _score(context: TrialContext) -> float | None:
    """Return the score of all steps; None if one could not be graded."""
    findings, scenario = context.findings, context.trial.scenario
    if any(one.error is not None for one in findings.scorers):
        return None
    scores = {one.name: one.score or 0.0 for one in findings.steps}
    if scenario.step_score is StepScore.FINAL:
        return scores[scenario.steps[-1].name]
    total = math.fsum(step.weight for step in scenario.steps)
    return min(1.0, math.fsum(step.weight * scores[step.name] for step in scenario.steps) / total)


def kept_states(context: TrialContext) -> Iterator[str | None]:
    """Yield the kept state of a trial to grade again, of each step where there are several; the caller grades it."""
    original, steps = context.original, context.trial.scenario.steps
    assert original is not None  # noqa: S101  the caller has looked
    if not steps:
        yield original.kept
    for number, step in enumerate(steps):
        begin_step(context, number)
        kept = next((one for one in original.steps if one.name == step.name), None)
        if kept is None or kept.kept is None:
            gone = "the trial that is graded again had no such step"
            why = gone if kept is None else kept.not_run or "nothing of it was kept"
            _skip_from(context, number, why)
            return
        context.findings.agent_end, context.findings.kept = kept.agent_end, kept.kept
        if context.is_conversation:
            _take_reply(context, kept_layout(original, context.config.directory).step(step.name))
        yield kept.kept
        if not _end_step(context):
            return


def _take_reply(context: TrialContext, kept: TrialLayout) -> None:
    """Take the agent's reply in a step from the files of a trial to grade again, if there is one."""
    with contextlib.suppress(OSError):
        context.progress.reply = kept.reply.read_text("utf-8", "replace")
    if context.progress.reply is not None:
        context.layout.reply.write_text(context.progress.reply, "utf-8", "replace")


def _merge_logs(layout: TrialLayout, steps: Sequence[str]) -> None:
    """Make one log and one trajectory of those of the steps. A full disk leaves them out: the parts are there."""
    parts = [(name, layout.step(name)) for name in steps]
    try:
        logs = [(name, part.agent_log) for name, part in parts if part.agent_log.is_file()]
        if logs:
            with CappedLog(layout.agent_log) as merged:
                for name, log in logs:
                    merged.write(f"=== step {name} ===\n".encode())
                    last = b"\n"
                    with log.open("rb") as file:
                        while chunk := file.read(_CHUNK):
                            merged.write(chunk)
                            last = chunk
                    if not last.endswith(b"\n"):
                        merged.write(b"\n")
        trajectories = [part.trajectory for _, part in parts if part.trajectory.is_file()]
        if len(trajectories) == 1:
            shutil.copyfile(trajectories[0], layout.trajectory)
        elif trajectories:
            merge_trajectories(trajectories, layout.trajectory)
    except (OSError, InfrastructureError):
        layout.trajectory.unlink(missing_ok=True)
