"""`benchmarks`: list, show, fetch and check benchmarks known by name; find gaps in benchmark files."""

from __future__ import annotations

import datetime
import json
import os.path
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from ..model.errors import InputError
from ..model.known_failure import KnownMode
from ..report.documents.benchmarks import (
    BenchmarkItem,
    BenchmarksDocument,
    CatalogueDocument,
    CatalogueEntryDocument,
    Gap,
)
from ..report.documents.changes import BrokenScenario, ExceptionsDocument, Fetched, FetchedDocument
from ..sources import find_sources
from ..sources.catalogue.fetching import fetch as fetch_entry
from ..sources.catalogue.kept import trouble
from ..store.text import one_line
from ._catalogue import (
    document_of,
    entry_named,
    entry_to_keep,
    finder,
    items,
    lines_of,
    of_sources,
    say_hiding,
    table,
)
from ._images import find_images
from ._output import emit, output_option, say
from ._plan_text import image_lines
from ._run_options import VariadicCommand, scenarios_option
from .check import check_command


class _FilesByDefault(click.Group):
    """A group that passes unknown commands to `files` as arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named else ["files", *args])


_registry_option = click.option(
    "--registry",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Registry file of Harbor, whose datasets are added to the known ones.",
)


@click.group(cls=_FilesByDefault)
def benchmarks() -> None:
    """List, show, fetch and check benchmarks, and pull their images.

    With PATHS, or without a command, it runs `files`.
    """


@benchmarks.command("list")
@_registry_option
@output_option("catalogue")
def list_(registry: Path | None, output: str) -> None:
    """List benchmarks that are known by name, and whether they are on this machine.

    Known are those that come with this package or others that are installed, those in files *.benchmark.toml in the
    rootdir of pytest and in benchmarks/ (ini key bench_paths), those of the ini key bench_benchmarks, and those that
    were fetched by a registry. A conftest.py may name more, and manifests have names of their own: see `files`.
    """
    found = tuple(items(registry))
    say_hiding()
    emit(CatalogueDocument(benchmarks=found), lambda: table(found), output)


@benchmarks.command()
@click.argument("name")
@_registry_option
@output_option("catalogue-entry")
def show(name: str, registry: Path | None, output: str) -> None:
    """Show all there is to know of a benchmark, where it is on this machine, and how to run it."""
    finder_here = finder(registry)
    if (entry := finder_here.entry(name)) is None:
        run = f"benchjobs run --benchmark {name} --agent oracle"
        sources = finder_here.find(name, Path.cwd())[1]
        document = CatalogueEntryDocument(benchmark=of_sources(name, sources), run=run)
    else:
        document = document_of(entry)
    emit(document, lambda: lines_of(document), output)


@benchmarks.command()
@click.argument("name", metavar="NAME[@VERSION]")
@click.option(
    "--from",
    "given",
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="Directory, archive or file to take it from instead of the network.",
)
@click.option("--force", is_flag=True, help="Fetch it again even if it is present.")
@_registry_option
@output_option("fetched")
def fetch(*, name: str, given: Path | None, force: bool, registry: Path | None, output: str) -> None:
    """Fetch a benchmark once for this machine, and check it. An interrupted fetch continues where it stopped.

    A benchmark of a registry is known by its name from then on.
    """
    entry = entry_named(name, None) if registry is None else entry_to_keep(name, registry)
    place = entry.directory if entry.bundled is None else entry.place
    is_new = fetch_entry(entry, _say, given=given, force=force, keep_entry=registry is not None)
    if not is_new:
        _say(f"{entry}: already present in {place}")
    emit(FetchedDocument(fetched=(Fetched.of(entry, place, is_new=is_new),)), lambda: (), output)


benchmarks.add_command(check_command(1), "check")


@benchmarks.command()
@click.argument("name", metavar="NAME[@VERSION]")
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in KnownMode]),
    default=KnownMode.SKIP.value,
    show_default=True,
    help="Treatment of these scenarios in a run.",
)
@click.option(
    "--until",
    type=click.DateTime(["%Y-%m-%d"]),
    help="Last day the entries are valid.  [default: a year from today]",
)
@output_option("exceptions")
def exceptions(name: str, mode: str, until: datetime.datetime | None, output: str) -> None:
    """Print scenarios known to be broken as known failures for bench-known.toml, so that a run skips or marks them."""
    entry = entry_named(name, None)
    last = until.date() if until is not None else datetime.date.today() + datetime.timedelta(days=365)
    known = tuple(
        BrokenScenario(scenario=scenario, benchmark=entry.name, mode=mode, reason=reason, until=last)
        for scenario, reason in entry.exceptions.items()
    )

    def lines() -> Iterator[str]:
        for one in known:
            yield "[[known]]"
            for key, value in one.model_dump(exclude={"until"}).items():
                yield f"{key} = {json.dumps(value, ensure_ascii=False)}"
            yield f"until = {one.until}\n"

    emit(ExceptionsDocument(known=known), lines, output)


@benchmarks.command(cls=VariadicCommand)
@click.argument("name", metavar="NAME[@VERSION]|PATH")
@scenarios_option
@click.option("--pull", is_flag=True, help="Pull and build the missing images, a few at a time.")
@output_option("images")
def images(*, name: str, scenarios: tuple[str, ...], pull: bool, rest: tuple[str, ...], output: str) -> int:
    """List the images that a run of a benchmark would need, with their sizes; --pull pulls or builds them.

    Sizes of missing images are requested from their registries, and remembered for plans; not with --pull. Arguments
    after `--` go to pytest, such as --bench-image-map or --bench-image-budget. Exit status 1 when something is wrong
    with an image; the others are pulled nevertheless.
    """
    entry = finder().entry(name, Path.cwd())
    if entry is not None and trouble(entry) is not None:
        fetch_entry(entry, _say)
    document = find_images(name, scenarios, rest, pull=pull)
    emit(document, lambda: image_lines(document), output)
    return 1 if any(image.error is not None for image in document.images) else 0


def _say(line: str) -> None:
    say(line, err=True)


@benchmarks.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--strict", is_flag=True, help="Exit with status 2 if there are gaps.")
@output_option("benchmarks")
def files(paths: tuple[Path, ...], strict: bool, output: str) -> int:
    """List the benchmarks in PATHS, by default those in `benchmarks/`, and the gaps in them.

    A gap is a file that cannot be read, an oddity in a file, or a scenario without a reference solution: it is not
    known whether it can be solved.
    """
    if not paths:
        if not Path("benchmarks").is_dir():
            raise InputError("there is no directory benchmarks/ here; name a PATH")
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
    found: dict[str, BenchmarkItem] = {}
    gaps: list[Gap] = []
    for source in (source for path in paths for source in find_sources(path)):
        place = os.path.relpath(source.path)
        try:
            refs = source.refs()
            unsolved = [ref for ref in refs if source.load(ref.id).reference is None]
        except InputError as error:
            errors = error.errors
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
