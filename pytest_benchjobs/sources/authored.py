"""Benchmarks written in Python: `Benchmark(...)` and `Scenario(...)`, with the keys of a manifest.

They hold plain data, and are validated like a manifest, when they are collected. Messages name file and line of the
call, and of the argument in it where the source can be read.
"""

from __future__ import annotations

import datetime
import enum
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..model.errors import InputError, InputErrors
from ..model.scenario import Scenario as LoadedScenario
from .callables import scorer_name
from .calls import Call, Calls
from .columns import Span
from .documents import Document
from .manifest import Reading
from .parametrized import variants_of
from .plain import MAX_DEPTH, Place, dotted, unfit
from .protocol import ScenarioRef, SourceWarning

_IN_PYTHON = {"from_": "from"}
"""Keys that Python reserves, as they are spelt there -> as in a manifest."""


class Scenario:
    """One scenario of a `Benchmark`, with the keys of a scenario in a manifest as keyword arguments.

    ::

        Scenario(
            "count",
            image="debian:bookworm-slim",
            problem_statement="Write the number of lines of in.txt to out.txt.",
            reference="wc -l < in.txt > out.txt",
            scorers=[{"type": "command", "command": "grep -qx 3 out.txt"}],
        )

    An argument that is None is as good as left out.
    """

    def __init__(self, id: str | None = None, **keys: Any) -> None:  # noqa: A002  the key of manifests
        self._call = Call.of(sys._getframe(1), "Scenario", "id")
        self._keys = _given({"id": id, **keys})

    @property
    def id(self) -> str | None:
        """The id as it was given."""
        return self._keys.get("id")

    def __repr__(self) -> str:
        return f"<Scenario {self.id!r}>"  # no content: it may be printed by any test that fails


class Benchmark:
    """A named, versioned set of scenarios, with the keys of a manifest as keyword arguments.

    In a variable of a test module or a conftest.py it is collected as a manifest at that place is. `scenarios` are
    `Scenario` objects, tables with the same keys, or functions with the mark `parametrize` that return a `Scenario`.
    Paths are relative to the file with this call.

    ::

        words = Benchmark("words", version="1.0", defaults={"workdir": "/app"}, scenarios=[Scenario(...), ...])
    """

    def __init__(self, name: str | None = None, *, scenarios: Iterable[Any] = (), **keys: Any) -> None:
        self._call = Call.of(sys._getframe(1), "Benchmark", "benchmark")
        self._keys = _given({"benchmark": name, **keys})
        self._scenarios = (
            scenarios
            if isinstance(scenarios, str | Mapping) or not isinstance(scenarios, Iterable)
            else tuple(scenarios)
        )
        self._reading: Reading | None = None
        self._lock = threading.Lock()
        self.path = self._call.path
        """The file with the call."""
        self.line = self._call.line
        self.warnings: Sequence[SourceWarning] = ()

    @property
    def benchmark(self) -> str:
        """Its name.

        Raises:
            InputErrors: it has none that is valid.
        """
        return self._valid().valid_header.benchmark

    @property
    def version(self) -> str | None:
        """Its version, if it has one.

        Raises:
            InputErrors: something about the benchmark as a whole is wrong.
        """
        return self._valid().valid_header.version

    @property
    def confidential(self) -> bool:
        """True if all its scenarios are confidential.

        Raises:
            InputErrors: something about the benchmark as a whole is wrong.
        """
        return self._valid().confidential

    @property
    def scorers(self) -> Mapping[str, Callable[..., Any]]:
        """Functions with the decorator `scorer` among its scorers, by their names.

        Raises:
            InputErrors: something about the benchmark as a whole is wrong.
        """
        document = self._valid().document
        assert isinstance(document, _PythonDocument)  # noqa: S101  made below
        return document.scorers

    def __repr__(self) -> str:
        return f"<Benchmark {self._keys.get('benchmark')!r}>"

    def refs(self, wanted: Callable[[str], bool] | None = None) -> list[ScenarioRef]:
        """Validate and list the wanted scenarios, in their order.

        Raises:
            InputErrors: every mistake found, each with file and line.
        """
        reading = self._read()
        try:
            refs = reading.refs(wanted)
        finally:
            self.warnings = tuple(reading.complaints.warnings)
        with self._lock:
            self._reading = reading
        return refs

    def load(self, scenario_id: str) -> LoadedScenario:
        """The whole scenario.

        Raises:
            InputError: there is no such scenario, or it is wrong.
        """
        reading = self._valid()
        with self._lock:
            return reading.load(scenario_id)

    def _valid(self) -> Reading:
        with self._lock:
            reading = self._reading
        if reading is None:
            reading = self._read()
            reading.refs(lambda _: False)
            with self._lock:
                self._reading = reading
        return reading

    def _read(self) -> Reading:
        return Reading(_document(self._call, self._keys, self._scenarios), small=True)


def _given(keys: Mapping[str, Any]) -> dict[str, Any]:
    return {_IN_PYTHON.get(key, key): value for key, value in keys.items() if value is not None}


class _Listed(NamedTuple):
    """A scenario of a benchmark, and the call that made it."""

    keys: Any
    call: Call | None


def _document(call: Call, keys: Mapping[str, Any], scenarios: object) -> _PythonDocument:
    """The benchmark as plain data, as if it were read from a manifest."""
    errors: list[InputError] = []
    if not isinstance(scenarios, Iterable):
        what = "a Scenario; write [Scenario(...)]" if isinstance(scenarios, Scenario) else _kind(scenarios)
        raise InputErrors(
            [InputError(f"scenarios: a list is expected, not {what}", path=call.path, line=call.line)]
        )
    listed = list(_listed(call, scenarios, errors)) if isinstance(scenarios, tuple) else []
    if errors and not listed:
        raise InputErrors(errors)
    document = _PythonDocument(call, [one.call for one in listed], errors)
    tables = [one.keys for one in listed] if isinstance(scenarios, tuple) else scenarios
    document.data = _plain({**keys, "scenarios": tables}, (), document)
    return document


def _listed(call: Call, scenarios: Iterable[Any], errors: list[InputError]) -> Iterator[_Listed]:
    for number, one in enumerate(scenarios):
        if isinstance(one, Scenario):
            yield _Listed(one._keys, one._call)
        elif callable(one) and not isinstance(one, type):
            yield from _made(one, errors)
        elif isinstance(one, Mapping):
            yield _Listed(one, None)
        else:
            errors.append(
                InputError(
                    f"scenarios[{number}]: a Scenario is expected, not {_kind(one)}",
                    path=call.path,
                    line=call.line,
                )
            )


def _made(function: Callable[..., Any], errors: list[InputError]) -> Iterator[_Listed]:
    """Scenarios that a function returns, one for each set of its parameters."""
    code = inspect.unwrap(function).__code__ if inspect.isfunction(inspect.unwrap(function)) else None
    name = getattr(function, "__name__", "a function")

    def wrong(message: str) -> None:
        path, line = (None, None) if code is None else (Path(code.co_filename), code.co_firstlineno)
        errors.append(InputError(f"{name}: {message}", path=path, line=line))

    try:
        found = variants_of(function)
    except ValueError as error:
        wrong(str(error))
        return
    for suffix, arguments in found:
        try:
            made = function(**arguments)
        except Exception as error:
            wrong(f"raises {type(error).__name__}: {str(error)[:300]}{f' for {suffix}' if suffix else ''}")
            return
        if not isinstance(made, Scenario):
            wrong(f"a Scenario is expected, not {_kind(made)}")
            return
        if not suffix:
            yield _Listed(made._keys, made._call)
            continue
        base = made.id or name.replace("_", "-")
        # Variants of one scenario succeed and fail together.
        yield _Listed({"cluster": base, **made._keys, "id": f"{base}.{suffix}"}, made._call)


class _PythonDocument(Document):
    """Plain data from calls in Python files."""

    def __init__(self, call: Call, scenarios: Sequence[Call | None], errors: list[InputError]) -> None:
        super().__init__(call.path, {}, lambda _place: None, errors)
        self._call = call
        self._scenarios = scenarios
        self._calls = Calls()
        self.scorers: dict[str, Callable[..., Any]] = {}

    def path_at(self, place: Place) -> Path:
        """File of the call that a place is in."""
        return self._part(place)[0].path

    def line(self, place: Place) -> int | None:
        """Line of a place, of the nearest enclosing one in the source, or of the call."""
        call, within = self._part(place)
        span = self._calls.find(call, within, at_key=False) if within else None
        return call.line if span is None else span.line

    def span(self, place: Place, line: int, *, at_key: bool) -> Span | None:
        """Span of a place on its line; None if it is unknown."""
        call, within = self._part(place)
        for which in (at_key, False, True):
            span = self._calls.find(call, within, at_key=which)
            if span is not None and span.line == line:
                return span
        return None

    def _part(self, place: Place) -> tuple[Call, Place]:
        """The call that a place is in, and the place within."""
        match place:
            case ("scenarios", int(index), *within) if index < len(self._scenarios):
                if (call := self._scenarios[index]) is not None:
                    return call, tuple(within)
        return self._call, place


def _plain(value: Any, place: Place, document: _PythonDocument) -> Any:
    """The value as plain data; one that cannot be is noted, and None."""
    problem = None
    if len(place) > MAX_DEPTH:
        problem = "is nested too deeply"
    elif isinstance(value, enum.Enum):
        return _plain(value.value, place, document)
    elif isinstance(value, Mapping):
        return {str(key): _plain(item, (*place, str(key)), document) for key, item in value.items()}
    elif isinstance(value, list | tuple):
        return [_plain(item, (*place, index), document) for index, item in enumerate(value)]
    elif isinstance(value, os.PathLike):
        return _plain(os.fspath(value), place, document)
    elif isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    elif isinstance(value, str | int | float | None):
        problem = unfit(value)
    elif (name := scorer_name(value)) is not None:
        if document.scorers.setdefault(name, value) is value:
            return name if place[-1] == "type" else {"type": name}
        problem = f"another function is the scorer {name!r}, too; rename one"
    elif inspect.isfunction(value):
        problem = "a function that is a scorer needs a name: @pytest_benchjobs.scorer(NAME)"
    else:
        problem = f"{_kind(value)} cannot be used here; text, numbers, lists, tables and paths can"
    if problem is None:
        return value
    document.errors.append(
        InputError(f"{dotted(place)}: {problem}", path=document.path_at(place), line=document.line(place))
    )
    return None


def _kind(value: object) -> str:
    """Describe a value by its type. The value itself may be long, or raise when it is printed."""
    return (
        f"the class {value.__name__}"
        if isinstance(value, type)
        else f"a value of type {type(value).__name__}"
    )
