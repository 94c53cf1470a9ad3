"""Room that the images of a job may take on the engine's disk, and who needs which of them.

Every process that works on a job has one; they share the record of the machine (`ledger`). What a job brought is
written there. With a limit, something is removed before anything is brought that would not fit (`eviction`): only what
this very job brought, under the name it was brought by, while no container and no other job has it.

The record is held for moments only. What is to go is marked in it, and removed afterwards: that may take long. Whoever
comes to need an image that is marked waits until it is gone (`settle`), and brings it once more.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...model.errors import ImageTooLarge, InfrastructureError
from ...model.job import Owner
from ...system import units
from .claims import Claims
from .engine import Engine
from .eviction import Candidate, Need, evictions
from .ledger import RUNNING, Book, Brought, Ledger, Sizes, Stamp

Check = Callable[[], object]
_LOOK = 0.3
_LOOK_ANYWAY = 5.0
"""Seconds after which room is looked for again though nothing is known to have changed: not all is ours."""
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


@dataclasses.dataclass(frozen=True, slots=True)
class _Listed:
    """Images that the engine has, and those that containers have."""

    since: float
    """Time at which it was asked."""
    here: frozenset[str]
    used: frozenset[str]


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
        self._claims = Claims(always=limit is None)
        self._claimed: dict[str, int] = {}
        """Claims that are written down."""
        self._going: set[str] = set()
        """Images that somebody was removing when a trial came to need them."""
        self._told: dict[str, Sizes | None] = {}
        """Name -> what its registry said, which need not be asked twice."""
        self._full: dict[str, tuple[object, float]] = {}
        """Name -> the state of things in which there was no room for it, and until when that is taken for granted."""
        self._ended = 0
        self._refused: dict[str, float] = {}
        """Images that could not be removed, and until when that is not tried again."""
        self._lock = threading.Lock()

    def expect(self, place: int, keys: Sequence[object]) -> None:
        """Note that trials will need these images; the first is that of the agent."""
        with self._lock:
            self._claims.expect(place, keys)
        self._publish()

    def begin(self, place: int, keys: Sequence[object]) -> None:
        """Note that a trial runs which needs these images."""
        with self._lock:
            self._claims.begin(place, keys)
        self._publish()

    def end(self, place: int, *, last: bool) -> None:
        """Note that a trial has ended, the last of its scenario or not."""
        with self._lock:
            self._claims.end(place, last=last)
            self._ended += 1
        self._publish()

    def note(self, key: object, image: str, bases: Sequence[str]) -> None:
        """Note the ids of an image, and of what it was built from."""
        with self._lock:
            self._claims.note(key, (image, *bases))
        self._publish()

    def settle(self, image: str, check: Check) -> bool:
        """Wait while somebody removes an image that a trial needs; return whether it may be gone."""
        if self.limit is None and image not in self._going:
            return False
        while self._ledger.read().is_going(image):
            check()
            time.sleep(_LOOK)
        with self._lock:
            self._going.discard(image)
        return True

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
        if urgency is Urgency.AHEAD and self._is_full(name):
            raise NoRoomNow
        wanted = self._guess(name, sizes, base)
        while not self._reserved(name, wanted, urgency, check) and urgency is not Urgency.GRADING:
            if urgency is Urgency.AHEAD:
                raise NoRoomNow
            self._wait(name, check)
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
        self._told.pop(name, None)
        too_large = self.limit is not None and size > self.limit and urgency is not Urgency.GRADING
        with self._opened() as book:
            brought = Brought(name=name, bytes=size, job=self._job, used=time.time())
            if (before := book.images.get(image)) is not None and before.name != name:
                # It was here by another name.
                brought = before.model_copy(update={"used": brought.used})
            book.images[image] = brought
            book.sizes[name] = size
            # It is counted as an image from here on, not as what is being brought.
            book.process(self._owner, self._job).reserved.pop(name, None)
            if too_large:
                self._mark(book, [image])
        if too_large:
            self._remove({image: name})
            raise self._too_large(name, size)
        if self.limit is not None:
            # It may be larger than it looked.
            self._make_room(size, urgency, but=image)

    def _guess(self, name: str, sizes: Callable[[], Sizes | None], base: int) -> int:
        """Return the bytes to expect of an image."""
        limit = self.limit or 0
        book = self._ledger.read()
        if (known := book.sizes.get(name)) is not None:
            if known > limit:
                raise self._too_large(name, known)
            return known
        if (told := book.told.get(name)) is None:
            told = self._ask(name, sizes)
        if told is not None:
            if told.stored > limit:
                raise self._too_large(name, told.stored)
            return min(limit, told.unpacked)
        brought = [image.bytes for image in book.images.values() if image.job == self._job]
        return min(limit, max([base, *brought]) or limit)

    def _ask(self, name: str, sizes: Callable[[], Sizes | None]) -> Sizes | None:
        """Ask the registry of an image how large it is, once, and remember what it says."""
        if name not in self._told:
            self._told[name] = told = sizes()
            if told is not None:
                with self._opened() as book:
                    book.told[name] = told
        return self._told[name]

    def _reserved(self, name: str, wanted: int, urgency: Urgency, check: Check) -> bool:
        """Make room if that is possible now; return whether there is."""
        before = self._state()
        if self._make_room(wanted, urgency, name=name, check=check):
            self._full.pop(name, None)
            return True
        self._full[name] = before, time.monotonic() + _LOOK_ANYWAY
        return False

    def _wait(self, name: str, check: Check) -> None:
        """Wait until there may be room for an image."""
        while True:
            check()
            time.sleep(_LOOK)
            if not self._is_full(name):
                return

    def _state(self) -> tuple[Stamp | None, int]:
        """Return what is different once anybody is known to need less room."""
        return self._ledger.stamp(), self._ended

    def _is_full(self, name: str) -> bool:
        """Return True if there was no room for an image, and nothing is known to have changed."""
        state, until = self._full.get(name, (None, 0.0))
        return time.monotonic() < until and state == self._state()

    def _make_room(
        self,
        wanted: int,
        urgency: Urgency,
        *,
        name: str | None = None,
        but: str | None = None,
        check: Check = lambda: None,
    ) -> bool:
        """Remove images until `wanted` bytes more fit; return whether they do.

        Args:
            wanted: Bytes.
            urgency: What for.
            name: Image that the bytes are reserved for; None: it is here, and counted itself.
            but: Image that stays, and is among the bytes that are wanted.
            check: Called meanwhile.
        """
        while True:
            listed = self._listed()
            with self._opened(check) as book:
                me = book.process(self._owner, self._job)
                mine = [process for process in book.processes.values() if process.job == self._job]
                reserved = sum(sum(process.reserved.values()) for process in mine)
                chosen = evictions(
                    [one for one in self._candidates(book, listed) if one.id != but],
                    reserved=reserved,
                    wanted=wanted,
                    limit=self.limit or 0,
                    ahead=urgency is Urgency.AHEAD,
                )
                if chosen:
                    self._mark(book, [one.id for one in chosen])
                elif name is not None and (chosen is not None or urgency is Urgency.GRADING):
                    me.reserved[name] = wanted
                going = {one.id: book.images[one.id].name for one in chosen or ()}
            if not chosen:
                return chosen is not None
            # What cannot be removed now is taken for needed, so this ends.
            self._remove(going)
            check()

    def _listed(self) -> _Listed:
        """Ask the engine. Not while the record is held: it may have much to do."""
        since = time.time()
        here = frozenset(image["Id"] for image in self._engine.get("/images/json", all=True) or ())
        containers = self._engine.get("/containers/json", all=True) or ()
        return _Listed(since, here, frozenset(container["ImageID"] for container in containers))

    def _candidates(self, book: Book, listed: _Listed) -> list[Candidate]:
        """Return what this job brought and is still here; forget in the record what is not."""
        for image, brought in list(book.images.items()):
            # What was brought meanwhile is not in the list yet.
            if image not in listed.here and brought.used < listed.since:
                del book.images[image]
        going = {image for process in book.processes.values() for image in process.removing}
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
            stays = image in listed.used or image in going or self._refused.get(image, 0.0) > now
            if stays or RUNNING in claims or image not in listed.here:
                need = Need.RUNNING
            found.append(Candidate(image, brought.bytes, brought.used, need, min(claims, default=0)))
        return found

    def _mark(self, book: Book, images: Sequence[str]) -> None:
        """Write down that these images are being removed."""
        book.process(self._owner, self._job).removing.extend(images)

    def _remove(self, images: Mapping[str, str]) -> None:
        """Remove images that are marked, by id and name. Those that somebody has, or has named otherwise, stay."""
        gone: list[str] = []
        try:
            for image, name in images.items():
                if self._is_removed(image, name):
                    gone.append(image)
                    self._forget(image)
                else:
                    self._refused[image] = time.monotonic() + _REFUSED_SECONDS
        finally:
            with self._opened() as book:
                removing = book.process(self._owner, self._job).removing
                removing[:] = [image for image in removing if image not in images]
                for image in gone:
                    book.images.pop(image, None)

    def _is_removed(self, image: str, name: str) -> bool:
        with contextlib.suppress(InfrastructureError), self._engine.guard():
            found = self._engine.get(f"/images/{name}/json")
            if found is not None and found["Id"] == image and len(found.get("RepoTags") or ()) <= 1:
                self._engine.client.remove_image(name)
                return True
        return False

    def _publish(self) -> None:
        """Write down which images this process needs, if that has changed."""
        if self.limit is None and not self._ledger.exists:
            return
        with self._lock:
            if not self._changes():
                return
        with self._opened() as book, self._lock:
            changes = self._changes()
            self._claims.changed.clear()
            for image, claim in changes.items():
                if claim is None:
                    self._claimed.pop(image, None)
                else:
                    self._claimed[image] = claim
                    if book.is_going(image):
                        self._going.add(image)
                if (brought := book.images.get(image)) is not None:
                    book.images[image] = brought.model_copy(update={"used": time.time()})
            claims = book.process(self._owner, self._job).claims
            claims.clear()
            claims.update(self._claimed)

    def _changes(self) -> dict[str, int | None]:
        """Return the claims that differ from what is written down; None: no longer needed. Call with the lock held."""
        now = {image: self._claims.of(image) for image in self._claims.changed}
        changes = {image: claim for image, claim in now.items() if claim != self._claimed.get(image)}
        self._claims.changed.intersection_update(changes)
        return changes

    @contextlib.contextmanager
    def _opened(self, check: Check = lambda: None) -> Iterator[Book]:
        """Open the record. Without a limit, it is no harm if there is no place for it."""
        with contextlib.ExitStack() as stack:
            try:
                book = stack.enter_context(self._ledger.opened(check))
            except OSError as error:
                if self.limit is not None:
                    raise InfrastructureError(
                        f"the record of images cannot be written, which --bench-image-budget needs: {error}"
                    ) from error
                book = Book()
            yield book

    def _too_large(self, name: str, size: int) -> ImageTooLarge:
        return ImageTooLarge(
            f"image {name} takes {units.size(size)}, and --bench-image-budget allows {units.size(self.limit or 0)} "
            "for all images of the job; raise it"
        )
