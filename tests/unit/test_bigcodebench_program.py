"""The program that runs a solution of BigCodeBench with its tests: right and wrong ones, and some that cheat.

Other processes are of the same user here; that they are of another is for the tests with an engine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.scoring.bigcodebench.program.probes import draw, must_fail
from pytest_benchjobs.scoring.bigcodebench.program.runner import judge, overload, planned_tests

from .gateways import wait_until

GRADE = """\
import json, os, sys
from pytest_benchjobs.scoring.bigcodebench.program import runner
runner._user = lambda: -1
os.chown = os.setgroups = os.setresgid = os.setresuid = lambda *_: None
print(json.dumps(runner.grade(json.load(sys.stdin))))
"""
TESTS = """\
import unittest
class TestCases(unittest.TestCase):
    def test_a(self):
        self.assertEqual(task_func(1), 2)
    def test_b(self):
        self.assertTrue(task_func(3) == 4)
"""
RIGHT = "def task_func(x):\n    return x + 1\n"
WRONG = "def task_func(*_):\n    return 0\n"
FAKE = """\
import builtins, sys, types, unittest
class T(unittest.TestCase):
    def assertEqual(self, *_): pass
    assertTrue = assertEqual
fake = types.ModuleType('unittest')
vars(fake).update({**vars(unittest), 'TestCase': T})
"""
CHEATS = {
    "another unittest": f"{FAKE}sys.modules['unittest'] = fake\n{WRONG}",
    "tests that are not called": f"{FAKE}T._callTestMethod = lambda *_: None\nsys.modules['unittest'] = fake\n{WRONG}",
    "another import": f"{FAKE}old = builtins.__import__\n"
    f"builtins.__import__ = lambda name, *a, **k: fake if name == 'unittest' else old(name, *a, **k)\n{WRONG}",
    "builtins of the module": f"{FAKE}build = builtins.__build_class__\n"
    "__builtins__ = {**vars(builtins), '__build_class__': lambda body, name, *_, **k: build(body, name, T)}\n"
    + WRONG,
    "a report": "import os, sys\nframe, fd = sys._getframe(), None\nwhile frame:\n"
    "    fd = fd or frame.f_locals.get('sending')\n    frame = frame.f_back\n"
    "lines = [f'{b\"test\".hex()} {name.encode().hex()}' for name in ('test_a', 'test_b')]\n"
    "os.write(fd, (chr(10).join(lines) + chr(10) * 2).encode())\nos._exit(0)\n",
    "a report without tests": "import os\nfor fd in range(3, 99):\n    try: os.write(fd, b'\\n\\n')\n"
    "    except OSError: pass\nos._exit(0)\n",
    "another report": f"import json\nold = json.dumps\njson.dumps = lambda o: old([('test', 'test_a'), ('test', 'test_b')])\n{WRONG}",
    "skips": "import unittest\ndef task_func(*_):\n    raise unittest.SkipTest\n",
    "is expected to fail": "import sys\ndef task_func(x):\n"
    "    type(sys._getframe(1).f_locals['self']).__unittest_expecting_failure__ = True\n    return 2\n",
    "no failures of any result": "import gc, unittest\ndef task_func(*_):\n"
    "    for kind in unittest.TestResult.__subclasses__():\n"
    "        kind.addFailure = kind.addError = kind.stopTest = lambda *_: None\n    return 0\n",
    "traces": "import sys\ndef trace(*_):\n    return trace\nsys.settrace(trace)\ndef task_func(x):\n"
    "    sys.settrace(trace)\n    return x + 1\n",
    "no tests": "import unittest\nunittest.TestLoader.testMethodPrefix = 'x'\n" + WRONG,
}


def graded(solution: str, tests: str = TESTS, seconds: float = 60.0, **more: Any) -> dict[str, Any]:
    """The verdict of a whole run, in processes of their own."""
    task = {
        "solution": solution,
        "is_reply": False,
        "seconds": seconds,
        "test": tests,
        "code_prompt": "def task_func(x):",
        "entry_point": "task_func",
        **more,
    }
    done = subprocess.run(
        [sys.executable, "-c", GRADE], input=json.dumps(task), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    verdict: dict[str, Any] = json.loads(done.stdout)
    return verdict


def test_a_right_solution_passes_and_a_wrong_one_does_not() -> None:
    assert graded(RIGHT) == {
        "status": "pass", "reason": None, "tests": {"test_a": None, "test_b": None}, "solution": None,
    }  # fmt: skip
    wrong = graded(WRONG)
    assert (wrong["status"], wrong["reason"], set(wrong["tests"])) == ("fail", None, {"test_a", "test_b"})


@pytest.mark.parametrize("cheat", CHEATS)
def test_no_solution_plants_a_pass(cheat: str) -> None:
    assert graded(CHEATS[cheat])["status"] == "fail"


@pytest.mark.parametrize("change", ["another unittest", "another import"])
def test_what_a_right_solution_changes_is_put_back_before_its_tests(change: str) -> None:
    assert graded(CHEATS[change].replace(WRONG, RIGHT))["status"] == "pass"


def test_mocks_and_tests_that_say_so_change_nothing() -> None:
    tests = """\
from unittest import IsolatedAsyncioTestCase, expectedFailure, mock, skip
class TestCases(IsolatedAsyncioTestCase):
    test_data = [1]
    def setUp(self):
        self.test_data = [2]
        self.maxDiff = None
    def test_a(self):
        with mock.patch("builtins.open", mock.mock_open()), mock.patch("builtins.print"):
            self.assertEqual(task_func(1), 2)
    async def test_b(self):
        self.assertTrue(task_func(3) == 4)
    @skip("later")
    def test_c(self):
        self.fail()
    @expectedFailure
    def test_d(self):
        self.fail()
    def test_e(self):
        for number in (1, 2):
            with self.subTest(number=number / 2):
                self.assertEqual(task_func(number), number + 1)
"""
    verdict = graded(RIGHT, tests)
    assert (verdict["status"], sorted(verdict["tests"])) == (
        "pass", ["test_a", "test_b", "test_c", "test_d", "test_e"],
    ), verdict  # fmt: skip


@pytest.mark.parametrize(("load", "said"), [(2.0, None), (2.3, "a load of 2.3 on 2 processors")])
def test_a_machine_is_overloaded_that_has_more_to_do_than_processors(
    load: float, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert overload() == said


def test_a_solution_that_never_stops_writing_is_out_of_time_and_ended(tmp_path: Path) -> None:
    solution = (
        f"import os\nopen({str(tmp_path / 'pid')!r}, 'w').write(f'{{os.getpid()}} {{os.getcwd()}}')\nwhile True:\n"
        "    for fd in range(3, 20):\n        try: os.write(fd, b'}')\n        except OSError: pass\n"
    )
    verdict = graded(solution, seconds=2.0)
    assert verdict["status"] in ("timeout", "fail")
    pid, _, home = (tmp_path / "pid").read_text().partition(" ")
    assert not Path(home).exists()
    status = Path(f"/proc/{pid}/status")
    wait_until(lambda: not status.exists() or "State:\tZ" in status.read_text())


def test_the_program_of_a_reply_is_graded() -> None:
    reply = f"Here it is:\n```python\n{RIGHT}```\n"
    verdict = graded(reply, is_reply=True)
    assert (verdict["status"], verdict["solution"]) == ("pass", RIGHT.strip())


def test_tests_are_known_before_they_run() -> None:
    tests = "class TestCases(T):\n    x = 1\n    def test_a(self): self.skipTest('')\n    def test_b(self): pass\n    def c(self): pass\n"
    assert planned_tests(tests) == {"test_a": True, "test_b": False}
    for wrong in ("def f(:", "class Other: pass", "class TestCases: pass"):
        with pytest.raises(SystemExit):
            planned_tests(wrong)


def test_a_report_without_the_probes_that_must_fail_is_not_believed() -> None:
    probes = draw()
    failing = must_fail(probes)
    assert len(failing) * 2 == len(probes)
    tests = [["test", "test_a"]]
    planned = {"test_a": False}

    def status(*more: list[str]) -> str:
        return str(judge([*tests, *more], planned, failing)["status"])

    assert status() == status(*(["probe", name] for name in probes)) == "fail"
    assert status(*(["probe", name] for name in failing)) == "pass"
    assert (
        judge([["probe", name] for name in failing], planned, failing)["reason"]
        == "not all tests were run: test_a"
    )
