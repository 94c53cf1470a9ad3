"""Numbers as people read them."""

from __future__ import annotations

import datetime


def size(count: float) -> str:
    """Bytes: `512 B`, `1.5 KB`, `20 MB`, `3.4 GB`; in powers of 1024."""
    value, unit = float(count), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if value < 1023.5:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}" if unit != "B" and value < 9.95 else f"{value:.0f} {unit}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 job`, `2 jobs`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def cost(usd: float | None, *, more: bool = False) -> str:
    """`$1.20`, `$0.0031`; `-` where it is unknown. `more`: a part is unknown, `$1.20+`."""
    if usd is None:
        return "-"
    return f"${usd:.2f}{'+' if more else ''}" if usd >= 0.1 or not usd else f"${usd:.4f}{'+' if more else ''}"


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
