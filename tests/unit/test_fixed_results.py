"""Baselines give results that are known beforehand."""

from __future__ import annotations

import pytest

from pytest_benchjobs.agents.builtin import Oracle
from pytest_benchjobs.agents.fixed_results import Baseline
from pytest_benchjobs.agents.protocol import AgentCall
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.errors import AgentSetupFailed
from pytest_benchjobs.model.scenario import Reference

from .records import trial

SCENARIOS = [f"scenario-{number}" for number in range(1000)]
HALF = [False, True, True, False, True, True, True, False]
RANDOM = [True, False, True, True, False, True, False, False]
"""Of the first eight."""


def _solves(kind: str, scenario: str = "count", attempt: int = 1, reference: bool = True) -> bool:
    of = trial().scenario.model_copy(
        update={"id": scenario, "reference": Reference(script="make it") if reference else None}
    )
    call = AgentCall(
        scenario=of, spec=AgentSpec.parse(f"baseline:{kind}"), env={}, timeout=10, attempt=attempt
    )
    command = Baseline(Oracle()).prepare(call)
    assert command is None or command.argv[-1] == "make it"
    return command is not None


def test_perfect_always_applies_the_reference_and_wrong_never() -> None:
    assert all(_solves("perfect", scenario, attempt) for scenario in SCENARIOS[:20] for attempt in (1, 2))
    assert not any(_solves("wrong", scenario, attempt) for scenario in SCENARIOS[:20] for attempt in (1, 2))


def test_half_solves_half_of_the_scenarios_and_the_same_at_each_attempt() -> None:
    solved = [_solves("half", scenario) for scenario in SCENARIOS]
    assert 450 < sum(solved) < 550
    assert solved == [_solves("half", scenario, attempt=7) for scenario in SCENARIOS]


@pytest.mark.parametrize(("kind", "share"), [("random", 0.5), ("random:0.25", 0.25), ("random:0.9:7", 0.9)])
def test_random_solves_its_share_anew_at_each_attempt(kind: str, share: float) -> None:
    first = [_solves(kind, scenario) for scenario in SCENARIOS]
    second = [_solves(kind, scenario, attempt=2) for scenario in SCENARIOS]
    for solved in (first, second):
        assert share - 0.05 < sum(solved) / len(solved) < share + 0.05
    assert first == [_solves(kind, scenario) for scenario in SCENARIOS]
    both = sum(one and other for one, other in zip(first, second, strict=True)) / len(SCENARIOS)
    assert share**2 - 0.06 < both < share**2 + 0.06


def test_the_choice_is_the_same_on_every_machine_and_in_every_version() -> None:
    assert [_solves("half", scenario) for scenario in SCENARIOS[:8]] == HALF
    assert [_solves("random", scenario) for scenario in SCENARIOS[:8]] == RANDOM
    chosen = [[_solves(f"random:0.5:{seed}", scenario) for scenario in SCENARIOS[:50]] for seed in (1, 2)]
    assert chosen[0] != chosen[1], "another seed chooses others"


@pytest.mark.parametrize(
    "kind", ["nope", "random:", "random:2", "random:-1", "random:1.2.3", "random:0.5:x", "perfect:1"]
)
def test_a_baseline_that_is_none_is_named(kind: str) -> None:
    with pytest.raises(
        AgentSetupFailed, match=r"unknown baseline agent '.*'; there are perfect, wrong, half and random"
    ):
        _solves(kind)


def test_without_a_reference_only_doing_nothing_is_possible() -> None:
    assert _solves("wrong", reference=False) is False
    with pytest.raises(AgentSetupFailed, match="no reference solution"):
        _solves("perfect", reference=False)
