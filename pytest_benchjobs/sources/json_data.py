"""Reading JSON that every parser reads alike."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any


def load_json(text: str) -> Any:
    """Parse JSON. Its values may yet be such as no file can have; see `faults_of_plain`.

    Raises ValueError: it is not JSON, has a key twice, or is nested too deeply.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
            raise ValueError(f"the key {twice!r} is given twice")
        return table

    try:
        return json.loads(text, object_pairs_hook=unique)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
