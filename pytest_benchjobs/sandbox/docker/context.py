"""The build context of a Dockerfile: its files, without those that give an agent answers or earlier results."""

from __future__ import annotations

import dataclasses
import os.path
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from ...model.known_failure import KNOWN_FILE
from ...sources.manifest import SUFFIXES
from .dockerfile import Copied
from .ignoring import Ignored

_NAMES = frozenset({KNOWN_FILE, ".pytest_cache"})
_MARKER = "jobs/.benchjobs"
"""File in a directory of results."""
_RESULTS = ("jobs", "comparisons", "baselines.json", "history.sqlite")
_TEXTS = {".json": (b'"pytest-benchjobs baseline"', 256), ".py": (b"pytest_bench", 1 << 20)}
"""Suffix -> text in the beginning, of so many bytes, of baselines, and of modules with our imports or hooks."""


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """What of a directory goes to the engine. Paths are relative to it, and sorted."""

    paths: tuple[str, ...]
    left_out: tuple[str, ...]
    """Files and directories that stay here, without what is in such a directory."""
    _files: tuple[str, ...]
    """All files that stay here."""

    @classmethod
    def read(
        cls, directory: Path, dockerfile: str | None, ignored: Ignored, hidden: Iterable[Path]
    ) -> Context:
        """Read it from disk. `dockerfile` is the path of the Dockerfile in it; `hidden`, what no agent may see.

        Raises:
            OSError: it cannot be read.
        """
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
