"""Commands in a Pod: its first process runs them, and holds what they print and how they end until that was heard."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from ...model.errors import EnvironmentFailed
from ..command_timeout import LOOK, Drained, wait_fairly, wait_for_output
from ..protocol import ExecResult, Sink, Stdin, Stopping
from ..runner import CLOSE, ERRORS, EXIT, KILL, OUTPUT, Runner
from .link import Link


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

    def close(self) -> None:
        """Let go of it; what runs there runs on. Never raises."""
        self._stopping.set()
        self._link.close()
        self._thread.join()

    def leave(self) -> None:
        """Have it end, and with it its container."""
        with contextlib.suppress(OSError):  # it has gone before
            self._frames.write(CLOSE, 0)

    def end_all(self, check: Callable[[], object]) -> None:
        """End all other processes; `check` is called several times a second. Raises EnvironmentFailed: it cannot."""
        self._all_ended.clear()
        with contextlib.suppress(OSError):  # why it is gone is told where its answer is waited for
            self._frames.write(KILL, 0)
        while not self._all_ended.wait(LOOK):
            check()
            if self._ended.is_set():
                raise self._error or EnvironmentFailed("the first process of the Pod has ended")

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
                why = wait_fairly(wait, started + timeout, silent, stopping)
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
