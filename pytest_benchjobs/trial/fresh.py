"""Step 5 in a fresh sandbox: files that the agent left are copied there, and nothing else of the agent."""

from __future__ import annotations

import contextlib
import dataclasses
import posixpath
from collections.abc import Iterator, Sequence

from ..model.errors import EnvironmentFailed, ImageMissing
from ..model.scenario import MAIN, FreshContainer
from ..sandbox.protocol import Sandbox, Service, Taken
from ..scoring.output import Tail
from .beside import service_of

CARRIED_LIMIT = 2 << 30
"""Most bytes that are copied."""
_ARGUMENTS = 50_000
_REMOVAL_TIMEOUT = 300.0


@dataclasses.dataclass(frozen=True, slots=True)
class Carried:
    """The files of an agent that are graded in a fresh sandbox."""

    taken: Taken
    gone: tuple[str, ...] = ()
    """Paths of the image that were removed."""
    of_services: tuple[Taken, ...] = ()
    """Files of services beside the agent's sandbox."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on what was left out, and why."""
        return tuple(note for taken in (self.taken, *self.of_services) for note in taken.notes)

    def close(self) -> None:
        """Close all archives."""
        for taken in (self.taken, *self.of_services):
            taken.archive.close()


def collect(sandbox: Sandbox, fresh: FreshContainer) -> Carried:
    """Collect from the agent's sandbox, and from services beside it, the files that the scenario names.

    Close it after use.

    Raises:
        ImageMissing: a patch is requested of a kept container, whose initial state is unknown.
        InfrastructureError: the engine failed.
    """
    if not fresh.patch:
        paths = _paths_of(sandbox, fresh, MAIN)
        others = dict.fromkeys(carried.service for carried in fresh.paths if carried.service != MAIN)
        with contextlib.ExitStack() as opened:
            found = [sandbox.take(paths, limit=CARRIED_LIMIT)]
            opened.callback(found[0].archive.close)
            for name in others:
                service = service_of(sandbox, name)
                found.append(service.take(_paths_of(service, fresh, name), limit=CARRIED_LIMIT))
                opened.callback(found[-1].archive.close)
            opened.pop_all()
        return Carried(found[0], of_services=tuple(found[1:]))
    workdir = posixpath.normpath(sandbox.workdir)
    changed = sandbox.changed(workdir)
    if changed is None:
        raise ImageMissing(
            "it is graded by what the agent changed, which is unknown for a kept container. "
            "Give `fresh_container` paths instead of `patch`, or run the trial again"
        )
    there = frozenset(path for path in changed.there if not _of_git(path))
    gone = tuple(path for path in changed.gone if not _of_git(path))
    taken = sandbox.take({workdir: (".git",)} if there else {}, limit=CARRIED_LIMIT, only=there)
    return Carried(taken, gone)


def deliver(carried: Carried, sandbox: Sandbox) -> None:
    """Copy collected files into another container.

    Raises:
        EnvironmentFailed: removed paths cannot be removed there.
        InfrastructureError: the engine failed.
    """
    for paths in _batches(carried.gone):
        tail = Tail()
        result = sandbox.exec(("rm", "-rf", "--", *paths), timeout=_REMOVAL_TIMEOUT, sink=tail, user="root")
        if result.exit_status != 0:
            raise EnvironmentFailed(
                f"files cannot be removed in the container for grading: {tail.text()[-500:]}"
            )
    for taken in (carried.taken, *carried.of_services):
        sandbox.give(taken)


def _paths_of(
    container: Sandbox | Service, fresh: FreshContainer, service: str
) -> dict[str, tuple[str, ...]]:
    return {
        posixpath.normpath(posixpath.join(container.workdir, carried.source)): carried.exclude
        for carried in fresh.paths
        if carried.service == service
    }


def _of_git(path: str) -> bool:
    return ".git" in path.split("/")


def _batches(paths: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for path in paths:
        more = len(path.encode("utf-8", "replace")) + 1
        if batch and size + more > _ARGUMENTS:
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += more
    if batch:
        yield batch
