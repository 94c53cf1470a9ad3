"""Runs pytest or unittest in a sandbox: this file is the program there, from standard input, on Python 3.8 and later.

Arguments are the directory of the tests, `pytest` or `unittest`, and what the runner is given. The tests and what the
agent wrote share the process, so an agent that knows this program can deceive it. What it makes hard: that a module of
the agent takes the place of one that a library would like to have, and that outcomes are made up. They are told over
standard output in lines that begin with a key; among them are those of tests that must fail and tests that must pass.
"""

from __future__ import annotations

import sys

sys.path[:] = [*(place for place in sys.path if place), "/bench/lib"]  # "" is the workdir

import json  # noqa: E402
import os  # noqa: E402
import random  # noqa: E402
import site  # noqa: E402
import tempfile  # noqa: E402
from importlib.machinery import PathFinder  # noqa: E402
from typing import Any, Callable, TypeVar  # noqa: E402, UP035  Python 3.8

KEY = "the key"
HERE = os.getcwd()  # noqa: PTH109
_STANDARD = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120
_IMPORTING = ("<frozen importlib", _STANDARD + "importlib" + os.sep)
_INSTALLED = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
# fmt: off
_OF_PYTEST = frozenset((
    "_pytest", "attr", "attrs", "colorama", "exceptiongroup", "importlib_metadata", "iniconfig", "packaging",
    "pluggy", "py", "pygments", "pytest", "tomli", "typing_extensions", "zipp",
))
# fmt: on
_MOST_NAMES = 100

_out = os.dup(1)
os.dup2(2, 1)


def tell(*values: object) -> None:
    """Tell the other side something."""
    line = (KEY + json.dumps(values) + "\n").encode("ascii")
    while line:
        line = line[os.write(_out, line) :]


def is_in(path: str, directory: str) -> bool:
    """Return True if a path is a directory, or below it."""
    return (path + os.sep).startswith(directory.rstrip(os.sep) + os.sep)


class WorkdirLast:
    """Finds modules in the workdir, after all others, and for tests and the agent's own modules only.

    A library names in its own code what it imports only if it is there. Where it imports a name that it was given, the
    name is of whoever called it, or of the configuration of a package that is neither of Python nor of pytest.
    """

    def __init__(self, tests: str) -> None:
        self._tests = tests
        own = [place for place in (sys.prefix, sys.base_prefix) if place != HERE]
        # An editable installation is there, too.
        inside = [
            place for place in sys.path if is_in(place, HERE) and not any(is_in(place, one) for one in own)
        ]
        sys.path[:] = [place for place in sys.path if place not in inside]
        self.places = [*inside, HERE]
        self.served: list[str] = []

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find a module that is in no package."""
        if path is not None or not self._is_wanted(name):
            return None
        spec = PathFinder.find_spec(name, self.places, target)
        if spec is not None and len(self.served) < _MOST_NAMES:
            self.served.append(name)
        return spec

    def is_passed_by(self, error: Any) -> bool:
        """Return True if an exception, or the one it was made of, came through a module of the agent."""
        trace = None if error is None else error.__traceback__
        while trace is not None:
            if any(is_in(trace.tb_frame.f_code.co_filename, place) for place in self.places):
                return True
            trace = trace.tb_next
        return error is not None and self.is_passed_by(error.__context__)

    def _is_wanted(self, name: str) -> bool:
        frame = sys._getframe(2)
        while frame is not None:
            code, file = frame.f_code, frame.f_code.co_filename
            if is_in(file, self._tests) or any(is_in(file, place) for place in self.places):
                return True
            if file.startswith(_STANDARD) and not any(part in file for part in _INSTALLED):
                is_closed, is_library = True, not file.startswith(_IMPORTING)
            else:
                is_library = not file.startswith("<") or file.startswith("<frozen")
                is_library = is_library and not file.startswith(_IMPORTING)
                package = str(frame.f_globals.get("__name__")).partition(".")[0]
                is_closed = file.startswith("<") or package in _OF_PYTEST
            if is_library:
                said = [one for one in (*code.co_names, *code.co_consts) if isinstance(one, str)]
                if any(one == name or one.startswith(name + ".") for one in said):
                    return False
                if not is_closed:
                    return True
            frame = frame.f_back  # type: ignore[assignment]
        return False


class Sentinels:
    """Tests that must fail and tests that must pass, under names made for this run; `number` of each."""

    def __init__(self, number: int) -> None:
        self._chance = random.SystemRandom()
        self.kinds = {
            f"{self._chance.getrandbits(64):016x}": kind
            for _ in range(number)
            for kind in ("fails", "passes")
        }

    def word(self, name: str) -> str | None:
        """Return the part of a test's name that tells which one it is; None: it is no such test."""
        return next((word for word in self.kinds if word in name), None)

    def source(self) -> str:
        """Return the text of a module with four, two of them as for unittest."""
        fails, passes, more_fails, more_passes = self.kinds
        first, second = self._chance.sample(range(1000), 2)
        return (
            f"import unittest\n\ndef test_{passes}():\n    found = [{first}]\n    assert found == [{first}]\n\n"
            f"def test_{fails}():\n    found = [{first}]\n    assert found == [{second}]\n\n"
            f"class Test{self._chance.randrange(1000)}(unittest.TestCase):\n"
            f"    def test_{more_passes}(self):\n        self.assertEqual([{first}], [{first}])\n\n"
            f"    def test_{more_fails}(self):\n        self.assertEqual([{first}], [{second}])\n"
        )

    def put(self, tests: list[Any], own: list[Any]) -> None:
        """Put them at secret places of a list."""
        for test in own:
            tests.insert(self._chance.randint(0, len(tests)), test)


_F = TypeVar("_F", bound=Callable[..., Any])


def _hook(**options: bool) -> Callable[[_F], _F]:
    """Mark a method as `pytest.hookimpl` does, which cannot be imported yet."""

    def mark(function: _F) -> _F:
        function.pytest_impl = options  # type: ignore[attr-defined]
        return function

    return mark


class _Plugin:
    """A plugin of pytest that has the agent's modules found, and tells outcomes."""

    def __init__(self, finder: WorkdirLast, directory: str) -> None:
        self._finder = finder
        self._sentinels = Sentinels(2)
        self._outcomes: dict[str, str] = {}
        self._refused: set[str] = set()
        self._path = os.path.join(directory, f"test_{next(iter(self._sentinels.kinds))[:6]}.py")  # noqa: PTH118

    @_hook(tryfirst=True)
    def pytest_load_initial_conftests(self, early_config: Any) -> None:
        options = early_config.known_args_namespace
        # The processes of pytest-xdist have nothing of this.
        self._is_alone = not (getattr(options, "tx", None) or getattr(options, "numprocesses", None))
        tell("sentinels", len(self._sentinels.kinds) if self._is_alone else 0)
        sys.meta_path.append(self._finder)
        home = site.getusersitepackages()
        if is_in(home, HERE):
            self._finder.places.append(home)
        else:
            sys.path.append(home)

    def pytest_configure(self, config: Any) -> None:
        if not self._is_alone:
            sys.path.extend(self._finder.places)
            return
        with open(self._path, "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(self._sentinels.source())
        for word in self._sentinels.kinds:
            config.addinivalue_line("python_functions", "test_" + word)
        config.args.append(self._path)

    @_hook(hookwrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> Any:
        own = [item for item in items if self._sentinels.word(item.name)]
        items[:] = [item for item in items if item not in own]
        yield
        tell("collected", [item.nodeid for item in items], len(own))
        self._sentinels.put(items, own)

    @_hook(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        tell("collected", list(ids), 0)

    @_hook(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
        raised = [call.excinfo]
        made = yield
        report, raised = made.get_result(), [*raised, call.excinfo]
        if report.outcome == "skipped" and any(self._finder.is_passed_by(one.value) for one in raised if one):
            self._refused.add(item.nodeid)  # only tests decide that they are skipped
        word = self._sentinels.word(item.name)
        if word is not None and (report.when == "call" or report.outcome != "passed"):
            tell("sentinel", word, self._sentinels.kinds[word], report.outcome, report.when)
            # No other part of pytest has to know of it.
            report.outcome, report.wasxfail = "skipped", "run"

    def pytest_report_teststatus(self, report: Any) -> Any:
        return ("", "", "") if self._sentinels.word(report.nodeid) else None

    @_hook(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        if hasattr(report, "context"):
            tell("subtests")
        before = self._outcomes.get(report.nodeid, "passed")
        if report.outcome in ("failed", "skipped") and before != "failed":
            self._outcomes[report.nodeid] = report.outcome

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if not self._sentinels.word(nodeid):
            outcome = "failed" if nodeid in self._refused else self._outcomes.get(nodeid, "passed")
            tell("test", nodeid, outcome)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            tell("test", report.nodeid, "failed")

    @_hook(trylast=True)
    def pytest_sessionfinish(self, session: Any) -> None:
        tell("end", bool(session.shouldfail or session.shouldstop), self._finder.served)


def run_pytest(tests: str, arguments: list[str]) -> int:
    """Run it; returns its exit status."""
    finder = WorkdirLast(tests)
    import pytest

    with tempfile.TemporaryDirectory(prefix="tests-") as directory:
        return int(pytest.main(arguments, plugins=[_Plugin(finder, directory)]))


def run_unittest(tests: str, arguments: list[str]) -> int:
    """Run it on all `test*.py`, or on the one file whose name is given; returns 0 if all passed."""
    finder = WorkdirLast(tests)
    import unittest

    sentinels = Sentinels(1)
    tell("sentinels", len(sentinels.kinds))
    sys.meta_path.append(finder)

    outcomes: dict[str, str] = {}

    def telling(name: str, outcome: str) -> Any:
        add = getattr(unittest.TextTestResult, name)

        def method(result: Any, test: Any, *arguments: Any) -> None:
            found = outcome
            if name == "addSubTest" and arguments[1] is None:
                found = "passed"
            elif name == "addSkip" and finder.is_passed_by(sys.exc_info()[1]):
                found = "failed"
            if (word := sentinels.word(test.id())) is not None:
                tell("sentinel", word, sentinels.kinds[word], found, "call")
                return
            if found != "passed" or name != "addSubTest":
                outcomes[test.id()] = min(found, outcomes.get(test.id(), found))
            add(result, test, *arguments)

        return method

    methods = dict.fromkeys(("addError", "addFailure", "addUnexpectedSuccess", "addSubTest"), "failed")
    methods.update(addSuccess="passed", addSkip="skipped", addExpectedFailure="skipped")
    result_class = type(
        "Result", (unittest.TextTestResult,), {name: telling(name, methods[name]) for name in methods}
    )
    suite = unittest.TestLoader().discover(tests, arguments[0] if arguments else "test*.py", tests)
    found = [*_flat(suite)]
    fails, passes = sentinels.kinds

    def compares(*wanted: str) -> Any:
        return lambda test: test.assertEqual(sorted("ba"), [*wanted])  # noqa: PT009

    bodies = {"test_" + fails: compares("b", "a"), "test_" + passes: compares("a", "b")}
    made: Any = type("Test" + fails[:6], (unittest.TestCase,), bodies)
    tell("collected", [test.id() for test in found], 2)
    sentinels.put(found, [made("test_" + word) for word in (fails, passes)])
    result: Any = unittest.TextTestRunner(resultclass=result_class, verbosity=2).run(
        unittest.TestSuite(found)
    )
    for name, outcome in outcomes.items():
        tell("test", name, outcome)
    tell("end", False, finder.served)
    return 0 if result.wasSuccessful() else 1


def _flat(suite: Any) -> Any:
    for test in suite:
        if hasattr(test, "__iter__"):
            yield from _flat(test)
        else:
            yield test


if __name__ == "__main__":
    _, _tests, _runner, *_arguments = sys.argv
    sys.exit((run_unittest if _runner == "unittest" else run_pytest)(_tests, _arguments))
