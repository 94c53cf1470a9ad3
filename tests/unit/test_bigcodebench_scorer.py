"""The scorer of BigCodeBench on this machine: what it reads, and what it believes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.model.errors import InfrastructureError, ScoreInvalid, ScorerCrashed
from pytest_benchjobs.model.scenario import Answer
from pytest_benchjobs.scoring.bigcodebench.scorer import SOLUTION_LIMIT, score_bigcodebench
from pytest_benchjobs.scoring.protocol import Graded

PARAMS = {"code_prompt": "def f():", "test": "class TestCases: ...", "entry_point": "f"}
ANSWER = Answer(file="/w/solution.py", reply_file="reply.md")
PASSED = {"status": "pass", "reason": None, "tests": {"test_a": None}, "solution": None}


class Context:
    """A sandbox with such files, in which the runner says what is given."""

    def __init__(self, files: Mapping[str, bytes], *said: bytes, status: int = 0, **params: Any) -> None:
        self.spec = SimpleNamespace(name="tests", params={**PARAMS, **params})
        self.scenario = SimpleNamespace(answer=ANSWER)
        self.sandbox, self.workdir = self, "/w"
        self.task: dict[str, Any] | None = None
        self._files, self._said, self._status = files, list(said or (b"",)), status

    def read(self, path: str, *, limit: int) -> bytes | None:
        content = self._files.get(path)
        if content is not None and len(content) > limit:
            raise ValueError("long")
        return content

    def put(self, files: Any) -> None:
        base = "/bench/bigcodebench"
        assert {Path(file.path).parent.as_posix() for file in files} == {"/bench", base, f"{base}/program"}
        assert {f"{base}/program/runner.py", f"{base}/program/__init__.py"} < {file.path for file in files}
        assert all(file.mode & 0o077 == 0 for file in files)
        self.task = next(json.loads(file.content) for file in files if file.path.endswith("task.json"))

    def run(self, _command: str, stdout: Any) -> tuple[Any, str]:
        stdout(self._said.pop(0))
        return SimpleNamespace(exit_status=self._status), "what it printed"

    def graded(self) -> Graded:
        return score_bigcodebench(self)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("files", "task"),
    [
        ({"/w/solution.py": b"x"}, ("x", False)),
        ({"/w/reply.md": b"y"}, ("y", True)),
        ({"/w/solution.py": b"x", "/w/reply.md": b"y"}, ("x", False)),
    ],
)
def test_a_file_goes_before_a_reply(files: dict[str, bytes], task: tuple[str, bool]) -> None:
    context = Context(files, json.dumps(PASSED).encode() + b"\n")
    graded = context.graded()
    assert context.task is not None
    assert (context.task["solution"], context.task["is_reply"]) == task
    assert (graded.score, graded.details) == (1.0, {"status": "pass", "passed": 1, "tests": 1, "failing": []})


@pytest.mark.parametrize(
    "files", [{}, {"/w/solution.py": b" \n"}, {"/w/solution.py": b"x" * (SOLUTION_LIMIT + 1)}]
)
def test_no_solution_is_worth_nothing_and_runs_nothing(files: dict[str, bytes]) -> None:
    context = Context(files)
    assert context.graded().score == 0.0
    assert context.task is None


def test_a_failed_test_is_told() -> None:
    verdict = {
        "status": "fail",
        "reason": None,
        "tests": {"test_a": None, "test_b": "AssertionError: \x1b[1m2"},
    }
    graded = Context({"/w/solution.py": b"x"}, json.dumps(verdict).encode()).graded()
    assert (graded.score, graded.details) == (
        0.0, {"status": "fail", "passed": 1, "tests": 2, "failing": ["test_b"]},
    )  # fmt: skip
    assert graded.output.startswith("1 of 2 tests passed\n--- test_b\nAssertionError: ")
    assert "\x1b" not in graded.output


LATE = {"status": "timeout", "reason": "it did not end within 242 s", "tests": {}, "solution": None}


@pytest.mark.parametrize(
    ("overload", "said", "score", "reason"),
    [
        (None, [], 0.0, "it did not end within 242 s"),
        ("a load of 9.0 on 2 processors", [PASSED], 1.0, "ran once more, alone"),
        ("a load of 9.0 on 2 processors", [LATE | {"overload": "a load of 3.0 on 2 processors"}], 0.0, "alone: it did not end"),
    ],
)  # fmt: skip
def test_tests_that_are_out_of_time_on_an_overloaded_machine_run_once_more(
    overload: str | None, said: list[dict[str, Any]], score: float, reason: str
) -> None:
    lines = [json.dumps(one).encode() for one in (LATE | {"overload": overload}, *said)]
    graded = Context({"/w/solution.py": b"x"}, *lines).graded()
    assert graded.score == score
    assert reason in graded.details["reason"]
    assert (overload or "within") in graded.output


@pytest.mark.parametrize(
    ("said", "status", "error"),
    [
        (b"", 0, ScoreInvalid),
        (b"[]", 0, ScoreInvalid),
        (b'{"status": "perfect", "tests": {}}', 0, ScoreInvalid),
        (b'{"status": "pass", "tests": {"a": 1}}', 0, ScoreInvalid),
        (json.dumps(PASSED).encode(), 1, ScorerCrashed),
        (b"python3: not found", 127, ScorerCrashed),
    ],
)
def test_what_is_no_verdict_is_an_error(said: bytes, status: int, error: type[InfrastructureError]) -> None:
    with pytest.raises(error):
        Context({"/w/solution.py": b"x"}, said, status=status).graded()


def test_a_missing_parameter_is_an_error_whatever_was_left() -> None:
    with pytest.raises(ScorerCrashed, match=r"params\.test: a text is expected"):
        Context({}, test=None).graded()


def test_a_scenario_without_an_answer_is_an_error() -> None:
    context = Context({"/w/solution.py": b"x"})
    context.scenario = SimpleNamespace(answer=None)
    with pytest.raises(ScorerCrashed, match="the scenario has no `answer`"):
        context.graded()
