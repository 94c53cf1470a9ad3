"""Step 5 in a fresh sandbox: files that the agent left are copied there, and nothing else of the agent."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import posixpath
from collections.abc import Iterator, Sequence

from ..model.errors import EngineLost, EnvironmentFailed, ImageMissing
from ..model.scenario import MAIN, FreshContainer
from ..sandbox.carry.own import program_paths
from ..sandbox.carry.transfer import LIMIT, carry, differences, list_fresh
from ..sandbox.paths import DEFAULT_PATH, is_below
from ..sandbox.protocol import Sandbox, Service, Taken
from ..sandbox.runner import Runner, Serves, can_serve, serving
from ..scoring.output import Tail
from ..sources.place import WHOLE_CONTAINER
from .beside import service_of

_TRIES = 3
_ARGUMENTS = 50_000
_REMOVAL_TIMEOUT = 300.0
_NOBODYS = ("/bench", "/logs", "/run", "/tmp", "/var/cache", "/var/log", "/var/tmp")  # noqa: S108
"""What differs there tells nothing."""


@dataclasses.dataclass(slots=True)
class Trees:
    """Files and directories that are made what they are in the agent's sandbox, to the last bit."""

    sandbox: object
    """The agent's."""
    roots: tuple[str, ...]
    named: tuple[str, ...]
    """What the scenario names, which nothing may be missing of."""
    notes: tuple[str, ...] = ()
    """Notes on what was left out, and why."""
    _runner: Runner | None = None

    def runner(self) -> Runner:
        """Return what runs programs in the agent's sandbox; begun anew where it was cut off.

        Raises:
            EnvironmentFailed: it does not start.
            InfrastructureError: the engine failed.
        """
        if self._runner is None or self._runner.has_ended:
            self.close()
            self._runner = serving(self.sandbox, alone=True)
        return self._runner

    def close(self) -> None:
        """Let go of the agent's sandbox."""
        if self._runner is not None:
            self._runner.close()

    def deliver(self, sandbox: Sandbox) -> None:
        """Make them so in another sandbox.

        Raises:
            Ungradable: something that the scenario names cannot be carried.
            EnvironmentFailed: the other sandbox cannot be written to.
            InfrastructureError: the engine failed.
        """
        for left in reversed(range(_TRIES)):
            try:
                self._deliver(sandbox)
            except EngineLost:  # a stream was cut: nothing is lost by that
                if not left:
                    raise
            else:
                return

    def _deliver(self, sandbox: Sandbox) -> None:
        with contextlib.closing(serving(sandbox)) as fresh:
            listing = list_fresh(fresh.program, self.roots)
            named, programs = (tuple(map(os.fsencode, paths)) for paths in (self.named, _programs(sandbox)))
            self.notes = carry(
                self.runner().program, fresh.program, listing, named=named, programs=programs
            ).notes


@dataclasses.dataclass(frozen=True, slots=True)
class Carried:
    """The files of an agent that are graded in a fresh sandbox."""

    trees: Trees | None = None
    taken: tuple[Taken, ...] = ()
    """Archives of others: of services beside the agent's sandbox, and where something is left out."""
    gone: tuple[str, ...] = ()
    """Paths of which nothing of the image stays."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on what was left out, and why."""
        of_trees = () if self.trees is None else self.trees.notes
        return (*of_trees, *(note for taken in self.taken for note in taken.notes))

    def close(self) -> None:
        """Close all archives, and let go of the agent's sandbox."""
        for taken in self.taken:
            taken.archive.close()
        if self.trees is not None:
            self.trees.close()


def check_place(sandbox: Sandbox, fresh: FreshContainer) -> None:
    """Make sure that it is known what of a container is the agent's work.

    Raises:
        EnvironmentFailed: the workdir is the whole container, or where programs of the image are, and the scenario
            names nothing else.
    """
    if not fresh.is_workdir or fresh.carry or (program := _program_in_workdir(sandbox)) is None:
        return
    workdir = posixpath.normpath(sandbox.workdir)
    if workdir == "/":
        raise EnvironmentFailed(f"the image has no workdir of its own, and {WHOLE_CONTAINER}")
    raise EnvironmentFailed(
        f"the workdir {workdir} has the programs of the image ({program}), which are not the agent's work; "
        "name another `workdir`, or what is to be carried in `carry`, or `grade_in: agent_container`"
    )


def _program_in_workdir(container: Sandbox | Service) -> str | None:
    """Return a directory of programs for which a workdir cannot be carried; None: it can.

    One of the system is in it, or all of it is in one.
    """
    workdir = posixpath.normpath(container.workdir)
    system = (path for path in DEFAULT_PATH.split(":") if workdir == "/" or is_below(path, (workdir,)))
    around = (path for path in _programs(container) if is_below(workdir, (path,)))
    return next(itertools.chain(system, around), None)


def _programs(container: Sandbox | Service) -> tuple[str, ...]:
    return program_paths(container.variables) if isinstance(container, Serves) else ()


def collect(sandbox: Sandbox, fresh: FreshContainer) -> Carried:
    """Collect from the agent's sandbox, and from services beside it, the files that the scenario names.

    Close it after use.

    Raises:
        ImageMissing: a patch is requested of a kept container, whose initial state is unknown.
        InfrastructureError: the engine failed.
    """
    if not fresh.patch:
        return _collected(sandbox, fresh)
    workdir = posixpath.normpath(sandbox.workdir)
    changed = sandbox.changed(workdir)
    if changed is None:
        raise ImageMissing(
            "it is graded by what the agent changed, which is unknown for a kept container. "
            "Give `fresh_container` paths instead of `patch`, or run the trial again"
        )
    there = frozenset(path for path in changed.there if not _of_git(path))
    gone = tuple(path for path in changed.gone if not _of_git(path))
    taken = sandbox.take({workdir: (".git",)} if there else {}, limit=LIMIT, only=there)
    return Carried(taken=(taken,), gone=gone)


def _collected(sandbox: Sandbox, fresh: FreshContainer) -> Carried:
    paths = _paths_of(sandbox, fresh, MAIN)
    whole = [path for path, exclude in paths.items() if not exclude]
    tops = [path for path in whole if not any(is_below(path, (top,)) for top in whole if top != path)]
    with contextlib.ExitStack() as opened:
        trees, taken = None, []
        if tops and can_serve(sandbox):
            workdir = posixpath.normpath(sandbox.workdir)
            trees = Trees(sandbox, tuple(tops), tuple(path for path in paths if path != workdir))
            paths = {path: exclude for path, exclude in paths.items() if exclude}
            tops = []
        services = dict.fromkeys(one.service for one in (*fresh.paths, *fresh.carry) if one.service != MAIN)
        of_services = ((service_of(sandbox, name), name) for name in services)
        for container, wanted in (
            *(((sandbox, paths),) if paths else ()),
            *((service, _paths_of(service, fresh, name)) for service, name in of_services),
        ):
            taken.append(container.take(wanted, limit=LIMIT))
            opened.callback(taken[-1].archive.close)
        opened.pop_all()
    return Carried(trees, tuple(taken), gone=tuple(tops))


def differing(sandbox: Sandbox, untouched: Sandbox, fresh: FreshContainer) -> tuple[str, ...]:
    """Return what differs in two sandboxes and is not carried; nothing where programs of ours cannot run.

    Raises:
        InfrastructureError: the engine failed.
    """
    if not can_serve(sandbox) or not can_serve(untouched):
        return ()
    without = [os.fsencode(path) for path in (*_paths_of(sandbox, fresh, MAIN), *_NOBODYS)]
    with contextlib.closing(serving(sandbox)) as one, contextlib.closing(serving(untouched)) as other:
        found = differences(one.program, other.program, without)
    return tuple(path.decode("utf-8", "backslashreplace") for path in found if b"/__pycache__/" not in path)


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
    if carried.trees is not None:
        carried.trees.deliver(sandbox)
    for taken in carried.taken:
        taken.archive.seek(0)
        sandbox.give(taken)


def _paths_of(
    container: Sandbox | Service, fresh: FreshContainer, service: str
) -> dict[str, tuple[str, ...]]:
    named = {
        posixpath.normpath(posixpath.join(container.workdir, carried.source)): carried.exclude
        for carried in (*fresh.paths, *fresh.carry)
        if carried.service == service
    }
    if not fresh.is_workdir or _program_in_workdir(container) is not None:
        return named
    return {posixpath.normpath(container.workdir): (), **named}


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
