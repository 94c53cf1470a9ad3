"""A job that is killed again and again ends as one that was left in peace, and pays for no result twice."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support import IMAGE, containers_left, junit_cases, results, run, start

pytestmark = [pytest.mark.docker, pytest.mark.slow]

TOTALS = ("trials", "passed", "failed", "error", "cancelled", "skipped", "mean_score", "reused")


def _manifest(directory: Path, trials: int) -> None:
    directory.mkdir()
    scenarios = "".join(
        f"""
  - id: t{number:02}
    problem_statement: Write a score.
    reference: sleep 0.{number % 4}; echo {0.25 * (number % 5):g} > out.txt
    scorers: [{{name: ok, type: bash, script: cat out.txt}}]"""
        for number in range(trials)
    )
    (directory / "long.bench.yaml").write_text(
        f"benchmark: long\ndefaults: {{image: '{IMAGE}', workdir: /app, network: none}}\nscenarios:{scenarios}\n"
    )


def _ended(directory: Path) -> dict[str, str]:
    """Trials that have a result, with when they began."""
    return {result["node_id"]: result["started_at"] for result in results(directory)}


def _record(directory: Path) -> dict[str, Any]:
    (path,) = directory.glob("reports/jobs/*/job.json")
    return json.loads(path.read_text())  # type: ignore[no-any-return]


@pytest.mark.parametrize(("trials", "times"), [(12, 2), (60, 5)])
@pytest.mark.extended
def test_a_job_that_is_killed_again_and_again(tmp_path: Path, trials: int, times: int) -> None:
    for name in ("peaceful", "killed"):
        _manifest(tmp_path / name, trials)
    assert run(tmp_path / "peaceful", "long.bench.yaml", "--bench-concurrency", "6").returncode == 1
    directory = tmp_path / "killed"
    arguments = ["long.bench.yaml", "--bench-concurrency", "6"]
    moments = random.Random(17)
    paid: dict[str, str] = {}
    kills = 0
    while kills < times:
        again = ["--bench-resume", "last"] if kills else []
        process = start(directory, *arguments, *again)
        # At any moment of its work, but never before there is a job, nor when nothing is left to do.
        until = len(paid) + 1 + moments.randrange((trials - len(paid)) // (times - kills + 1))
        deadline = time.monotonic() + 120
        while len(_ended(directory)) < until and process.poll() is None:
            assert time.monotonic() < deadline, "no progress"
            time.sleep(moments.uniform(0.01, 0.1))  # so that it is killed at any moment of its work
        assert process.poll() is None, process.communicate()[0]
        process.kill()
        process.communicate()
        kills += 1
        now = _ended(directory)
        assert now.items() >= paid.items(), "a result was paid for twice, or lost"
        paid = now
    assert len(paid) < trials
    done = run(directory, *arguments, "--bench-resume", "last")
    assert done.returncode == 1, done.stdout
    assert _ended(directory).items() >= paid.items()
    assert len(results(directory)) == trials
    mine, theirs = _record(directory), _record(tmp_path / "peaceful")
    assert {key: mine["totals"][key] for key in TOTALS} == {key: theirs["totals"][key] for key in TOTALS}
    assert mine["status"] == theirs["status"] == "completed"
    assert len(mine["resumed_at"]) == times
    (junit,) = directory.glob("reports/jobs/*/junit.xml")
    (other,) = (tmp_path / "peaceful").glob("reports/jobs/*/junit.xml")
    assert junit_cases(junit) == junit_cases(other)
    assert containers_left(mine["id"]) == []
