"""The scorer type `bigcodebench`: runs the tests of a row with a solution, in the container for grading."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from importlib import resources
from typing import Any

from ...model.errors import ScoreInvalid, ScorerCrashed
from ...sandbox.protocol import File
from ...store.text import clean
from ...system.cutting import beginning_of, end_of
from ...system.keeping import side_by_side
from ..output import Tail
from ..params import text_of
from ..protocol import Graded, ScoringContext

SECONDS = 242.0
"""Time for a solution with all its tests, including imports: the 240 of the official harness, and two for its grace."""
SOLUTION_LIMIT = 1024 * 1024
"""The most bytes of a solution. A longer one is wrong."""
_DIRECTORY = "/bench/bigcodebench"
_PROGRAM = "program"
_COMMAND = (
    f"exec python3 -I -c \"import sys; sys.path.insert(0, '{_DIRECTORY}'); "
    f'from {_PROGRAM}.runner import main; main()"'
)
_VERDICT_LIMIT = 8 * 1024 * 1024
_STATUSES = ("pass", "fail", "timeout")
_SHOWN = 20
_TRACE = 1500


def score_bigcodebench(context: ScoringContext) -> Graded:
    """`bigcodebench`: 1 if all tests of a row pass, else 0. A missing or unreadable solution gives 0.

    Tests that were out of time on an overloaded machine run once more, alone on it as far as this scorer is concerned.
    ScorerCrashed: a parameter is wrong, the scenario has no answer, or the container cannot run the tests.
    ScoreInvalid: the runner printed no verdict.
    """
    params = {key: text_of(context.spec, key) for key in ("code_prompt", "test", "entry_point")}
    found = _solution(context)
    if isinstance(found, Graded):
        return found
    solution, is_reply = found
    task = {"solution": solution, "is_reply": is_reply, "seconds": SECONDS, **params}
    context.sandbox.put(
        [
            File(_DIRECTORY, clean=True, mode=0o700),
            File(f"{_DIRECTORY}/task.json", content=json.dumps(task).encode(), mode=0o600),
            File(f"{_DIRECTORY}/{_PROGRAM}", mode=0o700),
            *(
                File(f"{_DIRECTORY}/{_PROGRAM}/{name}", content=content, mode=0o600)
                for name, content in program_files().items()
            ),
        ]
    )
    verdict = _tested(context, alone=False)
    if (overload := verdict.get("overload")) is None:
        return _graded(verdict)
    again = _tested(context, alone=True)
    said = f"out of time on an overloaded machine ({overload}), so its tests ran once more, alone"
    return _graded({**again, "reason": said if again["reason"] is None else f"{said}: {again['reason']}"})


def _tested(context: ScoringContext, *, alone: bool) -> Mapping[str, Any]:
    """Run the tests, which are in the container; `alone`: while this scorer tests nothing else on this machine."""
    stdout = Tail(_VERDICT_LIMIT)
    with side_by_side("bigcodebench", alone=alone):
        result, output = context.run(_COMMAND, stdout=stdout)
    if result.exit_status != 0:
        raise ScorerCrashed(
            f"scorer {context.spec.name!r}: the tests could not be run (exit status {result.exit_status}): "
            f"{end_of(output, 500).strip() or 'nothing was printed'}"
        )
    return _verdict(stdout.raw(), context.spec.name)


def program_files() -> dict[str, bytes]:
    """Return the files of the program that runs in the container, by name."""
    directory = resources.files(__package__) / _PROGRAM
    return {file.name: file.read_bytes() for file in directory.iterdir() if file.name.endswith(".py")}


def _solution(context: ScoringContext) -> tuple[str, bool] | Graded:
    """Return the solution, and True if it is a reply that contains the program; or the score of a missing one."""
    answer = context.scenario.answer
    if answer is None:
        raise ScorerCrashed(
            f"scorer {context.spec.name!r} grades an answer, but the scenario has no `answer`"
        )
    for path, is_reply in ((answer.file, False), (answer.reply_file, True)):
        if path is None:
            continue
        place = posixpath.join(context.sandbox.workdir, path)
        try:
            content = context.sandbox.read(place, limit=SOLUTION_LIMIT)
        except ValueError:  # raised by `read`
            return _unsolved(f"{path} is longer than {SOLUTION_LIMIT >> 20} MiB")
        if content is not None:
            text = content.decode("utf-8", "replace")
            return (text, is_reply) if text.strip() else _unsolved(f"{path} is empty")
    return _unsolved(f"there is no {answer.file}")


def _unsolved(reason: str) -> Graded:
    return Graded(0.0, reason, {"status": "fail", "reason": reason})


def _verdict(said: bytes, name: str) -> Mapping[str, Any]:
    try:
        verdict = json.loads(said.strip().rsplit(b"\n", 1)[-1])
        tests = verdict["tests"]
        if verdict["status"] in _STATUSES and all(isinstance(trace, str | None) for trace in tests.values()):
            return dict(verdict)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    raise ScoreInvalid(f"scorer {name!r}: the runner printed no verdict")


def _graded(verdict: Mapping[str, Any]) -> Graded:
    tests, reason = verdict["tests"], verdict["reason"]
    failed = {name: trace for name, trace in tests.items() if trace is not None}
    solution = verdict.get("solution")
    output = "\n".join(
        [
            f"{len(tests) - len(failed)} of {len(tests)} tests passed",
            *([] if reason is None else [beginning_of(str(reason), _TRACE)]),
            *(f"--- {name}\n{end_of(trace, _TRACE)}" for name, trace in failed.items()),
            *([] if solution is None else ["--- the program in the reply", solution]),
        ]
    )
    details: dict[str, Any] = {
        "status": verdict["status"],
        "passed": len(tests) - len(failed),
        "tests": len(tests),
        "failing": [clean(name, 200) for name in failed][:_SHOWN],
    }
    if reason is not None:
        details["reason"] = clean(str(reason), 500)
    return Graded(float(verdict["status"] == "pass"), clean(output, 256 * 1024), details)
