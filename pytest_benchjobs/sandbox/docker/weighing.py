"""Sizes of images: of those that are here as the engine says, of others as this machine remembers or registries say.

A registry that does not answer a few times in a row is asked no more, lest hundreds of images wait for nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Mapping

from ...model.errors import ImageMissing
from ...model.image import ImageSize
from ...model.scenario import Environment
from .dockerfile import canonical
from .engine import Engine
from .images import Images, named_image
from .ledger import Book, Ledger, Sizes

_IN_VAIN = 3
"""Questions in a row without an answer, after which a registry is asked no more."""


class Weighing:
    """Finds out sizes of images on one engine. Thread-safe.

    Args:
        engine: It has them, or not.
        images: It tells which image an environment has.
    """

    def __init__(self, engine: Engine, images: Images) -> None:
        self._engine = engine
        self._images = images
        self._ledger = Ledger(engine.host)
        self._remembered: Book | None = None
        self._told: dict[str, Sizes | None] = {}
        self._silent: Counter[str] = Counter()
        """Registry -> questions in a row that it has not answered."""
        self._machine: str | None = None
        self._lock = threading.Lock()

    def weigh(
        self,
        environment: Environment,
        image_map: Mapping[str, str],
        build_args: Mapping[str, str],
        *,
        ask: bool,
    ) -> ImageSize:
        """Return the size of the image that these would give. `ask`: registries, too.

        Raises:
            ImageMissing: there is neither an image nor a Dockerfile.
            InfrastructureError: the engine does not answer, or a Dockerfile cannot be read.
        """
        name = named_image(environment, image_map)
        if name is None and environment.dockerfile is None and environment.snapshot is None:
            raise ImageMissing("the scenario names neither an image nor a Dockerfile")
        shown = name or environment.image_shown
        # A layer that ends the history of repositories is small, and made of an image that has to be here.
        whole = environment.model_copy(update={"git_history": None})
        key = self._images.identify(whole, image_map, build_args)
        found = None if key is None else self._engine.get(f"/images/{key}/json")
        if found is not None:
            return ImageSize(image=shown, state="here", bytes=int(found.get("Size") or 0))
        sizes = self._book.sizes
        if name is None:
            return ImageSize(image=shown, state="build", bytes=None if key is None else sizes.get(key))
        told = self._book.told.get(name)
        if told is None and ask:
            told = self._ask(name)
        download = None if told is None else told.stored
        return ImageSize(image=shown, state="pull", bytes=sizes.get(name), download=download)

    @property
    def _book(self) -> Book:
        """What was remembered when this was first asked: hundreds of images are weighed at a time."""
        if self._remembered is None:
            self._remembered = self._ledger.read()
        return self._remembered

    def _ask(self, name: str) -> Sizes | None:
        """Ask the registry, once for each image, and remember what it says."""
        from .registry import NoAnswer, sizes_of

        registry = canonical(name).partition("/")[0]
        with self._lock:
            if name in self._told or self._silent[registry] >= _IN_VAIN:
                return self._told.get(name)
            if self._machine is None:
                self._machine = str(self._engine.get("/version")["Arch"])
        try:
            told = sizes_of(name, self._machine)
        except NoAnswer:
            with self._lock:
                self._silent[registry] += 1
            return None
        with self._lock:
            self._silent[registry] = 0
            self._told[name] = told
        if told is not None:
            # What cannot be remembered is asked again.
            with contextlib.suppress(OSError), self._ledger.opened() as book:
                book.told[name] = told
        return told
