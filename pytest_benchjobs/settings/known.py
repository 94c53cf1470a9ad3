"""`bench-known.toml`: the file of known failures."""

from __future__ import annotations

import dataclasses
import datetime
import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from ..model.agent import AgentSpec
from ..model.errors import InputError
from ..model.known_failure import Known, KnownMode
from ..sources.complaints import Complaints, Written, did_you_mean, in_words
from ..sources.documents import SETTINGS_BYTES, read_document
from ..sources.plain import Place
from ..sources.written import Day

_WILD = frozenset("*?[")


def _text(limit: int) -> Any:
    return StringConstraints(strip_whitespace=True, min_length=1, max_length=limit)


_Pattern = Annotated[str, _text(300)]


class WrittenReason(Written):
    """A known failure, without the trials it is for. The keywords of the marker `bench_known`."""

    reason: Annotated[str, _text(1000)]
    """Reason of the failure."""
    until: Day
    """Last day of the entry. After that the entry is an error, so that it is reviewed."""
    issue: Annotated[str, _text(500)] | None = None
    """A link to where it is worked on."""
    mode: KnownMode = KnownMode.EXPECTED_FAIL
    """`expected-fail`, `quarantine` or `skip`."""
    strict: Annotated[bool, Field(strict=True)] = False
    """With `expected-fail`: a pass is a failure."""


class WrittenKnown(WrittenReason):
    """An entry: which trials fail, why, and until when that is accepted."""

    scenario: _Pattern
    """Id, or BENCHMARK/ID; `*` and `?` allowed."""
    benchmark: _Pattern | None = None
    """Its name; `*` and `?` allowed. Default: any."""
    agent: _Pattern | None = None
    """Its label, such as `codex:gpt-5.5`, or its name alone; `*` and `?` allowed. Default: any."""


class WrittenKnownFile(Written):
    """The file of known failures."""

    known: list[WrittenKnown] = []


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """An entry: trials whose failure is known."""

    benchmark: str | None
    scenario: str
    agent: str | None
    known: Known

    @property
    def id(self) -> str:
        """The part of `scenario` that matches ids."""
        return self.scenario.partition("/")[2] or self.scenario

    def is_of(self, benchmark: str) -> bool:
        """Return whether it may match scenarios of a benchmark, by its key and by the part before the `/`."""
        before, slash, _ = self.scenario.partition("/")
        patterns = (self.benchmark, before if slash else None)
        return all(pattern is None or _matches(benchmark, pattern) for pattern in patterns)

    def fits(self, agent: AgentSpec) -> bool:
        """Return whether it matches an agent."""
        return self.agent is None or _matches(agent.label, self.agent) or agent.name == self.agent


class KnownFailures:
    """All entries, and those that matched a collected scenario."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries = tuple(entries)
        self.benchmarks: set[str] = set()
        """Collected benchmarks."""
        self._met: set[int] = set()
        self._named: dict[str, list[int]] = {}
        self._patterns: list[tuple[int, Callable[[str], object]]] = []
        for number, entry in enumerate(self.entries):
            if _WILD.isdisjoint(entry.id):
                self._named.setdefault(entry.id, []).append(number)
            else:
                self._patterns.append((number, re.compile(fnmatch.translate(entry.id)).match))
        # One pattern for all entries: most of up to 100,000 scenarios match none.
        every = "|".join(fnmatch.translate(self.entries[number].id) for number, _ in self._patterns)
        self._any_pattern = re.compile(every).match if every else None

    def __bool__(self) -> bool:
        return bool(self.entries)

    def about(self, benchmark: str, scenario: str) -> list[Entry]:
        """Return the entries about a scenario, in the order of the file: the first that matches the agent counts."""
        self.benchmarks.add(benchmark)
        found = [*self._named.get(scenario, ())]
        if self._any_pattern is not None and self._any_pattern(scenario):
            found += [number for number, match in self._patterns if match(scenario)]
        if not found:
            return []
        fitting = [number for number in sorted(found) if self.entries[number].is_of(benchmark)]
        self._met.update(fitting)
        return [self.entries[number] for number in fitting]

    def unmatched(self) -> list[Entry]:
        """Return entries that match no scenario, though they are for a collected benchmark, or for any."""
        return [
            entry
            for number, entry in enumerate(self.entries)
            if number not in self._met and any(map(entry.is_of, self.benchmarks))
        ]


def _matches(name: str, pattern: str) -> bool:
    return name == pattern or fnmatch.fnmatchcase(name, pattern)


def read_known(path: Path, shown: str, today: datetime.date) -> KnownFailures:
    """Read a file of known failures. `shown` is how its path is shown.

    Raises InputErrors: every mistake in it, with file and line; an entry whose last day was before `today` is one.
    """
    document = read_document(path, keys="known-failures.md", limit=SETTINGS_BYTES)
    complaints = Complaints(document)
    complaints.unknown_keys(WrittenKnownFile, document.data, otherwise=_there_are)
    written = document.data.get("known", [])
    if not isinstance(written, list):
        complaints.wrong(("known",), "a list of tables is expected; write [[known]] above each entry")
        written = []
    entries: list[Entry] = []
    seen: dict[tuple[str | None, str, str | None], int | None] = {}
    for index, table in enumerate(written):
        place: Place = ("known", index)
        found = complaints.check(WrittenKnown, table, lambda at, place=place: (*place, *at))  # type: ignore[misc]
        if found is None:
            continue
        line = document.line(place)
        if (problem := what_is_wrong(found, today)) is not None:
            complaints.wrong((*place, problem[0]), f"{found.scenario}: {problem[1]}")
        key = (found.benchmark, found.scenario, found.agent)
        if key in seen:
            complaints.wrong(
                place, f"{found.scenario}: line {seen[key]} is about the same trials; remove one"
            )
        seen.setdefault(key, line)
        entries.append(Entry(*key, as_known(found, f"{shown}:{line}" if line else shown)))
    complaints.raise_errors()
    return KnownFailures(entries)


def read_marker(keywords: Mapping[str, object], today: datetime.date, place: str | None = None) -> Known:
    """Validate the keywords of a marker. InputError: the first thing that is wrong with them."""
    for key in keywords:
        if key not in WrittenReason.model_fields:
            hint = did_you_mean(key, WrittenReason.model_fields) or _there_are(WrittenReason)
            raise InputError(f"there is no keyword {key!r};{hint}")
    try:
        found = WrittenReason.model_validate(dict(keywords))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InputError(f"{first['loc'][0]}: {in_words(first)}") from None
    if (problem := what_is_wrong(found, today)) is not None:
        raise InputError(f"{problem[0]}: {problem[1]}")
    return as_known(found, place)


def as_known(written: WrittenReason, place: str | None) -> Known:
    """Make the known failure for results."""
    return Known(**written.model_dump(include=set(WrittenReason.model_fields)), place=place)


def what_is_wrong(written: WrittenReason, today: datetime.date) -> tuple[str, str] | None:
    """Return the key that is wrong, and why, where each key alone is valid."""
    if written.until < today:
        return "until", (
            f"its failure was accepted until {written.until}, which has passed; "
            "remove the entry if it passes now, else review it and set a later day"
        )
    if written.strict and written.mode is not KnownMode.EXPECTED_FAIL:
        return "strict", f"means nothing with mode {written.mode}; leave one of them out"
    return None


def known_schema() -> dict[str, Any]:
    """Return the JSON Schema of the file, for editors and for `benchjobs schema`."""
    schema = WrittenKnownFile.model_json_schema(mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _there_are(model: type[BaseModel]) -> str:
    return f" available: {', '.join(model.model_fields)}"
