"""Native manifests: `*.bench.yaml`, `*.bench.yml` and `*.bench.toml`."""

from __future__ import annotations

import abc
import functools
import itertools
import os.path
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..model.base import ScenarioName
from ..model.errors import InputError
from ..model.scenario import TURN, Requires, Scenario
from .assemble import assemble, faults_of_files, find_faults, needs_container, tags_of
from .borrowing import FROM, Lenders, Loan, borrow, borrowed_ref, faults_of_loan, own_id
from .complaints import MISSING, Complaints, did_you_mean, in_words
from .documents import Document, parse_document, read_text
from .hidden import given_by, hidden_by
from .place import oddities_of_place
from .plain import Place
from .protocol import ScenarioRef, SourceWarning
from .written import WrittenBorrowed, WrittenEnvironment, WrittenHeader, WrittenScenario, WrittenVariant

SUFFIXES = (".bench.yaml", ".bench.yml", ".bench.toml")
_TABLES = frozenset({"env", "agent_env", "build_args", "files", "metadata", "requires"})
"""Keys merged key by key; any other key of a scenario replaces that of `defaults`."""
_KEPT = 64
_MEMORY = 1 << 19
"""The most characters of collected manifests that stay parsed until their trials run: about 10 MB."""
_INSTEAD = {
    "image": ("dockerfile", "context", "build_args", "snapshot"),
    "dockerfile": ("image", "snapshot"),
    "snapshot": ("image", "dockerfile", "context", "build_args"),
    "problem_file": ("problem_statement",),
    "problem_statement": ("problem_file",),
    "grade_in": ("grading", "keep_processes", "fresh_container"),
    "fresh_container": ("grade_in", "grading", "keep_processes", "carry"),
    "carry": ("fresh_container",),
}
"""A scenario's key -> keys of `defaults` that it overrides."""
_ENVIRONMENT = frozenset(WrittenEnvironment.model_fields)
_name: TypeAdapter[str] = TypeAdapter(ScenarioName)
_Table = Mapping[str, Any]
_Layers = tuple[tuple[Place, _Table], ...]
"""Tables of a scenario, with their places: its own, and that of its variant."""


def is_manifest(path: Path) -> bool:
    """Return True if a file is a manifest, by its name."""
    return path.name.endswith(SUFFIXES) and not path.name.startswith(".")


class _Memory:
    """Cache of the last small manifests, parsed during collection. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[Path, Reading] = {}

    def keep(self, path: Path, reading: Reading) -> None:
        with self._lock:
            self._kept.pop(path, None)
            self._kept[path] = reading
            while sum(len(kept.text) for kept in self._kept.values()) > _MEMORY:
                del self._kept[next(iter(self._kept))]

    def take(self, path: Path, text: str) -> Reading | None:
        """Remove the parse of a file from the cache and return it, if its text is the same."""
        with self._lock:
            reading = self._kept.pop(path, None)
        return reading if reading is not None and reading.text == text else None


_memory = _Memory()
_headers: dict[Path, tuple[int, WrittenHeader]] = {}
"""Valid headers of manifests, each with the hash of the text it is from."""


class ManifestSource(abc.ABC):
    """A source with the keys of a manifest, in a file or in Python."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warnings: Sequence[SourceWarning] = ()
        self._header: WrittenHeader | None = None
        self._confidential = False
        self._lock = threading.Lock()
        self._reading: Reading | None = None

    @property
    def benchmark(self) -> str:
        """Name of the benchmark; reads the source if `refs` has not. Raises InputErrors: it has none that is valid."""
        return self._valid_header().benchmark

    @property
    def version(self) -> str | None:
        """Version of the benchmark, if it has one; reads the source if `refs` has not.

        Raises InputErrors: something about the benchmark as a whole is wrong.
        """
        return self._valid_header().version

    @property
    def confidential(self) -> bool:
        """True if all its scenarios are confidential; known after `refs`."""
        return self._confidential

    def refs(self, wanted: Callable[[str], bool] | None = None) -> list[ScenarioRef]:
        """Validate and list the wanted scenarios, in their order.

        Raises InputErrors: every mistake found, each with file and line.
        """
        reading = self._read(lists=True)
        try:
            refs = reading.refs(wanted)
        finally:
            self.warnings = tuple(reading.complaints.warnings)
        self._header, self._confidential = reading.valid_header, reading.confidential
        reading.listed = bool(refs)
        self._keep(reading)
        return refs

    def named_files(self) -> tuple[set[Path], set[Path]]:
        """Return the paths of files for references and scorers, and of files for the agent and its image.

        Raises InputError: the source cannot be read, or is not valid as a document.
        """
        reading = self._read()
        self._keep(reading)
        return reading.named(hidden_by), reading.named(given_by)

    def load(self, scenario_id: str) -> Scenario:
        """The whole scenario, as the source was at the first `load`.

        Raises InputError: the scenario does not exist, or has become wrong since.
        """
        with self._lock:
            if self._reading is None:
                self._reading = self._read()
            return self._reading.load(scenario_id)

    def refuse(self, scenario_id: str, place: Place, message: str) -> None:
        """Raise a mistake in what is written of a scenario, at a place such as `("scorers", 0, "type")`.

        Raises InputErrors: always.
        """
        reading = self._read()
        self._keep(reading)
        complaints = Complaints(reading.document)
        complaints.wrong(reading.where(reading.ids[scenario_id], place), message)
        complaints.raise_errors()

    def _valid_header(self) -> WrittenHeader:
        if self._header is None:
            self.refs(lambda _: False)
        assert self._header is not None  # noqa: S101  `refs` raises otherwise
        return self._header

    @abc.abstractmethod
    def _read(self, *, lists: bool = False) -> Reading:
        """Parse it; one that `lists` scenarios has reported no warning yet."""

    @abc.abstractmethod
    def _keep(self, reading: Reading) -> None:
        """Keep what was listed, for `load`."""


class Manifest(ManifestSource):
    """One manifest file. Between `refs` and the first `load` it keeps no content, unless it is small."""

    def __init__(self, path: Path) -> None:
        super().__init__(Path(os.path.abspath(path)))  # noqa: PTH100  `absolute` keeps `..`, `resolve` follows links

    def _valid_header(self) -> WrittenHeader:
        if self._header is None:
            # Kept however large the file is: to find a benchmark by its name, all manifests of a project are read.
            text = hash(read_text(self.path))
            if (known := _headers.get(self.path)) is None or known[0] != text:
                known = _headers[self.path] = text, super()._valid_header()
            self._header = known[1]
        return self._header

    def _read(self, *, lists: bool = False) -> Reading:
        text = read_text(self.path)
        reading = _memory.take(self.path, text)
        if reading is None or (lists and reading.listed):
            reading = Reading(parse_document(self.path, text, keys="manifest.md"), text)
        return reading

    def _keep(self, reading: Reading) -> None:
        if reading.small:
            _memory.keep(self.path, reading)


class Reading:
    """Parsed contents of a manifest with this text, and its problems. `small` ones keep what they have validated."""

    def __init__(self, document: Document, text: str = "") -> None:
        self.small = len(text) <= _MEMORY
        self.text = text if self.small else ""
        self.listed = False
        """True if its scenarios have been listed."""
        self.document = document
        self.complaints = Complaints(document)
        self.directory = document.path.parent
        data = document.data
        header = {key: value for key, value in data.items() if key != "scenarios"}
        self.complaints.unknown_keys(WrittenHeader, header, others=("scenarios",))
        self.header = self.complaints.check(WrittenHeader, header)
        defaults = data.get("defaults")
        self._raw_defaults: _Table = defaults if isinstance(defaults, dict) else {}
        self._defaults = self._flat(self._raw_defaults, ("defaults",))
        self._scenarios: list[_Layers] = []
        self.ids: dict[str, int] = {}
        self._loaded: dict[str, Scenario] = {}
        self._checked: dict[int, WrittenScenario] = {}
        """Scenarios of a small manifest that are valid, until they are loaded."""
        self.kinds: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._requires: dict[str, Requires] = {}
        self._lenders = Lenders(
            self.directory, lambda: None if self.header is None else self.header.benchmark
        )
        self._loans: dict[int, tuple[WrittenBorrowed, Loan]] = {}
        """Borrowed scenarios that were validated."""
        self._list_scenarios(data)

    @property
    def valid_header(self) -> WrittenHeader:
        """The header, once `refs` has raised what is wrong with it."""
        assert self.header is not None  # noqa: S101  else its mistakes were raised
        return self.header

    @property
    def confidential(self) -> bool:
        """True if it is confidential, or has borrowed from a benchmark that is."""
        return self.valid_header.confidential or any(loan.confidential for _, loan in self._loans.values())

    def refs(self, wanted: Callable[[str], bool] | None = None) -> list[ScenarioRef]:
        """Validate and list the wanted scenarios, in their order. Raises InputErrors: every mistake found."""
        # A mistake in the header ends the run, so all others are reported with it.
        every = wanted is None or self.complaints.any
        refs = [
            ref
            for scenario_id, index in self.ids.items()
            if (every or (wanted is not None and wanted(scenario_id)))
            and (ref := self.ref(index)) is not None
        ]
        self.complaints.raise_errors()
        return refs

    @functools.cached_property
    def _hidden(self) -> tuple[Path, ...]:
        """Paths that no build context holds, the same for all scenarios: those with one Dockerfile share its image."""
        places = ((), *(layers[-1][0] for layers in self._scenarios))
        return tuple(sorted({*map(self.document.path_at, places), *self.named(hidden_by)}))

    def named(self, by: Callable[[_Table, Path], Iterable[Path]]) -> set[Path]:
        """Return the paths of files that any of the scenarios names."""
        merged = (
            functools.reduce(_merge, (table for _, table in layers), self._raw_defaults)
            for layers in self._scenarios
        )
        return set(itertools.chain.from_iterable(by(table, self.directory) for table in merged))

    def _list_scenarios(self, data: _Table) -> None:
        listed = data.get("scenarios")
        if not isinstance(listed, list) or not listed:
            if "scenarios" in data:
                self.complaints.wrong(("scenarios",), "must be a list of at least one scenario")
            else:
                self.complaints.wrong(("scenarios",), MISSING)
            return
        for index, scenario in enumerate(listed):
            place: Place = ("scenarios", index)
            if not isinstance(scenario, dict):
                self.complaints.wrong(place, "a table of keys is expected; start it with `id:`")
            elif FROM in scenario:
                self._add(((place, scenario),), place, scenario.get("id", own_id(scenario[FROM])))
            elif "variants" in scenario:
                self._list_variants(place, scenario)
            else:
                self._add(((place, scenario),), place, scenario.get("id"))

    def _list_variants(self, place: Place, scenario: _Table) -> None:
        variants = scenario["variants"]
        base = {key: value for key, value in scenario.items() if key != "variants"}
        if not isinstance(variants, list) or not variants:
            self.complaints.wrong((*place, "variants"), "must be a list of at least one variant")
            return
        for index, variant in enumerate(variants):
            at = (*place, "variants", index)
            if not isinstance(variant, dict):
                self.complaints.wrong(at, "a table of keys is expected; start it with `id:`")
                continue
            # Each alone, before they are put together: an id may be of any type, or missing.
            ids = [self._id(table, start) for table, start in ((scenario, place), (variant, at))]
            if None not in ids:
                scenario_id = ".".join(map(str, ids))
                self._add(((place, base), (at, {**variant, "id": scenario_id})), at, scenario_id)

    def _id(self, table: _Table, place: Place) -> str | None:
        """The id in a table; None if it is wrong, which is noted."""
        if "id" not in table:
            self.complaints.wrong((*place, "id"), MISSING)
            return None
        try:
            return _name.validate_python(table["id"])
        except ValidationError as error:
            self.complaints.wrong((*place, "id"), in_words(error.errors(include_url=False)[0]))
            return None

    def _add(self, layers: _Layers, place: Place, written_id: object) -> None:
        """Add a scenario: a table, and tables that override it."""
        self._scenarios.append(layers)
        index = len(self._scenarios) - 1
        try:
            scenario_id = _name.validate_python(written_id)
        except ValidationError as error:
            if self._is_borrowed(index):
                key = "id" if "id" in layers[0][1] else FROM
                self.complaints.wrong((*place, key), in_words(error.errors(include_url=False)[0]))
                return
            if self.scenario(index) is not None:  # reports the id, and all other problems
                raise AssertionError("unreachable: an id is left out without a word") from None
            return
        first = self.ids.setdefault(scenario_id, index)
        if first != index:
            line = self.document.line(self._place(first))
            self.complaints.wrong(
                (*place, "id"), f"{scenario_id!r} is already the id of the scenario in line {line}"
            )

    def _place(self, index: int) -> Place:
        return self._scenarios[index][-1][0]

    def _flat(self, table: _Table, place: Place) -> _Table:
        """The table with the keys of its `environment` table moved up."""
        nested = table.get("environment")
        if not isinstance(nested, dict):
            return table
        for key in nested.keys() & table.keys():
            self.complaints.wrong((*place, "environment", key), "is given here and outside of `environment`")
        flat = {key: value for key, value in table.items() if key != "environment"}
        return flat | {key: value for key, value in nested.items() if key in _ENVIRONMENT}

    def _loan(self, index: int) -> tuple[WrittenBorrowed, Loan] | None:
        """A borrowed scenario; None if it is wrong, with its mistakes noted."""
        if (known := self._loans.get(index)) is not None:
            return known
        ((place, table),) = self._scenarios[index]
        self._refuse_changes(place, table)
        written = self.complaints.check(WrittenBorrowed, table, lambda within: (*place, *within))
        if written is None:
            return None
        try:
            loan = self._lenders.find(written.borrowed)
            faults = list(faults_of_loan(written, loan))
        except InputError as error:
            self.complaints.wrong((*place, FROM), str(error).partition("\n")[0])
            return None
        for within, message in faults:
            self.complaints.wrong((*place, *within), message)
        if faults:
            return None
        self._loans[index] = written, loan
        return written, loan

    def _refuse_changes(self, place: Place, table: _Table) -> None:
        """Note keys that a borrowed scenario cannot have."""
        others = [
            key for key in table if key in WrittenScenario.model_fields.keys() - WrittenBorrowed.model_fields
        ]
        for key in others:
            self.complaints.wrong(
                (*place, key),
                "cannot be changed of a borrowed scenario, which asks and grades as it does",
                at_key=True,
            )
        self.complaints.unknown_keys(WrittenBorrowed, table, place, others=others)

    def _is_borrowed(self, index: int) -> bool:
        return FROM in self._scenarios[index][0][1]

    def where(self, index: int, place: Place) -> Place:
        """Return the place in the file of one in a scenario, which its variant or `defaults` may have."""
        layers = self._scenarios[index]
        for start, table in (*reversed(layers), (("defaults",), self._raw_defaults)):
            found = _find(table, place) if place else None
            if found is not None:
                return (*start, *found)
        return (*layers[-1][0], *place)

    def scenario(self, index: int) -> WrittenScenario | None:
        """One scenario with the defaults filled in; None if it is wrong, with its mistakes noted."""
        where = functools.partial(self.where, index)
        written = self._checked.pop(index, None)
        if written is not None:  # only the files that it names may have changed
            faults = [*faults_of_files(written, self.directory)]
        else:
            flat = [self._flat(table, place) for place, table in self._scenarios[index]]
            merged = functools.reduce(_merge, flat, self._defaults)
            written = self.complaints.check(WrittenScenario, merged, where)
            faults = [] if written is None else [*find_faults(written, self.directory)]
            if written is not None and not faults and self.small:
                self._checked[index] = written
            for place, message in () if written is None else oddities_of_place(written):
                self.complaints.odd(where(place), message)
        for place, message in faults:
            self.complaints.wrong(where(place), message)
        return None if faults else written

    def ref(self, index: int) -> ScenarioRef | None:
        """Validate one scenario; None if it is wrong."""
        if self._is_borrowed(index):
            found = self._loan(index)
            return None if found is None else borrowed_ref(*found, self.document.line(self._place(index)))
        (base, scenario), *variant = self._scenarios[index]
        self.complaints.unknown_keys(WrittenScenario, scenario, base)
        for at, table in variant:
            self.complaints.unknown_keys(WrittenVariant, table, at)
        written = self.scenario(index)
        if written is None:
            return None
        line = self.document.line(self._place(index))
        kinds = tuple(scorer.type for scorer in written.scorers)
        if any(turn.expect or turn.forbid for turn in written.turns):
            kinds = (*kinds, TURN)
        # Equal tuples are shared: a benchmark has thousands of scenarios and few combinations of types.
        kinds = self.kinds.setdefault(kinds, kinds)
        return ScenarioRef(
            written.id,
            tags_of(written),
            line,
            written.archived,
            kinds,
            needs_container(written),
            self._required(written),
        )

    def _required(self, written: WrittenScenario) -> Requires | None:
        """Its requirements; equal ones are shared."""
        if written.requires is None:
            return None
        text = written.requires.model_dump_json()
        if text not in self._requires:
            self._requires[text] = Requires.model_validate(written.requires.model_dump())
        return self._requires[text]

    def load(self, scenario_id: str) -> Scenario:
        """The whole scenario. The last ones are cached: attempts and agents of one scenario run close together."""
        scenario = self._loaded.get(scenario_id)
        if scenario is None:
            scenario = self._loaded[scenario_id] = self._load(scenario_id)
            if len(self._loaded) > _KEPT:
                del self._loaded[next(iter(self._loaded))]
        return scenario

    def _load(self, scenario_id: str) -> Scenario:
        index = self.ids.get(scenario_id)
        if index is None:
            hint = did_you_mean(scenario_id, self.ids)
            raise InputError(f"no scenario {scenario_id!r}.{hint}", path=self.document.path)
        written = self._loan(index) if self._is_borrowed(index) else self.scenario(index)
        if written is None or self.header is None:
            self.complaints.raise_errors()
            raise AssertionError("unreachable")
        path, line = self.document.path_at(self._place(index)), self.document.line(self._place(index))
        if isinstance(written, tuple):
            return borrow(*written, self.header, path, line)
        (_, table), *variant = self._scenarios[index]
        if variant and written.cluster is None and "cluster" not in written.metadata:
            # Variants of one scenario succeed and fail together.
            written = written.model_copy(update={"cluster": str(table["id"])})
        try:
            scenario = assemble(written, self.header, self.directory, path, line)
        except ValidationError as error:
            raise InputError(f"{scenario_id}: {error}", path=path, line=line) from None
        environment = scenario.environment
        if environment.dockerfile is None and environment.compose is None:
            return scenario
        hiding = environment.model_copy(update={"hidden": self._hidden})
        return scenario.model_copy(update={"environment": hiding})


def _find(table: _Table, place: Place) -> Place | None:
    """Place of a flat key in the table as written, if the key is there."""
    key, *rest = place
    nested = table.get("environment")
    for start, candidate in (((), table), (("environment",), nested)):
        if isinstance(candidate, dict) and key in candidate:
            value = candidate[str(key)]
            if key in _TABLES and rest and isinstance(value, dict) and rest[0] not in value:
                continue
            return (*start, key, *rest)
    return None


def _merge(defaults: _Table, scenario: _Table) -> dict[str, Any]:
    void = {key for given in _INSTEAD.keys() & scenario.keys() for key in _INSTEAD[given]}
    merged = {key: value for key, value in defaults.items() if key not in void}
    for key, value in scenario.items():
        if key in _TABLES and isinstance(value, dict) and isinstance(below := merged.get(key), dict):
            merged[key] = below | value
        else:
            merged[key] = value
    return merged
