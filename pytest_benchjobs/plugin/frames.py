"""Tracebacks of errors in fixtures, without the frames of pytest and of this plugin."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import _pytest
import pluggy

_FOREIGN = tuple(f"{Path(str(module)).parent}/" for module in (_pytest.__file__, pluggy.__file__, __file__))


def without_foreign(error: BaseException) -> None:
    """Let the traceback of an error, and of those it holds or follows, begin with a frame of the project."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        frames = one.__traceback__
        while isinstance(one, BaseExceptionGroup) and frames is not None and frames.tb_next is not None:
            frames = frames.tb_next
        # Without a frame of the project: the whole, or the last frame of what holds others.
        one.__traceback__ = own_frames(one.__traceback__) or frames
        left += [one.__cause__, one.__context__]
        left += one.exceptions if isinstance(one, BaseExceptionGroup) else ()


def own_frames(frames: TracebackType | None) -> TracebackType | None:
    """Return the part from the first frame of the project on; None: it has none."""
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_FOREIGN):
        frames = frames.tb_next
    return frames
