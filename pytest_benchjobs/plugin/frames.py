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
        one.__traceback__ = _own(one.__traceback__, last=isinstance(one, BaseExceptionGroup))
        left += [one.__cause__, one.__context__]
        left += one.exceptions if isinstance(one, BaseExceptionGroup) else ()


def _own(frames: TracebackType | None, *, last: bool) -> TracebackType | None:
    """Return the part from the first frame of the project on. If there is none, the whole, or its last frame."""
    own = frames
    while own is not None and own.tb_frame.f_code.co_filename.startswith(_FOREIGN):
        if last and own.tb_next is None:
            return own
        own = own.tb_next
    return own or frames
