"""Which tests reach a function, and how long each takes: found by one run of all of them, and remembered for the tree.

A mutant needs no other tests. What a fixture reaches counts for all tests of its file, as others may use what it made.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_benchjobs.system.cache import cache_directory
from tests import building

# Imported when any interpreter of the environment starts. A process that a test starts is told which one that was, and is
# that test's, whatever tests it runs itself; so is a fork of a process that was there, which has variables of its own.
# From Python 3.12 on, a function is noted once for each test; before, all its calls are seen, which is slower.
_RECORDER = """\
import os, subprocess, sys, threading

def begin(directory, package):
    variables, now, given = os.environ._data, b"PYTEST_CURRENT_TEST", b"BENCHJOBS_REACH_TEST"
    monitoring = getattr(sys, "monitoring", None)
    seen, file = set(), []

    def note(code, *_):
        path = code.co_filename
        test = path.startswith(package) and (variables.get(given) or variables.get(now))
        if test and (test, code) not in seen:
            seen.add((test, code))
            if not file:
                own = os.path.join(directory, str(os.getpid()))
                file.append(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
            os.write(file[0], test + f"\\t{path[len(package):]}\\t{code.co_qualname}\\n".encode())
        return monitoring and monitoring.DISABLE

    def forked():
        file.clear()
        seen.clear()
        monitoring and monitoring.restart_events()

    def told(self, args, *rest, env=None, start=subprocess.Popen.__init__, **more):
        env = dict(os.environ if env is None else env)
        test = os.environ.get("BENCHJOBS_REACH_TEST") or os.environ.get("PYTEST_CURRENT_TEST")
        if test:
            env.update(BENCHJOBS_REACH=directory, BENCHJOBS_REACH_OF=package, BENCHJOBS_REACH_TEST=test)
        start(self, args, *rest, env=env, **more)

    def heard(event, arguments):
        if event == "os.putenv" and arguments[0] == now:
            monitoring.restart_events()

    subprocess.Popen.__init__ = told
    os.register_at_fork(after_in_child=forked)
    if monitoring:
        monitoring.use_tool_id(4, "reach")
        monitoring.register_callback(4, monitoring.events.PY_START, note)
        monitoring.set_events(4, monitoring.events.PY_START)
        sys.addaudithook(heard)
    else:
        sys.settrace(lambda frame, *_: note(frame.f_code))
        threading.settrace(lambda frame, *_: note(frame.f_code))

if (directory := os.environ.get("BENCHJOBS_REACH")):
    begin(directory, os.environ["BENCHJOBS_REACH_OF"])
"""


@dataclasses.dataclass
class Reach:
    """What one run of the tests told."""

    tests: dict[str, list[str]]
    """`MODULE FUNCTION` -> tests that reach it, without their parameters: the names of some differ from run to run."""
    seconds: dict[str, float]
    """Test -> how long it took, with all its parameters; in the order of files and of tests in them."""


def reached(base: Path, marks: str, options: Iterable[str]) -> Reach:
    """Run all tests with these marks once, unless that was done for this tree; half an hour on two processors.

    Raises:
        SystemExit: pytest could not run them.
    """
    known = cache_directory("reach") / f"{_digest(marks)}.json"
    if not known.is_file():
        found = _run(base, marks, options)
        known.parent.mkdir(parents=True, exist_ok=True)
        known.write_text(json.dumps(dataclasses.asdict(found)), "utf-8")
    return Reach(**json.loads(known.read_text("utf-8")))


def _run(base: Path, marks: str, options: Iterable[str]) -> Reach:
    tree, noted, report = base / "tree", base / "noted", base / "junit.xml"
    noted.mkdir(parents=True)
    building.clone(tree)
    python = building.environment(base / "environment", [tree, *building.packages()])
    [packages] = (base / "environment").glob("lib/python*/site-packages")
    (packages / "reach_recorder.py").write_text(_RECORDER, "utf-8")
    (packages / "reach.pth").write_text("import reach_recorder\n", "utf-8")
    reporting = ("-o", "junit_family=xunit1", f"--junitxml={report}")
    done = subprocess.run(
        [python, "-m", "pytest", "tests", "-q", "-p", "no:cacheprovider", "-m", marks, *reporting, *options],
        cwd=tree,
        env=building.variables(
            python, BENCHJOBS_REACH=str(noted), BENCHJOBS_REACH_OF=f"{tree}/pytest_benchjobs/"
        ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise SystemExit(
            f"the run that finds what reaches what ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    # A test that failed may have reached less than it does, which hides what it would kill.
    print("what reaches what:", *done.stdout.splitlines()[-1:], flush=True)
    seconds = _seconds(report)
    files = collections.defaultdict(list)
    for name in seconds:
        files[name.partition("::")[0]].append(name)
    tests: dict[str, set[str]] = collections.defaultdict(set)
    for path in noted.iterdir():
        for line in path.read_text("utf-8", "replace").splitlines():
            test, module, function = line.rsplit("\t", 2)
            name, _, phase = test.rpartition(" (")
            name = name.partition("[")[0]
            # Others are of a session that a test runs in its own process.
            if name in seconds:
                of_file = files[name.partition("::")[0]] if phase == "setup)" else [name]
                tests[f"{module} {function}"].update(of_file)
    return Reach({name: sorted(found) for name, found in tests.items()}, seconds)


def _seconds(report: Path) -> dict[str, float]:
    found: dict[str, float] = collections.defaultdict(float)
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.get("file", "")
        # The class of a test, if it has one, follows its module: `tests.unit.test_score.TestOne`.
        of_class = case.get("classname", "")[len(file.removesuffix(".py")) + 1 :]
        name = case.get("name", "").partition("[")[0]
        found["::".join(filter(None, [file, of_class, name]))] += float(case.get("time", 0))
    return found


def _digest(marks: str) -> str:
    digest = hashlib.sha256(marks.encode())
    for name in sorted(building.committed("pytest_benchjobs", "tests", "scripts", "pyproject.toml")):
        if name.startswith("tests/mutation/") and name != "tests/mutation/reach.py":
            continue
        digest.update(name.encode() + b"\0" + (building.ROOT / name).read_bytes())
    return digest.hexdigest()[:32]
