"""A command in a container with this process's own standard streams, on a terminal or without one."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import ssl
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType

import docker.errors

from ...model.errors import EngineLost, InputError
from ..command_timeout import Demultiplexer
from ..protocol import Sandbox, SandboxSpec
from ..shell import by_shell
from .engine import ROOT_USER, Engine

_CHUNK = 64 * 1024
_STDIN, _STDOUT, _STDERR = 0, 1, 2
# The default, Ctrl-P Ctrl-Q, holds every Ctrl-P back, which shells use. Nobody needs to detach from here.
_NEVER_DETACH = "ctrl-],ctrl-],ctrl-],ctrl-q"
_HANGING_UP = (signal.SIGTERM, signal.SIGHUP)
_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_RESIZE_TRIES, _RESIZE_PAUSE = 20, 0.02


def visit(
    engine: Engine,
    start: Callable[[SandboxSpec], Sandbox],
    spec: SandboxSpec,
    command: Sequence[str],
    *,
    user: str | None,
    env: Mapping[str, str],
    welcome: str,
) -> int:
    """Run a command, or a shell, in a new container of its own, as `interact` does."""
    on_terminal = is_interactive()
    if engine.encrypted and not on_terminal and not command:
        raise InputError(
            "commands on standard input cannot be passed to an engine behind TLS; give one after --"
        )
    if on_terminal and not command:
        _write(_STDERR, f"{welcome}\n".encode())
    terminal = {"TERM": os.environ["TERM"]} if on_terminal and os.environ.get("TERM") else {}
    with ended_by_signals():
        sandbox = start(spec)
        try:
            argv = command or ("/bin/sh", "-c", by_shell())
            return interact(engine, sandbox.id, argv, user=user, env={**terminal, **env})
        except BrokenPipeError:
            # The reader closed the pipe. The status is that of a program killed by SIGPIPE.
            return 141
        finally:
            sandbox.remove()


def is_interactive() -> bool:
    """Return True if standard input and output are both a terminal."""
    return _is_open(_STDIN) and os.isatty(_STDIN) and os.isatty(_STDOUT)


def interact(
    engine: Engine,
    container: str,
    argv: Sequence[str],
    *,
    user: str | None = None,
    env: Mapping[str, str] | None = None,
) -> int:
    """Run a command on our standard streams; returns its exit status. Best called inside `ended_by_signals`.

    If ours are a terminal, the command has one of its own, which follows the size of ours; and ours is as it was
    afterwards, whatever happens. Otherwise its three streams are ours.

    Raises:
        InfrastructureError: of the class that fits.
    """
    on_terminal = is_interactive()
    # Half of a connection with TLS cannot be closed, and the command would wait forever for the end of its input.
    attached = on_terminal or (_is_open(_STDIN) and not engine.encrypted)
    with engine.guard():
        exec_id = engine.client.exec_create(
            container,
            list(argv),
            stdin=attached,
            tty=on_terminal,
            environment=dict(env or {}),
            user=ROOT_USER if user == "root" else user or "",
            detach_keys=_NEVER_DETACH,
        )["Id"]
        connection, first = engine.hijack(f"/exec/{exec_id}/start", {"Detach": False, "Tty": on_terminal})
    with connection:
        if on_terminal:
            with _raw(_STDIN), _same_size(engine, exec_id) as size:
                _write(_STDOUT, first)
                _pump(connection, lambda data: _write(_STDOUT, data), attached=True, size=size)
        else:
            output = Demultiplexer(
                lambda _: None, lambda data: _write(_STDOUT, data), lambda data: _write(_STDERR, data)
            )
            output.feed(first)
            _pump(connection, output.feed, attached=attached)
    with engine.guard():
        status = engine.client.exec_inspect(exec_id)["ExitCode"]
    if not isinstance(status, int):
        raise EngineLost("the container was removed, or the Docker Engine went away, while the command ran")
    return status


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP (the terminal is gone) raise SystemExit meanwhile, so that callers clean up."""

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  that is how handlers are called
        sys.exit(128 + number)

    with _handled(end, *_HANGING_UP):
        yield


@contextlib.contextmanager
def _handled(handler: Callable[[int, FrameType | None], None], *numbers: int) -> Iterator[None]:
    """Have signals handled by this meanwhile."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


@contextlib.contextmanager
def _same_size(engine: Engine, exec_id: str) -> Iterator[tuple[int, Callable[[], bool]]]:
    """Make the terminal of a command as large as ours; yields what is read after a change, and what follows that."""
    changes, changed = os.pipe()
    os.set_blocking(changed, False)

    def note(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        with contextlib.suppress(BlockingIOError):
            os.write(changed, b"!")

    def follow() -> bool:
        """False: the command has not begun, or has ended."""
        columns, lines = os.get_terminal_size(_STDOUT)
        try:
            engine.client.exec_resize(exec_id, height=lines, width=columns)
        except docker.errors.APIError:
            return False
        return True

    try:
        with _handled(note, signal.SIGWINCH):
            # The answer that the command starts comes before it has.
            for _ in range(_RESIZE_TRIES):
                if follow():
                    break
                time.sleep(_RESIZE_PAUSE)
            yield changes, follow
    finally:
        os.close(changes)
        os.close(changed)


def _pump(
    connection: socket.socket,
    output: Callable[[bytes], None],
    *,
    attached: bool,
    size: tuple[int, Callable[[], bool]] | None = None,
) -> None:
    """Carry bytes both ways until the other side ends. Never waits for one way while the other could go on."""
    connection.setblocking(False)
    typed = b""
    while True:
        watched: list[int | socket.socket] = [connection]
        if attached and not typed:
            watched.append(_STDIN)
        if size is not None:
            watched.append(size[0])
        ready, writable, _ = select.select(watched, [connection] if typed else [], [])
        if size is not None and size[0] in ready:
            os.read(size[0], _CHUNK)
            size[1]()
        if connection in ready and not _receive(connection, output):
            return
        if _STDIN in ready:
            typed = os.read(_STDIN, _CHUNK)
            if not typed:
                attached = False
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
        if writable:
            try:
                typed = typed[connection.send(typed) :]
            except _LATER:
                continue
            except OSError:
                # It takes no more input; what it has to say still comes.
                typed, attached = b"", False


def _receive(connection: socket.socket, output: Callable[[bytes], None]) -> bool:
    """Hand on all that is there. False at the end."""
    while True:
        try:
            data = connection.recv(_CHUNK)
        except _LATER:
            return True
        except ConnectionError:
            return False
        if not data:
            return False
        output(data)


@contextlib.contextmanager
def _raw(terminal: int) -> Iterator[None]:
    """Every key goes to the command, Ctrl-C too."""
    before = termios.tcgetattr(terminal)
    try:
        tty.setraw(terminal)
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
