"""SWE-bench Verified: real issues of twelve Python repositories, graded by their own tests.

The rows are those of the official dataset since its version 5, which contain their image and their `eval_script`; rows
of SWE-bench and of SWE-bench Lite have the same form.
"""

from __future__ import annotations

from pathlib import Path

from ...model.scenario import Environment, FreshContainer, Scenario, ScorerSpec
from ..protocol import ScenarioRef
from ..rows import ROWS, Row, RowSource, write_rows
from .files import names, read_rows, reference_patch, the_one

WORKDIR = "/testbed"
EVAL_TIMEOUT = 1800.0
_KEPT = (
    *("instance_id", "repo", "version", "base_commit", "difficulty", "image", "problem_statement", "patch"),
    *("FAIL_TO_PASS", "PASS_TO_PASS", "eval_script", "log_parser", "eval_type"),
)
_DIFFICULTIES = {
    "<15 min fix": "under-15-minutes",
    "15 min - 1 hour": "15-minutes-to-1-hour",
    "1-4 hours": "1-to-4-hours",
    ">4 hours": "over-4-hours",
}


class SWEBench(RowSource):
    """Rows of the official schema of version 5."""

    def ref(self, row: Row) -> ScenarioRef:
        """Id of the instance; its repository and its difficulty are tags."""
        if not row.get("eval_script"):
            raise ValueError(
                "it has no eval_script, so it is of SWE-bench before version 5; give rows of the current dataset"
            )
        tags = (str(row["repo"]), _DIFFICULTIES.get(str(row.get("difficulty")), ""))
        return ScenarioRef(str(row["instance_id"]), tuple(filter(None, tags)), scorers=("swebench",))

    def scenario(self, row: Row, ref: ScenarioRef) -> Scenario:
        """The issue, verbatim; graded in a fresh container by the row's own script."""
        if (eval_type := row.get("eval_type", "pass_and_fail")) != "pass_and_fail":
            raise ValueError(f"eval_type: only 'pass_and_fail' can be graded, not {eval_type!r}")
        return self.build(
            ref,
            problem_statement=row["problem_statement"],
            metadata={key: row[key] for key in ("repo", "base_commit", "difficulty") if row.get(key)},
            environment=Environment(image=row["image"], workdir=WORKDIR, git_history="base"),
            reference=reference_patch(row["patch"]),
            fresh_container=FreshContainer(patch=True, ignored=False),
            scorers=(
                ScorerSpec(
                    name="tests",
                    type="swebench",
                    timeout=EVAL_TIMEOUT,
                    user="root",
                    params={
                        "eval_script": row["eval_script"],
                        "log_parser": row["log_parser"],
                        "fail_to_pass": names(row, "FAIL_TO_PASS"),
                        "pass_to_pass": names(row, "PASS_TO_PASS"),
                    },
                ),
            ),
        )


sources = SWEBench.of


def prepare(fetched: Path, directory: Path) -> None:
    """Write the rows of the official parquet file, or of a .jsonl or .json file, in the format of `sources`.

    Raises InputError: there is no file, it cannot be read, or pyarrow is missing.
    """
    path = the_one(fetched, ("parquet", "jsonl", "json"))
    write_rows(directory / ROWS, ({key: row[key] for key in _KEPT if key in row} for row in read_rows(path)))
