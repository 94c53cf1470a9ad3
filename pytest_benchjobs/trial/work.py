"""Step 3, its second half: run the agent, in its sandbox or on this machine, and count its model usage."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import posixpath
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..agents.protocol import (
    MCP_VARIABLE,
    PROBLEM_FILE,
    PROBLEM_VARIABLE,
    SKILLS_VARIABLE,
    AgentCommand,
    AgentReading,
    DrivenShell,
    TrialScore,
)
from ..agents.starting import not_started
from ..agents.usage import USAGE_FILE, USAGE_LIMIT, USAGE_VARIABLE, said_usage
from ..gateway.client import Route
from ..model.agent import COMMAND
from ..model.ending import Ending
from ..model.endpoint import GATEWAY_URL
from ..model.errors import (
    AgentSetupFailed,
    EnvironmentFailed,
    GatewayLost,
    InfrastructureError,
    OutputLost,
)
from ..model.result import AgentEnd, Outcome, ScorerResult
from ..sandbox.door import DOOR_FAILED, through_door
from ..sandbox.protocol import ExecResult, File, Sandbox, Stopping
from ..sandbox.shell import shell
from ..scoring.output import Tail
from ..store.log import CappedLog
from ..store.text import clean, one_line
from ..store.totals import added
from .confidential import failure_held_back
from .connection import Connection, connected, usage_notes
from .context import TrialContext
from .limits import LONGEST_HELD
from .outcome import ending_of, graded_in_spite_of, infrastructure_error
from .prepare import Prepared
from .replies import REPLY_LIMIT, keep_reply
from .secrets import model_keys, redact_file, redacted, split
from .skills import copy_skills

_LONGEST_CALL = 3600.0


@contextlib.contextmanager
def connection_of(
    context: TrialContext, command: AgentCommand | None, keys: Mapping[str, str]
) -> Iterator[Connection | None]:
    """Connect the agent to its models, and count its usage at the end; None where it needs no connection.

    `command` is None where no agent runs; `keys` are keys of models that were given to the agent.
    """
    connection: Connection | None = None
    models, trial = context.services.models, context.trial
    try:
        with connected(
            command, models, trial, keys, secrets=context.secrets, carried=context.counted
        ) as connection:
            yield connection
    finally:
        if connection is not None:
            _count(context, connection)


def run_agent(
    context: TrialContext, sandbox: Sandbox, prepared: Prepared, connection: Connection | None
) -> None:
    """Run the agent until it ends, times out or exceeds a limit; its ending is in the findings.

    Raises:
        InfrastructureError: it could not be run, or ended for a reason it did not cause.
    """
    command = prepared.command
    scenario = context.scenario
    context.switch_network(sandbox, scenario.agent_network, scenario.agent_allowed_hosts)
    if command is None:
        return
    context.is_driven = command.hold is not None
    context.phases.enter_unless_cancelled("agent")
    if (limit := sandbox.limit_hit()) is not None:
        raise EnvironmentFailed(f"the set-up exceeded the {limit} limit before the agent began")
    route = None if connection is None else connection.route
    with CappedLog(context.layout.agent_log, redactor=context.redactor) as log:
        work = _Work(context, sandbox, command, route, log, _variables(context, prepared, command))
        if command.skills is not None:
            copy_skills(sandbox, scenario.environment, command.skills, work.user)
        context.is_spent = not prepared.agent.trusted
        result = work.in_sandbox() if command.host is None else work.on_this_machine(command.host)
        for line in context.note_refused(sandbox, "agent"):
            log.write(f"benchjobs: {line}\n".encode("utf-8", "replace"))
    if result.cut_short and result.exit_status and not context.output_was_lost:
        raise OutputLost(f"the connection with the agent broke; it ended with status {result.exit_status}")
    if not result.started:
        why = f"the agent could not be started: {log.tail(500).strip()}"
        if context.turn == 1:
            raise AgentSetupFailed(why)
        # It started in its first turn, so the agent is the cause.
        context.findings.agent_end = AgentEnd(ending=Ending.CRASHED, message=clean(one_line(why, 500)))
        return
    end = context.findings.agent_end = work.end(result)
    if context.is_conversation:
        if context.progress.said is None:
            context.progress.said = log.tail(REPLY_LIMIT)
        keep_reply(context, end)
    if context.is_question and end.ending is Ending.GAVE_UP and end.message:
        context.note(end.message)
    error = infrastructure_error(end.ending, end.message)
    if error is not None:
        raise error


def hold_sandbox(context: TrialContext, sandbox: Sandbox, prepared: Prepared, outcome: Outcome) -> None:
    """Let whoever drives the trial look at its sandbox once it is scored. Nothing there counts any more."""
    command, findings = prepared.command, context.findings
    if command is None or command.hold is None or context.original is not None:
        return
    context.phases.enter_unless_cancelled("hold")
    seen: tuple[ScorerResult, ...] = () if context.scenario.confidential else tuple(findings.scorers)
    why = findings.failure
    if why is not None and context.scenario.confidential:
        why = failure_held_back(why)
    score = TrialScore(
        outcome=outcome,
        score=findings.score,
        scorers=redacted(seen, context.redactor),
        failure=redacted(why, context.redactor),
    )
    work = _Work(context, sandbox, command, None, None, _variables(context, prepared, command))
    command.hold(_HostShell(work, math.inf), score)
    context.cancellation.check()


def read_usage(context: TrialContext, sandbox: Sandbox) -> None:
    """Read the usage that an agent reports, if no gateway has counted it."""
    if not context.tells_usage:
        return
    try:
        content = sandbox.read(USAGE_FILE, limit=USAGE_LIMIT)
        if content is not None:
            said, findings = said_usage(content), context.findings
            findings.usage = added(findings.usage, said).model_copy(
                update={"source": said.source or findings.usage.source}
            )
    except (ValueError, InfrastructureError) as error:
        # The work is done and paid for. If the engine is gone, the next step reports it.
        context.note("the usage the agent reported cannot be read", error)


def _count(context: TrialContext, connection: Connection) -> None:
    """Take the gateway's count into the findings."""
    findings = context.findings
    try:
        report = connection.route.close()
    except GatewayLost as error:
        context.note(f"the usage of the agent is unknown: {clean(str(error), 300)}")
        return
    findings.usage = report.usage
    findings.models = {clean(name, 200): calls for name, calls in report.models.items()}
    findings.notes += usage_notes(report)
    context.counted = report.carried
    if report.job_stopped is not None:
        context.services.on_spent(report.job_message or "a limit of the job was reached")


def _variables(context: TrialContext, prepared: Prepared, command: AgentCommand) -> dict[str, str]:
    """Return the environment of the agent. Keys of models are not in it."""
    keys = (name for endpoint in command.endpoints for name in endpoint.key_variables)
    withheld = {*model_keys(context.config), *keys}
    return {
        **_about_the_job(context, prepared.agent.name, command),
        **prepared.env,
        **command.env,
        **({} if prepared.agent.trusted else split(context.services.secrets, withheld).passed),
    }


def _about_the_job(context: TrialContext, agent: str, command: AgentCommand) -> dict[str, str]:
    """Return variables that tell an agent about its job. None is secret."""
    spec = context.trial.agent
    seen = GATEWAY_URL[command.endpoints[0].wire] if command.endpoints else spec.base_url
    about = {
        "BENCH_MODEL": None if agent == COMMAND else spec.model,
        "BENCH_PROVIDER": spec.provider,
        "BENCH_BASE_URL": seen,
        "BENCH_PARAMS": json.dumps(params) if (params := context.params) else None,
    }
    given = {name: value for name, value in about.items() if value is not None}
    if context.tells_usage:
        given[USAGE_VARIABLE] = USAGE_FILE
    environment = context.scenario.environment
    if environment.mcp_servers:
        servers = [server.model_dump(exclude_none=True) for server in environment.mcp_servers]
        given[MCP_VARIABLE] = json.dumps(servers)
    if environment.skills_dir is not None:
        given[SKILLS_VARIABLE] = environment.skills_dir
    return {PROBLEM_VARIABLE: PROBLEM_FILE, **given}


@dataclasses.dataclass(frozen=True, slots=True)
class _Work:
    """A running agent."""

    context: TrialContext
    sandbox: Sandbox
    command: AgentCommand
    route: Route | None
    log: CappedLog | None
    """None: what happens now is not the agent's work."""
    env: Mapping[str, str]

    @property
    def user(self) -> str | None:
        scenario = self.context.scenario
        return self.command.user or scenario.agent_user or scenario.environment.user

    @property
    def timeout(self) -> float:
        limits = self.context.limits
        return limits.answer_timeout if self.context.is_question else limits.agent_timeout

    def held(self) -> float:
        """Return the seconds by which the agent's time is extended, since the gateway held its calls."""
        return 0.0 if self.route is None else min(self.route.held(), LONGEST_HELD)

    def in_sandbox(self) -> ExecResult:
        """Run the command of an agent."""
        route, limits = self.route, self.context.limits
        assert self.log is not None  # noqa: S101  an agent at work has one

        def signal(name: str) -> None:
            if route is not None and (pid := route.pid()) is not None:
                self.sandbox.signal(pid, name)

        printed = Tail(REPLY_LIMIT) if self.context.is_conversation and self.command.read is None else None
        result = self.sandbox.exec(
            self.command.argv if route is None else through_door(self.command.argv),
            timeout=self.timeout,
            silent=limits.silent_timeout,
            stopping=None if route is None else Stopping(route.stop_asked, signal, held=self.held),
            sink=self.log.write,
            stdout=printed,
            user=self.user,
            env=self.env,
        )
        if printed is not None:
            self.context.progress.said = printed.text()
        return result

    def on_this_machine(self, agent: Callable[[DrivenShell], int]) -> ExecResult:
        """Run the function of an agent that works from this machine."""
        started = time.monotonic()
        host = _HostShell(self, self.timeout)
        status = agent(host)
        self.context.cancellation.check()
        stopped = host.told_to_stop
        timed_out = stopped or host.late
        return ExecResult(
            None if timed_out else status,
            timed_out=timed_out,
            seconds=time.monotonic() - started,
            stopped=stopped,
        )

    def end(self, result: ExecResult) -> AgentEnd:
        """Determine the ending of the agent, from its command, its output, and the gateway."""
        limit = self.sandbox.limit_hit()
        reading = _read(self.context, self.command)
        pid, report = (None, None) if self.route is None else (self.route.pid(), self.route.close())
        if (
            report is not None
            and result.exit_status == DOOR_FAILED
            and pid is None
            and self.context.turn == 1
        ):
            printed = "" if self.log is None else self.log.tail(500).strip()
            raise GatewayLost(printed or "the agent could not reach the gateway")
        ending, message = ending_of(result, reading, report, self.timeout)
        if report is not None and (excused := graded_in_spite_of(report, ending)):
            self.context.note(excused)
        if ending is Ending.CRASHED and self.log is not None:
            command = self.command
            message = not_started(command.argv, command.mounts, result.exit_status, self.log.path) or message
        if limit is None and result.oom_kills and result.exit_status != 0:
            limit = "memory"
        return AgentEnd(
            exit_status=result.exit_status,
            timed_out=result.timed_out and not result.stopped,
            silent=result.silent,
            limit=limit,
            ending=ending,
            message=None if message is None else clean(one_line(message, 500)),
            oom_kills=result.oom_kills,
            output_bytes=0 if self.log is None else self.log.received,
        )


class _HostShell:
    """The sandbox and the gateway, for an agent that works from this machine: see `agents.protocol.DrivenShell`."""

    def __init__(self, work: _Work, seconds: float) -> None:
        self._work = work
        self._deadline = time.monotonic() + seconds
        self._paused: float | None = None

    @property
    def late(self) -> bool:
        """True once its time is up."""
        return self._left() <= 0

    @property
    def told_to_stop(self) -> bool:
        """True once the gateway wants it to end."""
        return self._work.route is not None and self._work.route.stop_asked()

    @property
    def stopped(self) -> bool:
        """True once it has to end."""
        return self.late or self.told_to_stop or self._work.context.cancellation.requested

    @property
    def workdir(self) -> str:
        """Absolute path that commands run in."""
        return self._work.sandbox.workdir

    @property
    def container(self) -> str:
        """Id of the sandbox, as its engine names it."""
        return self._work.sandbox.id

    @property
    def gateway(self) -> Path | None:
        """Socket at which the gateway answers; None: it calls no model."""
        return None if self._work.route is None else self._work.route.host_socket

    @property
    def scores(self) -> tuple[float, ...]:
        """Scores of earlier turns or steps."""
        findings = self._work.context.findings
        return (*findings.turns, *(step.score for step in findings.steps if step.score is not None))

    def pause(self) -> None:
        """Stop the clock."""
        self._paused = time.monotonic() if self._paused is None else self._paused

    def resume(self) -> None:
        """Let the clock run again."""
        if self._paused is not None:
            self._deadline += time.monotonic() - self._paused
            self._paused = None

    def run(
        self,
        command: str,
        timeout: float,
        *,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        workdir: str | None = None,
    ) -> tuple[int | None, str]:
        """Run a shell command as the agent's user in the workdir: exit status (None: timed out), and its output."""
        work, tail = self._work, Tail()
        result = work.sandbox.exec(
            shell(command),
            timeout=max(0.1, min(timeout, self._left())),
            sink=tail,
            user=user or work.user,
            workdir=workdir,
            env={**work.env, **(env or {})},
        )
        if result.timed_out:
            # It is still running, and would interfere with the next step.
            work.sandbox.end_commands(PROBLEM_VARIABLE)
        return result.exit_status, tail.text()

    def write(self, path: str, content: bytes, mode: int | None = None) -> None:
        """Write a file; a relative path starts at the workdir."""
        self._work.sandbox.put([File(path, content=content, mode=mode)])

    def read(self, path: str, limit: int) -> bytes | None:
        """Read a regular file, None if there is none."""
        return self._work.sandbox.read(posixpath.join(self.workdir, path), limit=limit)

    def snapshot(self, name: str) -> str:
        """Keep the file system as it is now."""
        context = self._work.context
        node = hashlib.sha256(context.trial.node_id.encode("utf-8", "replace")).hexdigest()[:12]
        reference = self._work.sandbox.keep(f"{context.services.bundle.id}-{node}-{name}")
        context.note(f"snapshot {name}: {reference}")
        return reference

    def post(self, url: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        """POST JSON to a URL of the gateway: status and JSON of the answer."""
        if self._work.route is None:
            raise GatewayLost("the agent has no route to a model; its `prepare` names no endpoints")
        # Without an end while the clock is paused, which no timeout of a socket may be.
        left = min(max(0.1, self._left()), _LONGEST_CALL)
        return self._work.route.post(url, body, left, lambda: self.stopped)

    def reply(self, text: str) -> None:
        """Give the agent's reply in a conversation."""
        if self._work.log is not None:
            self._work.context.progress.said = clean(text, REPLY_LIMIT)

    def log(self, line: str) -> None:
        """Add a line to the agent's log."""
        if self._work.log is not None:
            self._work.log.write(line.encode("utf-8", "replace") + b"\n")

    def _left(self) -> float:
        return math.inf if self._paused is not None else self._deadline + self._work.held() - time.monotonic()


def _read(context: TrialContext, command: AgentCommand) -> AgentReading | None:
    """Read the agent's output; write its trajectory on the way."""
    if command.read is None:
        return None
    trajectory = context.layout.trajectory
    reading = command.read(context.layout.agent_log, trajectory)
    if context.progress.said is None:
        context.progress.said = reading.reply
    if trajectory.exists():
        # The log is redacted. But a secret in several pieces may be joined here.
        redact_file(trajectory, context.redactor)
    return reading
