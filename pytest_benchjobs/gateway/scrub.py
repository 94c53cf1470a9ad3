"""Keeping the real key of an endpoint from an agent, although the endpoint quotes it.

In errors and headers it is found in every form. What a model says is an agent's work, so nothing is replaced in it but
a whole key as it is, if that is long and random: no model says that by chance.
"""

from __future__ import annotations

import functools

from ..system.redact import Redactor, is_placeholder, is_wordy

_LONG = 20
"""Fewest characters of a key that is replaced in what a model says."""


class Scrubber:
    """Replaces a key by as many asterisks."""

    def __init__(self, key: str | None) -> None:
        key = "" if key is None or is_placeholder(key) else key
        self._redactor = Redactor({"key": key}, patterns=(), escapes=True) if key else None
        self._whole = b"" if len(key) < _LONG or is_wordy(key) else key.encode()

    def is_in(self, text: str) -> bool:
        """Return True if a text has the key in any form."""
        return self.error(data := text.encode("utf-8", "replace")) != data

    def error(self, body: bytes) -> bytes:
        """Copy what an endpoint says itself, without the key in any form."""
        if self._redactor is None:
            return body
        clean = bytearray(body)
        for begin, end in self._redactor.places(body):
            clean[begin:end] = b"*" * (end - begin)
        return bytes(clean)

    def said(self, body: bytes) -> bytes:
        """Copy what a model says, without the whole key."""
        return body.replace(self._whole, b"*" * len(self._whole)) if self._whole else body

    def split(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what is certain of what a model says, and its end, if that may be the beginning of the key."""
        data = self.said(data)
        sizes = range(min(len(self._whole) - 1, len(data)), 0, -1)
        begun = next((size for size in sizes if data.endswith(self._whole[:size])), 0)
        return data[: len(data) - begun], data[len(data) - begun :]


@functools.lru_cache(maxsize=64)
def scrubber(key: str | None) -> Scrubber:
    """Return what keeps a key from agents."""
    return Scrubber(key)
