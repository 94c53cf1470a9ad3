"""The scorer kind `bigcodebench`: runs the tests of a row with a solution, in the container for grading."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from ...model.errors import ScoreInvalid, ScorerCrashed
from ...sandbox.protocol import File
from ...store.text import clean
from ..output import Tail
from ..protocol import Graded, ScoringContext

SECONDS = 242.0
"""Time for a solution with all its tests, imports included: the 240 of the official harness, and two for its grace."""
SOLUTION_LIMIT = 1024 * 1024
"""Bytes of a solution. A longer one is wrong."""
_DIRECTORY = "/bench/bigcodebench"
_PROGRAMS = ("runner.py", "sanitize.py")
_VERDICT_LIMIT = 8 * 1024 * 1024
_STATUSES = ("pass", "fail", "timeout")
_SHOWN = 20


def score_bigcodebench(context: ScoringContext) -> Graded:
    """`bigcodebench`: 1 if all tests of a row pass, else 0. No solution, and one that nobody can read, is 0.

    Raises:
        ScorerCrashed: a parameter is wrong, or the container cannot run the tests.
        ScoreInvalid: what the runner says is no verdict.
    """
    params = _params(context)
    found = _solution(context, params)
    if isinstance(found, Graded):
        return found
    solution, is_reply = found
    task = {
        "solution": solution,
        "is_reply": is_reply,
        "seconds": SECONDS,
        **{key: params[key] for key in ("code_prompt", "test", "entry_point")},
    }
    programs = resources.files(__package__)
    context.sandbox.put(
        [
            File(_DIRECTORY, clean=True, mode=0o700),
            File(f"{_DIRECTORY}/task.json", content=json.dumps(task).encode(), mode=0o600),
            *(
                File(f"{_DIRECTORY}/{name}", content=(programs / name).read_bytes(), mode=0o600)
                for name in _PROGRAMS
            ),
        ]
    )
    stdout = Tail(_VERDICT_LIMIT)
    result, output = context.run(f"exec python3 -I {_DIRECTORY}/runner.py", stdout=stdout)
    if result.exit_status != 0:
        raise ScorerCrashed(
            f"scorer {context.spec.name!r}: the tests could not be run (exit status {result.exit_status}): "
            f"{output[-500:].strip() or 'nothing was printed'}"
        )
    return _graded(_verdict(stdout.raw(), context.spec.name))


def _params(context: ScoringContext) -> Mapping[str, str]:
    wanted = ("code_prompt", "test", "entry_point", "solution_file", "reply_file")
    params = context.spec.params
    for key in wanted:
        if not isinstance(params.get(key), str):
            raise ScorerCrashed(f"scorer {context.spec.name!r}: params.{key}: a text is expected")
    return params


def _solution(context: ScoringContext, params: Mapping[str, str]) -> tuple[str, bool] | Graded:
    """Return what the agent left, and True if it is a reply to find the program in; or the score of none."""
    for key, is_reply in (("solution_file", False), ("reply_file", True)):
        try:
            content = context.sandbox.read(params[key], limit=SOLUTION_LIMIT)
        except ValueError:  # of `read`
            return _unsolved(f"{params[key]} is longer than {SOLUTION_LIMIT >> 20} MiB")
        if content is not None:
            text = content.decode("utf-8", "replace")
            return (text, is_reply) if text.strip() else _unsolved(f"{params[key]} is empty")
    return _unsolved(f"there is no {params['solution_file']}")


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
            *([] if reason is None else [str(reason)]),
            *(f"--- {name}\n{trace}" for name, trace in failed.items()),
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
