"""ARC-AGI-2, the public evaluation set: puzzles of coloured grids, two tries for each test input.

A bare model gets the questions of ARC Prize's own harness: each test input separately, twice, with its prompt. Any
other agent gets the whole task at once, and writes two tries for each test input into one file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...model.errors import InputError
from ...model.scenario import Answer, Environment, Scenario, ScorerSpec
from ..protocol import ScenarioRef
from ..rows import Row, RowSource, write_rows

IMAGE = "python:3.11-slim"
TRIES = 2
_HEAD = """\
You are participating in a puzzle solving competition. You are an expert at solving puzzles.

Below is a list of input and output pairs with a pattern. Your goal is to identify the pattern or transformation in \
the training examples that maps the input to the output, then apply that pattern to the test input to give a final \
output.

Respond in the format of the training output examples

--Training Examples--
{examples}
--End of Training Examples--
"""
_EXAMPLE = "--Example {number}-- \n\n INPUT: \n\n{input}\n\nOUTPUT: \n\n{output}\n\n"
_TEST = "\n--Test Input{number}--\n{input}\n--End of Test Input{number}--\n"
_INSTRUCTION = """\
There are {count} test inputs. You have two tries for each. Write your answer to the file `{{file}}`: a JSON array \
with an object for each test input, in their order, of the form {{"attempt_1": GRID, "attempt_2": GRID}}, where \
GRID is an array of rows, and a row an array of integers from 0 to 9. The second try may be left out."""


class ARC(RowSource):
    """The tasks."""

    file = "tasks.jsonl"

    def ref(self, row: Row) -> ScenarioRef:
        """The name of the task's file."""
        return ScenarioRef(row["id"], (f"tests-{len(row['test'])}",), scorers=("answer",))

    def scenario(self, row: Row, ref: ScenarioRef) -> Scenario:
        """A task; its score is the share of test inputs that either try solves."""
        tests = [json.dumps(pair["input"]) for pair in row["test"]]
        expected = [pair["output"] for pair in row["test"]]
        head = _HEAD.format(
            examples="".join(
                _EXAMPLE.format(
                    number=number, input=json.dumps(pair["input"]), output=json.dumps(pair["output"])
                )
                for number, pair in enumerate(row["train"])
            )
        )
        prompts = [f"{head}{_TEST.format(number='', input=test)}\nYour response:" for test in tests]
        numbered = "".join(_TEST.format(number=f" {at}", input=test) for at, test in enumerate(tests, 1))
        return self.build(
            ref,
            problem_statement=f"{head}{numbered}",
            environment=Environment(image=IMAGE),
            agent_timeout=600.0,
            answer=Answer(
                file="output.json",
                instruction=_INSTRUCTION.format(count=len(tests)),
                reference=json.dumps([{"attempt_1": grid} for grid in expected]),
                questions=tuple(question for question in prompts for _ in range(TRIES)),
            ),
            scorers=(
                ScorerSpec(
                    name="answer",
                    type="answer",
                    params={"match": "grid", "expected": expected, "tries": TRIES},
                ),
            ),
        )


sources = ARC.of


def prepare(fetched: Path, filled: Path) -> None:
    """Write the tasks of the evaluation set, which are a file each, into one file.

    Raises InputError: there are none, or one is not a task.
    """
    files = sorted(fetched.rglob("*.json"))
    if any(path.parent.name == "evaluation" for path in files):
        files = [path for path in files if path.parent.name == "evaluation"]
    if not files:
        raise InputError(
            "there are no tasks of ARC here: files such as evaluation/0934a4d8.json", path=fetched
        )
    write_rows(filled / ARC.file, ({"id": path.stem, **_task(path)} for path in files))


def _task(path: Path) -> dict[str, Any]:
    try:
        task = json.loads(path.read_bytes())
        return {
            part: [{"input": pair["input"], "output": pair["output"]} for pair in task[part]]
            for part in ("train", "test")
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"this is not a task of ARC: {error!r}"[:300], path=path) from None
