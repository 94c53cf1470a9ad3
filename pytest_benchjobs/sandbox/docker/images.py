"""Images: found, pulled or built, once per machine; those that were built, once for all machines with a registry."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ...model.errors import ImageBuildFailed, ImageMissing, ImageTooLarge, InfrastructureError
from ...model.image import ImageSize
from ...model.job import JobConfig, Owner
from ...model.owner import current_owner
from ...model.result import ImageRecord
from ...model.scenario import Environment
from ...system.keeping import one_of, taken
from ..protocol import ImageRequest
from .dockerfile import canonical, familiar, lookup
from .engine import LABEL, Engine
from .image_budget import NoRoomNow, Urgency
from .snapshots import find_snapshot

if TYPE_CHECKING:
    from .build import Recipe
    from .image_budget import ImageBudget
    from .pulling import Check, Registries
    from .registry import RegistrySizes

_AT_ONCE = 4
"""Images that are pulled or built at a time, by all processes of this machine: more only share disk and line."""
HOLES = "holes"
"""Label of images of which files are packed."""
_OURS = ("benchjobs/", "benchjobs-kept")
"""Beginnings of the names of images that are in no registry."""
_NOTHING_NAMED = "the scenario names neither an image nor a Dockerfile"
_REMEMBERED = 60.0
_NO_ROOM_SECONDS = 0.5
_SHARE = 10.0
"""A failure is remembered for this multiple of the time that it took: retries cost a tenth of the time."""


@dataclasses.dataclass(frozen=True, slots=True)
class ResolvedImage:
    """An image of this machine, and what is needed of its configuration."""

    id: str
    record: ImageRecord
    workdir: str
    user: str
    entrypoint: tuple[str, ...]
    env: Mapping[str, str]
    note: str | None = None
    """On how it was built, for the first trial that has it."""
    holes: bool = False
    """True if files of it are packed, as they have holes."""


@dataclasses.dataclass(eq=False)
class Slot:
    """An image that trials need, by all that decides which it is: resolved once."""

    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    image: ResolvedImage | None = None
    removals: int = 0
    """Number of images that jobs had removed when it was last known to be here."""
    ids: tuple[str, ...] = ()
    """Its id, and those of the images it was built from, once they are known."""
    error: InfrastructureError | None = None
    until: float = 0.0
    """Time at which the error is forgotten."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Wanted:
    """An image that somebody waits for, how urgently, and what stops the wait."""

    request: ImageRequest
    slot: Slot
    check: Check
    urgency: Urgency

    @property
    def environment(self) -> Environment:
        return self.request.environment


class Images:
    """Images that the trials of this process need, each resolved once: the `ImageBuilder` of an engine. Thread-safe."""

    def __init__(self, engine: Engine, owner: Owner | None = None) -> None:
        self._engine = engine
        self._owner = owner or current_owner()
        self._slots: dict[object, Slot] = {}
        self._lock = threading.Lock()
        self._identified: dict[object, str] = {}
        self._identifying = threading.Lock()
        self._registries: Registries | None = None
        self._refusing: set[str] = set()
        """Registries that took no image from us."""
        self._budget: ImageBudget | None = None

    def supply(self, job: str, config: JobConfig) -> ImageBudget:
        """Return what brings the images of a job ahead of its trials, and keeps them within its budget."""
        from .image_budget import ImageBudget

        return ImageBudget(self._engine, self, self._owner, job, config)

    def keep_within(self, budget: ImageBudget) -> None:
        """Bring images for a job from now on, and keep them within its budget."""
        self._budget = budget

    def resolve(
        self, request: ImageRequest, check: Check = lambda: None, urgency: Urgency = Urgency.TRIAL
    ) -> ResolvedImage:
        """The image of an environment: the named one if it is here or can be pulled, else built from its Dockerfile.

        `check` is called several times a second; what it raises breaks off whatever goes on, and comes out here. It is
        an `ImageMissing`, `ImageBuildFailed`, `ImageTooLarge` or `DiskFull` if there can be none, and `NoRoomNow` where
        no trial waits for it.
        """
        wanted = _Wanted(request, self.slot(request), check, urgency)
        while True:
            try:
                with taken(wanted.slot.lock, check):
                    return self._settled(wanted)
            except NoRoomNow:
                if urgency is Urgency.AHEAD:
                    raise
            # A trial that makes room may need the lock, so it is not held meanwhile.
            check()
            time.sleep(_NO_ROOM_SECONDS)

    def ensure(self, request: ImageRequest, check: Check) -> str:
        """Resolve an image, and return its name by digest, under which a registry has it; it is pushed if need be."""
        from .pulling import Refused

        with self._engine.guard():
            image = self.resolve(request, check)
            found, named = self._local(image.id) or {}, named_image(request) or ""
            named_by = found.get("RepoDigests") or ()  # Podman also names so what no registry has
            there = [
                one for one in named_by if not familiar(one).startswith(_OURS) and "localhost/" not in one
            ]
            if there or request.registry is None:
                there.sort(key=lambda name: not named.startswith(name.partition("@")[0]))
                return str((*there, image.id)[0])
            key = image.record.key
            name = self._shared_name(
                request, key if key != image.id else f"image:{key.removeprefix('sha256:')}"
            )
            try:
                # The name is on the engine while it is pushed: whoever pushes it too would take it away.
                with machine_lock(f"push-{name}", check):
                    return self._registry().push(image.id, str(name), check)
            except Refused as error:
                raise ImageMissing(not_pushed(request, error)) from error

    def slot(self, request: ImageRequest) -> Slot:
        """Return the place of what is known of an image."""
        with self._lock:
            return self._slots.setdefault(request.key, Slot())

    def identify(self, request: ImageRequest) -> str | None:
        """The `key` of the image that `resolve` would give, with those of services, as far as local images tell.

        It is an `ImageBuildFailed` if the Dockerfile or its context cannot be read.
        """
        found, compose = self._identify_alone(request), request.environment.compose
        if compose is None or found is None:
            return found
        keys = {name: self._identify_alone(request.of_service(one)) for name, one in compose.images.items()}
        known = {name: key for name, key in keys.items() if key is not None}
        return combined_key(found, known) if len(known) == len(keys) else None

    def _identify_alone(self, request: ImageRequest) -> str | None:
        # One at a time, so that what all trials share is looked at once; nobody pulls or builds meanwhile.
        with self._identifying:
            key = request.key
            known = self._identified.get(key)
            if known is None and (known := self._identify(request)) is not None:
                if request.environment.git_history is not None:
                    from .git_history import address

                    known = address(request.environment, known)
                self._identified[key] = known
            return known

    @functools.cached_property
    def sizes(self) -> RegistrySizes:
        """Sizes of images, from registries."""
        from .registry import RegistrySizes

        return RegistrySizes(self._engine)

    def weigh(self, request: ImageRequest, *, ask: bool) -> ImageSize:
        """Return the size of the image that `resolve` would give, as remembered where it is not here.

        `ask`: registries, too. Errors are those of `identify`; it is an `ImageMissing` if there is no image to name.
        """
        name, environment = named_image(request), request.environment
        if name is None and environment.dockerfile is None and environment.snapshot is None:
            raise ImageMissing(_NOTHING_NAMED)
        shown = name or environment.image_shown
        # A layer that ends the history of repositories is small, and made of an image that has to be here.
        whole = environment.model_copy(update={"git_history": None})
        key = self._identify_alone(dataclasses.replace(request, environment=whole))
        if key is not None and (found := self._local(key)) is not None:
            return ImageSize(image=shown, state="here", bytes=int(found.get("Size") or 0))
        record = self.sizes.record
        if name is None:
            return ImageSize(image=shown, state="build", bytes=None if key is None else record.sizes.get(key))
        told = self.sizes.of(name) if ask else record.told.get(name)
        download = None if told is None else told.stored
        return ImageSize(image=shown, state="pull", bytes=record.sizes.get(name), download=download)

    def forget(self, image: str) -> None:
        """The image with this id is gone: look again next time."""
        with self._lock:
            for slot in self._slots.values():
                if slot.image is not None and slot.image.id == image:
                    slot.image = None
        with self._identifying:
            self._identified.clear()

    def _settled(self, wanted: _Wanted) -> ResolvedImage:
        """Return the image of a slot, which is not removed while it is needed. Call with its lock held."""
        slot = wanted.slot
        if slot.error is not None and time.monotonic() < slot.until:
            raise type(slot.error)(str(slot.error))
        while True:
            removals = 0 if self._budget is None else self._budget.removals()
            if (image := slot.image) is not None and (slot.removals == removals or self._local(image.id)):
                break
            slot.image, slot.removals = self._filled(wanted), removals
            if self._budget is not None:
                # From here on it stays.
                self._budget.publish()
        slot.removals = removals
        if image.note is not None and wanted.urgency is not Urgency.AHEAD:
            slot.image = dataclasses.replace(image, note=None)
        return image

    def _filled(self, wanted: _Wanted) -> ResolvedImage:
        """Resolve an image, and remember an error that every other trial would meet as well."""
        slot, started = wanted.slot, time.monotonic()
        slot.error = None
        try:
            image = self._resolve(wanted)
            return image if wanted.environment.git_history is None else self._ended(wanted, image)
        except (ImageMissing, ImageBuildFailed, ImageTooLarge) as error:
            from .pulling import Unreachable

            ended = time.monotonic()
            kept = max(_REMEMBERED, _SHARE * (ended - started))
            if isinstance(error.__cause__, Unreachable):
                # It was the registry. The trial itself asks once more.
                kept = 0.0 if wanted.urgency is Urgency.AHEAD else _REMEMBERED
            slot.error, slot.until = error, ended + kept
            raise

    def _identify(self, request: ImageRequest) -> str | None:
        environment, name = request.environment, named_image(request)
        if name is None and environment.snapshot is not None:
            try:
                return str(find_snapshot(self._engine, environment.snapshot)["Id"])
            except ImageMissing:
                shared = self._shared_name(request, _snapshot_key(environment))
                found = None if shared is None else self._local(shared)
                return None if found is None else str(found["Id"])
        if name is not None and (found := self._local(name)) is not None:
            return str(found["Id"])
        if environment.dockerfile is None:
            return None
        recipe = self._recipe(request)
        bases = {base: found["Id"] for base in recipe.bases if (found := self._local(base)) is not None}
        if len(bases) < len(recipe.bases):
            return None
        tag = recipe.tag(bases)
        # Where an image is named too, that one may yet be pulled; unless it was out of reach when this was built.
        return tag if name is None or self._local(tag) is not None else None

    def _ended(self, wanted: _Wanted, image: ResolvedImage) -> ResolvedImage:
        """Return an image over another, in which the history of repositories has ended."""
        from . import git_history

        environment, below = wanted.environment, self._local(image.id) or {"Id": image.id}
        tag = git_history.address(environment, image.record.key or image.id)
        # A `FROM` does not take an id everywhere.
        name = str((*(below.get("RepoTags") or ()), *(below.get("RepoDigests") or ()), image.id)[0])
        recipe = git_history.recipe(environment, name, image.workdir, image.user)
        try:
            found, _ = self._built(wanted, recipe, tag, {name: below})
        except ImageBuildFailed as error:
            raise git_history.explained(
                error, named_image(wanted.request) or environment.image_shown
            ) from error
        record = image.record.model_copy(update={"id": found["Id"], "key": tag})
        return dataclasses.replace(resolved(found, record), note=image.note)

    def _resolve(self, wanted: _Wanted) -> ResolvedImage:
        environment, dockerfile = wanted.environment, wanted.environment.dockerfile
        if environment.image is None and environment.snapshot is not None:
            return self._snapshot(wanted)
        if (name := named_image(wanted.request)) is not None:
            try:
                # What can be built instead is not held up.
                found = self._pulled(name, wanted, patient=dockerfile is None, slot=wanted.slot)
                return _named(found, environment.image_shown, name)
            except ImageMissing:
                if dockerfile is None:
                    raise
        if dockerfile is None:
            raise ImageMissing(_NOTHING_NAMED)
        recipe = self._recipe(wanted.request)
        bases = {base: self._pulled(base, wanted) for base in recipe.bases}
        tag = recipe.tag({base: str(found["Id"]) for base, found in bases.items()})
        shared = self._shared_name(wanted.request, tag)
        found, is_new = self._built(wanted, recipe, tag, bases, shared)
        record = ImageRecord(
            reference="Dockerfile", id=found["Id"], key=tag, substituted=dict(recipe.substituted)
        )
        notes = recipe.note if is_new else None, self._share(wanted, found, shared)
        return dataclasses.replace(resolved(found, record), note="; ".join(filter(None, notes)) or None)

    def _snapshot(self, wanted: _Wanted) -> ResolvedImage:
        """Return what was kept of a trial, from the registry of the job if that was on another machine."""
        environment = wanted.environment
        shared = self._shared_name(wanted.request, _snapshot_key(environment))
        try:
            # Never removed to make room: without a registry it could not be brought again.
            found = find_snapshot(self._engine, str(environment.snapshot))
        except ImageMissing as error:
            if shared is None:
                raise
            try:
                found = self._pulled(shared, wanted, slot=wanted.slot)
            except ImageMissing as other:
                raise ImageMissing(f"{error}. Nor is it in --bench-registry: {other}") from other.__cause__
            return _named(found, environment.image_shown)
        return dataclasses.replace(
            _named(found, environment.image_shown), note=self._share(wanted, found, shared)
        )

    def _shared_name(self, request: ImageRequest, key: str) -> str | None:
        """Return the name of an image in the registry of the job, if it has one. It is for one architecture."""
        if request.registry is None:
            return None
        return shared_name(request.registry, key, self._platform()["TARGETARCH"])

    def _share(self, wanted: _Wanted, image: Mapping[str, Any], name: str | None) -> str | None:
        """Push an image that is here to the registry of the job; return a note if that takes none."""
        from .pulling import Refused, Unreachable

        registry = str(wanted.request.registry)
        if name is None or registry in self._refusing:
            return None
        try:
            with machine_lock(f"push-{name}", wanted.check):
                self._registry().push(str(image["Id"]), name, wanted.check)
        except Refused as error:
            if not isinstance(error, Unreachable):
                self._refusing.add(registry)
            return not_pushed(wanted.request, error)
        return None

    def _registry(self) -> Registries:
        """Return what pulls and pushes, made once: with it comes the engine's client library."""
        from .pulling import Registries

        with self._lock:
            self._registries = self._registries or Registries(self._engine, turn)
        return self._registries

    def _built(
        self,
        wanted: _Wanted,
        recipe: Recipe,
        tag: str,
        bases: Mapping[str, Mapping[str, Any]],
        shared: str | None = None,
    ) -> tuple[dict[str, Any], bool]:
        """Return the image with a tag over these, and True if it had to be built, or pulled by the name `shared`."""

        def make() -> None:
            from .build import build
            from .pulling import Refused

            if shared is not None:
                with contextlib.suppress(Refused):
                    self._registry().pull(shared, wanted.check, patient=False)
                    repository, _, version = tag.rpartition(":")
                    self._engine.client.tag(shared, repository, version)
                    self._registry().untag(shared)
                    return
            with turn(wanted.check):
                build(self._engine, recipe, tag, wanted.environment.build_timeout, wanted.check)

        below = max((int(base.get("Size") or 0) for base in bases.values()), default=0)
        found, is_new = self._brought(tag, tag, wanted, make, wanted.slot, below)
        if found is None:
            raise ImageBuildFailed(
                f"{recipe.dockerfile}: the build succeeded, but the engine does not have its image"
            )
        wanted.slot.ids = tuple(str(image["Id"]) for image in (found, *bases.values()))
        return found, is_new

    def _pulled(
        self, name: str, wanted: _Wanted, *, patient: bool = True, slot: Slot | None = None
    ) -> dict[str, Any]:
        """Return an image, which is pulled if need be; that of `slot`, or one to build on."""

        def pull() -> None:
            from .pulling import Refused

            try:
                self._registry().pull(name, wanted.check, patient=patient)
            except Refused as error:
                raise _missing(name, str(error)) from error

        found, _ = self._brought(name, f"pull-{canonical(name)}", wanted, pull, slot)
        if found is None:
            raise _missing(name, "the pull succeeded, but the engine does not have it")
        if slot is not None:
            slot.ids = (str(found["Id"]),)
        return found

    def _brought(
        self,
        name: str,
        lock: str,
        wanted: _Wanted,
        bring: Callable[[], None],
        slot: Slot | None,
        base: int | None = None,
    ) -> tuple[dict[str, Any] | None, bool]:
        """Return the image with a name, and True if it had to be brought; `base`: bytes of what it is built on."""
        if (found := self._local(name)) is not None:
            return found, False
        with machine_lock(lock, wanted.check), contextlib.ExitStack() as room:
            if (found := self._local(name)) is not None:
                return found, False
            if self._budget is not None:
                room.enter_context(self._budget.bringing(name, wanted.urgency, wanted.check, base))
            bring()
            found = self._local(name)
            if self._budget is not None and found is not None:
                if slot is not None:
                    # Needed before it is there for the taking.
                    slot.ids = (str(found["Id"]),)
                self._budget.record(name, found, wanted.urgency)
            return found, True

    def _local(self, name: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self._engine.get(f"/images/{name}/json")
        return found

    def _recipe(self, request: ImageRequest) -> Recipe:
        # With it comes the engine's client library, which most scenarios need only later.
        from .build import Recipe

        return Recipe.read(request, self._platform)

    def _platform(self) -> dict[str, str]:
        """Return what BuildKit calls the engine's machine, for which images are built."""
        version = self._engine.get("/version")
        return platform_of(str(version["Os"]), str(version["Arch"]))


def platform_of(system: str, machine: str) -> dict[str, str]:
    """Return the variables that BuildKit sets for builds on and for a machine, as Go calls it."""
    names = {"PLATFORM": f"{system}/{machine}", "OS": system, "ARCH": machine}
    return {f"{of}{name}": value for of in ("TARGET", "BUILD") for name, value in names.items()}


def shared_name(registry: str, key: str, architecture: str) -> str:
    """Return the name of an image with this key in a registry, `HOST/PATH`."""
    repository, _, tag = key.rpartition(":")
    return f"{registry}:{repository.rpartition('/')[2]}-{tag}-{architecture}"


def named_image(request: ImageRequest) -> str | None:
    """Return the image that an environment names, after mapping; None: it names none."""
    named = request.environment.image
    return None if named is None else lookup(named, request.image_map) or named


def _named(found: Mapping[str, Any], reference: str, name: str | None = None) -> ResolvedImage:
    """Return an image that is known by its id, and by `name` instead of `reference` where that was mapped."""
    substituted = {} if name is None or name == reference else {reference: name}
    record = ImageRecord(reference=reference, id=found["Id"], key=found["Id"], substituted=substituted)
    return resolved(found, record)


def resolved(found: Mapping[str, Any], record: ImageRecord) -> ResolvedImage:
    """Return what is needed of what the engine says of an image."""
    config = found.get("Config") or {}
    variables = (variable.partition("=") for variable in config.get("Env") or [])
    return ResolvedImage(
        id=found["Id"],
        record=record,
        workdir=config.get("WorkingDir") or "",
        user=config.get("User") or "",
        entrypoint=tuple(config.get("Entrypoint") or ()),
        env={name: value for name, _, value in variables},
        holes=bool((config.get("Labels") or {}).get(f"{LABEL}{HOLES}")),
    )


def combined_key(own: str, keys: Mapping[str, str]) -> str:
    """Return the identity of the images of a trial; that of its own image alone where there are no others."""
    return " ".join((own, *(f"{name}={keys[name]}" for name in sorted(keys))))


def _snapshot_key(environment: Environment) -> str:
    """Return a key of a snapshot by its name: there is no other on a machine that does not have it."""
    return f"snapshot:{hashlib.sha256(str(environment.snapshot).encode()).hexdigest()[:20]}"


def not_pushed(request: ImageRequest, why: Exception) -> str:
    """Return that a registry does not take an image, and what to do."""
    image, registry = request.environment.image_shown, str(request.registry)
    return (
        f"{image}: its image cannot be pushed to --bench-registry {registry}, so other machines build it themselves: "
        f"{str(why).strip().rstrip('.')}. Make the repository, if the registry wants that, and log in with "
        f"`docker login {registry.partition('/')[0]}` as somebody who may push to it"
    )


def _missing(name: str, reason: str) -> ImageMissing:
    return ImageMissing(
        f"image {name} is not on this machine and cannot be pulled: {reason.strip()}. "
        f"Pull or build it, or replace it with --bench-image-map {name}=OTHER"
    )


def machine_lock(name: str, check: Check) -> AbstractContextManager[None]:
    """Held by one process of this machine at a time. Without locks, at worst an image is built twice."""
    return one_of([name.replace("/", "-").replace(":", "-")], check)


def turn(check: Check) -> AbstractContextManager[None]:
    """Held during a pull or a build, which limits how many run at a time."""
    return one_of([f"turn-{number}" for number in range(_AT_ONCE)], check)
