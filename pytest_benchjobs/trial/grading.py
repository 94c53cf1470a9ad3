"""Step 5: scorers grade what the agent left, in its own sandbox or in a fresh one.

What a scorer, or the engine, breaks on may be the agent's doing: a pipe in place of a file, a link to /dev/zero, a
directory that leads to itself. To find out, the same is tried in a sandbox that the agent has never been in. What
breaks there too is broken. What breaks only on the agent's work, and again, is worth 0.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from ..model.environ import HOST
from ..model.errors import EngineError, InfrastructureError, ScorerTimeout, Ungradable
from ..model.result import ScorerResult
from ..model.scenario import Grading, ScorerSpec
from ..sandbox.protocol import Sandbox
from ..scoring.grade import SCORER_VARIABLE, combine, make_context, run_scorer
from ..sources.template import fill
from ..store.text import clean, one_line
from .context import TrialContext
from .ending import end_agent, put_back, some
from .fresh import Carried, deliver
from .ignored import without_ignored
from .setup import Setup
from .start import untouched_sandbox


def grade(context: TrialContext, sandbox: Sandbox, setup: Setup) -> None:
    """Run the scorers in their order; the score is in the findings."""
    scorers = context.scenario.scorers
    for number, spec in enumerate(scorers, 1):
        context.phases.enter_unless_cancelled(f"score:{spec.name}")
        graded = _run_scorer(context, sandbox, spec, context.layout.root)
        if graded.error is not None and context.suspects_agent:
            graded = _attribute(context, sandbox, setup, spec, graded)
        context.findings.scorers.append(graded)
        if number < len(scorers):
            _end_scorer(context, sandbox, setup, graded)
    context.findings.score = combine(context.findings.scorers)


def grade_afresh(context: TrialContext, sandbox: Sandbox, carried: Carried) -> None:
    """Grade what was collected from `sandbox`, which is removed, in one that the agent has never been in."""
    context.findings.notes += carried.taken.notes
    with contextlib.closing(carried.taken.archive):
        if not context.has_another_turn:
            # Its memory and its processors are for the next one.
            sandbox.remove()
        with untouched_sandbox(context, "fresh") as (grader, setup):
            context.phases.enter_unless_cancelled("carry")
            try:
                _carry(context, carried, grader)
                grader.settle()  # what was carried is not undone between scorers
            except EngineError as error:
                if not context.suspects_agent:
                    raise
                raise Ungradable(
                    f"what the agent left cannot be put into a new container: {error}"
                ) from error
            grade(context, grader, setup)


def _carry(context: TrialContext, carried: Carried, grader: Sandbox) -> None:
    """Put what was collected into the container for grading, as far as the scenario wants it there."""
    fresh = context.scenario.fresh_container
    if fresh is not None and fresh.patch and not fresh.ignored:
        carried = without_ignored(carried, grader)
    with contextlib.closing(carried.taken.archive):
        deliver(carried, grader)


def grade_untouched(context: TrialContext) -> None:
    """Do to a sandbox that the agent has never been in what is done to one that is graded; no result is kept.

    Raises:
        InfrastructureError: that fails, too.
    """
    with untouched_sandbox(context, "control") as (control, _):
        end_agent(control, context.limits.grading)
        for spec in context.scenario.scorers:
            _run_scorer(context, control, spec, context.layout.control)


def _run_scorer(context: TrialContext, sandbox: Sandbox, spec: ScorerSpec, directory: Path) -> ScorerResult:
    context.switch_network(sandbox, spec.network)
    scoring = make_context(
        context.scenario,
        spec,
        sandbox,
        timeout=context.limits.scorer_timeout(spec),
        env=fill(spec.env, HOST),
        directory=directory,
        params=context.params,
        is_reply=context.is_question,
    )
    graded = run_scorer(scoring, context.services.scorers[spec.type], context.redactor.redact_text)
    context.cancellation.check()
    return graded


def _attribute(
    context: TrialContext, sandbox: Sandbox, setup: Setup, spec: ScorerSpec, broken: ScorerResult
) -> ScorerResult:
    """Find out whose doing it is that a scorer broke; returns its result, or one worth 0 if it is the agent's."""
    assert broken.error is not None  # noqa: S101  callers have looked
    try:
        with untouched_sandbox(context, f"control:{spec.name}") as (control, _):
            again = _run_scorer(context, control, spec, context.layout.control)
    except InfrastructureError as error:
        context.note(f"whether the agent broke scorer {spec.name}", error)
        return broken
    if again.error is not None:
        return broken
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
    return again.model_copy(update={"score": 0.0, "error": None, "details": {"broke": again.error.message}})


def _end_scorer(context: TrialContext, sandbox: Sandbox, setup: Setup, graded: ScorerResult) -> None:
    """End what a scorer started, or the agent's code that it ran, and undo what that did to programs."""
    timed_out = graded.error is not None and graded.error.class_ == ScorerTimeout.code
    if context.limits.grading is Grading.CONTRACT:
        _put_programs_back(context, sandbox, graded)  # the shell that ends the commands is one of them
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
    """Put programs back that code of the agent may have changed when a scorer ran it."""
    if not context.suspects_agent:
        return
    if undone := put_back(sandbox, context.put_back):
        context.put_back += undone
        context.note(f"put back after scorer {graded.name}: {some(undone)}")
