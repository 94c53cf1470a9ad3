"""Carrying what an agent left: out of its place, into a fresh one, without a mount or a port."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import itertools
import secrets
import stat
import struct
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Protocol

from ...model.errors import EnvironmentFailed, Ungradable
from ..archive import safe_name
from .compare import MOST_NOTES, Apart, Comparison, FreshUnreadable, LeftOut
from .own import Own
from .records import (
    CHECK,
    CONTENT,
    ELSEWHERE,
    END,
    ENTER,
    ENTRY,
    FAILED,
    HARDLINK,
    LEADS,
    LEAVE,
    LINKED,
    MAKE,
    META,
    REMOVE,
    ROOT,
    SAME,
    SYMLINK,
    THERE,
    TOUCHED,
    Name,
    Record,
    Script,
    name_of,
    plain,
    reason,
    records,
    target_of,
    turned,
)

LIMIT = 2 << 30
"""Most bytes that are carried."""
_LISTING = 256 << 20
_CHUNK = 256 * 1024
_DIGEST = 16
_MARGIN = 1 << 20


class Place(Protocol):
    """Runs our program inside a sandbox: there, links of a fresh place may lead to what is carried."""

    def __call__(self, arguments: Sequence[str | bytes], stdin: Iterable[bytes]) -> Iterator[bytes]:
        """Run it with `arguments`, feed it `stdin`, and yield what it prints meanwhile. What `stdin` raises is raised.

        Raises:
            InfrastructureError: it does not end with exit status 0.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class Carried:
    """Record of what was carried."""

    bytes: int
    left_out: tuple[LeftOut, ...]
    """What was not, and why."""

    @property
    def notes(self) -> tuple[str, ...]:
        """The same as sentences that are harmless to print."""
        return tuple(f"not carried: {_shown(path)}: {why}" for path, why in self.left_out)


def list_fresh(place: Place, roots: Iterable[str]) -> bytes:
    """List a fresh place, with links on the way to a root followed.

    Where nothing was set up, the listing holds for all containers of that image of that engine.
    """
    return _read(place(("walk", "-r", str(_LISTING), *roots), ()), 2 * _LISTING + _MARGIN)


def carry(
    agent: Place,
    fresh: Place,
    fresh_listing: bytes,
    *,
    limit: int = LIMIT,
    named: Collection[bytes] = (),
    programs: Sequence[bytes] = (),
    apart: Apart | None = None,
    ignored: Callable[[Collection[bytes]], Collection[bytes]] | None = None,
    known: dict[tuple[bytes, ...], bytes] | None = None,
    links_elsewhere: bool = True,
    before: bytes | None = None,
) -> Carried:
    """Make the roots of `fresh_listing` in the fresh place what they are in the agent's, but for what is `apart`.

    What is too big, or is no file, directory or link, is left out by itself; so is a link that leads neither to what is
    below the roots nor, with `links_elsewhere`, to a file of the image; and so is what stays the fresh place's own
    (`own.py`): of git's directories, and of `programs`, if none of `named` means it. `ignored` takes the paths that
    differ, those of directories with a slash at their end, and returns which of them are apart, too. `known`: lists of
    the agent's place by their roots, where nothing changes; this one is added. `before`: the fresh place's listing
    before the first try, if this is another: links that came with that one were not checked.

    Raises:
        Ungradable: something is left out that is `named`, or what came of the agent's place makes no sense.
        EnvironmentFailed: the fresh place cannot be read or written.
        InfrastructureError: a place failed.
    """
    roots = [target_of(*root) for root in _roots(fresh_listing)]
    if known is None or (listing := known.get(tuple(roots))) is None:
        listing = _read(agent(("walk", str(_LISTING), *roots), ()), 2 * _LISTING + _MARGIN)
        if known is not None:
            known[tuple(roots)] = listing
    own = Own((*programs, *_resolved(fresh, programs)), tuple(named))
    comparison = _compared(listing, fresh_listing, own, apart)
    if ignored is not None:
        left, also = ignored([*_differing(comparison.script, roots)]), apart
        apart = lambda path: path in left or bool(also and also(path))  # noqa: E731  the same for both listings
        comparison = _compared(listing, fresh_listing, own, apart)
    decision = _Decision(comparison, roots, limit, _same_contents(comparison, agent, fresh, roots))
    decision.run()
    if decision.script.written:
        decision.left_out += _move(decision.script, agent, fresh, roots)
    steps = decision.script if before is None else _compared(listing, before, own, apart).script
    decision.left_out += _links_astray(steps, fresh, roots, ELSEWHERE if links_elsewhere else 0)
    for path, why in decision.left_out:
        if path in named:
            raise Ungradable(f"{_shown(path)} cannot be carried into the container for grading: {why}")
    return Carried(decision.script.data, tuple(decision.left_out))


def differences(agent: Place, fresh: Place, without: Collection[bytes]) -> list[bytes]:
    """Return the paths that differ between two places, but for times, what is mounted, and what is below `without`.

    Raises:
        Ungradable, EnvironmentFailed, InfrastructureError: as in `carry`.
    """
    listings = [
        _read(place(("walk", str(_LISTING), "/"), ()), 2 * _LISTING + _MARGIN) for place in (agent, fresh)
    ]
    mounted = itertools.chain.from_iterable(map(_mounted, listings))
    comparison = _compared(listings[0], listings[1], None, frozenset((*without, *mounted)).__contains__)
    decision = _Decision(comparison, [b"/"], sys.maxsize, _same_contents(comparison, agent, fresh, [b"/"]))
    decision.run()
    found, depth, made = list[bytes](), 0, 0
    for record, path in _steps(decision.script, [b"/"]):
        if not made and record.kind in (CONTENT, HARDLINK, SYMLINK, REMOVE, MAKE):
            found.append(path)
        if record.kind in (ROOT, ENTER, MAKE):
            depth += 1
            made = made or (depth if record.kind == MAKE else 0)
        elif record.kind == LEAVE:
            made = made if made != depth else 0
            depth -= 1
    return found


def _compared(agent: bytes, fresh: bytes, own: Own | None, apart: Apart | None) -> Comparison:
    try:
        comparison = Comparison(agent, fresh, own, apart)
        comparison.run()
    except (struct.error, IndexError) as error:
        raise Ungradable("the list of the agent's files is damaged") from error
    except FreshUnreadable as error:
        raise EnvironmentFailed(f"{error} cannot be read in the container for grading") from error
    return comparison


def _steps(script: Script, roots: list[bytes]) -> Iterator[tuple[Record, bytes]]:
    """Iterate over the records of a script, each with the path that it is about."""
    now = Script()
    for record, raw in records(script.written):
        yield record, now.located(name_of(record, raw))
        _go(now, record, raw, roots)


def _differing(script: Script, roots: list[bytes]) -> Iterator[bytes]:
    for record, path in _steps(script, roots):
        if record.kind not in (ROOT, ENTER, LEAVE):
            yield path + b"/" if stat.S_ISDIR(record.mode) else path


def _mounted(listing: bytes) -> Iterator[bytes]:
    """Yield the paths in a listing of `/` that are on other file systems."""
    way: list[bytes] = []
    inside = 0
    for record, raw in records(listing):
        if record.kind == ENTRY and record.device and not inside:
            yield b"/" + b"/".join((*way[2:], name_of(record, raw)))
        if record.kind == ROOT or (record.kind == ENTRY and stat.S_ISDIR(record.mode)):
            way.append(name_of(record, raw) if record.kind == ENTRY else b"")
            inside += bool(inside or record.device)
        elif record.kind == LEAVE:
            way.pop()
            inside -= bool(inside)


def _resolved(place: Place, paths: Sequence[bytes]) -> Iterator[bytes]:
    """Iterate over paths with the links of a place followed."""
    if paths:
        # Nothing is listed but the roots.
        listing = _read(place(("walk", "-r", "0", *paths), ()), _LISTING)
        yield from (target_of(*root) for root in _roots(listing))


def _shown(path: bytes) -> str:
    return safe_name(path.decode("utf-8", "surrogateescape"))


def _roots(listing: bytes) -> list[tuple[Record, bytes]]:
    return [(record, raw) for record, raw in records(listing) if record.kind == ROOT]


def _read(chunks: Iterable[bytes], most: int) -> bytes:
    read = bytearray()
    for chunk in chunks:
        read += chunk
        if len(read) > most:
            raise Ungradable("the list of the agent's files has no end")
    return bytes(read)


def _pieces(script: bytes | bytearray) -> Iterator[bytes]:
    view = memoryview(script)
    for at in range(0, len(view), _CHUNK):
        yield bytes(view[at : at + _CHUNK])


def _same_contents(comparison: Comparison, agent: Place, fresh: Place, roots: list[bytes]) -> Iterator[bool]:
    """Compare contents by digests with a key that nobody in a sandbox knows, of both sides at once."""
    if not comparison.checks:
        return iter(())
    checks = Script()
    for record, raw in records(comparison.script.written):
        _go(checks, record, raw, roots)
        if record.kind == CHECK:
            checks.add(raw)
    script = (secrets.token_bytes(_DIGEST), *_pieces(checks.written), plain(END))
    expected = _DIGEST * comparison.checks

    def digests(place: Place) -> list[bytes]:
        read = _read(place(("digest", *roots), script), expected)
        if len(read) != expected:
            raise Ungradable("the agent's files have too few digests")
        return [read[at : at + _DIGEST] for at in range(0, expected, _DIGEST)]

    with concurrent.futures.ThreadPoolExecutor(2) as both:
        one, other = both.map(digests, (agent, fresh))
    return (first == second != bytes(_DIGEST) for first, second in zip(one, other, strict=True))


def _go(script: Script, record: Record, raw: bytes, roots: list[bytes], *, do: bool = False) -> bool:
    """Go where a record leads; False if it is none that leads anywhere."""
    if record.kind == ROOT:
        script.begin_root(record.size, roots[record.size])
    elif record.kind in (ENTER, MAKE):
        script.down(name_of(record, raw), raw, do=do)
    elif record.kind == LEAVE:
        script.up()
    else:
        return False
    return True


class _Decision:
    """Decides which files are sent, now that it is known which contents are the same."""

    def __init__(self, comparison: Comparison, roots: list[bytes], limit: int, same: Iterator[bool]) -> None:
        self.script = Script()
        self.left_out = comparison.left_out
        self._steps = comparison.script.written
        self._roots = roots
        self._left = limit
        self._same = same
        self._sent: set[Name | None] = set()
        self._missing: set[Name | None] = set()

    def run(self) -> None:
        for record, raw in records(self._steps):
            do = record.kind == MAKE or bool(record.flags & TOUCHED)
            if not _go(self.script, record, raw, self._roots, do=do):
                step = self._step(record, raw)
                if step:
                    self.script.add(step)

    def _step(self, record: Record, raw: bytes) -> bytes:
        if record.kind == CHECK and next(self._same):
            return turned(raw, META) if record.flags & TOUCHED else b""
        if record.kind == HARDLINK:
            return self._link(record, raw)
        return self._file(record, raw) if record.kind in (CHECK, CONTENT) else raw

    def _link(self, record: Record, raw: bytes) -> bytes:
        first = record.size, target_of(record, raw)
        if first in self._missing:
            return self._leave_out(record, raw, "its other name is left out")
        return b"" if record.flags & SAME and first not in self._sent else raw

    def _file(self, record: Record, raw: bytes) -> bytes:
        own = self.script.named(name_of(record, raw)) if record.flags & LINKED else None
        if record.data > self._left:
            self._missing.add(own)
            return self._leave_out(record, raw, f"{record.data} bytes are too many")
        self._sent.add(own)
        self._left -= record.data
        self.script.data += record.data
        return turned(raw, CONTENT)

    def _leave_out(self, record: Record, raw: bytes, why: str) -> bytes:
        if len(self.left_out) < MOST_NOTES:
            self.left_out.append((self.script.located(name_of(record, raw)), why))
        return turned(raw, REMOVE) if record.flags & THERE else b""


def _move(script: Script, agent: Place, fresh: Place, roots: list[bytes]) -> Iterator[LeftOut]:
    """Do what a script says; iterate over the files of the agent that could not be read.

    Raises:
        EnvironmentFailed: something cannot be written.
    """
    most = 2 * (len(script.written) + script.data) + _MARGIN
    packed = agent(("pack", *roots), itertools.chain(_pieces(script.written), (plain(END),)))
    for path, why in _unpacked(script, _at_most(packed, most), fresh, roots):
        yield path, f"it cannot be read: {why}"


def _links_astray(script: Script, fresh: Place, roots: list[bytes], flags: int) -> Iterator[LeftOut]:
    """Remove those links of a script that lead to what is not there to stay; iterate over them.

    Raises:
        EnvironmentFailed: something cannot be removed.
    """
    links = Script()
    for record, raw in records(script.written):
        _go(links, record, turned(raw, ENTER) if record.kind == MAKE else raw, roots)
        if record.kind == SYMLINK:
            links.add(turned(raw, LEADS, flags))
    if links.written:
        pieces = itertools.chain(_pieces(links.written), (plain(END),))
        for path, why in _unpacked(links, pieces, fresh, roots):
            yield path, f"it leads neither to what is carried nor to a file of the image: {why}"


def _unpacked(script: Script, packed: Iterable[bytes], fresh: Place, roots: list[bytes]) -> Iterator[LeftOut]:
    """Unpack a script with its contents; iterate over what the agent is the cause of."""
    told = _read(fresh(("unpack", *roots), packed), _LISTING)
    failed = {record.data: record for record, _ in records(told) if record.kind == FAILED}
    for number, (_, path) in enumerate(_steps(script, roots) if failed else ()):
        if failure := failed.get(number):
            why = reason(failure.size)
            if not failure.flags:
                raise EnvironmentFailed(
                    f"{_shown(path)} cannot be written in the container for grading: {why}"
                )
            yield path, why


def _at_most(chunks: Iterable[bytes], most: int) -> Iterator[bytes]:
    for chunk in chunks:
        most -= len(chunk)
        if most < 0:
            raise Ungradable("the agent's files have no end")
        yield chunk
