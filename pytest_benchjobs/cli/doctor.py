"""`doctor`: check that this machine can run trials."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
import platform
import shlex
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

import click

from ..agents.described import DescribedAgent
from ..agents.given import given_agents
from ..agents.packages import trouble
from ..agents.readiness import key_variables
from ..agents.starting import start_fault
from ..model.endpoint import Endpoint
from ..model.environ import HOST
from ..model.errors import InfrastructureError, InputError
from ..model.finding import Finding, Health, ok, problem, skipped
from ..model.job import JobConfig
from ..model.known_failure import KNOWN_FILE
from ..model.owner import current_owner
from ..report.documents.machine import DoctorDocument
from ..report.units import counted, joined
from ..sandbox.protocol import Diagnoses, Kept
from ..sandbox.providers import builtin_providers
from ..settings.agents import read_agent
from ..settings.known import read_known
from ..settings.secret_store import find
from ..settings.table import BY_NAME, LOCAL
from ..settings.values import read_flag
from ..sources import find_sources
from ..sources.project import ini_value, rootdir
from ..sources.protocol import Unsupported
from ..store import filesystem
from ..store.bundle import JobBundle
from ..store.database import migrations
from ..store.layout import Layout
from ..store.liveness import is_dead
from ..store.text import one_line
from ..system.units import size
from ._directory import GivenPath, new_directory_option
from ._output import emit, output_option
from .agents import known_agents

_STEP = 1.0


@click.command()
@click.argument("paths", nargs=-1, type=GivenPath(path_type=Path))
@click.option(
    "--agent", "agents", multiple=True, metavar="AGENT", help="Also check the keys of this agent; repeatable."
)
@click.option(
    "--sandbox",
    type=click.Choice([*builtin_providers()]),
    default=None,
    show_default="bench_sandbox of the ini file, else docker",
    help="Where trials run.",
)
@new_directory_option
@output_option("doctor")
def doctor(
    paths: tuple[Path, ...], agents: tuple[str, ...], sandbox: str | None, directory: Path, output: str
) -> int:
    """Check that this machine can run trials, and say how to fix each problem.

    PATHS are benchmarks, by default those of the current directory. Nothing is changed; a container is started and
    removed to test limits. Exit status 1 when there is any problem.
    """
    findings = tuple(_findings(paths or (Path(),), agents, sandbox or _sandbox(rootdir()), directory))
    document = DoctorDocument(
        ok=not any(finding.health is Health.PROBLEM for finding in findings), findings=findings
    )
    emit(document, lambda: _lines(document.findings), output)
    return 0 if document.ok else 1


def _findings(
    paths: tuple[Path, ...], named: tuple[str, ...], sandbox: str, directory: Path
) -> Iterator[Finding]:
    wall, steady = time.time(), time.monotonic()
    of_agents = [keys(agent) for agent in named]
    yield versions()
    yield from _of_engine(sandbox, directory)
    yield from results(directory)
    yield history(Layout(directory).history)
    yield from jobs(directory)
    yield from agents()
    yield from of_agents
    yield from data(paths)
    yield from known(Path(KNOWN_FILE), datetime.date.today())
    stepped = (time.time() - wall) - (time.monotonic() - steady)
    if abs(stepped) > _STEP:
        cure = "let only one program set the clock, in small steps"
        yield problem("clock", f"it jumped by {stepped:+.0f} s just now", cure)
    else:
        yield clock(_newest_job(directory))


def _of_engine(sandbox: str, directory: Path) -> Iterator[Finding]:
    kinds = builtin_providers()
    if sandbox not in kinds:
        yield skipped(
            "engine", f"only pytest knows the sandbox {sandbox!r}, which a plugin or conftest.py adds"
        )
        return
    provider = kinds[sandbox](current_owner())
    try:
        provider.check()
        if isinstance(provider, Diagnoses):
            yield from provider.findings()
        lacks = ", ".join(f"{promise} ({why})" for promise, why in provider.lacks().items())
        yield ok("promises", f"not kept: {lacks}" if lacks else "all are kept")
        yield kept(provider.kept(), Layout(directory.resolve()).jobs)
    except InfrastructureError as error:
        # Behind the colon, the message of an engine that does not answer says what to do.
        found, _, cure = str(error).rpartition(": ")
        yield problem("engine", found or str(error), cure)
    finally:
        provider.close()


def _sandbox(root: Path) -> str:
    """Return the sandbox that the ini file of a project names, else the usual one."""
    flag, sandbox = BY_NAME["no_docker"], BY_NAME["sandbox"]
    without, named = ini_value(root, flag.option), ini_value(root, sandbox.option)
    usual: str = JobConfig.model_fields["sandbox"].default
    return named or (LOCAL if without and read_flag(without, flag.option) else usual)


def _newest_job(directory: Path) -> datetime.datetime | None:
    newest = max((bundle.id for bundle in JobBundle.all(directory)), default=None)
    if newest is not None:
        with contextlib.suppress(InputError):
            return JobBundle.open(directory, newest).read().created_at
    return None


def _lines(findings: tuple[Finding, ...]) -> Iterator[str]:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        line = f"{finding.health.value:8} {finding.check:{width}}  {one_line(finding.found, 500)}"
        yield f"{line} -> {finding.cure}" if finding.cure else line


_GB = 1 << 30
_REBUILD = "benchjobs db rebuild"
_ELSEWHERE = "choose another directory with --dir or ini key bench_dir"
ROOM_FOR_RESULTS = 1 * _GB
_NO_PLUGINS = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"
_SET_CLOCK = "(sudo timedatectl set-ntp true)"
_SOON = datetime.timedelta(days=14)


def versions() -> Finding:
    """Look up versions of Python and packages, and the entry point of the plugin."""
    names = ("pytest-benchjobs", "pytest", "pytest-xdist", "docker", "pydantic")
    found = [f"Python {platform.python_version()}"]
    for name in names:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            return problem("versions", f"{name} is not installed", f"pip install {name}")
    if not any(point.name == "benchjobs" for point in metadata.entry_points(group="pytest11")):
        cure = "pip install --force-reinstall pytest-benchjobs"
        return problem("versions", "pytest does not find the plugin", cure)
    if os.environ.get(_NO_PLUGINS):
        return problem("versions", f"{_NO_PLUGINS} keeps the plugin out", f"unset {_NO_PLUGINS}")
    return ok("versions", ", ".join(found))


def clock(newest_job: datetime.datetime | None) -> Finding:
    """Check that the clock of this machine is not before times known to be past."""
    now = time.time()
    installed = Path(__file__).stat().st_mtime
    cure = f"set the clock {_SET_CLOCK}"
    if now < installed - 86_400:
        when = datetime.datetime.fromtimestamp(now, datetime.UTC)
        return problem("clock", f"it says {when:%Y-%m-%d %H:%M} UTC, before this package was installed", cure)
    if newest_job is not None and newest_job.timestamp() > now + 60:
        when = newest_job
        return problem("clock", f"the newest job began in the future, at {when:%Y-%m-%d %H:%M} UTC", cure)
    return ok("clock", f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M:%S} UTC")


def results(directory: Path) -> Iterator[Finding]:
    """Check the results directory: permission to write, free space, kind of file system."""
    place = next(path for path in (directory.absolute(), *directory.absolute().parents) if path.exists())
    refusal = _write(place)
    if refusal is not None:
        yield problem("results", f"{place}: {refusal}", _ELSEWHERE)
        return
    where = f"{directory} can be written" if place == directory.absolute() else f"{directory} can be made"
    yield ok("results", f"{where}; {_file_system(place)}")
    free = shutil.disk_usage(place).free
    if free < ROOM_FOR_RESULTS:
        cure = f"remove old jobs from {Layout(directory).jobs}, then benchjobs db rebuild"
        yield problem("results disk", f"{size(free)} free, less than {size(ROOM_FOR_RESULTS)}", cure)
    else:
        yield ok("results disk", f"{size(free)} free")


def history(path: Path) -> Finding:
    """Check the history: version, integrity, missing jobs."""
    bundles = {bundle.id for bundle in JobBundle.all(path.parent)}
    if not path.exists():
        if bundles:
            return problem("history", f"{counted(len(bundles), 'job')}, but no history", _REBUILD)
        return ok("history", "none yet")
    try:
        with contextlib.closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
        ) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > len(migrations()):
                cure = "pip install --upgrade pytest-benchjobs"
                return problem("history", f"schema {version} is of a newer version", cure)
            (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            known = {job for (job,) in connection.execute("SELECT id FROM jobs")} if version else set()
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
            what = f"{path} cannot be checked: its directory, or a file of it, cannot be written"
            return problem(
                "history", what, f"make {path.parent} and the files in it writable, or {_ELSEWHERE}"
            )
        return problem("history", f"{path}: {error}", _REBUILD)
    if state != "ok":
        return problem("history", f"{path} is damaged: {state}", _REBUILD)
    if version < len(migrations()):
        found = f"schema {version}, where this version has {len(migrations())}"
        return problem("history", found, "benchjobs list (upgrades it)")
    if missing := bundles - known:
        return problem("history", f"it lacks {counted(len(missing), 'job')}", _REBUILD)
    return ok("history", f"schema {version}, {counted(len(known), 'job')}, whole")


def jobs(directory: Path) -> Iterator[Finding]:
    """Find jobs whose process died, and jobs whose files cannot be read."""
    dead, closed = [], []
    for bundle in JobBundle.all(directory):
        shut = [path for path in (bundle.root, bundle.layout.trials) if _is_closed(path)]
        if shut:
            closed.append(shut[0])
        with contextlib.suppress(InputError):
            record = bundle.read()
            if not record.status.ended and is_dead(bundle.root, record):
                dead.append(record.id)
    if closed:
        yield problem(
            "jobs",
            f"{counted(len(closed), 'job')} cannot be read: {_first(closed)}",
            f"chmod -R u+rwX,go+rX {shlex.quote(str(closed[0]))} by its owner, who sets umask 022 for the next",
        )
    if dead:
        died = f"{counted(len(dead), 'job')} died while running: {_first(dead)}"
        yield problem("jobs", died, "benchjobs recover")
    elif not closed:
        yield ok("jobs", "none died while running")


def keys(agent: str) -> Finding:
    """Check the variables with keys that an agent needs for its model."""
    spec = read_agent(agent, Path.cwd())
    check = f"agent {spec.name}"
    broken: dict[str, InputError] = {}
    try:
        found = {**known_agents(broken), **given_agents([spec])}.get(spec.name)
        if found is None and spec.name in broken:
            raise broken[spec.name]
    except InputError as error:
        return problem(check, str(error), "name another path")
    if found is None:
        return skipped(check, "unknown here: only the conftest.py or plugin that adds it knows its keys")
    if spec.path is not None and isinstance(found, DescribedAgent) and (fault := _start_problem(found)):
        return fault
    endpoints_of = getattr(found, "endpoints", None)
    if endpoints_of is None:
        return ok(check, "needs no key")
    try:
        endpoints: tuple[Endpoint, ...] = endpoints_of(spec, HOST, {}) if spec.model else ()
        variables = tuple(name for one in endpoints for name in one.key_variables)
        if not endpoints and isinstance(found, DescribedAgent):
            variables = key_variables(found)
        there = {name: place.place for name in variables if (place := find(name)) is not None}
    except InputError as error:
        return problem(check, str(error), "name another, or see `benchjobs secret list`")
    if there:
        return ok(check, ", ".join(f"{name} is in {place}" for name, place in there.items()))
    if not variables and not endpoints:
        return ok(check, "needs no key")
    if not variables or (endpoints and not any(one.key_required for one in endpoints)):
        where = f"; {endpoints[0].base_url} may need none" if endpoints else ""
        return ok(check, f"no key is set{where}")
    needed = f"it needs {'one of ' if len(variables) > 1 else ''}{', '.join(variables)}"
    return problem(check, needed, f"export {variables[0]}=...")


def agents() -> Iterator[Finding]:
    """List the agents that are known here, and those that were fetched. Check the programs of those in a checkout."""
    broken: dict[str, InputError] = {}
    try:
        known = known_agents(broken)
    except InputError as error:
        yield problem("agents", str(error), "fix the file")
        return
    for name, wrong in broken.items():
        yield problem(f"agent {name}", str(wrong), "fix the file")
    fetched = [
        agent.name
        for agent in known.values()
        if isinstance(agent, DescribedAgent) and all(trouble(package) is None for package in agent.packages())
    ]
    names = ", ".join(known)
    yield ok("agents", f"{names}; fetched: {', '.join(fetched) or 'none'}; a conftest.py may add more")
    for agent in known.values():
        if isinstance(agent, DescribedAgent) and (fault := _start_problem(agent)) is not None:
            yield fault


def _start_problem(agent: DescribedAgent) -> Finding | None:
    """Return the fault of a program in a checkout; None if nothing is seen."""
    fault = start_fault(agent)
    if fault is None:
        return None
    found, _, cure = fault.removeprefix(f"agent {agent.name}: ").rpartition("; ")
    return problem(f"agent {agent.name}", found, cure.removeprefix("run: "))


def data(paths: Sequence[Path]) -> Iterator[Finding]:
    """Read benchmarks."""
    scenarios = broken = sources = 0
    for path in paths:
        try:
            found = find_sources(path)
        except InputError as error:
            broken += 1
            yield problem("data", str(error), "fix the file, or name another path")
            continue
        for source in found:
            sources += 1
            try:
                scenarios += len(source.refs())
            except Unsupported as error:
                broken += 1
                yield problem("data", str(error), "leave the task out; the others run")
            except InputError as error:
                mistakes = error.errors
                broken += len(mistakes)
                for mistake in mistakes:
                    yield problem("data", str(mistake), "fix the file")
    if not broken:
        where = f"{counted(scenarios, 'scenario')} in {counted(sources, 'file or task', 'files and tasks')}"
        yield ok("data", where) if sources else skipped("data", "no benchmarks here; name a PATH")


def known(path: Path, today: datetime.date) -> Iterator[Finding]:
    """Check the file of known failures, if there is one: an expired entry stops every trial."""
    if not os.path.lexists(path):
        return
    try:
        entries = read_known(path, path.name, today).entries
    except InputError as error:
        for mistake in error.errors:
            yield problem("known", str(mistake), "fix the file")
        return
    soon = [
        f"{entry.known.place} on {entry.known.until}"
        for entry in entries
        if entry.known.until is not None and entry.known.until <= today + _SOON
    ]
    ends = f"; expiring soon: {', '.join(soon)}" if soon else ""
    yield ok("known", f"{counted(len(entries), 'known failure')} in {path.name}{ends}")


def kept(found: Sequence[Kept], jobs: Path) -> Finding:
    """Count the kept file systems of trials: those of the jobs of this project, which `gc` removes, and others."""
    mine = [one.bytes for one in found if one.bundle and Path(one.bundle).parent == jobs]
    others = [one.bytes for one in found if not (one.bundle and Path(one.bundle).parent == jobs)]
    more = f"{len(others)} of other projects, {size(sum(others))}" if others else ""
    if not mine:
        return ok("kept", joined("no file systems of trials", more))
    systems = f"{counted(len(mine), 'file system')} of trials, {size(sum(mine))}"
    return ok("kept", joined(f"{systems}; `benchjobs gc --kept` removes them", more))


def _first(several: Sequence[object]) -> str:
    return ", ".join(map(str, several[:3])) + (", ..." if len(several) > 3 else "")


def _is_closed(directory: Path) -> bool:
    return os.access(directory, os.F_OK) and not os.access(directory, os.R_OK | os.X_OK)


def _write(place: Path) -> str | None:
    """Write a file and remove it; return the reason of a failure."""
    try:
        with tempfile.NamedTemporaryFile(dir=place, prefix=".benchjobs-probe-") as file:
            file.write(b"probe")
            file.flush()
            os.fsync(file.fileno())
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.strerror or str(error)
    return None


def _file_system(place: Path) -> str:
    kind = filesystem.filesystem_of(place) or "an unknown file system"
    if filesystem.on_network(place):
        return f"{kind}, over the network: slower, and safe for several machines"
    return (
        kind
        if filesystem.wal_works(place)
        else f"{kind}, where the history cannot use a write-ahead log: slower"
    )
