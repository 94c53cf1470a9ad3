"""Reading the cache in which glibc's dynamic loader looks for libraries (`/etc/ld.so.cache`)."""

from __future__ import annotations

import posixpath
import struct

_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = 48
_ENTRY = struct.Struct("<iIIIQ")
_CORE = ("libc.so", "ld-linux", "ld64", "libpthread.so", "libdl.so", "libm.so")


def libraries(cache: bytes) -> dict[str, set[str]]:
    """Name of each library in the cache -> the files it may be.

    Raises:
        ValueError: it is no such cache, or one that is cut.
    """
    if not cache.startswith(_MAGIC) or len(cache) < _HEADER:
        raise ValueError("not a cache of the dynamic loader")
    (count,) = struct.unpack_from("<I", cache, len(_MAGIC))
    if _HEADER + count * _ENTRY.size > len(cache):
        raise ValueError("the cache is cut")
    found: dict[str, set[str]] = {}
    for number in range(count):
        _, key, value, _, _ = _ENTRY.unpack_from(cache, _HEADER + number * _ENTRY.size)
        found.setdefault(_text(cache, key), set()).add(_text(cache, value))
    return found


def leads_elsewhere(cache: bytes, original: bytes | None, *, core_only: bool = False) -> bool:
    """Tell whether a library that the original cache has, or one that every program loads, is found in another place.

    `core_only`: only the latter count, for software of the image may have been replaced.
    """
    try:
        now = libraries(cache)
        before = {} if original is None else libraries(original)
    except ValueError:
        return True
    if any(
        files - before[name]
        for name, files in now.items()
        if name in before and (not core_only or name.startswith(_CORE))
    ):
        return True
    return any(
        not posixpath.dirname(file).startswith(("/lib", "/usr/lib"))
        for name, files in now.items()
        if name.startswith(_CORE)
        for file in files
    )


def _text(cache: bytes, start: int) -> str:
    end = cache.find(b"\0", start)
    if not 0 <= start < end:
        raise ValueError("the cache is cut")
    return cache[start:end].decode("utf-8", "replace")
