"""Pasted ids of trials among pytest's arguments: the files and benchmarks that they name.

pytest itself accepts no `::` after a directory, in a name, or after anything but a path, and counts what it left out
of a file as collected. Agents and attempts of ids are settings, see `job_settings`.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..model.errors import InputError
from ..model.node_ids import is_path
from ..sources import open_source
from ..sources.manifest import SUFFIXES
from ..system.paths import exists, is_directory
from .catalogue import find, is_known
from .collect import is_task, node_path
from .excerpts import in_words
from .job_settings import settings_of
from .options import usage_error
from .state import state_of

if TYPE_CHECKING:
    from ..sources.protocol import Source

    _Found = tuple[str, tuple[str | None, list[Source]]]
    """Beginning of the ids of a benchmark's trials; its name, if it has one, and its sources."""

_ESCAPES = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|([nrt]))")
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}


def take_node_ids(config: pytest.Config) -> bool:
    """Remove ids that pytest cannot look up from its arguments; return whether one names a benchmark."""
    before = len(state_of(config).named)
    places = {os.path.abspath(config.invocation_params.dir / one) for one in config.args if "::" not in one}  # noqa: PTH100
    try:
        kept = [_kept(config, one, places) if "::" in one else one for one in config.args]
    except InputError as error:
        raise usage_error(in_words(config, error)) from None
    arguments = list(dict.fromkeys(argument for argument in kept if argument is not None))
    if arguments != config.args:
        settings_of(config)  # before the ids are removed from the arguments
        config.args = arguments
    return len(state_of(config).named) > before


def benchmarks_of(config: pytest.Config) -> list[str]:
    """Return the benchmarks that ids among the arguments name."""
    found = []
    for argument in config.args:
        with contextlib.suppress(InputError):  # reported when the ids are looked up
            if "::" in argument and not exists(config.invocation_params.dir / argument.partition("::")[0]):
                found += [place for place, _ in _splits(argument) if _is_name(config, place)][:1]
    return found


def _splits(argument: str) -> Iterator[tuple[str, str]]:
    """Yield ways to split an id into a place and a name, the longest place first. A label has no `::`."""
    parts = argument.split("::")
    for split in range(len(parts) - 1, 0, -1):
        yield "::".join(parts[:split]), "::".join(parts[split:])


def _kept(config: pytest.Config, argument: str, places: AbstractSet[str]) -> str | None:
    """Choose the trials that an id names; return the argument that remains for pytest, None for none.

    Beside `--bench` an id narrows, so that what was printed can be added to the same command; beside a directory, one
    of the `places` among the arguments, it leaves nothing out, as in pytest.
    """
    state = state_of(config)

    def choose(beginning: str, name: str, *, covered: bool = False) -> None:
        state.pasted.setdefault(beginning, set()).add(name)
        if not covered:
            state.chosen.setdefault(beginning, set()).add(name)

    splits = list(_splits(argument))
    named = {name for name, _ in state.named if name is not None}
    for place, name in splits:
        if place in named:
            choose(place, name)
            return None
    place, name = splits[-1]
    path = Path(os.path.abspath(config.invocation_params.dir / place))  # noqa: PTH100  keeps links
    if exists(path):
        if not (is_task(path) if is_directory(path) else path.name.endswith(SUFFIXES)):
            return argument
        choose(node_path(config, path), name, covered=not places.isdisjoint(map(str, (path, *path.parents))))
        return place
    for look in (_at_path, _by_name):
        for place, name in splits:
            if (found := look(config, place)) is not None:
                beginning, sources = found
                if beginning not in state.pasted:
                    state.named.append(sources)
                choose(beginning, name)
                return None
    return argument


def _at_path(config: pytest.Config, text: str) -> _Found | None:
    """Return the source at the path that a text names, raw or escaped; see `model.escape`."""

    def meant(found: re.Match[str]) -> str:
        return _CONTROLS.get(found[3] or "") or chr(int(found[1] or found[2], 16))

    for name in dict.fromkeys((text, _ESCAPES.sub(meant, text))):
        path = config.invocation_params.dir / name
        if exists(path) and (source := open_source(path)) is not None:
            return node_path(config, path), (None, [source])
    return None


def _by_name(config: pytest.Config, text: str) -> _Found | None:
    if not _is_name(config, text):
        return None
    name, sources = find(config, text)
    return name or text, (name, sources)


def _is_name(config: pytest.Config, text: str) -> bool:
    return not is_path(text) and is_known(config, text)
