"""The steps of a trial, in their order.

    0. prepare    prepare.py     check everything it needs, get the agent's command; nothing is spent yet
    1. image      sandboxes.py   resolve the image: found, pulled, or built once per machine
    2. start      sandboxes.py   create, fill and start a sandbox, with its limits and a deadline of its own
    3. work       sandboxes.py   run the scenario's set-up steps, wait for its health check
                  run_agent.py   run the agent until it ends, times out or exceeds a limit
    4. end        end_agent.py   kill the processes of the agent; read usage, keep the file system
    5. grade      artifacts.py   fetch artifacts, before scorers can change them
                  grading.py     put scorers in, never earlier, and run them in order
                  fresh.py       what the agent left is carried into fresh sandboxes, unless the scenario says otherwise
    6. again      turns.py       where the scenario gives feedback, and the score does not pass: 3 to 5 once more;
                                 where the scenario has several steps: 3 to 5 for each of them
    7. hold       run_agent.py   where the agent is driven from outside: leave the sandbox until its driver is done
    8. commit     outcome.py     score and ending -> outcome
                  run.py         redact, write the result

The sandbox is removed, and the connection to models closed, whatever happens.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import TypeVar

from ..agents.builtin import Nop, Oracle
from ..agents.capabilities import incompatibility
from ..agents.protocol import AgentCommand
from ..model.errors import ContainerLost, EngineError, EnvironmentFailed, InfrastructureError, Ungradable
from ..model.job import Keep
from ..model.result import Outcome
from ..model.scenario import GradeIn
from ..sandbox.protocol import Sandbox, Watches
from ..sandbox.runner import ActsInside
from ..sandbox.shell import shell
from ..scoring.needs import collecting, runs_programs
from ..scoring.output import Tail
from ..store.kept_names import kept_name
from ..store.text import clean
from ..system.cutting import beginning_of
from .answering import keep_answer
from .artifacts import keep_artifacts
from .context import TrialContext
from .end_agent import end_agent, some
from .fresh import Carried, check_place, collect, differing, service_of
from .grading import Place, grade, grade_untouched
from .outcome import decide
from .prepare import Prepared, prepare
from .run_agent import connection_to_models, hold_sandbox, read_usage, run_agent
from .sandboxes import Ahead, Setup, agent_sandbox, or_blame, untouched_sandbox
from .signature import graded_anew, signature
from .turns import begin_step, end_steps, kept_states, make_ready, next_turn

_T = TypeVar("_T")


def run_steps(context: TrialContext) -> Outcome:
    """Run one try of a trial, from its start to its score; the results are in `context.findings`.

    Cancelled: the trial was asked to stop. Ungradable: nothing can be graded, and the agent is the cause. Exception: an
    `InfrastructureError`, or anything that agents and scorers of plugins raise.
    """
    prepared = context.prepared or prepare(context.trial, context.services)
    command = None if context.original is not None else prepared.command
    if context.config.ignore_capabilities and (why := incompatibility(context.scenario, prepared.agent)):
        context.note(f"{why}; it ran all the same, because of --bench-ignore-capabilities")
    trusted = prepared.agent.trusted
    # The reference is the author's own work, and `nop` does nothing: neither is the cause of a broken scorer.
    context.suspects_agent = prepared.command is not None and not trusted
    context.tells_usage = command is not None and not command.endpoints and not trusted
    if command is not None:
        context.findings.agent_version = command.version
    context.ahead = Ahead(context)
    with contextlib.closing(context.ahead), connection_to_models(context, command, prepared.keys):
        try:
            if context.original is None:
                return _run(context, prepared, command)
            for kept in kept_states(context):
                with agent_sandbox(context, None, kept) as setup:
                    _begin(context, setup, prepared)
                    _grade(context, setup.sandbox)
            end_steps(context)
            return decide(context, prepared.agent)
        finally:
            end_steps(context)


def _run(context: TrialContext, prepared: Prepared, command: AgentCommand | None) -> Outcome:
    """Run an agent and grade its work, until no turn or step follows; `command` is None where no agent runs."""
    if context.trial.scenario.steps:
        begin_step(context, 0)
    with agent_sandbox(context, command) as setup:
        sandbox = setup.sandbox
        _begin(context, setup, prepared)
        while make_ready(context, setup, prepared):
            _run_agent(context, sandbox, prepared)
            _grade(context, sandbox)
            _note_differences(context, prepared, sandbox)
            following = next_turn(context, prepared)
            if following is None:
                break
            prepared = following
        end_steps(context)
        outcome = decide(context, prepared.agent)
        if outcome is Outcome.PASSED and context.config.keep is Keep.FAILED:
            context.drop_kept()
        hold_sandbox(context, sandbox, prepared, outcome)
        return outcome


def _run_agent(context: TrialContext, sandbox: Sandbox, prepared: Prepared) -> None:
    """Run the agent; meanwhile the container for grading is made, if that takes nothing that is scarce.

    Where none is needed, its own is watched: what a reference changes there is the answer, which only a check asks for.
    """
    scenario = context.scenario
    scarce = scenario.environment.gpus or scenario.environment.compose
    runs = runs_programs(scenario.scorers, context.services.scorers)
    if context.ahead is not None and scenario.fresh_container is not None and runs and not scarce:
        context.ahead.begin()
    is_asked = context.suspects_agent or context.config.check
    if scenario.fresh_container is None and is_asked and isinstance(sandbox, Watches):
        sandbox.watch()
    run_agent(context, sandbox, prepared)


def _begin(context: TrialContext, setup: Setup, prepared: Prepared) -> None:
    """Set the sandbox up, unless it is that of a kept trial; now all parts of the signature are known."""
    findings, scenario, scorers = context.findings, context.trial.scenario, context.services.scorers
    findings.signature = signature(context.scenario, prepared.parts, setup.sandbox.image.key)
    if context.original is not None:
        findings.signature = graded_anew(context.original.signature, findings.signature)
        _probe(context, None)
        return
    for fresh in scenario.places:
        if fresh is not None and runs_programs(scenario.scorers, scorers):
            check_place(setup.sandbox, fresh)
    setup.begin()
    _probe(context, setup.sandbox)
    context.services.check_room()


def _probe(context: TrialContext, sandbox: Sandbox | None) -> None:
    """Have scorers look at a container without an agent, before anything is spent; without `sandbox`, at a new one."""
    found = [
        (spec, probe)
        for spec in context.trial.scenario.graded_here
        if (probe := context.needs(spec).probe) is not None
    ]
    if not found or context.probed:
        return
    context.phases.enter_unless_cancelled("probe")
    with contextlib.ExitStack() as opened:
        if sandbox is None:
            sandbox = opened.enter_context(untouched_sandbox(context, "probe")).sandbox
        for spec, probe in found:
            context.probed[spec.name] = probe(spec, sandbox, context.cancellation.check)


def _grade(context: TrialContext, sandbox: Sandbox) -> None:
    """End the agent, and grade its work, here or in fresh sandboxes."""
    with contextlib.ExitStack() as inside:
        if context.scenario.fresh_container is None and isinstance(sandbox, ActsInside):
            inside.enter_context(sandbox.inside())
        carried = _or_blame(context, lambda: _end_and_grade(context, sandbox))
    if carried is not None:
        with contextlib.closing(carried):
            _or_blame(context, lambda: grade(context, Place(context, sandbox, carried)))
        _refuse_less(context, sandbox)


def _or_blame(context: TrialContext, attempt: Callable[[], _T]) -> _T:
    """Do a part of grading; where the engine fails, find out whether the agent is the cause."""
    return or_blame(
        context,
        attempt,
        lambda: grade_untouched(context),
        "breaks the engine, which can handle an untouched container",
        "the agent's work could be graded only at the second try",
    )


def _refuse_less(context: TrialContext, sandbox: Sandbox) -> None:
    """Raise `EnvironmentFailed` where a trial scores less because it is graded again without something that it left."""
    fresh, score, before = context.scenario.fresh_container, context.findings.score, _score_before(context)
    if fresh is None or not fresh.is_workdir or score is None or before is None or score >= before:
        return
    with untouched_sandbox(context, "compare") as untouched:
        found = differing(sandbox, untouched.sandbox, fresh, fleeting=True)
    if found:
        raise EnvironmentFailed(
            f"it scored {before:g} in the agent's container, and scores {score:g} in a fresh one, without "
            f"{some(found)}; name that in `carry`, or rescore with `-- --bench-grade-in agent_container`"
        )


def _score_before(context: TrialContext) -> float | None:
    """Return what was scored in the agent's container, as all was in earlier versions, if that is graded again now."""
    original = context.original
    if original is None or original.graded_in is GradeIn.FRESH:
        return None
    if not context.trial.scenario.steps:
        return original.score
    return next((one.score for one in original.steps if one.name == context.current_step.name), None)


def _note_differences(context: TrialContext, prepared: Prepared, sandbox: Sandbox) -> None:
    """Note what the scenario's `carry` may lack.

    What a reference that does not pass in a fresh sandbox changed may be of the work. Where an agent of a check does
    nothing, it is the set-up that makes something else each time.
    """
    fresh, score = context.scenario.fresh_container, context.findings.score
    if fresh is None or context.findings.graded_in is None or context.trial.scenario.steps:
        return
    is_reference = isinstance(prepared.agent, Oracle)
    if is_reference and (score is None or score < context.limits.threshold):
        what = "not there for grading, unless `carry` names it"
    elif isinstance(prepared.agent, Nop) and context.config.check and context.scenario.environment.setup:
        what = "the set-up makes something else each time; `carry` has to name it if it is graded"
    else:
        return
    with (
        contextlib.suppress(InfrastructureError, Ungradable),
        untouched_sandbox(context, "compare") as untouched,
    ):
        if found := differing(sandbox, untouched.sandbox, fresh, fleeting=is_reference):
            context.note(f"{what}: {some(found, 20)}")


def _end_and_grade(context: TrialContext, sandbox: Sandbox) -> Carried | None:
    """End the agent, and grade its work; return the files to grade in fresh sandboxes."""
    if context.original is None and not context.is_ended:
        _end(context, sandbox)
        read_usage(context, sandbox)
        context.is_ended = True
    _keep(context, sandbox)
    context.findings.artifacts = ()
    _collect(context, sandbox)
    findings, fresh = context.findings, context.scenario.fresh_container
    if findings.agent_end is not None and findings.agent_end.limit is not None:
        findings.score = 0.0
        return None
    runs = runs_programs(context.scenario.scorers, context.services.scorers)
    if fresh is None or not runs:
        if runs:
            findings.graded_in = GradeIn.AGENT_CONTAINER
        grade(context, Place(context, sandbox))
        return None
    findings.graded_in = findings.graded_in or GradeIn.FRESH
    context.phases.enter_unless_cancelled("carry")
    return collect(sandbox, fresh)


def _end(context: TrialContext, sandbox: Sandbox) -> None:
    """End the agent, so that nothing it started sees or touches the grading, except daemons where it is in place."""
    context.phases.enter_unless_cancelled("end")
    findings, scenario = context.findings, context.scenario
    in_place = scenario.fresh_container is None
    context.ended = end_agent(sandbox, in_place=in_place, most=scenario.environment.pids)
    findings.notes += context.ended.notes
    if (end := findings.agent_end) is not None:
        # What it left running may have gone on.
        limit = sandbox.limit_hit() if context.ended.leftovers and end.limit is None else end.limit
        findings.agent_end = end.model_copy(update={**dataclasses.asdict(context.ended), "limit": limit})


def _keep(context: TrialContext, sandbox: Sandbox) -> None:
    """Keep the file system as the agent left it, before grading; an answer always, also in a rescore."""
    if context.is_question:
        context.findings.kept = keep_answer(context.scenario, sandbox, context.layout, context.redactor)
        return
    if context.config.keep is Keep.NEVER or context.original is not None:
        return
    context.phases.enter_unless_cancelled("keep")
    step = context.turn if context.trial.scenario.steps else None
    try:
        name = kept_name(context.services.bundle.id, context.trial.node_id, step)
        context.findings.kept = sandbox.keep(name)
    except InfrastructureError as error:
        # The trial is paid for: grade it even if it cannot be kept.
        context.note(f"could not be kept: {clean(str(error), 500)}")


def _collect(context: TrialContext, sandbox: Sandbox) -> None:
    """Run the collect commands of scorers before grading, and fetch the artifacts of the scenario."""
    for command in collecting(context.scenario.scorers, context.services.scorers):
        context.phases.enter_unless_cancelled("collect")
        timeout = command.timeout * context.config.timeout_multiplier
        container = service_of(sandbox, command.service)
        try:
            result = container.exec(shell(command.command), timeout=timeout, sink=Tail(), user=command.user)
        except (ContainerLost, EngineError) as error:
            if container is sandbox:
                raise
            # Such as of a service that has ended.
            context.note(
                f"collect command of service {command.service} failed: {beginning_of(command.command, 200)}",
                error,
            )
            continue
        if result.exit_status != 0:
            context.note(f"collect command failed: {beginning_of(command.command, 200)}")
        if result.timed_out and container is sandbox and context.scenario.fresh_container is not None:
            sandbox.end_processes()
    kept, notes = keep_artifacts(
        sandbox,
        context.scenario.artifacts,
        context.layout.artifacts,
        lambda: context.phases.enter_unless_cancelled("artifacts"),
    )
    context.findings.artifacts += tuple(kept)
    context.findings.notes += tuple(notes)
