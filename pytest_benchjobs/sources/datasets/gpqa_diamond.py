"""GPQA Diamond: questions with four options, shuffled as OpenAI's simple-evals shuffles them.

Its authors ask that no example be published in plain text, so its entry is confidential.
"""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...model.errors import InputError
from ...model.scenario import Answer, Environment, Scenario, ScorerSpec
from ..protocol import ScenarioRef
from ..rows import Row, RowSource, write_rows
from .files import the_one

if TYPE_CHECKING:
    from ..catalogue.entry import Entry, Parameters

IMAGE = "debian:bookworm-slim"
_ROWS = "questions.jsonl"
_LETTERS = "ABCD"
_SEED = 0
_OPTIONS = ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")
_COLUMNS = ("Record ID", "Question", *_OPTIONS)
_QUESTION = """\
Answer the following multiple choice question. The last line of your response should be of the following format: \
'Answer: $LETTER' (without quotes) where LETTER is one of ABCD. Think step by step before answering.

{question}

A) {A}
B) {B}
C) {C}
D) {D}"""
_INSTRUCTION = "Write the letter of your answer, and nothing else, to the file `{file}`."


_READINGS = {"official": {"official": "simple-evals"}, "lenient": {}}
"""Values of the parameter `reading` -> params of the scorer."""


class GPQA(RowSource):
    """The questions."""

    def __init__(self, path: Path, entry: Entry, reading: str) -> None:
        super().__init__(path, entry.name, entry.version)
        self.reading = reading

    def ref(self, row: Row) -> ScenarioRef:
        """The record's id; the domain is a tag."""
        tags = tuple(filter(None, (_tag(row["domain"]), _tag(row["subdomain"]))))
        return ScenarioRef(f"gpqa-{row['id']}", tuple(dict.fromkeys(tags)), scorers=("answer",))

    def scenario(self, row: Row, ref: ScenarioRef) -> Scenario:
        """The question with its options in the order of the seed."""
        letter = row["letter"]
        options = dict(zip(_LETTERS, row["options"], strict=True))
        return self.build(
            ref,
            problem_statement=_QUESTION.format(question=row["question"], **options),
            environment=Environment(image=IMAGE),
            answer=Answer(instruction=_INSTRUCTION, reference=letter),
            scorers=(
                ScorerSpec(
                    name="answer",
                    type="answer",
                    params={
                        "match": "choice",
                        "expected": letter,
                        "letters": _LETTERS,
                        **_READINGS[self.reading],
                    },
                ),
            ),
        )


def sources(entry: Entry, directory: Path, given: Parameters) -> Sequence[GPQA]:
    """The questions, in one source. Raises InputError: there is no such reading."""
    reading = given.values.get("reading", "official")
    if not isinstance(reading, str) or reading not in _READINGS:
        raise InputError(f"{entry.name}: reading: official or lenient is expected, not {reading!r}"[:300])
    return [GPQA(directory / _ROWS, entry, reading)]


def prepare(fetched: Path, filled: Path) -> None:
    """Shuffle the options of each question, and write all questions into one file.

    Raises InputError: there is no such table, or it lacks a column.
    """
    write_rows(filled / _ROWS, shuffled(_rows(the_one(fetched, ("csv",)))))


def shuffled(rows: Iterator[dict[str, str]]) -> Iterator[dict[str, Any]]:
    """Yield each row with the order of its options: the first drawing of simple-evals, one seed for all rows."""
    draws = random.Random(_SEED)  # noqa: S311  the order of options is no secret
    for row in rows:
        order = draws.sample(range(len(_OPTIONS)), len(_OPTIONS))
        options = [row[_OPTIONS[place]] for place in order]
        yield {
            "id": row["Record ID"],
            "domain": row.get("High-level domain") or "",
            "subdomain": row.get("Subdomain") or "",
            "question": row["Question"],
            "options": options,
            "letter": _LETTERS[options.index(row[_OPTIONS[0]])],
        }


def _rows(path: Path) -> Iterator[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = csv.DictReader(file)
            missing = [name for name in _COLUMNS if name not in (table.fieldnames or ())]
            if missing:
                raise InputError(f"the table has no column {', '.join(map(repr, missing))}", path=path)
            for row in table:
                if any(not row[name] for name in _COLUMNS):
                    raise InputError("the row is not whole", path=path, line=table.line_num)
                yield row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot be read as a table: {error}", path=path) from None


def _tag(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
