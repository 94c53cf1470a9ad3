"""Scorers of others: functions marked with `scorer`, and entry points of installed packages."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from ..model.errors import InputError
from ..sources.callables import call_fault, name_scorer, scorer_name
from ..system.cutting import beginning_of
from ..system.installed import entry_points
from .builtin import builtin_scorers
from .protocol import Scorer

if TYPE_CHECKING:
    from ..sources.protocol import Source

GROUP = "benchjobs.scorers"
_Function = TypeVar("_Function", bound=Scorer)


def scorer(name: str) -> Callable[[_Function], _Function]:
    """Make a function of a conftest.py or pytest plugin a scorer, with the name that manifests use as `type`.

    ::

        @pytest_benchjobs.scorer("line-count")
        def line_count(context):
            return float(context.run("wc -l < out.txt")[1].strip() == "3")
    """
    if not isinstance(name, str) or not name:
        raise TypeError('a scorer has a name: @scorer("line-count")')

    def mark(function: _Function) -> _Function:
        if (fault := scorer_fault(function)) is not None:
            raise TypeError(f"@scorer({name!r}) marks {fault}")
        name_scorer(function, name)
        return function

    return mark


def marked_scorers(module: ModuleType) -> Mapping[str, Scorer]:
    """Return the marked functions of a module, also those that it imports, by their names as scorers.

    InputError: two functions have the same name, or one has that of a built-in type.
    """
    found: dict[str, Scorer] = {}
    for value in list(vars(module).values()):
        name = scorer_name(value)
        if name is None:
            continue
        where = f"{value.__module__}.{value.__qualname__}"
        if name in builtin_scorers():
            raise InputError(f"@scorer({name!r}) of {where}: this is a built-in type; choose another name")
        if found.setdefault(name, value) is not value:
            raise InputError(f"@scorer({name!r}) of {where}: another function has this name, too; rename one")
    return found


def add_scorers_of(source: Source, scorers: dict[str, Scorer]) -> None:
    """Add the functions that a benchmark in Python has as scorers. InputError: a name is taken."""
    for name, function in getattr(source, "scorers", {}).items():
        if scorers.setdefault(name, function) is not function:
            raise InputError(
                f"@scorer({name!r}) of {function.__module__}.{function.__qualname__}: there is another scorer of "
                "this name; rename it",
                path=source.path,
                line=function.__code__.co_firstlineno,
            )


def installed_scorers() -> Mapping[str, Scorer]:
    """Return the scorers of installed packages. InputError: one is no scorer, or has the name of a built-in type."""
    found: dict[str, Scorer] = {}
    for point in entry_points(GROUP):
        blame = f"entry point {point.name} = {point.value} of {GROUP}"
        try:
            loaded = point.load()
        except Exception as error:
            why = f"{type(error).__name__}: {beginning_of(str(error), 300)}"
            raise InputError(f"{blame} cannot be loaded: {why}; fix or remove the package") from None
        if (fault := scorer_fault(loaded)) is not None:
            raise InputError(f"{blame} gives {fault}")
        if point.name in builtin_scorers():
            raise InputError(f"{blame}: this is a built-in type; choose another name")
        found[point.name] = loaded
    return found


def scorer_fault(found: object) -> str | None:
    """Describe why an object is not a scorer, and what it lacks; None if it is one."""
    if isinstance(found, type):
        return f"the class {found.__name__}; give a function, or an object of it: {found.__name__}()"
    if not callable(found):
        return f"a value of type {type(found).__name__}; give a function `(context) -> score`"
    target = found if inspect.isroutine(found) else found.__call__
    fault = call_fault(target, "context")
    name = getattr(found, "__name__", "")
    name = name if name.isidentifier() else "score"
    return None if fault is None else f"a function that {fault}; write `def {name}(context)`"
