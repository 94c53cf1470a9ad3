"""Steps 1 to 3: the sandbox of the agent, resolved, started and made ready; and untouched ones, without any agent.

Those are for grading, or to find the cause of an error. The first one for grading is made while the agent works, and
each further one while a scorer runs.

A sandbox is ready when the image's own ENTRYPOINT is ready (the sandbox waits for it), all set-up steps have ended
with status 0, and the health check passes. A set-up step that left processes running is a service, and runs again for a
further turn or step, before which every process ended. A failure then is only noted, and left to the scorers: an agent
may break a service, which is not an infrastructure error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
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
from ..model.result import Amount, Resources
from ..model.scenario import Environment, FreshContainer, HealthCheck, Scenario, Step
from ..sandbox.door import SOCKET, door_file
from ..sandbox.memory import MemorySandbox
from ..sandbox.program import program_file
from ..sandbox.protocol import File, Mount, Sandbox, SandboxSpec
from ..sandbox.shell import shell
from ..scoring.bench_run import BENCH_RUN, HOME, MODULE, MODULE_SOURCE
from ..scoring.builtin import LOG_DIRECTORIES
from ..scoring.needs import has_bench_run, needs_of_all
from ..scoring.output import Tail
from ..system.cutting import beginning_of, end_of
from .answering import kept_answer
from .cancellation import Cancellation
from .context import TrialContext
from .limits import Limits
from .promises import unkept
from .secrets import model_keys, without_keys

FRESH = "fresh"
"""Phase of a sandbox that the agent's files are carried into."""
STEP_SCRIPT = "setup.sh"
"""File among those of a step that sets the step up."""
_LOOK = 0.1
_MEND = "No agent ran: mend it in the scenario, or run it again if a network failed"
_SHOWN = 200
_OUTPUT = 1000
_T = TypeVar("_T")


class Setup:
    """The set-up of one sandbox, for the trial's scenario, or with another environment."""

    def __init__(
        self,
        context: TrialContext,
        sandbox: Sandbox,
        scenario: Scenario,
        enter: Callable[[str], None] | None = None,
    ) -> None:
        self.sandbox = sandbox
        self.environment = scenario.environment
        self._scenario = scenario
        self._context = context
        self._enter = enter or context.phases.enter
        self._services: list[str] = []

    def begin(self) -> None:
        """Make the sandbox ready for the agent; raise `EnvironmentFailed` where a step or the health check fails."""
        owner = self._scenario.agent_user or self.environment.user
        self._give(owner, self._scenario.files)
        for number, step in enumerate(self.environment.setup, 1):
            place = f" (step {number} of {count})" if (count := len(self.environment.setup)) > 1 else ""
            try:
                self.step(step, self.environment.user, f"`setup` of the scenario{place}")
            except EnvironmentFailed as error:
                raise EnvironmentFailed(f"{str(error).rstrip()}\n{_MEND}") from None
            if self.sandbox.adopt_processes():
                self._services.append(step)
        self.wait_until_healthy(self.environment.healthcheck)

    def files_of(self, step: Step) -> list[File]:
        """Return the files of a step of the task, which are put in before it begins."""
        if step.files is None:
            return []
        workdir, script = self.sandbox.workdir, step.files / STEP_SCRIPT
        own = [File(f"{workdir}/{STEP_SCRIPT}", source=script, mode=0o755)] if script.is_file() else []
        return [File(workdir, source=step.files), *own]

    def begin_step(self, step: Step) -> None:
        """Make the sandbox ready for a step, whose files are there. EnvironmentFailed: set-up or health check fails."""
        user = step.agent_user or self._scenario.agent_user
        if step.files is not None:
            self._give(user, sorted(path.name for path in step.files.iterdir()))
        if step.setup is not None:
            self.step(step.setup, user)
        self.wait_until_healthy(step.healthcheck)

    def again(self) -> Iterator[str]:
        """Make the sandbox ready for the agent, after every process was ended; yield notes on failures."""
        for step in self._services:
            try:
                self.step(step, self.environment.user)
            except EnvironmentFailed as error:
                yield f"run again for the agent: {error}"
        if self._services:
            self.sandbox.adopt_processes()
        try:
            self.wait_until_healthy(self.environment.healthcheck)
        except EnvironmentFailed as error:
            yield f"before the agent went on: {error}"

    def remove(self) -> None:
        """Remove the sandbox, and take over what it has to tell."""
        self.sandbox.remove()
        self._context.note_sandbox(self.sandbox)

    def _give(self, user: str | None, paths: Collection[str]) -> None:
        """Make the agent's user the owner of files that were put in."""
        if paths and user not in (None, "root", "0"):
            self.step(f"chown -R -- {shlex.join((str(user), *paths))}", "root")

    def step(self, step: str, user: str | None, what: str = "set-up step") -> None:
        """Run one set-up step. EnvironmentFailed: it fails; `what` it is called there."""
        self._enter("setup")
        self._context.cancellation.check()
        said = Tail()
        timeout = self._context.limits.setup_timeout
        result = self.sandbox.exec(shell(step), timeout=timeout, sink=said, user=user)
        lines = self._context.note_refused(self.sandbox, "set-up", self.environment.access())
        refused = "".join(f"\n{line}" for line in lines)
        shown = beginning_of(step, _SHOWN)
        if result.timed_out:
            raise EnvironmentFailed(f"{what} did not end within {timeout:g} s: {shown}{refused}")
        if result.exit_status != 0:
            raise EnvironmentFailed(
                f"{what} exited with status {result.exit_status}: {shown}\n"
                f"{end_of(said.text(), _OUTPUT)}{refused}"
            )

    def wait_until_healthy(self, check: HealthCheck | None) -> None:
        """Repeat a health check until it passes; raise `EnvironmentFailed` where it does not in time."""
        if check is None:
            return
        self._enter("healthcheck")
        started = time.monotonic()
        failures = 0
        multiplier = self._context.config.timeout_multiplier
        while True:
            self._context.cancellation.check()
            said = Tail()
            result = self.sandbox.exec(shell(check.command), timeout=check.timeout * multiplier, sink=said)
            if result.exit_status == 0:
                return
            starting = time.monotonic() - started < check.start_period * multiplier
            failures += not starting
            if failures >= check.retries:
                raise EnvironmentFailed(
                    f"health check failed {failures} times: {beginning_of(check.command, _SHOWN)}\n"
                    f"{end_of(said.text(), _OUTPUT)}"
                )
            self._context.cancellation.wait(check.start_interval if starting else check.interval)


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
        door = [Mount(context.route.socket, SOCKET)] if context.route and command.host is None else []
        mounts = (*command.mounts, *door)
        spec = dataclasses.replace(spec, mounts=mounts, deadline=spec.deadline + longer)
    context.cancellation.check()
    sandbox = context.services.provider.start(spec, context.phases.enter_unless_cancelled)
    setup = Setup(context, sandbox, scenario)
    try:
        context.findings.image = sandbox.image
        context.findings.resources = _resources(spec, context.config.sandbox)
        lacks = context.services.provider.lacks(context.config.runtime)
        context.note_once(unkept(context.trial.scenario, context.config.sandbox, lacks))
        with context.cancellation.interrupting(sandbox.kill):
            context.cancellation.check()
            yield setup
    finally:
        context.phases.enter("remove")
        setup.remove()


def _files(context: TrialContext, command: AgentCommand | None) -> Iterator[File]:
    """Yield the files to put in before the agent starts."""
    scenario = context.trial.scenario
    yield from given_files(scenario.files)
    if None in scenario.places:  # it is graded here
        yield from bench_run_file(context)
    needs = needs_of_all(scenario.scorers, context.services.scorers)
    yield from open_directories(path for need in needs for path in need.directories)
    yield from agent_files(context, command, context.scenario.statement_in_container)


def agent_files(context: TrialContext, command: AgentCommand | None, statement: str) -> Iterator[File]:
    """Yield the files of an agent for one turn: its problem statement, its own files, and the door to its models."""
    yield File(PROBLEM_FILE, content=statement.encode("utf-8", "replace"))
    if command is not None:
        yield from command.files
        if context.route is not None and command.host is None:
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
    """Return directories, each once, with write permission for everybody."""
    return [File(path, mode=0o777) for path in dict.fromkeys(paths)]


def spec_of(
    context: TrialContext, environment: Environment, files: Iterable[File], *, with_keys: bool = False
) -> SandboxSpec:
    """Return the sandbox spec of this trial, with these files, and without keys of models unless `with_keys`."""
    limits, services = context.limits, context.services
    networks = context.trial.scenario.networks(environment)
    env = without_keys(environment.env, () if with_keys else model_keys(context.config))
    return SandboxSpec(
        environment=environment.with_headroom(_limits(context).headroom).model_copy(
            update={"env": env, "setup_timeout": limits.setup_timeout}
        ),
        labels={
            "job": services.bundle.id,
            "trial": context.trial.node_id,
            "bundle": str(services.bundle.root.absolute()),
        },
        network=environment.network,
        allowed_hosts=environment.access().allowed_hosts,
        limited="allowlist" in networks,
        opened="public" in networks,
        deadline=_limits(context).deadline(services.scorers),
        files=tuple(files),
        image_map=context.config.image_map,
        build_args=context.config.build_args,
        registry=context.config.registry,
        runtime=context.config.runtime,
    )


def _resources(spec: SandboxSpec, sandbox: str) -> Resources:
    """Return what a sandbox was given, for the result."""
    own = spec.environment
    amounts = {
        name: Amount(request=request or limit, limit=limit)
        for name, request, limit in (
            ("cpus", own.cpus_request, own.cpus),
            ("memory", own.memory_request, own.memory),
        )
        if limit is not None
    }
    return Resources(sandbox=sandbox, runtime=spec.runtime, **amounts)


def _limits(context: TrialContext) -> Limits:
    """Return the limits of the whole trial, not of one of its steps."""
    return Limits(context.trial.scenario, context.config)


class Ahead:
    """Makes the next untouched sandbox of a trial, one at a time, in a thread of its own."""

    def __init__(self, context: TrialContext) -> None:
        self._context = context
        self._own = Cancellation()
        self._thread: threading.Thread | None = None
        self._made: Setup | None = None

    def begin(self) -> None:
        """Make one, unless there is one."""
        if self._thread is None and not self._own.requested:
            self._thread = threading.Thread(target=self._run, name="bench-ahead", daemon=True)
            self._thread.start()

    def take(self) -> Setup | None:
        """Return the one that was begun, once it is made; None: there is none, or it could not be made."""
        while self._thread is not None and self._thread.is_alive():
            self._context.cancellation.check()
            self._thread.join(_LOOK)
        made, self._thread, self._made = self._made, None, None
        return made

    def close(self) -> None:
        """Make no more, and remove what was made for nothing."""
        self._own.request()
        if self._thread is not None:
            self._thread.join()
        if self._made is not None:
            self._made.remove()

    def _run(self) -> None:
        def check(_phase: str) -> None:
            self._own.check()
            self._context.cancellation.check()

        # Whatever goes wrong does so again where the sandbox is needed, and is told there.
        with contextlib.suppress(Exception):
            self._made = make(self._context, check, self._own)


def make(context: TrialContext, enter: Callable[[str], None], own: Cancellation | None = None) -> Setup:
    """Start an untouched sandbox and set it up. `enter` gets each phase, and may raise; `own` interrupts, too."""
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
    context.access = context.environment.access()
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
