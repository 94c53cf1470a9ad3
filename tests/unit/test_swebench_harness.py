"""Verdicts on logs, ours and the official harness'. Skipped without `pip install swebench==5.0.2` (group `harness`)."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_benchjobs.scoring.swebench.logs import PARSERS
from pytest_benchjobs.scoring.swebench.verified import judge, read_log

from .swebench_logs import made_of
from .test_swebench_logs import FRAGMENTS

grading = pytest.importorskip(
    "swebench.harness.grading", reason="the official harness is not installed (pip install --group harness)"
)
from swebench.harness.log_parsers import PARSER_REGISTRY  # noqa: E402
from swebench.types import TestSpec  # noqa: E402

TestSpec.__test__ = False
ROWS = Path(__file__).parents[3] / "shared" / "data" / "swebench_verified" / "test.parquet"
SEEDS = range(8)
pytestmark = pytest.mark.when_changed


@functools.cache
def rows() -> Sequence[dict[str, Any]]:
    """The 500 rows."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    if not ROWS.is_file():
        pytest.skip(f"the rows of SWE-bench Verified are not at {ROWS}")
    found: list[dict[str, Any]] = parquet.read_table(ROWS).to_pylist()
    return found


def official(
    parser: str, fail_to_pass: list[str], pass_to_pass: list[str], log: str, path: Path
) -> tuple[Any, ...]:
    """Statuses, whether the log is valid, what fails, and whether it is resolved."""
    path.write_text(log, "utf-8", newline="")
    spec = TestSpec(
        instance_id="x", image="", eval_script_list=[], repo="", version="", FAIL_TO_PASS=fail_to_pass,
        PASS_TO_PASS=pass_to_pass, log_parser=parser, eval_type="pass_and_fail",
    )  # fmt: skip
    statuses, is_valid = grading.get_logs_eval(spec, str(path))
    report = grading.get_eval_report(spec, {"instance_id": "x", "model_patch": "p"}, str(path), True)["x"]
    tests = report.get("tests_status", {})
    failing = [
        name for kind in ("FAIL_TO_PASS", "PASS_TO_PASS") for name in tests.get(kind, {}).get("failure", ())
    ]
    return statuses, is_valid, failing, report["resolved"]


def ours(parser: str, fail_to_pass: list[str], pass_to_pass: list[str], log: str) -> tuple[Any, ...]:
    reading = read_log(log, PARSERS[parser.removeprefix("parse_log_")])
    verdict = judge(reading.statuses, fail_to_pass, pass_to_pass)
    is_valid = reading.problem is None
    return (
        reading.statuses,
        is_valid,
        list(verdict.failing) if is_valid else [],
        is_valid and verdict.is_resolved,
    )


def test_every_row_has_the_same_verdict_on_logs_of_its_tests(tmp_path: Path) -> None:
    """Eight logs of each row: all pass, or mixed, coloured, interleaved, with tests twice, cut, with CRLF."""
    found: Counter[str] = Counter()
    for number, row in enumerate(rows()):
        lists = json.loads(row["FAIL_TO_PASS"]), json.loads(row["PASS_TO_PASS"])
        for seed in SEEDS:
            log = made_of(row["log_parser"], *lists, seed + len(SEEDS) * number)
            expected = official(row["log_parser"], *lists, log, tmp_path / "log")
            assert ours(row["log_parser"], *lists, log) == expected, (row["instance_id"], seed)
            found["resolved" if expected[3] else "unresolved" if expected[1] else "invalid"] += 1
    print(dict(found))
    assert min(found.values()) > 100


@pytest.mark.parametrize("parser", sorted(PARSERS))
@given(text=st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=5), max_size=40).map("".join))
@settings(max_examples=200, deadline=None)
def test_parsers_list_the_same_of_any_text(parser: str, text: str) -> None:
    try:
        expected = PARSER_REGISTRY[f"parse_log_{parser}"](text, None)
    except IndexError:  # `FAIL:` alone on a line
        return
    assert PARSERS[parser](text) == expected
