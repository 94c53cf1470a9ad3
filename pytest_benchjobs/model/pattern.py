"""Regular expressions of authors: whether they are any. `scoring.patterns` matches them."""

from __future__ import annotations

import re
import warnings


def pattern_fault(pattern: str, replacement: str = "") -> str | None:
    """Return what is wrong with a regular expression, and with what replaces its matches; None if both are right."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a later Python may read otherwise
            re.compile(pattern)
            re.sub(pattern, replacement, "")
    except (re.error, OverflowError, RecursionError, IndexError) as error:
        return f"is not a valid regular expression: {error}"
    return None
