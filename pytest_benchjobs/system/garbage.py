"""Garbage collection: paused for a while, or made rare for a session."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_SELDOM = 20


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Pause garbage collection while thousands of objects are made that all live on, none of them in a circle.

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
def gc_rarely() -> Iterator[None]:
    """Exempt existing objects from garbage collection, and look through new ones only now and then.

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
