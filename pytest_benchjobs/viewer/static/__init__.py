"""Files of the page that browsers load: they come with the package and are the same for everyone."""

from __future__ import annotations

import functools
from importlib import resources
from importlib.resources.abc import Traversable

INDEX = "index.html"
_SUFFIXES = (".js", ".css", ".html", ".svg", ".json", ".txt")


@functools.cache
def static_files() -> dict[str, bytes]:
    """Return path -> content. All are read at once, so that no path of a request ever reaches a file system."""
    found: dict[str, bytes] = {}

    def read(place: Traversable, prefix: str) -> None:
        for entry in place.iterdir():
            if entry.is_dir():
                read(entry, f"{prefix}{entry.name}/")
            elif entry.name.endswith(_SUFFIXES):
                found[f"{prefix}{entry.name}"] = entry.read_bytes()

    read(resources.files(__package__), "")
    return found
