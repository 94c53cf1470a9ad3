"""BigCodeBench through a real engine, with rows of our own in the official schema, and solutions that cheat."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.sources.datasets.bigcodebench import IMAGE as OFFICIAL
from pytest_benchjobs.sources.datasets.bigcodebench import SOLUTION
from tests.support import fetched, results, run

from .built import GIT_AND_PYTHON, build

pytestmark = [pytest.mark.docker, pytest.mark.when_changed("bigcodebench", "grade", "grading")]

TAG = "benchjobs/bigcodebench-test:1"
HEAD = "import random\ndef task_func(number):\n"
TESTS = """\
import unittest
class TestCases(unittest.TestCase):
    def setUp(self):
        self.test_data = [1, 2]
        self.maxDiff = None
    def test_case_1(self):
        self.assertEqual(task_func(1), 2)
    def test_case_2(self):
        with self.assertRaises(TypeError):
            task_func(None)
    def test_case_3(self):
        with unittest.mock.patch("builtins.open", unittest.mock.mock_open()), unittest.mock.patch(__name__ + ".random"):
            self.assertEqual(task_func(41), 42)
    @unittest.skip("later")
    def test_case_4(self):
        self.fail()
"""
RIGHT = "def task_func(number):\n    return number + 1\n"
WRONG = "def task_func(number):\n    return number\n"


def row(number: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "task_id": f"BigCodeBench/{number}",
        "complete_prompt": f'{HEAD}    """One more than a number."""\n',
        "instruct_prompt": f"One more than a number.\nStart with:\n```\n{HEAD}```",
        "canonical_solution": "    return number + 1",
        "code_prompt": HEAD,
        "test": TESTS,
        "entry_point": "task_func",
        "doc_struct": "{}",
        "libs": "['random']",
        **more,
    }


@pytest.fixture(scope="module", autouse=True)
def image(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Python, and git."""
    build(tmp_path_factory.mktemp("image"), GIT_AND_PYTHON, TAG)


def run_rows(directory: Path, rows: Sequence[dict[str, Any]], *agents: str, **env: str) -> dict[str, Any]:
    """Results by agent, of one row."""
    (directory / "given").mkdir()
    (directory / "given" / "rows.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    cache = fetched("bigcodebench", directory)
    options = (
        *("--bench=bigcodebench", f"--bench-image-map={OFFICIAL}={TAG}", "--bench-concurrency=8"),
        *(f"--bench-agent={agent}" for agent in agents),
    )
    said = run(directory, *options, BENCHJOBS_CACHE=cache, **env).stdout
    found = {
        ":".join(filter(None, (one["agent"]["name"], one["agent"]["model"]))): one
        for one in results(directory)
    }
    assert len(found) == len(agents), said
    return found


def graded(directory: Path, solutions: Mapping[str, str], **row_keys: Any) -> dict[str, dict[str, Any]]:
    """What became of files that an agent wrote: name -> the result of its trial."""
    agents = {f"command:{_writing(solution)}": name for name, solution in solutions.items()}
    found = run_rows(directory, [row(**row_keys)], *agents)
    return {agents[label]: result for label, result in found.items()}


def _writing(solution: str) -> str:
    return f"printf %s {shlex.quote(solution)} > {SOLUTION}"


def test_the_reference_passes_and_what_is_no_solution_does_not(tmp_path: Path) -> None:
    agents = {
        "oracle": "oracle",
        "nop": "nop",
        f"command:mkdir {SOLUTION}": "directory",
        f"command:ln -s /dev/zero {SOLUTION}": "link",
        f"command:mkfifo {SOLUTION}": "pipe",
        f"command:head -c 2000000 /dev/zero > {SOLUTION}": "long",
        f"command:: > {SOLUTION}": "empty",
        f"command:rm -rf /usr/lib/python3*; {_writing(RIGHT)}": "no python",
    }
    found = {agents[label]: result for label, result in run_rows(tmp_path, [row()], *agents).items()}
    assert {name: (one["outcome"], one["score"]) for name, one in found.items()} == {
        "oracle": ("passed", 1.0),
        **dict.fromkeys(("nop", "directory", "link", "pipe", "long", "empty"), ("failed", 0.0)),
        "no python": ("passed", 1.0),  # it is graded where it has never been
    }
    assert found["oracle"]["scorers"][0]["details"] == {
        "status": "pass", "passed": 4, "tests": 4, "failing": [],
    }  # fmt: skip
    assert found["nop"]["scorers"][0]["details"]["reason"] == f"there is no {SOLUTION}"


@pytest.mark.extended
def test_solutions_are_graded_as_the_official_harness_does(tmp_path: Path) -> None:
    """Calibrated: imports and the signature are there; at the level of the module anything may happen."""
    found = graded(
        tmp_path,
        {
            "right": RIGHT,
            "wrong": WRONG,
            "half": "def task_func(number):\n    return 2 if number == 1 else number + 1 if number == 41 else 0\n",
            "no signature": "x = 1\n",
            "import of the prompt": "def task_func(number):\n    random.random()\n    return number + 1\n",
            "syntax": "def task_func(number:\n",
            "raises": f"{RIGHT}raise ValueError('no')\n",
            "tests of its own": f"import unittest\n{RIGHT}class TestCases(unittest.TestCase):\n"
            "    def test_x(self):\n        pass\n",
            "kills": f"import os, signal, subprocess\nos.kill(1, signal.SIGKILL)\nos.system('kill 1')\n"
            f"subprocess.run(['echo', 'x'], check=True)\n{RIGHT}",
            "threads": f"import threading, time\n{RIGHT}threading.Thread(target=time.sleep, args=(900,)).start()\n",
            "children": f"import subprocess\nsubprocess.Popen(['sleep', '900'])\n{RIGHT}",
        },
    )
    assert {name: result["score"] for name, result in found.items()} == {
        "right": 1.0, "wrong": 0.0, "half": 0.0, "no signature": 0.0, "import of the prompt": 1.0,
        "syntax": 0.0, "raises": 0.0, "tests of its own": 1.0, "kills": 1.0, "threads": 1.0, "children": 1.0,
    }  # fmt: skip
    assert all(result["outcome"] in ("passed", "failed") for result in found.values())
    assert found["half"]["scorers"][0]["details"]["failing"] == ["test_case_2"]


VERDICT = '{"status": "pass", "reason": null, "tests": {"test_case_1": null}}'
CHEATS = {
    "exits": f"{WRONG}import sys\nsys.exit(0)\n",
    "exits hard": f"{WRONG}import os\nos._exit(0)\n",
    "exits in a test": "import os\ndef task_func(number):\n    os._exit(0)\n",
    "exits softly in a test": "import sys\ndef task_func(number):\n    sys.exit(0)\n",
    "execs": f"{WRONG}import os\nos.execve('/bin/true', ['true'], dict())\n",
    "dies": f"{WRONG}import os, signal\nos.abort()\n",
    "prints a verdict": f"import os, sys\nsys.__stdout__.write({VERDICT!r})\nos.write(1, {VERDICT.encode()!r})\n{WRONG}",
    "prints at the end": f"import atexit, os\natexit.register(lambda: os.write(1, {VERDICT.encode()!r}))\n{WRONG}",
    "writes into every descriptor": "import os\nfor fd in range(3, 256):\n    try:\n"
    f"        os.write(fd, {VERDICT.encode()!r})\n    except OSError: pass\nos._exit(0)\n",
    "writes to the parent": "import glob, os\nfor path in glob.glob('/proc/*/fd/*'):\n    try:\n"
    f"        open(path, 'w').write({VERDICT!r} + chr(10))\n    except OSError: pass\n{WRONG}",
    "kills the parent": "import ctypes, os\nctypes.CDLL(None).kill(os.getppid(), 9)\n"
    f"ctypes.CDLL(None).kill(-1, 9)\n{WRONG}",
    "no assertions": f"import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n"
    f"unittest.TestCase.assertRaises = lambda *a: __import__('contextlib').suppress(Exception)\n{WRONG}",
    "no assertions later": "import sys, unittest\ndef task_func(number):\n"
    "    unittest.TestCase.assertEqual = lambda *a: None\n"
    "    if number is None:\n        raise TypeError\n",
    "no assertions of this test": "import sys\ndef task_func(number):\n"
    "    test = sys._getframe(1).f_locals.get('self')\n    test.assertEqual = lambda *a: None\n"
    "    if number is None:\n        raise TypeError\n",
    "other tests": "import sys\ndef task_func(number):\n"
    "    test = type(sys._getframe(1).f_locals.get('self'))\n"
    "    for name in dir(test):\n        if name.startswith('test'):\n"
    "            setattr(test, name, lambda self: None)\n    return number + 1\n",
    "no failures": "import unittest\nunittest.TestResult.addFailure = unittest.TestResult.addError = "
    f"lambda *a: None\n{WRONG}",
    "no failures of this result": "import sys\ndef task_func(number):\n    frame = sys._getframe()\n"
    "    while frame:\n        result = frame.f_locals.get('result')\n"
    "        if hasattr(result, 'addFailure'):\n"
    "            result.addFailure = result.addError = lambda *a: None\n        frame = frame.f_back\n",
    "no loader": "import unittest\nunittest.TestLoader.loadTestsFromTestCase = "
    f"lambda *a: unittest.TestSuite()\n{WRONG}",
    "no run": f"import unittest\nunittest.TestCase.run = lambda self, result: result.addSuccess(self)\n{WRONG}",
    "no suite": f"import unittest.suite\nunittest.suite.TestSuite.run = lambda self, result: result\n{WRONG}",
    "all are skipped": "import unittest\ndef task_func(number):\n"
    "    raise unittest.case.KeyboardInterrupt if False else SystemExit\n",
    "swallows the tests": f'{WRONG}class TestCases:\n    pass\n"""\n',
    "other builtins": f"import builtins\nbuiltins.AssertionError = builtins.Warning\nbuiltins.isinstance = "
    f"lambda *a: True\n{WRONG}",
    "equal to everything": "import json, sys\njson.dumps = lambda *a, **k: "
    f"{VERDICT!r}\nsys.modules.clear()\n{WRONG}",
}


@pytest.mark.extended
def test_no_solution_talks_itself_through(tmp_path: Path) -> None:
    found = graded(tmp_path, CHEATS)
    # The failure of one without a score tells why it has none.
    scores = {
        name: result["failure"] if result["score"] is None else result["score"]
        for name, result in found.items()
    }
    assert scores == dict.fromkeys(CHEATS, 0.0)
    assert {result["outcome"] for result in found.values()} == {"failed"}
