"""Commands in a Pod: its first process runs them, and holds what they print and how they end until that was heard."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ...model.errors import EnvironmentFailed
from ..command_timeout import LOOK, Drained, wait_fairly, wait_for_output
from ..protocol import ExecResult, Sink, Stdin, Stopping
from ..runner import CLOSE, ERRORS, EXIT, KILL, OUTPUT, Call, Runner
from .link import Link

T = TypeVar("T")
_PATIENCE = 300.0


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    status: int
    started: bool
    """False: there is no such program or directory."""


class PodServer(Runner):
    """The first process of a Pod, from its start to its end."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._all_ended = threading.Event()
        super().__init__(None, None)
        # What an agent has stopped may keep everything waiting. It is longer than any outage that the link bears.
        self._patience = _PATIENCE

    def close(self) -> None:
        """Let go of it; what runs there runs on. Never raises."""
        self._stopping.set()
        self._link.close()
        self._thread.join()

    @property
    def again(self) -> tuple[str, ...]:
        """A line for each connection with it that another one had to follow."""
        return tuple(self._link.again)

    def leave(self) -> None:
        """Have it end, and with it its container."""
        with contextlib.suppress(OSError):  # it has gone before
            self._frames.write(CLOSE, 0)

    def await_hello(self) -> None:
        """Wait until it is there, or raise why it is not, for as long as the link tries."""
        while not self._frames.ready.wait(LOOK):
            if self._ended.is_set():
                raise self._error or EnvironmentFailed("the first process of the Pod does not start")

    def end_all(self, check: Callable[[], object]) -> None:
        """End all other processes; `check` is called several times a second. Raises EnvironmentFailed: it cannot."""
        late = time.monotonic() + _PATIENCE
        self._all_ended.clear()
        self._link.kills_all = True
        try:
            self._end_all(late, check)
        finally:
            self._link.kills_all = False

    def _end_all(self, late: float, check: Callable[[], object]) -> None:
        with contextlib.suppress(OSError):  # why it is gone is told where its answer is waited for
            self._frames.write(KILL, 0)
        while not self._all_ended.wait(LOOK):
            check()
            if self._ended.is_set():
                raise self._error or EnvironmentFailed("the first process of the Pod has ended")
            if time.monotonic() > late:
                raise EnvironmentFailed("the first process of the Pod does not answer")

    def execute(
        self,
        words: Sequence[str | bytes],
        *,
        timeout: float,
        sink: Sink,
        stdout: Sink | None,
        silent: float | None,
        stopping: Stopping | None,
        stdin: Stdin | None,
        check: Callable[[], object],
    ) -> ExecResult:
        """Run a command as `Sandbox.exec` does; `words` as `serve` takes them. It runs on where its time is up.

        What `check` raises ends the wait.
        """
        written = queue.SimpleQueue[bytes | None]()
        fed: Iterable[bytes] = () if stdin is None else iter(written.get, None)
        ended: list[Ended] = []
        with self._begun(words, fed) as call:
            if stdin is not None:
                stdin(written.put)

            def take(seconds: float) -> bool | None:
                check()
                kind, content = self._next_within(call.frames, min(seconds, LOOK))
                if kind in (OUTPUT, ERRORS):
                    sink(content)
                    if stdout is not None and kind == OUTPUT:
                        stdout(content)
                elif kind == EXIT:
                    ended.append(Ended(content[0], started=len(content) == 1))
                return None if ended else bool(kind)

            def wait(deadline: float, silent: float | None, requested: Callable[[], bool] | None) -> Drained:
                return Drained.ENDED if ended else wait_for_output(take, deadline, silent, requested)

            started = time.monotonic()
            try:
                why = wait_fairly(wait, started + timeout, silent, self._fair(stopping, call))
            finally:
                written.put(None)
        return ExecResult(
            ended[0].status if ended else None,
            timed_out=why is not Drained.ENDED,
            seconds=time.monotonic() - started,
            started=not ended or ended[0].started,
            stopped=why is Drained.ASKED,
            silent=why is Drained.SILENT,
        )

    def _fair(self, stopping: Stopping | None, call: Call) -> Stopping:
        """Return how a command is asked to end, for whose time an outage does not count."""
        asked = stopping or Stopping(lambda: False, lambda _: None, graces=())
        before = self._link.lost

        def unbounded(do: Callable[..., T]) -> Callable[..., T]:
            """Do something else over the link, while nobody takes what this command prints."""

            def done(*arguments: str) -> T:
                most, call.frames.maxsize = call.frames.maxsize, 0
                try:
                    return do(*arguments)
                finally:
                    call.frames.maxsize = most

            return done

        return dataclasses.replace(
            asked,
            requested=unbounded(asked.requested),
            signal=unbounded(asked.signal),
            held=lambda: asked.held() + self._link.lost - before,
        )

    def _take(self, kind: int, number: int, content: bytes) -> None:
        if kind == EXIT and not number:
            self._all_ended.set()
        else:
            super()._take(kind, number, content)

    def _serve(self) -> None:
        try:
            self._frames.attach(self._link.write)
            self._link.run(self._frames.feed)
        except BaseException as error:
            self._error = error
        finally:
            self._ended.set()
