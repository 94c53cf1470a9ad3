"""List and pull the images of a benchmark, by a dry run."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import click

from ..job.planning import Look
from ..job.ticket import Ticket
from ..model.image import ImageSize
from ..model.scenario import Environment
from ..report.documents.plan import ImagesDocument, ListedImage, totals
from ..report.units import counted, duration
from ..sandbox.protocol import ImageRequest, ImageSupply
from ..settings.call import words
from ..sources.protocol import Unsupported
from ..store.bundle import new_job_id
from ..store.text import clean, harmless, one_line
from ._dry_run import dry_run
from ._plan_text import amount, image_name
from ._pytest_call import Call

_AT_ONCE = 4
_LOOK = 0.2
_GRACE_SECONDS = 5.0
_NO_ROOM = "there is no room for it within --bench-image-budget"
_REASON, _SHOWN_REASON = 2000, 500

Scenario = tuple[str, str]
"""Benchmark and id."""


def find_images(
    benchmark: str, scenarios: Sequence[str], rest: Sequence[str], *, pull: bool
) -> ImagesDocument:
    """Return the images that a run of a benchmark would need; `pull` pulls or builds them. Progress goes to stderr.

    An interrupt aborts current pulls and builds.
    """
    arguments = (*words({"benchmarks": (benchmark,), "scenarios": tuple(scenarios)}), *rest)
    # pytest gets a log in place of stderr. A caller may have put an object without a descriptor in its place.
    with os.fdopen(os.dup(2), "w", errors="backslashreplace") as stderr:
        images = _Images(stderr, pull=pull)
        dry_run(Call(arguments, Path.cwd()), images.take)
    listed = tuple(_listed(images.needs))
    needing = set[Scenario]().union(*(need.scenarios for need in images.needs))
    return ImagesDocument(
        benchmark=benchmark,
        scenarios=len(needing),
        without=len(images.scenarios - needing - images.problems.keys()),
        problems=Counter(images.problems.values()),
        images=listed,
        totals=tuple(totals(listed)),
    )


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

    @property
    def is_unknown(self) -> bool:
        """Return whether only a registry knows its size."""
        return self.size is not None and self.size.state == "pull" and self.size.download is None


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


class _Stopped(Exception):
    """The command was interrupted."""


class _Images:
    """Finds sizes of images, and pulls or builds them if requested, a few at a time."""

    def __init__(self, stderr: IO[str], *, pull: bool) -> None:
        self.needs: list[_Need] = []
        """The needed images, in the order of their trials."""
        self.scenarios: set[Scenario] = set()
        self.problems: dict[Scenario, str] = {}
        """Scenario -> reason why it cannot run."""
        self._pull = pull
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._ended, self._all, self._began = 0, 0, 0.0
        self._stderr = stderr

    def take(self, look: Look, tickets: Sequence[Ticket]) -> None:
        """Find the images of trials that no test drives, and pull or build them."""
        self._look = look
        self._find([ticket for ticket in tickets if not ticket.is_driven])
        if not self.needs:
            return
        look.provider.check()
        self._each(self._weigh, self.needs)
        unknown = [need for need in self.needs if need.is_unknown]
        if unknown and not self._pull:
            self._say(f"asking registries for the sizes of {counted(len(unknown), 'image')}")
            self._each(lambda need: self._weigh(need, ask=True), unknown)
        # Other kinds of sandboxes have no images.
        self.needs = [need for need in self.needs if need.size is not None or need.error is not None]
        if self._pull:
            self._bring([need for need in self.needs if need.size is not None and need.size.state != "here"])

    def _find(self, tickets: Sequence[Ticket]) -> None:
        """Find the images that trials need, and the reasons why scenarios cannot run."""
        needs: dict[object, _Need] = {}
        seen: set[object] = set()
        for ticket in tickets:
            scenario = ticket.benchmark, ticket.scenario
            # Attempts need the same; agents may not.
            if (scenario, ticket.agent.label) in seen:
                continue
            seen.add((scenario, ticket.agent.label))
            self.scenarios.add(scenario)
            try:
                trial = self._look.trial(ticket)
            except Unsupported as error:
                self.problems[scenario] = clean(str(error), _REASON)
                continue
            if self._look.fates.skip(ticket, trial) is not None:
                continue
            for environment in self._look.fates.environments(trial):
                need = needs.setdefault(environment.image_source, _Need(environment, set()))
                need.scenarios.add(scenario)
        self.needs = [*needs.values()]

    def _bring(self, needs: Sequence[_Need]) -> None:
        """Pull or build images."""
        supply = self._look.provider.supply(new_job_id(), self._look.job) if needs else None
        if supply is None:
            return
        self._all, self._began = len(needs), time.monotonic()
        self._say(f"pulling or building {counted(len(needs), 'image')}")
        for place, need in enumerate(needs):
            # An image that was pulled first is not removed for the next one.
            supply.expect(place, [need.environment])
        left = list(needs)
        while left:
            self._each(lambda need: self._bring_one(supply, need), left)
            again = [need for need in left if not need.has_room]
            if len(again) == len(left):
                for need in again:
                    need.error = _NO_ROOM
                    self._say_ended(need)
                return
            # There may be room now: estimated sizes may be too large.
            left = again

    def _weigh(self, need: _Need, *, ask: bool = False) -> None:
        try:
            request = ImageRequest.of(need.environment, self._look.job)
            need.size = self._look.provider.weigh(request, ask=ask)
        except Exception as error:  # continue with the others
            need.error = clean(str(error) or type(error).__name__, _REASON)

    def _bring_one(self, supply: ImageSupply, need: _Need) -> None:
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
            self._weigh(need)
        self._say_ended(need)

    def _say_ended(self, need: _Need) -> None:
        how = f"here, {amount(need.shown)}" if need.error is None else one_line(need.error, _SHOWN_REASON)
        with self._lock:
            self._ended += 1
            after = duration(time.monotonic() - self._began)
            self._say(f"{self._ended} of {self._all}, {after}: {image_name(need.shown.image)}: {how}")

    def _say(self, line: str) -> None:
        click.echo(harmless(line), file=self._stderr)

    def _check(self) -> None:
        if self._stopped.is_set():
            raise _Stopped

    def _each(self, work: Callable[[_Need], None], needs: Sequence[_Need]) -> None:
        """Process the images, a few at a time."""
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
