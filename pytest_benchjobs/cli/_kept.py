"""Kept file systems that are gone from the engine."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from ..model.errors import InfrastructureError
from ..sandbox.providers import keeper

GONE = "removed by `benchjobs gc --kept` or by hand, or on another machine"


def keeping_again(what: str) -> str:
    """Return the advice to run a job or a trial again, with its file system kept."""
    return f"run it again: benchjobs rerun {shlex.quote(what)} --keep always"


def gone(references: Iterable[str | None]) -> set[str]:
    """Return the references that the engine no longer has; none where no engine answers."""
    from ..model.owner import current_owner
    from ..sandbox.protocol import KEPT

    wanted = {one for one in references if one is not None and one.startswith(KEPT)}
    if not wanted:
        return wanted
    provider = keeper(current_owner())
    try:
        provider.check()
        return wanted - {one.reference for one in provider.kept()}
    except InfrastructureError:
        return set()
    finally:
        provider.close()
