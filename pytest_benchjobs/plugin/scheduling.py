"""Scheduling of trials among workers of pytest-xdist; see `distribution`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xdist.scheduler import LoadScheduling

if TYPE_CHECKING:
    import pytest

    from .distribution import Node


class FlightScheduling(LoadScheduling):  # type: ignore[misc]
    """Scheduler that keeps the window of every worker full, so that no token of the job is idle while trials wait.

    It replaces the scheduler `before`, which decides the grouping of the first `ordinary` tests. `lost` reports the
    trials in flight of a dead worker: it returns ids of items, and the index of the ordinary test it was running.
    """

    collection: Any

    def __init__(
        self,
        before: Any,
        config: pytest.Config,
        *,
        ordinary: int,
        window: int,
        lost: Callable[[Node], tuple[set[str], int | None]],
    ) -> None:
        super().__init__(config, before.log)
        self._scope: Callable[[str], str] = getattr(before, "_split_scope", str)
        """Returns the group of a test, for `--dist loadscope` and similar; else each test is a group."""
        self._ordinary = ordinary
        self._window = window
        self._lost = lost

    @property
    def tests_finished(self) -> bool:
        """Return whether workers may be shut down."""
        # A worker stops its trials at shutdown, so shut down only when none is left.
        return self.collection_is_completed and not self.has_pending

    def check_schedule(self, node: Node, duration: float = 0) -> None:  # noqa: ARG002
        """Fill the window of a worker."""
        if node.shutting_down:
            return
        unfinished = len(self.pending) + sum(map(len, self.node2pending.values()))
        fair = -(-unfinished // len(self.node2pending))
        while self.pending and len(self.node2pending[node]) < min(fair, self._window):
            self._send_next(node)

    def _send_next(self, node: Node) -> None:
        sent = [self.pending.pop(0)]
        if sent[0] < self._ordinary:
            together = self._scope(self.collection[sent[0]])
            while (
                self.pending
                and self.pending[0] < self._ordinary
                and self._scope(self.collection[self.pending[0]]) == together
            ):
                sent.append(self.pending.pop(0))
        self.node2pending[node].extend(sent)
        node.send_runtest_some(sent)

    def schedule(self) -> None:
        """Start, once every worker has collected."""
        if self.collection is None:
            if not self._check_nodes_have_same_collection():
                self.log("**Different tests collected, aborting run**")
                return
            self.collection = next(iter(self.node2collection.values()))
            self.pending[:] = range(len(self.collection))
            self.pending[: self._ordinary] = self._by_scope()
        for node in self.nodes:
            self.check_schedule(node)

    def _by_scope(self) -> list[int]:
        first: dict[str, int] = {}
        for index in range(self._ordinary):
            first.setdefault(self._scope(self.collection[index]), index)
        return sorted(range(self._ordinary), key=lambda index: first[self._scope(self.collection[index])])

    def remove_node(self, node: Node) -> str | None:
        """Give the remaining tests of a worker to others; return the ordinary test that it died in."""
        sent = self.node2pending.pop(node)
        if not sent or hasattr(node, "workeroutput"):
            # A worker with output ended regularly (-x), so its remaining tests are not lost.
            return None
        ids, running = self._lost(node)
        self.pending[:0] = [index for index in sent if index != running and self.collection[index] not in ids]
        for other in self.nodes:
            self.check_schedule(other)
        # A trial is reported already.
        is_reported = running not in sent or self.collection[running] in ids
        return None if is_reported else self.collection[running]
