"""One trial, start to score.

    prepare        the agent says how it wants to be called; nothing is spent yet
    image, start   a container of the scenario's image, labelled, limited, with a deadline of its own
    setup          the scenario's set-up steps and health check
    agent          runs until it ends, times out or exceeds a limit; its models are reached through the gateway
    end            every process in the container is dead before anything is graded
    artifacts      what the scenario wants kept
    score          scorers go in now, never earlier
    (remove)       whatever happened above

`run_trial` never raises: what goes wrong is in the result, with the class of error it deserves.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..agents.builtin import shell
from ..agents.protocol import PROBLEM_FILE, PROBLEM_VARIABLE, Agent, AgentCommand, AgentReading
from ..agents.usage import USAGE_DIRECTORY, USAGE_FILE, USAGE_LIMIT, USAGE_VARIABLE, said_usage
from ..model.agent import COMMAND
from ..model.endpoint import GATEWAY_URL
from ..model.environ import HOST
from ..model.errors import (
    AgentSetupFailed,
    EngineError,
    EngineLost,
    EnvironmentFailed,
    GatewayLost,
    ImageMissing,
    InfrastructureError,
    InputError,
    ScorerCrashed,
    ScorerTimeout,
    Ungradable,
)
from ..model.job import Keep
from ..model.result import (
    AgentEnd,
    Failure,
    FailureClass,
    ImageRecord,
    Origin,
    Outcome,
    Phase,
    ScorerResult,
    Signature,
    Trial,
    TrialResult,
)
from ..model.scenario import Environment, FreshContainer, Grading, Network, ScorerSpec
from ..model.usage import Usage
from ..sandbox.door import DOOR_FAILED, door_file, through_door
from ..sandbox.loading import Restoring
from ..sandbox.protocol import ExecResult, File, Mount, Sandbox, SandboxSpec, Stopping
from ..scoring.commands import Tail
from ..scoring.grade import SCORER_VARIABLE, combine, describe, failure, make_context, run_scorer
from ..sources.template import fill
from ..store.bundle import TrialDirectory
from ..store.files import DISK_ERRORS, remove_tree, write_atomically, write_error
from ..store.log import CappedLog
from ..store.redact import Redactor
from ..store.text import clean, one_line
from ..store.totals import added
from .artifacts import keep_artifacts
from .cancellation import Cancellation, Cancelled
from .connection import Connection, connected, usage_notes
from .draft import Clock, Draft
from .ending import Ended, end_agent
from .fresh import Carried, collect, deliver
from .host_agent import HostShell
from .limits import Limits
from .outcome import ending_of, failing, infrastructure_error
from .prepare import Prepared, Services, prepare
from .secrets import (
    env_file_secrets,
    model_keys,
    redact_file,
    redact_files,
    redacted,
    secrets_of,
    split,
    together,
    without_keys,
)
from .setup import Readiness
from .signature import graded_anew, signature

_RETRY_PAUSE = 2.0
_LOG_DIRECTORIES = ("/logs/agent", "/logs/artifacts", "/logs/verifier")


def run_trial(
    trial: Trial,
    services: Services,
    cancellation: Cancellation,
    *,
    original: TrialResult | None = None,
    ran_because: str | None = None,
) -> TrialResult:
    """Run a trial, with new tries after infrastructure errors, and commit its directory to the bundle.

    With `original`, the result of a trial that was kept, no agent runs: what that one left is graded anew.
    """
    config = services.config.of(trial.scenario.benchmark)
    limits = Limits(trial.scenario, config)
    clock = Clock()
    draft = Draft.of(trial, services.bundle.id, config, clock, ran_because)
    try:
        directory = services.bundle.begin(trial)
    except InfrastructureError as error:
        return draft.result(Outcome.ERROR, failure=failure(error, "results"))
    tries = 0
    attempt: _Try | None = None
    while True:
        tries += 1
        attempt = _Try(trial, services, cancellation, directory, clock, limits, original, attempt)
        outcome = attempt.run()
        if not attempt.retryable or tries > services.config.retry_errors:
            break
        # There is another try to come, so whoever asks to stop now stops a trial that has not ended.
        if cancellation.requested or not _set_aside(directory, attempt, tries):
            break
        if cancellation.wait(_RETRY_PAUSE):
            outcome = Outcome.CANCELLED
            break
    if outcome is Outcome.CANCELLED:
        directory.discard()
        return draft.result(outcome, tries=tries, phases=tuple(attempt.phases), image=attempt.image)
    result = draft.result(outcome, tries=tries, **attempt.facts())
    try:
        return directory.commit(result)
    except InfrastructureError as error:
        directory.discard()
        result = draft.result(Outcome.ERROR, tries=tries, failure=failure(error, "results"))
    # What was discarded may have made room for a few lines that say so.
    with contextlib.suppress(InfrastructureError):
        directory = services.bundle.begin(trial)
        try:
            return directory.commit(result)
        finally:
            directory.discard()
    return result


def _set_aside(directory: TrialDirectory, attempt: _Try, number: int) -> bool:
    """Keep what a try left, with the reason it failed. False: there is no room for that, nor for another try."""
    try:
        if why := attempt.facts()["failure"]:
            write_atomically(directory.layout.failure, why.model_dump_json(by_alias=True).encode())
        directory.set_aside(number)
    except InfrastructureError:
        return False
    return True


class _Try:
    """One execution of a trial. Its attributes are what a result is made of."""

    def __init__(
        self,
        trial: Trial,
        services: Services,
        cancellation: Cancellation,
        directory: TrialDirectory,
        clock: Clock,
        limits: Limits,
        original: TrialResult | None,
        before: _Try | None = None,
    ) -> None:
        self.trial = trial
        self.scenario = trial.scenario
        self.services = services
        self.limits = limits
        self.config = limits.config
        self.cancellation = cancellation
        self.directory = directory
        self.clock = clock
        self.original = original
        self._secrets = together(
            secrets_of(trial.scenario, self.config, services.secrets), services.model_keys, env_file_secrets()
        )
        self._redactor = Redactor(self._secrets)
        self.score: float | None = None
        self.failure: Failure | None = None
        self.scores: list[ScorerResult] = []
        self.agent_end: AgentEnd | None = None
        self.ended = Ended()
        self.agent_version = None if original is None else original.agent_version
        self.spoiled: str | None = None
        self._suspects_agent = False
        self._is_ended = False
        self.phases: list[Phase] = []
        self.image: ImageRecord | None = None
        self.signature: Signature | None = None
        self.kept = None if original is None else original.kept
        # What was used is used, whichever try it was.
        self.usage = Usage() if original is None else original.usage
        self.models: Mapping[str, int] = {} if original is None else original.models
        self._carried: Mapping[str, Any] | None = None
        if before is not None:
            self.usage, self.models, self._carried = before.usage, before.models, before._carried
        self.artifacts: list[str] = []
        self.notes: list[str] = []
        self.retryable = False
        self._connection: Connection | None = None
        self._tells_usage = False
        self._network: Network = trial.scenario.environment.network
        self._phase = self._reached = "prepare"
        self._phase_start = self._now()

    def run(self) -> Outcome:
        """Run it all."""
        self.services.on_phase(self.trial, self._phase)
        try:
            return self._run()
        except Cancelled:
            self._drop_kept()
            return Outcome.CANCELLED
        except KeyboardInterrupt:
            raise
        except Ungradable as error:
            if not self.cancellation.requested:
                return self._ungradable(str(error))
            self._drop_kept()
            return Outcome.CANCELLED
        except BaseException as error:  # agents and scorers of others may call pytest.skip or sys.exit
            # A sandbox that is killed to stop a trial fails in whatever call it was: that is no error.
            if self.cancellation.requested:
                self._drop_kept()
                return Outcome.CANCELLED
            if self.original is not None and isinstance(error, ImageMissing):
                return self._not_kept(error)
            self.failure = self._explain(error)
        finally:
            self._count_usage()
            self._redact_kept()
            self._enter("done")
        self.score = None
        return Outcome.ERROR

    def facts(self) -> dict[str, Any]:
        """What a result says of this try, without secrets."""
        facts = {
            "score": self.score,
            "failure": self.failure,
            "scorers": tuple(self.scores),
            "agent_end": self.agent_end,
            "agent_version": self.agent_version,
            "phases": tuple(self.phases),
            "image": self.image,
            "signature": self.signature,
            "usage": self.usage,
            "models": self.models,
            "kept": self.kept,
            "rescored": _origin(self.original),
            "artifacts": tuple(self.artifacts),
            "notes": tuple(self.notes),
        }
        return {name: redacted(fact, self._redactor) for name, fact in facts.items()}

    def _not_kept(self, error: ImageMissing) -> Outcome:
        """What was kept of it is gone: it cannot be graded anew, and is as if nothing had been kept."""
        self.failure = Failure(class_="not_kept", message=clean(str(error), 2000), phase=self._reached)
        self.original = self.kept = None
        self.usage = Usage()
        return Outcome.SKIPPED

    def _ungradable(self, why: str) -> Outcome:
        """It is the agent's doing that nothing can be graded."""
        self.score = 0.0
        self.failure = Failure(
            class_=FailureClass.UNGRADABLE, message=clean(one_line(why, 2000)), phase=self._reached
        )
        return Outcome.FAILED

    def _explain(self, error: BaseException) -> Failure:
        phase = self._reached
        if isinstance(error, OSError):
            if error.errno in DISK_ERRORS:
                error = write_error(self.directory.path, error)
            elif phase in ("prepare", "image", "start") and error.filename is not None:
                # A file of the scenario, there when it was collected.
                error = InputError(f"cannot be read: {error.strerror}", path=os.fsdecode(error.filename))
        if isinstance(error, InfrastructureError):
            self.retryable = error.retryable
            return failure(error, phase)
        if isinstance(error, InputError):
            return Failure(class_="input", message=clean(str(error), 2000), phase=phase)
        return Failure(
            class_="internal",
            message=clean(describe(error), 2000),
            phase=phase,
            detail=clean("".join(traceback.format_exception(error)), 8000),
        )

    def _redact_kept(self) -> None:
        """What came out of the sandbox may hold what went in. Rather no file than one with a secret."""
        if not self._secrets:
            return
        redactor = Redactor(self._secrets, patterns=())
        for directory in (self.directory.layout.artifacts, self.directory.layout.scorers):
            try:
                moved = redact_files(directory, redactor, self._redactor)
                if directory == self.directory.layout.artifacts:
                    self.artifacts = [moved.get(name, name) for name in self.artifacts]
            except OSError as error:
                remove_tree(directory)
                if directory == self.directory.layout.artifacts:
                    self.artifacts.clear()
                self.notes.append(
                    f"{directory.name} could not be cleared of secrets, so it was removed: {error.strerror}"
                )

    def _run(self) -> Outcome:
        prepared = prepare(self.trial, self.services)
        agent, command = prepared.agent, prepared.command
        works = None if self.original is not None else command
        if works is not None:
            self.agent_version = works.version
        # What the author wrote is no reason to believe that a scorer is sound; and nothing done breaks nothing.
        self._suspects_agent = command is not None and not agent.trusted
        self._tells_usage = works is not None and not works.endpoints and not agent.trusted
        with (
            connected(
                works,
                self.services.models,
                self.trial,
                prepared.keys,
                secrets=self._secrets,
                carried=self._carried,
            ) as self._connection,
            self._sandbox(works) as sandbox,
        ):
            if self._connection is not None:
                self._secrets = together(self._secrets, self._connection.keys)
                self._redactor = Redactor(self._secrets)
            self.signature = signature(prepared.parts, sandbox.image.key)
            readiness = Readiness(sandbox, self.scenario, self.limits, self.cancellation, self._enter)
            if self.original is None:
                readiness.begin()
                self.services.check_room()
                self._run_agent(sandbox, prepared)
            else:
                self.signature = graded_anew(self.original.signature, self.signature)
                self.agent_end = self.original.agent_end
            try:
                carried = self._take_up(sandbox, readiness)
            except (EngineError, EngineLost, EnvironmentFailed) as error:
                carried = self._take_up_again(sandbox, readiness, error)
            if carried is not None:
                self._grade_afresh(sandbox, carried)
            outcome = self._decide(agent)
            if outcome is Outcome.PASSED and self.config.keep is Keep.FAILED:
                self._drop_kept()
            return outcome

    @contextlib.contextmanager
    def _sandbox(self, command: AgentCommand | None) -> Iterator[Sandbox]:
        scenario = self.scenario
        files: list[File] = []
        if self.original is None:
            files += [File(path, source=source) for path, source in scenario.files.items()]
            files.append(
                File("/bench/problem.md", content=scenario.problem_statement.encode("utf-8", "replace"))
            )
            if any(scorer.type == "harbor" for scorer in scenario.scorers):
                files += [File(path, mode=0o777) for path in _LOG_DIRECTORIES]
            if command is not None:
                files += command.files
            if self._connection is not None and command is not None and command.host is None:
                files.append(door_file(self.services.provider.machine()))
            if self._tells_usage:
                files.append(File(USAGE_DIRECTORY, mode=0o777))
        environment = scenario.environment
        spec = dataclasses.replace(
            self._spec(environment, without_keys(environment.env, model_keys(self.config)), files),
            mounts=self._mounts(command),
            restoring=Restoring(scenario.keep_changes, packages=self.limits.grading is Grading.CONTRACT),
            kept=None if self.original is None else self.original.kept,
        )
        self.cancellation.check()
        sandbox = self.services.provider.start(spec, self._enter_unless_cancelled)
        try:
            self.image = sandbox.image
            with self.cancellation.interrupting(sandbox.kill):
                self.cancellation.check()
                yield sandbox
        finally:
            self.notes += sandbox.notes
            self._enter("remove")
            sandbox.remove()

    def _spec(self, environment: Environment, env: Mapping[str, str], files: Iterable[File]) -> SandboxSpec:
        """A sandbox of this trial, with such variables and files."""
        return SandboxSpec(
            environment=environment.model_copy(
                update={"env": dict(env), "setup_timeout": self.limits.setup_timeout}
            ),
            labels={
                "job": self.services.bundle.id,
                "trial": self.trial.node_id,
                "bundle": str(self.services.bundle.root.absolute()),
            },
            network=environment.network,
            deadline=self.limits.deadline,
            files=tuple(files),
            image_map=self.config.image_map,
            build_args=self.config.build_args,
        )

    def _mounts(self, command: AgentCommand | None) -> tuple[Mount, ...]:
        if command is None:
            return ()
        connection = self._connection
        return (*command.mounts, *([connection.mount] if connection and command.host is None else ()))

    def _run_agent(self, sandbox: Sandbox, prepared: Prepared) -> None:
        agent, command = prepared.agent, prepared.command
        self._switch_network(sandbox, self.scenario.agent_network)
        if command is None:
            return
        self._enter_unless_cancelled("agent")
        if (limit := sandbox.limit_hit()) is not None:
            raise EnvironmentFailed(f"the set-up exceeded the {limit} limit before the agent began")
        withheld = {*model_keys(self.config), *_key_variables(command)}
        env = {
            **self._own_variables(agent, command),
            **prepared.env,
            **command.env,
            **({} if agent.trusted else split(self.services.secrets, withheld).passed),
        }
        user = command.user or self._agent_user()
        with CappedLog(self.directory.layout.agent_log, redactor=self._redactor) as log:
            work = self._work_here if command.host is not None else self._work_there
            result = work(sandbox, command, log, user, env)
        if not result.started:
            raise AgentSetupFailed(f"the agent could not be started: {log.tail(500).strip()}")
        limit = sandbox.limit_hit()
        reading = self._read(command)
        pid = None if self._connection is None else self._connection.route.pid()
        report = None if self._connection is None else self._connection.close()
        if report is not None and result.exit_status == DOOR_FAILED and pid is None:
            raise GatewayLost(log.tail(500).strip() or "the agent could not reach the gateway")
        ending, message = ending_of(result, reading, report, self.limits.agent_timeout)
        if limit is None and result.oom_kills and result.exit_status != 0:
            limit = "memory"
        self.agent_end = AgentEnd(
            exit_status=result.exit_status,
            timed_out=result.timed_out and not result.stopped,
            silent=result.silent,
            limit=limit,
            ending=ending,
            message=None if message is None else clean(one_line(message, 500)),
            oom_kills=result.oom_kills,
            output_bytes=log.received,
        )
        error = infrastructure_error(ending, self.agent_end.message)
        if error is not None:
            raise error

    def _work_there(
        self,
        sandbox: Sandbox,
        command: AgentCommand,
        log: CappedLog,
        user: str | None,
        env: Mapping[str, str],
    ) -> ExecResult:
        """Run the agent in the sandbox."""
        route = None if self._connection is None else self._connection.route

        def signal(name: str) -> None:
            if route is not None and (pid := route.pid()) is not None:
                sandbox.signal(pid, name)

        return sandbox.exec(
            command.argv if route is None else through_door(command.argv),
            timeout=self.limits.agent_timeout,
            silent=self.limits.silent_timeout,
            stopping=None if route is None else Stopping(route.stop_asked, signal),
            sink=log.write,
            user=user,
            env=env,
        )

    def _work_here(
        self,
        sandbox: Sandbox,
        command: AgentCommand,
        log: CappedLog,
        user: str | None,
        env: Mapping[str, str],
    ) -> ExecResult:
        """Run an agent of this machine."""
        started = time.monotonic()
        shell_ = HostShell(
            sandbox,
            None if self._connection is None else self._connection.route,
            log,
            deadline=started + self.limits.agent_timeout,
            user=user,
            env=env,
            cancelled=lambda: self.cancellation.requested,
        )
        assert command.host is not None  # noqa: S101  callers have looked
        status = command.host(shell_)
        self.cancellation.check()
        stopped = shell_.told_to_stop
        timed_out = stopped or shell_.late
        return ExecResult(
            None if timed_out else status,
            timed_out=timed_out,
            seconds=time.monotonic() - started,
            stopped=stopped,
        )

    def _read(self, command: AgentCommand) -> AgentReading | None:
        """What the agent's output says of it; its trajectory is written on the way."""
        if command.read is None:
            return None
        reading = command.read(self.directory.layout.agent_log, self.directory.layout.trajectory)
        if self.directory.layout.trajectory.exists():
            # The log is without secrets. But one that came in pieces is put together here.
            redact_file(self.directory.layout.trajectory, self._redactor)
        return reading

    def _count_usage(self) -> None:
        if self._connection is None:
            return
        try:
            report = self._connection.close()
        except GatewayLost as error:
            self.notes.append(f"nobody knows what the agent used: {clean(str(error), 300)}")
            return
        self.usage = report.usage.model_copy(update={"source": "gateway"})
        self.models = {clean(name, 200): calls for name, calls in report.models.items()}
        self._carried = report.carried
        self.notes += usage_notes(report)
        if report.job_stopped is not None:
            self.services.on_spent(report.job_message or "a limit of the job was reached")

    def _read_usage(self, sandbox: Sandbox) -> None:
        """What an agent says it used that is reached by no route, and so counted by nobody."""
        if not self._tells_usage:
            return
        try:
            content = sandbox.read(USAGE_FILE, limit=USAGE_LIMIT)
            if content is not None:
                said = said_usage(content)
                self.usage = added(self.usage, said).model_copy(
                    update={"source": said.source or self.usage.source}
                )
        except (ValueError, InfrastructureError) as error:
            # Its work is done and paid for. An engine that is gone will be missed by what comes next.
            self.notes.append(
                f"what the agent says it used cannot be read: {clean(one_line(str(error), 300))}"
            )

    def _own_variables(self, agent: Agent, command: AgentCommand) -> dict[str, str]:
        """What an agent is told of its job: nothing of it is secret."""
        spec = self.trial.agent
        seen = GATEWAY_URL[command.endpoints[0].wire] if command.endpoints else spec.base_url
        about = {
            "BENCH_MODEL": None if agent.name == COMMAND else spec.model,
            "BENCH_PROVIDER": spec.provider,
            "BENCH_BASE_URL": seen,
            "BENCH_PARAMS": json.dumps(params) if (params := self._params()) else None,
        }
        given = {name: value for name, value in about.items() if value is not None}
        if self._tells_usage:
            given[USAGE_VARIABLE] = USAGE_FILE
        return {PROBLEM_VARIABLE: PROBLEM_FILE, **given}

    def _params(self) -> dict[str, Any]:
        """Parameters of the job, and of this cell of the matrix."""
        return {**self.config.params, **self.trial.agent.params}

    def _end_agent(self, sandbox: Sandbox, readiness: Readiness) -> None:
        """Nothing the agent started may see, or touch, how it is graded, but for what the grading lets live on."""
        self._enter_unless_cancelled("end")
        carried = self.scenario.fresh_container is not None
        self.ended = end_agent(
            sandbox, self.limits.grading, carried=carried, most=self.scenario.environment.pids
        )
        self.notes += self.ended.notes
        if self.agent_end is not None:
            self.agent_end = self.agent_end.model_copy(update=dataclasses.asdict(self.ended))
            if self.agent_end.limit is not None:
                return
        if self.limits.grading is Grading.STRICT and not carried:
            self.notes += (clean(one_line(note, 500)) for note in readiness.again())

    def _keep(self, sandbox: Sandbox) -> None:
        """Keep what the agent left, before anything is graded. Whether the trial passes is not known yet."""
        if self.config.keep is Keep.NEVER:
            return
        self._enter_unless_cancelled("keep")
        node = hashlib.sha256(self.trial.node_id.encode("utf-8", "replace")).hexdigest()[:12]
        try:
            self.kept = sandbox.keep(f"{self.services.bundle.id}-{node}")
        except InfrastructureError as error:
            # The trial is paid for: it is graded whether or not anybody can look at it later.
            self.notes.append(f"could not be kept: {clean(str(error), 500)}")

    def _drop_kept(self) -> None:
        if self.kept is not None and self.original is None:
            self.services.provider.forget_kept(self.kept)
            self.kept = None

    def _keep_artifacts(self, sandbox: Sandbox) -> None:
        for spec in self.scenario.scorers:
            for hook in spec.params.get("collect", ()) if spec.type == "harbor" else ():
                self._enter_unless_cancelled("collect")
                result = sandbox.exec(
                    shell(str(hook["command"])),
                    timeout=float(hook["timeout_sec"]) * self.config.timeout_multiplier,
                    sink=Tail(),
                    user=hook.get("user"),
                )
                if result.exit_status != 0:
                    self.notes.append(f"collect command failed: {str(hook['command'])[:200]}")
                if result.timed_out and self.limits.grading is Grading.STRICT:
                    sandbox.end_processes()
        kept, notes = keep_artifacts(
            sandbox,
            self.scenario.artifacts,
            self.directory.layout.artifacts,
            lambda: self._enter_unless_cancelled("artifacts"),
        )
        self.artifacts += kept
        self.notes += notes

    def _take_up(self, sandbox: Sandbox, readiness: Readiness) -> Carried | None:
        """End the agent, and grade what it left; returns what is to be graded elsewhere."""
        if self.original is None:
            if not self._is_ended:
                self._end_agent(sandbox, readiness)
                self._is_ended = True
            self._read_usage(sandbox)
            self._keep(sandbox)
        self._keep_artifacts(sandbox)
        if self.agent_end is not None and self.agent_end.limit is not None:
            self.score = 0.0
        elif self.scenario.fresh_container is not None:
            self._enter_unless_cancelled("carry")
            return collect(sandbox, self.scenario.fresh_container)
        else:
            self._grade(sandbox, readiness)
        return None

    def _take_up_again(
        self, sandbox: Sandbox, readiness: Readiness, error: InfrastructureError
    ) -> Carried | None:
        """Find out whose doing it is that the engine cannot handle what the agent left, as `_attribute` does.

        The engine has to do the same with what the agent never touched. If it can, and fails here again, it is the
        agent's doing: a directory that leads to itself, paths too long to be listed, no user root.
        """
        if not self._suspects_agent or self.original is not None:
            raise error
        reached = self._reached
        try:
            with self._untouched("control") as (control, _):
                end_agent(control, self.limits.grading)
                for spec in self.scenario.scorers:
                    self._run_scorer(control, spec, self.directory.layout.control)
        except InfrastructureError:
            self._reached = reached
            raise error from None
        self.scores.clear()
        self.artifacts.clear()
        try:
            carried = self._take_up(sandbox, readiness)
        except (EngineError, EngineLost, EnvironmentFailed) as again:
            raise Ungradable(
                f"the agent left what the engine cannot handle, where it can an untouched container: {again}"
            ) from again
        self.notes.append(
            f"what the agent left could be graded only when tried again: {clean(one_line(str(error), 300))}"
        )
        return carried

    def _grade_afresh(self, sandbox: Sandbox, carried: Carried) -> None:
        """Grade in a container that the agent has never been in."""
        self.notes += carried.taken.notes
        with contextlib.closing(carried.taken.archive):
            # Its memory and its processors are for the next one.
            sandbox.remove()
            with self._untouched("fresh") as (grader, readiness):
                self._enter_unless_cancelled("carry")
                try:
                    deliver(carried, grader)
                except EngineError as error:
                    if not self._suspects_agent:
                        raise
                    raise Ungradable(
                        f"what the agent left cannot be put into a new container: {error}"
                    ) from error
                self._grade(grader, readiness)

    @contextlib.contextmanager
    def _untouched(self, phase: str) -> Iterator[tuple[Sandbox, Readiness]]:
        """A container to grade in that the agent has never been in, made ready."""
        fresh = self.scenario.fresh_container or FreshContainer()
        scenario = self.scenario
        if fresh.environment is not None:
            scenario = scenario.model_copy(update={"environment": fresh.environment, "files": {}})
        environment = scenario.environment
        # Of its own, `prepare` has seen that it holds no key that it may not have.
        withheld = model_keys(self.config) if fresh.environment is None else ()
        env = without_keys(environment.env, withheld)
        files = [File(path, mode=0o777) for path in _LOG_DIRECTORIES]
        files += [File(path, source=source) for path, source in scenario.files.items()]
        spec = self._spec(environment, env, files)
        grader = self.services.provider.start(spec, lambda _: self._enter_unless_cancelled(phase))
        elsewhere, self._network = self._network, environment.network
        try:
            with self.cancellation.interrupting(grader.kill):
                self.cancellation.check()
                readiness = Readiness(grader, scenario, self.limits, self.cancellation, self._enter)
                readiness.begin()
                yield grader, readiness
        finally:
            self._network = elsewhere
            self.notes += grader.notes
            grader.remove()

    def _grade(self, sandbox: Sandbox, readiness: Readiness) -> None:
        for number, spec in enumerate(self.scenario.scorers, 1):
            self._enter_unless_cancelled(f"score:{spec.name}")
            graded = self._run_scorer(sandbox, spec, self.directory.path)
            if graded.error is not None and self._suspects_agent:
                graded = self._attribute(sandbox, readiness, spec, graded)
            self.scores.append(graded)
            if number < len(self.scenario.scorers):
                self._end_scorer(sandbox, readiness, graded)
        self.score = combine(self.scores)

    def _run_scorer(self, sandbox: Sandbox, spec: ScorerSpec, directory: Path) -> ScorerResult:
        self._switch_network(sandbox, spec.network)
        context = make_context(
            self.scenario,
            spec,
            sandbox,
            timeout=self.limits.scorer_timeout(spec),
            env=fill(spec.env, HOST),
            directory=directory,
            params=self._params(),
        )
        graded = run_scorer(context, self.services.scorers[spec.type], self._redactor.redact_text)
        self.cancellation.check()
        return graded

    def _attribute(
        self, sandbox: Sandbox, readiness: Readiness, spec: ScorerSpec, broken: ScorerResult
    ) -> ScorerResult:
        """Find out whose doing it is that a scorer broke: it has to grade what the agent never touched.

        If it breaks there too, it is broken: an error. If not, and it breaks on the agent's work again, that is what
        breaks it, and is worth 0: a pipe in place of a file, a link to /dev/zero, more than fits into memory.
        """
        assert broken.error is not None  # noqa: S101  callers have looked
        try:
            with self._untouched(f"control:{spec.name}") as (control, _):
                again = self._run_scorer(control, spec, self.directory.layout.control)
        except InfrastructureError as error:
            self.notes.append(
                f"whether the agent broke scorer {spec.name}: {clean(one_line(str(error), 300))}"
            )
            return broken
        if again.error is not None:
            return broken
        self._enter_unless_cancelled(f"score:{spec.name}")
        self._end_scorer(sandbox, readiness, broken)
        again = self._run_scorer(sandbox, spec, self.directory.path)
        if again.error is None:
            self.notes.append(
                f"scorer {spec.name} broke once, and graded the same when it ran again: "
                f"{clean(one_line(broken.error.message, 300))}"
            )
            return again
        self.spoiled = (
            f"the agent left what cannot be graded, where an untouched container can: {again.error.message}"
        )
        return again.model_copy(
            update={"score": 0.0, "error": None, "details": {"broke": again.error.message}}
        )

    def _end_scorer(self, sandbox: Sandbox, readiness: Readiness, graded: ScorerResult) -> None:
        """Whatever a scorer started, or the agent's code that it ran, would meddle with the next."""
        timed_out = graded.error is not None and graded.error.class_ == ScorerTimeout.code
        if self.limits.grading is Grading.CONTRACT:
            sandbox.end_commands(SCORER_VARIABLE)
        elif timed_out or sandbox.processes():
            sandbox.end_processes()
            self.notes += (clean(one_line(note, 500)) for note in readiness.again())

    def _decide(self, agent: Agent) -> Outcome:
        """Score and ending -> outcome."""
        broken = next((score for score in self.scores if score.error is not None), None)
        if broken is not None:
            self.failure = broken.error
            return Outcome.ERROR
        score, end = self.score, self.agent_end
        if score is None:
            self.failure = failure(ScorerCrashed("no scorer ran"), None)
            return Outcome.ERROR
        threshold = self.limits.threshold
        verdict = failing(
            end,
            passed=score >= threshold,
            trusted=agent.trusted,
            agent_timeout=self.limits.agent_timeout,
            silent_timeout=self.limits.silent_timeout,
            memory=self.scenario.environment.memory,
        )
        if verdict is None and self.spoiled is not None:
            verdict = FailureClass.UNGRADABLE, self.spoiled
        if verdict is None and score < threshold:
            verdict = FailureClass.BELOW_THRESHOLD, f"score {score:g} is below the threshold {threshold:g}"
        if verdict is None:
            return Outcome.PASSED
        message = "; ".join(filter(None, (verdict[1], self.ended.loss)))
        self.failure = Failure(class_=verdict[0], message=message, phase="agent")
        return Outcome.FAILED

    def _switch_network(self, sandbox: Sandbox, network: Network | None) -> None:
        wanted = network or self.scenario.environment.network
        if wanted != self._network:
            sandbox.set_network(wanted)
            self._network = wanted

    def _agent_user(self) -> str | None:
        return self.scenario.agent_user or self.scenario.environment.user

    def _now(self) -> float:
        return self.clock.seconds

    def _enter_unless_cancelled(self, phase: str) -> None:
        self.cancellation.check()
        self._enter(phase)

    def _enter(self, phase: str) -> None:
        """One phase ends, the next begins; nothing between them is lost."""
        now = self._now()
        if phase == self._phase:
            return
        if phase not in ("remove", "done"):
            self._reached = phase
        self.phases.append(Phase(name=self._phase, start=self._phase_start, end=now))
        self._phase, self._phase_start = phase, now
        if phase != "done":
            self.services.on_phase(self.trial, phase)


def _key_variables(command: AgentCommand) -> Iterator[str]:
    """Variables with the keys of its models, which it never sees."""
    return (name for endpoint in command.endpoints for name in endpoint.key_variables)


def _origin(result: TrialResult | None) -> Origin | None:
    """The trial a result is of."""
    if result is None:
        return None
    return Origin(job=result.job, path=result.path, finished_at=result.finished_at)
