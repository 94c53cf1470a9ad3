"""Soundness of a scenario: expected and actual results of its reference and of doing nothing."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence

from ..model.errors import BROKEN_SCORER, ReferenceFailed
from ..model.result import Outcome, TrialResult
from ..model.scenario import GradeIn, Validation

ORACLE, NOP = "oracle", "nop"
_GRADED = (Outcome.PASSED, Outcome.FAILED)
_SAME = 1e-9


class Verdict(enum.StrEnum):
    """Verdict about a scenario; the first that applies."""

    ERROR = "error"
    """A trial could not be run or graded."""
    NEEDS_NETWORK = "needs the network"
    """A scorer does not work without the network, and is not said to need it."""
    FLAKY = "flaky"
    """Repeats were graded differently."""
    UNSOLVABLE = "unsolvable"
    """The scenario's own reference does not pass, or there is none."""
    LEAKS = "leaks its solution"
    """The reference solution is where an agent finds it."""
    PASSES_BY_ITSELF = "passes by itself"
    """Doing nothing passes."""
    FAILS_BY_ITSELF = "fails by itself"
    """Doing nothing does not pass, where it should."""
    OK = "ok"


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a scenario."""

    verdict: Verdict
    agent: str
    attempt: int | None
    """None: the problem is about all attempts together."""
    expected: str
    found: str
    path: str | None
    """Directory of the trial's files, relative to its job."""


def problems(
    validation: Validation,
    *,
    has_reference: bool,
    attempts: int,
    results: Sequence[TrialResult],
    refused: str | None = None,
    leaks: Sequence[str] = (),
    offline: Mapping[str, str] | None = None,
) -> list[Problem]:
    """Return problems of a scenario, given the results of `oracle` and `nop` in `attempts` attempts each.

    forward: the reference passes, and doing nothing does not. reverse: the initial state passes, also after the
    reference, if there is one. evaluation: no result is expected, but repeats must agree.

    `refused` is why the scenario would end in an error, if that was known before it ran. `leaks` are places of its
    reference that an agent sees. `offline` are trials without a network, by their paths, each with the line of a scorer
    that says so.
    """
    if refused is not None and not results:
        return [Problem(Verdict.ERROR, ORACLE, None, "a scenario that can be run", refused, None)]
    found: list[Problem] = []
    for agent in (ORACLE, NOP):
        if agent == ORACLE and not has_reference:
            if validation is Validation.FORWARD:
                why = "it has no reference solution"
                found.append(Problem(Verdict.UNSOLVABLE, agent, None, "a reference that passes", why, None))
            continue
        mine = sorted((one for one in results if one.agent.name == agent), key=lambda one: one.attempt)
        count = len(mine)
        cut = [one for one in mine if _is_cut_off(agent, one, offline or {})]
        found += [_needs_network(agent, cut[0], (offline or {})[cut[0].path])] if cut else []
        mine = [one for one in mine if one not in cut]
        graded = [one for one in mine if one.outcome in _GRADED]
        broken = [one for one in mine if one.outcome not in _GRADED]
        if agent == NOP and not any(_breaks_scorer(one) for one in results if one.agent.name == ORACLE):
            found += [_ungraded(one) if _breaks_scorer(one) else _broken(agent, one) for one in broken]
        else:
            found += [_broken(agent, one) for one in broken]
        if count < attempts:
            missing = f"{attempts - count} of {attempts} attempts did not run"
            found.append(Problem(Verdict.ERROR, agent, None, "a score for each attempt", missing, None))
        found += _flaky(agent, graded)
        found += _unexpected(agent, validation, graded)
        if agent == NOP and leaks:
            path = mine[0].path or None if mine else None
            more = f" (and {len(leaks) - 1} more)" if len(leaks) > 1 else ""
            clean = "no trace of the reference solution"
            found.append(Problem(Verdict.LEAKS, agent, None, clean, f"{leaks[0]}{more}", path))
    return found


def _is_cut_off(agent: str, result: TrialResult, offline: Mapping[str, str]) -> bool:
    """Return whether the lack of a network explains a result: doing nothing may fail for any reason."""
    failed = result.outcome is Outcome.ERROR or (agent == ORACLE and result.outcome is Outcome.FAILED)
    return failed and result.path in offline


def _needs_network(agent: str, result: TrialResult, line: str) -> Problem:
    found = f'{result.outcome.value} without the network: "{line}"'
    wanted = "a scorer that needs no network, or has `network: public`"
    return Problem(Verdict.NEEDS_NETWORK, agent, result.attempt, wanted, found, result.path or None)


def advice(
    found: Sequence[Problem], results: Sequence[TrialResult], missing: str | None = None
) -> str | None:
    """Return a suggestion that would improve a scenario; None without one.

    `missing` is what a shell said of a command of the reference that is not there.
    """
    wrong = []
    if missing is not None and verdict(found) is not Verdict.OK:
        wrong = [
            f"its reference calls a command that is not there: {missing}; correct it, or install the command"
        ]
    if verdict(found) is Verdict.PASSES_BY_ITSELF:
        graded = (
            scorer for one in results if one.agent.name == NOP for scorer in one.scorers if scorer.score
        )
        if names := ", ".join(dict.fromkeys(repr(scorer.name) for scorer in graded)):
            wrong.append(f"{names} scored what nobody had worked on: check what only the solution makes")
    if wrong:
        return "; ".join(wrong)
    said = (
        note for one in results for note in one.notes if note.startswith("the set-up makes something else")
    )
    if verdict(found) is Verdict.OK and (note := next(said, None)) is not None:
        return note
    mine = [one for one in results if one.agent.name == ORACLE]
    in_place = bool(mine) and all(one.graded_in is GradeIn.AGENT_CONTAINER for one in mine)
    if verdict(found) is not Verdict.OK or not in_place or any(_needs_its_place(one) for one in mine):
        return None
    return (
        "its reference leaves nothing running and changes nothing of the image, so it can be graded in a fresh "
        "container, where what an agent leaves is data: remove `grade_in: agent_container`, and name what is not in "
        "the workdir in `carry`"
    )


def _needs_its_place(result: TrialResult) -> bool:
    end = result.agent_end
    return end is None or bool(end.tampered or end.lived_on)


def verdict(found: Sequence[Problem]) -> Verdict:
    """Return the most severe verdict, or OK."""
    order = list(Verdict)
    return min((problem.verdict for problem in found), key=order.index, default=Verdict.OK)


def _breaks_scorer(result: TrialResult) -> bool:
    return result.failure is not None and result.failure.class_ in BROKEN_SCORER


def _ungraded(result: TrialResult) -> Problem:
    """Return the problem of a scorer that breaks under `nop`, and not under `oracle`."""
    wanted = "a score, also when the agent left nothing"
    found = f"the scorer breaks when the agent left nothing: {_ending(result)}"
    return Problem(Verdict.ERROR, NOP, result.attempt, wanted, found, result.path or None)


def _ending(result: TrialResult) -> str:
    why = result.outcome.value
    return why if result.failure is None else f"{why} ({result.failure.class_}): {result.failure.message}"


def _broken(agent: str, result: TrialResult) -> Problem:
    why = _ending(result)
    if result.failure is not None and result.failure.class_ == ReferenceFailed.code:
        return Problem(Verdict.UNSOLVABLE, agent, result.attempt, "passed", why, result.path or None)
    return Problem(Verdict.ERROR, agent, result.attempt, "a score", why, result.path or None)


def _lost(result: TrialResult) -> str:
    """Describe what was not there for grading, which the scorers may have looked for: processes and files."""
    killed = () if result.agent_end is None else result.agent_end.killed
    lost = [note for note in result.notes if note.startswith("not there for grading")]
    if killed:
        lost.append(f"killed before grading, unless `grade_in: agent_container`: {', '.join(killed[:5])}")
    return "".join(f"; {one}" for one in lost)


def _flaky(agent: str, graded: Sequence[TrialResult]) -> list[Problem]:
    scores = [one.score or 0.0 for one in graded]
    outcomes = {one.outcome for one in graded}
    if len(outcomes) < 2 and max(scores, default=0.0) - min(scores, default=0.0) <= _SAME:
        return []
    listed = ", ".join(f"{score:g} ({one.outcome.value})" for score, one in zip(scores, graded, strict=True))
    lowest = min(graded, key=lambda one: one.score or 0.0)
    return [Problem(Verdict.FLAKY, agent, None, "the same score each time", listed, lowest.path or None)]


def _unexpected(agent: str, validation: Validation, graded: Sequence[TrialResult]) -> list[Problem]:
    if validation is Validation.EVALUATION:
        return []
    passes = agent == ORACLE or validation is Validation.REVERSE
    wanted = Outcome.PASSED if passes else Outcome.FAILED
    of_nop = Verdict.FAILS_BY_ITSELF if passes else Verdict.PASSES_BY_ITSELF
    kind = Verdict.UNSOLVABLE if agent == ORACLE else of_nop
    wrong = [one for one in graded if one.outcome is not wanted]
    if not wrong:
        return []
    # One line is enough; the others are alike.
    first = wrong[0]
    score = "" if first.score is None else f", score {first.score:g} of {first.threshold:g}"
    times = "" if len(wrong) == 1 else f" {len(wrong)} times"
    why = f" ({first.failure.class_})" if first.failure is not None else ""
    score += _lost(first)
    ended = f"{first.outcome.value}{why}{times}{score}"
    return [Problem(kind, agent, first.attempt, wanted.value, ended, first.path or None)]
