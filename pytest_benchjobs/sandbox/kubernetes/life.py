"""One Pod as the cluster has it: made, waited for, watched, and removed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from ...model.errors import (
    ContainerLost,
    ContainerStartFailed,
    EngineError,
    EngineRefused,
    ImageMissing,
    InfrastructureError,
)
from ...model.scenario import Network
from ...system.cutting import TailSink
from . import fate
from .api import Cluster, NoRight
from .link import Connection, StreamEnded
from .pod import ATTACH, CONTAINER, NETWORK, Manifest
from .stream import STDOUT, Stream

_LOOK = 1.0
_QUEUE_PATIENCE = 300.0
"""Seconds to wait for room in a cluster in which nothing of ours runs."""
_NODE_PATIENCE = 60.0
"""Seconds to wait for a node that takes a Pod, whatever is free on others; a cluster may grow."""
_PULL_PATIENCE = 90.0
"""Seconds in which a kubelet tries about four times."""
_START_PATIENCE = 1800.0
_LATE = 2.0
"""Seconds after the end of a connection within which the cluster says that its Pod has ended."""
_REFUSED = (403, 422, 400)

Check = Callable[[], object]


class Life:
    """A Pod of ours, from its manifest on. `others` tells whether further Pods of ours are at work."""

    def __init__(self, cluster: Cluster, manifest: Manifest, others: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._manifest = manifest
        self._others = others
        self._deleted = False
        self._ended: InfrastructureError | None = None
        self.limit: str | None = None
        """The limit (`storage`, `memory`) for which the cluster ended it, as its own doing."""
        self.name = str(manifest["metadata"]["name"])
        self.uid = ""
        self._has_memory_limit = False
        self.again: list[str] = []
        """Why its image had to be pulled again, in the last words on it."""
        self.started_ns = 0
        """When it started, by the clock of its node, or a little earlier."""
        self.id = f"{cluster.namespace}/{self.name}"

    def create(self, check: Check) -> None:
        """Make it. Raises ContainerStartFailed: the cluster does not take it. What `check` raises comes out."""
        try:
            made = self._cluster.create(self._manifest, check=check)
        except EngineRefused as error:
            if error.status in _REFUSED:
                raise ContainerStartFailed(
                    f"the cluster takes no such Pod: {error.words or error}"
                ) from error
            raise
        self.uid = str(made["metadata"]["uid"])
        # Also where the namespace gives it one.
        self._has_memory_limit = any(
            "memory" in ((one.get("resources") or {}).get("limits") or {})
            for one in made["spec"]["containers"]
            if one["name"] == CONTAINER
        )

    def await_start(self, container: str, check: Check) -> Mapping[str, Any]:
        """Wait until a container of it runs; return the Pod's state then.

        Raises ContainerStartFailed or ImageMissing: it never will, in the cluster's own words. What `check` raises
        comes out.
        """
        began = {what: time.monotonic() for what in ("start", "place", "queue", "pull")}
        looked = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                state = self._cluster.wait(
                    self.uid, lambda one: fate.is_running(one, container) or fate.has_ended(one), _LOOK, check
                )
                if state is None or not fate.is_running(state, container):
                    raise self._why_ended(state)
                self.started_ns = fate.started_ns(state)
                return state
            state = self._cluster.state(self.uid)
            if state is not None and time.monotonic() > looked + 2 * _LOOK:
                looked = time.monotonic()
                self._give_up_in_time(state, began)

    def _give_up_in_time(self, state: Mapping[str, Any], began: dict[str, float]) -> None:
        """Raise why a Pod does not start, where that is for ever, or was so for too long."""
        now = time.monotonic()
        # Each look at events is a call, and a thousand Pods may wait for room.
        queued = fate.is_queued(state)
        events = [] if queued else self._events(state)
        if (why := fate.why_not_started(state, events)) is not None:
            raise why
        unplaced = fate.is_unplaced(state)
        if not queued or self._others():
            began["queue"] = now
        if not unplaced:
            began["place"] = now
        words = fate.why_waiting(state, events)
        if fate.is_pulling(state):
            self.again = [words]
        else:
            began["pull"] = now
        if queued:
            began["start"] = now
        if now > began["pull"] + _PULL_PATIENCE:
            raise ImageMissing(words)
        if (
            now > began["queue"] + _QUEUE_PATIENCE
            or now > began["place"] + _NODE_PATIENCE
            or now > began["start"] + _START_PATIENCE
        ):
            raise ContainerStartFailed(words)

    def connect(self, container: str) -> Connection:
        """Begin a connection with the first process of a container of it."""
        try:
            return _Attached(self._cluster.exec(self.name, container, ATTACH, check=self._check_now))
        except NoRight as error:
            self._ended = error  # no further try will have it
            raise

    def check(self) -> None:
        """Raise why it has ended, if it has: cheap."""
        if self._ended is None and not self._deleted and self.uid:
            state = self._cluster.state(self.uid)
            if fate.has_ended(state):
                self._note_end(state)
        if self._ended is not None:
            raise self._ended

    def check_end(self) -> None:
        """Raise why it has ended, also where that is told a little later than a connection ends."""
        deadline = time.monotonic() + _LATE
        while time.monotonic() < deadline:
            self.check()
            if (node := self.node) is not None and self._cluster.node_ready(node):
                break
            time.sleep(0.1)
        self._check_now()

    def _check_now(self) -> None:
        if self._deleted:
            raise ContainerLost("the Pod was removed")
        self.check()

    def _note_end(self, state: Mapping[str, Any] | None) -> None:
        if state is None:
            # The last word may be there still, where only the watch has lost sight of it.
            with contextlib.suppress(InfrastructureError):
                found = self._cluster.get("Pod", self.name)
                if found is not None and found["metadata"]["uid"] == self.uid:
                    state = found
                    if not fate.has_ended(state):
                        return
        self._ended = self._why_ended(state)

    def _why_ended(self, state: Mapping[str, Any] | None) -> InfrastructureError:
        limit = fate.limit_of(state)
        # Without a limit of its own, it is the node that was short of memory.
        self.limit = limit if limit != "memory" or self._has_memory_limit else None
        return fate.why_ended(state, self._events(state))

    def _events(self, state: Mapping[str, Any] | None) -> list[dict[str, Any]]:
        about = state or {"metadata": {"uid": self.uid}}
        with contextlib.suppress(InfrastructureError):
            return self._cluster.events(about)
        return []

    @property
    def node(self) -> str | None:
        """The node that it is on, as far as the cluster has told."""
        state = self._cluster.state(self.uid)
        return str(((state or {}).get("spec") or {}).get("nodeName") or "") or None

    def other_nodes(self) -> list[str]:
        """Return addresses of nodes on which it does not run, as far as our other Pods tell."""
        states = self._cluster.states()
        nodes = {str(one["metadata"]["uid"]): (one.get("status") or {}).get("hostIP") for one in states}
        return sorted({str(address) for address in nodes.values() if address} - {str(nodes.get(self.uid))})[
            :3
        ]

    def set_network(self, network: Network) -> None:
        """Have another network policy select it."""
        labels = {"metadata": {"labels": {NETWORK: network}}}
        if self._cluster.patch("Pod", self.name, labels) is None:
            raise EngineError("the Pod is gone, and its network cannot be changed")

    def delete(self) -> None:
        """Remove it, without waiting. Never raises."""
        self._deleted = True
        with contextlib.suppress(Exception):
            self._cluster.delete("Pod", self.name, uid=self.uid or None)


class _Attached:
    """The connection of a link."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._said = TailSink(500)

    def send(self, data: bytes) -> None:
        """Write to its standard input."""
        self._stream.send(data)

    def receive(self, timeout: float) -> bytes:
        """Return what it printed next."""
        try:
            found = self._stream.receive(timeout)
        except StreamEnded as error:
            said = self._said.raw().decode("utf-8", "replace").strip()
            raise StreamEnded(f"{error}{f' ({said})' if said else ''}", killed=error.killed) from error
        if found is None:
            return b""
        channel, data = found
        if channel != STDOUT:
            self._said(data)
            return b""
        return data

    def close(self) -> None:
        """Let go of it. Never raises."""
        self._stream.close()
