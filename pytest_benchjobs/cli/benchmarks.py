"""`benchmarks`: benchmarks in files, and the gaps in them."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..model.errors import InputError, InputErrors
from ..sources import find_sources
from ..store.text import one_line
from ._output import emit, output_option

if TYPE_CHECKING:
    from ..report.documents.benchmarks import BenchmarkItem, Gap


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--strict", is_flag=True, help="Exit with status 2 when there are gaps.")
@output_option
def benchmarks(paths: tuple[Path, ...], strict: bool, output: str) -> int:
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
