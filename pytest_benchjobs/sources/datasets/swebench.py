"""SWE-bench Verified: real issues of twelve Python repositories, graded by their own tests.

The rows are those of the official dataset since its version 5, which carry their image and their `eval_script`; rows
of SWE-bench and of SWE-bench Lite have the same form.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...model.errors import InputError
from ...model.scenario import Environment, FreshContainer, Reference, Scenario, ScorerSpec
from ..protocol import ScenarioRef
from ..rows import Row, RowSource
from .listed import names

if TYPE_CHECKING:
    from ..catalogue.entry import Entry

ROWS = "rows.jsonl"
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
_PATCH_END = "BENCHJOBS_END_OF_REFERENCE_PATCH"
_REFERENCE = f"""\
cat >/tmp/reference.patch <<'{_PATCH_END}'
%s
{_PATCH_END}
git apply --verbose /tmp/reference.patch || patch --batch --forward --fuzz=5 -p1 -i /tmp/reference.patch
"""


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
        return Scenario(
            id=ref.id,
            benchmark=self.benchmark,
            benchmark_version=self.version,
            problem_statement=row["problem_statement"],
            tags=ref.tags,
            metadata={key: row[key] for key in ("repo", "base_commit", "difficulty") if row.get(key)},
            environment=Environment(image=row["image"], workdir=WORKDIR),
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
            source=self.path,
            line=ref.line,
        )


def reference_patch(patch: str) -> Reference:
    """Return the reference that applies a patch in the workdir."""
    return Reference(script=_REFERENCE % patch.removesuffix("\n"))


def sources(entry: Entry, directory: Path) -> Sequence[SWEBench]:
    """The rows that `prepare` wrote.

    Raises:
        InputError: they are not there.
    """
    path = directory / ROWS
    if not path.is_file():
        raise InputError(f"is not there; fetch it with `benchjobs benchmarks fetch {entry.name}`", path=path)
    return [SWEBench(path, entry.name, entry.version)]


def prepare(fetched: Path, directory: Path) -> None:
    """Write the rows of the official parquet file, or of a .jsonl or .json file, as `sources` reads them.

    Raises:
        InputError: there is none, it cannot be read, or pyarrow is missing.
    """
    files = sorted(path for ending in ("parquet", "jsonl", "json") for path in fetched.rglob(f"*.{ending}"))
    if len(files) != 1:
        found = ", ".join(path.name for path in files[:5]) or "none"
        raise InputError(
            f"one .parquet, .jsonl or .json file of rows is expected, found {found}", path=fetched
        )
    with (directory / ROWS).open("w", encoding="utf-8") as out:
        for row in read_rows(files[0]):
            out.write(json.dumps({key: row[key] for key in _KEPT if key in row}))
            out.write("\n")


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a .parquet, .jsonl or .json file.

    Raises:
        InputError: it cannot be read, or pyarrow is missing.
    """
    try:
        if path.suffix == ".parquet":
            yield from _parquet_rows(path)
            return
        text = path.read_text("utf-8")
        lines = (
            json.loads(text)
            if path.suffix == ".json"
            else [json.loads(line) for line in text.split("\n") if line.strip()]
        )
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot be read: {str(error)[:300]}", path=path) from None
    if not isinstance(lines, list) or not all(isinstance(row, dict) for row in lines):
        raise InputError("a list of objects is expected", path=path)
    yield from lines


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise InputError(
            "is a parquet file, which needs pyarrow; install it with: pip install 'pytest-benchjobs[parquet]'",
            path=path,
        ) from None
    table = parquet.ParquetFile(path)
    for batch in table.iter_batches(batch_size=64):
        yield from batch.to_pylist()
