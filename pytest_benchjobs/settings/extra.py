"""`--bench-extra` and `extra` of files: a flat table in which known keys are options, and all others parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..model.errors import InputError
from ..sources.complaints import Complaints, Written
from ..sources.documents import SETTINGS_BYTES, Document, read_document
from ..sources.plain import Place
from .layers import Layer
from .table import ALIASES
from .values import read_json
from .written import WrittenBenchmark

PER_BENCHMARK = "per_benchmark"


def extra_layer(text: str, directory: Path, flag: str = "--bench-extra") -> Layer:
    """Read a JSON object, or `@FILE` with one; paths are from `directory`. InputErrors: every mistake in it."""
    if text.startswith("@"):
        path = directory / text[1:]
        document = read_file(path)
        named = f"{flag} @{text[1:]}"
    else:
        document, named = _from_line(text, flag), flag
    complaints = Complaints(document)
    values, benchmarks = read_extra(complaints, document.data, ())
    complaints.raise_errors()
    return Layer(values, benchmarks, lambda key: f"{named}: {key}")


def read_file(path: Path) -> Document:
    """Read TOML, YAML or JSON into plain data, with lines. InputError: it cannot be read, or is not a table of keys."""
    return read_document(path, keys="profiles.md", limit=SETTINGS_BYTES)


def read_extra(
    complaints: Complaints, data: Mapping[str, Any], place: Place
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the values for all benchmarks, and those for single ones. Mistakes go to `complaints`."""
    rest = {key: value for key, value in data.items() if key != PER_BENCHMARK}
    values = of_benchmark(complaints, rest, place)
    tables = data.get(PER_BENCHMARK, {})
    if not isinstance(tables, dict):
        complaints.wrong((*place, PER_BENCHMARK), "a table of benchmarks is expected")
        tables = {}
    return values, read_per_benchmark(complaints, tables, (*place, PER_BENCHMARK))


def read_per_benchmark(
    complaints: Complaints, tables: Mapping[str, Any], place: Place
) -> dict[str, dict[str, Any]]:
    """Return the values for single benchmarks. Mistakes go to `complaints`."""
    found = {}
    for name, table in tables.items():
        if isinstance(table, dict):
            found[name] = of_benchmark(complaints, table, (*place, name))
        else:
            complaints.wrong((*place, name), "a table of keys is expected")
    return found


def of_benchmark(complaints: Complaints, data: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return known keys by their names, and the others as `params`. Mistakes go to `complaints`."""
    known, written = canonical(complaints, WrittenBenchmark, data, place)
    params = {
        key: value
        for key, value in data.items()
        if ALIASES.get(key, key) not in WrittenBenchmark.model_fields
    }
    found = complaints.check(WrittenBenchmark, known, lambda at: (*place, written[str(at[0])], *at[1:]))
    values = {} if found is None else {key: getattr(found, key) for key in known}
    return {**values, "params": params} if params else values


def canonical(
    complaints: Complaints, model: type[Written], data: Mapping[str, Any], place: Place
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the keys that `model` knows, by its names, and how each was written. Null counts as not given."""
    known: dict[str, Any] = {}
    written: dict[str, str] = {}
    for key, value in data.items():
        name = ALIASES.get(key, key)
        if name not in model.model_fields:
            continue
        if name in known and known[name] != value and value is not None:
            complaints.wrong((*place, key), f"contradicts {written[name]!r}, which means the same key")
        if value is not None:
            known[name] = value
        written[name] = key
    return known, written


def _from_line(text: str, flag: str) -> Document:
    try:
        data = read_json(text)
    except ValueError as error:
        at = f" at character {error.pos + 1}" if hasattr(error, "pos") else ""
        raise InputError(
            f"{flag}: is not valid JSON: {getattr(error, 'msg', None) or error}{at}; write an object, or {flag}=@FILE"
        ) from None
    if not isinstance(data, dict):
        raise InputError(
            f'{flag}: a JSON object such as {{"max_examples": 5}} is expected, not {text[:60]!r}'
        )
    return Document(Path(flag), data, lambda _place: None, [])
