"""Step 0: check that everything a trial needs is there, before anything is spent, and compute its signature."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..agents.answering import can_answer
from ..agents.capabilities import check_handed, incompatibility
from ..agents.checking import checked_command
from ..agents.conversing import resumes, told
from ..agents.given_keys import with_given_keys
from ..agents.protocol import Agent, AgentCall, AgentCommand, Conversation, Exchange
from ..model.environ import HOST
from ..model.errors import AgentSetupFailed, InputError
from ..model.job import JobConfig
from ..model.result import Trial
from ..model.scenario import Scenario
from ..sandbox.protocol import SandboxProvider
from ..scoring.needs import check_scorers, runs_programs
from ..scoring.protocol import Scorer
from ..sources.template import fill
from ..store.bundle import JobBundle
from .answering import is_question
from .limits import Limits
from .scorer_models import check_models
from .secrets import keys_taken, model_keys, secrets_of, split, tables_after_agent, without_keys
from .signature import parts_of

if TYPE_CHECKING:
    from .connection import Models


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
    secrets: Mapping[str, str]
    parts: Mapping[str, str]
    """Parts of its signature, all but the image's."""
    statement: str = ""
    """Problem statement of a turn after the first."""
    conversation: Conversation | None = None
    """Conversation that the first step begins; None: there is none."""


def prepare(trial: Trial, services: Services) -> Prepared:
    """Check everything a trial needs, and get the agent's command.

    Raises:
        InputError: the agent or a scorer's type is unknown, a variable of the host is missing, or the gate refuses the
            place of grading.
        AgentSetupFailed: a requirement of the scenario, or of the agent, is missing.
        AgentLacks: the agent does not take the scenario's MCP servers or skills.
        OSError: a file of the scenario cannot be read.
    """
    scenario, spec = trial.scenario, trial.agent
    config = services.config.of(scenario.benchmark)
    limits = Limits(scenario, config)
    agent = services.agents.get(spec.name)
    if agent is None:
        raise InputError(f"there is no agent {spec.name!r}; available: {', '.join(sorted(services.agents))}")
    if config.strict_capabilities and (why := incompatibility(scenario, agent)) is not None:
        raise AgentSetupFailed(why)
    check_handed(scenario, agent)
    _check_scorers(trial, services)
    _check_keys(trial, config)
    _check_requirements(trial, services)
    _check_places(trial, services, config)
    tables = {**scenario.agent_env, **config.env}
    known = model_keys(config)
    env, keys = split(without_keys(tables, known), known)
    for name, variable in (keys_taken(scenario.environment.env, known) | keys_taken(tables, known)).items():
        # Whatever its name in the manifest: the agent reaches models through the gateway, which has the key.
        keys.pop(name, None)
        keys[variable] = HOST[variable]
    later = _later_commands(trial, services, agent, env, keys)
    asked = scenario.at_step(0) if scenario.steps else scenario
    is_alone = is_question(trial, config, services.agents, services.scorers)
    if not is_alone and not _replies(scenario, agent, {**config.params, **spec.params}):
        asked = _saying(asked, asked.statement_in_container)
    conversation = Conversation() if scenario.steps and scenario.steps[0].continues else None
    command = _command(asked, trial, services, agent, env, keys, conversation)
    secrets = secrets_of(scenario, config, services.secrets)
    parts = parts_of(
        scenario, limits, spec, agent, (command, *later), services.scorers, secrets, services.secrets
    )
    return Prepared(
        agent=agent,
        command=command,
        env=env,
        keys=keys,
        secrets=secrets,
        parts=parts,
        conversation=conversation,
    )


def prepare_turn(trial: Trial, services: Services, prepared: Prepared, statement: str) -> Prepared:
    """Get the agent's command for another turn, with its own problem statement.

    Raises:
        AgentSetupFailed: a requirement of the agent is missing.
    """
    asked = _saying(trial.scenario, statement)
    command = _command(asked, trial, services, prepared.agent, prepared.env, prepared.keys)
    return dataclasses.replace(prepared, command=command, statement=statement)


def prepare_step(
    trial: Trial,
    services: Services,
    prepared: Prepared,
    scenario: Scenario,
    conversation: Conversation | None,
) -> Prepared:
    """Get the agent's command for a later step, whose scenario is `scenario`.

    `conversation` is the one so far; None: the step has nothing to do with those before.

    Raises:
        AgentSetupFailed: a requirement of the agent is missing.
    """
    agent, statement = prepared.agent, scenario.problem_statement
    if conversation is not None and not resumes(agent):
        statement = told(conversation, statement)
    asked = _saying(scenario, statement)
    command = _command(asked, trial, services, agent, prepared.env, prepared.keys, conversation)
    return dataclasses.replace(prepared, command=command, statement=statement)


def _later_commands(
    trial: Trial, services: Services, agent: Agent, env: Mapping[str, str], keys: Mapping[str, str]
) -> tuple[AgentCommand | None, ...]:
    """Return the commands of later steps that are not that of the first one, for the signature.

    Each step has a reference of its own. An agent may be called differently where it continues a conversation.
    """
    scenario = trial.scenario
    wanted = range(1, len(scenario.steps))
    if not agent.trusted:
        wanted = range(1, 2) if len(scenario.steps) > 1 and scenario.steps[1].continues else range(0)
    return tuple(
        _command(scenario.at_step(number), trial, services, agent, env, keys, conversation)
        for number in wanted
        for conversation in [Conversation([Exchange("", "")]) if scenario.steps[number].continues else None]
    )


def _command(
    asked: Scenario,
    trial: Trial,
    services: Services,
    agent: Agent,
    env: Mapping[str, str],
    keys: Mapping[str, str],
    conversation: Conversation | None = None,
) -> AgentCommand | None:
    """Return the agent's command for the problem statement `asked`; None to do nothing."""
    config = services.config.of(trial.scenario.benchmark)
    call = AgentCall(
        scenario=asked,
        spec=trial.agent,
        env=env,
        timeout=Limits(asked, config).agent_timeout,
        attempt=trial.attempt,
        params={**config.params, **trial.agent.params},
        conversation=conversation,
    )
    command = checked_command(agent.prepare(call), agent)
    if command is None and config.check and asked.answer is None:
        from .leaks import looking

        return looking(asked)
    if command is None or command.endpoints or agent.trusted:
        return command
    given = {*services.secrets, *(keys if services.models is not None else ())}
    return with_given_keys(command, given, HOST)


def _saying(scenario: Scenario, statement: str) -> Scenario:
    """Return the scenario with another problem statement."""
    return scenario.model_copy(update={"problem_statement": statement})


def _replies(scenario: Scenario, agent: Agent, params: Mapping[str, Any]) -> bool:
    """Return True if the agent works outside of a container, and its reply is put into one."""
    answer = scenario.answer
    return answer is not None and answer.reply_file is not None and can_answer(agent, params)


def _check_scorers(trial: Trial, services: Services) -> None:
    scenario = trial.scenario
    for scorer in scenario.scorers:
        if scorer.type not in services.scorers:
            known = ", ".join(sorted(services.scorers))
            raise InputError(
                f"scorer {scorer.name!r} has the unknown type {scorer.type!r}; available: {known}",
                path=scenario.source,
                line=scenario.line,
            )
        fill(scorer.env, HOST)
    try:
        check_scorers(scenario.scorers, services.scorers)
        params = services.config.of(scenario.benchmark).params
        check_models(scenario.scorers, services.scorers, {**params, **trial.agent.params}, services.models)
    except InputError as error:
        if error.path is not None:
            raise
        raise InputError(error.message, path=scenario.source, line=scenario.line) from None
    fill(scenario.environment.env, HOST)
    for environment in scenario.environments[1:]:
        fill(environment.env, HOST)


def _check_keys(trial: Trial, config: JobConfig) -> None:
    """Check that the manifest puts no key of a model into the container unless the user allowed it.

    Processes of the agent could read it there.
    """
    scenario = trial.scenario
    for whose, table in tables_after_agent(scenario):
        taken = sorted(set(keys_taken(table, model_keys(config)).values()) - set(config.allow_key))
        if taken:
            raise InputError(
                f"{whose} would have {', '.join(taken)}, a key of a model, in the container; "
                f"allow it with --bench-allow-key {taken[0]}, or leave it out of `env`",
                path=scenario.source,
                line=scenario.line,
            )


def _check_places(trial: Trial, services: Services, config: JobConfig) -> None:
    scenario = trial.scenario
    if (
        config.gate.require_fresh
        and None in scenario.places
        and runs_programs(scenario.scorers, services.scorers)
    ):
        raise InputError(
            "it is graded in the agent's container, which --bench-require-fresh refuses; leave it out of the job, or "
            "give --bench-grade-in fresh",
            path=scenario.source,
            line=scenario.line,
        )


def _check_requirements(trial: Trial, services: Services) -> None:
    scenario = trial.scenario
    missing = [name for name in scenario.requires.env if name not in HOST]
    missing += [name for name in scenario.requires.secrets if name not in services.secrets]
    if missing:
        raise AgentSetupFailed(
            f"scenario {scenario.id!r} requires {', '.join(missing)}: "
            "set it in the environment, or pass it with --bench-secret"
        )
    programs = [name for name in scenario.requires.commands if shutil.which(name) is None]
    if programs:
        raise AgentSetupFailed(
            f"scenario {scenario.id!r} requires the program {', '.join(programs)} on this machine's PATH"
        )
