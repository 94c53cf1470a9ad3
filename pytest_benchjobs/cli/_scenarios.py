"""Scenarios that a command names, and their text."""

from __future__ import annotations

import os.path
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from ..model.environ import HOST
from ..model.errors import InputError
from ..sources import did_you_mean, open_source
from ..sources.finder import FILES
from ..store.project import benchmark_directories
from ..store.text import clean, one_line
from ..system.paths import exists
from ..system.units import size

if TYPE_CHECKING:
    from ..model.scenario import Scenario
    from ..report.documents.scenarios import ScenarioDocument, ScenarioItem
    from ..sources.protocol import ScenarioRef, Source

_LEFT = 200
_STATEMENT = 20_000


class Found(NamedTuple):
    """A scenario and where it is."""

    source: Source
    ref: ScenarioRef


class Named(NamedTuple):
    """A benchmark, or one scenario, as it was typed: `PATH`, `NAME`, `PATH::ID`, `NAME::ID`."""

    place: str
    scenario: str | None

    @property
    def is_file(self) -> bool:
        """It cannot be a name."""
        return "/" in self.place or self.place.endswith(FILES)

    @classmethod
    def read(cls, text: str) -> Named:
        """Read what was typed."""
        place, sign, scenario = text.rpartition("::")
        return cls(place, scenario) if sign and place and scenario else cls(text, None)


def benchmarks_of(typed: Sequence[Named]) -> tuple[str, ...]:
    """Return the benchmarks of what was typed, each once."""
    return tuple(dict.fromkeys(one.place for one in typed))


def scenarios_of(typed: Sequence[Named]) -> tuple[str, ...]:
    """Return the ids of what was typed; none for whole benchmarks.

    Raises:
        UsageError: some are whole benchmarks and some are scenarios.
    """
    ids = tuple(one.scenario for one in typed if one.scenario is not None)
    if ids and len(ids) < len(typed):
        raise click.UsageError("name scenarios (PATH::ID), or whole benchmarks, not both")
    return ids


def places(whats: Sequence[str]) -> list[Named]:
    """Read what was typed; nothing stands for the directories of benchmarks.

    Raises:
        ClickException: there are none.
    """
    if whats:
        return [Named.read(text) for text in whats]
    root, *directories = benchmark_directories()
    own = [path for path in sorted(root.glob("*.bench.*")) if open_source(path) is not None]
    found = [os.path.relpath(path) for path in (*own, *filter(exists, directories))]
    if not found:
        raise click.ClickException(
            "there are no benchmarks here: name a PATH or a NAME, or write one with `benchjobs init`"
        )
    return [Named(text, None) for text in found]


def found(named: Named) -> Iterator[Found]:
    """Yield the scenarios that a text names.

    Raises:
        InputError: something in a file is wrong, or there is no such benchmark or scenario.
    """
    ids: list[str] = []
    missing = named.scenario
    for source in sources(named.place):
        for ref in source.refs():
            ids.append(ref.id)
            if named.scenario in (None, ref.id):
                missing = None
                yield Found(source, ref)
    if missing is not None:
        hint = did_you_mean(missing, ids).strip() or f"available: {', '.join(ids[:10])}"
        raise InputError(f"{named.place} has no scenario {missing!r}; {hint}")


def sources(place: str) -> Sequence[Source]:
    """Return the sources of a benchmark: a path, or a name.

    Raises:
        InputError: there is no such benchmark, it is not on this machine, or something in a file is wrong.
    """
    from ._catalogue import finder

    return finder().find(place, Path.cwd())[1]


def item_of(one: Found) -> ScenarioItem:
    """Return the row of a scenario."""
    from ..report.documents.scenarios import ScenarioItem

    return ScenarioItem(
        benchmark=one.source.benchmark,
        scenario=one.ref.id,
        tags=one.ref.tags,
        scorers=one.ref.scorers,
        archived=one.ref.archived,
        file=os.path.relpath(one.source.path),
        line=one.ref.line,
    )


def document_of(one: Found) -> ScenarioDocument:
    """Return all there is to know of a scenario, but its answers.

    Raises:
        InputError: it is wrong.
    """
    from ..report.documents import mirror
    from ..report.documents.scenarios import ScenarioDocument, ShownEnvironment, ShownScorer

    scenario = one.source.load(one.ref.id)
    environment = scenario.environment
    told = not scenario.confidential
    return mirror(
        ScenarioDocument,
        scenario,
        version=scenario.benchmark_version,
        scenario=scenario.id,
        file=os.path.relpath(scenario.source),
        problem_statement=clean(scenario.problem_statement, _STATEMENT) if told else None,
        additional_context=scenario.additional_context if told else None,
        validation=scenario.validation.value,
        environment=mirror(
            ShownEnvironment,
            environment,
            dockerfile=None if environment.dockerfile is None else os.path.relpath(environment.dockerfile),
            setup=environment.setup if told else (),
        ),
        files=tuple(scenario.files),
        scorers=tuple(
            mirror(ShownScorer, spec, timeout=spec.timeout or scenario.scorer_timeout)
            for spec in scenario.scorers
        ),
        requires=_requires(scenario),
        artifacts=tuple(spec.source for spec in scenario.artifacts),
    )


def _requires(scenario: Scenario) -> object:
    from ..report.documents import mirror
    from ..report.documents.scenarios import ShownRequires

    requires = scenario.requires
    missing = [name for name in requires.env if name not in HOST]
    missing += [name for name in requires.commands if shutil.which(name) is None]
    return mirror(ShownRequires, requires, missing=tuple(missing))


def lines_of(document: ScenarioDocument) -> Iterator[str]:
    """Yield the text of `scenario show`."""
    version = f"@{document.version}" if document.version else ""
    yield one_line(f"{document.benchmark}{version}::{document.scenario}", _LEFT)
    rows = dict(_rows(document))
    widest = max(map(len, rows))
    for title, text in rows.items():
        if text:
            yield f"  {title:{widest}}  {one_line(text, 500)}"
    yield ""
    if document.problem_statement is None:
        yield "(confidential: the problem statement is not shown)"
        return
    for line in document.problem_statement.rstrip().splitlines():
        yield f"  {line}"


def _rows(document: ScenarioDocument) -> Iterable[tuple[str, str]]:
    environment, requires = document.environment, document.requires
    line = f":{document.line}" if document.line else ""
    yield "file", f"{document.file}{line}"
    yield "tags", ", ".join(document.tags)
    yield "metadata", ", ".join(f"{key}={value}" for key, value in document.metadata.items())
    yield "archived", "yes, it is not run" if document.archived else ""
    yield "image", environment.image or ""
    yield "dockerfile", environment.dockerfile or ""
    yield "snapshot", environment.snapshot or ""
    yield "workdir", environment.workdir or ""
    yield (
        "limits",
        ", ".join(
            filter(
                None,
                (
                    f"{environment.cpus:g} CPUs" if environment.cpus else "",
                    f"{size(environment.memory)} of memory" if environment.memory else "",
                    f"{size(environment.storage)} of storage" if environment.storage else "",
                    f"{environment.gpus} GPUs" if environment.gpus else "",
                ),
            )
        ),
    )
    yield "network", ", ".join((environment.network, *environment.allowed_hosts))
    yield "files", ", ".join(document.files)
    yield "reference", "yes" if document.has_reference else "none: oracle cannot solve it"
    total = sum(scorer.weight for scorer in document.scorers)
    yield (
        "scorers",
        ", ".join(
            f"{scorer.name} ({scorer.type}{f', {scorer.weight / total:.0%}' if len(document.scorers) > 1 else ''})"
            for scorer in document.scorers
        ),
    )
    yield "threshold", f"{document.threshold:g}" if document.threshold is not None else ""
    yield (
        "requires",
        ", ".join((*requires.env, *requires.secrets, *requires.commands, *requires.capabilities)),
    )
    yield "missing here", ", ".join(requires.missing)
