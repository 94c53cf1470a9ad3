"""Step 5: scorers grade what the agent left, in its own sandbox or in a fresh one.

The agent may be the cause if a scorer, or the engine, breaks: a pipe in place of a file, a link to /dev/zero, a
directory that leads to itself. To find out, the same is tried in an untouched sandbox, in which no agent was. If that
breaks too, it is an infrastructure error. If only the agent's work breaks it, twice, the score is 0.
"""

from __future__ import annotations

import contextlib
import posixpath
from pathlib import Path

from ..model.environ import HOST
from ..model.errors import (
    BROKEN_SCORER,
    EnvironmentFailed,
    FilesRefused,
    InfrastructureError,
    QuotaReached,
    ScorerTimeout,
    Ungradable,
)
from ..model.result import Failure, ScorerResult
from ..model.scenario import Grading, ScorerSpec
from ..sandbox.protocol import File, Sandbox
from ..scoring.grade import SCORER_VARIABLE, combine, make_context, run_scorer
from ..scoring.metrics import all_metrics
from ..scoring.needs import asks_model, context_variables, network_of
from ..sources.template import fill
from ..store.text import clean, one_line
from .asking import Asking, asking
from .context import TrialContext
from .ending import end_agent, put_back, some
from .fresh import Carried, deliver
from .ignored import without_ignored
from .setup import Setup
from .start import untouched_sandbox

_ANY_FILE = "/tmp/.bench"  # noqa: S108  in a container of nobody else


def grade(context: TrialContext, sandbox: Sandbox, setup: Setup) -> None:
    """Run the scorers in order; the score is in the findings."""
    scorers = context.scenario.scorers
    for number, spec in enumerate(scorers, 1):
        context.phases.enter_unless_cancelled(f"score:{spec.name}")
        graded = _run_scorer(context, sandbox, spec, context.layout.root)
        if graded.error is not None and context.suspects_agent and not _asks(context, spec):
            graded = _attribute(context, sandbox, setup, spec, graded)
        context.findings.scorers.append(graded)
        here = context.scenario.fresh_container is None
        if number < len(scorers) or (here and context.has_another_step):
            _end_scorer(context, sandbox, setup, graded)
    context.findings.score = combine(context.findings.scorers)
    context.findings.metrics = list(all_metrics(context.findings.scorers))


def grade_afresh(context: TrialContext, sandbox: Sandbox, carried: Carried) -> None:
    """Grade the files collected from `sandbox`, which is removed, in an untouched sandbox."""
    context.findings.notes += carried.notes
    with contextlib.closing(carried):
        if not context.goes_on:
            # Frees memory and processors for the next sandbox.
            sandbox.remove()
        with untouched_sandbox(context, "fresh") as (grader, setup):
            context.phases.enter_unless_cancelled("carry")
            try:
                _carry(context, carried, grader)
            except FilesRefused as error:
                # It was refused again and again. If anything else is taken, these files are why.
                if not context.suspects_agent:
                    raise
                grader.put([File(_ANY_FILE, content=b"")])
                raise Ungradable(
                    f"what the agent left cannot be put into a new container: {error}"
                ) from error
            grader.settle()  # files that were copied in are not restored between scorers
            grade(context, grader, setup)


def _carry(context: TrialContext, carried: Carried, grader: Sandbox) -> None:
    """Copy the collected files into the container for grading, as far as the scenario wants."""
    fresh = context.scenario.fresh_container
    if fresh is not None and fresh.patch and not fresh.ignored:
        carried = without_ignored(carried, grader)
    with contextlib.closing(carried):
        deliver(carried, grader)


def grade_untouched(context: TrialContext) -> None:
    """Grade an untouched sandbox in the same way; no result is kept.

    Raises:
        InfrastructureError: that fails, too.
    """
    with untouched_sandbox(context, "control") as (control, setup):
        _begin_steps(context, setup)
        _move_files(control)
        end_agent(control, context.limits.grading)
        for spec in context.scenario.scorers:
            if not _asks(context, spec):
                _run_scorer(context, control, spec, context.layout.control)


def _move_files(control: Sandbox) -> None:
    """Make each call that is about files, which grading an untouched sandbox may have no need of."""
    control.put([File(_ANY_FILE, content=b"x")])
    control.read(_ANY_FILE, limit=1)
    control.changed(posixpath.dirname(_ANY_FILE))


def _begin_steps(context: TrialContext, setup: Setup) -> None:
    """Set an untouched sandbox up for the steps so far, as far as that is possible without an agent's work."""
    for step in context.trial.scenario.steps[: context.progress.number + 1]:
        with contextlib.suppress(EnvironmentFailed):
            setup.begin_step(step)


def _asks(context: TrialContext, spec: ScorerSpec) -> bool:
    """Return True if a scorer asks a model. It is asked once, and whatever it does wrong is an error."""
    return asks_model((spec.type,), context.services.scorers)


def _run_scorer(context: TrialContext, sandbox: Sandbox, spec: ScorerSpec, directory: Path) -> ScorerResult:
    offline = context.config.check and context.trial.attempt > 1
    wanted = network_of(spec, context.services.scorers) or ("none" if offline else None)
    context.switch_network(sandbox, wanted, spec.allowed_hosts)
    with asking(context, spec) as ask:
        scoring = make_context(
            context.scenario,
            spec,
            sandbox,
            timeout=context.limits.scorer_timeout(spec),
            env={**context_variables(spec, context.services.scorers), **fill(spec.env, HOST)},
            directory=directory,
            params=context.params,
            is_reply=context.is_question,
            ask=ask,
            reply=context.progress.reply,
            probed=context.probed.get(spec.name),
        )
        graded = run_scorer(scoring, context.services.scorers[spec.type], context.redactor.redact_text)
    context.note_refused(sandbox, f"scorer {spec.name}")
    if ask is not None:
        graded = graded.model_copy(update={"usage": ask.usage})
        _check_quota(context, ask)
    context.cancellation.check()
    return graded


def _check_quota(context: TrialContext, ask: Asking) -> None:
    """Check that the quota of a scorer's model is not used up, if the job waits for it or pauses.

    Raises:
        QuotaReached: it is; the whole trial runs again, when the quota is back.
    """
    if ask.quota is None or context.is_driven:
        return
    if context.services.on_cut(context.trial, context.counted):
        raise QuotaReached(ask.quota)


def _attribute(
    context: TrialContext, sandbox: Sandbox, setup: Setup, spec: ScorerSpec, broken: ScorerResult
) -> ScorerResult:
    """Find the cause of a broken scorer; return its result, or a score of 0 if the agent is the cause."""
    assert broken.error is not None  # noqa: S101  callers have looked
    try:
        with untouched_sandbox(context, f"control:{spec.name}") as (control, fresh_setup):
            _begin_steps(context, fresh_setup)
            again = _run_scorer(context, control, spec, context.layout.control)
    except InfrastructureError as error:
        context.note(f"whether the agent broke scorer {spec.name}", error)
        return broken
    if again.error is not None:
        return _without_agent(broken, again.error)
    context.phases.enter_unless_cancelled(f"score:{spec.name}")
    _end_scorer(context, sandbox, setup, broken)
    again = _run_scorer(context, sandbox, spec, context.layout.root)
    if again.error is None:
        context.note(
            f"scorer {spec.name} broke once, and graded the same when it ran again: "
            f"{clean(one_line(broken.error.message, 300))}"
        )
        return again
    context.spoiled = (
        f"the agent's work breaks grading, which works in an untouched container: {again.error.message}"
    )
    return again.model_copy(
        update={"score": 0.0, "error": None, "metrics": (), "details": {"broke": again.error.message}}
    )


def _without_agent(broken: ScorerResult, again: Failure) -> ScorerResult:
    """Return a broken scorer's result, whose message says that it breaks without the agent's work, too."""
    assert broken.error is not None  # noqa: S101  the caller has looked
    how = "" if again.class_ == broken.error.class_ else f" ({again.class_})"
    advice = (
        ": a scorer has to cope with an agent that left nothing"
        if broken.error.class_ in BROKEN_SCORER
        else ""
    )
    message = f"{broken.error.message}; it breaks in an untouched container, too{how}{advice}"
    return broken.model_copy(update={"error": broken.error.model_copy(update={"message": message})})


def _end_scorer(context: TrialContext, sandbox: Sandbox, setup: Setup, graded: ScorerResult) -> None:
    """End the processes of a scorer, including the agent's code it ran, and restore changed programs."""
    timed_out = graded.error is not None and graded.error.class_ == ScorerTimeout.code
    if context.limits.grading is Grading.CONTRACT:
        _put_programs_back(context, sandbox, graded)  # the shell that ends them, too
        sandbox.end_commands(SCORER_VARIABLE)
        _put_programs_back(context, sandbox, graded)
        return
    ends = timed_out or bool(sandbox.processes())
    if ends:
        sandbox.end_processes()
    _put_programs_back(context, sandbox, graded)
    if ends:
        context.findings.notes += (clean(one_line(note, 500)) for note in setup.again())


def _put_programs_back(context: TrialContext, sandbox: Sandbox, graded: ScorerResult) -> None:
    """Restore programs that the agent's code may have changed when a scorer ran it."""
    if not context.suspects_agent:
        return
    if undone := put_back(sandbox, context.put_back):
        context.put_back += undone
        context.note(f"put back after scorer {graded.name}: {some(undone)}")
