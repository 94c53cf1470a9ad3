"""A gate over real containers: six scenarios worse are red and named.

`tests/plugin/test_gate.py` asserts the same each day, of trials in no containers; and of noise and a sick engine.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import IMAGE, containers_left, junit_cases, run

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.extended]


def agent(*unsolved: int) -> str:
    """An agent that solves all but these."""
    failing = "|".join(f"p{place:02}" for place in unsolved)
    return (
        f"--bench-agent=command:case $(cat $BENCH_PROBLEM_FILE) in {failing}) ;; *) echo 1 > out.txt;; esac"
    )


def test_an_agent_that_is_worse_on_six_is_red_and_the_six_are_named(tmp_path: Path) -> None:
    scenarios = "".join(
        f"""
  - id: t{number:02}
    problem_statement: p{number:02}
    reference: echo 1 > out.txt
    scorers: [{{name: right, type: command, command: grep -q 1 out.txt}}]"""
        for number in range(24)
    )
    (tmp_path / "sums.bench.yaml").write_text(
        f"benchmark: sums\nversion: '1'\ndefaults: {{image: '{IMAGE}', workdir: /app, network: none}}\n"
        f"scenarios:{scenarios}\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    weak, call = (20, 21, 22, 23), ("sums.bench.yaml", "--bench-concurrency=8", "--junit-xml=junit.xml")
    before = run(tmp_path, *call, agent(*weak), "--bench-job-name=before")
    assert before.returncode == 1, before.stdout
    done = run(tmp_path, *call, agent(*range(6), *weak), "--bench-baseline=job:before")
    assert done.returncode == 10, done.stdout
    bundles = (tmp_path / "reports" / "jobs").glob("*/report.json")
    report = max((json.loads(path.read_text()) for path in bundles), key=lambda one: one["job"]["created_at"])
    assert containers_left(report["job"]["id"]) == []
    (gate,) = report["gates"]
    six = [f"t{number:02}" for number in range(6)]
    broke = sorted(one["scenario"] for one in gate["broke"])
    assert (gate["verdict"], broke, gate["errors"]) == ("regressed", six, 0)
    (rule,) = gate["rules"]
    means = (pytest.approx(20 / 24), pytest.approx(14 / 24), pytest.approx(1 / 64))
    assert (rule["before"], rule["now"], rule["p_value"]) == means
    for scenario in six:
        assert f"\n  sums/{scenario}: 1 -> 0" in done.stdout
    assert list(junit_cases(tmp_path / "junit.xml").values()).count("failure") == 10
