"""Images: found, pulled or built, once per machine whoever asks first."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...model.errors import ImageBuildFailed, ImageMissing, ImageTooLarge, InfrastructureError
from ...model.result import ImageRecord
from ...model.scenario import Environment
from ...system.keeping import one_of, taken
from .dockerfile import canonical, lookup
from .engine import LABEL, Engine
from .ledger import Sizes
from .room import Room, Urgency
from .snapshots import find_snapshot

if TYPE_CHECKING:
    from .build import Recipe
    from .pulling import Check, Registries

_AT_ONCE = 4
"""Images that are pulled or built at a time, by all processes of this machine: more only share disk and line."""
HOLES = "holes"
"""Label of images of which files are packed."""
_REMEMBERED = 60.0
_SHARE = 10.0
"""A failure is remembered for so many times as long as it took to meet it: trying again costs a tenth of the time."""


@dataclasses.dataclass(frozen=True, slots=True)
class ResolvedImage:
    """An image of this machine, and what is needed of its configuration."""

    id: str
    record: ImageRecord
    workdir: str
    user: str
    entrypoint: tuple[str, ...]
    env: Mapping[str, str]
    driver: str = ""
    """Storage driver of its layers, as the engine calls it."""
    note: str | None = None
    """On how it was built, for the first trial that has it."""
    holes: bool = False
    """True if files of it are packed, as they have holes."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Wanted:
    """An image that somebody asks for, by all that decides which it is."""

    environment: Environment
    image_map: Mapping[str, str]
    arguments: Mapping[str, str]

    @property
    def image(self) -> str | None:
        """The one that is named, after mapping."""
        return named_image(self.environment, self.image_map)

    @property
    def key(self) -> tuple[object, ...]:
        return (
            self.environment.image_source,
            tuple(sorted(self.arguments.items())),
            tuple(sorted(self.image_map.items())),
        )


@dataclasses.dataclass
class _Slot:
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    image: ResolvedImage | None = None
    error: InfrastructureError | None = None
    until: float = 0.0
    """Time at which the error is forgotten."""


class Images:
    """Images that the trials of this process need, each resolved once. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._slots: dict[object, _Slot] = {}
        self._lock = threading.Lock()
        self._identified: dict[object, str] = {}
        self._identifying = threading.Lock()
        self._registries: Registries | None = None
        self._room: Room | None = None

    def keep_within(self, room: Room) -> None:
        """Bring images for a job from now on, and keep them within its room."""
        self._room = room

    def resolve(
        self,
        environment: Environment,
        image_map: Mapping[str, str],
        build_args: Mapping[str, str],
        check: Check = lambda: None,
        urgency: Urgency = Urgency.TRIAL,
    ) -> ResolvedImage:
        """The image of an environment: the named one if it is here or can be pulled, else built from its Dockerfile.

        `build_args` are added to the environment's own, and win. `check` is called several times a second; what it
        raises breaks off whatever goes on, and comes out here.

        Raises:
            ImageMissing: neither here nor to be pulled.
            ImageBuildFailed: the Dockerfile does not build, or not in time.
            ImageTooLarge: it alone takes more room than the job has.
            DiskFull: the engine has no room for it.
            NoRoomNow: the job has none at the moment, and no trial waits for it.
        """
        wanted = _Wanted(environment, image_map, {**environment.build_args, **build_args})
        with self._lock:
            slot = self._slots.setdefault(wanted.key, _Slot())
        with taken(slot.lock, check):
            if slot.error is not None and time.monotonic() < slot.until:
                raise type(slot.error)(str(slot.error))
            while (image := slot.image) is None or self._is_gone(image, check):
                slot.image = None
                slot.image = self._filled(slot, wanted, check, urgency)
            if image.note is not None and urgency is not Urgency.AHEAD:
                slot.image = dataclasses.replace(image, note=None)
            return image

    def _filled(self, slot: _Slot, wanted: _Wanted, check: Check, urgency: Urgency) -> ResolvedImage:
        """Resolve an image, and remember an error that every other trial would meet as well."""
        slot.error, started = None, time.monotonic()
        try:
            return self._resolve(wanted, check, urgency)
        except (ImageMissing, ImageBuildFailed, ImageTooLarge) as error:
            ended = time.monotonic()
            kept = max(_REMEMBERED, _SHARE * (ended - started))
            if _may_be_there(error):
                # It was the registry. The trial itself asks once more.
                kept = 0.0 if urgency is Urgency.AHEAD else _REMEMBERED
            slot.error, slot.until = error, ended + kept
            raise

    def _is_gone(self, image: ResolvedImage, check: Check) -> bool:
        """Return True if an image was removed so that others fit. One that is being removed is waited for."""
        if self._room is None:
            return False
        settled = self._room.settle(image.id, check)
        return (settled or self._room.limit is not None) and self._local(image.id) is None

    def key(
        self, environment: Environment, image_map: Mapping[str, str], build_args: Mapping[str, str]
    ) -> object:
        """Return what tells the image of an environment from others, as `Room` takes it."""
        return _Wanted(environment, image_map, {**environment.build_args, **build_args}).key

    def identify(
        self, environment: Environment, image_map: Mapping[str, str], build_args: Mapping[str, str]
    ) -> str | None:
        """The `key` of the image that `resolve` would give, as far as it can be told from what is here.

        Raises:
            ImageBuildFailed: the Dockerfile or its context cannot be read.
        """
        wanted = _Wanted(environment, image_map, {**environment.build_args, **build_args})
        # One at a time, so that what all trials share is looked at once; nobody pulls or builds meanwhile.
        with self._identifying:
            key = wanted.key
            known = self._identified.get(key)
            if known is None and (known := self._identify(wanted)) is not None:
                self._identified[key] = known
            return known

    def forget(self, image: str) -> None:
        """The image with this id is gone: look again next time."""
        with self._lock:
            for key, slot in list(self._slots.items()):
                if slot.image is not None and slot.image.id == image:
                    del self._slots[key]
        with self._identifying:
            self._identified.clear()

    def _identify(self, wanted: _Wanted) -> str | None:
        known = self._identify_whole(wanted)
        if known is None or wanted.environment.git_history is None:
            return known
        from .git_history import address

        return address(wanted.environment, known)

    def _identify_whole(self, wanted: _Wanted) -> str | None:
        if wanted.environment.image is None and wanted.environment.snapshot is not None:
            try:
                return str(find_snapshot(self._engine, wanted.environment.snapshot)["Id"])
            except ImageMissing:
                return None
        if wanted.image is not None and (found := self._local(wanted.image)) is not None:
            return str(found["Id"])
        if wanted.environment.dockerfile is None:
            return None
        recipe = self._recipe(wanted, wanted.environment.dockerfile)
        bases = {base: found["Id"] for base in recipe.bases if (found := self._local(base)) is not None}
        if len(bases) < len(recipe.bases):
            return None
        tag = recipe.tag(bases)
        # Where an image is named too, that one may yet be pulled; unless it was out of reach when this was built.
        return tag if wanted.image is None or self._local(tag) is not None else None

    def _resolve(self, wanted: _Wanted, check: Check, urgency: Urgency) -> ResolvedImage:
        image = self._resolve_whole(wanted, check, urgency)
        return image if wanted.environment.git_history is None else self._ended(wanted, image, check, urgency)

    def _ended(self, wanted: _Wanted, image: ResolvedImage, check: Check, urgency: Urgency) -> ResolvedImage:
        """Return an image over another, in which the history of repositories has ended."""
        from . import git_history

        environment, below = wanted.environment, image.record.key or image.id
        tag = git_history.address(environment, below)
        name = self._name(image.id)
        recipe = git_history.recipe(environment, name, image.workdir, image.user)
        try:
            found, _ = self._made(wanted, recipe, tag, {name: self._local(image.id) or {}}, check, urgency)
        except ImageBuildFailed as error:
            raise git_history.explained(error, wanted.image or environment.image_shown) from error
        record = image.record.model_copy(update={"id": found["Id"], "key": tag})
        return dataclasses.replace(resolved(found, record), note=image.note)

    def _name(self, image: str) -> str:
        """Return a name of an image for a `FROM`, which takes no id everywhere."""
        found = self._local(image) or {}
        return str((*(found.get("RepoTags") or ()), *(found.get("RepoDigests") or ()), image)[0])

    def _resolve_whole(self, wanted: _Wanted, check: Check, urgency: Urgency) -> ResolvedImage:
        named, dockerfile = wanted.environment.image, wanted.environment.dockerfile
        if wanted.environment.image is None and wanted.environment.snapshot is not None:
            # Never removed to make room: it could not be brought again.
            kept = find_snapshot(self._engine, wanted.environment.snapshot)
            record = ImageRecord(reference=wanted.environment.image_shown, id=kept["Id"], key=kept["Id"])
            return resolved(kept, record)
        if named is not None and wanted.image is not None:
            try:
                # What can be built instead is not held up.
                found = self._local(wanted.image) or self._pull(
                    wanted.image, check, urgency, key=wanted.key, patient=dockerfile is None
                )
            except ImageMissing:
                if dockerfile is None:
                    raise
            else:
                if self._room is not None:
                    self._room.note(wanted.key, str(found["Id"]), ())
                substituted = {} if wanted.image == named else {named: wanted.image}
                return resolved(
                    found,
                    ImageRecord(reference=named, id=found["Id"], key=found["Id"], substituted=substituted),
                )
        if dockerfile is None:
            raise ImageMissing("the scenario names neither an image nor a Dockerfile")
        return self._built(wanted, dockerfile, check, urgency)

    def _built(self, wanted: _Wanted, dockerfile: Path, check: Check, urgency: Urgency) -> ResolvedImage:
        recipe = self._recipe(wanted, dockerfile)
        bases = {base: self._local(base) or self._pull(base, check, urgency) for base in recipe.bases}
        tag = recipe.tag({base: str(found["Id"]) for base, found in bases.items()})
        found, new = self._made(wanted, recipe, tag, bases, check, urgency)
        record = ImageRecord(
            reference="Dockerfile", id=found["Id"], key=tag, substituted=dict(recipe.substituted)
        )
        return dataclasses.replace(resolved(found, record), note=recipe.note if new else None)

    def _made(
        self,
        wanted: _Wanted,
        recipe: Recipe,
        tag: str,
        bases: Mapping[str, Mapping[str, Any]],
        check: Check,
        urgency: Urgency,
    ) -> tuple[dict[str, Any], bool]:
        """Return the image with a tag over these, and whether it had to be built."""
        found, new = self._local(tag), False
        if found is None:
            with _machine_lock(tag, check):
                found = self._local(tag)
                if found is None:
                    below = max((int(base.get("Size") or 0) for base in bases.values()), default=0)
                    with self._bringing(tag, urgency, check, wanted.key, base=below):
                        from .build import build

                        with _turn(check):
                            build(self._engine, recipe, tag, wanted.environment.build_timeout, check)
                        found, new = self._local(tag), True
        if found is None:
            raise ImageBuildFailed(
                f"{recipe.dockerfile}: the build succeeded, but the engine does not have its image"
            )
        if self._room is not None:
            self._room.note(wanted.key, str(found["Id"]), tuple(str(base["Id"]) for base in bases.values()))
        return found, new

    @contextlib.contextmanager
    def _bringing(
        self, name: str, urgency: Urgency, check: Check, key: object = None, *, base: int | None = None
    ) -> Iterator[None]:
        """Make room for an image that is brought inside, and record it as the job's. `base`: bytes it is built from."""
        room = self._room
        if room is None:
            yield
            return

        def sizes() -> Sizes | None:
            from .registry import NoAnswer, sizes_of

            with contextlib.suppress(NoAnswer):
                return None if base is not None else sizes_of(name, self._engine.get("/version")["Arch"])
            return None

        with room.bringing(name, urgency, check, sizes, base or 0):
            yield
            if (found := self._local(name)) is not None:
                # Needed before it is there for the taking.
                if key is not None:
                    room.note(key, str(found["Id"]), ())
                room.record(name, found, urgency)

    def _local(self, name: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self._engine.get(f"/images/{name}/json")
        return found

    def _pull(
        self, name: str, check: Check, urgency: Urgency, *, key: object = None, patient: bool = True
    ) -> dict[str, Any]:
        from .pulling import Refused, Registries

        with self._lock:
            registries = self._registries = self._registries or Registries(self._engine, _turn)
        with _machine_lock(f"pull-{canonical(name)}", check):
            found = self._local(name)
            if found is not None:
                return found
            with self._bringing(name, urgency, check, key):
                try:
                    registries.pull(name, check, patient=patient)
                except Refused as error:
                    raise _missing(name, str(error)) from error
                found = self._local(name)
        if found is None:
            raise _missing(name, "the pull succeeded, but the engine does not have it")
        return found

    def _recipe(self, wanted: _Wanted, dockerfile: Path) -> Recipe:
        # With it comes the engine's client library, which most scenarios need only later.
        from .build import Recipe

        context = wanted.environment.context or dockerfile.parent
        return Recipe.read(
            dockerfile,
            context,
            wanted.image_map,
            wanted.arguments,
            self._platform,
            wanted.environment.hidden,
        )

    def _platform(self) -> dict[str, str]:
        """Return what BuildKit calls the engine's machine, for which images are built."""
        version = self._engine.get("/version")
        system, machine = str(version["Os"]), str(version["Arch"])
        names = {"PLATFORM": f"{system}/{machine}", "OS": system, "ARCH": machine}
        return {f"{of}{name}": value for of in ("TARGET", "BUILD") for name, value in names.items()}


def named_image(environment: Environment, image_map: Mapping[str, str]) -> str | None:
    """Return the image that an environment names, after mapping; None: it only has a Dockerfile."""
    named = environment.image
    return None if named is None else lookup(named, image_map) or named


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
        driver=str((found.get("GraphDriver") or {}).get("Name", "")),
        holes=bool((config.get("Labels") or {}).get(f"{LABEL}{HOLES}")),
    )


def _missing(name: str, reason: str) -> ImageMissing:
    return ImageMissing(
        f"image {name} is not on this machine and cannot be pulled: {reason.strip()}. "
        f"Pull or build it, or replace it with --bench-image-map {name}=OTHER"
    )


def _may_be_there(error: Exception) -> bool:
    """Return True if an image is missing only as its registry did not answer."""
    from .pulling import Unreachable

    return isinstance(error.__cause__, Unreachable)


@contextlib.contextmanager
def _machine_lock(name: str, check: Check) -> Iterator[None]:
    """Held by one process of this machine at a time. Where nobody can hold it, at worst an image is built twice."""
    with one_of([name.replace("/", "-").replace(":", "-")], check):
        yield


@contextlib.contextmanager
def _turn(check: Check) -> Iterator[None]:
    """Held by whoever pulls or builds: only so many do at a time."""
    with one_of([f"turn-{number}" for number in range(_AT_ONCE)], check):
        yield
