"""Untouched sandboxes, without any agent: for grading, or to find the cause of an error.

The first one for grading is made while the agent works, and each further one while a scorer runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator

from ..model.errors import EnvironmentFailed, UntouchedFailed
from ..model.scenario import FreshContainer
from ..sandbox.memory import MemorySandbox
from ..sandbox.protocol import Sandbox
from ..scoring.builtin import LOG_DIRECTORIES
from .ahead import Ahead
from .context import TrialContext
from .secrets import model_keys, without_keys
from .setup import Setup
from .start import bench_run_file, given_files, open_directories, spec_of


@dataclasses.dataclass(frozen=True, slots=True)
class Made:
    """A sandbox with the scenario's set-up."""

    sandbox: Sandbox
    setup: Setup

    def remove(self, context: TrialContext) -> None:
        """Remove it, and take over what it has to tell."""
        self.sandbox.remove()
        context.note_sandbox(self.sandbox)


def made_ahead(context: TrialContext) -> Ahead[Made]:
    """Return what makes them ahead for a trial."""
    return Ahead(functools.partial(make, context), lambda made: made.remove(context), context.cancellation)


def make(
    context: TrialContext,
    enter: Callable[[str], None],
    started: Callable[[Sandbox], None] = lambda _: None,
) -> Made:
    """Start a sandbox and set it up. `enter` is told of each phase, `started` of the sandbox; both may raise."""
    fresh, scenario = context.scenario.fresh_container or FreshContainer(), context.scenario
    if context.is_question:
        empty = MemorySandbox()
        return Made(empty, Setup(context, empty, scenario, enter))
    if fresh.environment is not None:
        scenario = scenario.model_copy(update={"environment": fresh.environment, "files": {}})
    environment = scenario.environment
    # `prepare` has checked the own variables of a fresh container for keys.
    withheld = model_keys(context.config) if fresh.environment is None else ()
    files = [*open_directories(LOG_DIRECTORIES), *given_files(scenario.files), *bench_run_file(context)]
    spec = spec_of(context, environment, without_keys(environment.env, withheld), files)
    sandbox = context.services.provider.start(dataclasses.replace(spec, grading=True), enter)
    made = Made(sandbox, Setup(context, sandbox, scenario, enter))
    try:
        with context.cancellation.interrupting(sandbox.kill):
            started(sandbox)
            made.setup.begin()
    except BaseException as error:
        made.remove(context)
        if isinstance(error, EnvironmentFailed):
            raise UntouchedFailed(str(error)) from error
        raise
    return made


@contextlib.contextmanager
def untouched_sandbox(context: TrialContext, phase: str) -> Iterator[Made]:
    """Make a sandbox in a phase, or take the one that was made ahead, and remove it at the end."""
    context.phases.enter_unless_cancelled(phase)
    made: Made | None = context.ahead.take() if context.ahead is not None and phase == FRESH else None
    made = made or make(context, lambda other: context.phases.enter_unless_cancelled(_phase(other, phase)))
    elsewhere = context.environment, context.access
    context.environment = made.setup.environment
    context.access = context.environment.access
    try:
        with context.cancellation.interrupting(made.sandbox.kill):
            context.cancellation.check()
            yield made
    finally:
        context.environment, context.access = elsewhere
        made.remove(context)


FRESH = "fresh"
"""Phase of a sandbox that the agent's files are carried into."""


def _phase(now: str, phase: str) -> str:
    """Return the phase to be told: starting a sandbox is part of what it is for, and setting it up is not."""
    return phase if now in ("image", "start") else now
