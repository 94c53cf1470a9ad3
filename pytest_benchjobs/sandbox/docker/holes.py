"""Files with holes in what is kept of a trial: an engine would write the holes out, so such files are packed."""

from __future__ import annotations

import contextlib
import posixpath
import stat
from collections.abc import Iterator

from ...model.errors import EngineError, EnvironmentFailed, InfrastructureError
from ..carry.records import Flag, Kind, Script, records
from ..program import PROGRAM
from ..protocol import Sandbox
from ..runner import serving
from .running import run_program

_PACKED = f"{posixpath.dirname(PROGRAM)}/holes"
_LEAST = 1 << 20
"""Bytes of holes for which a file is packed."""
_MOST = 64 << 20
"""Bytes of holes that are written out, of files that cannot be packed."""
_SET_ID = stat.S_ISUID | stat.S_ISGID
_PATIENCE = 1800.0


@contextlib.contextmanager
def packed(sandbox: Sandbox, listing: bytes, since_ns: int, *, in_use: bool) -> Iterator[bool]:
    """Have files with holes that were written since then packed inside the context; False: none are.

    None can be packed that is `in_use`: something runs which may have it open.

    Raises:
        EngineError: some cannot be packed.
    """
    files, removals = _with_holes(listing, since_ns, in_use=in_use)
    if not files.written:
        yield False
        return
    try:
        with contextlib.closing(serving(sandbox)) as runner:
            for _ in runner.program(("pack", "-o", _PACKED, "/"), files.pieces()):
                pass
            for _ in runner.program(("unpack", "/"), removals.pieces()):
                pass
        yield True
    finally:
        try:
            unpack(sandbox)
        except InfrastructureError:
            sandbox.kill()  # without these files it is not what the agent left
            raise


def unpack(sandbox: Sandbox) -> None:
    """Have packed files at their places again. Raises EnvironmentFailed: that does not work."""
    status, _ = run_program(sandbox, "unpack", "-i", _PACKED, "/", timeout=_PATIENCE)
    if status != 0:
        raise EnvironmentFailed(f"kept files with holes cannot be unpacked: exit status {status}")


def _with_holes(listing: bytes, since_ns: int, *, in_use: bool) -> tuple[Script, Script]:
    """Return the scripts of files to pack, and of their removal."""
    files, removals, written_out = Script(), Script(), 0
    for record in records(listing):
        files.follow(record)
        removals.follow(record)
        is_ours = record.device == 0 and record.changed_ns >= since_ns
        if record.type != stat.S_IFREG or not is_ours or record.size - record.data < _LEAST:
            continue
        if in_use or record.flags & Flag.LINKED or record.mode & _SET_ID:
            written_out += record.size - record.data
        else:
            files.add(record.turned(Kind.CONTENT))
            removals.add(record.turned(Kind.REMOVE))
    if written_out > _MOST:
        raise EngineError(
            "an engine would write out the holes of files that have several names or set-id bits, or may be in use"
        )
    return files, removals
