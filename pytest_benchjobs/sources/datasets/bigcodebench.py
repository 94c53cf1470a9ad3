"""BigCodeBench: functions to write, with many libraries available, graded by unit tests.

A bare model gets the prompt of the official harness, and the program in its reply counts. Any other agent works in a
container and writes a file. Both programs are run in a fresh container, without a network.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ...model.errors import InputError
from ...model.scenario import Answer, CarriedPath, Environment, FreshContainer, Scenario, ScorerSpec
from ..protocol import ScenarioRef
from ..rows import ROWS, Row, RowSource
from .files import names, read_rows, the_one

if TYPE_CHECKING:
    from ..catalogue.entry import Entry

Prompt = Literal["complete", "instruct"]
IMAGE = "bigcodebench/bigcodebench-evaluate:latest"
WORKDIR = "/workspace"
SOLUTION = f"{WORKDIR}/solution.py"
REPLY = f"{WORKDIR}/reply.md"
GRADING_TIMEOUT = 360.0
_DOCKERFILE = Path(__file__).parent / "images" / "bigcodebench" / "Dockerfile"
_IDS = "*ids*.json"
_HARD = 148
"""Number of tasks of BigCodeBench-Hard, in each of its versions."""
_GIB = 1024**3
_ASKED = "Please provide a self-contained Python script that solves the following problem in a markdown code block:"
_INSTRUCTION = """\
Write the script to the file `{{file}}`, without a markdown code block around it. The function `{entry_point}` in it \
is tested; all it needs has to be in that file."""
_KEPT = (
    *("task_id", "complete_prompt", "instruct_prompt", "canonical_solution"),
    *("code_prompt", "test", "entry_point", "libs"),
)


class BigCodeBench(RowSource):
    """Rows of the official schema, with one of their two prompts."""

    def __init__(self, path: Path, benchmark: str, version: str | None, prompt: Prompt) -> None:
        super().__init__(path, benchmark, version)
        self._prompt = prompt

    def ref(self, row: Row) -> ScenarioRef:
        """Number of the task; its libraries are tags."""
        number = str(row["task_id"]).rpartition("/")[2]
        if not number.isdecimal():
            raise ValueError(f"task_id: BigCodeBench/NUMBER is expected, not {row['task_id']!r}")
        return ScenarioRef(
            f"bigcodebench-{number}", tuple(dict.fromkeys(names(row, "libs"))), scorers=("bigcodebench",)
        )

    def scenario(self, row: Row, ref: ScenarioRef) -> Scenario:
        """The task, graded in a fresh container by its tests."""
        environment = Environment(
            image=IMAGE,
            dockerfile=_DOCKERFILE,
            build_timeout=3600.0,
            workdir=WORKDIR,
            user="root",
            cpus=2,
            memory=4 * _GIB,
        )
        return self.build(
            ref,
            problem_statement=self._statement(row),
            metadata={"task_id": row["task_id"]},
            environment=environment,
            agent_timeout=600.0,
            answer=Answer(
                file=SOLUTION,
                instruction=_INSTRUCTION.format(entry_point=row["entry_point"]),
                reference=f"{row['complete_prompt']}\n{row['canonical_solution']}",
                reply_file=REPLY,
            ),
            fresh_container=FreshContainer(
                paths=(CarriedPath(source=SOLUTION), CarriedPath(source=REPLY)),
                environment=environment.model_copy(update={"network": "none"}),
            ),
            scorers=(
                ScorerSpec(
                    name="tests",
                    type="bigcodebench",
                    timeout=GRADING_TIMEOUT,
                    user="root",
                    network="none",
                    params={key: row[key] for key in ("code_prompt", "test", "entry_point")},
                ),
            ),
        )

    def _statement(self, row: Row) -> str:
        prompt = str(row[f"{self._prompt}_prompt"]).strip()
        return f"{_ASKED}\n```\n{prompt}\n```\n" if self._prompt == "complete" else f"{_ASKED}\n{prompt}\n"


def complete(entry: Entry, directory: Path) -> Sequence[BigCodeBench]:
    """The tasks as a signature with its docstring."""
    return [BigCodeBench(directory / ROWS, entry.name, entry.version, "complete")]


def instruct(entry: Entry, directory: Path) -> Sequence[BigCodeBench]:
    """The tasks as a description in words."""
    return [BigCodeBench(directory / ROWS, entry.name, entry.version, "instruct")]


def prepare(fetched: Path, directory: Path) -> None:
    """Write the rows of a .parquet, .jsonl or .jsonl.gz file, in the format of `complete` and `instruct`.

    A list of ids beside it, such as `hard_ids.json`, selects rows.

    Raises InputError: there is no file, it cannot be read, or a row lacks a column.
    """
    lists = sorted(fetched.rglob(_IDS))
    if len(lists) > 1:
        raise InputError(f"one list of ids is expected, found {lists[0].name}, {lists[1].name}", path=fetched)
    path = the_one(fetched, ("parquet", "jsonl", "jsonl.gz"))
    wanted = None if not lists else set(_ids(lists[0]))
    found: set[str] = set()
    with (directory / ROWS).open("w", encoding="utf-8") as out:
        for row in read_rows(path):
            missing = [key for key in _KEPT if key not in row]
            if missing:
                raise InputError(
                    f"this is not a row of BigCodeBench: it has no {', '.join(missing)}", path=path
                )
            if wanted is None or row["task_id"] in wanted:
                out.write(json.dumps({key: row[key] for key in _KEPT}) + "\n")
                found.add(row["task_id"])
    if wanted is not None and (absent := wanted - found):
        raise InputError(f"{len(absent)} of its ids are not in {path.name}", path=lists[0])


def prepare_hard(fetched: Path, directory: Path) -> None:
    """Write the rows of BigCodeBench-Hard, as `prepare` does.

    Raises InputError: the same, or no list selects the rows and their number is not that of Hard.
    """
    prepare(fetched, directory)
    with (directory / ROWS).open("rb") as rows:
        count = sum(1 for _ in rows)
    if count != _HARD and next(fetched.rglob(_IDS), None) is None:
        raise InputError(
            f"{count} rows, and BigCodeBench-Hard has {_HARD}: give a directory with the rows and hard_ids.json, "
            "the list of ids that are meant",
            path=fetched,
        )


def _ids(path: Path) -> list[str]:
    try:
        ids = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot be read: {str(error)[:300]}", path=path) from None
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise InputError("a list of ids such as BigCodeBench/13 is expected", path=path)
    return ids
