"""Relays: how connections of a sandbox reach a unix socket of this machine where its engine cannot mount one.

An engine on another machine, or a kernel of the sandbox's own (gVisor, Kata), shares no sockets with us. There `relay`
of our program (`program/relay.c`) takes what the door hands over, and carries each connection over the streams of the
command that it is. Here a socket is handed over in the place of the door's: gateway and proxy see no difference.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import selectors
import socket
import struct
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..model.errors import EngineError, EnvironmentFailed, InfrastructureError, OutputLost
from ..system.temporary import temporary_directory
from .door import door_of, is_ours
from .protocol import Mount, Sandbox, Stopping
from .runner import CLOSE, INPUT, KILL, OUTPUT, RUN, TAKEN, Lasting, can_serve

if TYPE_CHECKING:
    from .proxy import Proxy

_WINDOW = 1 << 18
"""Bytes of a connection that may be on their way in each direction, as in relay.c."""
_PIECE = 1 << 16
_CONNECTIONS = 64
_COUNT = struct.Struct("<I")
_MOST_WAITING = 64 << 20
"""Bytes that a relay may say before they are taken: a good one is far from it."""
_EACH = 64
_LAST_WORDS = 5.0
_PROXY_DOOR = 20.0


@dataclasses.dataclass(slots=True)
class _Connection:
    """A connection of the sandbox's, carried to `socket`."""

    socket: socket.socket
    waiting: bytearray = dataclasses.field(default_factory=bytearray)
    """What came from the sandbox, and the socket has not taken."""
    sent: int = 0
    """Bytes that were sent to the sandbox and not taken there."""
    heard_end: bool = False
    """The sandbox's side writes no more."""
    told_end: bool = False
    """This side writes no more."""

    @property
    def events(self) -> int:
        """What to wait for."""
        reads = selectors.EVENT_READ if not self.told_end and self.sent < _WINDOW else 0
        return reads | (selectors.EVENT_WRITE if self.waiting else 0)


class Relay(Lasting):
    """Carries connections of a sandbox to the socket that `mount` would have shared with it.

    `trusted`: no agent has worked there, so the program is ours.
    """

    def __init__(self, sandbox: Sandbox, mount: Mount, *, trusted: bool) -> None:
        self._door, self._trusted = mount.source, trusted
        self._handed = False
        self._waiting = 0
        self._failed: InfrastructureError | None = None
        self._closing = threading.Lock()
        self._closed = False
        self._exit = contextlib.ExitStack()
        self._path = self._exit.enter_context(temporary_directory("relay", for_sockets=True)) / "calls"
        self._came: collections.deque[tuple[int, int, bytes]] = collections.deque()
        self._connections: dict[int, _Connection] = {}
        self._selector = self._exit.enter_context(selectors.DefaultSelector())
        self._woken, self._wake = map(self._exit.enter_context, socket.socketpair())
        self._wake.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        super().__init__(sandbox, "relay", mount.target)
        self._carrying = threading.Thread(target=self._carry, name="bench-carry", daemon=True)
        self._carrying.start()

    @property
    def broken(self) -> InfrastructureError | None:
        """Why it carries no more, if that is no doing of what runs in the sandbox."""
        error = self._error
        # A program that root there has put in the place of ours can end as ours does when the connection breaks.
        inside = isinstance(error, EnvironmentFailed if self._trusted else EnvironmentFailed | OutputLost)
        if self._failed is not None or self._closed or inside:
            return self._failed
        return error if isinstance(error, InfrastructureError) else None

    def stop(self) -> None:
        """Begin to end it, without waiting."""
        self._closed = True
        self._stopping.set()

    def close(self) -> None:
        """End it, and all connections. Never raises."""
        with self._closing:
            self.stop()
            super().close()
            self._nudge()
            self._carrying.join()
            for connection in self._connections.values():
                connection.socket.close()
            self._connections.clear()
            self._exit.close()

    def _take(self, kind: int, number: int, content: bytes) -> None:
        self._waiting += len(content) + _EACH
        if self._waiting > _MOST_WAITING:
            raise EnvironmentFailed("the relay in the sandbox says more than it may")
        self._came.append((kind, number, content))
        self._nudge()

    def _nudge(self) -> None:
        with contextlib.suppress(OSError):  # it is full: that wakes, too
            self._wake.send(b"\0")

    def _serve(self) -> None:
        super()._serve()
        self._nudge()

    def _carry(self) -> None:
        try:
            while not self.has_ended:
                for key, events in self._selector.select():
                    if key.data is None:
                        self._woken.recv(_PIECE)
                    else:
                        self._move(key.data, events)
                while self._came and not self.has_ended:
                    kind, number, content = self._came.popleft()
                    self._waiting -= len(content) + _EACH
                    self._obey(kind, number, content)
        except Exception as error:
            # Where the command has ended, it says why.
            if not self._ended.wait(_LAST_WORDS) and not self._closed:
                self._failed = EngineError(f"connections of the sandbox could not be carried on: {error}")
                self._stopping.set()

    def _obey(self, kind: int, number: int, content: bytes) -> None:
        """Do what the sandbox says. What runs there may have made it say anything."""
        if kind == RUN:
            if number:
                self._open(number)
            elif not self._handed:  # one is all that whoever listens takes
                self._handed = True
                self._hand_over(content)
            return
        if (of := self._connections.get(number)) is None:
            return
        if kind == OUTPUT:
            of.waiting += content
        elif kind == TAKEN and len(content) == _COUNT.size:
            of.sent = max(0, of.sent - _COUNT.unpack(content)[0])
        elif kind == CLOSE:
            of.heard_end = True
        if kind == KILL or len(of.waiting) > _WINDOW:
            self._forget(number)
        else:
            self._go_on(number, of)

    def _hand_over(self, pid: bytes) -> None:
        """Give a listening socket away, as the door did there."""
        self._path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as door:
            listener.bind(str(self._path))
            listener.listen(_CONNECTIONS)
            with contextlib.suppress(OSError):  # nobody takes it
                door.settimeout(1)
                door.connect(str(self._door))
                socket.send_fds(door, [pid], [listener.fileno()])

    def _open(self, number: int) -> None:
        made = socket.socket(socket.AF_UNIX)
        try:
            made.setblocking(False)
            if number in self._connections or len(self._connections) >= _CONNECTIONS:
                raise ConnectionError("it has more than it can have")
            made.connect(str(self._path))
        except OSError:
            made.close()
            self._frames.write(KILL, number)
            return
        self._connections[number] = _Connection(made)
        self._selector.register(made, selectors.EVENT_READ, number)

    def _move(self, number: int, events: int) -> None:
        """Take what a socket has, and give it what it takes."""
        if (of := self._connections.get(number)) is None:
            return
        try:
            with contextlib.suppress(BlockingIOError):
                if events & selectors.EVENT_WRITE and of.waiting:
                    count = of.socket.send(of.waiting)
                    del of.waiting[:count]
                    self._frames.write(TAKEN, number, _COUNT.pack(count))
                if events & selectors.EVENT_READ:
                    self._hear(number, of)
        except ConnectionError:
            self._frames.write(KILL, number)
            self._forget(number)
            return
        self._go_on(number, of)

    def _hear(self, number: int, of: _Connection) -> None:
        if piece := of.socket.recv(min(_PIECE, _WINDOW - of.sent)):
            of.sent += len(piece)
            self._frames.write(INPUT, number, piece)
        else:
            of.told_end = True
            self._frames.write(CLOSE, number)

    def _go_on(self, number: int, of: _Connection) -> None:
        """Wait for what comes next, if anything does."""
        if of.heard_end and not of.waiting:
            with contextlib.suppress(OSError):
                of.socket.shutdown(socket.SHUT_WR)
            if of.told_end:
                self._forget(number)
                return
        registered = of.socket in self._selector.get_map()
        if not of.events:
            if registered:
                self._selector.unregister(of.socket)
        elif registered:
            self._selector.modify(of.socket, of.events, number)
        else:
            self._selector.register(of.socket, of.events, number)

    def _forget(self, number: int) -> None:
        of = self._connections.pop(number)
        with contextlib.suppress(KeyError):
            self._selector.unregister(of.socket)
        of.socket.close()


class Relays:
    """What carries the connections of a sandbox: relays of sockets that its engine cannot mount, and its proxy."""

    def __init__(self, sandbox: Sandbox, mounts: Iterable[Mount], proxy: Proxy | None) -> None:
        self._sandbox = sandbox
        self._proxy = proxy
        self._mounts = {mount.target: mount for mount in mounts}
        self._open: dict[str, Relay] = {}
        self.agent_worked = False
        """True once something has run behind a door: an agent may call its own what ours are called."""

    def before(self, argv: Sequence[str], stopping: Stopping | None) -> Stopping | None:
        """Have what carries the connections of a command, if anything has to; it ends when that is broken."""
        worked = self.agent_worked
        if (door := door_of(argv)) is not None:
            self.agent_worked = worked or not is_ours(argv)
            # What an agent has left may keep it from beginning: the door says so, which is for the trial to judge.
            with contextlib.suppress(EnvironmentFailed):
                self._begin(door, trusted=not worked)
            if stopping is not None:
                asked = stopping.requested
                requested = lambda: asked() or self._broken is not None  # noqa: E731
                stopping = dataclasses.replace(stopping, requested=requested)
        elif self._proxy is not None and not is_ours(argv) and self._lacks(self._proxy.mount.target):
            # As above; a command without its proxy reaches nothing.
            with contextlib.suppress(*((EngineError, EnvironmentFailed) if worked else ())):
                can_serve(self._sandbox)
                self.join_proxy()
        return stopping

    def after(self, argv: Sequence[str]) -> None:
        """Raise why the connections of a command were cut, if that is no doing of what runs in the sandbox."""
        if door_of(argv) is not None and (broken := self._broken) is not None:
            raise broken

    def join_proxy(self) -> None:
        """Have the proxy, if there is one, serve the sandbox, also once more. Raises EngineError: it does not."""
        if self._proxy is not None:
            from .proxy import DOOR

            self._proxy.join(
                lambda: self._sandbox.exec(DOOR, timeout=_PROXY_DOOR, sink=lambda _: None, user="root")
            )

    def _lacks(self, target: str) -> bool:
        """Return True if the sandbox has to have a relay for this path, and has none."""
        return target in self._mounts and (target not in self._open or self._open[target].has_ended)

    def _begin(self, target: str, *, trusted: bool) -> None:
        """Have a relay for this path, if the sandbox needs one; for an `InfrastructureError` there is none."""
        if self._lacks(target):
            self._end(target)
            relay = self._open[target] = Relay(self._sandbox, self._mounts[target], trusted=trusted)
            relay.await_hello()

    @property
    def commands(self) -> frozenset[str]:
        """Command lines of those that there are, as a sandbox lists them."""
        return frozenset(" ".join(relay.command) for relay in tuple(self._open.values()))

    @property
    def _broken(self) -> InfrastructureError | None:
        """Why one carries no more, if that is no doing of what runs in the sandbox."""
        return next((why for one in tuple(self._open.values()) if (why := one.broken)), None)

    def close(self) -> None:
        """End all. Never raises."""
        for relay in tuple(self._open.values()):
            relay.stop()
        for target in tuple(self._open):
            self._end(target)

    def _end(self, target: str) -> None:
        if (relay := self._open.pop(target, None)) is not None:
            relay.close()
