"""Further turns of an agent whose work does not pass, where the scenario gives feedback.

The agent continues in its own sandbox, in which no scorer ran: each turn is graded in a fresh one. Each turn is a new
process, which knows only its problem statement. Limits and usage of models are those of all turns together, timeouts
apply to each turn.

A turn that does not end by itself is the last one, and so is one that breaks. `oracle` and `nop` have one turn, as they
would do the same again, and so has a rescore, of the kept state of the last turn.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from ..agents.protocol import PROBLEM_FILE
from ..agents.usage import USAGE_DIRECTORY
from ..model.ending import Ending
from ..model.errors import (
    EngineError,
    EngineLost,
    EnvironmentFailed,
    FilesRefused,
    ScorerCrashed,
    ScorerTimeout,
    Ungradable,
)
from ..model.result import AgentEnd
from ..model.scenario import Feedback, ScorerSpec
from ..sandbox.door import door_file
from ..sandbox.protocol import File, Sandbox
from ..scoring.patterns import limited, substitute
from ..scoring.told import told
from ..store.text import clean, one_line
from ..system.cutting import end_of
from .connection import Connection
from .context import TrialContext
from .prepare import Prepared, prepare_turn
from .redacting import redact_output
from .setup import Setup
from .untouched import untouched_sandbox

_NOTHING = "The tests printed nothing."
_PLACEHOLDER = re.compile(r"\{(problem|output)\}")


def next_turn(context: TrialContext, prepared: Prepared) -> Prepared | None:
    """Note the score of this turn; return the prepared next turn, None if there is none.

    Raises:
        AgentSetupFailed: a requirement of the agent is missing.
    """
    findings, feedback = context.findings, context.scenario.feedback
    if feedback is None or context.original is not None or findings.score is None:
        return None
    findings.turns.append(findings.score)
    if (
        not context.has_another_turn
        or findings.score >= context.limits.threshold
        or _is_cut_short(findings.agent_end)
    ):
        return None
    spec = _graded_by(context, feedback)
    try:
        with (
            limited("feedback.replace", context.limits.scorer_timeout(spec)) as end_pattern,
            context.cancellation.interrupting(end_pattern),
        ):
            statement = statement_of(
                feedback, context.scenario.problem_statement, _told(context, feedback, spec)
            )
    except (ScorerTimeout, ScorerCrashed) as error:
        context.cancellation.check()
        # What was to be replaced may be secret, so nothing is told. The score of this turn is one.
        findings.notes.append(f"{error}: no further turn")
        return None
    return prepare_turn(context.trial, context.services, prepared, statement)


def begin_turn(
    context: TrialContext,
    sandbox: Sandbox,
    setup: Setup,
    prepared: Prepared,
    connection: Connection | None,
) -> None:
    """Make the sandbox ready for another turn, and reset the findings about the last one except its score.

    Raises:
        GatewayLost: the gateway is gone.
        InfrastructureError: the engine failed.
        Ungradable: the agent's work made it fail.
    """
    context.phases.enter_unless_cancelled("feedback")
    put_for_turn(context, sandbox, files_of_turn(context, prepared, connection))
    context.drop_kept()
    redact_output(context)
    context.directory.set_turn_aside(context.turn)
    context.begin_turn()
    context.findings.notes += (clean(one_line(note, 500)) for note in setup.again())


def files_of_turn(
    context: TrialContext, prepared: Prepared, connection: Connection | None, *, keeps_state: bool = False
) -> list[File]:
    """Return the files of an agent for another turn, and let it call its models again.

    Args:
        context: The context of the trial.
        prepared: The prepared turn.
        connection: The connection to its models.
        keeps_state: Leave what the agent wrote into its directories, such as its conversation so far.

    Raises:
        GatewayLost: the gateway is gone.
    """
    command = prepared.command
    assert command is not None  # noqa: S101  callers have looked
    files = [File(PROBLEM_FILE, content=prepared.statement.encode("utf-8", "replace"))]
    files += (
        file
        for file in command.files
        if not keeps_state or file.content is not None or file.source is not None
    )
    if connection is not None:
        connection.route.again()
        if command.host is None:
            files.append(door_file(context.services.provider.machine()))
    if context.tells_usage:
        files.append(File(USAGE_DIRECTORY, mode=0o777))
    return files


def put_for_turn(
    context: TrialContext, sandbox: Sandbox, files: Sequence[File], *, clean_first: bool = True
) -> None:
    """Put files in; if that fails, find the cause by the same in an untouched sandbox.

    `clean_first`: remove anything the agent left at their paths.

    Raises:
        Ungradable: the agent's work prevents it.
        InfrastructureError: the engine failed.
    """
    if clean_first:
        files = [dataclasses.replace(file, clean=True) for file in files]
    try:
        sandbox.put(files)
    except (EngineError, EngineLost, EnvironmentFailed):
        with untouched_sandbox(context, "control") as control:
            control.sandbox.put(files)
        try:
            sandbox.put(files)
        except (FilesRefused, EnvironmentFailed) as again:
            raise Ungradable(
                f"the agent's work prevents another turn, which an untouched container allows: {again}"
            ) from again


def statement_of(feedback: Feedback, problem: str, output: str) -> str:
    """Return the problem statement of another turn, from the first one and what is told of the scorer."""
    for pattern, text in feedback.replace:
        output = substitute(pattern, text, output)
    shown = end_of(output.strip("\n"), feedback.characters) or _NOTHING
    texts = {"problem": problem, "output": shown}
    return _PLACEHOLDER.sub(lambda match: texts[match[1]], feedback.statement)


def _graded_by(context: TrialContext, feedback: Feedback) -> ScorerSpec:
    """Return the scorer that is told of."""
    scorers = context.scenario.scorers
    return next((one for one in scorers if one.name == feedback.scorer), scorers[0])


def _told(context: TrialContext, feedback: Feedback, spec: ScorerSpec) -> str:
    """Return what is told of the scorer."""
    directory = context.layout.scorer(spec.name)
    if not feedback.shows_output:
        return told(
            spec, directory, next(one.score for one in context.findings.scorers if one.name == spec.name)
        )
    try:
        # The result has only the end of it.
        return (directory / "output.log").read_text("utf-8", "replace")
    except FileNotFoundError:
        return ""


def _is_cut_short(end: AgentEnd | None) -> bool:
    """Return True if the agent did not end by itself, so that its trial has failed."""
    return end is not None and (
        end.timed_out or end.silent or end.limit is not None or end.ending is Ending.TRIAL_LIMIT
    )
