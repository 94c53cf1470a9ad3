"""The build context of a Dockerfile: its files, without those that give an agent answers or earlier results.

Patterns of a `.dockerignore` are matched as Docker matches them, oddities and all.
"""

from __future__ import annotations

import dataclasses
import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from ...model.known_failure import KNOWN_FILE
from ...sources.manifest import SUFFIXES
from .dockerfile import Copied

_NAMES = frozenset({KNOWN_FILE, ".pytest_cache"})
_MARKER = "jobs/.benchjobs"
"""File in a directory of results."""
_RESULTS = ("jobs", "comparisons", "baselines.json", "history.sqlite")
_TEXTS = {".json": (b'"pytest-benchjobs baseline"', 256), ".py": (b"pytest_bench", 1 << 20)}
"""Suffix -> text near the start, and its range in bytes, of baselines, and of modules with our imports or hooks."""
_RANGE = r"(?:\\.|[^\\\]-])"
# What Go's `filepath.Match` takes for a pattern. Docker refuses all others.
_VALID = re.compile(rf"(?:[^\\\[]|\\.|\[\^?(?:{_RANGE}(?:-{_RANGE})?)+\])*", re.DOTALL)
_TOKEN = re.compile(r"\*\*/?|\\.|.", re.DOTALL)
_SPECIAL = re.compile(r"[*?\[\]\\]")
_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-\~", "space": r"\t-\r ",
    "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_NAMED = r"\[:\^?\w+:\]"
_CLASS = re.compile(rf"\\.|\[\^?(?>{_NAMED}|\\.|[^\]\\])+\]|\[", re.DOTALL)
_MEANING = {"*": "[^/]*", "?": "[^/]", **{one: f"\\{one}" for one in ".+()$"}}


class BadPattern(ValueError):
    """A line that Docker refuses. The message begins with its number."""


class Ignored:
    """Patterns of a `.dockerignore`, which leave files out of a build context.

    The last pattern that matches a path, or a directory it is in, decides. A line that is none is a `BadPattern`.
    """

    def __init__(self, text: str) -> None:
        self._rules = [*_rules(text)]
        self._readmits = any(readmits for readmits, _ in self._rules)

    def __contains__(self, path: str) -> bool:
        """Return True if a path, relative to the context, is left out."""
        ways = _ways(path)
        out = False
        for readmits, pattern in self._rules:
            if readmits is out and any(map(pattern.search, ways)):
                out = not readmits
        return out

    def kept(self, directory: Path) -> set[str]:
        """Return the paths that stay, with their directories; an `OSError`, if one of these cannot be read."""
        kept, left = set[str](), [""]
        while left:
            above = left.pop()
            with os.scandir(directory / above) as entries:
                for entry in entries:
                    path = f"{above}{entry.name}"
                    out = path in self
                    if not out:
                        kept.update(_ways(path))
                    if entry.is_dir(follow_symlinks=False) and (self._readmits or not out):
                        left.append(f"{path}/")
        return kept


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """List the files of a directory that go to the engine. Paths are relative to it, and sorted."""

    paths: tuple[str, ...]
    left_out: tuple[str, ...]
    """Files and directories that stay here, without what is in such a directory."""
    _files: tuple[str, ...]
    """All files that stay here."""

    @classmethod
    def read(
        cls, directory: Path, dockerfile: str | None, ignored: Ignored, hidden: Iterable[Path]
    ) -> Context:
        """Read it from disk. `dockerfile` is the path of the Dockerfile in it; `hidden`, what no agent may see."""
        found = sorted(ignored.kept(directory) | ({dockerfile} if dockerfile else set()))
        tops = {*_inside(directory, hidden), *(top for path in found for top in _telling(directory, path))}
        stay = {path: top for path in found if (top := _top(path, tops)) is not None}
        return cls(
            paths=tuple(path for path in found if path not in stay),
            left_out=tuple(sorted({*stay.values()})),
            _files=tuple(path for path in stay if not (directory / path).is_dir()),
        )

    def fault(self, directory: Path, copied: Iterable[Copied]) -> str | None:
        """Return what is wrong with an instruction that copies only files that stay here; None: there is none."""
        for one in copied if self._files else ():
            stays = any(_covers(one.source, path) for path in self._files)
            goes = (path for path in self.paths if _covers(one.source, path))
            if stays and all((directory / path).is_dir() for path in goes):
                return (
                    f"{one.line}: {one.instruction} {one.source}: no image may hold it, since the agent would read the "
                    "manifest, references, scorers, tests, or results there; remove the line, or give it as `files`"
                )
        return None


def _inside(directory: Path, hidden: Iterable[Path]) -> Iterator[str]:
    """Yield the hidden paths that are in a directory, by their names and by what links lead to."""
    whole, real = os.path.abspath(directory), os.path.realpath(directory)  # noqa: PTH100  `absolute` keeps `..`
    for path in hidden:
        for root, place in ((whole, os.path.normpath(path)), (real, os.path.realpath(path))):
            # A path that holds the whole directory is no part of it.
            if place != root and place.startswith(f"{root.rstrip('/')}/"):
                yield PurePosixPath(os.path.relpath(place, root)).as_posix()


def _telling(directory: Path, path: str) -> Iterator[str]:
    """Yield what a path tells by itself: a manifest, results, a baseline, known failures, a module of benchmarks."""
    whole = PurePosixPath(path)
    if whole.name.endswith(SUFFIXES) or whole.name in _NAMES:
        yield path
    elif path.endswith(f"/{_MARKER}"):
        yield str(whole.parent.parent)
    elif path == _MARKER:
        yield from _RESULTS
    elif whole.suffix in _TEXTS and (directory / path).is_file():
        text, size = _TEXTS[whole.suffix]
        with (directory / path).open("rb") as file:
            if text in file.read(size):
                yield path


def _top(path: str, tops: set[str]) -> str | None:
    """Return the one of some paths that a path is, or is below."""
    whole = PurePosixPath(path)
    return next((top for one in (*reversed(whole.parents), whole) if (top := str(one)) in tops), None)


def _covers(pattern: str, path: str) -> bool:
    """Return True if a source of `COPY` has this file: `*` and `?` match within a name."""
    wanted = PurePosixPath(os.path.normpath(pattern.lstrip("/").replace("[^", "[!")))
    beginning = PurePosixPath(*PurePosixPath(path).parts[: len(wanted.parts)])
    return not wanted.parts or (len(beginning.parts) == len(wanted.parts) and beginning.match(str(wanted)))


def _ways(path: str) -> list[str]:
    """Return a path, and the directories that it is in."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]


def _rules(text: str) -> Iterator[tuple[bool, re.Pattern[str]]]:
    """Yield of each pattern whether it readmits what others leave out, and what it matches."""
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        written = line.strip()
        if line.startswith("#") or not written:
            continue
        readmits = written.startswith("!")
        pattern = written[readmits:].strip()
        pattern = posixpath.normpath(pattern).lstrip("/") if pattern else ""
        try:
            if not _VALID.fullmatch(pattern) or (readmits and not pattern):
                raise re.error("it is none")
            yield readmits, re.compile(_expression(pattern), re.ASCII)
        except re.error as error:
            raise BadPattern(f"{number}: {written} cannot be read as a pattern: {error}") from None


def _expression(pattern: str) -> str:
    """Return what matches as a pattern does."""
    begin, end = pattern.removeprefix("**"), pattern.removesuffix("**")
    if not _SPECIAL.search(pattern):
        return rf"^{re.escape(pattern)}\Z"
    if not _SPECIAL.search(begin):
        return rf"{re.escape(begin)}\Z|^{re.escape(begin.removeprefix('/'))}\Z"
    if not _SPECIAL.search(end):
        return rf"^{re.escape(end)}"

    def translated(found: re.Match[str]) -> str:
        token = found[0]
        if token.startswith("**"):
            return ".*" if found.end() == len(pattern) else "(?:.*/)?"
        return _MEANING.get(token, token)

    # Docker lets | and braces through, so this may have alternatives.
    return _CLASS.sub(_closed, rf"^{_TOKEN.sub(translated, pattern)}\Z")


def _closed(found: re.Match[str]) -> str:
    """Return a class whose brackets are characters, as they are in Go, and whose named classes are written out."""
    if found[0].startswith("\\"):
        return found[0]
    if found[0] == "[":
        raise re.error("a class does not end")
    return "[" + re.sub(rf"({_NAMED})|\\.|[\[&~|]", _written_out, found[0][1:])


def _written_out(part: re.Match[str]) -> str:
    if part[1] is None:
        return part[0] if len(part[0]) > 1 else f"\\{part[0]}"
    name = part[1][2:-2]
    members = _POSIX.get(name.removeprefix("^"))
    if members is None:
        raise re.error(f"there is no class {part[1]}")
    if not name.startswith("^"):
        return members
    others = (f"\\x{code:02x}" for code in range(128) if not re.match(f"[{members}]", chr(code)))
    return "".join(others) + "\x80-\U0010ffff"
