"""What is said of a scenario, for whatever `oracle` and `nop` came to."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_benchjobs.analysis.soundness import Problem, Verdict, advice, problems, verdict
from pytest_benchjobs.model.result import AgentEnd, Failure, Outcome, ScorerResult, TrialResult
from pytest_benchjobs.model.scenario import GradeIn, Validation

from .records import result, trial

P, F, E = "passed", "failed", "error"


def _results(agent: str, outcomes: str | list[str | float] | list[TrialResult]) -> list[TrialResult]:
    found = []
    for attempt, what in enumerate(outcomes, 1):
        if isinstance(what, TrialResult):
            found.append(what)
            continue
        score: float | None = what if isinstance(what, float) else {"P": 1.0, "F": 0.0}.get(str(what))
        outcome = {"P": P, "F": F}.get(str(what), E if score is None else P if score >= 1 else F)
        failure = Failure(class_="scorer_crashed", message="it broke") if outcome == E else None
        found.append(
            result(
                trial("s", agent, attempt),
                outcome=Outcome(outcome),
                score=score,
                failure=failure,
                path=f"trials/{agent}/s/{attempt}",
            )
        )
    return found


def _problems(
    oracle: str | list[str | float] | list[TrialResult],
    nop: str | list[str | float] | list[TrialResult],
    validation: str = "forward",
    *,
    has_reference: bool = True,
    **found: Any,
) -> list[Problem]:
    results = [
        one for agent, ended in (("nop", nop), ("oracle", oracle)) for one in reversed(_results(agent, ended))
    ]
    return problems(Validation(validation), has_reference=has_reference, attempts=2, results=results, **found)


@pytest.mark.parametrize(
    ("validation", "oracle", "nop", "expected"),
    [
        ("forward", "PP", "FF", Verdict.OK), ("forward", "FF", "FF", Verdict.UNSOLVABLE),
        ("forward", "PP", "PP", Verdict.PASSES_BY_ITSELF), ("forward", "FF", "PP", Verdict.UNSOLVABLE),
        ("forward", "PF", "FF", Verdict.FLAKY), ("forward", "PP", "FP", Verdict.FLAKY),
        ("forward", "PP", [0.25, 0.5], Verdict.FLAKY), ("forward", "PE", "FF", Verdict.ERROR),
        ("forward", "PP", "EE", Verdict.ERROR), ("forward", "P", "FF", Verdict.ERROR),
        ("forward", "", "", Verdict.ERROR), ("reverse", "PP", "PP", Verdict.OK),
        ("reverse", "PP", "FF", Verdict.FAILS_BY_ITSELF), ("reverse", "FF", "PP", Verdict.UNSOLVABLE),
        ("evaluation", "PP", "PP", Verdict.OK), ("evaluation", "FF", "FF", Verdict.OK),
        ("evaluation", "FF", "PF", Verdict.FLAKY), ("evaluation", "FF", "EF", Verdict.ERROR),
    ],
)  # fmt: skip
def test_each_kind_of_scenario_is_held_to_what_is_expected_of_it(
    validation: str, oracle: str, nop: str, expected: Verdict
) -> None:
    assert verdict(_problems(oracle, nop, validation)) is expected


@pytest.mark.parametrize(
    ("validation", "nop", "expected"),
    [
        ("forward", "FF", Verdict.UNSOLVABLE),
        ("reverse", "PP", Verdict.OK),
        ("reverse", "FF", Verdict.FAILS_BY_ITSELF),
        ("evaluation", "FF", Verdict.OK),
    ],
)
def test_without_a_reference_only_the_untouched_can_be_judged(
    validation: str, nop: str, expected: Verdict
) -> None:
    # Of oracle there is an error for each attempt, which says nothing more.
    assert verdict(_problems("EE", nop, validation, has_reference=False)) is expected


def test_what_is_wrong_is_said_once_with_where_to_look() -> None:
    assert _problems("FF", [0.5, 0.5]) == [
        Problem(
            Verdict.UNSOLVABLE, "oracle", 1, "passed", "failed 2 times, score 0 of 1", "trials/oracle/s/1"
        )
    ]
    assert _problems("PP", [1.0, 0.5]) == [
        Problem(
            Verdict.FLAKY,
            "nop",
            None,
            "the same score each time",
            "1 (passed), 0.5 (failed)",
            "trials/nop/s/2",
        ),
        Problem(Verdict.PASSES_BY_ITSELF, "nop", 1, "failed", "passed, score 1 of 1", "trials/nop/s/1"),
    ]
    assert _problems("EP", "FF")[0] == Problem(
        Verdict.ERROR, "oracle", 1, "a score", "error (scorer_crashed): it broke", "trials/oracle/s/1"
    )
    assert _problems("P", "FF")[0].found == "1 of 2 attempts did not run"


def test_a_scorer_that_breaks_when_the_agent_left_nothing_is_said_to_do_so() -> None:
    assert _problems("PP", "EF")[0] == Problem(
        Verdict.ERROR,
        "nop",
        1,
        "a score, also when the agent left nothing",
        "the scorer breaks when the agent left nothing: error (scorer_crashed): it broke",
        "trials/nop/s/1",
    )
    # One that breaks on the reference is broken for another reason.
    assert {one.expected for one in _problems("EE", "EE")} == {"a score"}


def test_scores_agree_unless_they_differ_by_more_than_rounding_or_are_judged_differently() -> None:
    assert _problems("PP", [0.1 + 0.2, 0.3]) == []
    assert [one.verdict for one in _problems("PP", [0.5, 0.5 + 1e-3])] == [Verdict.FLAKY]
    failed, passed = _results("nop", "FF")
    passed = passed.model_copy(update={"outcome": Outcome.PASSED, "score": failed.score})
    found = _problems("PP", [passed, failed], "evaluation")
    assert [one.verdict for one in found] == [Verdict.FLAKY]
    assert found[0].found == "0 (failed), 0 (passed)"


def test_the_worst_of_several_attempts_is_shown() -> None:
    (found,) = _problems("PP", [0.5, 0.25])
    assert found.path == "trials/nop/s/2"


def _with(results: list[TrialResult], **end: object) -> list[TrialResult]:
    return [one.model_copy(update={"agent_end": AgentEnd.model_validate(end)}) for one in results]


def test_a_fresh_container_is_recommended_where_the_reference_needs_no_place_of_its_own() -> None:
    sound = _problems("PP", "FF")

    def oracle(graded_in: GradeIn | None = GradeIn.AGENT_CONTAINER, **end: object) -> list[TrialResult]:
        results = _with(_results("oracle", "PP"), **end)
        return [one.model_copy(update={"graded_in": graded_in}) for one in results]

    assert "remove `grade_in: agent_container`" in str(advice(sound, oracle() + _results("nop", "FF")))
    assert advice(sound, oracle(leftovers=("sh",), killed=("sh",))) is not None
    assert advice(sound, oracle(leftovers=("server",))) is None
    assert advice(sound, oracle(tampered=("/etc/passwd",))) is None
    assert advice(sound, oracle(GradeIn.FRESH)) is None
    assert advice(sound, oracle()[:1] + oracle(None)[1:]) is None
    assert advice(sound, []) is None
    assert advice(_problems("FF", "FF"), oracle()) is None


def test_what_grading_took_from_a_reference_is_said() -> None:
    oracle = _with(_results("oracle", "FF"), killed=("server",))
    oracle = [one.model_copy(update={"notes": ("killed 1", "not there for grading: /x")}) for one in oracle]
    (problem,) = _problems(oracle, "FF")
    assert problem.found.endswith(
        "; not there for grading: /x; killed before grading, unless `grade_in: agent_container`: server"
    )


LINE = "curl: (6) Could not resolve host: data.example"


@pytest.mark.parametrize(
    ("oracle", "nop", "offline", "expected"),
    [
        ("PF", "FF", {"oracle/s/2"}, Verdict.NEEDS_NETWORK),
        ("PE", "FF", {"oracle/s/2"}, Verdict.NEEDS_NETWORK),
        ("FF", "FF", {"oracle/s/1", "oracle/s/2"}, Verdict.NEEDS_NETWORK),
        ("PP", "EE", {"nop/s/1"}, Verdict.ERROR),
        ("PP", "EE", {"nop/s/1", "nop/s/2"}, Verdict.NEEDS_NETWORK),
        # Where nothing was expected, or all is well, the network is not the reason.
        ("PP", "FF", {"nop/s/1", "nop/s/2", "oracle/s/1"}, Verdict.OK),
        ("PF", "FF", set(), Verdict.FLAKY),
    ],
)
def test_a_scorer_that_finds_no_network(oracle: str, nop: str, offline: set[str], expected: Verdict) -> None:
    found = _problems(oracle, nop, offline={f"trials/{path}": LINE for path in offline})
    assert verdict(found) is expected
    if expected is Verdict.NEEDS_NETWORK:
        (one,) = [problem for problem in found if problem.verdict is expected]
        assert one.expected == "a scorer that needs no network, or has `network: public`"
        assert one.found.endswith(f'without the network: "{LINE}"')


def test_a_reference_in_sight_is_a_leak() -> None:
    places = ("/app/.solution has its script", "the problem statement has its script")
    (found,) = _problems("PP", "FF", leaks=places)
    assert found == Problem(
        Verdict.LEAKS,
        "nop",
        None,
        "no trace of the reference solution",
        "/app/.solution has its script (and 1 more)",
        "trials/nop/s/1",
    )


def test_a_weak_scorer_and_a_command_that_is_not_there_are_named() -> None:
    scorer = ScorerResult(name="exists", type="command", score=1.0, weight=1.0)
    results = [
        one.model_copy(update={"scorers": (scorer,)})
        for agent in ("oracle", "nop")
        for one in _results(agent, "PP")
    ]
    said = advice(_problems("PP", "PP"), results, "bash: line 1: ech: command not found")
    assert said == (
        "its reference calls a command that is not there: bash: line 1: ech: command not found; correct it, or install "
        "the command; 'exists' scored what nobody had worked on: check what only the solution makes"
    )
    assert advice(_problems("PP", "FF"), results) is None
