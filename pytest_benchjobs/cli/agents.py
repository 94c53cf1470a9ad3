"""`agents`: list, show and fetch agents."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ..agents.capabilities import capabilities_of
from ..agents.catalogue import all_agents
from ..agents.described import DescribedAgent
from ..agents.fetch import fetch as fetch_package
from ..agents.fetch import fetch_from
from ..agents.given import given_agents
from ..agents.packages import Package, changed, manifest_of, trouble
from ..agents.protocol import Agent
from ..agents.readiness import key_variables
from ..agents.starting import start_fault
from ..model.errors import AgentSetupFailed, InputError
from ..report.documents import mirror
from ..report.documents.changes import Fetched, FetchedDocument
from ..report.documents.machine import AgentDocument, AgentItem, AgentsDocument, PackageItem
from ..report.table import Cell, Column, tabulate, width
from ..settings.agents import read_agent
from ..settings.secret_store import lookup
from ..sources import did_you_mean
from ..sources.project import benchmark_directories
from ..store.text import one_line
from ..system.units import size
from ._output import emit, output_option, say


@click.group(invoke_without_command=True)
@output_option("agents")
@click.pass_context
def agents(context: click.Context, output: str) -> None:
    """List, show and fetch agents. By itself it lists them.

    Known are those that come with this package or others that are installed, and those described in files *.agent.toml
    and *.agent.yaml here and in benchmarks/. A conftest.py or plugin may add more.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_, output=output)


_PYTEST_MORE = "pytest knows those of a conftest.py, too"


@agents.command("list")
@output_option("agents")
def list_(output: str) -> None:
    """List agents: version, whether it is on this machine, whether a key is set."""
    broken: dict[str, InputError] = {}
    items = tuple(_item(agent) for agent in known_agents(broken).values())
    for error in broken.values():
        say(f"left out: {error}", err=True)
    emit(AgentsDocument(agents=items), lambda: (*_table(items), f"{_PYTEST_MORE}."), output)


@agents.command()
@click.argument("name")
@click.option(
    "--verify", is_flag=True, help="Read all its files, and compare them with those that were fetched."
)
@output_option("agent")
def show(name: str, verify: bool, output: str) -> int:
    """Show what an agent needs and what was fetched for it. NAME may be NAME@VERSION, or NAME=./PATH.

    Exit status 1 when something fetched was changed.
    """
    agent, version = _named(name)
    said = capabilities_of(agent)
    more: dict[str, Any] = {}
    if isinstance(agent, DescribedAgent):
        more = {
            "wires": agent.description.wires,
            "provider": agent.description.provider,
            "parameters": tuple(sorted(agent.description.parameters)),
            "packages": tuple(_package(package, verify) for package in agent.packages(version)),
            "argv": agent.description.argv,
            **_files_of(agent),
        }
    capabilities = None if said is None else tuple(sorted(said))
    document = AgentDocument(agent=_item(agent, version), capabilities=capabilities, **more)
    emit(document, lambda: _lines(document), output)
    return 1 if any(package.changed for package in document.packages) else 0


def _files_of(agent: DescribedAgent) -> dict[str, Any]:
    """Return the agent's files as sandboxes would see them."""
    if (fault := start_fault(agent)) is not None:
        raise InputError(fault)
    try:
        found = agent.snapshot()
    except AgentSetupFailed as error:
        raise InputError(str(error)) from None
    if found is None:
        return {}
    return {"files": str(found.files), "files_bytes": found.bytes, "files_sha256": found.digest}


@agents.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME[@VERSION]...")
@click.option(
    "--from",
    "archives",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Use an archive made elsewhere with `npm pack` instead of the network; repeatable.",
)
@click.option(
    "--platform",
    "machine",
    type=click.Choice(["linux-x64", "linux-arm64"]),
    help="Fetch them for sandboxes on such a machine (default: this one).",
)
@output_option("fetched")
def fetch(names: tuple[str, ...], archives: tuple[Path, ...], machine: str | None, output: str) -> None:
    """Fetch agents: once for this machine, checked. What is here already is not fetched again."""
    tell = functools.partial(say, err=True)
    wanted = [(name, *_described(name)) for name in names]
    if archives and len(wanted) > 1:
        raise click.UsageError("--from: name one agent at a time")
    fetched: list[Fetched] = []
    for name, agent, version in wanted:
        packages = agent.packages(version, lambda: machine and machine.removeprefix("linux-"))
        if not packages:
            tell(f"{name}: nothing to fetch")
            fetched.append(Fetched(name=name, action="nothing"))
        if archives and packages:
            fetch_from(packages, archives, tell)
        for package in packages:
            is_new = bool(archives) or fetch_package(package, tell)
            if not is_new:
                tell(f"{package}: is here")
            fetched.append(Fetched.of(package, package.directory, is_new=is_new))
    emit(FetchedDocument(fetched=tuple(fetched)), lambda: (), output)


def known_agents(broken: dict[str, InputError] | None = None) -> dict[str, Agent]:
    """Return the agents that are known here, by name. InputError: a file is wrong, and `broken` is not given."""
    return all_agents((Path.cwd(), *benchmark_directories()), broken)


def _named(text: str) -> tuple[Agent, str | None]:
    if "=" in text.partition(":")[0]:  # NAME=./PATH or NAME=command:SHELL
        spec = read_agent(text, Path.cwd())
        return given_agents([spec])[spec.name], None
    name, at, version = text.partition("@")
    broken: dict[str, InputError] = {}
    known = known_agents(broken)
    if name in broken:
        raise broken[name]
    if name not in known:
        hint = did_you_mean(name, known).strip() or f"available: {', '.join(sorted(known))}"
        raise InputError(f"there is no agent {name!r} here ({_PYTEST_MORE}); {hint}")
    if at and not version:
        raise InputError(f"no version after '@' in {text!r}")
    return known[name], version or None


def _described(text: str) -> tuple[DescribedAgent, str | None]:
    agent, version = _named(text)
    if not isinstance(agent, DescribedAgent):
        raise InputError(f"{agent.name} needs no fetching")
    if version is not None and not agent.description.version:
        raise InputError(f"{agent.name} has no versions to choose from")
    return agent, version


def _item(agent: Agent, version: str | None = None) -> AgentItem:
    if not isinstance(agent, DescribedAgent):
        about = (inspect.getdoc(agent) or "").partition("\n")[0].rstrip(".")
        return AgentItem(name=agent.name, needs_model=agent.needs_model, about=about)
    packages = agent.packages(version)
    variables = key_variables(agent)
    return AgentItem(
        name=agent.name,
        needs_model=agent.needs_model,
        about=agent.description.about,
        version=version or agent.description.version,
        fetched=all(trouble(package) is None for package in packages) if packages else None,
        key_variables=variables,
        keys_set=tuple(variable for variable in variables if lookup(variable)),
    )


def _package(package: Package, verify: bool) -> PackageItem:
    manifest = manifest_of(package)
    return mirror(
        PackageItem,
        package,
        directory=str(package.directory),
        trouble=trouble(package),
        bytes=None if manifest is None else manifest.bytes,
        archive_sha256=None if manifest is None else manifest.archive_sha256,
        fetched_at=None if manifest is None else manifest.fetched_at,
        changed=tuple(changed(package)) if verify and manifest is not None else None,
    )


def _table(items: tuple[AgentItem, ...]) -> Iterator[str]:
    words = {True: Cell("yes", "green"), False: Cell("no", "yellow"), None: Cell("-")}
    shown = [
        (Column("NAME"), lambda item: item.name),
        (Column("VERSION"), lambda item: item.version or "-"),
        (Column("FETCHED"), lambda item: words[item.fetched]),
        (Column("KEY"), lambda item: words[bool(item.keys_set) if item.key_variables else None]),
        (Column("ABOUT", least=8), lambda item: item.about or "-"),
    ]
    yield from tabulate(items, width(), shown)


def _lines(document: AgentDocument) -> Iterator[str]:
    item = document.agent
    version = f" {item.version}" if item.version else ""
    yield one_line(f"{item.name}{version}{': ' if item.about else ''}{item.about}")
    if document.wires:
        provider = f"; by itself with {document.provider}" if document.provider else ""
        yield f"speaks {', '.join(document.wires)}{provider}"
    if item.key_variables:
        marked = (f"{name} (set)" if name in item.keys_set else name for name in item.key_variables)
        yield f"keys: {', '.join(marked)}"
    if document.parameters:
        yield f"parameters: {', '.join(document.parameters)}"
    if document.capabilities is not None:
        yield f"capabilities: {', '.join(document.capabilities) or 'none'}"
    if document.argv:
        yield one_line(f"starts: {' '.join(document.argv)}", 500)
    if document.files is not None:
        digest = (document.files_sha256 or "")[:16]
        yield one_line(
            f"files: {size(document.files_bytes or 0)}, sha256 {digest}, copied to {document.files}", 1000
        )
    for package in document.packages:
        state = package.trouble or f"{size(package.bytes or 0)}, archive sha256 {package.archive_sha256}"
        yield one_line(f"{package.npm}: {state}", 500)
        yield f"  {one_line(package.directory, 1000)}"
        if package.changed is not None:
            lines = [f"CHANGED {path}" for path in package.changed] or ["every file is as it was fetched"]
            yield from (f"  {one_line(line, 500)}" for line in lines)
