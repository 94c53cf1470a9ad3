"""An answer that stands still is given up, by a clock that stands while the agent does not read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from unittest import mock

import pytest

from pytest_benchjobs.gateway.retrying import Pulse

from .clocks import Clock


class Timers(Clock):
    """What `time` is to a pulse, and the timers it asks the loop for."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[tuple[float, Callable[[], None], mock.Mock]] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> mock.Mock:
        self.timers.append((delay, callback, mock.Mock()))
        return self.timers[-1][2]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Timers:
    clock = Timers()
    monkeypatch.setattr("pytest_benchjobs.gateway.retrying.time", clock)
    return clock


async def takes(clock: Timers, pulse: Pulse, seconds: float, size: int = 0) -> None:
    """A wait for an endpoint that says so much at its end."""

    async def wait() -> None:
        clock.now += seconds

    await pulse.limit(wait())
    pulse.beat(size)


@pytest.mark.parametrize(
    ("waits", "silent"),
    [
        ([], 0),
        ([(5, 255)], 5),
        ([(5, 256)], 0),
        ([(5, 200), (5, 56)], 0),  # within ten seconds
        ([(5, 200), (5, 55)], 10),
        ([(6, 200), (5, 200)], 11),  # eleven seconds after the window began
        ([(6, 200), (5, 200), (5, 56)], 0),  # the window began anew, with the 200 before
        ([(5, 256), (10, 255), (1, 1)], 11),
        ([(5, 256), (9, 255), (1, 1)], 0),
        ([(5, 256), (3, 0)], 3),
    ],
)
def test_so_many_bytes_within_ten_seconds_are_a_sign_of_life(
    clock: Timers, waits: list[tuple[float, int]], silent: float
) -> None:
    async def run() -> float:
        pulse = Pulse(silence=900, longest=3600)
        for seconds, size in waits:
            await takes(clock, pulse, seconds, size)
        return pulse.silent()

    assert asyncio.run(run()) == silent


def test_while_the_agent_does_not_read_nobody_is_silent(clock: Timers) -> None:
    async def run() -> None:
        pulse = Pulse(silence=900, longest=3600)
        clock.now += 50
        assert pulse.silent() == 0
        await takes(clock, pulse, 3)
        clock.now += 70
        assert pulse.silent() == 3

        async def look() -> float:
            clock.now += 4
            return pulse.silent()

        assert await pulse.limit(look()) == 7

    asyncio.run(run())


def test_a_timeout_of_the_connection_is_told_as_it_is() -> None:
    async def fails() -> None:
        raise TimeoutError("of the connection")

    async def run() -> None:
        with pytest.raises(TimeoutError, match=r"^of the connection$"):
            await Pulse(60, 60).limit(fails())

    asyncio.run(run())
