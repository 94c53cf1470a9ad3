"""Images of a job: brought ahead of its trials, kept while they are needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...model.job import JobConfig, Owner
from ...model.scenario import Environment
from .room import NoRoomNow, Room, Urgency

if TYPE_CHECKING:
    from .engine import Engine
    from .images import Images


class DockerSupply:
    """Images that the trials of a job need, on one engine. Thread-safe.

    Args:
        engine: It has them.
        images: It finds, pulls and builds them, within the room of the job from now on.
        owner: This process.
        job: Id of the job.
        config: Its image map, its build arguments, and the bytes its images may take.
    """

    def __init__(self, engine: Engine, images: Images, owner: Owner, job: str, config: JobConfig) -> None:
        self._engine = engine
        self._images = images
        self._config = config
        self._room = Room(engine, owner, job, config.image_budget, images.forget)
        images.keep_within(self._room)

    def bring(self, environment: Environment, check: Callable[[], object]) -> bool:
        """Have an image here before its trial needs it; False: there is no room for it now."""
        try:
            with self._engine.guard():
                config = self._config
                self._images.resolve(
                    environment, config.image_map, config.build_args, check, urgency=Urgency.AHEAD
                )
        except NoRoomNow:
            return False
        return True

    def expect(self, place: int, environments: Sequence[Environment]) -> None:
        """Note that trials to come need these images; the first is that of the agent."""
        self._room.expect(place, self._keys(environments))

    def begin(self, place: int, environments: Sequence[Environment]) -> None:
        """Note that a trial begins which needs these images."""
        self._room.begin(place, self._keys(environments))

    def end(self, place: int, *, last: bool) -> None:
        """Note that a trial has ended, the last of its scenario or not."""
        self._room.end(place, last=last)

    def _keys(self, environments: Sequence[Environment]) -> list[object]:
        config = self._config
        return [self._images.key(one, config.image_map, config.build_args) for one in environments]
