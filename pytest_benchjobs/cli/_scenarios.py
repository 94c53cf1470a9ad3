"""Scenarios that a command names, and their text."""

from __future__ import annotations

import os.path
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..model.environ import HOST
from ..model.errors import InputError
from ..report.documents import mirror
from ..report.documents.scenarios import (
    ScenarioDocument,
    ScenarioItem,
    ShownEnvironment,
    ShownRequires,
    ShownScorer,
)
from ..report.units import joined
from ..sources import did_you_mean, open_source
from ..sources.project import benchmark_directories
from ..sources.protocol import ScenarioRef, Source
from ..store.text import clean, one_line
from ..system.paths import exists
from ..system.units import size
from ._catalogue import finder
from ._run_options import Named

_LEFT = 200
_STATEMENT = 20_000


class Found(NamedTuple):
    """A scenario and where it is."""

    source: Source
    ref: ScenarioRef


def places(whats: Sequence[str]) -> list[Named]:
    """Read what was typed; nothing stands for the directories of benchmarks."""
    if whats:
        return [Named.read(text) for text in whats]
    root, *directories = benchmark_directories()
    own = [path for path in sorted(root.glob("*.bench.*")) if open_source(path) is not None]
    found = [os.path.relpath(path) for path in (*own, *filter(exists, directories))]
    if not found:
        raise InputError(
            "there are no benchmarks here: name a PATH or a NAME, or write one with `benchjobs init`"
        )
    return [Named(text, None) for text in found]


def found(named: Named) -> Iterator[Found]:
    """Yield the scenarios that a text names."""
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
    """Return the sources of a benchmark: a path, or a name."""
    return finder().find(place, Path.cwd())[1]


def item_of(one: Found) -> ScenarioItem:
    """Return the row of a scenario."""
    file = os.path.relpath(one.source.path)
    return mirror(ScenarioItem, one.ref, benchmark=one.source.benchmark, scenario=one.ref.id, file=file)


def document_of(one: Found) -> ScenarioDocument:
    """Return all there is to know of a scenario, but its answers."""
    scenario = one.source.load(one.ref.id)
    environment, requires = scenario.environment, scenario.requires
    missing = [name for name in requires.env if name not in HOST]
    commands = [name for name in requires.commands if shutil.which(name) is None]
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
        requires=mirror(ShownRequires, requires, missing=(*missing, *commands)),
        artifacts=tuple(spec.source for spec in scenario.artifacts),
    )


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
    limits = joined(
        f"{environment.cpus:g} CPUs" if environment.cpus else "",
        f"{size(environment.memory)} of memory" if environment.memory else "",
        f"{size(environment.storage)} of storage" if environment.storage else "",
        f"{environment.gpus} GPUs" if environment.gpus else "",
    )
    yield "limits", limits
    yield "network", ", ".join((environment.network, *environment.allowed_hosts))
    yield "files", ", ".join(document.files)
    yield "reference", "yes" if document.has_reference else "none: oracle cannot solve it"
    total = sum(scorer.weight for scorer in document.scorers)
    shares = [f", {one.weight / total:.0%}" if len(document.scorers) > 1 else "" for one in document.scorers]
    scorers = zip(document.scorers, shares, strict=True)
    yield "scorers", joined(*(f"{scorer.name} ({scorer.type}{share})" for scorer, share in scorers))
    yield "threshold", f"{document.threshold:g}" if document.threshold is not None else ""
    yield "requires", joined(*requires.env, *requires.secrets, *requires.commands, *requires.capabilities)
    yield "missing here", ", ".join(requires.missing)
