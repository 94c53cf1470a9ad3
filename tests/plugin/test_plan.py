"""`benchjobs plan` says what would run, take and cost, and does none of it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.schemas import obeys

from .conftest import Bench


def plan(bench: Bench, *arguments: str) -> subprocess.CompletedProcess[str]:
    return bench.benchjobs("plan", *arguments)


def planned(bench: Bench, *arguments: str) -> dict[str, Any]:
    done = plan(bench, *arguments, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    obeys(document, "plan")
    return document  # type: ignore[no-any-return]


@pytest.fixture
def toys(bench: Bench) -> Bench:
    bench.manifest({"one": "echo score=1", "two": "echo score=0", "three": "echo nothing"}, "toys.bench.yaml")
    return bench


def _files(directory: Path) -> set[Path]:
    left_out = {".pytest_cache", "__pycache__"}
    return {path for path in directory.rglob("*") if not left_out & set(path.parts)}


def test_what_never_ran_is_planned_and_nothing_is_touched(toys: Bench) -> None:
    before = _files(toys.path)
    document = planned(
        toys, "--benchmarks", "toys.bench.yaml", "--agent", "oracle", "nop", "--n-attempts", "2"
    )
    assert _files(toys.path) == before
    assert (document["trials"], document["runs"], document["reused"]) == (12, 12, 0)
    assert [(group["agent"], group["trials"]) for group in document["groups"]] == [("oracle", 6), ("nop", 6)]
    assert document["reasons"] == [{"reused": False, "why": "it has never run here", "trials": 12}]
    assert (document["images"], document["image_totals"]) == ([], [])
    assert (document["time"]["expected"], document["time"]["unknown"]) == (None, 12)
    assert (document["cost"]["expected"], document["cost"]["unknown"]) == (None, 12)
    assert document["config"]["attempts"] == 2


def test_what_is_reused_is_said_with_the_reason(toys: Bench) -> None:
    toys.run("toys.bench.yaml")
    document = planned(toys, "--benchmarks", "toys.bench.yaml")
    assert {trial["scenario"]: trial["reused"] for trial in document["selected"]} == {
        "one": True,
        "two": True,
        "three": False,
    }
    whys = {reason["why"].split(" in job ")[0] for reason in document["reasons"] if reason["reused"]}
    assert whys == {"passed", "failed"}
    everything = planned(toys, "--benchmarks", "toys.bench.yaml", "--force")
    assert (everything["runs"], everything["reasons"]) == (3, [])
    # What ended in an error tells nothing of how long it takes.
    assert everything["time"]["unknown"] == 1
    assert everything["time"]["expected"] > 0
    broken = plan(toys, "--benchmarks", "toys.bench.yaml", "--scenarios", "three").stdout
    assert "it has no result yet: error" in broken
    assert "; expected time unknown: no earlier run of these trials\n" in broken


def test_the_bound_of_time_is_that_of_all_timeouts(toys: Bench) -> None:
    one_at_a_time = planned(toys, "--benchmarks", "toys.bench.yaml", "--n-concurrent-trials", "1")
    each = [trial["timeout"] for trial in one_at_a_time["selected"]]
    assert one_at_a_time["time"]["at_most"] == sum(each)
    all_at_once = planned(toys, "--benchmarks", "toys.bench.yaml", "--n-concurrent-trials", "3")
    assert all_at_once["time"]["at_most"] == max(each)
    limited = planned(toys, "--benchmarks", "toys.bench.yaml", "--job-timeout", "60")
    assert limited["time"]["at_most"] == 60
    longer = planned(toys, "--benchmarks", "toys.bench.yaml", "--timeout", "86400")
    assert longer["time"]["at_most"] > 86400


def test_cost_is_that_of_the_same_trials_before_and_unknown_stays_unknown(toys: Bench) -> None:
    toys.run("toys.bench.yaml")
    costs = {"one": 0.25, "two": 0.5}
    for path in toys.path.glob("reports/jobs/*/trials/*/*/*/result.json"):
        result = json.loads(path.read_text())
        result["usage"]["cost_usd"] = costs.get(result["scenario"])
        path.write_text(json.dumps(result))
    assert toys.benchjobs("db", "rebuild").returncode == 0
    arguments = ("--benchmarks", "toys.bench.yaml", "--force")
    assert planned(toys, *arguments)["cost"] == {"expected": 0.75, "unknown": 1}
    assert "cost: $0.75 expected from earlier runs; unknown for 1 trial\n" in plan(toys, *arguments).stdout


def test_what_would_end_in_an_error_is_said(toys: Bench) -> None:
    toys.write(
        "broken.bench.yaml",
        """
        benchmark: broken
        defaults: {image: none}
        scenarios:
          - id: unsolved
            problem_statement: Try.
            scorers: [{name: s, type: bash, script: echo score=1}]
        """,
    )
    document = planned(toys, "--benchmarks", "broken.bench.yaml")
    assert document["problems"] == 1
    assert "has no reference solution" in document["selected"][0]["problem"]
    text = plan(toys, "--benchmarks", "broken.bench.yaml").stdout
    assert "would end in an error\n      1  scenario 'unsolved' has no reference solution" in text


def test_known_failures_to_skip_are_planned_as_skipped(toys: Bench) -> None:
    toys.write(
        "bench-known.toml", '[[known]]\nscenario = "t*"\nreason = "r"\nmode = "skip"\nuntil = 2999-01-31\n'
    )
    document = planned(toys, "--benchmarks", "toys.bench.yaml", "--agent", "oracle")
    assert (document["trials"], document["runs"], document["skipped"]) == (3, 1, 2)
    why = {trial["scenario"]: trial["incompatible"] for trial in document["selected"]}
    assert why == {"one": None, **dict.fromkeys(("two", "three"), "r (bench-known.toml:1; until 2999-01-31)")}


def test_people_get_a_text_and_programs_yaml(toys: Bench) -> None:
    toys.run("toys.bench.yaml")
    text = plan(toys, "--benchmarks", "toys.bench.yaml", "--max-examples", "2", "--env-vars", "KEY=sk-secret")
    assert (text.returncode, text.stderr) == (0, "")
    lines = text.stdout.splitlines()
    assert lines[0] == "2 trials: 2 would run, 0 would be reused"
    assert "run because" in lines
    assert any(line.startswith("time: at most ") for line in lines)
    assert any(line.startswith("cost: unknown") for line in lines)
    assert "  max_examples: 2" in lines
    assert not any(line.startswith("  gate:") for line in lines)
    assert "sk-secret" not in text.stdout
    extended = plan(toys, "--benchmarks", "toys.bench.yaml", "--force", "-e").stdout.splitlines()
    assert "runs     toys.bench.yaml::two[oracle]" in extended
    document = yaml.safe_load(plan(toys, "--benchmarks", "toys.bench.yaml", "-o", "yaml").stdout)
    obeys(document, "plan")
    assert document["reused"] == 2


def test_what_is_not_the_default_is_shown_as_people_write_it(toys: Bench) -> None:
    text = plan(
        toys, "--benchmarks", "toys.bench.yaml", "--min-score", "0", "--min-score", "toys=0.5", "--policy", "strict",
        "--fail-on-regression", "mean:5pp", "--baseline", "last", "--extra", '{"per_benchmark": {"toys": {"limit": 1}}}',
    ).stdout  # fmt: skip
    shown = text.partition("configuration, where it is not the default\n")[2].splitlines()
    assert '  per_benchmark: {"toys": {"max_examples": 1}}' in shown
    assert "  gate: baseline last, policy strict, mean:5pp, min_score 0, min_score toys=0.5" in shown


def test_the_call_of_what_was_planned_is_shown(toys: Bench) -> None:
    done = plan(toys, "--benchmarks", "toys.bench.yaml", "--print-command")
    assert done.stdout.startswith("pytest --bench=toys.bench.yaml ")
    assert "--bench-plan" not in done.stdout


def test_workers_of_an_ini_file_do_not_matter(toys: Bench) -> None:
    toys.write("pytest.ini", "[pytest]\nbench_sandbox = fake\naddopts = -n 2\n")
    assert planned(toys, "--benchmarks", "toys.bench.yaml")["trials"] == 3


def test_a_project_is_planned_as_pytest_would_collect_it(toys: Bench) -> None:
    """Warnings are errors, its directory is one to import from, and what it prints anywhere is no part of the plan."""
    toys.write("pytest.ini", "[pytest]\nbench_sandbox = fake\nfilterwarnings = error\naddopts = -s\n")
    toys.write("helper.py", "NAME = 'mine'\n")
    toys.conftest("import os, helper\nprint(helper.NAME)\nos.system('echo loud; echo louder >&2')\n")
    assert planned(toys, "--benchmarks", "toys.bench.yaml")["trials"] == 3


@pytest.mark.parametrize("line", ["raise SystemExit(3)", "raise ValueError('oh')"])
def test_a_conftest_that_ends_it_is_an_error(toys: Bench, line: str) -> None:
    toys.conftest(line)
    done = plan(toys, "--benchmarks", "toys.bench.yaml")
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("benchjobs: ")


def test_a_mistake_is_one_clear_line(toys: Bench) -> None:
    done = plan(toys, "--benchmarks", "nope")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("benchjobs: ")
    assert "there is no benchmark 'nope'" in done.stderr


def test_a_plan_takes_no_workers(toys: Bench) -> None:
    assert "it takes no workers; leave out -n" in toys.refused("--bench-plan", "-n1")
