"""A provider of sandboxes that is made when a trial first needs one: not all trials do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..model.errors import InfrastructureError
from ..model.image import ImageSize
from ..model.job import JobConfig
from ..model.scenario import Scenario
from .protocol import HasRuntimes, ImageRequest, ImageSupply, NeedsImages, SandboxProvider


class LateProvider:
    """Makes the real provider, and checks it, when it is first asked for anything. Thread-safe.

    `make` raises InfrastructureError where its engine does not answer.
    """

    machine: Any
    lacks: Any
    identify: Any
    start: Any
    kept: Any
    forget_kept: Any

    def __init__(self, make: Callable[[], SandboxProvider]) -> None:
        self._make = make
        self._made: SandboxProvider | None = None
        self._checked = False
        self._problem: InfrastructureError | None = None
        self._lock = threading.Lock()

    def check(self) -> None:
        """Make sure the engine answers, or raise EngineUnavailable with what to do about it."""
        self._real()

    def incompatible(self, scenario: Scenario, config: JobConfig) -> str | None:
        """Return why such sandboxes are not for a scenario; None also where none can be made: its trial says so."""
        try:
            return self._real(checked=False).incompatible(scenario, config)
        except InfrastructureError:
            return None

    def supply(self, job: str, config: JobConfig) -> ImageSupply | None:
        """Return the images of a job, to be brought ahead; None: its sandboxes need none."""
        real = self._real()
        return real.builder.supply(job, config) if isinstance(real, NeedsImages) else None

    def weigh(self, request: ImageRequest, *, ask: bool = False) -> ImageSize | None:
        """Return the size of the image that would be taken; None: such sandboxes need none."""
        real = self._real()
        return real.builder.weigh(request, ask=ask) if isinstance(real, NeedsImages) else None

    def runtimes(self) -> tuple[str, ...]:
        """Return the names of the engine's runtimes, the usual one first; none where it has no choice of them."""
        real = self._real()
        return real.runtimes() if isinstance(real, HasRuntimes) else ()

    def sweep(self, *, shared: bool = False) -> int:
        """Remove what dead processes left behind, if any sandbox was wanted so far."""
        return 0 if self._made is None else self._made.sweep(shared=shared)

    def close(self) -> None:
        """Let go of the engine, if any sandbox was wanted."""
        if self._made is not None:
            self._made.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real(), name)

    def _real(self, *, checked: bool = True) -> SandboxProvider:
        """Return the provider; an engine that did not answer once is not asked again."""
        with self._lock:
            if self._problem is not None:
                raise self._problem
            try:
                if self._made is None:
                    self._made = self._make()
                if checked and not self._checked:
                    self._made.check()
                    self._checked = True
            except InfrastructureError as error:
                self._problem = error
                raise
            return self._made
