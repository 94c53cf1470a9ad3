"""Requests from bodies, which are decompressed and parsed without holding up other trials.

The gateway has one thread for all trials. What is large is parsed in a process of its own: it takes up to seconds and
hundreds of megabytes, which the process gives back.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import sys
import zlib

from ..store.text import one_line
from .allowed import Allowed
from .outgoing import Outgoing
from .provider_tools import ProviderTools
from .wires import Call, TooLarge, Unsendable

LARGEST_REQUEST = 32 << 20
"""Bytes, as they come and decompressed."""
_SMALL, _FEW = 1 << 20, 50_000
"""Bytes and values that are parsed within some milliseconds."""
_LONGEST = 60.0
"""Seconds for a large body."""
_AT_ONCE = 2
_ZLIB = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_Given = tuple[Call, bytes, str, Allowed, ProviderTools]


class Bodies:
    """Turns bodies into requests, for all trials of a job."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def outgoing(
        self, call: Call, body: bytes, encoding: str, allowed: Allowed, tools: ProviderTools
    ) -> Outgoing:
        """Return the request of a body, which is compressed as `encoding` says.

        Raises Unsendable: it cannot be passed on; TooLarge: it has more than 32 MiB.
        """
        with contextlib.suppress(TooLarge):
            plain = unpacked(body, encoding, _SMALL)
            if sum(plain.count(mark) for mark in (b",", b"[", b"{")) <= _FEW:
                return Outgoing(call, plain, allowed, tools)
        async with self._places:
            return await _aside((call, body, encoding, allowed, tools))


async def _aside(given: _Given) -> Outgoing:
    """Have it done by `main` in another process."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", __name__), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(_LONGEST):
            said, _ = await process.communicate(pickle.dumps(given))
    except TimeoutError:
        raise Unsendable(f"the body takes more than {_LONGEST:g} s to read") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    found: Outgoing | Unsendable = pickle.loads(said)  # noqa: S301  written by `main`
    if isinstance(found, Unsendable):
        raise found
    return found


def unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """Return a body as it was before it was compressed.

    Raises Unsendable: it is not compressed as it says, or in a way that is not known; TooLarge: it has more than `most`
    bytes.
    """
    if encoding in ("", "identity"):
        if len(body) > most:
            raise TooLarge
        return body
    bits = _ZLIB.get(encoding)
    if bits is None:
        raise Unsendable(
            f"the body is compressed as {one_line(encoding, 20)!r}; send it as it is, or as gzip"
        )
    if encoding == "deflate" and body[:1] and body[0] & 15 != zlib.DEFLATED:
        bits = -zlib.MAX_WBITS  # some clients leave its header out
    plain, rest = bytearray(), body
    try:
        while rest:
            member = zlib.decompressobj(bits)
            plain += member.decompress(rest, most + 1 - len(plain))
            if len(plain) > most:
                raise TooLarge
            if not member.eof:
                raise Unsendable(f"the body ends before its {encoding} does")
            rest = member.unused_data
    except zlib.error:
        raise Unsendable(f"the body is not {encoding}") from None
    return bytes(plain)


def main() -> None:
    """Read what `_aside` sends, and answer with the request or the error."""
    call, body, encoding, allowed, tools = pickle.load(sys.stdin.buffer)  # noqa: S301  from the gateway
    found: Outgoing | Unsendable
    try:
        found = Outgoing(call, unpacked(body, encoding, LARGEST_REQUEST), allowed, tools)
        found.refers_elsewhere()  # which parses it once more, and is known then
    except Unsendable as problem:
        found = problem
    sys.stdout.buffer.write(pickle.dumps(found))


if __name__ == "__main__":
    main()
