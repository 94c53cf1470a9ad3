"""AIME: problems whose answer is an integer from 0 to 999, as GAIR-NLP's AIME-Preview lists them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...model.scenario import Answer, Environment, Scenario, ScorerSpec
from ..protocol import ScenarioRef
from ..rows import Row, RowSource

if TYPE_CHECKING:
    from ..catalogue.entry import Entry

IMAGE = "debian:bookworm-slim"
_FILES = {"test2024.jsonl": "2024", "test2025-I.jsonl": "2025", "test2025-II.jsonl": "2025"}


class AIME(RowSource):
    """One of the contests."""

    def __init__(self, path: Path, entry: Entry) -> None:
        super().__init__(path, entry.name, entry.version)
        self.year = _FILES[path.name]

    def ref(self, row: Row) -> ScenarioRef:
        """`aime-2024-60`, `aime-2025-I-1`; the year is a tag."""
        return ScenarioRef(f"aime-{self.year}-{row['id']}", (self.year,), scorers=("answer",))

    def scenario(self, row: Row, ref: ScenarioRef) -> Scenario:
        """The problem, whose answer is compared as an integer: `025` is 25."""
        expected = int(row["answer"])
        return Scenario(
            id=ref.id,
            benchmark=self.benchmark,
            benchmark_version=self.version,
            problem_statement=(
                "Solve the following math problem step by step. The last line of your response should be of the form "
                f'"ANSWER: N", where N is an integer from 0 to 999.\n\n{row["problem"]}'
            ),
            tags=ref.tags,
            environment=Environment(image=IMAGE),
            answer=Answer(reference=str(expected)),
            scorers=(
                ScorerSpec(
                    name="answer",
                    type="answer",
                    params={"match": "integer", "expected": expected, "least": 0, "most": 999},
                ),
            ),
            source=self.path,
            line=ref.line,
        )


def sources(entry: Entry, directory: Path) -> Sequence[AIME]:
    """One for each contest that is there."""
    return [AIME(path, entry) for name in _FILES if (path := directory / name).is_file()]
