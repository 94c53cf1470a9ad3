"""Comparisons in the history."""

from __future__ import annotations

import datetime
import secrets

from pydantic import ValidationError

from ..model.comparison import Comparison
from ..model.errors import InputError
from .reader import HistoryReader
from .text import one_line

_LATEST = 5


def new_comparison_id(now: datetime.datetime) -> str:
    """Make an id from `cmp_`, the time and random characters. `now` is UTC."""
    return f"cmp_{now:%Y%m%dT%H%M%SZ}_{secrets.token_hex(4)}"


def find_comparison(history: HistoryReader, text: str) -> Comparison:
    """Return the comparison that `text` names: an id, the beginning of one, or `last`.

    Raises InputError: none or several match, or it cannot be read.
    """
    text = text.strip()
    found = history.comparison_ids("" if text == "last" else text, _LATEST + 1)
    if text == "last":
        found = found[:1]
    if not found:
        known = ", ".join(history.comparison_ids("", _LATEST))
        there_are = f"; the latest are {known}" if known else ": there are none yet, see `benchjobs compare`"
        raise InputError(f"there is no comparison {one_line(text, 80)!r}{there_are}")
    if len(found) > 1 and text not in found:
        raise InputError(
            f"{one_line(text, 80)!r} matches several comparisons: {', '.join(found[:_LATEST])}; give more characters"
        )
    comparison_id = text if text in found else found[0]
    try:
        return Comparison.model_validate_json(history.comparison(comparison_id))
    except ValidationError:
        raise InputError(
            f"comparison {comparison_id} cannot be read: another version wrote it, or it is damaged; compare again"
        ) from None
