"""A bad line to an engine elsewhere: slow, with losses, and cut now and then. Kernels without `netem` cannot make one."""

from __future__ import annotations

import asyncio
import contextlib
import random
import select
import socket
import ssl
import threading
from pathlib import Path

from .chaos.proxy import Way
from .elsewhere import Elsewhere

_DELAY, _LOSS, _SEGMENT, _RESENT = 0.1, 0.01, 1448, 0.3
"""Seconds each way, the share of segments that are lost, their size, and the seconds until one is sent again."""
_PIECES = 64
_CUT = {"ssh": 45.0, "tls": 5.0}
"""Seconds after which a connection is cut, on average. By ssh there is one, which carries all."""


class Link:
    """Carries connections from `here` to `there`; each `cut` seconds, on average, one that there is ends."""

    def __init__(self, here: str, there: tuple[str, int], seed: int, cut: float) -> None:
        self._there, self._cut, self._draw = there, cut, random.Random(seed)
        self._open: list[asyncio.WriteTransport] = []
        self._running: asyncio.Task[None] | None = None
        self.carried = self.lost = self.cuts = 0
        """Segments, those of them that were lost, and connections that were cut."""
        self._loop = asyncio.new_event_loop()
        self._listening = socket.create_server((here, 0))
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=(self._run(),), daemon=True
        )
        self._thread.start()

    def cut(self) -> None:
        """Cut all connections that there are now."""
        self._loop.call_soon_threadsafe(lambda: [one.abort() for one in self._open])

    def close(self) -> None:
        """End it, and all connections."""
        self._loop.call_soon_threadsafe(lambda: self._running and self._running.cancel())
        self._thread.join()
        self._loop.close()

    async def _run(self) -> None:
        self._running = asyncio.current_task()
        async with await asyncio.start_server(self._serve, sock=self._listening):
            with contextlib.suppress(asyncio.CancelledError):
                while True:
                    await asyncio.sleep(self._draw.expovariate(1 / self._cut))
                    if self._open:
                        self.cuts += 1
                        self._draw.choice(self._open).abort()
            for one in [*self._open]:
                one.abort()
            self._running = None
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(2 * _DELAY)  # SYN and its answer
        with contextlib.suppress(OSError):
            other_reader, other_writer = await asyncio.open_connection(*self._there)
            self._open.append(writer.transport)
            ways = [
                asyncio.ensure_future(self._carry(*way))
                for way in ((reader, other_writer), (other_reader, writer))
            ]
            try:
                await asyncio.gather(*ways)
            finally:
                for way in ways:
                    way.cancel()
                self._open.remove(writer.transport)
                other_writer.transport.abort()
        writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry what comes, late, and in order: what is behind a lost segment waits for it."""
        on_its_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_PIECES)

        async def arrive() -> None:
            while True:
                due, piece = await on_its_way.get()
                await asyncio.sleep(due - self._loop.time())
                if not piece:
                    writer.write_eof()
                    return
                writer.write(piece)
                await writer.drain()

        arriving = asyncio.ensure_future(arrive())
        try:
            due, piece = 0.0, b"x"
            while piece:
                piece = await reader.read(1 << 16)
                segments = -(-len(piece) // _SEGMENT)
                lost = sum(self._draw.random() < _LOSS for _ in range(segments))
                self.carried, self.lost = self.carried + segments, self.lost + lost
                due = max(due, self._loop.time() + _DELAY) + lost * _RESENT
                await on_its_way.put((due, piece))
            await arriving
        finally:
            arriving.cancel()


class _Decrypting:
    """Takes encrypted connections as the engine does, and carries them to the socket at `path`."""

    def __init__(self, certificates: Path, path: Path) -> None:
        self._path = path
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates / "ca.pem")
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._context.load_cert_chain(certificates / "server-cert.pem", certificates / "server-key.pem")
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listening.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._carry, args=(connection,), daemon=True).start()

    def _carry(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, socket.socket(socket.AF_UNIX) as plain:
            connection.settimeout(60)
            with self._context.wrap_socket(connection, server_side=True) as encrypted:
                encrypted.settimeout(None)
                plain.connect(str(self._path))
                open_: list[socket.socket] = [encrypted, plain]
                while plain in open_:
                    for side in select.select(open_, [], [])[0]:
                        encrypted.setblocking(side is plain)  # what comes need not be a whole record
                        try:
                            data = side.recv(1 << 16)
                        except ssl.SSLWantReadError:
                            continue
                        encrypted.setblocking(True)
                        if data:
                            (plain if side is encrypted else encrypted).sendall(data)
                            continue
                        open_.remove(side)
                        if side is encrypted:
                            plain.shutdown(socket.SHUT_WR)
                encrypted.settimeout(5)
                encrypted.unwrap()


class BadLine(Way):
    """The way to an engine elsewhere, by `ssh` or else over TLS."""

    def __init__(self, elsewhere: Elsewhere, by: str, seed: int) -> None:
        self._elsewhere, self._by, self._seed = elsewhere, by, seed
        self.place: Path = elsewhere.place
        self.engine = str(elsewhere.place / "engine.sock")
        self.links: list[Link] = []
        self._exit = contextlib.ExitStack()

    def environment(self, path: Path) -> dict[str, str]:
        there = (self._elsewhere.address, 2222)
        if self._by != "ssh":
            there = self._exit.enter_context(contextlib.closing(_Decrypting(self.place, path))).address
        link = Link(self._elsewhere.here, there, self._seed + len(self.links), _CUT[self._by])
        self.links.append(self._exit.enter_context(contextlib.closing(link)))
        return {
            **self._elsewhere.environment(self._by, at=(self._elsewhere.here, link.port)),
            "ELSEWHERE": str(path),
        }

    def close(self) -> None:
        """End it, and say what it did."""
        self._exit.close()
        carried, lost, cuts = (
            sum(getattr(link, name) for link in self.links) for name in ("carried", "lost", "cuts")
        )
        print(
            f"{self._by}, seed {self._seed}: of {carried} segments {lost} were lost, {cuts} connections cut"
        )
