"""The files of one trial: in a hidden directory while it runs, in their place once it has ended."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from ..model.base import Model
from ..model.errors import InputError, ResultsUnwritable
from ..model.result import Trial, TrialResult
from .files import remove_tree, sync_directory, write_atomically, writing
from .layout import RESULT, TrialLayout, aside, hidden, namesakes, trial_path
from .text import one_line, plain

AnyModel = TypeVar("AnyModel", bound=Model)
OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST)
"""`errno` values of a rename over a directory that is not empty."""


class TrialDirectory:
    """Files of one trial: hidden while it runs, in their place once it has ended.

    Raises DiskFull, ResultsUnwritable: from everything that writes.
    """

    def __init__(self, root: Path, trial: Trial) -> None:
        self._root = root
        self._node_id = trial.node_id
        self._final = root / trial_path(trial.agent.label, trial.scenario.id, trial.attempt)
        self.layout = TrialLayout(hidden(self._final))
        """Directory of the files now."""
        with writing(self.path):
            self.path.mkdir(parents=True)
            self._start_clean()

    @property
    def path(self) -> Path:
        """Directory of the files now."""
        return self.layout.root

    def set_aside(self, try_number: int) -> None:
        """Keep all files so far as those of a failed try, and start clean. Close log files first."""
        self._move_to(self.layout.earlier_try(try_number), "try-")

    def set_turn_aside(self, turn: int) -> None:
        """Keep all files of a turn, and start clean for the next one of the same try. Close log files first."""
        self._move_to(self.layout.earlier_turn(turn), "try-", "turn-")

    def _move_to(self, earlier: Path, *left: str) -> None:
        """Move all files except those whose names begin with one of `left`."""
        with writing(self.path):
            self._remove_empty()
            earlier.mkdir()
            for entry in list(self.path.iterdir()):
                if not entry.name.startswith(left):
                    entry.rename(earlier / entry.name)
            self._start_clean()

    def commit(self, result: TrialResult) -> TrialResult:
        """Write `result.json` and move all files to their place; return the result with its `path`.

        An earlier result of the same trial is replaced. Two scenarios of the same name in different files get different
        places.
        """
        self._remove_empty()
        result, self._final = move_in(self._root, self.path, self._final, sound(result))
        self.layout = TrialLayout(self._final)
        return result

    def discard(self) -> None:
        """Remove the files of an unfinished trial. Does nothing after `commit`. Never raises."""
        if self.path != self._final:
            remove_tree(self.path)

    def _start_clean(self) -> None:
        self.layout.scorers.mkdir()
        self.layout.artifacts.mkdir()

    def _remove_empty(self) -> None:
        remove_empty(self.layout.scorers)
        remove_empty(self.layout.artifacts)


def read_result(directory: Path | str) -> TrialResult:
    """Read the result in the directory of a trial. Raises InputError: missing or damaged."""
    return read_stored(TrialResult, f"{directory}/{RESULT}")


def read_stored(model: type[AnyModel], path: Path | str) -> AnyModel:
    """Read a file of a bundle. Raises InputError: missing or damaged."""
    try:
        # Unbuffered, as it is read at once: two system calls fewer. There may be many of them.
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            content = file.read()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=Path(path)) from error
    return parsed(model, content, path)


def parsed(model: type[AnyModel], content: bytes, path: Path | str) -> AnyModel:
    """Parse the content of a file of a bundle. Raises InputError: it is damaged."""
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        raise InputError(
            f"is damaged or of another version: {what_is_wrong(error)}", path=Path(path)
        ) from error


Found = tuple[str, TrialResult]
"""The directory of a trial, relative to that of its job, and the result in it. Text: there may be many of them."""


def genuine(found: Iterable[Found], job: str, refuse: Callable[[str, str], None]) -> Iterator[Found]:
    """Yield results that belong to this job and to their directory, and have a unique node id.

    Others are copies, or were edited by hand: `refuse` is called with the directory and the reason. Of two results with
    one node id, the one that the id describes is genuine. A wrong path is corrected.
    """
    own: dict[str, str] = {}
    doubtful: list[Found] = []

    def is_first(directory: str, result: TrialResult) -> bool:
        first = own.setdefault(result.node_id, directory)
        if first != directory:
            refuse(directory, f"has the node id of the trial in {first}")
        return first == directory

    for directory, result in found:
        if result.path not in ("", directory):  # its files are looked up by this path
            result = result.model_copy(update={"path": directory})
        misplaced = _misplaced(directory, job, result)
        if misplaced is not None:
            refuse(directory, misplaced)
        elif not result.node_id.rpartition("::")[2].startswith(f"{result.scenario}["):
            doubtful.append((directory, result))
        elif is_first(directory, result):
            yield directory, result
    yield from (each for each in doubtful if is_first(*each))


def _misplaced(directory: str, job: str, result: TrialResult) -> str | None:
    """Return the reason why a result cannot belong to its directory."""
    if result.job != job:
        return "is the result of another job"
    usual = trial_path(result.agent.label, result.scenario, result.attempt)
    if directory == usual or Path(directory) in namesakes(Path(usual), result.node_id):
        return None
    return f"is the result of another trial: {one_line(result.node_id, 200)}"


def move_in(
    root: Path, source: Path, final: Path, result: TrialResult, *, durable: bool = True
) -> tuple[TrialResult, Path]:
    """Write `result.json` and move the directory to its place, or to another one if a namesake has it."""
    for place in namesakes(final, result.node_id):
        path = place.relative_to(root).as_posix()
        if result.path != path or not (source / RESULT).exists():
            result = result.model_copy(update={"path": path})
            write_atomically(source / RESULT, as_json(result), durable=durable)
        with writing(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            if _settle(source, place, result.node_id):
                if durable:
                    sync_directory(place.parent)
                return result, place
    raise ResultsUnwritable(f"{final}: a trial other than {result.node_id} has this place")


def _settle(source: Path, target: Path, node_id: str) -> bool:
    """Move a trial to its place, over an earlier result of the same trial. False if another trial is there."""
    for _ in range(100):
        with contextlib.suppress(_Occupied):
            _rename(source, target)
            return True
        if _node_id(target) not in (node_id, None):
            return False
        # Move the old one aside, under a name that `sweep` knows and moves back if this process dies here.
        replaced = aside(target)
        with contextlib.suppress(FileNotFoundError):
            target.rename(replaced)
        try:
            _rename(source, target)
        except _Occupied:
            continue
        except OSError:
            with contextlib.suppress(OSError):
                replaced.rename(target)
            raise
        finally:
            if target.exists():
                remove_tree(replaced)
        return True
    raise OSError(errno.EBUSY, f"many processes write the same trial {target}")


class _Occupied(Exception):
    """The place is occupied."""


def _rename(source: Path, target: Path) -> None:
    try:
        source.rename(target)
    except OSError as error:
        if error.errno in OCCUPIED:
            raise _Occupied from error
        raise


def _node_id(directory: Path) -> str | None:
    try:
        return str(json.loads((directory / RESULT).read_bytes())["node_id"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def sound(result: TrialResult) -> TrialResult:
    """Return a result that JSON can hold: without half characters, or objects that a scorer put in."""
    try:
        result.model_dump_json()
    except (PydanticSerializationError, UnicodeError):
        return TrialResult.model_validate_json(
            json.dumps(plain(result.model_dump(by_alias=True, warnings=False)))
        )
    return result


def as_json(model: Model) -> bytes:
    """Return a model as the content of a file."""
    return f"{model.model_dump_json(indent=1, by_alias=True)}\n".encode()


def remove_empty(directory: Path | str) -> None:
    """Remove a directory if it is empty."""
    with contextlib.suppress(OSError):
        os.rmdir(directory)  # noqa: PTH106  there may be many of them


def what_is_wrong(error: ValidationError) -> str:
    """Return the first validation error, in a line."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message
