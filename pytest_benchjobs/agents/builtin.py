"""The agents that need no model, `oracle`, `nop` and `command`; and all that come with the package."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..model.environ import HOST
from ..model.errors import AgentSetupFailed
from ..sandbox.protocol import File
from ..sandbox.shell import by_shell, shell
from ..sources.template import fill
from .answering import give_reply, write_answer
from .protocol import Agent, AgentCall, AgentCommand

RESERVED = frozenset({"oracle", "nop", "command", "baseline", "model", "captured"})
"""Names that no other agent may have."""
SOLUTION_DIRECTORY = "/solution"
_PATCH_FILE = "/bench/reference.patch"

_APPLY_PATCH = f"git apply --verbose {_PATCH_FILE} || patch --batch --forward --fuzz=5 -p1 -i {_PATCH_FILE}"


_SCRIPT_FILE = "/bench/agent.sh"
_ARGUMENT_LIMIT = 100_000
"""The most bytes of an argument; Linux takes none longer than 128 KiB."""


@dataclasses.dataclass(frozen=True, slots=True)
class Oracle:
    """Applies the scenario's reference solution. Shows that the benchmark can be solved, at no cost."""

    name: str = "oracle"
    needs_model: bool = False
    trusted: bool = True
    resumes: bool = True
    parameters: frozenset[str] = frozenset()

    def answers(self, params: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """True: it knows the answer."""
        return True

    def prepare(self, call: AgentCall) -> AgentCommand | None:
        """The reference, as a command."""
        reference, answer = call.scenario.reference, call.scenario.answer
        if answer is not None and answer.reference is not None:
            return AgentCommand(
                argv=(),
                identity=f"answer {hashlib.sha256(answer.reference.encode('utf-8', 'replace')).hexdigest()}",
                host=functools.partial(write_answer, answer.file, answer.reference),
            )
        if reference is None:
            raise AgentSetupFailed(
                f"scenario {call.scenario.id!r} has no reference solution, so oracle cannot solve it. "
                "Add `reference:` (or solution/solve.sh), or leave the scenario out with -k or --bench-scenario"
            )
        env = fill(reference.env, HOST)
        if reference.reply is not None:
            text = f"{reference.script}\0{reference.reply}"
            return AgentCommand(
                argv=(),
                identity=f"reply {hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()}",
                host=functools.partial(give_reply, reference.script, reference.reply, env, call.timeout),
            )
        if reference.solution is not None:
            return AgentCommand(
                argv=shell(f"{SOLUTION_DIRECTORY}/solve.sh"),
                env={"DEBIAN_FRONTEND": "noninteractive", **env},
                files=(
                    File(SOLUTION_DIRECTORY, source=reference.solution, readable=True),
                    # Executable whatever its mode in the repository, for any user.
                    File(
                        f"{SOLUTION_DIRECTORY}/solve.sh", source=reference.solution / "solve.sh", mode=0o755
                    ),
                ),
            )
        if reference.patch is not None:
            return AgentCommand(
                argv=shell(_APPLY_PATCH),
                env=env,
                files=(File(_PATCH_FILE, source=reference.patch),),
            )
        if reference.files:
            return _put(reference.files, env)
        return _run(reference.script or ":", env)


@dataclasses.dataclass(frozen=True, slots=True)
class Nop:
    """Does nothing. Shows that the benchmark does not pass by itself."""

    name: str = "nop"
    needs_model: bool = False
    trusted: bool = True
    parameters: frozenset[str] = frozenset()

    def answers(self, params: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """True: doing nothing needs no container."""
        return True

    def prepare(self, call: AgentCall) -> AgentCommand | None:  # noqa: ARG002
        """None: there is nothing to run."""
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """Runs any shell command in the workdir, with the problem statement in the file `$BENCH_PROBLEM_FILE`."""

    name: str = "command"
    needs_model: bool = True
    trusted: bool = False

    def prepare(self, call: AgentCall) -> AgentCommand | None:
        """The command after the colon, or after `NAME=command:`."""
        return _run(call.spec.command or call.spec.model or ":")


def builtin_agents() -> tuple[Agent, ...]:
    """The agents that come with the package."""
    from .captured import Captured
    from .described import packaged_agents
    from .fixed_results import Baseline
    from .model_agent import ModelAgent

    return (Oracle(), Nop(), Command(), Baseline(Oracle()), Captured(), ModelAgent(), *packaged_agents())


def _put(files: Mapping[str, Path], env: Mapping[str, str]) -> AgentCommand:
    """Copy files and directories to their places, as an agent would write them."""
    brought, lines = [], ["set -e"]
    for number, (target, source) in enumerate(files.items()):
        place, quoted = f"{SOLUTION_DIRECTORY}/{number}", shlex.quote(target)
        brought.append(File(place, source=source, readable=True))
        if source.is_dir():
            lines.append(f"mkdir -p -- {quoted}; cp -R {place}/. {quoted}/")
        else:
            lines.append(f'mkdir -p -- "$(dirname -- {quoted})"; cp -- {place} {quoted}')
    return AgentCommand(shell("\n".join(lines)), env, tuple(brought))


def _run(command: str, env: Mapping[str, str] | None = None) -> AgentCommand:
    script = command.encode("utf-8", "replace")
    if len(script) <= _ARGUMENT_LIMIT:
        return AgentCommand(shell(command), env or {})
    run = ("/bin/sh", "-c", by_shell(_SCRIPT_FILE))
    return AgentCommand(run, env or {}, (File(_SCRIPT_FILE, content=script),))
