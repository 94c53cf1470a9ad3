"""Checks of scorers written in Python, when they are registered."""

from __future__ import annotations

import inspect

from ..sources.callables import call_fault


def scorer_fault(found: object) -> str | None:
    """Describe why an object is not a scorer, and what it lacks; None if it is one."""
    if isinstance(found, type):
        return f"the class {found.__name__}; give a function, or an object of it: {found.__name__}()"
    if not callable(found):
        return f"a value of type {type(found).__name__}; give a function `(context) -> score`"
    target = found if inspect.isroutine(found) else found.__call__
    fault = call_fault(target, "context")
    return None if fault is None else f"a function that {fault}; write `def {_name(found)}(context)`"


def _name(found: object) -> str:
    name = getattr(found, "__name__", "score")
    return name if name.isidentifier() else "score"
