"""A provider of sandboxes that is made when a trial first needs one: not all trials do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from ..model.errors import InfrastructureError
from ..model.image import ImageSize
from ..model.job import JobConfig
from ..model.scenario import Environment, Scenario
from .protocol import ImageSupply, Kept, NeedsImages, Sandbox, SandboxProvider, SandboxSpec


class LateProvider:
    """Makes the real provider, and checks it, when it is first asked for anything. Thread-safe.

    `make` raises InfrastructureError where its engine does not answer.
    """

    def __init__(self, make: Callable[[], SandboxProvider]) -> None:
        self._make = make
        self._made: SandboxProvider | None = None
        self._checked = False
        self._problem: InfrastructureError | None = None
        self._lock = threading.Lock()

    def check(self) -> None:
        """Make sure the engine answers, or raise EngineUnavailable with what to do about it."""
        self._real()

    def machine(self) -> str:
        """The architecture that programs in sandboxes are for."""
        return self._real().machine()

    def incompatible(self, scenario: Scenario, config: JobConfig) -> str | None:
        """Return why such sandboxes are not for a scenario; None also where none can be made: its trial says so."""
        try:
            return self._real(checked=False).incompatible(scenario, config)
        except InfrastructureError:
            return None

    def identify(
        self, environment: Environment, image_map: Mapping[str, str], build_args: Mapping[str, str]
    ) -> str | None:
        """`ImageRecord.key` of the image that these would give; None: it is not here."""
        return self._real().identify(environment, image_map, build_args)

    def supply(self, job: str, config: JobConfig) -> ImageSupply | None:
        """Return the images of a job, to be brought ahead; None: its sandboxes need none."""
        real = self._real()
        return real.supply(job, config) if isinstance(real, NeedsImages) else None

    def weigh(
        self,
        environment: Environment,
        image_map: Mapping[str, str],
        build_args: Mapping[str, str],
        *,
        ask: bool = False,
    ) -> ImageSize | None:
        """Return the size of the image that these would give; None: such sandboxes need none."""
        real = self._real()
        return (
            real.weigh(environment, image_map, build_args, ask=ask) if isinstance(real, NeedsImages) else None
        )

    def start(self, spec: SandboxSpec, on_phase: Callable[[str], None]) -> Sandbox:
        """Start a sandbox."""
        return self._real().start(spec, on_phase)

    def kept(self) -> list[Kept]:
        """Return what was kept of trials."""
        return self._real().kept()

    def forget_kept(self, reference: str) -> bool:
        """Remove what was kept."""
        return self._real().forget_kept(reference)

    def sweep(self) -> int:
        """Remove what dead processes left behind, if any sandbox was wanted so far."""
        return 0 if self._made is None else self._made.sweep()

    def close(self) -> None:
        """Let go of the engine, if any sandbox was wanted."""
        if self._made is not None:
            self._made.close()

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
