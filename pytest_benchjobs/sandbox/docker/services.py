"""Services that all containers of this process share: the engine, its images and network, guards and reaper."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...model.environ import program_environment
from ...model.errors import InfrastructureError
from ...model.job import Owner
from ..reaper import Reaper
from .engine import LABEL, Engine
from .images import Images
from .reaper import command
from .sweep import sweep
from .watched import Untouched

if TYPE_CHECKING:
    from .delivery import Deliveries
    from .network import PublicNetwork
    from .storage import StorageGuard
    from .watch import Events


class EngineServices:
    """Services of a session: those that need no sandbox, and the rest once one `begin`s. Thread-safe."""

    events: Events
    """Events of the containers of this process."""
    storage: StorageGuard
    """The guard of limits on what sandboxes write."""
    network: PublicNetwork
    """The network of public trials."""
    deliveries: Deliveries
    """Directories of this machine that the engine does not see."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        """This process; its name is on everything that is made."""
        self.engine = Engine()
        self.images = Images(self.engine, owner)
        self.untouched = Untouched()
        # It outlives us, so what it has of our environment does, too.
        variables = program_environment("DOCKER_", "SSH_AUTH_SOCK") | dict(self.engine.variables)
        self._reaper = Reaper(command(self.engine.host, f"{LABEL}owner={owner}"), variables)
        self._has_begun = False
        self._lock = threading.Lock()
        self._live: dict[str, Callable[[], None]] = {}

    def begin(self) -> None:
        """Make what sandboxes need: from the first on there is something to watch, to reap, and maybe to sweep."""
        from .delivery import Deliveries
        from .network import PublicNetwork
        from .storage import StorageGuard
        from .watch import Events

        with self._lock:
            if not self._has_begun:
                self._reaper.start()
                self.events = Events(self.engine, str(self.owner))
                self.storage = StorageGuard(self.engine)
                self.network = PublicNetwork(self.engine, self.owner)
                self.deliveries = Deliveries(self.engine)
                self._has_begun = True
                threading.Thread(target=self._sweep_quietly, name="bench-sweep", daemon=True).start()

    @functools.cached_property
    def info(self) -> dict[str, Any]:
        """What the engine says of itself and its machine."""
        return dict(self.engine.get("/info"))

    def remember(self, name: str, remove: Callable[[], None]) -> None:
        """Remove something of a trial at `close`, unless it is forgotten before. `remove` never raises."""
        with self._lock:
            self._live[name] = remove

    def forget(self, container: str) -> None:
        """Stop watching a container, which is gone."""
        with self._lock:
            self._live.pop(container, None)
        if self._has_begun:
            self.storage.discard(container)
            self.events.forget(container)

    def close(self) -> None:
        """Remove whatever this process still has, and let go of the engine."""
        with self._lock:
            left = list(self._live.values())
        for remove in left:
            remove()
        if self._has_begun:
            self.storage.close()
            self.events.close()
        with self._lock:
            nothing_left = not self._live
        # What could not be removed is the reaper's: it acts when the pipe to us closes.
        self._reaper.close(nothing_left=nothing_left)
        self.engine.close()

    def _sweep_quietly(self) -> None:
        # Tidying up after others must not disturb anybody: it is tried again at the next start.
        with contextlib.suppress(InfrastructureError, OSError):
            sweep(self.engine, self.owner)
