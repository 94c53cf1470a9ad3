"""Needs of a type of scorer before it grades. The type declares them, so that the trial knows no type by name."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from ..model.scenario import MAIN, Network, ScorerSpec
from ..sandbox.protocol import Sandbox
from .protocol import Scorer

_Kind = TypeVar("_Kind", bound=Scorer)


@dataclasses.dataclass(frozen=True, slots=True)
class Collect:
    """A shell command that runs after the agent has ended, before artifacts are fetched. A failure is noted."""

    command: str
    timeout: float
    """Seconds, before the multiplier of the job."""
    user: str | None = None
    service: str = MAIN
    """Service whose container it runs in."""


@dataclasses.dataclass(frozen=True, slots=True)
class ModelNeed:
    """A model that a scorer asks, through the gateway."""

    model: str
    """As agents name it: `openai/gpt-5.5`. Without an address."""
    max_cost: float | None = None
    """Limit of one grading in USD."""


class Probe(Protocol):
    """A look at a container, made ready, that no agent has been in."""

    def __call__(self, spec: ScorerSpec, sandbox: Sandbox, check: Callable[[], object], /) -> object:
        """Return what the scorer is to know of it: `ScoringContext.probed`.

        `check` is to be called while it waits; what that raises ends the wait. InfrastructureError: nothing can be
        graded there.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class Needs:
    """Directories and commands that a trial provides for a type of scorer."""

    container: bool = True
    """False: it uses only the scenario's answer."""
    bench_run: bool = True
    """False: its commands have no `bench-run`, and in the agent's container run as Harbor runs them."""
    programs: Callable[[ScorerSpec], bool] = lambda _spec: True
    """False: it runs no program in the container, and only reads files."""
    directories: tuple[str, ...] = ()
    """Created before the agent starts, writable for everybody."""
    leaves: tuple[str, ...] = ()
    """Directories that are emptied before the agent goes on in the same sandbox with another step."""
    collect: Callable[[ScorerSpec], Sequence[Collect]] = lambda _spec: ()
    """Commands for one scorer of the type."""
    tells_params: bool = True
    """False: commands do not get `params` in their environment, because they run code of the agent that must not see
    them."""
    check: Callable[[ScorerSpec], None] = lambda _spec: None
    """Called before a trial starts. Raises InputError if parameters are wrong, or this machine lacks a program."""
    probe: Probe | None = None
    """Looks at a container that no agent has been in, before anything is spent."""
    network: Network | None = None
    """Network while it grades, if the scorer names none."""
    reading: Callable[[ScorerSpec], str | None] = lambda _spec: None
    """Rule by which the type reads what was answered. It is a part of its own in signatures, so results of another rule
    are not reused but compared; of `params`, `official` counts there alone."""
    model: Callable[[ScorerSpec], ModelNeed] | None = None
    """The model that a scorer of the type asks; None: it asks none. An error of such a scorer is never the agent's."""


_NOTHING = Needs()
CONTEXT_VARIABLES = ("BENCH_SCORER_CONTEXT", "RL_SCORER_CONTEXT", "RL_TEST_CONTEXT")
"""Variables of a scorer's commands with its `params` as JSON. Scripts written for Runloop read the last two."""
_VARIABLE_LIMIT = 100_000


def needing(needs: Needs) -> Callable[[_Kind], _Kind]:
    """Declare what a type of scorer needs; decorates its function."""

    def declare(kind: _Kind) -> _Kind:
        kind.needs = needs  # type: ignore[attr-defined]
        return kind

    return declare


def needs_of(kind: str, kinds: Mapping[str, Scorer]) -> Needs:
    """Return what a type of scorer needs."""
    needs = getattr(kinds.get(kind), "needs", _NOTHING)
    return needs if isinstance(needs, Needs) else _NOTHING


def grades_answers(types: Iterable[str], kinds: Mapping[str, Scorer]) -> bool:
    """Return True if scorers of these types need no container."""
    return all(not needs_of(kind, kinds).container for kind in types)


def runs_programs(specs: Sequence[ScorerSpec], kinds: Mapping[str, Scorer]) -> bool:
    """Return True if any scorer runs a program in the container."""
    return any(
        needs.container and needs.programs(spec) for spec in specs for needs in (needs_of(spec.type, kinds),)
    )


def has_bench_run(specs: Sequence[ScorerSpec], kinds: Mapping[str, Scorer]) -> bool:
    """Return True if commands of any scorer have `bench-run`."""
    return any(needs_of(spec.type, kinds).bench_run and runs_programs((spec,), kinds) for spec in specs)


def needs_of_all(specs: Iterable[ScorerSpec], kinds: Mapping[str, Scorer]) -> Iterator[Needs]:
    """Yield what the types of scorers need."""
    return (needs_of(spec.type, kinds) for spec in specs)


def collecting(specs: Sequence[ScorerSpec], kinds: Mapping[str, Scorer]) -> Iterator[Collect]:
    """Yield the commands to run after the agent has ended."""
    for spec in specs:
        yield from needs_of(spec.type, kinds).collect(spec)


def context_variables(spec: ScorerSpec, kinds: Mapping[str, Scorer]) -> dict[str, str]:
    """Return the variables with a scorer's `params` as JSON. None of them if that is too long for a variable."""
    if not needs_of(spec.type, kinds).tells_params:
        return {}
    text = json.dumps(spec.params, default=str)
    return {} if len(text) > _VARIABLE_LIMIT else dict.fromkeys(CONTEXT_VARIABLES, text)


def asks_model(types: Iterable[str], kinds: Mapping[str, Scorer]) -> bool:
    """Return True if a scorer of any of these types asks a model."""
    return any(needs_of(kind, kinds).model is not None for kind in types)
