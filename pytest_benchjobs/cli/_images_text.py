"""Text of images and their sizes, for a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..report.documents.images import to_count
from ..report.table import Column, tabulate, width
from ..report.units import counted
from ..store.text import one_line
from ..system.units import size

if TYPE_CHECKING:
    from ..model.image import ImageSize
    from ..report.documents.images import ImagesDocument, ImageTotal

WORDS = {"here": "here", "build": "to build", "pull": "to pull"}
"""State of an image -> text."""
_REASON = 1000


def totals_line(totals: Sequence[ImageTotal]) -> str:
    """`12 images: 3 here, 1.2 GB; 9 to pull, about 14 GB, 2 of unknown size`."""
    parts = []
    for total in totals:
        part = f"{total.images} {WORDS[total.state]}"
        if total.unknown < total.images:
            part += f", {'' if total.state == 'here' else 'about '}{size(total.bytes)}"
            part += f", {total.unknown} of unknown size" if total.unknown else ""
        else:
            part += ", of unknown size"
        parts.append(part)
    listed = f": {'; '.join(parts)}" if parts else ""
    return f"{counted(sum(total.images for total in totals), 'image')}{listed}"


def amount(image: ImageSize) -> str:
    """Size of an image; `-` where it is unknown."""
    return _shown(to_count(image))


def image_name(image: str) -> str:
    """Return the name of an image; the path of a Dockerfile relative to the current directory where it is below."""
    path = os.path.relpath(image) if image.startswith("/") else image
    return one_line(image if path.startswith("..") else path)


def image_lines(document: ImagesDocument) -> Iterator[str]:
    """Lines of `benchmarks images`."""
    shown = [
        (Column("IMAGE", least=20), lambda image: image_name(image.image)),
        (Column("STATE"), lambda image: WORDS[image.state]),
        (Column("ON DISK", number=True), lambda image: _shown(image.bytes)),
        (Column("DOWNLOAD", number=True), lambda image: _shown(image.download)),
        (Column("SCENARIOS", number=True), lambda image: str(image.scenarios)),
    ]
    if document.images:
        yield from tabulate(document.images, width(), shown)
    for image in document.images:
        if image.error is not None:
            yield one_line(f"wrong: {image_name(image.image)}: {image.error}", _REASON)
    for why, scenarios in document.problems.items():
        yield one_line(f"cannot run: {counted(scenarios, 'scenario')}: {why}", _REASON)
    without = f", {document.without} without" if document.without else ""
    yield f"{totals_line(document.totals)}, for {counted(document.scenarios, 'scenario')}{without}"


def _shown(count: int | None) -> str:
    return "-" if count is None else size(count)
