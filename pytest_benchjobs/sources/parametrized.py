"""Sets of parameters of a function with the mark `parametrize`, as pytest would make and name them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_PLAIN = (str, int, float, bool, type(None))
_Set = tuple[str, dict[str, Any]]


def variants_of(function: Callable[..., Any]) -> list[_Set]:
    """Name and arguments of each set; of a function without such a mark one, whose name is empty.

    Raises:
        ValueError: a mark is wrong; the message says how.
    """
    marks = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
    found: list[_Set] = [("", {})]
    # The mark closest to the function comes first in the name, and varies slowest: as in pytest.
    for mark in marks:
        found = [
            ("-".join(filter(None, (before, suffix))), {**others, **arguments})
            for (before, others), (suffix, arguments) in itertools.product(found, [*_sets(mark)])
        ]
    names = [name for name, _ in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"parametrize: two sets have the id {twice!r}; give them ids=[...]")
    return found


def _sets(mark: Any) -> Iterator[_Set]:
    given = dict(zip(("argnames", "argvalues"), mark.args, strict=False)) | dict(mark.kwargs)
    if unknown := given.keys() - {"argnames", "argvalues", "ids"}:
        raise ValueError(f"parametrize: {', '.join(sorted(unknown))} cannot be used for scenarios")
    if not {"argnames", "argvalues"} <= given.keys():
        raise ValueError('parametrize: write parametrize("name", [value, ...])')
    names = given["argnames"]
    names = (
        [name.strip() for name in names.split(",") if name.strip()] if isinstance(names, str) else [*names]
    )
    values = [*given["argvalues"]]
    ids = given.get("ids")
    named = [*ids] if ids is not None and not callable(ids) else [None] * len(values)
    if len(named) != len(values):
        raise ValueError(f"parametrize: there are {len(values)} sets and {len(named)} ids")
    for index, (value, own) in enumerate(zip(values, named, strict=True)):
        name, arguments = _unpacked(value, names)
        if len(arguments) != len(names):
            raise ValueError(
                f"parametrize: {', '.join(names)} need {len(names)} values, not {len(arguments)}"
            )
        parts = [
            _part(argument, label, index, ids if callable(ids) else None)
            for label, argument in zip(names, arguments, strict=True)
        ]
        text = name or (str(own) if own is not None else "-".join(parts))
        yield (
            re.sub(r"[^\w.+=-]+", "-", text).strip("-") or str(index),
            dict(zip(names, arguments, strict=True)),
        )


def _unpacked(value: Any, names: Sequence[str]) -> tuple[str | None, Sequence[Any]]:
    """Return the id and the arguments of a set, which may be a `pytest.param`."""
    if type(value).__name__ == "ParameterSet":
        return (value.id if isinstance(value.id, str) else None), tuple(value.values)
    return None, (value,) if len(names) == 1 else tuple(value)


def _part(value: Any, label: str, index: int, name: Callable[[Any], object] | None) -> str:
    """Return a part of the id, for one argument."""
    if name is not None and (own := name(value)) is not None:
        return str(own)
    return str(value) if isinstance(value, _PLAIN) else f"{label}{index}"
