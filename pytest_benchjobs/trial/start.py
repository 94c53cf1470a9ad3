"""Steps 1 and 2: the sandbox of the agent, resolved, created and started."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ..agents.protocol import PROBLEM_FILE, AgentCommand
from ..agents.usage import USAGE_DIRECTORY
from ..model.errors import EnvironmentFailed
from ..model.scenario import Environment
from ..sandbox.door import door_file
from ..sandbox.memory import MemorySandbox
from ..sandbox.program import program_file
from ..sandbox.protocol import File, Mount, Sandbox, SandboxSpec
from ..scoring.bench_run import BENCH_RUN, HOME, MODULE, MODULE_SOURCE
from ..scoring.needs import directories_before, has_bench_run
from .answering import kept_answer
from .connection import Connection
from .context import TrialContext
from .limits import Limits
from .secrets import model_keys, without_keys


@contextlib.contextmanager
def agent_sandbox(
    context: TrialContext,
    command: AgentCommand | None,
    connection: Connection | None,
    kept: str | None = None,
) -> Iterator[Sandbox]:
    """Start the agent's sandbox, and remove it at the end, whatever happened.

    A rescore starts from the kept file system, of one step if `kept` names it. `command` is None where no agent runs.
    """
    if context.is_question:
        yield from _in_memory(context)
        return
    original, environment = context.original, context.scenario.environment
    files = () if original is not None else _files(context, command, connection)
    spec = dataclasses.replace(
        spec_of(context, environment, without_keys(environment.env, model_keys(context.config)), files),
        mounts=_mounts(command, connection),
        kept=None if original is None else kept or original.kept,
        trusted=original is None and not context.suspects_agent,
    )
    if command is not None:
        longer = command.patience + (_limits(context).held if command.endpoints else 0.0)
        spec = dataclasses.replace(spec, deadline=spec.deadline + longer)
    context.cancellation.check()
    sandbox = context.services.provider.start(spec, context.phases.enter_unless_cancelled)
    try:
        context.findings.image = sandbox.image
        with context.cancellation.interrupting(sandbox.kill):
            context.cancellation.check()
            yield sandbox
    finally:
        context.phases.enter("remove")
        sandbox.remove()
        context.note_sandbox(sandbox)


def _in_memory(context: TrialContext) -> Iterator[Sandbox]:
    """Yield the sandbox of a question, which needs no engine."""
    if context.original is None:
        yield MemorySandbox()
    else:
        yield kept_answer(context.scenario, context.original, context.config.directory)


def _files(
    context: TrialContext, command: AgentCommand | None, connection: Connection | None
) -> Iterator[File]:
    """Yield the files to put in before the agent starts."""
    scenario = context.scenario
    yield from given_files(scenario.files)
    yield File(PROBLEM_FILE, content=scenario.statement_in_container.encode("utf-8", "replace"))
    if None in context.trial.scenario.places:  # it is graded here
        yield from bench_run_file(context)
    yield from open_directories(directories_before(context.trial.scenario.scorers, context.services.scorers))
    if command is not None:
        yield from command.files
        if connection is not None and command.host is None:
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


def _mounts(command: AgentCommand | None, connection: Connection | None) -> tuple[Mount, ...]:
    if command is None:
        return ()
    return (*command.mounts, *([connection.mount] if connection and command.host is None else ()))


def spec_of(
    context: TrialContext, environment: Environment, env: Mapping[str, str], files: Iterable[File]
) -> SandboxSpec:
    """Return the sandbox spec of this trial, with these variables and files."""
    limits, services = context.limits, context.services
    return SandboxSpec(
        environment=environment.model_copy(update={"env": dict(env), "setup_timeout": limits.setup_timeout}),
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
