"""Benchmarks by name: what an installed package brings, what is fetched first, what is confidential."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from .conftest import Bench

EXAMPLE = Path(__file__).resolve().parents[2] / "conftest_examples" / "own-source"
ENTRY = """
name = "sums"
version = "2"
title = "Sums"
aliases = ["additions"]
source = "pytest_benchjobs.sources.datasets.aime:sources"
scenarios = 2
licence = "MIT"
environment = "none"
scoring = "exact"
confidential = {confidential}

[git]
repository = "{repository}"
commit = "{commit}"
"""


@pytest.fixture
def package(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example, installed as pip would."""
    site = bench.path / "site"
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]
    about = f"site/sums_benchmark-{project['version']}.dist-info"
    bench.write("site/sums.py", (EXAMPLE / "sums.py").read_text("utf-8"))
    bench.write(f"{about}/METADATA", f"Name: {project['name']}\nVersion: {project['version']}\n")
    for group, points in project["entry-points"].items():
        lines = "\n".join(f"{name} = {target}" for name, target in points.items())
        bench.write(f"{about}/entry_points.txt", f"[{group}]\n{lines}\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    return site


@pytest.fixture(autouse=True)
def cache(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCHJOBS_CACHE", str(bench.path / "cache"))
    return bench.path / "cache"


def console(bench: Bench, *arguments: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-c", "from pytest_benchjobs.cli import main; main()", *arguments]
    return subprocess.run(call, cwd=bench.path, check=False, capture_output=True, text=True)


def repository(bench: Bench) -> tuple[str, str]:
    rows = [{"id": 60 + n, "problem": f"What is the secret {n}?", "answer": str(n)} for n in range(2)]
    bench.write("origin/test2024.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    git = ["git", "-C", str(bench.path / "origin"), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "one"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return (bench.path / "origin").as_uri(), head.stdout.strip()


def described(bench: Bench, *, confidential: bool = False) -> None:
    url, commit = repository(bench)
    text = ENTRY.format(repository=url, commit=commit, confidential=str(confidential).lower())
    bench.write("sums.benchmark.toml", text)


def test_an_installed_package_brings_a_benchmark_in_one_file(bench: Bench, package: Path) -> None:
    result = bench.run("--bench", "sums@1", "--bench-agent=oracle", "--bench-agent=nop", "-m", "even")
    assert result.ret == 1
    result.assert_outcomes(passed=250, deselected=500)
    result.stdout.fnmatch_lines(["*250 passed*250 unsolved*"])


def test_of_what_is_brought_only_what_runs_is_made(bench: Bench, package: Path) -> None:
    text = (package / "sums.py").read_text("utf-8")
    counted = "        print('made', scenario_id, file=__import__('sys').__stderr__)\n        numbers ="
    bench.write("site/sums.py", text.replace("        numbers =", counted))
    result = bench.run("--bench", "sums", "--bench-scenario", "sum-3", "--bench-scenario", "sum-7")
    result.assert_outcomes(passed=2)
    assert {line for line in result.errlines if line.startswith("made")} == {"made sum-3", "made sum-7"}
    assert not [line for line in bench.run("--bench", "sums", "--collect-only").errlines if "made" in line]


def test_what_is_brought_is_listed_and_what_is_broken_concerns_itself_alone(
    bench: Bench, package: Path
) -> None:
    found = json.loads(console(bench, "benchmarks", "list", "-o", "json").stdout)["benchmarks"]
    (sums,) = [item for item in found if item["name"] == "sums"]
    assert (sums["version"], sums["scenarios"], sums["fetched"]) == ("1", 500, None)
    assert "run it: benchjobs run --benchmark sums" in console(bench, "benchmarks", "show", "sums").stdout

    bench.write("site/sums.py", "def benchmark():\n    return 1 / 0\n")
    listed = console(bench, "benchmarks", "list")
    assert "terminal-bench" in listed.stdout
    assert "benchmark 'sums' of sums-benchmark cannot be loaded: ZeroDivisionError" in listed.stderr
    result = bench.run("--bench", "sums")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*benchmark 'sums' of sums-benchmark cannot be loaded*"])


@pytest.mark.parametrize("workers", [(), ("-n2",)])
def test_a_named_benchmark_is_fetched_before_it_runs(bench: Bench, workers: tuple[str, ...]) -> None:
    described(bench)
    result = bench.run("--bench", "additions", "--bench-agent=oracle", *workers)
    result.assert_outcomes(passed=2)
    out = result.stdout.str()
    assert out.count("sums@2: 2 scenarios") == 1, out
    again = bench.run("--bench", "sums@2", "--bench-agent=oracle", *workers)
    again.assert_outcomes(passed=2)
    assert "sums@2: " not in again.stdout.str()


def test_what_cannot_be_fetched_is_one_error(bench: Bench) -> None:
    described(bench)
    text = (bench.path / "sums.benchmark.toml").read_text("utf-8")
    bench.write("sums.benchmark.toml", text.replace("commit = ", 'commit = "' + "1" * 40 + '"\n# '))
    for workers in ((), ("-n2",)):
        result = bench.run("--bench", "sums", *workers)
        assert result.ret != 0
        assert "git fetch failed" in result.stderr.str() + result.stdout.str()
        assert "Traceback" not in result.stderr.str() + result.stdout.str()


def test_a_name_that_is_near_says_what_is_meant(bench: Bench) -> None:
    result = bench.run("--bench", "terminal-bench-3")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*no benchmark 'terminal-bench-3'; did you mean 'terminal-bench-2'?*2.0*"])
    result = bench.run("--bench", "tb2@3.0")
    result.stderr.fnmatch_lines(["*terminal-bench is known in version 2.0*"])


def test_names_of_a_user_win(bench: Bench) -> None:
    bench.manifest({"one": "echo 1"}, "aime.bench.yaml")
    bench.run("--bench", "aime").assert_outcomes(passed=1)


def test_a_task_of_a_registry_and_a_user_s_archive(bench: Bench) -> None:
    url, commit = repository(bench)
    task = {"name": "one", "git_url": url, "git_commit_id": commit, "path": "."}
    bench.write("registry.json", json.dumps([{"name": "theirs", "version": "1", "tasks": [task]}]))
    listed = console(bench, "benchmarks", "list", "--registry", "registry.json")
    assert "theirs" in listed.stdout
    fetched = console(bench, "benchmarks", "fetch", "theirs", "--registry", "registry.json")
    assert fetched.returncode == 2
    assert "what was fetched is not the benchmark: no scenario was found" in fetched.stderr


def test_nothing_of_a_confidential_scenario_is_in_what_is_made_of_results(bench: Bench) -> None:
    bench.conftest(
        """
        from pathlib import Path
        from pytest_benchjobs import Scenario, ScenarioRef, InfrastructureError

        class Secret:
            path, benchmark, version, warnings = Path(__file__), "secret", "1", ()

            def refs(self, wanted=None):
                return [ScenarioRef(name, scorers=("bash",)) for name in ("said", "broken", "right")]

            def load(self, scenario_id):
                script = {"said": "echo XYZZY-said; echo 0", "broken": "echo XYZZY-no-score", "right": "echo 1"}
                return Scenario.model_validate({
                    "id": scenario_id, "benchmark": "secret", "confidential": True,
                    "problem_statement": "XYZZY-asked", "environment": {"image": "none"},
                    "reference": {"script": "echo XYZZY-solved"}, "source": self.path,
                    "scorers": [{"name": "score", "type": "bash", "script": script[scenario_id]}],
                })

        def pytest_benchjobs_benchmarks(config):
            return {"secret": Secret()}
        """
    )
    result = bench.run("--bench", "secret", "--bench-agent=oracle", "-rA", "-vv")
    (job,) = (path.parent for path in bench.path.glob("reports/jobs/*/report.json"))
    made = {path.name: path.read_text("utf-8") for path in job.iterdir() if path.is_file()}
    assert {"junit.xml", "report.json", "summary.md"} <= made.keys()
    made["terminal"] = result.stdout.str()
    made["export"] = console(bench, "export", "last", "--format", "jsonl").stdout
    made |= {str(path): path.read_text("utf-8") for path in job.rglob("result.json")}
    assert not [name for name, text in made.items() if "XYZZY" in text]
    assert "(confidential)" in made["report.json"]
    outcomes = {one["scenario"]: one["outcome"] for one in json.loads(made["report.json"])["results"]}
    assert outcomes == {"said": "failed", "broken": "error", "right": "passed"}
    kept = [path for path in job.rglob("*.log") if "XYZZY" in path.read_text("utf-8")]
    assert kept, "the trial's own directory keeps its logs"


def test_a_benchmark_is_checked_and_its_verdicts_are_kept_with_it(bench: Bench) -> None:
    described(bench)
    text = (bench.path / "sums.benchmark.toml").read_text("utf-8")
    bench.write("sums.benchmark.toml", text + '\n[exceptions]\naime-2024-61 = "its \\"answer\\" is wrong"\n')
    checked = console(bench, "benchmarks", "check", "sums", "-o", "json")
    assert checked.returncode == 0, checked.stderr
    assert [one["scenario"] for one in json.loads(checked.stdout)["scenarios"]] == ["aime-2024-60"]
    assert 'left out: aime-2024-61: its "answer" is wrong' in checked.stderr
    shown = console(bench, "benchmarks", "show", "sums", "-o", "json").stdout
    assert json.loads(shown)["checked"]["verdicts"] == {"aime-2024-60": "ok"}

    rows = bench.path / "cache/benchmarks/sums/2/files/test2024.jsonl"
    assert rows.is_file()
    every = console(bench, "benchmarks", "check", "sums", "--exceptions", "include")
    assert every.returncode == 0, every.stderr
    assert "checked" in console(bench, "benchmarks", "show", "sums").stdout
    (bench.path / "bench-known.toml").write_text(
        console(bench, "benchmarks", "exceptions", "sums").stdout, "utf-8"
    )
    bench.run("--bench", "sums", "--bench-agent=oracle").assert_outcomes(passed=1, skipped=1)
