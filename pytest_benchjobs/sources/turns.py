"""Turns of a conversation in a native manifest: their rules, and the steps of a trial that they become."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..model.scenario import TURN, FreshContainer, Reference, ScorerSpec, Step
from .checks import check_fault
from .plain import Place
from .written import WrittenScenario, WrittenTurn

USER = "user"
"""The speaker whose messages the agent answers."""
_AGENT = frozenset({"agent", "assistant", "you"})
_OF_USER = ("expect", "forbid", "timeout", "reply", "reference")
"""Keys that only a turn of the user has."""


def faults_of_turns(written: WrittenScenario) -> Iterator[tuple[Place, str]]:
    """Yield the faults of a scenario's turns, and of keys that do not go with them."""
    turns = written.turns
    if not turns:
        if "mode" in written.model_fields_set:
            yield ("mode",), "has no effect without turns"
        if "turns" in written.model_fields_set:
            yield ("turns",), "is empty; a conversation needs at least one message"
        return
    for key in ("feedback", "answer", "fresh_container"):
        if getattr(written, key) is not None:
            yield (key,), "does not go with turns; remove one of them"
    if written.reference is not None:
        yield ("reference",), "does not go with turns; give `reply` or `reference` in each turn"
    for index, turn in enumerate(turns):
        yield from _faults_of_turn(("turns", index), turn)
    if turns[-1].actor != USER:
        yield ("turns", len(turns) - 1), "a turn of the user has to follow: the agent answers only the user"
    questions = [turn for turn in turns if turn.actor == USER]
    if not written.scorers and not any(turn.expect or turn.forbid for turn in questions):
        yield (
            ("turns",),
            "no turn has a check, so there is nothing to score; give `expect` or `forbid` in a turn",
        )
    names = {_name(number) for number, _ in enumerate(questions, 1)}
    for index, scorer in enumerate(written.scorers):
        if scorer.label in names:
            yield ("scorers", index, "name"), f"{scorer.label!r} is the name of a turn; choose another"


def _faults_of_turn(place: Place, turn: WrittenTurn) -> Iterator[tuple[Place, str]]:
    if turn.actor in _AGENT:
        yield (*place, "actor"), f"{turn.actor!r}: replies are the agent's own; `reply` is that of `oracle`"
    if turn.actor != USER:
        for key in _OF_USER:
            if key in turn.model_fields_set:
                yield (*place, key), "only a turn of the user has this: the agent does not answer others"
    for kind in ("expect", "forbid"):
        for number, check in enumerate(getattr(turn, kind)):
            if (fault := check_fault(check.model_dump())) is not None:
                yield (*place, kind, number), fault


def steps_of_turns(
    written: WrittenScenario,
    before: str | None,
    scorers: Sequence[ScorerSpec],
    fresh: FreshContainer | None,
) -> tuple[tuple[Step, ...], tuple[ScorerSpec, ...]]:
    """Return a step for each turn of the user, and all scorers; `scorers` grade after the last one.

    Each step is graded in `fresh`. Each check counts as much as any other, and a scorer as much as so many checks as
    its weight says.
    """
    steps: list[Step] = []
    graded: list[ScorerSpec] = []
    heard = [] if before is None else [before.strip()]
    questions = [turn for turn in written.turns if turn.actor == USER]
    solved = any(turn.reply is not None or turn.reference is not None for turn in questions)
    for turn in written.turns:
        if turn.actor != USER:
            heard.append(f"[{turn.actor}] {turn.message.strip()}")
            continue
        own = [*_scorer(_name(len(steps) + 1), turn)]
        if len(steps) + 1 == len(questions):
            own += scorers
        graded += own
        steps.append(
            Step(
                name=_name(len(steps) + 1),
                instruction="\n\n".join([*heard, turn.message.strip()]),
                continues=True,
                scorers=tuple(spec.name for spec in own),
                weight=sum(spec.weight for spec in own),
                agent_timeout=turn.timeout,
                reference=Reference(script=turn.reference, reply=turn.reply or "") if solved else None,
                fresh_container=fresh,
            )
        )
        heard.clear()
    return tuple(steps), tuple(graded)


def _scorer(name: str, turn: WrittenTurn) -> Iterator[ScorerSpec]:
    """Yield the scorer of a turn, if it has checks."""
    checks = {
        kind: [check.model_dump(exclude_none=True) for check in listed]
        for kind, listed in (("expect", turn.expect), ("forbid", turn.forbid))
        if listed
    }
    if checks:
        yield ScorerSpec(name=name, type=TURN, weight=float(sum(map(len, checks.values()))), params=checks)


def _name(number: int) -> str:
    """Return the name of a turn, counted from 1."""
    return f"turn-{number}"


def whole_conversation(turns: Sequence[WrittenTurn], before: str | None) -> str:
    """Return all messages, for readers of results: an agent gets one after the other."""
    messages = [f"[{turn.actor}] {turn.message.strip()}" for turn in turns]
    return "\n\n".join([*([] if before is None else [before.strip()]), *messages])
