"""Other ids of trials: `NAME::SCENARIO[AGENT]`, where the id begins with a path.

Earlier versions gave such ids to trials of benchmarks that `--bench` named. They are still accepted on the command
line, and in the caches of `--lf`, `--ff` and `--nf`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from ..model.node_ids import by_name
from .items import TrialItem
from .private import id_of, last_failed, parsed_id, seen_before
from .state import state_of


def places_of(item: TrialItem) -> Iterator[str]:
    """Yield what the ids of a trial may begin with: its own id's beginning first."""
    parent: Any = item.parent
    yield from dict.fromkeys((parent.nodeid, item.source.benchmark, parent.benchmark or parent.nodeid))


def begins_with(item: TrialItem, beginnings: tuple[str, ...]) -> bool:
    """Return whether any id of a trial has one of these beginnings."""
    return any(f"{place}::{item.name}".startswith(beginnings) for place in places_of(item))


def open_every_file_for(config: pytest.Config) -> None:
    """Make `--lf` open every file, if it may remember trials of the named benchmarks by other ids.

    It opens only those whose path begins a remembered id. It still deselects what did not fail.
    """
    beginnings = tuple(f"{name}::" for name, _ in state_of(config).named if name is not None)
    wrapper = config.pluginmanager.get_plugin("lfplugin-collwrapper")
    if wrapper is not None and any(str(one).startswith(beginnings) for one in last_failed(config)):
        config.pluginmanager.unregister(wrapper)


def rename_remembered(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Give trials their own ids where pytest remembers them by others."""
    failed, seen = last_failed(config), seen_before(config)
    remembered = {str(one): one for one in (*failed, *seen)}
    places = {text.rpartition("::")[0] for text in remembered}
    others: dict[tuple[int, str], list[str]] = {}
    for item in items if remembered else ():
        if not isinstance(item, TrialItem):
            continue
        key = (id(item.parent), item.source.benchmark)
        if key not in others:
            others[key] = [place for place in (*places_of(item),)[1:] if place in places]
        for place in others[key]:
            one = remembered.get(f"{place}::{item.name}")
            if one in failed:
                failed[id_of(item)] = failed.pop(one)
            if one in seen:
                seen.remove(one)
                seen.add(id_of(item))


def forget_failure(config: pytest.Config, node_id: str, benchmark: str) -> None:
    """Forget another id of a reported trial, in the process that controls xdist workers: it has no items."""
    failed, other = last_failed(config), by_name(node_id, benchmark)
    if failed and other != node_id:
        failed.pop(parsed_id(other, failed), None)
