"""Code spans of Markdown."""

from __future__ import annotations

import re

from ..store.text import one_line

_BACKTICKS = re.compile(r"`+")


def code(text: str, limit: int = 300) -> str:
    """Return a code span of `text` on one line, safe inside tables."""
    # In a table a pipe needs a backslash, and a literal backslash before a pipe cannot be told from that.
    text = one_line(text, limit).replace("\\|", "\\\u00a6").replace("|", "\\|")
    if not text:
        return ""
    fence = "`" * (max((len(run) for run in _BACKTICKS.findall(text)), default=0) + 1)
    edge = " " if text.startswith(("`", " ")) or text.endswith(("`", " ")) else ""
    return f"{fence}{edge}{text}{edge}{fence}"
