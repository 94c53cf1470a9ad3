"""Step 5 in a fresh sandbox: files that the agent left are copied there, and nothing else of the agent.

Of a diff, what git ignores is left out, as the repository would have it. git runs in the container for grading, before
anything is carried there: so the ignore rules are those the agent began with, and no program or configuration of the
agent has any influence.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import posixpath
import tempfile
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Literal

from ..model.errors import EngineLost, EnvironmentFailed
from ..model.scenario import MAIN, FreshContainer
from ..sandbox.archive import excluded
from ..sandbox.carry.compare import Apart
from ..sandbox.carry.own import program_paths
from ..sandbox.carry.transfer import LIMIT, carry, differences
from ..sandbox.paths import DEFAULT_PATH, directories_above, is_below
from ..sandbox.protocol import File, HasServices, Sandbox, Service
from ..sandbox.runner import Runner, Serves, can_serve, serving
from ..scoring.output import Tail
from ..sources.place import WHOLE_CONTAINER
from ..system.cutting import end_of

_TRIES = 3
_TIMEOUT = 300.0
_OURS = ("/bench", "/logs")
_FLEETING = ("/run", "/tmp", "/var/cache", "/var/log", "/var/tmp")  # noqa: S108
"""Directories whose changes are seldom the subject of a task."""
_GIT_OUTPUT = 64 * 1024 * 1024
_GIT = "git -c safe.directory='*'"
_GIT_KNOWS = (0, 1)
"""Exit statuses of `git check-ignore`: some paths are ignored, none is."""


class Programs:
    """Runs programs in a sandbox. It begins at its first use, and anew where it was cut off."""

    def __init__(self, sandbox: Callable[[], Sandbox], mode: Literal["alone"] | None = None) -> None:
        self._sandbox, self._mode = sandbox, mode
        self._runner: Runner | None = None
        self._lock = threading.Lock()

    def runner(self) -> Runner:
        """Return what runs them."""
        with self._lock:  # several calls may be made at a time
            if self._runner is None or self._runner.has_ended:
                self.close()
                self._runner = serving(self._sandbox(), self._mode)
            return self._runner

    def close(self) -> None:
        """Let go of the sandbox."""
        if self._runner is not None:
            self._runner.close()


@dataclasses.dataclass(slots=True)
class Trees:
    """Files and directories that are made what they are in the agent's sandbox, to the last bit."""

    programs: Programs
    """In the agent's sandbox."""
    roots: tuple[str, ...]
    named: tuple[str, ...]
    """Paths that the scenario names; all of them must be carried."""
    apart: Apart | None = None
    """Tells what below the roots is not carried."""
    repository: str | None = None
    """Directory of a repository of git; what that ignores is not carried."""
    notes: tuple[str, ...] = ()
    """Notes on what was left out, and why."""
    _known: dict[tuple[bytes, ...], bytes] | None = dataclasses.field(default_factory=dict)
    """Lists of the agent's sandbox; None: programs may have changed it meanwhile."""

    def runner(self) -> Runner:
        """Return what runs programs of the agent in its sandbox."""
        self._known = None
        return self.programs.runner()

    def deliver(self, sandbox: Sandbox) -> None:
        """Make them so in another sandbox; raise `Ungradable` where something that is named cannot be carried."""
        for left in reversed(range(_TRIES)):
            try:
                self._deliver(sandbox)
                break
            except EngineLost:  # a stream was cut: nothing is lost by that
                if not left:
                    raise

    def _deliver(self, sandbox: Sandbox) -> None:
        with contextlib.closing(serving(sandbox)) as fresh:
            ignored = None
            if self.repository is not None:
                ignored = functools.partial(ignored_by_git, fresh, self.repository)
            named, programs = (tuple(map(os.fsencode, paths)) for paths in (self.named, _programs(sandbox)))
            self.notes = carry(
                self.programs.runner().program,
                fresh.program,
                self.roots,
                named=named,
                programs=programs,
                apart=self.apart,
                ignored=ignored,
                known=self._known,
            ).notes


class Copies:
    """Files by way of this machine: of services, which may have ended, and where no program of ours can run."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.gone: tuple[str, ...] = ()
        """Paths of which nothing of the image stays."""
        self._files: list[File] = []
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    def add(self, container: Service, paths: Mapping[str, tuple[str, ...]]) -> None:
        """Copy files and directories out of a container (path -> patterns of what is left out)."""
        self._directory = self._directory or tempfile.TemporaryDirectory(prefix="benchjobs-")
        for path, exclude in paths.items():
            here = Path(self._directory.name, str(len(self._files)))
            fetched = container.fetch(path, here, limit=LIMIT, exclude=exclude)
            if fetched is not None and here.exists():
                self._files.append(File(path, source=here))
            left_out = ("it is not there",) if fetched is None else fetched.notes
            self.notes += (f"not carried: {path}: {why}" for why in left_out)

    def deliver(self, sandbox: Sandbox) -> None:
        """Put them into another sandbox; raise `EnvironmentFailed` where what is gone cannot be removed there."""
        if self.gone:
            said = Tail()
            command = ("rm", "-rf", "--", *self.gone)
            if sandbox.exec(command, timeout=_TIMEOUT, sink=said, user="root").exit_status != 0:
                raise EnvironmentFailed(
                    f"files cannot be removed in the container for grading: {end_of(said.text(), 500)}"
                )
        if self._files:
            sandbox.put(self._files)

    def close(self) -> None:
        """Remove them from this machine."""
        if self._directory is not None:
            self._directory.cleanup()


@dataclasses.dataclass(frozen=True, slots=True)
class Carried:
    """The files of an agent that are graded in a fresh sandbox."""

    trees: Trees | None
    copies: Copies

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on what was left out, and why."""
        return (*(() if self.trees is None else self.trees.notes), *self.copies.notes)

    def deliver(self, sandbox: Sandbox) -> None:
        """Copy them into another container. Raises as its parts do."""
        if self.trees is not None:
            self.trees.deliver(sandbox)
        self.copies.deliver(sandbox)

    def close(self) -> None:
        """Remove all copies, and let go of the agent's sandbox."""
        self.copies.close()
        if self.trees is not None:
            self.trees.programs.close()


def check_place(sandbox: Sandbox, fresh: FreshContainer) -> None:
    """Make sure that it is known what of a container is the agent's work, and that it can be carried.

    EnvironmentFailed: the workdir is the whole container, or where programs of the image are, and the scenario names
    nothing else; or a patch is asked for where no program of ours can run.
    """
    if fresh.patch and not can_serve(sandbox):
        raise EnvironmentFailed(
            "what an agent changed cannot be told in such a sandbox; give `fresh_container` paths instead of `patch`"
        )
    if not fresh.is_workdir or fresh.carry or (program := _program_in_workdir(sandbox)) is None:
        return
    workdir = posixpath.normpath(sandbox.workdir)
    if workdir == "/":
        raise EnvironmentFailed(f"the image has no workdir of its own, and {WHOLE_CONTAINER}")
    raise EnvironmentFailed(
        f"the workdir {workdir} has the programs of the image ({program}), which are not the agent's work; "
        "name another `workdir`, or what is to be carried in `carry`, or `grade_in: agent_container`"
    )


def _program_in_workdir(sandbox: Sandbox) -> str | None:
    """Return a directory of programs around the workdir, or of the system and in it; None: it can be carried."""
    workdir = posixpath.normpath(sandbox.workdir)
    system = (path for path in DEFAULT_PATH.split(":") if is_below(path, (workdir,)))
    around = (path for path in _programs(sandbox) if is_below(workdir, (path,)))
    return next(itertools.chain(system, around), None)


def _programs(sandbox: Sandbox) -> tuple[str, ...]:
    return program_paths(sandbox.variables) if isinstance(sandbox, Serves) else ()


def collect(sandbox: Sandbox, fresh: FreshContainer) -> Carried:
    """Collect what the scenario names, from the agent's sandbox and services beside it. Close it after use."""
    paths, workdir = _paths_of(sandbox, fresh), posixpath.normpath(sandbox.workdir)
    tops = tuple(path for path in paths if not is_below(path, paths.keys() - {path}))
    with contextlib.ExitStack() as opened:
        copies, trees = Copies(), None
        opened.callback(copies.close)
        if can_serve(sandbox):
            # A diff is carried as a whole, also where programs of the image are in it.
            named = tuple(path for path in paths if path != workdir or not fresh.ignored)
            programs = Programs(lambda: sandbox, "alone")
            trees = Trees(programs, tops, named, _apart(paths), None if fresh.ignored else workdir)
        else:
            copies.gone = tuple(path for path in tops if not paths[path])
            copies.add(sandbox, paths)
        for name in dict.fromkeys(one.service for one in (*fresh.paths, *fresh.carry)):
            if name != MAIN:
                copies.add(service := service_of(sandbox, name), _named(service, fresh, name))
        opened.pop_all()
    return Carried(trees, copies)


def service_of(sandbox: Sandbox, name: str) -> Service:
    """Return a service beside the sandbox by its name, `main` being the sandbox; `EnvironmentFailed`: there is none."""
    if name == MAIN:
        return sandbox
    if not isinstance(sandbox, HasServices):
        raise EnvironmentFailed(f"there is no service {name!r}: this sandbox has none")
    return sandbox.service(name)


def differing(
    sandbox: Sandbox, untouched: Sandbox, fresh: FreshContainer, *, fleeting: bool
) -> tuple[str, ...]:
    """Return what differs in two sandboxes and is not carried, the likeliest to matter first.

    Nothing where programs of ours cannot run. Without `fleeting`, temporary files, caches and logs do not count.
    """
    if not can_serve(sandbox) or not can_serve(untouched):
        return ()
    without = [os.fsencode(path) for path in (*_paths_of(sandbox, fresh), *_OURS)]
    with contextlib.closing(serving(sandbox)) as one, contextlib.closing(serving(untouched)) as other:
        found = differences(one.program, other.program, without)
    paths = (path.decode("utf-8", "backslashreplace") for path in found if b"/__pycache__/" not in path)
    placed = sorted((is_below(path, _FLEETING), path) for path in paths)
    return tuple(path for is_fleeting, path in placed if fleeting or not is_fleeting)


def _paths_of(sandbox: Sandbox, fresh: FreshContainer) -> dict[str, tuple[str, ...]]:
    """Return what is carried of the agent's sandbox, and patterns of what is left out of each."""
    workdir, named = posixpath.normpath(sandbox.workdir), _named(sandbox, fresh, MAIN)
    if fresh.patch:
        return {workdir: (".git",)}
    if not fresh.is_workdir or _program_in_workdir(sandbox) is not None:
        return named
    return {workdir: (), **named}


def _named(container: Service, fresh: FreshContainer, service: str) -> dict[str, tuple[str, ...]]:
    return {
        posixpath.normpath(posixpath.join(container.workdir, carried.source)): carried.exclude
        for carried in (*fresh.paths, *fresh.carry)
        if carried.service == service
    }


def _apart(paths: Mapping[str, tuple[str, ...]]) -> Apart | None:
    """Return what tells the paths that are left out; None: there are none."""
    if not any(paths.values()):
        return None

    def is_apart(encoded: bytes) -> bool:
        path = os.fsdecode(encoded)
        if any(is_below(one, (path,)) for one in paths):
            return False
        around = [(one, patterns) for one, patterns in paths.items() if is_below(path, (one,))]
        return all(excluded(posixpath.relpath(path, one), patterns) for one, patterns in around)

    return is_apart


def ignored_by_git(place: Runner, workdir: str, paths: Collection[bytes]) -> frozenset[bytes]:
    """Return which paths the repository in `workdir` has git ignore; raise `EnvironmentFailed` where git fails.

    Those of directories come with a slash at their end, and are returned without.
    """
    if not paths:
        return frozenset()
    names, check = [*map(os.fsdecode, paths)], f"{_GIT} check-ignore -z --stdin"
    status, found, said = _listed(place, workdir, check, names)
    if status not in _GIT_KNOWS:
        # Git fails on a path behind a link; ask for the link then, which the agent replaced by a directory.
        # It also fails on a path within a submodule, which is in no diff.
        links = _listed(place, workdir, 'find "$PWD" -name .git -prune -o -type l -print0')[1]
        entries = (
            entry.partition("\t") for entry in _listed(place, workdir, f"{_GIT} ls-files --stage -z")[1]
        )
        submodules = {
            posixpath.join(workdir, path) for mode, _, path in entries if mode.startswith("160000 ")
        }
        within = {name for name in names if not submodules.isdisjoint(directories_above(name))}
        instead = {
            name: next((way for way in directories_above(name) if way in links), name)
            for name in names
            if name not in within
        }
        status, ignored, said = _listed(place, workdir, check, instead.values())
        found = within.union(name for name, way in instead.items() if way in ignored)
    if status not in _GIT_KNOWS:
        raise EnvironmentFailed(
            f"git cannot tell what it ignores in {workdir} of the container for grading: "
            f"{end_of(said, 300).strip() or 'it said nothing'}"
        )
    return frozenset(os.fsencode(name.rstrip("/")) for name in found)


def _listed(
    place: Runner, workdir: str, command: str, names: Iterable[str] = ()
) -> tuple[int | None, set[str], str]:
    """Run a shell command as root; return its exit status, the printed entries, and the end of its messages."""
    printed, said = Tail(_GIT_OUTPUT), Tail()
    status = place.run(
        ("/bin/sh", "-c", command),
        stdout=printed,
        stderr=said,
        stdin=(b"".join(os.fsencode(f"{name}\0") for name in sorted(set(names))),),
        workdir=workdir,
        timeout=_TIMEOUT,
    )
    return status, {*os.fsdecode(printed.raw()).split("\0")} - {""}, said.text()
