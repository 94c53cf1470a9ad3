"""The child: runs a solution and its tests in one module, as the official harness does.

`unittest` and the builtins are as they were before, and results of tests check if they changed.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import os
import sys
import types
import unittest
import unittest.async_case
import unittest.mock
from collections.abc import Sequence
from typing import Any

from .emulation import emulated, limit
from .probes import Probes, run_probes

_MODULE = "__test__"
# What reads it shows less, so that it sees a secret that it would cut.
_TRACE = 6000
NAME_LIMIT = 200
_WATCHED = (
    *("unittest", "unittest.case", "unittest.suite", "unittest.result", "unittest.loader", "unittest.util"),
    *("unittest.async_case", "unittest.mock"),
)
_MACHINERY = frozenset(name for name in dir(unittest.TestCase) if callable(getattr(unittest.TestCase, name)))
_GONE = object()
_VOLATILE = frozenset(
    ("_", "__dict__", "__weakref__", "_abc_impl", "_class_cleanups", "_classSetupFailed")
) | {"open", "print", "input", "__import__", "_patch_multiple"}
"""Names that tests may change, and sometimes restore only after their end."""


def examine(code: str, test: str, probes: Probes) -> list[Sequence[str]]:
    """Run a solution and its tests; returns the result of each test, and of the probes, as records."""
    sys.modules["__main__"] = types.ModuleType("__main__")  # instead of this program
    for name in [name for name in sys.modules if name.partition(".")[0] == __name__.partition(".")[0]]:
        del sys.modules[name]
    module = types.ModuleType(_MODULE)
    vars(module).update(
        __builtins__=builtins, __file__=f"{_MODULE}.py", __package__=None, __doc__=None,
        sys=sys, os=os, environ=os.environ,
    )  # fmt: skip
    limit()
    pristine = Pristine()
    with emulated():
        try:
            exec(compile(code, f"{_MODULE}.py", "exec", dont_inherit=True), vars(module))  # noqa: S102  what it is for
            pristine.restore()
            vars(module)["__builtins__"] = builtins
            exec(compile(test, f"{_MODULE}.py", "exec", dont_inherit=True), vars(module))  # noqa: S102
            sys.modules[_MODULE] = module
            return _run(vars(module)["TestCases"], pristine, probes)
        except BaseException as error:
            return [("reason", f"{type(error).__name__}: {error}"[:_TRACE])]


def _run(cases: Any, pristine: Pristine, probes: Probes) -> list[Sequence[str]]:
    """Run the tests of a class as its suite would, half of the probes before them and half after them."""
    if not (isinstance(cases, type) and issubclass(cases, unittest.TestCase)):
        return [("reason", "there is no class TestCases of tests")]
    names = list(probes)
    half = len(names) // 2
    probe = functools.partial(run_probes, cases, probes, result=unittest.TestResult)
    failed = probe(names[:half])
    suite = unittest.TestLoader().loadTestsFromTestCase(cases)
    result = Result(pristine, cases)
    suite.run(result)
    failed += probe(names[half:])
    said: list[Sequence[str]] = [("probe", name) for name in failed]
    said += [("excused", short_name(test)) for test, _ in [*result.skipped, *result.expectedFailures]]
    traces = {short_name(test): trace for test, trace in [*result.failures, *result.errors]}
    said += [("test", name, trace[-_TRACE:]) for name, trace in traces.items()]
    said += [("test", name) for name in result.ended if name not in traces]
    if result.tampered is not None:
        said.append(("reason", result.tampered))
    return said


class Pristine:
    """Copy of `unittest` from before any code of the solution ran."""

    def __init__(self) -> None:
        # Some attributes are created on first access.
        _ = unittest.IsolatedAsyncioTestCase
        unittest.mock.mock_open()
        self._modules = {name: importlib.import_module(name) for name in (*_WATCHED, "builtins", "sys")}
        places: list[Any] = [self._modules[name] for name in _WATCHED]
        places += [
            thing
            for module in list(places)
            for thing in vars(module).values()
            if isinstance(thing, type) and thing.__module__.startswith("unittest")
        ]
        places += [AssertionError, builtins]
        self._kept = [(place, dict(vars(place))) for place in {id(place): place for place in places}.values()]
        self._trace = sys.gettrace()

    def changed(self) -> list[str]:
        """Names that differ now; additions to a module or to the builtins do not matter."""
        names = [
            f"{getattr(place, '__name__', place)}.{name}"
            for place, _, name in self._differing()
            if name not in _VOLATILE
        ]
        return names if sys.gettrace() is self._trace else [*names, "sys.settrace"]

    def restore(self) -> None:
        """Restore everything."""
        sys.settrace(self._trace)
        sys.modules.update(self._modules)
        for place, kept, name in self._differing():
            with contextlib.suppress(AttributeError, TypeError):
                if name in kept:
                    setattr(place, name, kept[name])
                else:
                    delattr(place, name)

    def has(self, thing: object) -> bool:
        """Return True for a class or module that it watches."""
        return any(place is thing for place, _ in self._kept)

    def _differing(self) -> list[tuple[Any, dict[str, Any], str]]:
        return [
            (place, kept, name)
            for place, kept in self._kept
            for name in {*kept, *(vars(place) if isinstance(place, type) else ())}
            if vars(place).get(name, _GONE) is not kept.get(name, _GONE)
        ]


class Result(unittest.TestResult):
    """Results of tests, which also check that each test was run by `unittest` itself."""

    def __init__(self, pristine: Pristine, cases: type) -> None:
        super().__init__()
        self.ended: list[str] = []
        self.tampered: str | None = None
        self._pristine = pristine
        self._machinery = _MACHINERY.union(unittest.TestLoader().getTestCaseNames(cases))
        self._classes = [kind for kind in cases.__mro__ if kind is not object and not pristine.has(kind)]
        self._before = list(map(self._machinery_of, self._classes))
        self._outcomes = 0

    def _machinery_of(self, thing: object) -> dict[str, Any]:
        return {name: value for name, value in vars(thing).items() if name in self._machinery}

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802  unittest's
        """Count the test as one that has a result."""
        super().addSuccess(test)
        self._outcomes += 1

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802  unittest's
        """Check that nothing was changed, and that the test has a result."""
        super().stopTest(test)
        self.ended.append(short_name(test))
        others: tuple[list[Any], ...] = (
            self.failures,
            self.errors,
            self.skipped,
            self.expectedFailures,
            self.unexpectedSuccesses,
        )
        changed = self._pristine.changed()
        for kind, before in zip(self._classes, self._before, strict=True):
            now = self._machinery_of(kind)
            changed += sorted(
                name for name in {*before, *now} if now.get(name, _GONE) is not before.get(name, _GONE)
            )
        changed += sorted(self._machinery_of(test))
        changed += sorted(name for name in vars(self) if name.startswith("add"))
        if self._outcomes + sum(len(other) for other in others) < len(self.ended):
            changed.append("results")
        if changed:
            self.tampered = f"how it is tested was changed: {', '.join(changed[:5])}"
            self.shouldStop = True


def short_name(test: Any) -> str:
    """Return the name of a test's method."""
    return str(test.id()).rsplit(".", 1)[-1][:NAME_LIMIT]
