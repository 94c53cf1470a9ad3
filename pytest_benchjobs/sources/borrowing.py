"""Scenarios borrowed from other benchmarks, `from: NAME[@VERSION]::ID` or `from: PATH::ID`."""

from __future__ import annotations

import contextvars
import dataclasses
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.errors import InputError
from ..model.scenario import Requires, Scenario
from .complaints import did_you_mean
from .protocol import ScenarioRef
from .written import WrittenBorrowed, WrittenHeader, WrittenRequires

if TYPE_CHECKING:
    from .protocol import Source

FROM = "from"
_MOST_DEEP = 8
_depth: contextvars.ContextVar[int] = contextvars.ContextVar("borrowed", default=0)
_SAME = ("archived", "threshold", "agent_timeout", "scorer_timeout")
"""Keys that replace those of the borrowed scenario."""
ORIGIN, LICENCE = "borrowed_from", "licence"
"""Keys of the metadata of a borrowed scenario."""


@dataclasses.dataclass(frozen=True, slots=True)
class Loan:
    """A scenario of another benchmark."""

    source: Source
    ref: ScenarioRef
    origin: str
    """Benchmark with its version, and id."""
    licence: str | None
    """Licence of a benchmark of the catalogue."""

    @property
    def confidential(self) -> bool:
        """True if all scenarios of its benchmark are confidential."""
        return bool(getattr(self.source, "confidential", False))


def own_id(written: object) -> object:
    """Id of a borrowed scenario that is given no other, from what its `from` says."""
    return written.rpartition("::")[2] if isinstance(written, str) else written


class Lenders:
    """Other benchmarks, each opened once, for the benchmark `borrower`. Paths are relative to a directory."""

    def __init__(self, directory: Path, borrower: Callable[[], str | None] = lambda: None) -> None:
        self._directory, self._borrower = directory, borrower
        self._opened: dict[str, tuple[Sequence[Source], str | None]] = {}

    def find(self, text: str) -> Loan:
        """The scenario that `from` names.

        Raises InputError: there is no such benchmark or scenario, it is wrong, or it is not on this machine.
        """
        place, _, scenario = text.rpartition("::")
        if not place or not scenario:
            raise InputError(
                "NAME::SCENARIO or PATH::SCENARIO is expected, such as terminal-bench@2.0::regex-log"
            )
        if _depth.get() >= _MOST_DEEP:
            raise InputError("is borrowed in a circle")
        token = _depth.set(_depth.get() + 1)
        try:
            if place not in self._opened:
                # It opens manifests, which borrow.
                lending = importlib.import_module(".lending", __package__)
                self._opened[place] = lending.open_benchmark(place, self._directory, self._borrower())
            sources, licence = self._opened[place]
            for source in sources:
                for ref in source.refs(scenario.__eq__):
                    if ref.id == scenario:
                        version = getattr(source, "version", None)
                        name = f"{source.benchmark}@{version}" if version else source.benchmark
                        return Loan(source, ref, f"{name}::{scenario}", licence)
            known = [ref.id for source in sources for ref in source.refs()]
        finally:
            _depth.reset(token)
        hint = did_you_mean(scenario, known).strip() or f"available: {', '.join(known[:10])}"
        raise InputError(f"benchmark {place} has no scenario {scenario!r}; {hint}")


def borrowed_ref(written: WrittenBorrowed, loan: Loan, line: int | None) -> ScenarioRef:
    """Reference to a borrowed scenario, with what was changed of it."""
    return dataclasses.replace(
        loan.ref,
        id=written.id or loan.ref.id,
        tags=tuple(written.tags) if "tags" in written.model_fields_set else loan.ref.tags,
        archived=written.archived if "archived" in written.model_fields_set else loan.ref.archived,
        line=line,
        requires=_both(loan.ref.requires or Requires(), written.requires),
    )


def faults_of_loan(written: WrittenBorrowed, loan: Loan) -> Iterator[tuple[tuple[str, ...], str]]:
    """Faults of what was changed of a borrowed scenario."""
    if written.weights:
        names = [scorer.name for scorer in loan.source.load(loan.ref.id).scorers]
        for name in written.weights:
            if name not in names:
                yield ("weights", name), f"no scorer {name!r}; available: {', '.join(names)}"


def borrow(
    written: WrittenBorrowed, loan: Loan, header: WrittenHeader, path: Path, line: int | None
) -> Scenario:
    """The borrowed scenario as one of this benchmark. What is asked and graded stays as it is.

    Raises InputError: it cannot be read.
    """
    scenario = loan.source.load(loan.ref.id)
    given: dict[str, Any] = {key: getattr(written, key) for key in _SAME if key in written.model_fields_set}
    if "tags" in written.model_fields_set:
        given["tags"] = tuple(written.tags)
    if "setup_timeout" in written.model_fields_set:
        given["environment"] = scenario.environment.model_copy(
            update={"setup_timeout": written.setup_timeout}
        )
    if written.weights:
        given["scorers"] = tuple(
            spec.model_copy(update={"weight": written.weights.get(spec.name, spec.weight)})
            for spec in scenario.scorers
        )
    metadata = {**scenario.metadata, **written.metadata, ORIGIN: loan.origin}
    if written.cluster is not None:
        metadata["cluster"] = written.cluster
    if loan.licence is not None:
        metadata[LICENCE] = loan.licence
    return scenario.model_copy(
        update={
            **given,
            "id": written.id or scenario.id,
            "benchmark": header.benchmark,
            "benchmark_version": header.version,
            "metadata": metadata,
            "agent_env": {**scenario.agent_env, **written.agent_env},
            "requires": _both(scenario.requires, written.requires),
            "confidential": scenario.confidential or header.confidential,
            "source": path,
            "line": line,
        }
    )


def _both(requires: Requires, more: WrittenRequires | None) -> Requires:
    if more is None:
        return requires
    added: Mapping[str, Sequence[str]] = more.model_dump()
    return Requires.model_validate(
        {name: tuple(dict.fromkeys((*given, *added[name]))) for name, given in requires.model_dump().items()}
    )
