"""Profiles and job files: lookup and parsing."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..model.agent import AgentSpec
from ..model.errors import InputError
from ..model.node_ids import is_path
from ..sources.complaints import Complaints, Written, did_you_mean
from ..sources.documents import Document, read_document
from ..sources.plain import Place, table_of
from ..system.paths import exists
from .agents import read_agent
from .extra import PER_BENCHMARK, canonical, read_extra, read_file, read_per_benchmark
from .layers import Layer
from .table import ALIASES, BY_NAME, IN_FILES
from .types import WrittenAgent, WrittenMatrix
from .values import overlay
from .written import Settings

DIRECTORY = "benchjobs-profiles"
_SUFFIXES = (".toml", ".yaml", ".yml", ".json")
_TABLE: Place = ("tool", "benchjobs", "profiles")


def read_job_file(path: Path) -> Layer:
    """Read a job file. InputErrors: every mistake in it, with file and line."""
    return _layer(read_file(path), ())


def read_profile(name: str, rootdir: Path, directory: Path) -> Layer:
    """Read a profile: one of pyproject.toml, or a file, by name or path. InputErrors: every mistake in it."""
    return _layer(*_profile(name, rootdir, directory))


def names_benchmarks(
    profiles: Iterable[str], job_files: Iterable[Path], rootdir: Path, directory: Path
) -> bool:
    """Return whether a profile or job file names benchmarks. InputError: one is missing, or cannot be read."""
    found = [_profile(name, rootdir, directory) for name in profiles]
    found += [(read_file(path), ()) for path in job_files]
    keys = {key for document, place in found for key in table_of(_at(document, place))}
    return any(ALIASES.get(key, key) == "benchmarks" for key in keys)


def _profile(name: str, rootdir: Path, directory: Path) -> tuple[Document, Place]:
    """Return the file of a profile, and its place in it."""
    if "/" in name or name.endswith(_SUFFIXES):
        return read_file(directory / name), ()
    pyproject = rootdir / "pyproject.toml"
    known = set(_listed(pyproject))
    if name in known:
        return read_document(pyproject, keys="profiles.md"), (*_TABLE, name)
    files = {path for suffix in _SUFFIXES for path in (rootdir / DIRECTORY).glob(f"*{suffix}")}
    named = sorted(path for path in files if path.stem == name)
    if len(named) > 1:
        raise InputError(f"there are two profiles {name!r}: {named[0].name} and {named[1].name}; remove one")
    if named:
        return read_file(named[0]), ()
    known |= {path.stem for path in files}
    hint = did_you_mean(name, known).strip() or (
        f"available: {', '.join(sorted(known))}"
        if known
        else f"write one into {DIRECTORY}/ or [tool.benchjobs.profiles.{name}] of pyproject.toml"
    )
    raise InputError(f"there is no profile {name!r}; {hint}")


def _listed(pyproject: Path) -> list[str]:
    """Return the names of the profiles in a pyproject.toml; a broken file has none, and pytest reports it."""
    try:
        data: Any = tomllib.loads(pyproject.read_text("utf-8"))
    except (OSError, ValueError):
        return []
    for key in _TABLE:
        data = data.get(key) if isinstance(data, dict) else None
    return list(data) if isinstance(data, dict) else []


def _layer(document: Document, place: Place) -> Layer:
    data = _at(document, place)
    complaints = Complaints(document)
    if not isinstance(data, dict):
        raise InputError("a table of keys is expected", path=document.path, line=document.line(place))
    _refuse_unknown(complaints, data, place)
    for key, setting in IN_FILES.items():
        # Other keys may be empty. Empty gates would let everything pass.
        if setting.gate and data.get(key, "") is None:
            complaints.wrong((*place, key), "is empty; give a value, or leave it out")
    known, written = canonical(complaints, Settings, data, place)
    found = complaints.check(Settings, known, lambda at: (*place, written[str(at[0])], *at[1:]))
    extra, benchmarks = read_extra(complaints, table_of(known.get("extra")), (*place, "extra"))
    # A value that is not a table was reported above.
    tables = {
        name: table for name, table in table_of(known.get(PER_BENCHMARK)).items() if isinstance(table, dict)
    }
    closer = read_per_benchmark(complaints, tables, (*place, PER_BENCHMARK))
    values = {} if found is None else _values(complaints, found, known, written, document.path.parent, place)
    complaints.raise_errors()

    def origin(name: str) -> str:
        key = BY_NAME[name].key if name in BY_NAME else name
        line = document.line((*place, written[key])) if key in written else None
        return f"{document.path.name}:{line}: {key}" if line else f"{document.path.name}: {key}"

    return Layer({**extra, **values}, overlay(benchmarks, closer), origin)


def _at(document: Document, place: Place) -> Any:
    data: Any = document.data
    for step in place:
        data = data[step]
    return data


def _refuse_unknown(complaints: Complaints, data: Mapping[str, Any], place: Place) -> None:
    known = (*Settings.model_fields, *ALIASES)
    for key in data:
        if ALIASES.get(key, key) not in Settings.model_fields:
            hint = did_you_mean(key, known) or " what is for agents or scorers belongs under `extra`"
            complaints.wrong((*place, key), f"unknown key;{hint}")
    complaints.unknown_keys(WrittenMatrix, data.get("matrix"), (*place, "matrix"))
    for key in ("agents", "agent"):
        listed = data.get(key)
        for index, agent in enumerate(listed if isinstance(listed, list) else []):
            complaints.unknown_keys(WrittenAgent, agent, (*place, key, index))


def _values(
    complaints: Complaints,
    found: Written,
    known: Mapping[str, Any],
    written: Mapping[str, str],
    directory: Path,
    place: Place,
) -> dict[str, Any]:
    """Return the values of the file, by their names in layers."""
    values: dict[str, Any] = {}
    for key in sorted(known):
        setting, value = IN_FILES[key], getattr(found, key)
        if key == "benchmarks":
            # A path is from the directory of the file.
            paths = {text for text in value if is_path(text) and exists(directory / text)}
            values[setting.name] = [str(directory / text) if text in paths else text for text in value]
        elif key == "agents":
            values[setting.name] = list(_agents(complaints, value, (*place, written[key]), directory))
        elif key == "filter":
            values[setting.name] = list(value.items())
        elif key == "matrix":
            values |= {"parameters": value.parameters, "exclude": value.exclude}
        elif key not in ("extra", PER_BENCHMARK):
            values[setting.name] = value
    return values


def _agents(
    complaints: Complaints, agents: Iterable[str | WrittenAgent], place: Place, directory: Path
) -> Iterator[AgentSpec]:
    for index, agent in enumerate(agents):
        try:
            yield read_agent(agent, directory)
        except InputError as error:
            complaints.wrong((*place, index), error.message)
