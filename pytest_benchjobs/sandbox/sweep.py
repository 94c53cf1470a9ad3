"""Removing what dead processes left behind in an engine."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import docker
import docker.errors

from ..model.job import Owner
from ..model.owner import is_alive
from .engine import LABEL


@dataclasses.dataclass(frozen=True, slots=True)
class Swept:
    """How many things were removed."""

    containers: int = 0
    networks: int = 0
    volumes: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.containers + self.networks + self.volumes


def sweep(client: docker.APIClient, me: Owner) -> Swept:
    """Remove containers, networks and volumes of ours whose owner is dead.

    Whether a process of this host lives is known for sure. Of another host's processes it is not: what they own is
    removed once it is past its deadline, which is when it is of no use to anybody.
    """
    containers, networks, volumes = left_behind(client, me)
    return Swept(
        _remove(containers, lambda name: client.remove_container(name, force=True, v=True)),
        _remove(networks, client.remove_network),
        _remove(volumes, lambda name: client.remove_volume(name, force=True)),
    )


def left_behind(client: docker.APIClient, me: Owner) -> tuple[list[str], list[str], list[str]]:
    """What `sweep` would remove: ids of containers and networks, and names of volumes."""
    filters = {"label": f"{LABEL}owner"}
    return (
        _abandoned(client.containers(all=True, filters=filters), me, "Id"),
        _abandoned(client.networks(filters=filters), me, "Id"),
        _abandoned(client.volumes(filters=filters).get("Volumes") or [], me, "Name"),
    )


def abandoned(labels: Mapping[str, str], me: Owner, now: float) -> bool:
    """Whether nobody needs the thing with these labels any more."""
    owner = parse_owner(labels)
    if owner is not None and owner.host == me.host:
        return not is_alive(owner)
    try:
        return now > float(labels[LABEL + "deadline"])
    except (KeyError, ValueError):
        return False


def parse_owner(labels: Mapping[str, str]) -> Owner | None:
    """The owner that is written on a thing; None when it is not written properly."""
    parts = labels.get(LABEL + "owner", "").split("/")
    if len(parts) != 3 or not parts[1].isdigit() or LABEL + "host" not in labels:
        return None
    return Owner(host=labels[LABEL + "host"], boot=parts[0], pid=int(parts[1]), started=parts[2])


def _abandoned(found: Iterable[Mapping[str, Any]], me: Owner, key: str) -> list[str]:
    return [thing[key] for thing in found if abandoned(thing.get("Labels") or {}, me, time.time())]


def _remove(names: Iterable[str], remove: Callable[[str], object]) -> int:
    removed = 0
    for name in names:
        # Somebody else may be sweeping at the same time.
        with contextlib.suppress(docker.errors.APIError):
            remove(name)
            removed += 1
    return removed
