"""Dialects of Docker's API: what an engine does in its own way, and tells by no state. Podman has one of its own.

An engine says in `/version` which it is. That is asked once; whoever depends on it asks the dialect for one trait.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..protocol import Promise


@dataclasses.dataclass(frozen=True, slots=True)
class Dialect:
    """Traits of an engine."""

    name: str
    columns: str
    """What `top` is asked for: process, parent, state, name and command line of each."""
    lists_processes: bool
    """It lists processes itself, by their numbers in the container; none where they come and go too fast.

    Others have `ps` list them, by the numbers of the machine.
    """
    joins_any: bool
    """It joins a container with a network that was made without; else it begins with one, and leaves it."""
    remembers_commands: bool
    """It tells of a command that has ended whether there was a process of it; else an event tells."""
    tells_signals: bool
    """Its events of a `kill` tell with which signal."""
    keeps_configuration: bool
    """It keeps a container with the configuration that it is sent; else instructions say it, their values encoded."""
    separates: bool
    """It keeps containers of a network apart, and names the bridge of a network by the network's id."""
    tells_owners: bool
    """Its archives tell whose a file is; else all of them are root's."""
    lacks: Mapping[Promise, str]
    """What it cannot promise, wherever it runs, and why."""


DOCKER = Dialect(
    name="Docker Engine",
    columns="-eo pid,ppid,stat,comm,args",
    lists_processes=False,
    joins_any=True,
    remembers_commands=True,
    tells_signals=True,
    keeps_configuration=True,
    separates=True,
    tells_owners=True,
    lacks={},
)
PODMAN = Dialect(
    name="Podman",
    # For columns of `ps` it may run the image's own.
    columns="pid,ppid,state,comm,args",
    lists_processes=True,
    joins_any=False,
    remembers_commands=False,
    tells_signals=False,
    keeps_configuration=False,
    separates=False,
    tells_owners=False,
    lacks={
        Promise.OUT_OF_MEMORY: "Podman does not tell which processes were killed for memory",
        Promise.SERVICES: (
            "Docker Compose is not tried with Podman, from whose internal networks its machine can be reached"
        ),
    },
)


def dialect_of(version: Mapping[str, Any]) -> Dialect:
    """Return the dialect of an engine, by what it says of its programs."""
    names = [one.get("Name") for one in version.get("Components") or ()]
    return PODMAN if "Podman Engine" in names else DOCKER
