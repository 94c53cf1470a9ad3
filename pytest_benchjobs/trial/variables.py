"""Variables of an image that a scorer in a fresh place does not have, as they lead into what the agent left. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping

from ..sandbox.carry.own import PROGRAM_VARIABLES
from ..sandbox.paths import is_below

_ADDRESS = re.compile(r"\b(?!file:)[a-z][a-z0-9+.-]*://\S*", re.IGNORECASE)
_BETWEEN = re.compile(r"[:;,=\s\"']+")
_OPTION = re.compile(r"-+[A-Za-z]?|[^\w./]+")
_MOST_WORDS = 64


def withheld(variables: Mapping[str, str], trees: Iterable[str]) -> Iterator[str]:
    """Yield the names of those whose value has a part that is empty or inside a tree, whatever they are called.

    A relative part counts where there is such a file, or such a package of node: this yields NAME=PATH for it. HOME is
    never one, nor is what programs of the image are found by: there, the image's own stay.
    """
    trees = tuple(trees)
    for name, value in variables.items():
        if name in (*PROGRAM_VARIABLES, "HOME"):
            continue
        parts = value.split(":")
        paths = any(part.startswith("/") for part in parts) or not any(parts)
        words = [
            _OPTION.sub("", word, count=1) if _OPTION.match(word) else word
            for word in _BETWEEN.split(_ADDRESS.sub("", value))
        ]
        if (len(parts) > 1 and "" in parts and paths) or any(_is_led(word, trees) for word in words):
            yield name
        else:
            relative = [word for word in words[:_MOST_WORDS] if word and not word.startswith("/")]
            packages = (f"node_modules/{word.partition('/')[0]}" for word in relative)
            yield from (f"{name}={path}" for path in dict.fromkeys((*relative, *packages)))


def search_path(value: str) -> str:
    """Return a PATH without the workdir, which an empty or relative part of it would be in."""
    return ":".join(part for part in value.split(":") if part.startswith("/"))


def _is_led(word: str, trees: tuple[str, ...]) -> bool:
    if word.startswith("/"):
        return is_below(posixpath.normpath(word), trees)
    return word in (".", "..") or word.startswith(("./", "../"))
