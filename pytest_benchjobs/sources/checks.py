"""Checks of a turn of a conversation, as manifests have them: `contains`, `matches`, `command`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model.pattern import pattern_fault

KINDS = ("contains", "matches", "command")
_LONGEST = 20_000


def check_kind(check: Mapping[str, Any]) -> str:
    """Return the kind of a valid check."""
    return next(kind for kind in KINDS if check.get(kind) is not None)


def check_fault(check: object) -> str | None:
    """Return what is wrong with a check; None if it is right."""
    given = [kind for kind in KINDS if isinstance(check, Mapping) and check.get(kind) is not None]
    if not isinstance(check, Mapping) or len(given) != 1:
        return f"a check is a text that the reply contains, or a table with one of {', '.join(KINDS)}"
    text = check[given[0]]
    if not isinstance(text, str) or not text.strip():
        return f"{given[0]} is empty, so it would check nothing"
    if len(text) > _LONGEST:
        return f"{given[0]} has more than {_LONGEST} characters"
    if given[0] == "matches" and (fault := pattern_fault(text)) is not None:
        return f"matches: {text!r} {fault}"
    return None
