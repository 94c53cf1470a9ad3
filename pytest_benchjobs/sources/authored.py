"""Benchmarks written in Python: `Benchmark(...)` and `Scenario(...)`, with the keys of a manifest.

They hold plain data, and are validated like a manifest, when they are collected. Messages name file and line of the
call, and of the argument in it where the source can be read.
"""

from __future__ import annotations

import datetime
import enum
import importlib.util
import inspect
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..model.errors import InputError, InputErrors
from ..model.scenario import Scenario as LoadedScenario
from .callables import kind_of, scorer_name
from .calls import Call, Calls
from .documents import Document
from .manifest import ManifestSource, Reading
from .plain import MAX_DEPTH, Place, dotted, unfit

_IN_PYTHON = {"from_": "from"}
"""Keys that Python reserves, as they are spelt there -> as in a manifest."""
_PLAIN = (str, int, float, bool, type(None))
_Set = tuple[str, dict[str, Any]]


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

    An argument of None means that it is not given.
    """

    def __init__(self, id: str | None = None, **keys: Any) -> None:  # noqa: A002  the key of manifests
        self._call = Call.of(sys._getframe(1), "id")
        self._keys = _given({"id": id, **keys})

    @property
    def id(self) -> str | None:
        """The id as it was given."""
        return self._keys.get("id")

    def __repr__(self) -> str:
        return f"<Scenario {self.id!r}>"  # no content: it may be printed by any test that fails


class Benchmark(ManifestSource):
    """A named, versioned set of scenarios, with the keys of a manifest as keyword arguments.

    In a variable of a test module or a conftest.py it is collected as a manifest at that place is. `scenarios` are
    `Scenario` objects, tables with the same keys, or functions with the mark `parametrize` that return a `Scenario`.
    Paths are relative to the file with this call.

    ::

        words = Benchmark("words", version="1.0", defaults={"workdir": "/app"}, scenarios=[Scenario(...), ...])
    """

    def __init__(self, name: str | None = None, *, scenarios: Iterable[Any] = (), **keys: Any) -> None:
        self._call = Call.of(sys._getframe(1), "benchmark")
        super().__init__(self._call.path)
        self._keys = _given({"benchmark": name, **keys})
        self._scenarios = (
            scenarios
            if isinstance(scenarios, str | Mapping) or not isinstance(scenarios, Iterable)
            else tuple(scenarios)
        )
        self.line = self._call.line

    @property
    def confidential(self) -> bool:
        """True if all its scenarios are confidential.

        Raises InputErrors: something about the benchmark as a whole is wrong.
        """
        self._valid_header()
        return self._confidential

    @property
    def scorers(self) -> Mapping[str, Callable[..., Any]]:
        """Functions with the decorator `scorer` among its scorers, by their names.

        Raises InputErrors: something about the benchmark as a whole is wrong.
        """
        self._valid_header()
        assert self._reading is not None  # noqa: S101  kept with the header
        document = self._reading.document
        assert isinstance(document, _PythonDocument)  # noqa: S101  made below
        return document.scorers

    def __repr__(self) -> str:
        return f"<Benchmark {self._keys.get('benchmark')!r}>"

    def load(self, scenario_id: str) -> LoadedScenario:
        """The whole scenario. Raises InputError: there is no such scenario, or something is wrong."""
        self._valid_header()
        return super().load(scenario_id)

    def _read(self, *, lists: bool = False) -> Reading:  # noqa: ARG002
        return Reading(_document(self._call, self._keys, self._scenarios))

    def _keep(self, reading: Reading) -> None:
        with self._lock:
            self._reading = reading


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
        what = "a Scenario; write [Scenario(...)]" if isinstance(scenarios, Scenario) else kind_of(scenarios)
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
                    f"scenarios[{number}]: a Scenario is expected, not {kind_of(one)}",
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
        found = _variants_of(function)
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
            wrong(f"a Scenario is expected, not {kind_of(made)}")
            return
        if not suffix:
            yield _Listed(made._keys, made._call)
            continue
        base = made.id or name.replace("_", "-")
        # Variants of one scenario succeed and fail together.
        yield _Listed({"cluster": base, **made._keys, "id": f"{base}.{suffix}"}, made._call)


def _variants_of(function: Callable[..., Any]) -> list[_Set]:
    """Name and arguments of each set; of a function without such a mark one, whose name is empty.

    Raises ValueError: a mark is wrong; the message says how.
    """
    marks = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
    found: list[_Set] = [("", {})]
    # The mark closest to the function comes first in the name, and varies slowest: as in pytest.
    for mark in marks:
        found = [
            ("-".join(filter(None, (before, suffix))), {**others, **arguments})
            for (before, others), (suffix, arguments) in itertools.product(found, [*_sets(mark)])
        ]
    names = [name for name, _ in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"parametrize: two sets have the id {twice!r}; give them ids=[...]")
    return found


def _sets(mark: Any) -> Iterator[_Set]:
    given = dict(zip(("argnames", "argvalues"), mark.args, strict=False)) | dict(mark.kwargs)
    if unknown := given.keys() - {"argnames", "argvalues", "ids"}:
        raise ValueError(f"parametrize: {', '.join(sorted(unknown))} cannot be used for scenarios")
    if not {"argnames", "argvalues"} <= given.keys():
        raise ValueError('parametrize: write parametrize("name", [value, ...])')
    names = given["argnames"]
    names = (
        [name.strip() for name in names.split(",") if name.strip()] if isinstance(names, str) else [*names]
    )
    values = [*given["argvalues"]]
    ids = given.get("ids")
    named = [*ids] if ids is not None and not callable(ids) else [None] * len(values)
    if len(named) != len(values):
        raise ValueError(f"parametrize: there are {len(values)} sets and {len(named)} ids")
    for index, (value, own) in enumerate(zip(values, named, strict=True)):
        name, arguments = _unpacked(value, names)
        if len(arguments) != len(names):
            raise ValueError(
                f"parametrize: {', '.join(names)} need {len(names)} values, not {len(arguments)}"
            )
        parts = [
            _part_of_id(argument, label, index, ids if callable(ids) else None)
            for label, argument in zip(names, arguments, strict=True)
        ]
        text = name or (str(own) if own is not None else "-".join(parts))
        yield (
            re.sub(r"[^\w.+=-]+", "-", text).strip("-") or str(index),
            dict(zip(names, arguments, strict=True)),
        )


def _unpacked(value: Any, names: Sequence[str]) -> tuple[str | None, Sequence[Any]]:
    """Return the id and the arguments of a set, which may be a `pytest.param`."""
    if type(value).__name__ == "ParameterSet":
        return (value.id if isinstance(value.id, str) else None), tuple(value.values)
    return None, (value,) if len(names) == 1 else tuple(value)


def _part_of_id(value: Any, label: str, index: int, name: Callable[[Any], object] | None) -> str:
    """Return a part of the id, for one argument."""
    if name is not None and (own := name(value)) is not None:
        return str(own)
    return str(value) if isinstance(value, _PLAIN) else f"{label}{index}"


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
        line = self._calls.line(call, within) if within else None
        return call.line if line is None else line

    def span(self, place: Place, line: int, *, at_key: bool) -> None:
        """None: columns in Python are unknown."""

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
        problem = f"{kind_of(value)} cannot be used here; text, numbers, lists, tables and paths can"
    if problem is None:
        return value
    document.errors.append(
        InputError(f"{dotted(place)}: {problem}", path=document.path_at(place), line=document.line(place))
    )
    return None


def benchmarks_at(path: Path, *, optional: bool = False) -> list[Benchmark]:
    """Run a Python file, and return the benchmarks in its public variables.

    Raises InputError: it cannot be run, or has none and this is not `optional`.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InputError("is not a Python file", path=path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(
            f"cannot be imported: {type(error).__name__}: {str(error)[:500]}", path=path
        ) from None
    finally:
        sys.path.remove(str(path.parent))
        if sys.modules.get(path.stem) is module:
            del sys.modules[path.stem]
    values = [value for name, value in vars(module).items() if not name.startswith("_")]
    found = [value for value in values if isinstance(value, Benchmark)]
    if not found and not optional:
        raise InputError("has no Benchmark in a variable of the module", path=path)
    return list({id(one): one for one in found}.values())
