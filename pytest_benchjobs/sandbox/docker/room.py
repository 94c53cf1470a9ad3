"""Room that the images of a job may take on the engine's disk, and who needs which of them.

Every process that works on a job has one; they share the record of the machine (`ledger`). What a job brought is
written there. With a limit, something is removed before anything is brought that would not fit (`eviction`): only what
this very job brought, under the name it was brought by, while no container and no other job has it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...model.errors import ImageTooLarge, InfrastructureError
from ...model.job import Owner
from .engine import Engine
from .eviction import Candidate, Need, evictions
from .ledger import RUNNING, Book, Brought, Ledger

if TYPE_CHECKING:
    from .registry import Sizes

Check = Callable[[], object]
_LOOK = 0.3
_REFUSED_SECONDS = 10.0


class Urgency(enum.Enum):
    """Urgency of an image."""

    AHEAD = "ahead"
    """No trial waits for it yet."""
    TRIAL = "trial"
    GRADING = "grading"
    """The work of the agent is paid for, and only has to be graded: it comes, room or not."""


class NoRoomNow(Exception):
    """There is no room for an image that no trial waits for."""


@dataclasses.dataclass
class _Place:
    """A scenario of the job that has trials to come, or running."""

    keys: tuple[object, ...]
    running: int = 0


class Room:
    """Room of one job, as one of its processes sees it. Thread-safe.

    Args:
        engine: It has the images.
        owner: This process.
        job: Id of the job.
        limit: Bytes; None: as much as there is.
        forget: Told the id of an image that was removed.
    """

    def __init__(
        self, engine: Engine, owner: Owner, job: str, limit: int | None, forget: Callable[[str], None]
    ) -> None:
        self.limit = limit
        self._engine = engine
        self._owner = owner
        self._job = job
        self._forget = forget
        self._ledger = Ledger(engine.host)
        self._places: dict[int, _Place] = {}
        self._ids: dict[object, tuple[str, ...]] = {}
        """Key of an image -> its id, and those of its bases."""
        self._claimed: dict[str, int] = {}
        self._refused: dict[str, float] = {}
        """Images that could not be removed, and until when that is not tried again."""
        self._lock = threading.Lock()

    def expect(self, place: int, keys: Sequence[object]) -> None:
        """Note that trials will need these images; the first is that of the agent."""
        with self._lock:
            self._places.setdefault(place, _Place(tuple(keys)))
        self._publish()

    def begin(self, place: int, keys: Sequence[object]) -> None:
        """Note that a trial runs which needs these images."""
        with self._lock:
            self._places.setdefault(place, _Place(tuple(keys))).running += 1
        self._publish()

    def end(self, place: int, *, last: bool) -> None:
        """Note that a trial has ended, the last of its scenario or not."""
        with self._lock:
            if (there := self._places.get(place)) is not None:
                there.running = max(0, there.running - 1)
                if last:
                    del self._places[place]
        self._publish()

    def note(self, key: object, image: str, bases: Sequence[str]) -> None:
        """Note the ids of an image, and of what it was built from."""
        with self._lock:
            if self._ids.get(key) == (ids := (image, *bases)):
                return
            self._ids[key] = ids
        self._publish()

    @contextlib.contextmanager
    def bringing(
        self, name: str, urgency: Urgency, check: Check, sizes: Callable[[], Sizes | None], base: int = 0
    ) -> Iterator[None]:
        """Make room for an image, and keep it until the end of the context; inside, the image is brought.

        Args:
            name: Its name.
            urgency: What for.
            check: Called while it waits for room.
            sizes: Asks its registry how large it is.
            base: Bytes of what it is built from.

        Raises:
            NoRoomNow: there is none, and nobody waits for it.
            ImageTooLarge: it alone takes more than the limit.
        """
        if self.limit is None:
            yield
            return
        wanted = self._guess(name, sizes, base)
        while not self._reserved(name, wanted, urgency) and urgency is not Urgency.GRADING:
            if urgency is Urgency.AHEAD:
                raise NoRoomNow
            check()
            time.sleep(_LOOK)
        try:
            yield
        finally:
            with self._opened() as book:
                book.process(self._owner, self._job).reserved.pop(name, None)

    def record(self, name: str, found: Mapping[str, Any], urgency: Urgency) -> None:
        """Write down that the job has brought an image. Inside `bringing`.

        Raises:
            ImageTooLarge: it alone takes more than the limit, and is removed.
        """
        image, size = str(found["Id"]), int(found.get("Size") or 0)
        with self._opened() as book:
            digests = found.get("RepoDigests") or [None]
            book.images.setdefault(
                image, Brought(name=name, digest=digests[0], bytes=size, job=self._job, used=time.time())
            )
            book.sizes[name] = size
            if self.limit is None:
                return
            if size > self.limit and urgency is not Urgency.GRADING:
                self._remove(book, image)
                raise self._too_large(name, size)
            mine = [one for one in self._candidates(book) if one.id != image]
            # It may be larger than it looked.
            ahead = urgency is Urgency.AHEAD
            for one in evictions(mine, reserved=0, wanted=size, limit=self.limit, ahead=ahead) or ():
                self._remove(book, one.id)

    def _guess(self, name: str, sizes: Callable[[], Sizes | None], base: int) -> int:
        """Return the bytes to expect of an image."""
        limit = self.limit or 0
        book = self._ledger.read()
        if (known := book.sizes.get(name)) is not None:
            if known > limit:
                raise self._too_large(name, known)
            return known
        if (told := sizes()) is not None:
            if told.stored > limit:
                raise self._too_large(name, told.stored)
            return min(limit, told.unpacked)
        brought = [image.bytes for image in book.images.values() if image.job == self._job]
        return min(limit, max([base, *brought]) or limit)

    def _reserved(self, name: str, wanted: int, urgency: Urgency) -> bool:
        """Make room if that is possible now; return whether there is."""
        with self._opened() as book:
            me = book.process(self._owner, self._job)
            while True:
                reserved = sum(
                    sum(process.reserved.values())
                    for process in book.processes.values()
                    if process.job == self._job
                )
                chosen = evictions(
                    self._candidates(book),
                    reserved=reserved,
                    wanted=wanted,
                    limit=self.limit or 0,
                    ahead=urgency is Urgency.AHEAD,
                )
                if not chosen:
                    break
                # What cannot be removed now is taken for needed, so this ends.
                for image in chosen:
                    self._remove(book, image.id)
            if chosen is None and urgency is not Urgency.GRADING:
                return False
            me.reserved[name] = wanted
            return chosen is not None

    def _candidates(self, book: Book) -> list[Candidate]:
        """Return what this job brought and is still here; forget in the record what is not."""
        here = {image["Id"] for image in self._engine.get("/images/json", all=True) or ()}
        for image in [image for image in book.images if image not in here]:
            del book.images[image]
        used = {container["ImageID"] for container in self._engine.get("/containers/json", all=True) or ()}
        found, now = [], time.monotonic()
        for image, brought in book.images.items():
            if brought.job != self._job:
                continue
            claims = [
                process.claims[image] if process.job == self._job else RUNNING
                for process in book.processes.values()
                if image in process.claims
            ]
            need = Need.COMING if claims else Need.NONE
            if image in used or RUNNING in claims or self._refused.get(image, 0.0) > now:
                need = Need.RUNNING
            found.append(Candidate(image, brought.bytes, brought.used, need, min(claims, default=0)))
        return found

    def _remove(self, book: Book, image: str) -> None:
        """Remove an image, unless somebody has it now or has given it another name."""
        name = book.images[image].name
        found = self._engine.get(f"/images/{name}/json")
        if found is not None and found["Id"] == image and len(found.get("RepoTags") or ()) <= 1:
            with contextlib.suppress(InfrastructureError), self._engine.guard(running=False):
                self._engine.client.remove_image(name)
                del book.images[image]
                self._forget(image)
                return
        self._refused[image] = time.monotonic() + _REFUSED_SECONDS

    def _publish(self) -> None:
        """Write down which images this process needs, if that has changed."""
        with self._lock:
            if self._claims() == self._claimed:
                return
        if self.limit is None and not self._ledger.exists:
            return
        with self._opened() as book, self._lock:
            claims = self._claims()
            me = book.process(self._owner, self._job)
            me.claims.clear()
            me.claims.update(claims)
            for image in {*claims, *self._claimed}:
                if (brought := book.images.get(image)) is not None:
                    book.images[image] = brought.model_copy(update={"used": time.time()})
            self._claimed = claims

    def _claims(self) -> dict[str, int]:
        """Return the ids of images that are needed, and the first place they are needed at."""
        claims: dict[str, int] = {}
        for place, there in self._places.items():
            for number, key in enumerate(there.keys):
                for order, image in enumerate(self._ids.get(key, ())):
                    # What a trial needs besides the image its agent works in can be brought once more; kept for trials
                    # that wait for room themselves, it could keep all of them waiting for ever.
                    runs = there.running and number == 0 and order == 0
                    at = RUNNING if runs or self.limit is None else place
                    claims[image] = min(at, claims.get(image, at))
        return claims

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Book]:
        """Open the record. Without a limit, it is no harm if there is no place for it."""
        with contextlib.ExitStack() as stack:
            try:
                book = stack.enter_context(self._ledger.opened())
            except OSError as error:
                if self.limit is not None:
                    raise InfrastructureError(
                        f"the record of images cannot be written, which --bench-image-budget needs: {error}"
                    ) from error
                book = Book()
            yield book

    def _too_large(self, name: str, size: int) -> ImageTooLarge:
        return ImageTooLarge(
            f"image {name} takes {in_units(size)}, and --bench-image-budget allows {in_units(self.limit or 0)} for all "
            "images of the job: give it more"
        )


def in_units(size: int) -> str:
    """Return bytes as people write them."""
    for unit, factor in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.1f}{unit}"
    return f"{size}B"
