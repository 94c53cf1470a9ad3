"""Files with holes in what is kept of a trial: an engine would write the holes out, so such files are packed."""

from __future__ import annotations

import contextlib
import posixpath
import stat
from collections.abc import Iterator

from ...model.errors import EngineError, EnvironmentFailed, InfrastructureError
from ..carry.records import (
    CONTENT,
    END,
    ENTER,
    ENTRY,
    LEAVE,
    LINKED,
    REMOVE,
    ROOT,
    Script,
    name_of,
    plain,
    records,
    turned,
)
from ..program import PROGRAM
from ..protocol import Sandbox
from ..runner import serving

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
        InfrastructureError: the engine failed.
    """
    files, removals = _with_holes(listing, since_ns, in_use=in_use)
    if not files.written:
        yield False
        return
    try:
        with contextlib.closing(serving(sandbox)) as runner:
            for _ in runner.program(("pack", "-o", _PACKED, "/"), (bytes(files.written), plain(END))):
                pass
            for _ in runner.program(("unpack", "/"), (bytes(removals.written), plain(END))):
                pass
        yield True
    finally:
        try:
            unpack(sandbox)
        except InfrastructureError:
            sandbox.kill()  # without these files it is not what the agent left
            raise


def unpack(sandbox: Sandbox) -> None:
    """Have packed files at their places again.

    Raises:
        EnvironmentFailed: that does not work.
        InfrastructureError: the engine failed.
    """
    ended = sandbox.exec(
        (PROGRAM, "unpack", "-i", _PACKED, "/"),
        timeout=_PATIENCE,
        sink=lambda _: None,
        user="root",
        workdir="/",
    )
    if ended.exit_status != 0:
        raise EnvironmentFailed(f"kept files with holes cannot be unpacked: exit status {ended.exit_status}")


def _with_holes(listing: bytes, since_ns: int, *, in_use: bool) -> tuple[Script, Script]:
    """Return the scripts of files to pack, and of their removal."""
    files, removals, written_out = Script(), Script(), 0
    for record, raw in records(listing):
        kind = stat.S_IFMT(record.mode) if record.kind == ENTRY else 0
        for script in (files, removals):
            if record.kind == ROOT:
                script.begin_root(0, b"/")
            elif record.kind == LEAVE:
                script.up()
            elif kind == stat.S_IFDIR:
                script.down(name_of(record, raw), turned(raw, ENTER))
        is_ours = record.device == 0 and record.ctime * 1_000_000_000 + record.ctime_ns >= since_ns
        if kind != stat.S_IFREG or not is_ours or record.size - record.data < _LEAST:
            continue
        if in_use or record.flags & LINKED or record.mode & _SET_ID:
            written_out += record.size - record.data
        else:
            files.add(turned(raw, CONTENT))
            removals.add(turned(raw, REMOVE))
    if written_out > _MOST:
        raise EngineError(
            "an engine would write out the holes of files that have several names or set-id bits, or may be in use"
        )
    return files, removals
