"""Images that a BuildKit builds and a registry keeps. No engine is asked: `docker buildx` alone is its client."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...model.environ import environment_without_keys
from ...model.errors import EngineUnavailable, ImageBuildFailed, ImageMissing, InfrastructureError
from ...model.result import ImageRecord
from ...system.cutting import TailSink, last_line
from ...system.keeping import taken
from ...system.temporary import temporary_directory
from ..host_command import LocalCommand
from ..protocol import ImageRequest
from . import git_history
from .images import (
    ResolvedImage,
    machine_lock,
    named_image,
    not_pushed,
    platform_of,
    resolved,
    shared_name,
    turn,
)

if TYPE_CHECKING:
    from .build import Recipe
    from .pulling import Check

_BUILDER = "bench"
_PATIENCE = 60.0
"""Seconds for one question to a registry, or to BuildKit."""
_REMEMBERED = 60.0
"""Seconds for which a failure is that of all who need the image."""
_PUSH_FAILED = re.compile(r"ERROR: failed to solve: (failed to push .*)")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclasses.dataclass(frozen=True, slots=True)
class PushedImage:
    """An image in a registry."""

    reference: str
    """Its name by digest."""
    image: ResolvedImage


@dataclasses.dataclass(frozen=True, slots=True)
class _Missing:
    """Why an image was not found, and when it is looked for again."""

    why: str
    until: float


@dataclasses.dataclass(eq=False)
class _Place:
    """What is known of an image that trials need."""

    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    found: PushedImage | None = None
    error: InfrastructureError | None = None
    until: float = 0.0
    """Time at which the error is forgotten."""


class BuildKit:
    """Builds images by the BuildKit at an address, for one kind of machine (`x86_64`), each once. Thread-safe.

    An image has the identity that an engine's builder gives it, so a registry has it once for both.
    """

    def __init__(self, host: str, machine: str) -> None:
        self.host = host
        self._platform = platform_of("linux", _ARCHITECTURES.get(machine, machine))
        self._undo = contextlib.ExitStack()
        self._lock = threading.Lock()
        self._variables: Mapping[str, str] | None = None
        self._answers = False
        self._places: dict[object, _Place] = {}
        self._ids: dict[str, str | _Missing] = {}
        """Names of images that others are built on, and their ids."""

    def identify(self, request: ImageRequest) -> str | None:
        """Return the key of an image; None: a registry does not tell what it is built on.

        Raises ImageBuildFailed: the Dockerfile or its context cannot be read.
        """
        with contextlib.suppress(ImageMissing):
            if named_image(request) is None:
                _, key = self._recipe(request, _nothing)
            else:
                key = self._id(str(named_image(request)), _nothing)
            if request.environment.git_history is None:
                return key
            return git_history.address(request.environment, key)
        return None

    def resolve(self, request: ImageRequest, check: Check) -> PushedImage:
        """Return an image that a registry has; it is built and pushed if need be.

        `check` is called several times a second; what it raises breaks off whatever goes on. Raises ImageMissing,
        ImageBuildFailed, DiskFull, EngineUnavailable or EngineLost.
        """
        with self._lock:
            place = self._places.setdefault(request.key, _Place())
        with taken(place.lock, check):
            if place.error is not None and time.monotonic() < place.until:
                raise type(place.error)(str(place.error))
            if place.found is None:
                try:
                    place.found = self._made(request, check)
                except (ImageMissing, ImageBuildFailed, EngineUnavailable) as error:
                    place.error, place.until = error, time.monotonic() + _REMEMBERED
                    raise
            return place.found

    def check(self) -> None:
        """Make sure that it answers. Raises ImageMissing: its client is not here; EngineUnavailable: no answer."""
        self._await_answer(_nothing)

    def close(self) -> None:
        """Forget what its client knows."""
        self._undo.close()

    def _made(self, request: ImageRequest, check: Check) -> PushedImage:
        environment, name = request.environment, named_image(request)
        if name is None:
            recipe, key = self._recipe(request, check)
            found = self._pushed(request, recipe, key, check)
        else:
            reference, _ = self._manifest(name, check)
            found = self._described(reference, name, self._id(name, check), check)
        if environment.git_history is None:
            return found
        below = found.image
        key = git_history.address(environment, below.record.key)
        recipe = git_history.recipe(environment, found.reference, below.workdir, below.user)
        try:
            ended = self._pushed(request, recipe, key, check)
        except ImageBuildFailed as error:
            raise git_history.explained(error, name or environment.image_shown) from error
        record = below.record.model_copy(update={"id": ended.image.id, "key": key})
        return PushedImage(ended.reference, dataclasses.replace(ended.image, record=record))

    def _recipe(self, request: ImageRequest, check: Check) -> tuple[Recipe, str]:
        """Return how an image is built, and its key."""
        from .build import Recipe

        if request.environment.dockerfile is None:
            raise ImageMissing("the scenario names neither an image nor a Dockerfile")
        recipe = Recipe.read(request, lambda: self._platform)
        return recipe, recipe.tag({base: self._id(base, check) for base in recipe.bases})

    def _id(self, name: str, check: Check) -> str:
        """Return the id that an engine would give the image with a name."""
        found = self._ids.get(name)
        if found is None or (isinstance(found, _Missing) and time.monotonic() > found.until):
            try:
                _, manifest = self._manifest(name, check)
                found = str(manifest["config"]["digest"])
            except ImageMissing as error:
                found = _Missing(str(error), time.monotonic() + _REMEMBERED)
            self._ids[name] = found
        if isinstance(found, _Missing):
            raise ImageMissing(found.why)
        return found

    def _pushed(self, request: ImageRequest, recipe: Recipe, key: str, check: Check) -> PushedImage:
        """Return an image with this key, which is built unless the registry has it."""
        from .build import build_and_push

        assert request.registry is not None  # noqa: S101  callers have looked
        name = shared_name(request.registry, key, self._platform["TARGETARCH"])
        with machine_lock(f"push-{name}", check):
            with contextlib.suppress(ImageMissing):
                return self._described(name, "Dockerfile", key, check, recipe.substituted)
            variables = self._await_answer(check)
            try:
                with turn(check):
                    build_and_push(
                        variables,
                        recipe,
                        name,
                        self._platform["TARGETPLATFORM"],
                        request.environment.build_timeout,
                        check,
                    )
            except ImageBuildFailed as error:
                if (words := _PUSH_FAILED.search(str(error))) is None:
                    raise
                raise ImageMissing(not_pushed(request, ImageMissing(words[1]))) from error
            return self._described(name, "Dockerfile", key, check, recipe.substituted)

    def _described(
        self,
        name: str,
        written: str,
        key: str,
        check: Check,
        substituted: Mapping[str, str] | None = None,
    ) -> PushedImage:
        """Return what a registry has under a name. Raises ImageMissing: nothing, or it does not say."""
        reference, manifest = self._manifest(name, check)
        about = json.loads(
            self._ask(check, "imagetools", "inspect", "--format", "{{json .Image}}", reference)
        )
        about["Id"] = manifest["config"]["digest"]
        about["Config"] = about.get("config")
        record = ImageRecord(reference=written, id=about["Id"], key=key, substituted=dict(substituted or {}))
        return PushedImage(reference, resolved(about, record))

    def _manifest(self, name: str, check: Check) -> tuple[str, dict[str, Any]]:
        """Return the name by digest of an image for our platform, and its manifest. Raises ImageMissing."""
        written = self._ask(check, "imagetools", "inspect", "--raw", name)
        manifest: dict[str, Any] = json.loads(written)
        path, slash, last = name.partition("@")[0].rpartition("/")
        repository = f"{path}{slash}{last.partition(':')[0]}"
        for one in manifest.get("manifests") or ():
            about = one.get("platform") or {}
            if f"{about.get('os')}/{about.get('architecture')}" == self._platform["TARGETPLATFORM"]:
                return self._manifest(f"{repository}@{one['digest']}", check)
        if "config" not in manifest:
            raise ImageMissing(f"image {name}: there is none for {self._platform['TARGETPLATFORM']}")
        return f"{repository}@sha256:{hashlib.sha256(written.encode()).hexdigest()}", manifest

    def _ask(self, check: Check, *question: str) -> str:
        """Return what buildx prints. Raises ImageMissing: in the words of the registry."""
        status, printed, said = self._run(self._begin(check), check, *question)
        if status != 0:
            raise ImageMissing(f"image {question[-1]} cannot be looked up: {said}")
        return printed

    def _begin(self, check: Check) -> Mapping[str, str]:
        """Return variables with which buildx is led to it, whatever else it knows on this machine."""
        from .build import has_buildx

        with taken(self._lock, check):
            if self._variables is None:
                if not has_buildx():
                    raise ImageMissing(
                        f"BUILDKIT_HOST={self.host} is to build images, and its client is not here: install the docker "
                        "command with its plugin buildx, which needs no engine"
                    )
                # Below it, as buildx has a lock of its own, of the name of ours.
                directory = self._undo.enter_context(temporary_directory("buildkit")) / "buildx"
                directory.mkdir()
                variables = {
                    **environment_without_keys(),
                    "BUILDX_BUILDER": _BUILDER,
                    "BUILDX_CONFIG": str(directory),
                    # The docker command greets an engine whatever it is to do: there is none at this address.
                    "DOCKER_HOST": f"unix://{directory}/none",
                    "DOCKER_TLS": "",
                    "DOCKER_TLS_VERIFY": "",
                    # With attestations, a push is an index of two manifests.
                    "BUILDX_NO_DEFAULT_ATTESTATIONS": "1",
                }
                status, _, said = self._run(
                    variables, check, "create", "--name", _BUILDER, "--driver", "remote", self.host
                )
                if status != 0:
                    raise ImageMissing(f"BUILDKIT_HOST={self.host} is no address of a BuildKit: {said}")
                self._variables = variables
            return self._variables

    def _await_answer(self, check: Check) -> Mapping[str, str]:
        """Return the same, once it has answered. Raises EngineUnavailable: it does not."""
        variables = self._begin(check)
        if not self._answers:
            status, _, said = self._run(variables, check, "inspect", "--bootstrap", _BUILDER)
            if status != 0:
                raise EngineUnavailable(
                    f"no BuildKit answers at BUILDKIT_HOST={self.host} ({said}): start it there, or correct the address"
                )
            self._answers = True
        return variables

    def _run(self, variables: Mapping[str, str], check: Check, *command: str) -> tuple[int | None, str, str]:
        """Run buildx to its end; return its exit status, what it printed, and the last line that it said."""
        printed, end = bytearray(), TailSink(2000)
        process = LocalCommand.start(
            ["docker", "buildx", *command], Path(variables["BUILDX_CONFIG"]), variables, end, printed.extend
        )
        result = process.run_checked(time.monotonic() + _PATIENCE, check)
        words = (
            f"no answer within {_PATIENCE:g} s" if result.timed_out else end.raw().decode(errors="replace")
        )
        said = last_line(words, 500).removeprefix("ERROR: ")
        return result.exit_status, printed.decode(errors="replace"), said


def _nothing() -> None:
    """Let it go on."""
