"""Step 3, its second half: the agent at work, in its sandbox or on this machine, and what it used of models."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping

from ..agents.protocol import PROBLEM_FILE, PROBLEM_VARIABLE, AgentCommand, AgentReading
from ..agents.usage import USAGE_FILE, USAGE_LIMIT, USAGE_VARIABLE, said_usage
from ..model.agent import COMMAND
from ..model.endpoint import GATEWAY_URL
from ..model.errors import AgentSetupFailed, EnvironmentFailed, GatewayLost, InfrastructureError
from ..model.result import AgentEnd
from ..sandbox.door import DOOR_FAILED, through_door
from ..sandbox.protocol import ExecResult, Sandbox, Stopping
from ..store.log import CappedLog
from ..store.text import clean, one_line
from ..store.totals import added
from .connection import Connection, connected, usage_notes
from .context import TrialContext
from .host_agent import HostShell
from .outcome import ending_of, infrastructure_error
from .prepare import Prepared
from .secrets import model_keys, redact_file, split


@contextlib.contextmanager
def connection_of(
    context: TrialContext, command: AgentCommand | None, keys: Mapping[str, str]
) -> Iterator[Connection | None]:
    """Connect the agent with its models, and count at the end what it used; None where it needs no connection.

    Args:
        context: Of the try.
        command: Of the agent; None: no agent works.
        keys: Of models, which were given to the agent.

    """
    connection: Connection | None = None
    try:
        with connected(
            command,
            context.services.models,
            context.trial,
            keys,
            secrets=context.secrets,
            carried=context.counted,
        ) as connection:
            yield connection
    finally:
        if connection is not None:
            _count(context, connection)


def run_agent(
    context: TrialContext, sandbox: Sandbox, prepared: Prepared, connection: Connection | None
) -> None:
    """Run the agent until it ends, its time is up or it exceeds a limit; how it ended is in the findings.

    Raises:
        InfrastructureError: it could not be run, or ended for what is not its own doing.

    """
    command = prepared.command
    context.switch_network(sandbox, context.scenario.agent_network)
    if command is None:
        return
    context.phases.enter_unless_cancelled("agent")
    if (limit := sandbox.limit_hit()) is not None:
        raise EnvironmentFailed(f"the set-up exceeded the {limit} limit before the agent began")
    with CappedLog(context.layout.agent_log, redactor=context.redactor) as log:
        work = _in_sandbox if command.host is None else _on_this_machine
        result = work(context, sandbox, command, connection, log, _variables(context, prepared, command))
    if not result.started:
        raise AgentSetupFailed(f"the agent could not be started: {log.tail(500).strip()}")
    end = _end(context, sandbox, command, connection, log, result)
    context.findings.agent_end = end
    error = infrastructure_error(end.ending, end.message)
    if error is not None:
        raise error


def read_usage(context: TrialContext, sandbox: Sandbox) -> None:
    """Read what an agent says it used, if no gateway has counted it."""
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
        # Its work is done and paid for. An engine that is gone will be missed by what comes next.
        context.note("what the agent says it used cannot be read", error)


def _count(context: TrialContext, connection: Connection) -> None:
    """Take what the gateway has counted into the findings."""
    findings = context.findings
    try:
        report = connection.close()
    except GatewayLost as error:
        context.note(f"nobody knows what the agent used: {clean(str(error), 300)}")
        return
    findings.usage = report.usage.model_copy(update={"source": "gateway"})
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
    """Return what an agent is told of its job: nothing of it is secret."""
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
    return {PROBLEM_VARIABLE: PROBLEM_FILE, **given}


def _user(context: TrialContext, command: AgentCommand) -> str | None:
    return command.user or context.scenario.agent_user or context.scenario.environment.user


def _in_sandbox(
    context: TrialContext,
    sandbox: Sandbox,
    command: AgentCommand,
    connection: Connection | None,
    log: CappedLog,
    env: Mapping[str, str],
) -> ExecResult:
    """Run the command of an agent."""
    route = None if connection is None else connection.route

    def signal(name: str) -> None:
        if route is not None and (pid := route.pid()) is not None:
            sandbox.signal(pid, name)

    return sandbox.exec(
        command.argv if route is None else through_door(command.argv),
        timeout=context.limits.agent_timeout,
        silent=context.limits.silent_timeout,
        stopping=None if route is None else Stopping(route.stop_asked, signal),
        sink=log.write,
        user=_user(context, command),
        env=env,
    )


def _on_this_machine(
    context: TrialContext,
    sandbox: Sandbox,
    command: AgentCommand,
    connection: Connection | None,
    log: CappedLog,
    env: Mapping[str, str],
) -> ExecResult:
    """Run the function of an agent that works from here."""
    started = time.monotonic()
    shell = HostShell(
        sandbox,
        None if connection is None else connection.route,
        log,
        deadline=started + context.limits.agent_timeout,
        user=_user(context, command),
        env=env,
        cancelled=lambda: context.cancellation.requested,
    )
    assert command.host is not None  # noqa: S101  callers have looked
    status = command.host(shell)
    context.cancellation.check()
    stopped = shell.told_to_stop
    timed_out = stopped or shell.late
    return ExecResult(
        None if timed_out else status,
        timed_out=timed_out,
        seconds=time.monotonic() - started,
        stopped=stopped,
    )


def _end(
    context: TrialContext,
    sandbox: Sandbox,
    command: AgentCommand,
    connection: Connection | None,
    log: CappedLog,
    result: ExecResult,
) -> AgentEnd:
    """Find out how an agent ended: from its command, its own words, and the gateway."""
    limit = sandbox.limit_hit()
    reading = _read(context, command)
    pid = None if connection is None else connection.route.pid()
    report = None if connection is None else connection.close()
    if report is not None and result.exit_status == DOOR_FAILED and pid is None:
        raise GatewayLost(log.tail(500).strip() or "the agent could not reach the gateway")
    ending, message = ending_of(result, reading, report, context.limits.agent_timeout)
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


def _read(context: TrialContext, command: AgentCommand) -> AgentReading | None:
    """Read what the agent's output says of it; its trajectory is written on the way."""
    if command.read is None:
        return None
    trajectory = context.layout.trajectory
    reading = command.read(context.layout.agent_log, trajectory)
    if trajectory.exists():
        # The log is without secrets. But one that came in pieces is put together here.
        redact_file(trajectory, context.redactor)
    return reading
