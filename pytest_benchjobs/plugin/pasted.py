"""Pasted ids of trials among pytest's arguments: the files and benchmarks that they name.

pytest itself accepts no `::` after a directory, in a name, or after anything but a path. Agents and attempts of ids are
handled in `implied`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ..sources import open_source
from ..system.paths import exists, is_directory
from .catalogue import find, is_known
from .collect import is_task, node_path
from .job_settings import settings_of
from .state import state_of

_MANIFESTS = (".bench.yaml", ".bench.yml", ".bench.toml")
_ESCAPES = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|([nrt]))")
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}


class _Place(NamedTuple):
    """The first part of an id, before a `::`, and the rest."""

    text: str
    name: str


def _splits(argument: str) -> Iterator[_Place]:
    """Yield ways to split an id, the longest place first. A label has no `::`."""
    parts = argument.split("::")
    for split in range(len(parts) - 1, 0, -1):
        yield _Place("::".join(parts[:split]), "::".join(parts[split:]))


def take_node_ids(config: pytest.Config) -> bool:
    """Remove ids that pytest cannot look up from its arguments; return whether one names a benchmark.

    Raises:
        pytest.UsageError: the benchmark cannot be read.
    """
    arguments: list[str] = []
    state = state_of(config)
    before = len(state.named)
    for argument in config.args:
        kept = _kept(config, argument) if "::" in argument else argument
        if kept is not None and kept not in arguments:
            arguments.append(kept)
    if arguments != config.args:
        settings_of(config)  # before the ids are removed from the arguments
        config.args = arguments
    return len(state.named) > before


def _kept(config: pytest.Config, argument: str) -> str | None:
    """Return the argument that remains for pytest; None for none."""
    state = state_of(config)
    here = config.invocation_params.dir
    named = {name for name, _ in state.named if name is not None}
    for place in _splits(argument):
        if place.text in named:
            state.chosen.setdefault(place.text, set()).add(place.name)
            return None
    first = _Place(*argument.split("::", 1))
    if exists(here / first.text):
        path = here / first.text
        task = is_directory(path) and is_task(path)
        if task or (path.name.endswith(_MANIFESTS) and "::" in first.name):
            state.chosen.setdefault(node_path(config, path), set()).add(first.name)
            return first.text
        return argument
    for place in _splits(argument):
        if (shown := _path(here, place.text)) is not None:
            source = open_source(shown)
            if source is not None:
                state.named.append((None, [source]))
                state.chosen.setdefault(node_path(config, shown), set()).add(place.name)
                return None
    for place in _splits(argument):
        if _is_benchmark(config, place.text):
            name, sources = find(config, place.text)
            state.named.append((name, sources))
            state.chosen.setdefault(name or place.text, set()).add(place.name)
            return None
    return argument


def benchmarks_of(config: pytest.Config) -> list[str]:
    """Return the benchmarks that ids among the arguments name."""
    found = []
    for argument in config.args:
        if "::" not in argument or exists(config.invocation_params.dir / argument.partition("::")[0]):
            continue
        found += [place.text for place in _splits(argument) if _is_benchmark(config, place.text)][:1]
    return found


def _is_benchmark(config: pytest.Config, name: str) -> bool:
    return not name.endswith((".py", *_MANIFESTS)) and "/" not in name and is_known(config, name)


def _path(here: Path, text: str) -> Path | None:
    """Return the file or directory that a text names, raw or escaped; see `model.escape`."""

    def meant(found: re.Match[str]) -> str:
        return _CONTROLS.get(found[3] or "") or chr(int(found[1] or found[2], 16))

    for name in (text, _ESCAPES.sub(meant, text)):
        path = here / name
        if exists(path):
            return path
    return None
