"""Removing what dead processes left behind in an engine."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from ...model.errors import ContainerLost, DiskFull, EngineError
from ...model.job import Owner
from ..labels import abandoned
from .engine import LABEL, Engine


def sweep(engine: Engine, me: Owner) -> int:
    """Remove containers, networks and volumes of ours whose owner is dead; returns how many.

    Whether a process of this host lives is known for sure. Of another host's processes it is not: what they own is
    removed once it is past its deadline, which is when it is of no use to anybody.
    """
    containers, networks, volumes = left_behind(engine, me)
    removals = (
        *(partial(engine.client.remove_container, name, force=True, v=True) for name in containers),
        *(partial(engine.client.remove_network, name) for name in networks),
        *(partial(engine.client.remove_volume, name, force=True) for name in volumes),
    )
    removed = 0
    for remove in removals:
        # Somebody else may be sweeping at the same time.
        with contextlib.suppress(EngineError, ContainerLost, DiskFull), engine.guard():
            remove()
            removed += 1
    return removed


def left_behind(engine: Engine, me: Owner) -> tuple[list[str], list[str], list[str]]:
    """Return what `sweep` would remove: ids of containers and networks, and names of volumes."""
    filters = {"label": [f"{LABEL}owner"]}
    return (
        _abandoned(engine.get("/containers/json", all=True, filters=filters), me, "Id"),
        _abandoned(engine.get("/networks", filters=filters), me, "Id"),
        _abandoned(engine.get("/volumes", filters=filters)["Volumes"], me, "Name"),
    )


def _abandoned(found: Iterable[Mapping[str, Any]] | None, me: Owner, key: str) -> list[str]:
    return [thing[key] for thing in found or () if abandoned(thing.get("Labels") or {}, me, time.time())]
