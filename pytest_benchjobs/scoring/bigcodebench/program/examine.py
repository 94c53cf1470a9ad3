"""The child: runs a solution and its tests in one module, as the official harness does."""

from __future__ import annotations

import builtins
import functools
import os
import sys
import types
import unittest
from collections.abc import Sequence
from typing import Any

from .emulation import emulated, limit
from .pristine import Pristine, Result, short_name
from .probes import Probes, run_probes

_MODULE = "__test__"
# What reads it shows less, so that it sees a secret that it would cut.
_TRACE = 6000


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
    said += [("excused", name) for name in result.excused]
    traces = {short_name(test): trace for test, trace in [*result.failures, *result.errors]}
    said += [("test", name, trace[-_TRACE:]) for name, trace in traces.items()]
    said += [("test", name) for name in result.ended if name not in traces]
    if result.tampered is not None:
        said.append(("reason", result.tampered))
    return said
