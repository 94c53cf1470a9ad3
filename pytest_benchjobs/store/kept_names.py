"""Names of the file systems that are kept of trials: one for a trial, or one for each of its steps."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

_OF_STEP = re.compile(r"^(.*-s)([1-9][0-9]{0,3})$")


def kept_name(job: str, node_id: str, step: int | None = None) -> str:
    """Return the name of a trial's kept file system; `step` is the number of a step, counted from 1."""
    node = hashlib.sha256(node_id.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{job}-{node}" if step is None else f"{job}-{node}-s{step}"


def with_earlier_steps(reference: str) -> Iterator[str]:
    """Yield the reference of a kept file system, and those of earlier steps if it is that of a step."""
    yield reference
    if (match := _OF_STEP.match(reference)) is not None:
        yield from (f"{match[1]}{number}" for number in range(1, int(match[2])))
