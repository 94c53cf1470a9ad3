"""Images of Pods: their names where the cluster pulls them from, and what has to be known of them.

The Docker Engine of this machine, if one answers, finds, builds and pushes (`--bench-registry`); an image that a
scenario names is left to the cluster where it is not here.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...model.errors import EngineUnavailable, ImageMissing
from ...model.job import Owner
from ...model.result import ImageRecord
from ..protocol import ImageRequest
from .pod import CONTAINER

if TYPE_CHECKING:
    from ..docker.engine import Engine
    from ..docker.images import Images


@dataclasses.dataclass(frozen=True, slots=True)
class PodImage:
    """An image as a Pod names it. What is None is not known here."""

    reference: str
    record: ImageRecord
    user: str
    workdir: str | None
    variables: Mapping[str, str] | None
    entrypoint: tuple[str, ...] | None = None

    def record_in(self, state: Mapping[str, Any]) -> ImageRecord:
        """Return the record of what a running Pod has: what is not known here, it tells."""
        if self.record.id:
            return self.record
        statuses = (state.get("status") or {}).get("containerStatuses") or ()
        found = next((str(one.get("imageID") or "") for one in statuses if one.get("name") == CONTAINER), "")
        digest = found.rpartition("@")[2] or self.reference
        return self.record.model_copy(update={"id": digest, "key": digest})


class ClusterImages:
    """Images that this process has looked for. Thread-safe."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._lock = threading.Lock()
        self._looked = False
        self._engine: Engine | None = None
        self._builder: Images | None = None

    def identify(self, request: ImageRequest) -> str | None:
        """Return the key of an image; None: it is not here, or no engine answers."""
        builder = self._here()
        return None if builder is None else builder.identify(request)

    def resolve(self, request: ImageRequest, check: Callable[[], object]) -> PodImage:
        """Return an image that the cluster can pull; it is built and pushed if need be.

        Raises ImageMissing: it can only be built, and there is nothing to build it or to push it to.
        """
        from ..docker.images import named_image

        builder, named = self._here(), named_image(request)
        if builder is None or (named is not None and builder.identify(request) is None):
            if named is None:
                raise ImageMissing(
                    "the image has to be built from a Dockerfile, and no Docker Engine answers here that could"
                )
            written = request.environment.image or named
            substituted = {written: named} if written != named else {}
            record = ImageRecord(reference=written, id="", key="", substituted=substituted)
            return PodImage(named, record, "root", None, None)
        image = builder.resolve(request, check)
        reference = builder.ensure(request, check)
        if "@" not in reference:
            if named is None:
                raise ImageMissing(
                    "the image is built here, and the cluster has to get it: name a registry that both reach, by "
                    "`--bench-registry HOST/PATH`"
                )
            reference = named
        return PodImage(
            reference, image.record, image.user, image.workdir or None, image.env, image.entrypoint
        )

    def close(self) -> None:
        """Let go of the engine."""
        if self._engine is not None:
            self._engine.close()

    def _here(self) -> Images | None:
        """Return the builder of this machine's engine; None: none answers."""
        from ..docker.engine import Engine
        from ..docker.images import Images

        with self._lock:
            if not self._looked:
                self._looked = True
                engine = Engine()
                try:
                    engine.check()
                except EngineUnavailable:
                    engine.close()
                else:
                    self._engine, self._builder = engine, Images(engine, self._owner)
            return self._builder
