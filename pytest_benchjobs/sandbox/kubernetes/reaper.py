"""The reaper (`../reaper.py`) of a cluster: it removes the owner of what our process made, once that has ended."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

from ...model.environ import environment_without_keys
from ...model.errors import InfrastructureError
from ..reaper import QUIT
from .api import Cluster

_PATIENCE = 300.0
_PAUSE = 5.0


def environment() -> dict[str, str]:
    """Return the variables of the reaper, which is elsewhere: relative paths of files lead nowhere there."""
    variables = environment_without_keys()
    if names := variables.get("KUBECONFIG"):
        paths = (str(Path(name).expanduser().absolute()) for name in names.split(os.pathsep) if name)
        variables["KUBECONFIG"] = os.pathsep.join(paths)
    return variables


def command(cluster: Cluster, owner: str) -> list[str]:
    """Return what removes the owner of this name."""
    given = (*(one or "" for one in cluster.wanted[:2]), cluster.namespace)
    return [sys.executable, "-m", __spec__.name, *given, owner]


def main(kubeconfig: str, context: str, namespace: str, owner: str) -> None:
    """Wait for the end of our maker, and remove what it owns unless it said that it did."""
    if sys.stdin.buffer.read(1) == QUIT:
        return
    give_up = time.monotonic() + _PATIENCE
    while time.monotonic() < give_up:
        # A cluster that is away may come back within our patience.
        with (
            contextlib.suppress(InfrastructureError),
            contextlib.closing(Cluster(kubeconfig or None, context or None, namespace)) as cluster,
        ):
            cluster.delete("ConfigMap", owner)
            if cluster.get("ConfigMap", owner) is None:
                return
        time.sleep(_PAUSE)


if __name__ == "__main__":
    main(*sys.argv[1:])
