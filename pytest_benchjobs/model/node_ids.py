"""Node ids of trials: `PATH::SCENARIO[AGENT]`, or `NAME::SCENARIO[AGENT]` by the name of a benchmark.

Results of earlier versions have ids of the second form where trials now have ids of the first.
"""

from __future__ import annotations

from collections.abc import Iterable

_FILES = (".yaml", ".yml", ".toml", ".py")


def node_name(scenario: str, label: str, attempt: int | None = None) -> str:
    """Return the last part of the id of a trial; `attempt` is its number where there are several."""
    return f"{scenario}[{label}]" if attempt is None else f"{scenario}[{label}-{attempt}]"


def attempt_id(node_id: str, attempt: int) -> str:
    """Return the id of an attempt of a test that has several."""
    return f"{node_id[:-1]}-{attempt}]"


def group_id(node_id: str, attempt: int) -> str:
    """Return the id of the test that an attempt belongs to: without the number of the attempt."""
    ending = f"-{attempt}]"
    return node_id.removesuffix(ending) + "]" if node_id.endswith(ending) else node_id


def is_path(text: str) -> bool:
    """Return whether a text can be no name."""
    return "/" in text or text.endswith(_FILES)


def by_name(node_id: str, benchmark: str) -> str:
    """Return the id that begins with the name of the benchmark."""
    return f"{benchmark}::{node_id.rpartition('::')[2]}"


def paths_of_names(ids: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return ids by name -> ids by path of the same trials, among node ids with the names of their benchmarks.

    Where two paths have a trial of one name, neither is meant: they are different trials.
    """
    alike: dict[tuple[str, str], dict[str, None]] = {}
    for node_id, benchmark in ids:
        alike.setdefault((benchmark, node_id.rpartition("::")[2]), {})[node_id] = None
    found: dict[str, str] = {}
    for (benchmark, _), several in alike.items():
        if len(several) > 1:
            paths = [node_id for node_id in several if _has_path(node_id, benchmark)]
            if len(paths) == 1:
                found.update(dict.fromkeys(several.keys() - set(paths), paths[0]))
    return found


def _has_path(node_id: str, benchmark: str) -> bool:
    place, _, name = node_id.rpartition("::")
    # A task directory in the rootdir is called as its scenario.
    return place != benchmark and (is_path(place.partition("::")[0]) or name.startswith(f"{place}["))
