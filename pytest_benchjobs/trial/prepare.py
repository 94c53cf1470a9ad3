"""Step 0: check that everything a trial needs is there, before anything is spent, and compute its signature."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..agents.answering import can_answer
from ..agents.capabilities import check_handed, incompatibility
from ..agents.checking import checked_command
from ..agents.given_keys import with_given_keys
from ..agents.protocol import Agent, AgentCall, AgentCommand, Conversation, Exchange
from ..model.environ import HOST
from ..model.errors import AgentSetupFailed, InfrastructureError, InputError
from ..model.job import JobConfig
from ..model.result import Trial
from ..model.scenario import Scenario
from ..sandbox.protocol import SandboxProvider
from ..scoring.needs import needs_of, runs_programs
from ..scoring.protocol import Scorer
from ..sources.template import fill
from ..store.bundle import JobBundle
from ..store.text import cut
from .answering import is_question
from .limits import Limits
from .scorer_models import check_models
from .secrets import keys_taken, model_keys, split, tables_after_agent, without_keys
from .signature import parts_of

if TYPE_CHECKING:
    from .connection import Models


_RETOLD_LIMIT = 200_000
"""The most characters of earlier turns that are retold to an agent."""
_MESSAGE_LIMIT = 20_000
"""The most characters of one message or reply."""


@dataclasses.dataclass(frozen=True, slots=True)
class Services:
    """Job, bundle, provider, agents and scorers: shared by all trials of a process."""

    config: JobConfig
    bundle: JobBundle
    provider: SandboxProvider
    agents: Mapping[str, Agent]
    scorers: Mapping[str, Scorer]
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Variable for the agent -> value. Values are redacted wherever we write."""
    models: Models | None = None
    """The gateway; None: this session has none."""
    on_spent: Callable[[str], None] = lambda _why: None
    """Called when a limit of the whole job is reached."""
    on_cut: Callable[[Trial, Mapping[str, Any] | None], bool] = lambda _trial, _counted: False
    """Called when a used-up quota cut a trial short, with the gateway's count so far; returns whether it runs again."""
    check_room: Callable[[], None] = lambda: None
    """Called before an agent starts; raises `DiskFull` if its result could not be stored."""
    on_phase: Callable[[Trial, str], None] = lambda _trial, _phase: None
    """Called when a trial enters a phase, in its thread."""


@dataclasses.dataclass(frozen=True, slots=True)
class Prepared:
    """A trial that is ready to start."""

    agent: Agent
    command: AgentCommand | None
    env: Mapping[str, str]
    """Variables for the agent, filled in from the host."""
    keys: Mapping[str, str]
    """Keys of models that were given for the agent, which reaches models without them."""
    parts: Mapping[str, str]
    """Parts of its signature, all but the image's."""
    statement: str = ""
    """Problem statement of a turn after the first."""
    conversation: Conversation = dataclasses.field(default_factory=Conversation)
    """Messages and replies so far."""


def prepare(trial: Trial, services: Services) -> Prepared:
    """Check everything a trial needs, and get the agent's command.

    InputError: the agent or a scorer's type is unknown, a variable of the host is missing, or the gate refuses the
    place of grading. AgentSetupFailed: a requirement of the scenario, or of the agent, is missing. AgentLacks: the
    agent does not take the scenario's MCP servers or skills. OSError: a file of the scenario cannot be read.
    """
    scenario, spec = trial.scenario, trial.agent
    config = services.config.of(scenario.benchmark)
    agent = services.agents.get(spec.name)
    if agent is None:
        raise InputError(f"there is no agent {spec.name!r}; available: {', '.join(sorted(services.agents))}")
    if config.strict_capabilities and (why := incompatibility(scenario, agent)) is not None:
        raise AgentSetupFailed(why)
    check_handed(scenario, agent)
    params = {**config.params, **spec.params}
    known = model_keys(config)
    try:
        _check_scenario(scenario, services, config, params, known)
    except InputError as error:
        if error.path is not None:
            raise
        raise InputError(error.message, path=scenario.source, line=scenario.line) from None
    for table in (*(one.env for one in scenario.scorers), *(one.env for one in scenario.environments)):
        fill(table, HOST)
    _check_requirements(scenario, services)
    tables = {**scenario.agent_env, **config.env}
    env, keys = split(without_keys(tables, known), known)
    for name, variable in (keys_taken(scenario.environment.env, known) | keys_taken(tables, known)).items():
        # Whatever its name in the manifest: the agent reaches models through the gateway, which has the key.
        keys.pop(name, None)
        keys[variable] = HOST[variable]
    prepared = Prepared(agent, None, env, keys, {})
    later = [*_later_commands(trial, services, prepared)]  # first: an agent may keep what it prepared last
    task = scenario.at_step(0) if scenario.steps else scenario
    replies = (
        scenario.answer is not None and scenario.answer.reply_file is not None and can_answer(agent, params)
    )
    asked_inside = task.answer is not None and not replies
    if asked_inside and not is_question(trial, config, services.agents, services.scorers):
        task = task.model_copy(update={"problem_statement": task.statement_in_container})
    continues = bool(scenario.steps) and scenario.steps[0].continues
    command = _command(trial, services, prepared, task, prepared.conversation if continues else None)
    parts = parts_of(trial, config, agent, (command, *later), services.scorers, services.secrets)
    return Prepared(agent, command, env, keys, parts, conversation=prepared.conversation)


def prepare_again(
    trial: Trial, services: Services, prepared: Prepared, scenario: Scenario, *, continues: bool = False
) -> Prepared:
    """Get the agent's command for a later turn or step, whose statement and limits are those of `scenario`.

    `continues`: it goes on with the conversation so far. Raises `AgentSetupFailed` where a requirement is missing.
    """
    conversation = prepared.conversation if continues else None
    statement = scenario.problem_statement
    if conversation is not None and not getattr(prepared.agent, "resumes", False):
        statement = retold(conversation, statement)
        scenario = scenario.model_copy(update={"problem_statement": statement})
    command = _command(trial, services, prepared, scenario, conversation)
    return dataclasses.replace(prepared, command=command, statement=statement)


def retold(conversation: Conversation, message: str) -> str:
    """Return the problem statement of a turn for an agent that cannot resume: the conversation so far, and the message.

    The oldest turns are left out where it is too long.
    """
    if not conversation.exchanges:
        return message
    turns: list[str] = []
    room = _RETOLD_LIMIT
    for number, exchange in reversed([*enumerate(conversation.exchanges, 1)]):
        question, reply = (cut(text.strip(), _MESSAGE_LIMIT) for text in (exchange.message, exchange.reply))
        turn = (
            f"## Turn {number}: the user\n\n{question}\n\n## Turn {number}: you\n\n{reply or '(no reply)'}\n"
        )
        room -= len(turn)
        if room < 0:
            turns.append("(earlier turns are left out)\n")
            break
        turns.append(turn)
    so_far = "\n".join(reversed(turns))
    return (
        "This is a conversation of several turns. You work in the same place as before. This was said so far:\n\n"
        f"{so_far}\n# The new message of the user\n\n{message}"
    )


def _later_commands(trial: Trial, services: Services, prepared: Prepared) -> Iterator[AgentCommand | None]:
    """Yield the commands of later steps that are not that of the first one, for the signature.

    Each step has a reference of its own. An agent may be called differently where it continues a conversation.
    """
    later = [*enumerate(trial.scenario.steps)][1:]
    if not prepared.agent.trusted:
        later = [(number, step) for number, step in later[:1] if step.continues]
    for number, step in later:
        conversation = Conversation([Exchange("", "")]) if step.continues else None
        yield _command(trial, services, prepared, trial.scenario.at_step(number), conversation)


def _command(
    trial: Trial,
    services: Services,
    prepared: Prepared,
    task: Scenario,
    conversation: Conversation | None,
) -> AgentCommand | None:
    """Return the agent's command for the problem statement of `task`; None to do nothing."""
    config, agent = services.config.of(trial.scenario.benchmark), prepared.agent
    call = AgentCall(
        scenario=task,
        spec=trial.agent,
        env=prepared.env,
        timeout=Limits(task, config).agent_timeout,
        attempt=trial.attempt,
        params={**config.params, **trial.agent.params},
        conversation=conversation,
        machine=lambda: _machine(services),
    )
    command = checked_command(agent.prepare(call), agent)
    if command is None and config.check and task.answer is None:
        from .leaks import looking

        return looking(task)
    if command is None or command.endpoints or agent.trusted:
        return command
    given = {*services.secrets, *(prepared.keys if services.models is not None else ())}
    return with_given_keys(command, given, HOST)


def _machine(services: Services) -> str | None:
    with contextlib.suppress(InfrastructureError):  # without an engine, the trial itself ends with it
        return services.provider.machine()
    return None


def _check_scenario(
    scenario: Scenario,
    services: Services,
    config: JobConfig,
    params: Mapping[str, Any],
    known: frozenset[str],
) -> None:
    """Check scorers, where they grade, and that no key of a model is where processes of the agent could read it."""
    for scorer in scenario.scorers:
        if scorer.type not in services.scorers:
            raise InputError(
                f"scorer {scorer.name!r} has the unknown type {scorer.type!r}; available: "
                f"{', '.join(sorted(services.scorers))}"
            )
    for scorer in scenario.scorers:
        needs_of(scorer.type, services.scorers).check(scorer)
    check_models(scenario.scorers, services.scorers, params, services.models)
    for whose, table in tables_after_agent(scenario):
        taken = sorted(set(keys_taken(table, known).values()) - set(config.allow_key))
        if taken:
            raise InputError(
                f"{whose} would have {', '.join(taken)}, a key of a model, in the container; "
                f"allow it with --bench-allow-key {taken[0]}, or leave it out of `env`"
            )
    in_place = None in scenario.places and runs_programs(scenario.scorers, services.scorers)
    if config.gate.require_fresh and in_place:
        raise InputError(
            "it is graded in the agent's container, which --bench-require-fresh refuses; leave it out of the job, or "
            "give --bench-grade-in fresh"
        )


def _check_requirements(scenario: Scenario, services: Services) -> None:
    required = scenario.requires
    missing = [name for name in required.env if name not in HOST]
    missing += [name for name in required.secrets if name not in services.secrets]
    if missing:
        raise AgentSetupFailed(
            f"scenario {scenario.id!r} requires {', '.join(missing)}: "
            "set it in the environment, or pass it with --bench-secret"
        )
    programs = [name for name in required.commands if shutil.which(name) is None]
    if programs:
        raise AgentSetupFailed(
            f"scenario {scenario.id!r} requires the program {', '.join(programs)} on this machine's PATH"
        )
