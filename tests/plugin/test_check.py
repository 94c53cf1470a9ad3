"""`benchjobs check` finds the scenarios that measure nothing."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.schemas import obeys

from .conftest import Bench

pytestmark = pytest.mark.usefixtures("own_temporary_files")

SCENARIOS: dict[str, tuple[str, dict[str, str]]] = {
    "sound": ("ok", {}),
    "unsolvable": ("unsolvable", {"reference": "echo wrong > out.txt"}),
    "given-away": ("passes by itself", {"script": "echo score=1"}),
    "broken": ("error", {"script": "echo nothing"}),
    "without": ("unsolvable", {"reference": ""}),
    "kept-whole": ("ok", {"validation": "reverse", "script": "echo score=1", "reference": ""}),
    "opinion": ("ok", {"validation": "evaluation", "script": "echo score=0.5"}),
}
"""Verdict and keys of each."""


def _manifest(bench: Bench, names: tuple[str, ...], **more: dict[str, str]) -> None:
    solved = "grep -qx yes out.txt && echo score=1 || echo score=0"
    usual = {"problem_statement": "Write yes.", "reference": "echo yes > out.txt", "script": solved}
    scenarios = {name: {**usual, **SCENARIOS[name][1]} for name in names}
    scenarios |= {name: {**usual, **own} for name, own in more.items()}
    defaults = {"image": "none", "workdir": "/app"}
    bench.manifest(scenarios, "benchmarks/seven.bench.yaml", defaults=defaults)


def check(bench: Bench, *arguments: str) -> subprocess.CompletedProcess[str]:
    return bench.benchjobs("check", *arguments)


def checked(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    document = json.loads(done.stdout)
    obeys(document, "check")
    return document  # type: ignore[no-any-return]


def _left() -> list[Path]:
    return sorted(Path(os.environ["TMPDIR"]).glob("benchjobs-check-*"))


def test_what_an_earlier_check_left_goes_after_a_day(bench: Bench) -> None:
    old, new = (Path(os.environ["TMPDIR"]) / f"benchjobs-check-{name}" for name in ("old", "new"))
    for place, age in ((old, 90_000.0), (new, 100.0)):
        place.mkdir()
        os.utime(place, (time.time() - age,) * 2)
    _manifest(bench, ("sound",))
    assert check(bench, "benchmarks", "--attempts", "1").returncode == 0
    assert _left() == [new]


def test_every_kind_of_scenario_gets_its_verdict(bench: Bench) -> None:
    _manifest(bench, tuple(SCENARIOS))
    # What agents are known to fail at says nothing of scenarios.
    known = '[[known]]\nscenario = "sound"\nreason = "r"\nmode = "skip"\nuntil = 2999-01-31\n'
    bench.write("bench-known.toml", known)
    done = check(bench, "benchmarks", "-o", "json")
    document = checked(done)
    assert done.returncode == 1
    verdicts = {name: verdict for name, (verdict, _) in SCENARIOS.items()}
    assert {found["scenario"]: found["verdict"] for found in document["scenarios"]} == verdicts
    by_name = {found["scenario"]: found["problems"] for found in document["scenarios"]}
    said = {"expected": "a reference that passes", "found": "it has no reference solution"}
    assert by_name["without"] == [{"agent": "oracle", "attempt": None, **said, "files": None, "logs": []}]
    (passes,) = by_name["given-away"]
    assert (passes["agent"], passes["expected"]) == ("nop", "failed")
    # The place stays as long as somebody may look there.
    assert (Path(passes["files"]) / "result.json").is_file()
    assert [str(path) for path in _left()] == [str(Path(document["directory"]).parent.parent)]
    assert not (bench.path / "reports").exists()


def test_a_sound_benchmark_leaves_nothing_behind_whatever_the_project_says(bench: Bench) -> None:
    _manifest(bench, ("sound", "given-away"))
    settings = "bench_agent = nop\nbench_reuse = true\nbench_attempts = 5\nbench_attempt_policy = any\n"
    bench.write("pytest.ini", f"[pytest]\nbench_sandbox = fake\n{settings}")
    done = check(bench, "--benchmarks", "seven", "--scenario", "sound", "-o", "yaml")
    assert done.returncode == 0, done.stderr
    document = yaml.safe_load(done.stdout)
    obeys(document, "check")
    assert (document["ok"], document["directory"], document["attempts"]) == (True, None, 2)
    assert [found["scenario"] for found in document["scenarios"]] == ["sound"]
    assert _left() == []


def test_failures_that_are_expected_are_not_explained_and_no_removed_directory_is_named(bench: Bench) -> None:
    _manifest(bench, ("sound", "opinion"))
    done = check(bench, "seven")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "2 scenarios: 2 ok"
    assert "unsolved" not in done.stderr.lower()
    assert "benchjobs-check-" not in done.stderr
    assert "nop" in done.stderr, "the table of agents"
    explained = check(bench, "seven", "--", "-vv")
    assert "UNSOLVED" in explained.stderr


def test_people_get_a_line_for_each_problem(bench: Bench) -> None:
    _manifest(bench, ("sound", "given-away", "unsolvable"))
    done = check(bench, "seven", "--dir", "checked", "--attempts", "1")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "ok                seven::sound"
    assert lines[1] == "passes by itself  seven::given-away  benchmarks/seven.bench.yaml:1"
    assert lines[2].startswith("  nop, attempt 1: expected failed, found passed, score 1 of 1; see ")
    assert lines[2].endswith("/trials/nop/given-away/1")
    assert str(bench.path / "checked" / "jobs") in lines[2]
    assert lines[-1] == "3 scenarios: 1 ok, 1 passes by itself, 1 unsolvable"
    assert "scored what nobody had worked on: check what only" in done.stdout
    # What pytest has to say is talk.
    assert "oracle       2       1" in done.stderr
    assert _left() == []


def test_a_scorer_that_changes_its_mind_is_flaky(bench: Bench) -> None:
    count = bench.path / "n"
    another = f"n=$(cat {count} 2>/dev/null || echo 0); echo $((n + 1)) > {count}; echo score=0.$n"
    _manifest(bench, (), moody={"script": another})
    document = checked(check(bench, "seven", "-o", "json", "--attempts", "3", "--", "--bench-concurrency=1"))
    assert (document["scenarios"][0]["verdict"], document["attempts"]) == ("flaky", 3)


def test_a_task_that_cannot_be_run_is_told_beside_the_others(bench: Bench) -> None:
    _manifest(bench, ("sound",))
    bench.write("benchmarks/tasks/gpu/task.toml", "[environment]\ngpus = 1\n")
    bench.write("benchmarks/tasks/gpu/instruction.md", "Do it.")
    done = check(bench, "benchmarks")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert "error  tasks::gpu" in lines
    (line,) = [
        line for line in lines if line.startswith("  oracle: expected a scenario that can be run, found ")
    ]
    assert line.endswith("benchmarks/tasks/gpu/task.toml:2: environment.gpus: GPUs are not supported yet")
    assert lines[-1] == "2 scenarios: 1 ok, 1 error"


def test_an_error_with_the_letters_of_a_network_error_is_none(bench: Bench) -> None:
    # "FileNotFoundError" has the letters of ENOTFOUND.
    careless = "test -e out.txt || { echo \"FileNotFoundError: 'out.txt'\"; exit 1; }; echo score=1"
    online = "echo getaddrinfo ENOTFOUND example.org; exit 1"
    _manifest(bench, (), careless={"script": careless}, online={"script": online})
    document = checked(check(bench, "seven", "-o", "json", "--attempts", "1"))
    by_name = {found["scenario"]: found for found in document["scenarios"]}
    verdicts = {name: found["verdict"] for name, found in by_name.items()}
    assert verdicts == {"careless": "error", "online": "needs the network"}
    (problem,) = by_name["careless"]["problems"]
    assert (problem["agent"], problem["expected"]) == ("nop", "a score, also when the agent left nothing")
    why = "the scorer breaks when the agent left nothing: error (scorer_crashed): "
    assert problem["found"].startswith(why)


def test_a_mistake_is_one_clear_line(bench: Bench) -> None:
    _manifest(bench, ("sound",))
    for arguments, message in (
        (("nowhere",), "there is no benchmark 'nowhere'"),
        (("seven", "--scenario", "nope"), "no scenario is called 'nope'"),
    ):
        done = check(bench, *arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert done.stderr.startswith("benchjobs: ")
        assert message in done.stderr
        assert _left() == []
