"""Data of a report as they are in its file: compressed JSON, as text."""

from __future__ import annotations

import gzip
import json

_BASE64 = 4 / 3
_ELEMENT = 100
"""Bytes of the element around a part."""


def packed(data: object) -> bytes:
    """Return data as JSON, compressed by gzip. The same data give the same bytes."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(text.encode("utf-8", "replace"), 9, mtime=0)


def encoded(data: bytes) -> int:
    """Return the number of bytes that a packed part takes in a file."""
    return int(len(data) * _BASE64) + _ELEMENT
