"""Benchmarks that are rows of a file: JSON Lines with an index beside them, so that collection parses no row.

A benchmark of rows is one class: a `RowSource` with `ref`, which returns the data of a row that collection needs, and
`scenario`, which makes the whole scenario with `build`.
"""

from __future__ import annotations

import abc
import contextlib
import hashlib
import inspect
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from pydantic import ValidationError

from ..model.errors import InputError
from ..model.scenario import Scenario
from ..system.keeping import replace_file, version
from .complaints import did_you_mean, first_mistake
from .protocol import ScenarioRef, SourceWarning

if TYPE_CHECKING:
    from .catalogue.entry import Entry

ROWS = "rows.jsonl"
"""Usual name of the file that a dataset's `prepare` writes."""
Row = Mapping[str, Any]
_Made = TypeVar("_Made")
_INDEX = 3
"""Version of the index. An index of another version is rebuilt."""
_INDEX_SUFFIX = ".index.json"


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a file of rows."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)


def is_index(path: Path) -> bool:
    """Return True if a file is the index of another file, which is rebuilt when needed."""
    return path.name.startswith(".") and path.name.endswith(_INDEX_SUFFIX)


class RowSource(abc.ABC):
    """A source of scenarios in a file of JSON Lines, one object per line."""

    file: ClassVar[str] = ROWS
    """Name of the file among those of an entry of the catalogue."""

    def __init__(self, path: Path, benchmark: str, version: str | None = None) -> None:
        self.path = Path(os.path.abspath(path))  # noqa: PTH100  `resolve` follows links
        self.benchmark = benchmark
        self.version = version
        self.warnings: Sequence[SourceWarning] = ()
        self._places: dict[str, tuple[int, int, int]] | None = None
        self._refs: list[ScenarioRef] = []
        self._lock = threading.Lock()

    @classmethod
    def of(cls, entry: Entry, directory: Path) -> Sequence[Self]:
        """Return the one source of an entry of the catalogue, whose files are in a directory."""
        return [cls(directory / cls.file, entry.name, entry.version)]

    def build(self, ref: ScenarioRef, **keys: Any) -> Scenario:
        """Return the scenario of a reference, with further keys."""
        return Scenario(
            id=ref.id,
            benchmark=self.benchmark,
            benchmark_version=self.version,
            tags=ref.tags,
            source=self.path,
            line=ref.line,
            **keys,
        )

    @abc.abstractmethod
    def ref(self, row: Row) -> ScenarioRef:
        """Id and tags of a row. Called once for each row of a file, when its index is built.

        Raises KeyError, TypeError, ValueError: the row is wrong; the message says how.
        """

    @abc.abstractmethod
    def scenario(self, row: Row, ref: ScenarioRef) -> Scenario:
        """The whole scenario of a row. Called when a trial of it runs.

        Raises KeyError, TypeError, ValueError: the row is wrong; the message says how.
        """

    def refs(self, wanted: Callable[[str], bool] | None = None) -> list[ScenarioRef]:
        """List the wanted scenarios in the order of the file.

        Raises InputError: the file cannot be read, or a row of it is wrong.
        """
        self._indexed()
        return [ref for ref in self._refs if wanted is None or wanted(ref.id)]

    def load(self, scenario_id: str) -> Scenario:
        """The whole scenario; reads only its row.

        Raises InputError: the scenario does not exist, its row is wrong, or the file has changed since it was listed.
        """
        place = self._indexed().get(scenario_id)
        if place is None:
            raise InputError(
                f"no scenario {scenario_id!r}.{did_you_mean(scenario_id, self._indexed())}", path=self.path
            )
        offset, size, number = place
        with self._reading(), self.path.open("rb") as file:
            file.seek(offset)
            line = file.read(size)
        ref = self._refs[number]
        row = self._row_of(line, ref)
        return self._told(ref.line, lambda: self.scenario(row, ref))

    def _row_of(self, line: bytes, ref: ScenarioRef) -> Row:
        """Read the row of a scenario, at its place in the index.

        Raises InputError: another row is there: the file is not the one that was listed.
        """
        try:
            row = _row(line)
            if self.ref(row).id == ref.id:
                return row
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
            pass  # a part of a row, or not a row
        raise InputError(
            f"the row of {ref.id!r} is not where it was: the benchmark was fetched again, or its file changed, "
            "during the run; run it again",
            path=self.path,
            line=ref.line,
        )

    def _indexed(self) -> dict[str, tuple[int, int, int]]:
        """Offset, size and number of each row, by the id of its scenario; from the index, else from the rows."""
        with self._lock:
            if self._places is None:
                index = self._kept_index() or self._make_index()
                self._refs = [
                    ScenarioRef(name, tuple(tags), line, archived, tuple(kinds), needs_container)
                    for name, tags, line, archived, kinds, needs_container, _, _ in index
                ]
                self._places = {entry[0]: (entry[6], entry[7], at) for at, entry in enumerate(index)}
            return self._places

    @property
    def _index(self) -> Path:
        return self.path.with_name(f".{self.path.name}{_INDEX_SUFFIX}")

    def _stamp(self) -> list[Any]:
        """State of the file, and of the code that reads it: a change of either rebuilds the index."""
        with self._reading():
            state = self.path.stat()
        code = hashlib.sha256(inspect.getsource(type(self)).encode()).hexdigest()[:16]
        return [_INDEX, *version(state), code]

    def _kept_index(self) -> list[Any] | None:
        try:
            kept = json.loads(self._index.read_bytes())
        except (OSError, ValueError):
            return None
        return kept["rows"] if isinstance(kept, dict) and kept.get("of") == self._stamp() else None

    def _make_index(self) -> list[Any]:
        stamp = self._stamp()
        index: list[Any] = []
        seen: dict[str, int] = {}
        for number, offset, line in self._lines():
            ref = self._told(number, lambda line=line: self.ref(_row(line)))  # type: ignore[misc]
            if (first := seen.setdefault(ref.id, number)) != number:
                raise InputError(f"{ref.id!r} is the id of line {first}, too", path=self.path, line=number)
            about = (ref.id, ref.tags, number, ref.archived, ref.scorers, ref.needs_container)
            index.append([*about, offset, len(line)])
        # Without permission to write there, all rows are read each time.
        with contextlib.suppress(OSError):
            replace_file(self._index, json.dumps({"of": stamp, "rows": index}).encode())
        return index

    def _lines(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield number, offset and text of each line that is not empty."""
        offset = 0
        with self._reading(), self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, offset, line
                offset += len(line)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", path=self.path) from None

    def _told(self, line: int | None, make: Callable[[], _Made]) -> _Made:
        """Return the result of `make`; its error names the line."""
        try:
            return make()
        except ValidationError as error:
            raise InputError(f"the row is wrong: {first_mistake(error)}", path=self.path, line=line) from None
        except KeyError as error:
            raise InputError(f"the row has no {error}", path=self.path, line=line) from None
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"the row is wrong: {str(error)[:500]}", path=self.path, line=line) from None


def _row(line: bytes) -> Row:
    row = json.loads(line)
    if not isinstance(row, dict):
        raise TypeError("an object is expected")
    return row
