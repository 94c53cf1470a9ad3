"""Lookup and text of benchmarks known by name, for the commands of `benchmarks`."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from ..model.errors import InputError
from ..report.documents import mirror
from ..report.documents.benchmarks import CatalogueEntryDocument, CatalogueItem
from ..report.table import Cell, Column, tabulate, width
from ..report.units import counted, number
from ..sources.catalogue.entry import Entry
from ..sources.catalogue.installed import installed, opened
from ..sources.catalogue.kept import State, recipe, state_of
from ..sources.catalogue.lookup import Lookup, version_of
from ..sources.catalogue.registry import read_registry
from ..sources.catalogue.verdicts import read_verdicts
from ..sources.finder import Finder, Named
from ..sources.project import benchmark_directories, finder_of
from ..sources.protocol import Source
from ..store.text import one_line
from ..system.units import size
from ._output import say


def finder(registry: Path | None = None) -> Finder:
    """Return what finds benchmarks here, with a registry file, and what is the user's own."""
    listed: list[Entry] = []
    if registry is not None:
        listed, problems = read_registry(registry)
        for problem in problems:
            say(f"left out: {problem}", err=True)
    return finder_of(registry=listed)


def say_hiding(names: Collection[str] | None = None) -> None:
    """Say which of these benchmarks, by default all of the project, hide others of the catalogue by their names."""
    for line in finder().hiding(names):
        say(line, err=True)


def entry_named(name: str, registry: Path | None) -> Entry:
    """Return the entry of a name."""
    finder_here = finder(registry)
    if (entry := finder_here.entry(name)) is None:
        finder_here.find(name, Path.cwd())
        raise InputError(f"{name} is no entry of the catalogue: there is nothing to fetch")
    return entry


def entry_to_keep(name: str, registry: Path) -> Entry:
    """Return the entry of a registry that is kept with what is fetched for it, so that it runs by name."""
    entry = entry_named(name, registry)
    other = next((one for one in Lookup(benchmark_directories()).listed if one.is_meant_by(str(entry))), None)
    if other is not None and recipe(other) != recipe(entry):
        raise InputError(
            f"{entry} of {registry} has the name of another benchmark, which `--benchmark {entry}` runs: {other.title}"
        )
    return entry


def items(registry: Path | None) -> Iterator[CatalogueItem]:
    """Return every benchmark known by name, sorted; a broken one of an installed package is reported on stderr."""
    known = finder(registry)
    found = [item_of(entry, state_of(entry)) for entry in known.catalogue.entries()]
    brought: dict[str, Callable[[], Entry | Sequence[Source]]] = {
        name: functools.partial(opened, point) for name, point in installed().items()
    }
    brought |= {name: functools.partial(_brought, known, one) for name, one in known.given.items()}
    for name, bring in brought.items():
        try:
            what = bring()
            found.append(
                of_sources(name, what) if isinstance(what, Sequence) else item_of(what, state_of(what))
            )
        except InputError as error:
            say(str(error), err=True)
    yield from sorted(found, key=lambda item: item.name)


def _brought(known: Finder, named: Named) -> Entry | Sequence[Source]:
    return named.entry or known.sources(named)


def item_of(entry: Entry, state: State) -> CatalogueItem:
    """Return the row of an entry in the list."""
    record = state.record
    here = None if record is None else record.scenarios
    return mirror(CatalogueItem, entry, fetched=state.trouble is None, here=here)


def of_sources(name: str, sources: Sequence[Source]) -> CatalogueItem:
    """Return the row of a benchmark that an installed package brings."""
    versions = set(filter(None, map(version_of, sources)))
    count = sum(len(source.refs()) for source in sources)
    title = next((str(title) for source in sources if (title := getattr(source, "title", None))), name)
    version = ", ".join(sorted(versions)) or None
    return CatalogueItem(name=name, version=version, title=title, scenarios=count, fetched=None, here=count)


def document_of(entry: Entry) -> CatalogueEntryDocument:
    """Return all there is to show of an entry."""
    state = state_of(entry)
    record = state.record
    origins = [str(origin) for origin in entry.git]
    origins += [f"{file.url or 'your own file'}: {file.name}" for file in entry.files]
    origins += ["the package"] if entry.bundled is not None else []
    return mirror(
        CatalogueEntryDocument,
        entry,
        benchmark=item_of(entry, state),
        origins=tuple(origins),
        directory=str(entry.directory if entry.bundled is None else entry.place),
        trouble=state.trouble,
        origin=None if record is None else record.origin,
        fetched_at=None if record is None else record.fetched_at,
        bytes=None if record is None else record.bytes,
        checked=read_verdicts(entry),
        run=f"benchjobs run --benchmark {entry} --agent oracle",
    )


def table(rows: tuple[CatalogueItem, ...]) -> Iterator[str]:
    """Lines of `list`."""
    words = {True: Cell("yes", "green"), False: Cell("no", "yellow"), None: Cell("-")}

    def fetched(item: CatalogueItem) -> Cell:
        is_part = item.here is not None and item.scenarios is not None and item.here != item.scenarios
        return Cell(f"{item.here} of them", "yellow") if item.fetched and is_part else words[item.fetched]

    shown = [
        (Column("NAME"), lambda item: item.name),
        (Column("VERSION", least=8), lambda item: item.version or "-"),
        (
            Column("SCENARIOS", number=True),
            lambda item: "-" if item.scenarios is None else str(item.scenarios),
        ),
        (Column("FETCHED"), fetched),
        (Column("TITLE", least=8), lambda item: item.title),
    ]
    yield from tabulate(rows, width(), shown)


def lines_of(document: CatalogueEntryDocument) -> Iterator[str]:
    """Lines of `show`."""
    item = document.benchmark
    yield one_line(f"{item.name} {item.version or ''}: {item.title}")
    about = {
        "also": ", ".join(item.aliases),
        "scenarios": "" if item.scenarios is None else str(item.scenarios),
        "licence": document.licence,
        "homepage": document.homepage,
        "environment": document.environment,
        "scoring": document.scoring,
        "attempts": f"{document.attempts} in published figures" if document.attempts > 1 else "",
        "confidential": "its content is kept out of reports and exports" if document.confidential else "",
        "gated": " ".join((document.gated or "").split()),
    }
    for word, text in about.items():
        if text:
            yield one_line(f"{word}: {text}", 1000)
    for origin in document.origins:
        yield one_line(f"from: {origin}", 1000)
    for name, meaning in document.parameters.items():
        yield one_line(f"parameter: {name}: {meaning}", 1000)
    for scenario, reason in document.exceptions.items():
        yield one_line(f"exception: {scenario}: {reason}", 1000)
    for who, score in document.published.items():
        yield one_line(f"published: {who}: {number(score)}", 1000)
    if document.directory is not None:
        found = "yes"
        if document.origin is not None:
            found = f"{item.here} scenarios, {size(document.bytes or 0)}, from {document.origin}"
        yield one_line(f"here: {document.trouble or found}", 1000)
        yield f"  {one_line(document.directory, 1000)}"
    if document.checked is not None:
        counts = Counter(document.checked.verdicts.values()).most_common()
        said = ", ".join(f"{count} {verdict}" for verdict, count in counts)
        when = f"{document.checked.checked_at:%Y-%m-%d}"
        yield f"checked {when}: {counted(len(document.checked.verdicts), 'scenario')}: {said}"
    yield f"run it: {document.run}"
