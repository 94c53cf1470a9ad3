"""An image that trials need: what has to be done to have it here, and its size."""

from __future__ import annotations

from typing import Literal

from .base import Model

ImageState = Literal["here", "build", "pull"]


class ImageSize(Model):
    """An image, and its size as far as it is known."""

    image: str
    """Its name after mapping, or the path of the Dockerfile it is built from."""
    state: ImageState
    """Work to do for it."""
    bytes: int | None = None
    """Bytes on the engine's disk, those of its base included. Of one that is not here: when it last was."""
    download: int | None = None
    """Bytes that its registry sends, which are compressed as a rule. Known only of what is to be pulled."""
