"""Images that trials would need, for `benchjobs benchmarks images`: list, sizes, pull. Runs no trial.

It is a `--bench-plan` that writes to a pipe, in JSON lines, each an object with a single key.

asking     number of images whose registries are asked for sizes
bringing   number of images to pull or build
ended      an image that was pulled or built, or failed: `ListedImage`
found      everything, at the end: `ImagesDocument` without the benchmark's name
"""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

import pytest

from ..model.errors import BenchError
from ..model.image import ImageSize
from ..model.scenario import Environment
from ..report.documents.images import ListedImage
from ..sandbox.protocol import ImageSupply
from ..sources.protocol import Unsupported
from ..store.bundle import new_job_id
from ..store.text import clean
from .interrupts import Interrupts
from .items import TrialItem
from .options import usage_error
from .planning import Look, looking, planned_items, trial_of

OUT = "BENCHJOBS_IMAGES_OUT"
"""Variable with the descriptor of the pipe. With it, `--bench-plan` is about images."""
PULL = "BENCHJOBS_IMAGES_PULL"
"""Variable that is set if images are to be pulled or built."""

_AT_ONCE = 4
_LOOK = 0.2
_GRACE_SECONDS = 5.0
_NO_ROOM = "there is no room for it within --bench-image-budget"
_REASON = 2000

Scenario = tuple[str, str]
"""Benchmark and id."""


@dataclasses.dataclass(slots=True)
class _Need:
    """An image, and the scenarios that need it."""

    environment: Environment
    scenarios: set[Scenario]
    size: ImageSize | None = None
    """None: its size could not be found."""
    error: str | None = None
    has_room: bool = True
    """False if a pull was tried without room for it."""

    @property
    def shown(self) -> ImageSize:
        named = self.environment.image
        if self.size is None:
            shown = self.environment.image_shown
            return ImageSize(image=shown, state="build" if named is None else "pull")
        return self.size

    @property
    def key(self) -> object:
        """Images with the same key are one, even if their environments differ otherwise."""
        return self.environment.image_source if self.environment.image is None else self.shown.image


class _Stopped(Exception):
    """The reader of the pipe is gone."""


def list_images(session: pytest.Session) -> bool:
    """Find the images of the session's trials, and pull or build them if requested.

    Raises:
        pytest.UsageError: something is wrong, or the engine does not answer.
        KeyboardInterrupt: it was interrupted. Current pulls and builds are aborted.
    """
    items = planned_items(session)
    pull = PULL in os.environ
    # Handle SIGTERM like Ctrl-C, to remove half-built images.
    Interrupts(session.config).take()
    with os.fdopen(int(os.environ[OUT]), "w", encoding="utf-8") as pipe, looking(session.config) as look:
        work = _Work(look, pipe)
        problems: dict[Scenario, str] = {}
        needs = _needs(look, items, problems)
        if needs:
            try:
                look.provider.check()
                needs = work.weigh(needs, ask=not pull)
                if pull:
                    work.bring(
                        [need for need in needs if need.size is not None and need.size.state != "here"]
                    )
            except BenchError as error:
                raise usage_error(str(error)) from None
        every = {(item.source.benchmark, item.ref.id) for item in items}
        needing = set[Scenario]().union(*(need.scenarios for need in needs))
        work.tell(
            found={
                "scenarios": len(needing),
                "without": len(every - needing - problems.keys()),
                "problems": Counter(problems.values()),
                "images": [image.model_dump(mode="json") for image in _listed(needs)],
            }
        )
    return True


def _needs(look: Look, items: Sequence[TrialItem], problems: dict[Scenario, str]) -> list[_Need]:
    """Return the needed images, in the order of their trials.

    `problems` gets the reasons why scenarios cannot run.
    """
    needs: dict[object, _Need] = {}
    seen: set[object] = set()
    for ticket in (ticket for item in items for ticket in item.tickets()):
        scenario = ticket.benchmark, ticket.scenario
        # Attempts need the same; agents may not.
        if (scenario, ticket.agent.label) in seen:
            continue
        seen.add((scenario, ticket.agent.label))
        try:
            trial = trial_of(ticket, look.job)
        except Unsupported as error:
            problems[scenario] = clean(str(error), _REASON)
            continue
        if look.fates.skip(ticket, trial) is not None:
            continue
        for environment in look.fates.environments(trial):
            need = needs.setdefault(environment.image_source, _Need(environment, set()))
            need.scenarios.add(scenario)
    return list(needs.values())


def _listed(needs: Sequence[_Need]) -> Iterator[ListedImage]:
    """Yield a row for each image. Different environments may name the same image."""
    same: dict[object, list[_Need]] = {}
    for need in needs:
        same.setdefault(need.key, []).append(need)
    for group in same.values():
        scenarios = set[Scenario]().union(*(need.scenarios for need in group))
        errors = [need.error for need in group if need.error is not None]
        yield ListedImage(
            **group[-1].shown.model_dump(),
            scenarios=len(scenarios),
            error=errors[0] if errors else None,
        )


class _Work:
    """Finds sizes of images, and pulls or builds them, a few at a time.

    Args:
        look: Access to the provider.
        pipe: Descriptor for progress.
    """

    def __init__(self, look: Look, pipe: IO[str]) -> None:
        self._look = look
        self._pipe = pipe
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def tell(self, **what: Any) -> None:
        """Write a line. If the reader is gone, stop."""
        try:
            with self._lock:
                self._pipe.write(json.dumps(what) + "\n")
                self._pipe.flush()
        except OSError:
            self._stopped.set()

    def weigh(self, needs: Sequence[_Need], *, ask: bool) -> list[_Need]:
        """Find the sizes of images; return those that this kind of sandbox has."""
        self._each(lambda need: self._weigh(need, ask=False), needs)
        unknown = [need for need in needs if need.size is not None and _is_unknown(need.size)]
        if ask and unknown:
            self.tell(asking=len(unknown))
            self._each(lambda need: self._weigh(need, ask=True), unknown)
        return [need for need in needs if need.size is not None or need.error is not None]

    def bring(self, needs: Sequence[_Need]) -> None:
        """Pull or build images."""
        supply = self._look.provider.supply(new_job_id(), self._look.job) if needs else None
        if supply is None:
            return
        self.tell(bringing=len(needs))
        for place, need in enumerate(needs):
            # An image that was pulled first is not removed for the next one.
            supply.expect(place, [need.environment])
        left = list(needs)
        while left:
            self._each(lambda need: self._bring(supply, need), left)
            again = [need for need in left if not need.has_room]
            if len(again) == len(left):
                for need in again:
                    need.error = _NO_ROOM
                    self._tell_ended(need)
                return
            # There may be room now: estimated sizes may be too large.
            left = again

    def _weigh(self, need: _Need, *, ask: bool) -> None:
        job = self._look.job
        try:
            need.size = self._look.provider.weigh(need.environment, job.image_map, job.build_args, ask=ask)
        except Exception as error:  # continue with the others
            need.error = clean(str(error) or type(error).__name__, _REASON)

    def _bring(self, supply: ImageSupply, need: _Need) -> None:
        try:
            need.has_room = supply.bring(need.environment, self._check)
        except _Stopped:
            return
        except Exception as error:  # continue with the others
            need.has_room = True
            need.error = clean(str(error) or type(error).__name__, _REASON)
        else:
            if not need.has_room:
                return
            self._weigh(need, ask=False)
        self._tell_ended(need)

    def _tell_ended(self, need: _Need) -> None:
        self.tell(
            ended=ListedImage(
                **need.shown.model_dump(), scenarios=len(need.scenarios), error=need.error
            ).model_dump(mode="json")
        )

    def _check(self) -> None:
        if self._stopped.is_set():
            raise _Stopped

    def _each(self, work: Callable[[_Need], None], needs: Sequence[_Need]) -> None:
        """Process the images, a few at a time. A reader of the pipe that is gone counts as an interrupt."""
        waiting = deque(needs)

        def take() -> None:
            while waiting and not self._stopped.is_set():
                try:
                    need = waiting.popleft()
                except IndexError:
                    return
                work(need)

        # No pool: a thread that waits for a registry must not delay the end of the process.
        threads = [threading.Thread(target=take, daemon=True) for _ in range(min(_AT_ONCE, len(needs)))]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(_LOOK)
        finally:
            if waiting or any(thread.is_alive() for thread in threads):
                self._stopped.set()
            for thread in threads:
                thread.join(_GRACE_SECONDS / len(threads))
        if self._stopped.is_set():
            raise KeyboardInterrupt


def _is_unknown(size: ImageSize) -> bool:
    return size.state == "pull" and size.download is None
