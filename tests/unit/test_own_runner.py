"""`tests` runs pytest or unittest itself: whose modules are imported, and whose word counts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.errors import ScoreContradicted
from pytest_benchjobs.model.scenario import ScorerSpec
from pytest_benchjobs.scoring.own_runner import OwnRunner
from pytest_benchjobs.scoring.scores import counts, junit_outcomes

pytestmark = pytest.mark.when_changed

RUNNERS: list[Any] = ["pytest", "unittest"]
SUITE = """\
import unittest
from answer import value

class TestValue(unittest.TestCase):
    def test_right(self):
        self.assertEqual(value(6), 42)
    def test_wrong(self):
        self.assertEqual(value(6), 43)
    def test_parts(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(value(number), 7)
    @unittest.skip("never")
    def test_skipped(self):
        pass
    @unittest.expectedFailure
    def test_expected(self):
        self.fail()
"""
RIGHT = "def value(x):\n    return 7 * x\n"
SAYS = "import os, json, sys\nkey = sys.modules['__main__'].KEY\nout = sys.modules['__main__']._out\n"
TOLD = SAYS + "os.write(out, (key + json.dumps({}) + '\\n').encode())\n" + RIGHT
DECEITS = {
    "all pass": "import unittest\nunittest.TestCase.assertEqual = lambda *_: None\n" + RIGHT,
    "told to have passed": TOLD.format("['test', 'more', 'passed']"),
    "told twice": TOLD.format("['end', False, []]"),
    "told nonsense": TOLD.format("['other']"),
    "collected twice": TOLD.format("['collected', ['more'], 2]"),
    "rewrites the report": "import atexit, os\natexit.register(lambda: open(os.environ['BENCH_JUNIT'], 'w').write("
    "'<testsuite>' + '<testcase/>' * 9 + '</testsuite>'))\n" + RIGHT,
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("app", "tests"):
        (tmp_path / name).mkdir()
    for name in ("pytest.py", "pathlib.py", "conftest.py", "evil-1.dist-info/METADATA"):
        (tmp_path / "app" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "app" / name).write_text("raise SystemExit(0)\n")
    (tmp_path / "app/pytest.ini").write_text("[pytest]\naddopts = --co\n")
    (tmp_path / "app/evil-1.dist-info/entry_points.txt").write_text("[pytest11]\nevil = conftest\n")
    (tmp_path / "app/answer.py").write_text(RIGHT)
    (tmp_path / "tests/test_value.py").write_text(SUITE)
    return tmp_path


def counted(place: Path, runner: Any = None, name: str = "") -> tuple[tuple[int, int] | None, dict[str, Any]]:
    tests = place / "tests" / name
    run = OwnRunner(ScorerSpec(name="t", type="tests", runner=runner), tests, str(tests))
    junit = place / "junit.xml"
    junit.unlink(missing_ok=True)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", run.command],
        cwd=place / "app",
        env={**os.environ, "PATH": path, "BENCH_JUNIT": str(junit), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        check=False,
    )
    for chunk in (done.stdout[:100], done.stdout[100:]):
        run(chunk)
    return run.counts(counts(junit_outcomes(junit.read_text())) if junit.exists() else None), run.details


@pytest.mark.parametrize("name", ["", "test_value.py"])
@pytest.mark.parametrize("runner", RUNNERS)
def test_outcomes_are_counted_and_modules_of_the_agent_are_named(place: Path, runner: Any, name: str) -> None:
    assert counted(place, runner, name) == ((1, 3), {"agent_modules": ["answer"]})


@pytest.mark.parametrize("runner", RUNNERS)
def test_only_tests_decide_that_they_are_skipped(place: Path, runner: Any) -> None:
    (place / "app/answer.py").write_text(
        "import unittest\ndef value(x):\n    if x == 6:\n        raise unittest.SkipTest('no')\n    return x\n"
    )
    assert counted(place, runner)[0] == (1, 3)


@pytest.mark.parametrize("deceit", DECEITS)
@pytest.mark.parametrize("runner", RUNNERS)
def test_outcomes_that_are_made_up_are_found(place: Path, runner: Any, deceit: str) -> None:
    (place / "app/answer.py").write_text(DECEITS[deceit])
    with pytest.raises(ScoreContradicted):
        counted(place, runner)


def test_what_a_library_would_like_to_have_is_not_taken_from_the_agent(place: Path) -> None:
    for name in ("apport_python_hook", "colorama", "org", "_pytest_more", "numpy_more"):
        (place / f"app/{name}.py").write_text("X = 1")
    (place / "tests/test_value.py").write_text(
        "import importlib, traceback, unittest.mock, pytest\n"
        "import answer\n"
        "def test_library():\n"
        "    code = compile('import apport_python_hook', traceback.__file__, 'exec')\n"
        "    with pytest.raises(ModuleNotFoundError):\n        exec(code)\n"
        "def test_given_names():\n"
        "    with unittest.mock.patch('answer.value', 3):\n        assert answer.value == 3\n"
        "    assert importlib.import_module('numpy_more').X == pytest.importorskip('org').X\n"
    )
    assert counted(place) == ((2, 2), {"agent_modules": ["answer", "numpy_more", "org"]})


def test_tests_of_ours_are_asked_for_whatever_names_tests_have(place: Path) -> None:
    (place / "tests/pytest.ini").write_text("[pytest]\npython_functions = *_test\n")
    (place / "tests/test_value.py").write_text(
        "import answer\ndef value_test():\n    assert answer.value(6)\n"
    )
    assert counted(place)[0] == (1, 1)
    (place / "app/answer.py").write_text(
        "import sys\nframe = sys._getframe()\nwhile frame.f_code.co_name != 'perform_collect':\n"
        "    frame = frame.f_back\ndel frame.f_locals['rep'].result[1:]\n" + RIGHT
    )
    with pytest.raises(ScoreContradicted, match="of ours"):
        counted(place)


@pytest.mark.parametrize(
    ("name", "text", "used"),
    [
        ("pytest.ini", "[pytest]\n", True),
        ("pyproject.toml", "[tool.pytest.ini_options]\n", True),
        ("setup.cfg", "[tool:pytest]\n", True),
        ("tox.ini", "[tox]\n", False),
        ("pyproject.toml", "[project]\n", False),
    ],
)
def test_pytest_is_configured_by_what_comes_with_the_tests_and_nothing_above_them(
    tmp_path: Path, name: str, text: str, *, used: bool
) -> None:
    (tmp_path / name).write_text(text)
    spec = ScorerSpec(name="t", type="tests")
    command = OwnRunner(spec, tmp_path, "/tests").command
    assert (f" -c /tests/{name} " in command) is used
    assert (" -c /dev/null " in command) is not used
    assert "--rootdir=/tests --confcutdir=/tests" in command
    assert " -c /dev/null --rootdir=/tests " in OwnRunner(spec, tmp_path / name, f"/tests/{name}").command
