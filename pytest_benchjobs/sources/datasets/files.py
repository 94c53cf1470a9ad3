"""Files of rows as authors publish them, and lists and patches in these rows."""

from __future__ import annotations

import ast
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...model.errors import InputError
from ...model.scenario import Reference

_PATCH_END = "BENCHJOBS_END_OF_REFERENCE_PATCH"
_APPLY_PATCH = f"""\
cat >/tmp/reference.patch <<'{_PATCH_END}'
%s
{_PATCH_END}
git apply --verbose /tmp/reference.patch || patch --batch --forward --fuzz=5 -p1 -i /tmp/reference.patch
"""
MAX_TEXT = 8 * 1024 * 1024
"""The most characters of a list that is read from a string."""


def names(row: Mapping[str, Any], key: str) -> list[str]:
    """Return a list of texts of a row; an empty list if the row has no value.

    It may be a list, JSON in a string, or a Python literal.

    Raises KeyError: the row has no such key; ValueError: the value is not a list of texts.
    """
    value = row[key]
    if isinstance(value, str):
        value = _list_in(value.strip(), key)
    if value is None:
        return []
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{key}: a list of texts is expected, as a list or in a string")
    return list(value)


def _list_in(text: str, key: str) -> Any:
    if not text:
        return None
    if len(text) > MAX_TEXT or text[0] not in "[(":
        raise ValueError(f"{key}: a list is expected in at most {MAX_TEXT} characters")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError(f"{key}: neither JSON nor a list of Python: {text[:80]!r}") from None


def the_one(fetched: Path, endings: Sequence[str], apart: Sequence[Path] = ()) -> Path:
    """Return the only file below a directory that has one of these suffixes, such as `jsonl.gz`.

    Args:
        fetched: Directory to search.
        endings: Suffixes, without their first point.
        apart: Directories that are not searched.

    Raises InputError: there is none, or there are several.
    """
    found = sorted(
        path
        for path in fetched.rglob("*")
        if path.name.endswith(tuple(f".{ending}" for ending in endings))
        and path.is_file()
        and not any(path.is_relative_to(directory) for directory in apart)
    )
    if len(found) != 1:
        expected = " or ".join(
            filter(None, (", ".join(f".{ending}" for ending in endings[:-1]), f".{endings[-1]}"))
        )
        given = ", ".join(path.name for path in found[:5]) or "none"
        raise InputError(f"one {expected} file is expected, found {given}", path=fetched)
    return found[0]


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a .parquet, .jsonl, .jsonl.gz or .json file.

    Raises InputError: it cannot be read, or pyarrow is missing.
    """
    try:
        rows: Any
        if path.suffix == ".parquet":
            rows = _parquet_rows(path)
        elif path.suffix == ".json":
            rows = json.loads(path.read_bytes())
        else:
            rows = _lines(path)
        if not isinstance(rows, list | Iterator):
            raise TypeError("a list of objects is expected")
        for row in rows:
            if not isinstance(row, dict):
                raise TypeError("a list of objects is expected")
            yield row
    except (OSError, EOFError, ValueError, TypeError, RecursionError) as error:
        raise InputError(f"cannot be read: {str(error)[:300]}", path=path) from None


def _lines(path: Path) -> Iterator[Any]:
    open_text = gzip.open if path.suffix == ".gz" else open
    with open_text(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def _parquet_rows(path: Path) -> Iterator[Any]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise InputError(
            "is a parquet file, which needs pyarrow; install it with: pip install 'pytest-benchjobs[parquet]'",
            path=path,
        ) from None
    for batch in parquet.ParquetFile(path).iter_batches(batch_size=64):
        yield from batch.to_pylist()


def reference_patch(patch: str) -> Reference:
    """Return the reference that applies a patch in the workdir."""
    return Reference(script=_APPLY_PATCH % patch.removesuffix("\n"))
