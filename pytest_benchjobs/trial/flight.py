"""Flight: many trials at a time, one result at a time.

A trial is minutes of waiting for a container, so each gets a thread and no process: a thread costs 16 KiB resident
where an xdist worker costs 40 MiB. pytest stays in the main thread and takes results in the order they land.

How many trials run at once is a property of the *job*, not of a process. Processes share it through token files: a
trial may start only while its process holds the lock of one of N files. The kernel drops the locks of a process that
dies, so nothing has to be cleaned up, and a worker with more to do than the others simply takes more tokens.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import operator
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from ..model.result import TrialResult
from .cancellation import Cancellation

_TOKEN_POLL = 0.05
_INSTANT = 0.05
"""Seconds. A shorter trial used no engine, and passing its token on would cost more than the trial."""
_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

Ticket = TypeVar("Ticket")


@dataclasses.dataclass(frozen=True, slots=True)
class Deferred:
    """No result yet: the trial waits for these seconds, without a token, and is then run."""

    seconds: float


_Launch = tuple[Ticket, Cancellation, int]


class Tokens:
    """Tokens with at most `limit` holders among all processes that use the same directory.

    Where the directory cannot have locks (it is gone, its disk is full, its file system has none), the limit holds
    within this process only: exceeding it is better than waiting for ever.
    """

    def __init__(self, directory: Path, limit: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._free: deque[int] = deque(range(limit))
        self._files = [directory / f"token-{number}" for number in range(limit)]
        self._held: dict[int, int | None] = {}

    def take(self) -> int | None:
        """Return a token, or None when all are held. Call from one thread only; `give_back` may be called from any."""
        for _ in range(len(self._free)):
            number = self._free.popleft()
            try:
                self._held[number] = _locked(self._files[number])
            except BlockingIOError:
                self._free.append(number)
                continue
            except OSError as error:
                if error.errno in _SCARCE and self._held:
                    self._free.append(number)
                    return None
                self._held[number] = None
            return number
        return None

    def give_back(self, number: int) -> None:
        """Release a token, for any process."""
        descriptor = self._held.pop(number)
        if descriptor is not None:
            # A child forked meanwhile has the descriptor too, so closing ours would not release the lock.
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)
        self._free.append(number)


def _locked(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


class Flight(Generic[Ticket]):
    """Runs trials in threads, each under a token, and hands their results back one by one.

    `run` should not raise, as errors of a trial belong in its result. If it does, `next` raises the exception, so that
    no caller waits for a trial that never lands.
    """

    def __init__(self, run: Callable[[Ticket, Cancellation], TrialResult | Deferred], tokens: Tokens) -> None:
        self._run = run
        self._tokens = tokens
        self._waiting: deque[Ticket] = deque()
        self._deferred: list[tuple[float, Ticket]] = []
        """Trials that wait, each for its time."""
        self._cancellations: set[Cancellation] = set()
        """Of trials in flight."""
        self._landed: queue.SimpleQueue[tuple[Ticket, TrialResult | BaseException]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._nudges: queue.SimpleQueue[None] = queue.SimpleQueue()
        """Wakes waiting threads. Not an `Event`: if Ctrl-C interrupts its Python code, its lock stays locked."""
        self._stopping = False
        self._quick: dict[int, float] = {}
        """Tokens of threads that run one instant trial after another -> the time that began."""
        self._threads = 0
        self._idle = 0
        self._next_for_idle: queue.SimpleQueue[_Launch[Ticket] | None] = queue.SimpleQueue()
        self._dispatcher = threading.Thread(target=self._dispatch, name="bench-dispatch", daemon=True)
        self._dispatcher.start()

    @property
    def outstanding(self) -> int:
        """Number of submitted trials whose result was not returned yet."""
        with self._lock:
            to_land = len(self._cancellations) + self._landed.qsize()
            return len(self._waiting) + len(self._deferred) + to_land

    def submit(self, ticket: Ticket) -> None:
        """Start a trial as soon as there is a token."""
        with self._lock:
            self._waiting.append(ticket)
        self._nudges.put(None)

    def land(self, ticket: Ticket, result: TrialResult) -> None:
        """Land a known result without running anything."""
        self._landed.put((ticket, result))

    def next(self, timeout: float | None = None) -> tuple[Ticket, TrialResult] | None:
        """Return the next result to land, or None after `timeout` seconds."""
        try:
            ticket, result = self._landed.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(result, BaseException):
            raise result
        return ticket, result

    def withdraw(self) -> list[Ticket]:
        """Remove trials that have not started."""
        with self._lock:
            withdrawn = [*self._waiting, *(ticket for _, ticket in self._deferred)]
            self._waiting.clear()
            self._deferred.clear()
        return withdrawn

    def cancel(self) -> None:
        """Remove trials that have not started, and ask running ones to stop. Results of these still land."""
        self.withdraw()
        with self._lock:
            running = list(self._cancellations)
        for cancellation in running:
            cancellation.request()

    def close(self) -> None:
        """End the dispatcher. Call `cancel` first, or wait until nothing is outstanding."""
        self._stopping = True
        self._nudges.put(None)
        self._dispatcher.join()
        for _ in range(self._threads):
            self._next_for_idle.put(None)

    def _dispatch(self) -> None:
        while not self._stopping:
            with self._lock:
                due = self._recall()
                hungry, enough = bool(self._waiting), self._is_enough()
            token = self._tokens.take() if hungry and not enough else None
            if token is None:
                # Wait until something changes, and clear all wake-ups.
                with contextlib.suppress(queue.Empty):
                    self._nudges.get(timeout=_TOKEN_POLL if hungry else due)
                    while True:
                        self._nudges.get_nowait()
                continue
            with self._lock:
                launch = None if self._is_enough() else self._take(token)
            if launch is None:
                self._tokens.give_back(token)
                continue
            try:
                self._launch(launch)
            except (RuntimeError, MemoryError):
                # No more threads at present. Others will end.
                self._tokens.give_back(token)
                ticket, cancellation, _ = launch
                with self._lock:
                    self._cancellations.discard(cancellation)
                    if not cancellation.requested:
                        self._waiting.appendleft(ticket)
                time.sleep(_TOKEN_POLL)

    # Call the next three with the lock held.

    def _recall(self) -> float | None:
        """Put the deferred trials whose time has come behind the waiting ones; return the seconds until the next."""
        self._deferred.sort(key=operator.itemgetter(0))
        while self._deferred and self._deferred[0][0] <= time.monotonic():
            self._waiting.append(self._deferred.pop(0)[1])
        return max(self._deferred[0][0] - time.monotonic(), 0.0) if self._deferred else None

    def _take(self, token: int) -> _Launch[Ticket] | None:
        """Move the next waiting trial into flight."""
        if not self._waiting:
            return None
        cancellation = Cancellation()
        self._cancellations.add(cancellation)
        return self._waiting.popleft(), cancellation, token

    def _is_enough(self) -> bool:
        """Return whether another thread would only compete with pytest for the interpreter.

        That is so while a thread runs one instant trial after another, and pytest lags behind with its reports.
        """
        soon = time.monotonic() - _INSTANT
        return not self._landed.empty() and any(began > soon for began in self._quick.values())

    def _launch(self, launch: _Launch[Ticket]) -> None:
        """Hand a trial to an idle thread, or else to a new one: starting one takes 100 us."""
        with self._lock:
            waits = self._idle > 0
            self._idle -= waits
        if waits:
            self._next_for_idle.put(launch)
        else:
            threading.Thread(target=self._serve, args=(launch,), name="bench-trial", daemon=True).start()
            self._threads += 1

    def _serve(self, launch: _Launch[Ticket] | None) -> None:
        while launch is not None:
            launch = self._fly(*launch) or self._next_for_idle.get()

    def _fly(self, ticket: Ticket, cancellation: Cancellation, token: int) -> _Launch[Ticket] | None:
        """Run one trial; return the next one for this thread, if there is one and the token need not be passed on."""
        started = time.monotonic()
        try:
            result: TrialResult | Deferred | BaseException = self._run(ticket, cancellation)
        except BaseException as error:
            result = error
        following = None
        instant = time.monotonic() - started < _INSTANT and not self._stopping
        with self._lock:
            self._quick.pop(token, None)
            if instant and not self._is_enough() and (following := self._take(token)) is not None:
                self._quick[token] = time.monotonic()
        if following is None:
            self._tokens.give_back(token)
        with self._lock:
            self._idle += following is None
            self._cancellations.discard(cancellation)
            if not isinstance(result, Deferred):
                self._landed.put((ticket, result))
            elif not cancellation.requested:
                self._deferred.append((time.monotonic() + result.seconds, ticket))
        if following is None:
            self._nudges.put(None)
        return following
