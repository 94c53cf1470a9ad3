"""Images come ahead of the trials that need them, in their order, and for as long as somebody needs them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.job.ahead import Ahead, Stopped
from pytest_benchjobs.model.errors import EngineUnavailable, ImageMissing
from pytest_benchjobs.model.scenario import Environment
from tests.support import until


class Supply:
    """Notes what it is told; an image of `blocked` comes when that is set."""

    def __init__(self) -> None:
        self.brought: list[str] = []
        self.told: list[tuple[object, ...]] = []
        self.blocked: dict[str, threading.Event] = {}
        self.full: set[str] = set()
        self.missing: set[str] = set()
        self.broken_off: list[str] = []

    def bring(self, environment: Environment, check: Callable[[], object]) -> bool:
        name = str(environment.image)
        if name in self.full:
            return False
        if name in self.missing:
            raise ImageMissing(name)
        while name in self.blocked and not self.blocked[name].wait(0.01):
            try:
                check()
            except Stopped:
                self.broken_off.append(name)
                raise
        self.brought.append(name)
        return True

    def expect(self, place: int, environments: Sequence[Environment]) -> None:
        self.told.append(("expect", place, *[one.image for one in environments]))

    def begin(self, place: int, environments: Sequence[Environment]) -> None:
        self.told.append(("begin", place, *[one.image for one in environments]))

    def end(self, place: int, *, last: bool) -> None:
        self.told.append(("end", place, last))


def _ticket(scenario: str, attempt: int = 1, **images: str) -> Any:
    return SimpleNamespace(
        node_id=f"{scenario}-{attempt}",
        benchmark="b",
        scenario=scenario,
        images=tuple(images.values()) or (scenario,),
    )


def _needs(ticket: Any) -> list[Environment]:
    return [Environment(image=image) for image in ticket.images]


@pytest.fixture
def supply() -> Supply:
    return Supply()


def _submit(ahead: Ahead[Any], *tickets: Any) -> None:
    for ticket in tickets:
        ahead.submit(ticket, runs=True)


def _begin(ahead: Ahead[Any], ticket: Any) -> None:
    ahead.begin(ticket, _needs(ticket))


@pytest.fixture
def ahead(supply: Supply) -> Iterator[Ahead[Any]]:
    ahead: Ahead[Any] = Ahead(lambda: supply, _needs, 4, limited=False)
    ahead.open()
    yield ahead
    ahead.close()


def test_images_come_in_the_order_of_their_trials_and_not_too_far_ahead(
    ahead: Ahead[Any], supply: Supply
) -> None:
    tickets = [_ticket(f"t{number:02}") for number in range(30)]
    _submit(ahead, *tickets)
    until(lambda: len(supply.brought) == 8)
    assert sorted(supply.brought) == [f"t{number:02}" for number in range(8)]
    _begin(ahead, tickets[0])
    until(lambda: len(supply.brought) == 9)
    assert supply.brought[-1] == "t08"


def test_a_scenario_is_needed_until_its_last_trial_has_ended(ahead: Ahead[Any], supply: Supply) -> None:
    first, second = (_ticket("one", number, agent="a", grader="g") for number in (1, 2))
    _submit(ahead, first, second)
    until(lambda: supply.brought == ["a", "g"])
    for ticket in (first, second):
        _begin(ahead, ticket)
        ahead.end(ticket)
    assert supply.told == [
        ("expect", 0, "a", "g"),
        *[("begin", 0, "a", "g"), ("end", 0, False)],
        *[("begin", 0, "a", "g"), ("end", 0, True)],
    ]


def test_what_is_missing_or_has_no_room_holds_up_nothing_else(ahead: Ahead[Any], supply: Supply) -> None:
    supply.missing, supply.full = {"gone"}, {"large"}
    large = _ticket("large")
    _submit(ahead, _ticket("gone"), large, _ticket("third"))
    until(lambda: supply.brought == ["third"])
    supply.full.clear()
    until(lambda: "large" in supply.brought)


def test_what_is_being_brought_is_broken_off(ahead: Ahead[Any], supply: Supply) -> None:
    supply.blocked = {"slow": threading.Event()}
    _submit(ahead, _ticket("slow"))
    until(lambda: ("expect", 0, "slow") in supply.told)
    ahead.close()
    assert supply.brought == []
    _submit(ahead, _ticket("later"))
    assert supply.brought == []


def _no_engine() -> None:
    raise EngineUnavailable("gone")


@pytest.mark.parametrize("make", [lambda: None, _no_engine])
def test_without_a_supply_no_scenario_is_read_and_no_thread_started(make: Callable[[], None]) -> None:
    done: list[object] = []
    ahead: Ahead[Any] = Ahead(make, lambda ticket: done.append(ticket) or (), 1, limited=True)
    with contextlib.suppress(EngineUnavailable):
        ahead.open()
    ticket = _ticket("one")
    _submit(ahead, ticket)
    ahead.begin(ticket, _needs(ticket))
    ahead.end(ticket)
    assert ahead.is_idle
    assert (done, ahead._threads) == ([], [])
    ahead.close()


def test_what_is_submitted_before_there_is_a_supply_is_not_brought_ahead_but_told_of(supply: Supply) -> None:
    ahead: Ahead[Any] = Ahead(lambda: supply, _needs, 4, limited=False)
    early, late = _ticket("early"), _ticket("late")
    _submit(ahead, early)
    assert ahead._threads == []
    ahead.open()
    _submit(ahead, late)
    until(lambda: supply.brought == ["late"])
    _begin(ahead, early)
    ahead.end(early)
    assert [told for told in supply.told if told[1] == 0] == [("begin", 0, "early"), ("end", 0, True)]
    ahead.close()


def test_only_images_of_trials_that_will_run_come(ahead: Ahead[Any], supply: Supply) -> None:
    ahead.submit(_ticket("marked"), runs=False)
    for number, runs in enumerate((False, True, True)):
        ahead.submit(_ticket("half", number), runs=runs)
    _submit(ahead, _ticket("last"))
    until(lambda: len(supply.brought) == 2)
    assert sorted(supply.brought) == ["half", "last"]


def test_the_end_of_a_trial_that_was_skipped_is_not_that_of_one_that_runs(
    ahead: Ahead[Any], supply: Supply
) -> None:
    skipped, running = _ticket("one", 1), _ticket("one", 2)
    _submit(ahead, skipped, running)
    until(lambda: supply.brought == ["one"])
    _begin(ahead, running)
    ahead.end(skipped)
    assert supply.told[1:] == [("begin", 0, "one")]
    ahead.end(running)
    assert supply.told[2:] == [("end", 0, True)]


def test_what_needs_no_image_takes_no_place_of_those_that_are_here(supply: Supply) -> None:
    ahead: Ahead[Any] = Ahead(
        lambda: supply, lambda ticket: _needs(ticket) if ticket.scenario == "last" else (), 1, limited=False
    )
    ahead.open()
    _submit(ahead, *[_ticket(f"question-{number}") for number in range(20)], _ticket("last"))
    until(lambda: supply.brought == ["last"])
    ahead.close()


def test_with_a_limit_all_that_trials_will_need_is_known(supply: Supply) -> None:
    ahead: Ahead[Any] = Ahead(lambda: supply, _needs, 1, limited=True)
    ahead.open()
    _submit(ahead, *[_ticket(str(number)) for number in range(20)])
    until(lambda: {told[1] for told in supply.told} == set(range(20)))
    assert len(supply.brought) <= 8
    ahead.close()
