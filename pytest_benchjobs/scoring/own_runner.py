"""How `tests` starts pytest or unittest itself, and what it makes of what that tells (`run_tests.py`, its other side).

The workdir is the agent's: a `pytest.py`, a `conftest.py` or a plugin's metadata in it must not take part in running
the tests.
"""

from __future__ import annotations

import collections
import functools
import json
import secrets
import shlex
from pathlib import Path
from typing import Any

from ..model.errors import ScoreContradicted
from ..model.scenario import ScorerSpec
from ..system.cutting import beginning_of
from .output import Lines

_NOTHING = "/dev/null"
_CONFIGURATIONS = (
    ("pytest.toml", ""),
    (".pytest.toml", ""),
    ("pytest.ini", ""),
    (".pytest.ini", ""),
    ("pyproject.toml", "[tool.pytest"),
    ("tox.ini", "[pytest]"),
    ("setup.cfg", "[tool:pytest]"),
)
"""Configuration files of pytest, and the text that each must contain; the first one found counts."""
_SHAPES = {
    "collected": (list, int),
    "sentinel": (str, str, str, str),
    "sentinels": (int,),
    "subtests": (),
    "test": (str, str),
    "end": (bool, list),
}
_KEY = '"the key"'
_NAMES = 100
_NAME = 200


class OwnRunner:
    """One run of pytest or unittest: its command, and the outcomes it tells, as a sink of its standard output."""

    def __init__(self, spec: ScorerSpec, tests: Path, target: str) -> None:
        """`tests` is a file or directory of this machine that is at `target` in the sandbox."""
        self.key = secrets.token_hex(16)
        """Lines that begin with it are not for people."""
        self.name = spec.runner or "pytest"
        directory = target if tests.is_dir() else target.rpartition("/")[0]
        if self.name == "unittest":
            options = [] if tests.is_dir() else [tests.name]
        else:
            options = [
                *("-q", "-p", "no:cacheprovider", "-c", _configuration(tests, directory)),
                *(f"--rootdir={directory}", f"--confcutdir={directory}", target),
            ]
        junit = "" if self.name == "unittest" else ' --junitxml="$BENCH_JUNIT"'
        program = _program().replace(_KEY, repr(self.key))
        # The shell is not there any more when the agent's code runs: its command has the key.
        self.command = (
            f"exec python3 -s - {shlex.join((directory, self.name, *options))}{junit} <<'{self.key}'\n"
            f"{program}\n{self.key}\n"
        )
        self._told: dict[str, list[list[Any]]] = collections.defaultdict(list)
        self._wrong: str | None = None
        self._lines = Lines(self._take, self.key.encode())

    def __call__(self, chunk: bytes) -> None:
        """Take a piece of its standard output."""
        self._lines(chunk)

    @property
    def details(self) -> dict[str, Any]:
        """Modules of the agent that ran in the process of the tests."""
        ends = self._told["end"]
        names = [beginning_of(str(name), _NAME) for name in ends[0][1][:_NAMES]] if ends else []
        return {"agent_modules": names} if names else {}

    def counts(self, report: tuple[int, int] | None) -> tuple[int, int] | None:
        """Return how many tests passed, and of how many; None: it did not get so far. `report` is of its JUnit file.

        ScoreContradicted: what it told cannot be so, or is not what the file says.
        """
        outcomes = dict[str, str](self._told["test"])
        passed = sum(outcome == "passed" for outcome in outcomes.values())
        counts = passed, sum(outcome != "skipped" for outcome in outcomes.values())
        if (wrong := self._problem(outcomes, passed, report)) is not None:
            raise ScoreContradicted(f"the outcomes of the tests are not to be trusted: {wrong}")
        return counts if self._told["end"] and (report is not None or self.name == "unittest") else None

    def _take(self, line: bytes) -> None:
        try:
            kind, *values = json.loads(line)
            shape = _SHAPES[kind]
        except (ValueError, KeyError, TypeError, RecursionError):
            self._wrong = "a line makes no sense"
            return
        if len(values) != len(shape) or not all(map(isinstance, values, shape)):
            self._wrong = "a line makes no sense"
        else:
            self._told[kind].append(values)

    def _problem(self, outcomes: dict[str, str], passed: int, report: tuple[int, int] | None) -> str | None:
        """Return why its report is impossible; None: it is possible."""
        told = self._told
        if self._wrong is not None:
            return self._wrong
        if report is None and not told["end"]:
            return None
        if not told["end"]:
            return "there is a report of a run that did not end"
        if len(told["end"]) > 1 or len(outcomes) < len(told["test"]):
            return "a test, or the run, ended twice"
        collected = {name for names, _ in told["collected"] for name in names}
        if unknown := [
            name for name, outcome in outcomes.items() if outcome == "passed" and name not in collected
        ]:
            return f"{beginning_of(unknown[0], _NAME)!r} passed, which is none of the tests"
        if report is not None and report[0] > passed + len(told["subtests"]):
            return f"{report[0]} passed by the report, and {passed} by what ran"
        return self._sentinels_problem() if passed or (report and report[0]) else None

    def _sentinels_problem(self) -> str | None:
        there = sum(number for _, number in self._told["collected"])
        found = {word for word, *_ in self._told["sentinel"]}
        # How many there are is told before any code of the agent can run.
        if self._told["sentinels"] != [[there]] or len(found) < len(self._told["sentinel"]):
            return "a test of ours is there twice, or not at all"
        stopped = self._told["end"][0][0]
        for _, kind, outcome, when in self._told["sentinel"]:
            wanted = "failed" if kind == "fails" else "passed"
            if outcome != wanted and not (kind == "passes" and when != "call"):
                return f"a test that {kind} {outcome}"
        if len(found) < there and not stopped:
            return "a test of ours did not run"
        return None


@functools.cache
def _program() -> str:
    return Path(__file__).with_name("run_tests.py").read_text("utf-8")


def _configuration(tests: Path, directory: str) -> str:
    """The configuration file of the tests. Without it, pytest would search for one in the directories above."""
    for name, section in _CONFIGURATIONS:
        path = tests / name
        if path.is_file() and section in path.read_text("utf-8", "replace"):
            return f"{directory}/{name}"
    return _NOTHING
