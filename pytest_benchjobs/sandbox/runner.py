"""Commands of our program that last and speak frames (`program/frames.h`), and `serve`, which runs programs."""

from __future__ import annotations

import abc
import contextlib
import itertools
import math
import queue
import struct
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol, runtime_checkable

from ..model.errors import EnvironmentFailed, OutputLost
from ..system.cutting import HeadSink
from .program import PROGRAM
from .protocol import ExecResult, Sandbox, Sink, Stopping

_FRAME = struct.Struct("<BxHI")
HELLO, WORDS, RUN, UNFED, INPUT, CLOSE, KILL, OUTPUT, ERRORS, EXIT, TAKEN = b"hwruickoext"
"""Kinds of frames."""
_BEGINNING = _FRAME.pack(HELLO, 0, 0)
MOST = 1 << 16
"""Most bytes of a frame."""
_MOST_WORDS = 1 << 21
"""Most bytes of a command with its variables: a kernel takes no more either."""
_MOST_COUNT = 1 << 16
_ASKED = 0x8000
"""Numbers from here on are of calls that `bench-run` asks for."""
_WAITING = 64
"""Frames of one call that wait until they are taken."""
_LOOK = 0.2
_LONGEST = 30 * 86_400.0
"""Seconds: its sandbox ends before."""
_START = 60.0
_PATIENCE = 20.0
"""Seconds without an answer where what an agent left running may have stopped it."""
_END = (("TERM", 5.0),)


@runtime_checkable
class Serves(Protocol):
    """A sandbox in which programs of ours can run, whose commands can have a standard input. Others lack the method."""

    @property
    def variables(self) -> Mapping[str, str]:
        """Variables that every command has, of the image and of the environment."""

    @property
    def user(self) -> str:
        """User that commands run as by default."""

    def ready_to_serve(self) -> bool:
        """Put our program in, whatever is in its place; False: there is none for such a machine."""


@runtime_checkable
class ActsInside(Protocol):
    """A sandbox whose calls are expensive, as each is one of an engine. Others do not have the method."""

    def inside(self) -> AbstractContextManager[None]:
        """Meanwhile, have one `serve` inside do what it can: run commands of root, list, put and fetch files."""


def can_serve(sandbox: Sandbox) -> bool:
    """Return True if programs of ours can run in a sandbox; our program is there then."""
    return isinstance(sandbox, Serves) and sandbox.ready_to_serve()


def serving(sandbox: Sandbox, mode: Literal["alone", "open"] | None = None) -> Runner:
    """Start what runs programs in a sandbox; close it after use.

    `alone`: nothing else is to run there, and whatever does is ended after each program. `open`: what outlives its
    program lives on.

    Raises:
        EnvironmentFailed: they cannot run there. An agent can leave files that make an engine wait for ever.
        InfrastructureError: the engine failed.
    """
    if not can_serve(sandbox):
        raise EnvironmentFailed("no program of ours can run in this sandbox")
    runner = Runner(sandbox, mode)
    runner.await_hello()
    return runner


class Frames:
    """The frames of one such command: its output comes in pieces of any size, in one thread; any thread may write."""

    def __init__(self, take: Callable[[int, int, bytes], None]) -> None:
        self._take = take
        self._buffer = bytearray()
        self._send: Callable[[bytes], None] | None = None
        self._lock = threading.Lock()
        self.ready = threading.Event()
        """Set once it says that it is there."""

    def attach(self, send: Callable[[bytes], None]) -> None:
        """Take what writes to its standard input. It may be started more than once until it is there."""
        self._send = send
        self._buffer.clear()

    def feed(self, data: bytes) -> None:
        """Take a piece of output."""
        self._buffer += data
        if not self.ready.is_set() and not self._buffer.startswith(_BEGINNING[: len(self._buffer)]):
            return  # an engine says so why it cannot start it
        while len(self._buffer) >= _FRAME.size:
            kind, number, size = _FRAME.unpack_from(self._buffer)
            if size > MOST:
                raise EnvironmentFailed("the program in the sandbox says something that it cannot say")
            end = _FRAME.size + size
            if len(self._buffer) < end:
                return
            content = bytes(self._buffer[_FRAME.size : end])
            del self._buffer[:end]
            if kind == HELLO:
                self.ready.set()
            else:
                self._take(kind, number, content)

    def write(self, kind: int, number: int, content: bytes = b"") -> None:
        """Write a frame, or several where the content is long."""
        assert self._send is not None  # noqa: S101  it said hello
        for at in range(0, max(1, len(content)), MOST):
            part = content[at : at + MOST]
            with self._lock:
                self._send(_FRAME.pack(kind, number, len(part)) + part)


class Lasting(abc.ABC):
    """One command of our program in a sandbox, as root, which speaks frames with us up to `close`."""

    def __init__(self, sandbox: Sandbox | None, *arguments: str) -> None:
        self._sandbox = sandbox
        self.command = (PROGRAM, *arguments)
        self._frames = Frames(self._take)
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=f"bench-{arguments[0]}", daemon=True)
        self._thread.start()

    @abc.abstractmethod
    def _take(self, kind: int, number: int, content: bytes) -> None:
        """Take a frame, in the thread that reads."""

    def await_hello(self) -> None:
        """Wait until it is there, or raise why it is not."""
        deadline = time.monotonic() + _START
        while not self._frames.ready.wait(_LOOK):
            if self._ended.is_set():
                raise self._error or EnvironmentFailed("our program does not start in the sandbox")
            if time.monotonic() > deadline:
                self.close()
                raise EnvironmentFailed("our program in the sandbox does not start")

    @property
    def has_ended(self) -> bool:
        """True if it does nothing any more."""
        return self._ended.is_set() or self._stopping.is_set()

    def close(self) -> None:
        """End it. Never raises."""
        self._stopping.set()
        if not self._ended.is_set():
            with contextlib.suppress(Exception):
                self._frames.write(KILL, 0)
        self._thread.join()

    def _serve(self) -> None:
        assert self._sandbox is not None  # noqa: S101  else this is another's affair
        try:
            ended: ExecResult = self._sandbox.exec(
                self.command,
                timeout=_LONGEST,
                sink=lambda _: None,
                stdout=self._frames.feed,
                stdin=self._frames.attach,
                user="root",
                workdir="/",
                stopping=Stopping(self._stopping.is_set, lambda _: None, _END),
            )
            if not self._stopping.is_set():
                what = f"our program in the sandbox ended early, with status {ended.exit_status}"
                # It ends by itself where it hears no more of us.
                self._error = EnvironmentFailed(what) if ended.exit_status else OutputLost(what)
        except BaseException as error:
            self._error = error
        finally:
            self._ended.set()


class Call:
    """A program that runs, its frames, and what went wrong with its input."""

    def __init__(self, frames: Frames, number: int) -> None:
        self._frames = frames
        self._number = number
        self.frames = queue.Queue[tuple[int, bytes]](_WAITING)
        self.broken: list[BaseException] = []

    def kill(self) -> None:
        """End it. Never raises."""
        with contextlib.suppress(Exception):
            self._frames.write(KILL, self._number)

    def feed(self, stdin: Iterable[bytes]) -> None:
        """Write its standard input to the end of that."""
        try:
            for piece in stdin:
                with contextlib.suppress(OSError):
                    self._frames.write(INPUT, self._number, piece)
        except BaseException as error:
            self.broken.append(error)
        with contextlib.suppress(Exception):
            self._frames.write(CLOSE, self._number)


class Runner(Lasting):
    """One `serve` in a sandbox, up to `close`. Where that fails, what is run is an InfrastructureError."""

    def __init__(self, sandbox: Sandbox | None, mode: str | None) -> None:
        self._patience = _PATIENCE if mode == "open" else math.inf
        self._calls: dict[int, queue.Queue[tuple[int, bytes]]] = {}
        self._lock = threading.Lock()
        self._numbers = itertools.cycle(range(1, _ASKED))
        super().__init__(sandbox, "serve", *(() if mode is None else (mode,)))

    def run(
        self,
        argv: Sequence[str | bytes],
        *,
        stdout: Sink,
        stderr: Sink,
        stdin: Iterable[bytes] = (),
        workdir: str = "/",
        ids: tuple[int, int] = (0, 0),
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> int | None:
        """Run a program to its end; returns its exit status, None if its time was up or somebody stopped it.

        `env`: variables beside those that each command has. Without `stdin` that is /dev/null.
        """
        uid, gid = (str(one) if any(ids) else "" for one in ids)
        variables = (f"{name}={value}" for name, value in (env or {}).items())
        sinks = {OUTPUT: stdout, ERRORS: stderr}
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        killed, content = False, b""
        is_over = lambda: stopped() or time.monotonic() > deadline  # noqa: E731
        with contextlib.closing(
            self._call((uid, gid, workdir, *variables, "", *argv), stdin, is_over)
        ) as frames:
            for kind, content in frames:
                killed = killed or kind == KILL
                if kind in sinks and not killed:
                    sinks[kind](content)
        return None if killed else content[0]

    def program(self, arguments: Sequence[str | bytes], stdin: Iterable[bytes]) -> Iterator[bytes]:
        """Run our program there, feed it, and yield what it prints meanwhile: a `Place` to carry from or to."""
        said, content = HeadSink(500), b""
        with contextlib.closing(self._call(("", "", "/", "", PROGRAM, *arguments), stdin)) as frames:
            for kind, content in frames:
                if kind == OUTPUT:
                    yield content
                elif kind == ERRORS:
                    said(content)
        if content != b"\0":
            raise EnvironmentFailed(f"files cannot be carried: {said.text() or f'status {content[0]}'}")

    def _call(
        self,
        words: Sequence[str | bytes],
        stdin: Iterable[bytes],
        is_over: Callable[[], bool] | None = None,
    ) -> Generator[tuple[int, bytes]]:
        """Run a program; yield its frames up to EXIT, and KILL once it `is_over`; without that it has to answer."""
        kind, killed = 0, False
        late = math.inf if is_over else time.monotonic() + self._patience
        with self._begun(words, stdin) as call:
            try:
                while kind != EXIT:
                    if is_over and not killed and is_over():
                        killed, late = True, time.monotonic() + self._patience
                        call.kill()
                        yield KILL, b""
                    kind, content = self._next(call.frames, late)
                    if kind:
                        late = late if is_over else time.monotonic() + self._patience
                        yield kind, content
                if call.broken:
                    raise call.broken[0]
            finally:
                if kind != EXIT:
                    call.kill()

    @contextlib.contextmanager
    def _begun(self, words: Sequence[str | bytes], stdin: Iterable[bytes]) -> Iterator[Call]:
        """Start a program, and take its frames meanwhile."""
        request = b"".join(
            (word if isinstance(word, bytes) else word.encode("utf-8", "surrogateescape")) + b"\0"
            for word in words
        )
        if len(request) > _MOST_WORDS or len(words) > _MOST_COUNT:
            raise EnvironmentFailed("a command is too long")
        with self._lock:
            number = next(number for number in self._numbers if number not in self._calls)
            call = Call(self._frames, number)
            self._calls[number] = call.frames
        try:
            with (
                self._lock,
                contextlib.suppress(OSError),
            ):  # why it is gone is told where its answer is waited for
                *before, last = (request[at : at + MOST] for at in range(0, len(request), MOST))
                for part in before:
                    self._frames.write(WORDS, number, part)
                self._frames.write(UNFED if stdin == () else RUN, number, last)
            if stdin != ():
                threading.Thread(target=call.feed, args=(stdin,), name="bench-stdin", daemon=True).start()
            yield call
        finally:
            del self._calls[number]

    def _next(self, waiting: queue.Queue[tuple[int, bytes]], late: float) -> tuple[int, bytes]:
        """Return the next frame of a call; (0, b"") now and then, so that whoever waits can look around."""
        frame = self._next_within(waiting, _LOOK)
        if not frame[0] and time.monotonic() > late:
            self._stopping.set()
            raise EnvironmentFailed("our program in the sandbox does not answer")
        return frame

    def _next_within(self, waiting: queue.Queue[tuple[int, bytes]], seconds: float) -> tuple[int, bytes]:
        """Return the next frame of a call; (0, b"") if none came in time."""
        with contextlib.suppress(queue.Empty):
            return waiting.get(timeout=max(0.0, seconds))
        if self._ended.is_set() and waiting.empty():
            raise self._error or EnvironmentFailed("our program in the sandbox has ended")
        return 0, b""

    def _take(self, kind: int, number: int, content: bytes) -> None:
        while not self._stopping.is_set() and (waiting := self._calls.get(number)) is not None:
            with contextlib.suppress(queue.Full):
                waiting.put((kind, content), timeout=_LOOK)
                return
