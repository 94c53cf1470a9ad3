"""Images come ahead of the trials that need them, in their order, and for as long as somebody needs them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.job.ahead import Ahead, Stopped
from pytest_benchjobs.model.errors import ImageMissing
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


def _ticket(scenario: str, **images: str) -> Any:
    return SimpleNamespace(benchmark="b", scenario=scenario, images=tuple(images.values()) or (scenario,))


def _needs(ticket: Any) -> list[Environment]:
    return [Environment(image=image) for image in ticket.images]


@pytest.fixture
def supply() -> Supply:
    return Supply()


@pytest.fixture
def ahead(supply: Supply) -> Iterator[Ahead[Any]]:
    ahead: Ahead[Any] = Ahead(lambda: supply, _needs, 4, limited=False)
    yield ahead
    ahead.close()


def test_images_come_in_the_order_of_their_trials_and_not_too_far_ahead(
    ahead: Ahead[Any], supply: Supply
) -> None:
    tickets = [_ticket(f"t{number:02}") for number in range(30)]
    for ticket in tickets:
        ahead.submit(ticket)
    until(lambda: len(supply.brought) == 8)
    assert sorted(supply.brought) == [f"t{number:02}" for number in range(8)]
    ahead.begin(tickets[0])
    until(lambda: len(supply.brought) == 9)
    assert supply.brought[-1] == "t08"


def test_a_scenario_is_needed_until_its_last_trial_has_ended(ahead: Ahead[Any], supply: Supply) -> None:
    first, second = _ticket("one", agent="a", grader="g"), _ticket("one", agent="a", grader="g")
    ahead.submit(first)
    ahead.submit(second)
    until(lambda: supply.brought == ["a", "g"])
    for ticket in (first, second):
        ahead.begin(ticket)
        ahead.end(ticket)
    assert supply.told == [
        ("expect", 0, "a", "g"),
        *[("begin", 0, "a", "g"), ("end", 0, False)],
        *[("begin", 0, "a", "g"), ("end", 0, True)],
    ]


def test_what_is_missing_or_has_no_room_holds_up_nothing_else(ahead: Ahead[Any], supply: Supply) -> None:
    supply.missing, supply.full = {"gone"}, {"large"}
    large = _ticket("large")
    for ticket in (_ticket("gone"), large, _ticket("third")):
        ahead.submit(ticket)
    until(lambda: supply.brought == ["third"])
    supply.full.clear()
    until(lambda: "large" in supply.brought)


def test_what_is_being_brought_is_broken_off(ahead: Ahead[Any], supply: Supply) -> None:
    supply.blocked = {"slow": threading.Event()}
    ahead.submit(_ticket("slow"))
    until(lambda: ("expect", 0, "slow") in supply.told)
    ahead.close()
    assert supply.brought == []
    ahead.submit(_ticket("later"))
    assert supply.brought == []


def test_sandboxes_without_images_read_no_scenario_twice() -> None:
    read: list[object] = []

    def needs(ticket: Any) -> list[Environment]:
        read.append(ticket)
        return _needs(ticket)

    ahead: Ahead[Any] = Ahead(lambda: None, needs, 1, limited=False)
    for number in range(50):
        ahead.submit(_ticket(str(number)))
    until(lambda: ahead._stopping)
    ahead.close()
    assert len(read) <= 4


def test_with_a_limit_all_that_trials_will_need_is_known(supply: Supply) -> None:
    ahead: Ahead[Any] = Ahead(lambda: supply, _needs, 1, limited=True)
    for number in range(20):
        ahead.submit(_ticket(str(number)))
    until(lambda: {told[1] for told in supply.told} == set(range(20)))
    assert len(supply.brought) <= 8
    ahead.close()
