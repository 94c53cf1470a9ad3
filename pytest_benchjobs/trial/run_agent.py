"""Step 3, its second half: run the agent, in its sandbox or on this machine, and count its model usage."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import posixpath
import secrets
import shutil
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
from ..gateway.client import Route, Terms, Upstream, open_route
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
from ..model.result import AgentEnd, Outcome
from ..model.scenario import Environment
from ..sandbox.door import DOOR_FAILED, through_door
from ..sandbox.protocol import ExecResult, File, Sandbox, Stopping
from ..sandbox.shell import shell
from ..scoring.output import Tail
from ..store.files import writing
from ..store.log import CappedLog
from ..store.text import clean, one_line
from ..store.totals import added
from ..system.cutting import end_of
from .confidential import failure_held_back
from .connection import key_of, trial_name
from .context import TrialContext
from .limits import LONGEST_HELD
from .outcome import ending_of, graded_in_spite_of, infrastructure_error
from .prepare import Prepared
from .secrets import model_keys, redact_file, redacted, split

_LONGEST_CALL = 3600.0
_REPLY_LIMIT = 256 * 1024
"""The most bytes of standard output, and the most characters, of a reply: its end, and its beginning and end."""
_BROKEN_OFF = (Ending.CRASHED, Ending.KILLED, Ending.TURN_LIMIT, Ending.TRIAL_LIMIT)
_COPY_TIMEOUT = 300.0
_NO_SUCH_DIRECTORY = 3
_COPY = """
[ -d "$1" ] || exit 3
mkdir -p "$2" && cp -R "$1/." "$2/"
"""


@contextlib.contextmanager
def connection_to_models(
    context: TrialContext, command: AgentCommand | None, given: Mapping[str, str]
) -> Iterator[None]:
    """Open a route of the agent to its models, if it needs any, and count its usage at the end, with that of all tries.

    `command` is None where no agent runs; `given` are keys that were given to the agent. AgentSetupFailed: a key is
    missing.
    """
    if command is None or not command.endpoints:
        yield
        return
    trial, models = context.trial, context.services.models
    if models is None:
        raise GatewayLost("the agent needs a model, and this session has no gateway to reach one")
    upstreams = [Upstream(endpoint, key_of(endpoint, models, given)) for endpoint in command.endpoints]
    # An answer may repeat one.
    context.keep_secret({one.endpoint.key_variables[0]: one.key for one in upstreams if one.key is not None})
    # An agent without a model, such as a command, may call any.
    has_model = trial.agent.model and trial.agent.name != COMMAND
    own = command.models or ((trial.agent.model,) if has_model else ())
    callable_models = (*own, *models.allowed_models) if own else ()
    tools = trial.scenario.tools_of_providers
    if (
        command.read is None or command.hold is not None
    ):  # its steps are those calls, or have those of its driver
        context.calls = Path(models.address).with_name(f"calls-{secrets.token_hex(8)}")
    terms = Terms(models.limits, callable_models, tools, context.secrets, context.counted, context.calls)
    with contextlib.ExitStack() as closing:
        if context.calls is not None:
            closing.callback(context.calls.unlink, missing_ok=True)
        route = closing.enter_context(open_route(models.address, trial_name(trial), upstreams, terms))
        context.route = route
        try:
            yield
        finally:  # now, as a route that is gone reports nothing
            try:
                with contextlib.suppress(GatewayLost):
                    route.close()  # traffic that cannot be recorded is an error, raised once
            finally:
                _count(context, route)


def _count(context: TrialContext, route: Route) -> None:
    """Take the gateway's count into the findings."""
    findings = context.findings
    try:
        report = route.close()
    except GatewayLost as error:
        context.note("the usage of the agent is unknown", error)
        return
    findings.usage = report.usage
    findings.models = {clean(name, 200): calls for name, calls in report.models.items()}
    context.counted = report.carried
    context.note_report(report)


def run_agent(context: TrialContext, sandbox: Sandbox, prepared: Prepared) -> None:
    """Run the agent until it ends, times out or exceeds a limit; its ending is in the findings.

    Raises `InfrastructureError` where it could not be run, or ended for a reason it did not cause.
    """
    command, scenario = prepared.command, context.scenario
    context.switch_network(sandbox, scenario.agent_network, scenario.agent_allowed_hosts)
    if command is None:
        return
    context.is_driven = command.hold is not None
    context.phases.enter_unless_cancelled("agent")
    if (limit := sandbox.limit_hit()) is not None:
        raise EnvironmentFailed(f"the set-up exceeded the {limit} limit before the agent began")
    with CappedLog(context.layout.agent_log, redactor=context.redactor) as log:
        work = _Work(context, sandbox, command, context.route, _variables(context, prepared, command))
        if command.skills is not None:
            copy_skills(sandbox, scenario.environment, command.skills, work.user)
        context.is_spent = not prepared.agent.trusted
        result = work.in_sandbox(log) if command.host is None else work.on_this_machine(command.host, log)
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
    end = context.findings.agent_end = work.end(result, log)
    if context.is_conversation and not is_broken_off(end):
        _keep_reply(context, log)
    if context.is_question and end.ending is Ending.GAVE_UP and end.message:
        context.note(end.message)
    error = infrastructure_error(end.ending, end.message)
    if error is not None:
        raise error


def is_broken_off(end: AgentEnd) -> bool:
    """Return True if an agent did not end by itself, so that what it said is no reply."""
    return bool(end.exit_status) or end.timed_out or end.limit is not None or end.ending in _BROKEN_OFF


def _keep_reply(context: TrialContext, log: CappedLog) -> None:
    """Make what the agent returned, or printed as its last message, its reply, and write it.

    Of an agent whose output has no known format that is its standard output. No file of the sandbox is part of it, so
    that writing one earns nothing.
    """
    said = log.tail(_REPLY_LIMIT) if context.progress.said is None else context.progress.said
    # Redacted, so that a rescore, which has only the file, grades the same text.
    reply = context.progress.reply = clean(context.redactor.redact_text(said), _REPLY_LIMIT).strip()
    with writing(context.layout.reply):
        context.layout.reply.write_text(reply, "utf-8", "replace")


def hold_sandbox(context: TrialContext, sandbox: Sandbox, prepared: Prepared, outcome: Outcome) -> None:
    """Let the driver of the trial look at its sandbox once it is scored. Changes there have no effect."""
    command, findings = prepared.command, context.findings
    if command is None or command.hold is None:
        return
    context.phases.enter_unless_cancelled("hold")
    seen, why = findings.scorers, findings.failure
    if context.scenario.confidential:
        seen, why = (), None if why is None else failure_held_back(why)
    score = TrialScore(
        outcome=outcome,
        score=findings.score,
        scorers=redacted(seen, context.redactor),
        failure=redacted(why, context.redactor),
    )
    work = _Work(context, sandbox, command, None, _variables(context, prepared, command))
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
            source = said.source or findings.usage.source
            findings.usage = added(findings.usage, said).model_copy(update={"source": source})
    except (ValueError, InfrastructureError) as error:
        # The work is done and paid for. If the engine is gone, the next step reports it.
        context.note("the usage the agent reported cannot be read", error)


def _variables(context: TrialContext, prepared: Prepared, command: AgentCommand) -> dict[str, str]:
    """Return the environment of the agent. Keys of models are not in it."""
    spec, environment = context.trial.agent, context.scenario.environment
    servers = [server.model_dump(exclude_none=True) for server in environment.mcp_servers]
    about = {
        PROBLEM_VARIABLE: PROBLEM_FILE,
        "BENCH_MODEL": None if prepared.agent.name == COMMAND else spec.model,
        "BENCH_PROVIDER": spec.provider,
        "BENCH_BASE_URL": GATEWAY_URL[command.endpoints[0].wire] if command.endpoints else spec.base_url,
        "BENCH_PARAMS": json.dumps(params) if (params := context.params) else None,
        USAGE_VARIABLE: USAGE_FILE if context.tells_usage else None,
        MCP_VARIABLE: json.dumps(servers) if servers else None,
        SKILLS_VARIABLE: environment.skills_dir,
    }
    keys = (name for endpoint in command.endpoints for name in endpoint.key_variables)
    withheld = {*model_keys(context.config), *keys}
    return {
        **{name: value for name, value in about.items() if value is not None},
        **prepared.env,
        **command.env,
        **({} if prepared.agent.trusted else split(context.services.secrets, withheld).passed),
    }


@dataclasses.dataclass(frozen=True, slots=True)
class _Work:
    """A running agent."""

    context: TrialContext
    sandbox: Sandbox
    command: AgentCommand
    route: Route | None
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

    def in_sandbox(self, log: CappedLog) -> ExecResult:
        """Run the command of an agent."""
        route = self.route

        def signal(name: str) -> None:
            if route is not None and (pid := route.pid()) is not None:
                self.sandbox.signal(pid, name)

        printed = Tail(_REPLY_LIMIT) if self.context.is_conversation and self.command.read is None else None
        result = self.sandbox.exec(
            self.command.argv if route is None else through_door(self.command.argv),
            timeout=self.timeout,
            silent=self.context.limits.silent_timeout,
            stopping=None if route is None else Stopping(route.stop_asked, signal, held=self.held),
            sink=log.write,
            stdout=printed,
            user=self.user,
            env=self.env,
        )
        if printed is not None:
            self.context.progress.said = printed.text()
        return result

    def on_this_machine(self, agent: Callable[[DrivenShell], int], log: CappedLog) -> ExecResult:
        """Run the function of an agent that works from this machine."""
        started = time.monotonic()
        host = _HostShell(self, self.timeout, log)
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

    def end(self, result: ExecResult, log: CappedLog) -> AgentEnd:
        """Determine the ending of the agent, from its command, its output, and the gateway."""
        context, command = self.context, self.command
        limit = self.sandbox.limit_hit()
        try:
            pid, report = (None, None) if self.route is None else (self.route.pid(), self.route.close())
        finally:  # what calls are logged is certain now
            reading = self._read()
        self._write_steps()
        never_called = report is not None and pid is None and context.turn == 1
        if never_called and result.exit_status == DOOR_FAILED:
            raise GatewayLost(log.tail(500).strip() or "the agent could not reach the gateway")
        ending, message = ending_of(result, reading, report, self.timeout)
        if report is not None and (excused := graded_in_spite_of(report, ending)):
            context.note(excused)
        if ending is Ending.CRASHED:
            message = not_started(command.argv, command.mounts, result.exit_status, log.path) or message
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
            output_bytes=log.received,
        )

    def _read(self) -> AgentReading | None:
        """Read the agent's output; write its trajectory on the way."""
        context, trajectory = self.context, self.context.layout.trajectory
        if self.command.read is None:
            return None
        reading = self.command.read(context.layout.agent_log, trajectory)
        if context.progress.said is None:
            context.progress.said = reading.reply
        if trajectory.exists():
            # The log is redacted. But a secret in several pieces may be joined here.
            redact_file(trajectory, context.redactor)
        return reading

    def _write_steps(self) -> None:
        """Write the steps of an agent that tells none itself, from its calls of models so far."""
        context = self.context
        if context.calls is None or self.command.read is not None or not context.calls.exists():
            return
        from ..agents.reading.calls import write_steps

        spec, written = context.trial.agent, context.calls.with_suffix(".steps")
        try:
            context.calls_read = write_steps(
                context.calls,
                written,
                after=context.calls_read,
                agent=spec.name,
                version=spec.version,
                model=spec.model,
            )
            redact_file(written, context.redactor)
        except Exception as error:  # an agent may send what confuses the reader, and no score depends on it
            context.note("the agent's calls of models cannot be read, so that it has no steps", error)
        else:
            with writing(context.layout.trajectory):
                shutil.copyfile(written, context.layout.trajectory)
        finally:
            written.unlink(missing_ok=True)


class _HostShell:
    """A `DrivenShell` for an agent that works from this machine. Without a log, what happens is not its work."""

    def __init__(self, work: _Work, seconds: float, log: CappedLog | None = None) -> None:
        self._work, self._log = work, log
        self._context, self._sandbox, self._route = work.context, work.sandbox, work.route
        self.workdir, self.container = work.sandbox.workdir, work.sandbox.id
        self.gateway = None if work.route is None else work.route.host_socket
        self.calls = work.context.calls
        self._deadline = time.monotonic() + seconds
        self._paused: float | None = None

    @property
    def late(self) -> bool:
        """True once its time is up."""
        return self._left() <= 0

    @property
    def told_to_stop(self) -> bool:
        """True once the gateway wants it to end."""
        return self._route is not None and self._route.stop_asked()

    @property
    def stopped(self) -> bool:
        return self.late or self.told_to_stop or self._context.cancellation.requested

    @property
    def scores(self) -> tuple[float, ...]:
        findings = self._context.findings
        return (*findings.turns, *(step.score for step in findings.steps if step.score is not None))

    def pause(self) -> None:
        self._paused = time.monotonic() if self._paused is None else self._paused

    def resume(self) -> None:
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
        work, tail = self._work, Tail()
        result = self._sandbox.exec(
            shell(command),
            timeout=max(0.1, min(timeout, self._left())),
            sink=tail,
            user=user or work.user,
            workdir=workdir,
            env={**work.env, **(env or {})},
        )
        if result.timed_out:
            # It is still running, and would interfere with the next step.
            self._sandbox.end_commands(PROBLEM_VARIABLE)
        return result.exit_status, tail.text()

    def write(self, path: str, content: bytes, mode: int | None = None) -> None:
        self._sandbox.put([File(path, content=content, mode=mode)])

    def read(self, path: str, limit: int) -> bytes | None:
        return self._sandbox.read(posixpath.join(self.workdir, path), limit=limit)

    def snapshot(self, name: str) -> str:
        context = self._context
        node = hashlib.sha256(context.trial.node_id.encode("utf-8", "replace")).hexdigest()[:12]
        reference = self._sandbox.keep(f"{context.services.bundle.id}-{node}-{name}")
        context.note(f"snapshot {name}: {reference}")
        return reference

    def post(self, url: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        if self._route is None:
            raise GatewayLost("the agent has no route to a model; its `prepare` names no endpoints")
        # Without an end while the clock is paused, which no timeout of a socket may be.
        left = min(max(0.1, self._left()), _LONGEST_CALL)
        told = self._work.command.hold is not None  # by the handover
        return self._route.post(url, body, left, lambda: self.stopped, logged=not told)

    def reply(self, text: str) -> None:
        if self._log is not None:
            self._context.progress.said = clean(text, _REPLY_LIMIT)

    def log(self, line: str) -> None:
        if self._log is not None:
            self._log.write(line.encode("utf-8", "replace") + b"\n")

    def _left(self) -> float:
        return math.inf if self._paused is not None else self._deadline + self._work.held() - time.monotonic()


def copy_skills(sandbox: Sandbox, environment: Environment, target: str, user: str | None) -> None:
    """Copy the skills in a sandbox to a directory, as the agent's user, who might have had a turn already.

    EnvironmentFailed: a directory with skills is not there, or cannot be copied.
    """
    source = environment.skills_dir or environment.skills_if_there
    if source is None:
        return
    said, command = Tail(), ("/bin/sh", "-c", _COPY, "sh", source, target)
    status = sandbox.exec(command, timeout=_COPY_TIMEOUT, sink=said, user=user).exit_status
    if status == _NO_SUCH_DIRECTORY and environment.skills_dir is None:
        return
    if status == _NO_SUCH_DIRECTORY:
        raise EnvironmentFailed(f"skills_dir: there is no directory {source} in the container")
    if status != 0:
        raise EnvironmentFailed(f"the skills in {source} cannot be copied: {end_of(said.text(), 1000)}")
