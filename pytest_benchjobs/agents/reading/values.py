"""Reading the output of other programs, in which any key may be missing and any value may have any type."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from ...store.text import clean, plain

_MOST = 1 << 53
_DEPTH = 20
_ITEMS = 1000

Count = Annotated[int, Field(ge=0, le=_MOST)]
Money = Annotated[float, Field(ge=0)]


def at(value: Any, *path: str) -> Any:
    """Value under these nested keys; None if it is missing."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def text_at(value: Any, *path: str) -> str:
    """The text there; empty if there is none."""
    found = at(value, *path)
    return found if isinstance(found, str) else ""


def items_at(value: Any, *path: str) -> Iterator[Mapping[str, Any]]:
    """The objects in the list there."""
    found = at(value, *path)
    yield from (item for item in found if isinstance(item, Mapping)) if isinstance(found, list) else ()


def count_at(value: Any, *path: str) -> int | None:
    """The count there; None if it is not a count."""
    found = at(value, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= _MOST else None


def error_at(value: Any) -> str:
    """The message of the error that an endpoint answers; empty if there is none."""
    return text_at(value, "error", "message") or text_at(value, "message") or text_at(value, "error")


def parsed(written: Any) -> Any:
    """What may be JSON in a text, such as arguments; else as it is."""
    if not isinstance(written, str):
        return written
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return written


def money_at(value: Any, *path: str) -> float | None:
    """The amount there; None when it is none."""
    found = at(value, *path)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return float(found) if 0 <= found <= _MOST and math.isfinite(found) else None


def added(*counts: int | None) -> int | None:
    """The sum of known counts; None when there are none, or when the sum is implausible."""
    known = [count for count in counts if count is not None]
    return sum(known) if known and sum(known) <= _MOST else None


_SPOKEN = ("text", "output_text")


def text_of(content: Any) -> str:
    """The text of a message's content: a text, a part with one, or a list of parts. What has no text is named."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        if isinstance(content.get("text"), str):
            return str(content["text"])
        kind = content.get("type")
        return f"[{kind[:50]}]" if isinstance(kind, str) else ""
    if isinstance(content, list):
        return "\n".join(filter(None, (text_of(part) for part in content if not isinstance(part, list))))
    return ""


def spoken(content: Any) -> str:
    """The text of a model's reply without its reasoning: without other parts, and without what `<think>` begins.

    What has no end is all reasoning. Some servers leave the beginning out.
    """
    if isinstance(content, list):
        parts = [
            part for part in content if not isinstance(part, Mapping) or part.get("type", "text") in _SPOKEN
        ]
        content = "\n".join(filter(None, map(text_of, parts)))
    text = text_of(content)
    _, end, after = text.rpartition("</think>")
    if end:
        return after.lstrip()
    return "" if text.lstrip().startswith("<think>") else text


def bounded(value: Any, limit: int) -> Any:
    """A copy, plain and bounded: what is deep or long is cut; what is over twice `limit` characters becomes a text."""
    copy = plain(_shallow(value, _DEPTH), limit)
    written = json.dumps(copy, ensure_ascii=False)
    return copy if len(written) <= 2 * limit else clean(written, limit)


def _shallow(value: Any, depth: int) -> Any:
    if isinstance(value, dict):
        if not depth:
            return "[...]"
        return {key: _shallow(item, depth - 1) for key, item in list(value.items())[:_ITEMS]}
    if isinstance(value, list):
        return [_shallow(item, depth - 1) for item in value[:_ITEMS]] if depth else "[...]"
    if isinstance(value, int) and abs(value) > _MOST:
        return str(value) if value.bit_length() < 1000 else "[...]"
    return value
