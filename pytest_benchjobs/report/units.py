"""Numbers and names as text for people."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from ..system.units import counted as counted


def some(names: Iterable[str], most: int = 5) -> str:
    """The first names, and the number of the others: `a, b and 3 more`."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def joined(*parts: object) -> str:
    """Those parts that there are: `a, b`."""
    return ", ".join(str(part) for part in parts if part)


def cost(usd: float | None, *, more: bool = False) -> str:
    """`$1.20`, `$0.0031`; `-` if unknown; `$1.20+` with `more`, if a part is unknown."""
    if usd is None:
        return "-"
    return f"${usd:,.{4 if 0 < round(usd, 4) < 0.1 else 2}f}{'+' if more else ''}"


def tokens(received: int | None, sent: int | None) -> str:
    """Input and output tokens together: `950`, `12k`, `3.4M`; `-` if both are unknown."""
    if received is None and sent is None:
        return "-"
    count = float((received or 0) + (sent or 0))
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{letter}"
    return f"{count:.0f}"


def ago(then: datetime.datetime, now: datetime.datetime) -> str:
    """`just now`, `5m ago`, `3h ago`, `2d ago`, `Mar 4`, `Mar 4 2024`; local dates."""
    seconds = (now - then).total_seconds()
    if seconds < 60:
        return "just now"
    for size, letter, most in ((60, "m", 60), (3600, "h", 24), (86_400, "d", 7)):
        if seconds < size * most:
            return f"{int(seconds // size)}{letter} ago"
    local, today = then.astimezone(), now.astimezone()
    return f"{local:%b} {local.day}" + ("" if local.year == today.year else f" {local.year}")


def duration(seconds: float | None) -> str:
    """`0.4s`, `12s`, `4m12s`, `2h05m`; `-` if unknown."""
    if seconds is None:
        return "-"
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest}s"
    hours, minutes_left = divmod(minutes, 60)
    return f"{hours}h{minutes_left:02}m" if hours else f"{minutes}m{rest:02}s"


def number(value: float | None) -> str:
    """The score of a trial, with one to four digits after the point: `1.0`, `0.25`, `0.3333`; `-` if there is none."""
    if value is None:
        return "-"
    text = f"{value:.4f}".rstrip("0")
    return f"{text}0" if text.endswith(".") else text


def mean_text(score: float | None) -> str:
    """A mean score, with three digits after the point: `0.667`; `-` if there is none."""
    return "-" if score is None else f"{score:.3f}"


def percent(part: float | None, whole: float = 1.0) -> str:
    """A share of a count: `66.7%`; `-` for none, or of 0. Only the whole is `100.0%`, only nothing `0.0%`."""
    if part is None or not whole:
        return "-"
    share = 100 * part / whole
    if 0 < share < 100:
        share = min(max(share, 0.1), 99.9)
    return f"{share:.1f}%"


def figure(value: float) -> str:
    """Format a value without bounds: `2.5`, `1e-06`, `123457`."""
    return f"{value:.6g}"
