"""Images of Pods: their names where the cluster pulls them from, and what has to be known of them.

The Docker Engine of this machine, if one answers, finds, builds and pushes (`--bench-registry`); with `BUILDKIT_HOST`
that BuildKit does, and no engine is asked. An image that a scenario names is left to the cluster where it is not here.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ...model.errors import EngineUnavailable, ImageMissing, InfrastructureError
from ...model.finding import Finding, ok, problem
from ...model.job import Owner
from ...model.result import ImageRecord
from ..protocol import ImageRequest
from .pod import CONTAINER

if TYPE_CHECKING:
    from ..docker.buildkit import BuildKit
    from ..docker.engine import Engine
    from ..docker.images import Images, ResolvedImage

_NO_REGISTRY = (
    "the image is built here, and the cluster has to get it: name a registry that both reach, by "
    "`--bench-registry HOST/PATH`"
)
_NO_BUILDER = (
    "the image has to be built, and no Docker Engine answers here that could: start one, or name a BuildKit by "
    "BUILDKIT_HOST"
)


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
    """Images that this process has looked for, for Pods on one kind of machine (`x86_64`). Thread-safe."""

    def __init__(self, owner: Owner, machine: str) -> None:
        self._owner = owner
        self._machine = machine
        self._lock = threading.Lock()
        self._looked = False
        self._engine: Engine | None = None
        self._builder: Images | None = None
        self._buildkit: BuildKit | None = None
        self._references: dict[tuple[str, str | None], str] = {}
        """Names by digest, by the id of an image and the registry that it was to be in."""

    def identify(self, request: ImageRequest) -> str | None:
        """Return the key of an image; None: it is not here, or nothing here could build it."""
        builder = self._here()
        if self._buildkit is not None:
            return self._buildkit.identify(request) if _has_to_be_built(request) else None
        return None if builder is None else builder.identify(request)

    def resolve(self, request: ImageRequest, check: Callable[[], object]) -> PodImage:
        """Return an image that the cluster can pull; it is built and pushed if need be.

        Raises ImageMissing: it can only be built, and there is nothing to build it or to push it to.
        """
        from ..docker.images import named_image

        builder, named = self._here(), named_image(request)
        if _has_to_be_built(request):
            if self._buildkit is not None:
                if request.registry is None:
                    raise ImageMissing(_NO_REGISTRY)
                pushed = self._buildkit.resolve(request, check)
                return _pod_image(pushed.reference, pushed.image)
            if builder is None:
                raise ImageMissing(_NO_BUILDER)
        elif named is not None and (builder is None or builder.identify(request) is None):
            written = request.environment.image or named
            substituted = {written: named} if written != named else {}
            record = ImageRecord(reference=written, id="", key="", substituted=substituted)
            return PodImage(named, record, "root", None, None)
        assert builder is not None  # noqa: S101  an image that is not named has to be built
        image = builder.resolve(request, check)
        reference = self._references.get((image.id, request.registry))
        if reference is None:
            # Asked once: it is a call to the registry, and each Pod would wait for that of the one before.
            reference = builder.ensure(request, check)
            self._references[image.id, request.registry] = reference
        if "@" not in reference:
            if named is None or request.environment.git_history is not None:
                raise ImageMissing(_NO_REGISTRY)
            reference = named
        return _pod_image(reference, image)

    def findings(self) -> Iterator[Finding]:
        """Tell whether the BuildKit that is named answers."""
        self._here()
        if self._buildkit is not None:
            try:
                self._buildkit.check()
                yield ok("builder", f"the BuildKit at {self._buildkit.host} answers")
            except InfrastructureError as error:
                yield problem(
                    "builder", str(error), "unset BUILDKIT_HOST to have a Docker Engine build images"
                )

    def close(self) -> None:
        """Let go of what builds images."""
        if self._engine is not None:
            self._engine.close()
        if self._buildkit is not None:
            self._buildkit.close()

    def _here(self) -> Images | None:
        """Return the builder of this machine's engine; None: none answers, or a BuildKit is named, which is noted."""
        from ..docker.engine import Engine
        from ..docker.images import Images

        with self._lock:
            if not self._looked:
                self._looked = True
                if host := os.environ.get("BUILDKIT_HOST"):
                    from ..docker.buildkit import BuildKit

                    self._buildkit = BuildKit(host, self._machine)
                    return None
                engine = Engine()
                try:
                    engine.check()
                except EngineUnavailable:
                    engine.close()
                else:
                    self._engine, self._builder = engine, Images(engine, self._owner)
            return self._builder


def _has_to_be_built(request: ImageRequest) -> bool:
    """Return True if an image is not one that somebody else has made, as it is."""
    return request.environment.image is None or request.environment.git_history is not None


def _pod_image(reference: str, image: ResolvedImage) -> PodImage:
    return PodImage(reference, image.record, image.user, image.workdir or None, image.env, image.entrypoint)
