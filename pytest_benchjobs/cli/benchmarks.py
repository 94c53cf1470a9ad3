"""`benchmarks`: those that are known by name, and those in files with the gaps in them."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..model.errors import InputError, InputErrors
from ..report.documents.catalogue import CatalogueDocument, CatalogueEntryDocument
from ..sources import find_sources
from ..sources.catalogue.fetching import fetch as fetch_entry
from ..store.text import one_line
from ._catalogue import document_of, entry_named, items, lines_of, named, of_sources, table
from ._output import emit, output_option, say

if TYPE_CHECKING:
    from ..report.documents.benchmarks import BenchmarkItem, Gap


class _FilesByDefault(click.Group):
    """A group that takes anything but a command of its own for arguments of `files`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named else ["files", *args])


_registry_option = click.option(
    "--registry",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A registry file of Harbor, whose datasets are known as well.",
)


@click.group(cls=_FilesByDefault)
def benchmarks() -> None:
    """List, show, fetch and check benchmarks.

    With PATHS, or with nothing, it does what `files` does.
    """


@benchmarks.command("list")
@_registry_option
@output_option
def list_(registry: Path | None, output: str) -> None:
    """List benchmarks that are known by name, and whether they are on this machine.

    Known are those that come with this package or others that are installed, and those in files *.benchmark.toml here
    and in benchmarks/. A conftest.py or ini file may name more.
    """
    found = tuple(items(registry))
    emit(CatalogueDocument(benchmarks=found), lambda: table(found), output)


@benchmarks.command()
@click.argument("name")
@_registry_option
@output_option
def show(name: str, registry: Path | None, output: str) -> None:
    """Show all there is to know of a benchmark, where it is on this machine, and how to run it."""
    found = named(name, registry)
    if isinstance(found, tuple):
        run = f"benchjobs run --benchmark {name} --agent oracle"
        document = CatalogueEntryDocument(benchmark=of_sources(name, found), run=run)
    else:
        document = document_of(found)
    emit(document, lambda: lines_of(document), output)


@benchmarks.command()
@click.argument("name", metavar="NAME[@VERSION]")
@click.option(
    "--from",
    "given",
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="Directory, archive or file with it, instead of the network.",
)
@click.option("--force", is_flag=True, help="Fetch it again, also if it is here.")
@_registry_option
def fetch(name: str, given: Path | None, force: bool, registry: Path | None) -> None:
    """Fetch a benchmark: once for this machine, checked. What was interrupted goes on where it stopped."""
    entry = entry_named(name, registry)
    if not fetch_entry(entry, _say, given=given, force=force):
        _say(f"{entry}: is here, in {entry.directory}")


def _say(line: str) -> None:
    say(line, err=True)


@benchmarks.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--strict", is_flag=True, help="Exit with status 2 when there are gaps.")
@output_option
def files(paths: tuple[Path, ...], strict: bool, output: str) -> int:
    """List the benchmarks in PATHS, by default those in `benchmarks/`, and the gaps in them.

    A gap is a file that cannot be read, an oddity in it, or a scenario without a reference solution, of which nobody
    knows whether it can be solved.
    """
    from ..report.documents.benchmarks import BenchmarksDocument

    if not paths:
        if not Path("benchmarks").is_dir():
            raise click.ClickException("there is no directory benchmarks/ here; name a PATH")
        paths = (Path("benchmarks"),)
    items, gaps = _inventory(paths)

    def lines() -> Iterator[str]:
        for item in items:
            many = "scenario" if len(item.scenarios) == 1 else "scenarios"
            version = f"@{','.join(item.versions)}" if item.versions else ""
            archived = f", {len(item.archived)} archived" if item.archived else ""
            yield f"{one_line(item.benchmark + version)}  {len(item.scenarios)} {many}{archived}"
        for gap in gaps:
            line = f":{gap.line}" if gap.line else ""
            scenario = f"{gap.scenario}: " if gap.scenario else ""
            yield one_line(f"gap: {gap.source}{line}: {scenario}{gap.message}", 500)

    emit(BenchmarksDocument(benchmarks=tuple(items), gaps=tuple(gaps)), lines, output)
    return 2 if strict and gaps else 0


def _inventory(paths: Iterable[Path]) -> tuple[list[BenchmarkItem], list[Gap]]:
    from ..report.documents.benchmarks import BenchmarkItem, Gap

    found: dict[str, BenchmarkItem] = {}
    gaps: list[Gap] = []
    for source in (source for path in paths for source in find_sources(path)):
        place = os.path.relpath(source.path)
        try:
            refs = source.refs()
            unsolved = [ref for ref in refs if source.load(ref.id).reference is None]
        except InputError as error:
            errors = error.errors if isinstance(error, InputErrors) else [error]
            gaps += [Gap(source=place, line=one.line, scenario=None, message=one.message) for one in errors]
            continue
        gaps += [
            Gap(source=place, line=odd.line, scenario=None, message=odd.message) for odd in source.warnings
        ]
        why = "no reference solution, so oracle cannot show that it can be solved"
        gaps += [Gap(source=place, line=ref.line, scenario=ref.id, message=why) for ref in unsolved]
        nothing = BenchmarkItem(
            benchmark=source.benchmark, versions=(), sources=(), scenarios=(), archived=()
        )
        before = found.get(source.benchmark, nothing)
        version = getattr(source, "version", None)
        new = () if version is None or version in before.versions else (str(version),)
        found[source.benchmark] = BenchmarkItem(
            benchmark=source.benchmark,
            versions=(*before.versions, *new),
            sources=(*before.sources, place),
            scenarios=(*before.scenarios, *(ref.id for ref in refs)),
            archived=(*before.archived, *(ref.id for ref in refs if ref.archived)),
        )
    return list(found.values()), gaps
