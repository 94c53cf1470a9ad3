"""Claims of one process on images: which of them its trials need, and how soon. Each change costs what it changes."""

from __future__ import annotations

import dataclasses
import heapq
from collections import Counter
from collections.abc import Sequence

from .ledger import RUNNING


@dataclasses.dataclass
class _Place:
    """A scenario of the job that has trials to come, or running."""

    keys: tuple[object, ...]
    running: int = 0


class _Image:
    """Need of one image."""

    def __init__(self) -> None:
        self.running = 0
        """Places at which an agent works in it."""
        self.places: Counter[int] = Counter()
        """Places at which it is needed, and in how many ways."""
        self._soonest: list[int] = []
        """Heap of the places; those that are no longer such go once they come up."""

    def add(self, place: int, ways: int) -> None:
        """Note that it is needed at a place in so many ways more, or fewer."""
        if place not in self.places:
            heapq.heappush(self._soonest, place)
        self.places[place] += ways
        if self.places[place] <= 0:
            del self.places[place]

    def first(self) -> int:
        """Return the first place at which it is needed."""
        while self._soonest[0] not in self.places:
            heapq.heappop(self._soonest)
        return self._soonest[0]


class Claims:
    """Claims of one process. Not thread-safe.

    Args:
        always: Whatever is needed at all counts as if a trial ran in it.
    """

    def __init__(self, *, always: bool) -> None:
        self.changed: set[str] = set()
        """Ids of images whose claims may have changed since somebody emptied this."""
        self._always = always
        self._places: dict[int, _Place] = {}
        self._placed: dict[object, set[int]] = {}
        """Key of an image -> places that need it."""
        self._ids: dict[object, tuple[str, ...]] = {}
        """Key of an image -> its id, and those of its bases."""
        self._images: dict[str, _Image] = {}

    def of(self, image: str) -> int | None:
        """Return the first place that an image is needed at; RUNNING: a trial runs in it; None: it is not needed."""
        needed = self._images.get(image)
        if needed is None:
            return None
        return RUNNING if self._always or needed.running else needed.first()

    def expect(self, place: int, keys: Sequence[object]) -> None:
        """Note that these images are needed at a place; the first is that of the agent."""
        if place not in self._places:
            self._places[place] = there = _Place(tuple(keys))
            for key in set(keys):
                self._placed.setdefault(key, set()).add(place)
                self._count(place, there, key, 1)

    def begin(self, place: int, keys: Sequence[object]) -> None:
        """Note that a trial runs at a place."""
        self.expect(place, keys)
        self._run(self._places[place], 1)

    def end(self, place: int, *, last: bool) -> None:
        """Note that a trial has ended at a place, the last of it or not."""
        there = self._places.get(place)
        if there is None:
            return
        self._run(there, -there.running if last else -min(1, there.running))
        if last:
            del self._places[place]
            for key in set(there.keys):
                self._count(place, there, key, -1)
                self._placed[key].discard(place)
                if not self._placed[key]:
                    del self._placed[key]

    def note(self, key: object, ids: tuple[str, ...]) -> None:
        """Note the ids of an image, and of what it was built from."""
        if self._ids.get(key) == ids:
            return
        there = [(place, self._places[place]) for place in self._placed.get(key, ())]
        for place, needing in there:
            self._count(place, needing, key, -1)
        self._ids[key] = ids
        for place, needing in there:
            self._count(place, needing, key, 1)

    def _count(self, place: int, there: _Place, key: object, sign: int) -> None:
        """Add to the images of a key that they are needed at a place, or take that away."""
        ways = there.keys.count(key)
        for image in self._ids.get(key, ()):
            self._image(image).add(place, sign * ways)
        if there.running and key == there.keys[0]:
            self._work(key, sign)
        self._tidy(key)

    def _run(self, there: _Place, trials: int) -> None:
        """Note that so many trials more run at a place, or fewer."""
        before, there.running = bool(there.running), there.running + trials
        if bool(there.running) != before and there.keys:
            self._work(there.keys[0], 1 if there.running else -1)
            self._tidy(there.keys[0])

    def _work(self, key: object, sign: int) -> None:
        # What a trial needs besides the image its agent works in can be brought once more; kept for trials that wait
        # for room themselves, it could keep all of them waiting for ever.
        for image in self._ids.get(key, ())[:1]:
            self._image(image).running += sign

    def _image(self, image: str) -> _Image:
        self.changed.add(image)
        return self._images.setdefault(image, _Image())

    def _tidy(self, key: object) -> None:
        for image in self._ids.get(key, ()):
            if (needed := self._images.get(image)) is not None and not needed.places:
                del self._images[image]
