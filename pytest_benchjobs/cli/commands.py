"""The commands. Each imports what it needs when it runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..model.job import JobRecord
    from ..store.bundle import JobBundle

_DIRECTORY = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("reports"),
    show_default=True,
    help="Where jobs and the history are.",
)
_OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to print.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.version_option(package_name="pytest-benchjobs", message="%(prog)s %(version)s")
def benchjobs() -> None:
    """Look after benchmark jobs. Run benchmarks with pytest: `pytest PATH --bench-agent AGENT:MODEL`."""


@benchjobs.command()
@_DIRECTORY
def gc(directory: Path) -> None:
    """Remove what dead processes left behind.

    Containers and networks of dead processes of this machine, unfinished trials of dead jobs; jobs that are alive are
    left alone. Trials which had ended are kept and indexed.
    """
    removed = _sweep_containers()
    if removed is not None:
        click.echo(f"removed {removed} containers and networks")
    if not (directory / "jobs").is_dir():
        click.echo(f"no jobs in {directory}", err=True)
        return
    from ..store.history import FILE, History
    from ..store.recover import recover

    with History(directory / FILE) as history:
        lines = recover(directory, history, _write_reports)
    for line in lines:
        click.echo(line)
    click.echo(f"recovered {len(lines)} jobs")


@benchjobs.group(no_args_is_help=False)
def db() -> None:
    """Look after the history, which is an index of the job bundles."""


@db.command()
@_DIRECTORY
def rebuild(directory: Path) -> None:
    """Make the history anew from the bundles. Jobs that run meanwhile lose nothing."""
    from ..store.recover import rebuild as rebuild_history

    if not (directory / "jobs").is_dir():
        raise click.ClickException(f"there are no jobs in {directory}; choose another --dir")
    jobs, trials, warnings = rebuild_history(directory)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"indexed {jobs} jobs with {trials} trials")


@benchjobs.command()
@click.argument("name", type=click.Choice(["manifest", "result", "job"]))
def schema(name: str) -> None:
    """Print the JSON Schema of a manifest (*.bench.yaml), result.json or job.json."""
    click.echo(json.dumps(_schema(name), indent=2))


@benchjobs.command()
@_OUTPUT
def agents(output: str) -> None:
    """List the agents that come with the package. A conftest.py or plugin may add more."""
    from ..agents.builtin import builtin_agents

    rows = [{"name": agent.name, "needs_model": agent.needs_model} for agent in builtin_agents()]
    _print(rows, [str(row["name"]) for row in rows], output)


@benchjobs.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@_OUTPUT
def benchmarks(paths: tuple[Path, ...], output: str) -> None:
    """List the benchmarks in PATHS, by default those in `benchmarks/`, with their scenarios."""
    from ..sources import find_sources

    if not paths:
        if not Path("benchmarks").is_dir():
            raise click.ClickException("there is no directory benchmarks/ here; name a PATH")
        paths = (Path("benchmarks"),)
    found: dict[str, list[str]] = {}
    for path in paths:
        for source in find_sources(path):
            found.setdefault(source.benchmark, []).extend(ref.id for ref in source.refs())
    rows = [{"benchmark": name, "scenarios": ids} for name, ids in found.items()]
    _print(rows, [f"{name}  {len(ids)} scenarios" for name, ids in found.items()], output)


def _write_reports(bundle: JobBundle, record: JobRecord) -> None:
    from ..report import write_reports

    write_reports(bundle, record, list(bundle.results()))


def _print(rows: Sequence[Any], lines: Sequence[str], output: str) -> None:
    from ..store.text import one_line

    if output == "json":
        click.echo(json.dumps(rows, indent=1))
        return
    for line in lines:
        click.echo(one_line(line))


def _schema(name: str) -> dict[str, Any]:
    if name == "manifest":
        from ..sources import benchmark_schema

        return benchmark_schema()
    from ..model.job import JobRecord
    from ..model.result import TrialResult

    model = TrialResult if name == "result" else JobRecord
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {**dialect, **model.model_json_schema(by_alias=True, mode="serialization")}


def _sweep_containers() -> int | None:
    """How many things were removed; None when no engine answers, after saying so."""
    from ..model.errors import EngineUnavailable
    from ..model.owner import current_owner
    from ..sandbox.docker import DockerProvider

    provider = DockerProvider(current_owner())
    try:
        provider.check()
        return provider.sweep()
    except EngineUnavailable as error:
        click.echo(f"containers were not looked at: {error}", err=True)
        return None
    finally:
        provider.close()
