"""`model`: an agent of our own around any model with an OpenAI-compatible endpoint, to measure the model alone.

    tools: true     a loop over Chat Completions with one tool, `shell`; it ends when an answer calls no tool
    tools: false    one question; the text of the answer goes to the file `answer_file`

A scenario that wants a short answer is one such question, or several, unless `tools: true` is set. There is no
container then, and `answer_file` is the scenario's.

conversation.py has its work, completion.py a call of the model. It runs on this machine, in the thread of its trial.
Only the commands run in the sandbox, each in a new shell. It retries nothing: the gateway does. Its log is for
`agents.reading.own`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from ..model.agent import AgentSpec
from ..model.endpoint import Endpoint
from ..model.environ import HOST
from ..model.errors import AgentSetupFailed
from .capabilities import CODE
from .completion import Options, Task
from .conversation import VERSION, work
from .protocol import AgentCall, AgentCommand
from .providers import ModelTarget, target_of
from .reading import reader_of


@dataclasses.dataclass(frozen=True, slots=True)
class ModelAgent:
    """Asks a model, and runs the commands it calls."""

    name: str = "model"
    needs_model: bool = True
    trusted: bool = False
    capabilities: frozenset[str] = frozenset({"shell", *CODE})
    resumes: bool = True

    def endpoints(
        self, spec: AgentSpec, environ: Mapping[str, str], params: Mapping[str, Any]
    ) -> tuple[Endpoint, ...]:
        """The endpoint of its model. Raises InputError: the provider of the model is unknown."""
        return (_target(spec, environ, params).endpoint,)

    def answers(self, params: Mapping[str, Any]) -> bool:
        """True unless it has tools, which need a container."""
        try:
            return _options(params).tools is not True
        except AgentSetupFailed:  # `prepare` reports it
            return False

    def prepare(self, call: AgentCall) -> AgentCommand | None:
        """The conversation, as a function that runs on this machine.

        Raises AgentSetupFailed: a parameter is wrong; InputError: the provider of the model is unknown.
        """
        target = _target(call.spec, HOST, call.params)
        task = _task(target.model, call)
        return AgentCommand(
            argv=(),
            endpoints=(target.endpoint,),
            models=(target.model,),
            identity=f"model/{VERSION}",
            version=VERSION,
            host=functools.partial(work, task),
            read=reader_of("model", version=VERSION, model=target.model),
        )


def _target(spec: AgentSpec, environ: Mapping[str, str], params: Mapping[str, Any]) -> ModelTarget:
    return target_of(spec, ("openai",), None, environ, params)


def _task(model: str, call: AgentCall) -> Task:
    scenario, options = call.scenario, _options(call.params)
    answer = scenario.question
    tools = answer is None if options.tools is None else options.tools
    return Task(
        model,
        scenario.problem_statement,
        options.model_copy(update={"tools": tools}),
        () if answer is None else answer.questions,
        options.answer_file if answer is None else answer.file,
        None if call.conversation is None else call.conversation.memory,
    )


def _options(params: Mapping[str, Any]) -> Options:
    try:
        return Options.model_validate(dict(params))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][:1])
        raise AgentSetupFailed(
            f"model: parameter {place}: {first['msg']}, not {str(params.get(place))[:100]!r}"
        ) from None
