"""Images of a job: brought ahead of its trials, kept below a limit on the engine's disk while trials need them.

Every process that works on a job has one; they share the record of the machine (`image_record`), which is held while
images are removed. With a limit, something is removed before anything is brought that would not fit: only what this
very job brought, under the name it was brought by, while no container and no other job has it.
"""

from __future__ import annotations

import contextlib
import enum
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...model.errors import ImageTooLarge, InfrastructureError
from ...model.job import JobConfig, Owner
from ...model.scenario import Environment
from ...system import units
from ..protocol import ImageRequest
from .engine import Engine
from .image_record import RUNNING, Brought, Record, RecordFile

if TYPE_CHECKING:
    from .images import Images, Slot

Check = Callable[[], object]
_REFUSED_SECONDS = 10.0
"""An image that could not be removed, since a container has it or it has another name, is left alone for so long."""


class Urgency(enum.Enum):
    """Urgency of an image."""

    AHEAD = "ahead"
    """No trial waits for it yet."""
    TRIAL = "trial"
    GRADING = "grading"
    """The work of the agent is paid for, and only has to be graded: it is pulled even beyond the budget."""


class NoRoomNow(Exception):
    """There is no room for an image until trials have ended."""


class ImageBudget:
    """Images of one job on one engine, as one of its processes, `owner`, sees them. Thread-safe.

    `images` finds, pulls and builds them, within this budget from now on. `config` has the bytes they may take.
    """

    def __init__(self, engine: Engine, images: Images, owner: Owner, job: str, config: JobConfig) -> None:
        self.limit = config.image_budget
        self._engine = engine
        self._images = images
        self._owner = owner
        self._job = job
        self._config = config
        self._file = RecordFile(engine.host)
        self._places: dict[int, list[Slot]] = {}
        """Scenarios with trials to come or running, by their place in the job, and the images that they need."""
        self._running: Counter[int] = Counter()
        self._needs: dict[str, int] = {}
        """Needs that are written down."""
        self._refused: dict[str, float] = {}
        """Images that could not be removed, and until when that is not tried again."""
        self._lock = threading.Lock()
        images.keep_within(self)

    def bring(self, environment: Environment, check: Check) -> bool:
        """Have an image here before its trial needs it; False: there is no room for it now."""
        with contextlib.suppress(NoRoomNow), self._engine.guard():
            self._images.resolve(ImageRequest.of(environment, self._config), check, Urgency.AHEAD)
            return True
        return False

    def expect(self, place: int, environments: Sequence[Environment]) -> None:
        """Note that trials to come need these images; the first is that of the agent."""
        slots = [self._images.slot(ImageRequest.of(one, self._config)) for one in environments]
        with self._lock:
            self._places.setdefault(place, slots)
        if any(slot.ids for slot in slots):
            self.publish()

    def begin(self, place: int, environments: Sequence[Environment]) -> None:
        """Note that a trial begins which needs these images."""
        with self._lock:
            self._running[place] += 1
        self.expect(place, environments)

    def end(self, place: int, *, last: bool) -> None:
        """Note that a trial has ended, the last of its scenario or not."""
        with self._lock:
            self._running[place] -= 1
            if last or self._running[place] <= 0:
                del self._running[place]
            if last:
                self._places.pop(place, None)
        self.publish()

    def publish(self) -> None:
        """Write down which images this process needs, if that has changed."""
        if self._needed() != self._needs:
            with self._file.opened() as record:
                self._write_needs(record)

    def removals(self) -> int:
        """Return how many images jobs have removed: while it is the same, what was here is here."""
        return self._file.read().removals

    @contextlib.contextmanager
    def bringing(self, name: str, urgency: Urgency, check: Check, base: int | None = None) -> Iterator[None]:
        """Make room for an image, and keep it until the end of the context; inside, the image is brought.

        `base` is how many bytes it is built on; None: it is pulled. `NoRoomNow`: there is none; `ImageTooLarge`: it
        alone takes more than the limit.
        """
        if self.limit is None:
            yield
            return
        try:
            self._file.make_place()
        except OSError as error:
            raise InfrastructureError(
                f"the record of images cannot be written, which --bench-image-budget needs: {error}"
            ) from error
        wanted = self._guess(name, base)
        with self._file.opened(check) as record:
            if not self._make_room(record, wanted, urgency) and urgency is not Urgency.GRADING:
                raise NoRoomNow
            record.process(self._owner, self._job).bringing[name] = wanted
        try:
            yield
        finally:
            with self._file.opened() as record:
                record.process(self._owner, self._job).bringing.pop(name, None)

    def record(self, name: str, found: Mapping[str, Any], urgency: Urgency) -> None:
        """Write down that the job has brought an image, inside `bringing`; `ImageTooLarge`: it was removed again."""
        image, size = str(found["Id"]), int(found.get("Size") or 0)
        with self._file.opened() as record:
            brought = Brought(name=name, bytes=size, job=self._job, used=time.time())
            # One that was here by another name is of whoever brought it.
            if record.images.setdefault(image, brought).name == name:
                record.images[image] = brought
            record.sizes[name] = size
            record.process(self._owner, self._job).bringing.pop(name, None)
            self._write_needs(record)
            if self.limit is None:
                return
            if size > self.limit and urgency is not Urgency.GRADING:
                self._remove(record, image)
                raise self._too_large(name, size)
            # It may be larger than it looked.
            self._make_room(record, 0, urgency, stays=image)

    def _guess(self, name: str, base: int | None) -> int:
        """Return the bytes to expect of an image, which are no more than the limit."""
        record, limit = self._file.read(), self.limit or 0
        least = expected = record.sizes.get(name)
        if least is None and base is None and (told := self._images.sizes.of(name)) is not None:
            least, expected = told.stored, told.unpacked
        if least is not None and least > limit:
            raise self._too_large(name, least)
        if expected is None:
            brought = (image.bytes for image in record.images.values() if image.job == self._job)
            expected = max(base or 0, *brought, 0) or limit
        return min(limit, expected)

    def _make_room(self, record: Record, wanted: int, urgency: Urgency, *, stays: str | None = None) -> bool:
        """Remove images until `wanted` bytes more fit; return whether they do. If they cannot, nothing is removed."""
        over = record.bytes_of(self._job) + wanted - (self.limit or 0)
        now = time.monotonic()
        removable = [
            image
            for image in record.removable(self._job, ahead=urgency is Urgency.AHEAD)
            if image != stays and self._refused.get(image, now) <= now
        ]
        if over > sum(record.images[image].bytes for image in removable):
            return False
        for image in removable:
            if over <= 0:
                break
            size = record.images[image].bytes
            if self._remove(record, image):
                over -= size
            else:
                self._refused[image] = now + _REFUSED_SECONDS
        return over <= 0

    def _remove(self, record: Record, image: str) -> bool:
        """Remove an image; return whether it is gone. One that a container has, or that has another name, stays."""
        name = record.images[image].name
        with contextlib.suppress(InfrastructureError), self._engine.guard():
            found = self._engine.get(f"/images/{name}/json")
            if found is not None:
                if found["Id"] != image or len(found.get("RepoTags") or ()) > 1:
                    return False
                self._engine.client.remove_image(name)
                record.removals += 1
            del record.images[image]
            self._images.forget(image)
            return True
        return False

    def _needed(self) -> dict[str, int]:
        """Return the first place at which each image is needed."""
        needs: dict[str, int] = {}
        with self._lock:
            for place, slots in self._places.items():
                for number, slot in enumerate(slots):
                    for order, image in enumerate(slot.ids):
                        # What a trial needs besides the image its agent works in can be brought once more; kept for
                        # trials that wait for room themselves, it could keep all of them waiting for ever.
                        runs = self.limit is None or (place in self._running and number == order == 0)
                        needs[image] = min(RUNNING if runs else place, needs.get(image, place))
        return needs

    def _write_needs(self, record: Record) -> None:
        """Write down which images this process needs."""
        self._needs = self._needed()
        needs = record.process(self._owner, self._job).needs
        for image, _ in needs.items() ^ self._needs.items():
            if (brought := record.images.get(image)) is not None:
                record.images[image] = brought.model_copy(update={"used": time.time()})
        needs.clear()
        needs.update(self._needs)

    def _too_large(self, name: str, size: int) -> ImageTooLarge:
        return ImageTooLarge(
            f"image {name} takes {units.size(size)}, and --bench-image-budget allows {units.size(self.limit or 0)} "
            "for all images of the job; raise it"
        )
