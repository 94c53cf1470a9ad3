"""A log file of limited size, however much is printed."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO, Self

from ..system.redact import Redactor
from .files import write_error, writing

LIMIT = 8 << 20
_CHUNK = 64 << 10
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def log_end(path: Path, limit: int) -> bytes:
    """Return the last `limit` bytes of a log; none if it is gone, or no regular file."""
    try:
        descriptor = os.open(path, _READ)
        try:
            about = os.fstat(descriptor)
            return (
                os.pread(descriptor, limit, max(0, about.st_size - limit))
                if stat.S_ISREG(about.st_mode)
                else b""
            )
        finally:
            os.close(descriptor)
    except OSError:
        return b""


class CappedLog:
    """Log that keeps the first and the last half of `limit` bytes; a line between them says how much was left out.

    The last half is a ring buffer in the file itself, so memory is constant; `close` puts it in order. With a
    `redactor`, secrets are replaced before anything reaches the disk. For one thread at a time.

    Raises DiskFull, ResultsUnwritable: from every method that writes.
    """

    def __init__(self, path: Path, limit: int = LIMIT, redactor: Redactor | None = None) -> None:
        self.path = path
        self.received = 0
        """Bytes of output, before redaction."""
        self._head = limit - limit // 2
        self._ring = limit // 2
        self._size = 0
        self._closed = False
        self._stream = None if redactor is None else redactor.stream(self._store)
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)

    @property
    def left_out(self) -> int:
        """Bytes that are not in the file."""
        return max(0, self._size - self._head - self._ring)

    def write(self, data: bytes) -> None:
        """Add output. After `close` it is ignored."""
        if self._closed:
            return
        self.received += len(data)
        if self._stream is None:
            self._store(data)
        else:
            self._stream.write(data)

    def tail(self, limit: int) -> str:
        """Return the end of a closed log, at most `limit` bytes."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - limit))
                return file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def close(self) -> None:
        """Put the ring buffer in order. Calling it again does nothing."""
        if self._closed:
            return
        try:
            if self._stream is not None:
                self._stream.close()
            if self.left_out:
                with writing(self.path):
                    self._put_in_order()
        finally:
            self._closed = True
            os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _store(self, data: bytes) -> None:
        view = memoryview(data)
        # Only the last bytes of a huge piece, as many as the ring has, can survive.
        start = self._size
        skipped = max(0, len(view) - max(0, self._head - start) - self._ring)
        if skipped:
            room = max(0, self._head - start)
            self._pwrite(view[:room], start)
            self._size += room + skipped
            view = view[room + skipped :]
        while view:
            offset, room = self._place(self._size)
            piece = view[:room]
            if not piece:
                self._size += len(view)
                return
            self._pwrite(piece, offset)
            self._size += len(piece)
            view = view[len(piece) :]

    def _place(self, position: int) -> tuple[int, int]:
        """Map a position of the output to one of the file, with the number of bytes that follow in one piece."""
        if position < self._head:
            return position, self._head - position
        if not self._ring:
            return self._head, 0
        turn = (position - self._head) % self._ring
        return self._head + turn, self._ring - turn

    def _pwrite(self, view: memoryview, offset: int) -> None:
        try:
            while view:
                written = os.pwrite(self._descriptor, view, offset)
                offset += written
                view = view[written:]
        except OSError as error:
            raise write_error(self.path, error) from error

    def _read(self, position: int, length: int) -> bytes:
        pieces = []
        while length > 0:
            offset, room = self._place(position)
            piece = os.pread(self._descriptor, min(room, length), offset)
            if not piece:
                break
            pieces.append(piece)
            position += len(piece)
            length -= len(piece)
        return b"".join(pieces)

    def _put_in_order(self) -> None:
        ordered = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        try:
            with ordered.open("xb") as file:
                self._copy(file, 0, self._head)
                file.write(b"\n[... %d bytes left out ...]\n" % self.left_out)
                self._copy(file, self._size - self._ring, self._ring)
            ordered.replace(self.path)
        except BaseException:
            ordered.unlink(missing_ok=True)
            raise

    def _copy(self, file: BinaryIO, position: int, length: int) -> None:
        end = position + length
        while position < end and (piece := self._read(position, min(_CHUNK, end - position))):
            file.write(piece)
            position += len(piece)
