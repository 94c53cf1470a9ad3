"""Prefetch of images, in the order in which trials will need them.

A few threads read the next scenarios and have their images pulled or built while earlier trials run; not too far ahead,
as a job may be stopped at any time. Errors are ignored here: the trial meets them too, and reports them. An image is
needed until the last trial of its scenarios has ended; the image supply is told, so that it can remove others.

Where sandboxes need no images, no thread is started and no scenario is read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from ..model.scenario import Environment
from .ticket import Ticket

if TYPE_CHECKING:
    from ..sandbox.protocol import ImageSupply

_THREADS = 4
_LEAST_AHEAD = 8
_LOOK = 1.0
_NO_ROOM_SECONDS = 0.5

T = TypeVar("T", bound=Ticket)


class Stopped(Exception):
    """The prefetch was stopped."""


@dataclasses.dataclass(eq=False)
class _Scenario(Generic[T]):
    """A scenario with waiting or running trials."""

    place: int
    ticket: T
    """A ticket of one of its trials."""
    left: int = 0
    """Number of its trials that have not ended."""
    wanted: bool = False
    """True if a trial is expected to run, so the image is prefetched."""
    running: set[str] = dataclasses.field(default_factory=set)
    """Node ids of trials that have begun and were announced to the supply."""
    begun: bool = False


class Ahead(Generic[T]):
    """Prefetches images for the trials of one process. Thread-safe.

    Args:
        supply: Returns the image supply; None where sandboxes need no images. Called once, by `open`.
        needs: Reads the scenario of a waiting trial, and returns the environments whose images it will need, that of
            the agent first. Called in other threads.
        concurrency: Number of trials that run at a time.
        limited: True if images are removed to make room, so that the needs of all trials must be known.
    """

    def __init__(
        self,
        supply: Callable[[], ImageSupply | None],
        needs: Callable[[T], Sequence[Environment]],
        concurrency: int,
        *,
        limited: bool,
    ) -> None:
        self._make = supply
        self._needs = needs
        self._window = max(2 * concurrency, _LEAST_AHEAD)
        self._limited = limited
        self._supply: ImageSupply | None = None
        self._opened = False
        self._opening = threading.Lock()
        self._scenarios: dict[tuple[str, str], _Scenario[T]] = {}
        self._places = itertools.count()
        self._waiting: deque[_Scenario[T]] = deque()
        self._unread: deque[_Scenario[T]] = deque()
        self._ahead: set[int] = set()
        """Scenarios whose images are here or on the way, and whose trials have not begun."""
        self._lock = threading.Lock()
        self._nudges: queue.SimpleQueue[None] = queue.SimpleQueue()
        """Wakes waiting threads. Not a `Condition`: if Ctrl-C interrupts its Python code, its lock stays locked."""
        self._stopping = False
        self._threads: list[threading.Thread] = []

    @property
    def is_idle(self) -> bool:
        """True if it prefetches nothing, or nothing more."""
        return self._stopping

    def open(self) -> None:
        """Get the image supply, unless that was done. Without a supply, the prefetch is idle."""
        with self._opening:
            if not self._opened:
                self._opened = True
                try:
                    self._supply = self._make()
                finally:
                    if self._supply is None:
                        self.stop()

    def submit(self, ticket: T, *, runs: bool) -> None:
        """Note a submitted trial. If it `runs` and there is a supply, its image is prefetched.

        Call from one thread only.
        """
        if self._stopping:
            return  # idle or stopped
        key = ticket.benchmark, ticket.scenario
        with self._lock:
            if (scenario := self._scenarios.get(key)) is None:
                scenario = self._scenarios[key] = _Scenario(next(self._places), ticket)
            scenario.left += 1
        if self._supply is None or scenario.wanted or not runs:
            return
        with self._lock:
            scenario.wanted, scenario.ticket = True, ticket
            self._waiting.append(scenario)
            if self._limited:
                self._unread.append(scenario)
            self._start()
        self._nudges.put(None)

    def begin(self, ticket: T, environments: Sequence[Environment]) -> None:
        """Note that a trial begins, and the environments whose images it needs. Called in its thread."""
        if self._supply is None:
            return
        with self._lock:
            scenario = self._scenarios.get((ticket.benchmark, ticket.scenario))
            if scenario is None:
                return
            scenario.begun = True
            self._ahead.discard(scenario.place)
            scenario.running.add(ticket.node_id)
        self._nudges.put(None)
        self._supply.begin(scenario.place, environments)

    def end(self, ticket: T) -> None:
        """Note that a trial has ended, or that it does not run."""
        key = ticket.benchmark, ticket.scenario
        with self._lock:
            scenario = self._scenarios.get(key)
            if scenario is None:
                return
            scenario.left -= 1
            ran = ticket.node_id in scenario.running
            scenario.running.discard(ticket.node_id)
            last = scenario.left <= 0
            if last:
                del self._scenarios[key]
                scenario.begun = True
                self._ahead.discard(scenario.place)
        self._nudges.put(None)
        if self._supply is not None and (ran or last):
            self._supply.end(scenario.place, last=last)

    def stop(self) -> None:
        """Abort all pulls and builds, and start no more. Does not wait."""
        self._stopping = True
        for _ in self._threads:
            self._nudges.put(None)

    def close(self) -> None:
        """Stop, and wait for the threads."""
        self.stop()
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _start(self) -> None:
        """Start the threads, once there is something to do. Call with the lock held."""
        if self._threads or self._stopping:
            return
        works = [self._work] * _THREADS + ([self._announce_all] if self._limited else [])
        for work in works:
            thread = threading.Thread(target=work, name="bench-images", daemon=True)
            with contextlib.suppress(
                RuntimeError
            ):  # no more threads on this machine; trials pull their own images
                thread.start()
                self._threads.append(thread)

    def _work(self) -> None:
        """Prefetch images, each once there are few enough that are here and whose trials have not begun."""
        while not self._stopping:
            with self._lock:
                while self._waiting and self._waiting[0].begun:
                    self._waiting.popleft()
                scenario = (
                    self._waiting.popleft() if self._waiting and len(self._ahead) < self._window else None
                )
                if scenario is not None:
                    self._ahead.add(scenario.place)
            if scenario is None:
                self._rest(_LOOK)
                continue
            with contextlib.suppress(Exception):  # the trial meets the error too, and reports it
                self._bring(scenario)

    def _rest(self, seconds: float) -> None:
        """Wait until something changes, or for these seconds."""
        with contextlib.suppress(queue.Empty):
            self._nudges.get(timeout=seconds)

    def _bring(self, scenario: _Scenario[T]) -> None:
        environments = self._announce(scenario)
        if not environments:
            with self._lock:
                self._ahead.discard(scenario.place)
        for environment in environments:
            while self._supply is not None and not self._supply.bring(environment, self._check):
                if scenario.begun or self._stopping:
                    return
                self._rest(_NO_ROOM_SECONDS)

    def _announce(self, scenario: _Scenario[T]) -> Sequence[Environment]:
        """Tell the supply which images a scenario needs, and return their environments."""
        environments = self._needs(scenario.ticket)
        if environments and self._supply is not None:
            self._supply.expect(scenario.place, environments)
            if scenario.left <= 0:
                # Its last trial ended meanwhile, and the supply was told before it knew of the trial.
                self._supply.end(scenario.place, last=True)
        return environments

    def _announce_all(self) -> None:
        """Announce the needs of all waiting trials, before a needed image is removed."""
        while not self._stopping:
            with self._lock:
                scenario = self._unread.popleft() if self._unread else None
            if scenario is None:
                self._rest(_LOOK)
                continue
            with contextlib.suppress(Exception):  # the trial meets the error too, and reports it
                self._announce(scenario)

    def _check(self) -> None:
        if self._stopping:
            raise Stopped
