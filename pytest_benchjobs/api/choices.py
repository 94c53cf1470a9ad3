"""Filters of rows, validated before anything is read: an unknown word would match nothing."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Collection

from ..model.errors import InputError
from ..sources.complaints import did_you_mean


def several(texts: Collection[str], valid: type[enum.StrEnum], what: str) -> tuple[str, ...]:
    """Words of `valid`; a text alone is one of them, not a collection of letters.

    Raises:
        InputError: there is no such word.

    """
    words = (texts,) if isinstance(texts, str) else tuple(texts)
    known = [one.value for one in valid]
    for word in words:
        if word not in known:
            hint = did_you_mean(str(word), known)
            raise InputError(f"there is no {what} {word!r};{hint} valid are {', '.join(known)}")
    return words


def instant(since: datetime.datetime | datetime.timedelta | None) -> datetime.datetime | None:
    """A time, or so long ago.

    Raises:
        TypeError: it is neither.

    """
    if isinstance(since, datetime.timedelta):
        return datetime.datetime.now(datetime.UTC) - since
    if since is None or isinstance(since, datetime.datetime):
        return since
    raise TypeError(f"since has to be a datetime, or a timedelta for so long ago, not {since!r}")
