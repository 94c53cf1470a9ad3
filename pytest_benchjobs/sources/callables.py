"""Functions given by users: checks before they are called, and the names of scorers."""

from __future__ import annotations

import inspect
from typing import Any

_SCORER = "benchjobs_scorer"


def name_scorer(function: Any, name: str) -> None:
    """Make a function a scorer with this name."""
    setattr(function, _SCORER, name)


def scorer_name(value: object) -> str | None:
    """Name of a function as a scorer; None if it is none."""
    # Not by getattr, to which some objects answer anything.
    name = value.__dict__.get(_SCORER) if inspect.isfunction(value) else None
    return name if isinstance(name, str) else None


def call_fault(function: Any, argument: str) -> str | None:
    """Reason why a function cannot be called with one argument; None if it can be, or if that is unknown."""
    if inspect.iscoroutinefunction(function):
        return "is a coroutine function, which is not supported"
    try:
        inspect.signature(function).bind(object())
    except TypeError:
        return f"cannot be called with one argument, `{argument}`"
    except ValueError:
        pass  # not written in Python
    return None


def kind_of(value: object) -> str:
    """Describe a value by its type. The value itself may be long, or raise when it is printed."""
    return (
        f"the class {value.__name__}"
        if isinstance(value, type)
        else f"a value of type {type(value).__name__}"
    )
