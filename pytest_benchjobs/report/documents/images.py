"""The document of `benchmarks images`, and totals of images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...model.base import Model
from ...model.image import ImageSize, ImageState
from . import Document

_STATES: tuple[ImageState, ...] = ("here", "pull", "build")


class ImageTotal(Model):
    """Images of one state."""

    state: ImageState
    images: int
    bytes: int
    """Sum of the known sizes: on disk; for images to pull the compressed size, where that is known."""
    unknown: int
    """Images of unknown size, not in the sum."""


class ListedImage(ImageSize):
    """An image that scenarios need."""

    scenarios: int
    error: str | None = None
    """Reason why its size could not be found, or why it could not be pulled or built."""


class ImagesDocument(Document):
    """`benchjobs benchmarks images`."""

    benchmark: str
    scenarios: int
    """Scenarios that need images."""
    without: int
    """Scenarios that need no image: they are questions, or would be skipped."""
    problems: dict[str, int] = {}
    """Reason why a scenario cannot run -> scenarios."""
    images: tuple[ListedImage, ...]
    totals: tuple[ImageTotal, ...]


def totals(images: Iterable[ImageSize]) -> Iterator[ImageTotal]:
    """Yield the total of each state there is."""
    there = list(images)
    for state in _STATES:
        sizes = [to_count(image) for image in there if image.state == state]
        if sizes:
            known = [size for size in sizes if size is not None]
            yield ImageTotal(
                state=state, images=len(sizes), bytes=sum(known), unknown=len(sizes) - len(known)
            )


def to_count(image: ImageSize) -> int | None:
    """Return the size to count: compressed for an image to pull, where that is known, else on disk."""
    return image.bytes if image.download is None else image.download
