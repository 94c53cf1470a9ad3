"""Steps 1 and 2: the sandbox of the agent, resolved, created and started; and untouched ones, without any agent.

Those are for grading, or to find the cause of an error. The first one for grading is made while the agent works, and
each further one while a scorer runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from ..agents.protocol import PROBLEM_FILE, AgentCommand
from ..agents.usage import USAGE_DIRECTORY
from ..model.errors import (
    EngineError,
    EngineLost,
    EnvironmentFailed,
    FilesRefused,
    InfrastructureError,
    Ungradable,
    UntouchedFailed,
)
from ..model.scenario import Environment, FreshContainer
from ..sandbox.door import door_file
from ..sandbox.memory import MemorySandbox
from ..sandbox.program import program_file
from ..sandbox.protocol import File, SandboxSpec
from ..scoring.bench_run import BENCH_RUN, HOME, MODULE, MODULE_SOURCE
from ..scoring.builtin import LOG_DIRECTORIES
from ..scoring.needs import directories_before, has_bench_run
from .ahead import Ahead
from .answering import kept_answer
from .cancellation import Cancellation
from .context import TrialContext
from .limits import Limits
from .secrets import model_keys, without_keys
from .setup import Setup

FRESH = "fresh"
"""Phase of a sandbox that the agent's files are carried into."""
_T = TypeVar("_T")


@contextlib.contextmanager
def agent_sandbox(
    context: TrialContext, command: AgentCommand | None, kept: str | None = None
) -> Iterator[Setup]:
    """Start the agent's sandbox, not set up yet, and remove it at the end, whatever happened.

    A rescore starts from the `kept` file system. `command` is None where no agent runs.
    """
    original, scenario = context.original, context.scenario
    if context.is_question:
        directory = context.config.directory
        empty = MemorySandbox() if original is None else kept_answer(scenario, original, directory)
        yield Setup(context, empty, scenario)
        return
    files = () if original is not None else _files(context, command)
    spec = spec_of(context, scenario.environment, files)
    trusted = original is None and not context.suspects_agent
    spec = dataclasses.replace(spec, kept=kept, trusted=trusted)
    if command is not None:
        longer = command.patience + (_limits(context).held if command.endpoints else 0.0)
        door = [context.connection.mount] if context.connection and command.host is None else []
        mounts = (*command.mounts, *door)
        spec = dataclasses.replace(spec, mounts=mounts, deadline=spec.deadline + longer)
    context.cancellation.check()
    sandbox = context.services.provider.start(spec, context.phases.enter_unless_cancelled)
    setup = Setup(context, sandbox, scenario)
    try:
        context.findings.image = sandbox.image
        with context.cancellation.interrupting(sandbox.kill):
            context.cancellation.check()
            yield setup
    finally:
        context.phases.enter("remove")
        setup.remove()


def _files(context: TrialContext, command: AgentCommand | None) -> Iterator[File]:
    """Yield the files to put in before the agent starts."""
    scenario, scorers = context.trial.scenario, context.trial.scenario.scorers
    yield from given_files(scenario.files)
    if None in scenario.places:  # it is graded here
        yield from bench_run_file(context)
    yield from open_directories(directories_before(scorers, context.services.scorers))
    yield from agent_files(context, command, context.scenario.statement_in_container)


def agent_files(context: TrialContext, command: AgentCommand | None, statement: str) -> Iterator[File]:
    """Yield the files of an agent for one turn: its problem statement, its own files, and the door to its models."""
    yield File(PROBLEM_FILE, content=statement.encode("utf-8", "replace"))
    if command is not None:
        yield from command.files
        if context.connection is not None and command.host is None:
            yield door_file(context.services.provider.machine())
    if context.tells_usage:
        yield from open_directories((USAGE_DIRECTORY,))


def bench_run_file(context: TrialContext) -> list[File]:
    """Return the client of `bench-run`, if commands of a scorer have it, and there is one for such a machine."""
    if not has_bench_run(context.trial.scenario.scorers, context.services.scorers):
        return []
    # Sandboxes that cannot be without our program say so themselves.
    with contextlib.suppress(EnvironmentFailed):
        if (program := program_file(context.services.provider.machine())) is not None:
            client = dataclasses.replace(program, path=BENCH_RUN)
            return [client, File(MODULE, source=MODULE_SOURCE, readable=True), *open_directories((HOME,))]
    return []


def given_files(files: Mapping[str, Path]) -> list[File]:
    """Return the files of a scenario."""
    return [File(path, source=source) for path, source in files.items()]


def open_directories(paths: Iterable[str]) -> list[File]:
    """Return directories with write permission for everybody."""
    return [File(path, mode=0o777) for path in paths]


def spec_of(
    context: TrialContext, environment: Environment, files: Iterable[File], *, with_keys: bool = False
) -> SandboxSpec:
    """Return the sandbox spec of this trial, with these files, and without keys of models unless `with_keys`."""
    limits, services = context.limits, context.services
    env = without_keys(environment.env, () if with_keys else model_keys(context.config))
    return SandboxSpec(
        environment=environment.model_copy(update={"env": env, "setup_timeout": limits.setup_timeout}),
        labels={
            "job": services.bundle.id,
            "trial": context.trial.node_id,
            "bundle": str(services.bundle.root.absolute()),
        },
        network=environment.network,
        allowed_hosts=environment.access.allowed_hosts,
        limited=context.trial.scenario.is_limited(environment),
        deadline=_limits(context).deadline(services.scorers),
        files=tuple(files),
        image_map=context.config.image_map,
        build_args=context.config.build_args,
    )


def _limits(context: TrialContext) -> Limits:
    """Return the limits of the whole trial, not of one of its steps."""
    return Limits(context.trial.scenario, context.config)


def made_ahead(context: TrialContext) -> Ahead[Setup]:
    """Return what makes untouched sandboxes ahead for a trial."""

    def ahead(own: Cancellation) -> Setup:
        def check(_phase: str) -> None:
            own.check()
            context.cancellation.check()

        return make(context, check, own)

    return Ahead(ahead, Setup.remove, context.cancellation)


def make(context: TrialContext, enter: Callable[[str], None], own: Cancellation | None = None) -> Setup:
    """Start an untouched sandbox and set it up. `enter` is told of each phase, and may raise; `own` interrupts, too."""
    fresh, scenario = context.scenario.fresh_container or FreshContainer(), context.scenario
    if context.is_question:
        return Setup(context, MemorySandbox(), scenario, enter)
    if fresh.environment is not None:
        scenario = scenario.model_copy(update={"environment": fresh.environment, "files": {}})
    files = [*open_directories(LOG_DIRECTORIES), *given_files(scenario.files), *bench_run_file(context)]
    # `prepare` has checked the own variables of a fresh container for keys.
    spec = spec_of(context, scenario.environment, files, with_keys=fresh.environment is not None)
    sandbox = context.services.provider.start(dataclasses.replace(spec, grading=True), enter)
    made = Setup(context, sandbox, scenario, enter)
    try:
        own = own or Cancellation()
        with context.cancellation.interrupting(sandbox.kill), own.interrupting(sandbox.kill):
            enter("start")
            made.begin()
    except BaseException as error:
        made.remove()
        if isinstance(error, EnvironmentFailed):
            raise UntouchedFailed(str(error)) from error
        raise
    return made


@contextlib.contextmanager
def untouched_sandbox(context: TrialContext, phase: str) -> Iterator[Setup]:
    """Make a sandbox in a phase, or take the one that was made ahead, and remove it at the end."""
    context.phases.enter_unless_cancelled(phase)
    made: Setup | None = context.ahead.take() if context.ahead is not None and phase == FRESH else None
    # Starting a sandbox is part of what it is for, and setting it up is not.
    made = made or make(
        context,
        lambda now: context.phases.enter_unless_cancelled(phase if now in ("image", "start") else now),
    )
    elsewhere = context.environment, context.access
    context.environment = made.environment
    context.access = context.environment.access
    try:
        with context.cancellation.interrupting(made.sandbox.kill):
            context.cancellation.check()
            yield made
    finally:
        context.environment, context.access = elsewhere
        made.remove()


def or_blame(
    context: TrialContext, attempt: Callable[[], _T], control: Callable[[], object], why: str, noted: str = ""
) -> _T:
    """Do something with what the agent left; where the engine fails, find the cause.

    `control` does the same on an untouched sandbox. If that works, and `attempt` fails again, the agent is the cause: a
    directory that leads to itself, paths too long to be listed, no user root. It is `Ungradable` then, for it `why`.
    What has nothing to do with files of the agent is the engine's fault, however often it fails.
    """
    if not context.suspects_agent or context.original is not None:
        return attempt()
    try:
        return attempt()
    except (EngineError, EngineLost, EnvironmentFailed) as error:
        first = error
    reached = context.phases.reached
    try:
        control()
    except InfrastructureError:
        context.phases.reached = reached
        raise first from None
    try:
        done = attempt()
    except UntouchedFailed:
        raise
    except (FilesRefused, EnvironmentFailed) as again:
        raise Ungradable(f"the agent's work {why}: {again}") from again
    if noted:
        context.note(noted, first)
    return done
