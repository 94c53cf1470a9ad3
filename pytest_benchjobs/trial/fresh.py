"""Step 5 in a fresh sandbox: files that the agent left are copied there, and nothing else of the agent."""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Iterator, Sequence

from ..model.errors import EnvironmentFailed, ImageMissing
from ..model.scenario import FreshContainer
from ..sandbox.protocol import Sandbox, Taken
from ..scoring.output import Tail

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


def collect(sandbox: Sandbox, fresh: FreshContainer) -> Carried:
    """Collect from the agent's sandbox the files that the scenario names. Close `taken.archive` after use.

    Raises:
        ImageMissing: a patch is requested of a kept container, whose initial state is unknown.
        InfrastructureError: the engine failed.
    """
    if not fresh.patch:
        paths = {
            posixpath.normpath(posixpath.join(sandbox.workdir, carried.source)): carried.exclude
            for carried in fresh.paths
        }
        return Carried(sandbox.take(paths, limit=CARRIED_LIMIT))
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
    sandbox.give(carried.taken)


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
