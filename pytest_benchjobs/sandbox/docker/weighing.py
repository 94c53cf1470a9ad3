"""Sizes of images: of those that are here as the engine says, of others as this machine remembers or registries say."""

from __future__ import annotations

from collections.abc import Mapping

from ...model.errors import ImageMissing
from ...model.image import ImageSize
from ...model.scenario import Environment
from .engine import Engine
from .images import Images, named_image
from .registry import RegistrySizes


def weigh(
    engine: Engine,
    images: Images,
    sizes: RegistrySizes,
    environment: Environment,
    image_map: Mapping[str, str],
    build_args: Mapping[str, str],
    *,
    ask: bool,
) -> ImageSize:
    """Return the size of the image that these would give. `ask`: registries, too. Thread-safe.

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
    key = images.identify(whole, image_map, build_args)
    found = None if key is None else engine.get(f"/images/{key}/json")
    if found is not None:
        return ImageSize(image=shown, state="here", bytes=int(found.get("Size") or 0))
    record = sizes.record
    if name is None:
        return ImageSize(image=shown, state="build", bytes=None if key is None else record.sizes.get(key))
    told = sizes.of(name) if ask else record.told.get(name)
    download = None if told is None else told.stored
    return ImageSize(image=shown, state="pull", bytes=record.sizes.get(name), download=download)
