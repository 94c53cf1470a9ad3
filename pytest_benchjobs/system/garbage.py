"""When not to look for garbage, and when to do so seldom."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_SELDOM = 20


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Without collecting garbage: thousands of objects are made which all live on, and none is part of a circle.

    Python looks through them again and again otherwise, which takes up to a third of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def seldom() -> Iterator[None]:
    """Leave what there is alone, and look through what is new only now and then.

    Items that were collected live to the end of the session, and looking through them time and again takes a third of
    the loop over trials.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(before[0] * _SELDOM, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
