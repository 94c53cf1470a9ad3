"""Checks of functions given by users, before they are called."""

from __future__ import annotations

import inspect
from typing import Any


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
