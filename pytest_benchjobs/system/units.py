"""Bytes and counts as people read them."""

from __future__ import annotations


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
