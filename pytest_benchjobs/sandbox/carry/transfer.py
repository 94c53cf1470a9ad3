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

from ...model.errors import EnvironmentFailed, Ungradable
from ..archive import safe_name
from .compare import MOST_NOTES, Apart, Comparison, LeftOut, Listing
from .own import Own
from .records import Flag, Kind, Name, Record, Script, reason, records

LIMIT = 2 << 30
"""Most bytes that are carried."""
_LISTING = 256 << 20
_DIGEST = 16
_MARGIN = 1 << 20
_MOST_LINKS = 40
Place = Callable[[Sequence[str | bytes], Iterable[bytes]], Iterator[bytes]]
"""Runs our program inside a sandbox, where links may lead to what is carried, with arguments and standard input; yields
what it prints. An InfrastructureError if its exit status is not 0."""
_CHANGES = (Kind.CONTENT, Kind.HARDLINK, Kind.SYMLINK, Kind.REMOVE, Kind.MAKE)


@dataclasses.dataclass(frozen=True, slots=True)
class Carried:
    """Record of what was carried."""

    left_out: tuple[LeftOut, ...]
    """Files that were not, with the reason."""

    @property
    def notes(self) -> tuple[str, ...]:
        """The same as sentences that are harmless to print."""
        return tuple(f"not carried: {_shown(path)}: {why}" for path, why in self.left_out)


def carry(
    agent: Place,
    fresh: Place,
    paths: Iterable[str],
    *,
    limit: int = LIMIT,
    named: Collection[bytes] = (),
    programs: Sequence[bytes] = (),
    apart: Apart | None = None,
    ignored: Callable[[Collection[bytes]], Collection[bytes]] | None = None,
    known: dict[tuple[bytes, ...], bytes] | None = None,
    links_elsewhere: bool = True,
) -> Carried:
    """Make paths of the fresh place, whose links lead to them, what they are in the agent's, but for what is `apart`.

    What is too big, or is no file, directory or link, is left out by itself; so is a link that leads neither to what is
    below the roots nor, with `links_elsewhere`, to a file of the image; and so is what stays the fresh place's own
    (`own.py`): of git's directories, and of `programs`, if none of `named` means it. `ignored` takes the paths that
    differ, those of directories with a slash at their end, and returns which of them are apart, too. `known`: lists of
    the agent's place by their roots, where nothing changes; this one is added.

    Raises:
        Ungradable: something is left out that is `named`, or what came of the agent's place makes no sense.
        EnvironmentFailed: the fresh place cannot be read or written.
        InfrastructureError: a place failed.
    """
    fresh_listing = _listed(fresh, paths, "-r")
    roots = [root.target for root in _roots(fresh_listing)]
    if known is None or (listing := known.get(tuple(roots))) is None:
        listing = _listed(agent, roots)
        if known is not None:
            known[tuple(roots)] = listing
    own = Own((*programs, *_resolved(fresh, programs)), named)
    comparison = _compared(listing, fresh_listing, own, apart)
    if ignored is not None:
        left, also = ignored([*_differing(comparison.script)]), apart
        apart = lambda path: path in left or bool(also and also(path))  # noqa: E731  the same for both listings
        comparison = _compared(listing, fresh_listing, own, apart)
    flags = Flag.LASTING | (Flag.ELSEWHERE if links_elsewhere else 0)
    decision = _Decision(comparison, limit, _same_contents(comparison, agent, fresh, roots), flags)
    if decision.script.written:
        decision.left_out += _move(decision.script, agent, fresh, roots)
    decision.left_out += _link(decision.links, fresh, roots)
    for path, why in decision.left_out:
        if path in named:
            raise Ungradable(f"{_shown(path)} cannot be carried into the container for grading: {why}")
    return Carried(tuple(decision.left_out))


def differences(agent: Place, fresh: Place, without: Collection[bytes]) -> list[bytes]:
    """Return the paths that differ between two places, but for times, what is mounted, and what is below `without`.

    It raises what `carry` does.
    """
    listing, other = (_listed(place, ("/",)) for place in (agent, fresh))
    mounted = itertools.chain(_mounted(listing), _mounted(other))
    comparison = _compared(listing, other, None, frozenset((*without, *mounted)).__contains__)
    decision = _Decision(comparison, sys.maxsize, _same_contents(comparison, agent, fresh, [b"/"]), 0)
    steps = [*_steps(decision.script), *_steps(decision.links)]
    made = {path for record, path in steps if record.kind == Kind.MAKE}
    changed = (path for record, path in steps if record.kind in _CHANGES)
    return [path for path in dict.fromkeys(changed) if made.isdisjoint(_above(path))]


def _above(path: bytes) -> Iterable[bytes]:
    return itertools.accumulate(path.split(b"/")[:-1], lambda way, name: way + b"/" + name)


def _compared(agent: bytes, fresh: bytes, own: Own | None, apart: Apart | None) -> Comparison:
    try:
        comparison = Comparison(agent, fresh, own, apart)
        comparison.run()
    except (struct.error, IndexError) as error:
        raise Ungradable("the list of the agent's files is damaged") from error
    return comparison


def _steps(script: Script) -> Iterator[tuple[Record, bytes]]:
    """Iterate over the records of a script, each with the path that it is about."""
    way = Script()
    for record in records(script.written):
        yield record, way.located(record.name)
        way.follow(record)


def _differing(script: Script) -> Iterator[bytes]:
    for record, path in _steps(script):
        if record.kind not in (Kind.ROOT, Kind.ENTER, Kind.LEAVE):
            yield path + b"/" if record.type == stat.S_IFDIR else path


def _mounted(listing: bytes) -> Iterator[bytes]:
    """Yield the paths in a listing of `/` at which other file systems are."""
    at, way = Listing(listing), Script()
    while at.record.kind != Kind.END:
        if at.record.kind == Kind.ENTRY and at.record.device:
            yield way.located(at.record.name)
            at.skip()
        else:
            way.follow(at.record)
            at.next()


def _resolved(place: Place, paths: Sequence[bytes]) -> Iterator[bytes]:
    """Iterate over paths with the links of a place followed."""
    if paths:
        # Nothing is listed but the roots.
        yield from (root.target for root in _roots(_read(place(("walk", "-r", "0", *paths), ()), _LISTING)))


def _shown(path: bytes) -> str:
    return safe_name(path.decode("utf-8", "surrogateescape"))


def _roots(listing: bytes) -> Iterator[Record]:
    return (record for record in records(listing) if record.kind == Kind.ROOT)


def _listed(place: Place, roots: Iterable[str | bytes], *options: str) -> bytes:
    return _read(place(("walk", *options, str(_LISTING), *roots), ()), 2 * _LISTING + _MARGIN)


def _read(chunks: Iterable[bytes], most: int) -> bytes:
    return b"".join(_at_most(chunks, most, "the list of the agent's files has no end"))


def _same_contents(comparison: Comparison, agent: Place, fresh: Place, roots: list[bytes]) -> Iterator[bool]:
    """Compare contents by digests with a key that is unknown in sandboxes, of both sides at once."""
    if not comparison.checks:
        return iter(())
    checks = Script()
    for record in records(comparison.script.written):
        if not checks.follow(record) and record.kind == Kind.CHECK:
            checks.add(record.raw)
    script = (secrets.token_bytes(_DIGEST), *checks.pieces())
    expected = _DIGEST * comparison.checks

    def digests(place: Place) -> list[bytes]:
        read = _read(place(("digest", *roots), script), expected)
        if len(read) != expected:
            raise Ungradable("the agent's files have too few digests")
        return [read[at : at + _DIGEST] for at in range(0, expected, _DIGEST)]

    with concurrent.futures.ThreadPoolExecutor(2) as both:
        one, other = both.map(digests, (agent, fresh))
    return (first == second != bytes(_DIGEST) for first, second in zip(one, other, strict=True))


class _Decision:
    """Decides which files are sent, now that it is known which contents are the same.

    Links come after all else: each is made once it is known where it leads.
    """

    def __init__(self, comparison: Comparison, limit: int, same: Iterator[bool], link_flags: int) -> None:
        self.script, self.links = Script(), Script()
        self.left_out = comparison.left_out
        self._left = limit
        self._same = same
        self._link_flags = link_flags
        self._sent: set[Name | None] = set()
        self._missing: set[Name | None] = set()
        for record in records(comparison.script.written):
            self.links.follow(record)
            do = record.kind == Kind.MAKE or bool(record.flags & Flag.TOUCHED)
            if not self.script.follow(record, do=do) and (step := self._step(record)):
                self.script.add(step)

    def _step(self, record: Record) -> bytes:
        if record.kind == Kind.CHECK and next(self._same):
            return record.turned(Kind.META) if record.flags & Flag.TOUCHED else b""
        if record.kind == Kind.HARDLINK:
            first = record.size, record.target
            if first in self._missing:
                return self._leave_out(record, "its other name is left out")
            return b"" if record.flags & Flag.SAME and first not in self._sent else record.raw
        if record.kind == Kind.SYMLINK:
            self.links.add(record.turned(Kind.SYMLINK, self._link_flags))
            return _gone(record)
        return self._file(record) if record.kind in (Kind.CHECK, Kind.CONTENT) else record.raw

    def _file(self, record: Record) -> bytes:
        own = self.script.named(record.name) if record.flags & Flag.LINKED else None
        if record.data > self._left:
            self._missing.add(own)
            return self._leave_out(record, f"{record.data} bytes are too many")
        self._sent.add(own)
        self._left -= record.data
        self.script.data += record.data
        return record.turned(Kind.CONTENT)

    def _leave_out(self, record: Record, why: str) -> bytes:
        if len(self.left_out) < MOST_NOTES:
            self.left_out.append((self.script.located(record.name), why))
        return _gone(record)


def _gone(record: Record) -> bytes:
    """Return the removal of what is at the place of something that is not to come."""
    return record.turned(Kind.REMOVE) if record.flags & Flag.THERE else b""


def _move(script: Script, agent: Place, fresh: Place, roots: list[bytes]) -> Iterator[LeftOut]:
    """Do what a script says; iterate over the files of the agent that could not be read."""
    most = 2 * (len(script.written) + script.data) + _MARGIN
    contents = _at_most(agent(("pack", *roots), script.pieces()), most, "the agent's files have no end")
    for path, why in _unpacked(script, contents, fresh, roots).items():
        yield path, f"it cannot be read: {why}"


def _link(links: Script, fresh: Place, roots: list[bytes]) -> Iterator[LeftOut]:
    """Make those links that lead to what is there to stay; iterate over the others."""
    astray: dict[bytes, str] = {}
    # One may lead to another that is made after it, and so on, as far as a kernel follows them.
    for _ in range(_MOST_LINKS if links.written else 0):
        before, astray = astray, _unpacked(links, links.pieces(), fresh, roots)
        if astray in ({}, before):
            break
    for path, why in astray.items():
        yield path, f"it leads neither to what is carried nor to a file of the image: {why}"


def _unpacked(
    script: Script, contents: Iterable[bytes], fresh: Place, roots: list[bytes]
) -> dict[bytes, str]:
    """Unpack a script with its contents; return what the agent is the cause of."""
    failed = {
        record.data: record
        for record in records(_read(fresh(("unpack", *roots), contents), _LISTING))
        if record.kind == Kind.FAILED
    }
    left_out = {}
    for number, (_, path) in enumerate(_steps(script) if failed else ()):
        if failure := failed.get(number):
            left_out[path] = why = reason(failure.size)
            if not failure.flags:
                raise EnvironmentFailed(
                    f"{_shown(path)} cannot be written in the container for grading: {why}"
                )
    return left_out


def _at_most(chunks: Iterable[bytes], most: int, error: str) -> Iterator[bytes]:
    for chunk in chunks:
        most -= len(chunk)
        if most < 0:
            raise Ungradable(error)
        yield chunk
