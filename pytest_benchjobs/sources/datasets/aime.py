"""AIME: problems whose answer is an integer from 0 to 999, as GAIR-NLP's AIME-Preview lists them.

Other files work too, with one problem per line of JSON: `problem` and `answer`, or `Problem` and `Answer`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...model.errors import InputError
from ...model.scenario import Answer, Environment, Scenario, ScorerSpec
from ..protocol import ScenarioRef
from ..rows import Row, RowSource

if TYPE_CHECKING:
    from ..catalogue.entry import Entry

IMAGE = "debian:bookworm-slim"
_YEAR = re.compile(r"(?<!\d)20\d\d(?!\d)|(?<=aime)[_-]?(\d\d)(?!\d)", re.IGNORECASE)
_LEAST, _MOST = 0, 999
_QUESTION = """\
Solve the following math problem step by step. The last line of your response should be of the form "ANSWER: N", where \
N is an integer from 0 to 999.

{problem}"""


class AIME(RowSource):
    """One file of problems."""

    def __init__(self, path: Path, entry: Entry, year: str) -> None:
        super().__init__(path, entry.name, entry.version)
        self.year = year

    def ref(self, row: Row) -> ScenarioRef:
        """`aime-2024-60`, `aime-2025-I-1`; the year is a tag."""
        name = str(_column(row, "id")).removeprefix(f"{self.year}-")
        return ScenarioRef(f"aime-{self.year}-{name}", (self.year,), scorers=("answer",))

    def scenario(self, row: Row, ref: ScenarioRef) -> Scenario:
        """The problem, whose answer is compared as an integer: `025` is 25."""
        expected = int(_column(row, "answer"))
        match = {"match": "integer", "expected": expected, "least": _LEAST, "most": _MOST}
        return self.build(
            ref,
            problem_statement=_QUESTION.format(problem=_column(row, "problem")),
            environment=Environment(image=IMAGE),
            answer=Answer(reference=str(expected)),
            scorers=(ScorerSpec(name="answer", type="answer", params=match),),
        )


def sources(entry: Entry, directory: Path) -> Sequence[AIME]:
    """One source for each file. Raises InputError: there is no file, or the year of one is unknown."""
    files = sorted(path for path in directory.rglob("*.jsonl") if not path.name.startswith("."))
    if not files:
        raise InputError("there are no *.jsonl files with problems of AIME here", path=directory)
    return [AIME(path, entry, _year(path, directory)) for path in files]


def _year(path: Path, directory: Path) -> str:
    for name in (path.name, *(parent.name for parent in path.relative_to(directory).parents)):
        if found := _YEAR.search(name):
            return f"20{found[1]}" if found[1] else found[0]
    raise InputError(
        "the year of these problems is unknown: put it into the file's name, as in aime2025.jsonl",
        path=path,
    )


def _column(row: Row, name: str) -> Any:
    """Return the value of a column, whatever the case of its name. Raises KeyError: there is none."""
    for key in (name, name.capitalize(), name.upper()):
        if key in row:
            return row[key]
    raise KeyError(name)
