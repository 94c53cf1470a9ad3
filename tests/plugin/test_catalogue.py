"""Benchmarks by name: what an installed package brings, what is fetched first, what is confidential."""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from pytest_benchjobs.model import errors
from pytest_benchjobs.model.errors import DiskFull, ResultsUnwritable
from pytest_benchjobs.model.result import FailureClass
from tests.unit.git import git

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


def repository(bench: Bench) -> tuple[str, str]:
    rows = [{"id": 60 + n, "problem": f"What is the secret {n}?", "answer": str(n)} for n in range(2)]
    bench.write("origin/test2024.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    root = bench.path / "origin"
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "one"]):
        git(root, *words)
    return root.as_uri(), git(root, "rev-parse", "HEAD")


def described(
    bench: Bench, name: str = "sums.benchmark.toml", *, commit: str | None = None, more: str = ""
) -> None:
    url, head = repository(bench)
    bench.write(name, ENTRY.format(repository=url, commit=commit or head) + more)


def test_an_installed_package_brings_a_benchmark_in_one_file(bench: Bench, package: Path) -> None:
    result = bench.run("--bench", "sums@1", "--bench-agent=oracle", "--bench-agent=nop", "-m", "even")
    assert result.ret == 1
    result.assert_outcomes(passed=250, deselected=500)
    result.stdout.fnmatch_lines(["*250 passed*250 unsolved*"])


def test_of_what_is_brought_only_what_runs_is_made(bench: Bench, package: Path) -> None:
    text = (package / "sums.py").read_text("utf-8")
    counted = "        __import__('os').write(2, f'made {scenario_id}\\n'.encode())\n        numbers ="
    bench.write("site/sums.py", text.replace("        numbers =", counted))
    result = bench.run("--bench", "sums", "--bench-scenario", "sum-3", "--bench-scenario", "sum-7")
    result.assert_outcomes(passed=2)
    assert {line for line in result.errlines if line.startswith("made")} == {"made sum-3", "made sum-7"}
    assert not [line for line in bench.run("--bench", "sums", "--collect-only").errlines if "made" in line]


def test_what_is_brought_is_listed_and_what_is_broken_concerns_itself_alone(
    bench: Bench, package: Path
) -> None:
    found = json.loads(bench.benchjobs("benchmarks", "list", "-o", "json").stdout)["benchmarks"]
    (sums,) = [item for item in found if item["name"] == "sums"]
    assert (sums["version"], sums["scenarios"], sums["fetched"]) == ("1", 500, None)
    assert "run it: benchjobs run --benchmark sums" in bench.benchjobs("benchmarks", "show", "sums").stdout
    shown = bench.benchjobs("benchmarks", "show", "sums@7")
    assert (shown.returncode, "sums is known in version 1, not '7'" in shown.stderr) == (2, True)
    bench.run("--bench", "sums@7").stderr.fnmatch_lines(["*sums is known in version 1, not '7'*"])

    bench.write("site/sums.py", "def benchmark():\n    return 1 / 0\n")
    listed = bench.benchjobs("benchmarks", "list")
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


def test_files_that_the_user_has_are_fetched_from_where_they_are(bench: Bench) -> None:
    described(bench)
    done = bench.benchjobs("benchmarks", "fetch", "sums", "--from", "origin")
    assert done.returncode == 0, done.stderr
    shutil.rmtree(bench.path / "origin")
    bench.run("--bench", "sums", "--bench-agent=oracle").assert_outcomes(passed=2)


def test_what_cannot_be_fetched_is_one_error(bench: Bench) -> None:
    described(bench, commit="1" * 40)
    result = bench.run("--bench", "sums", "-n2")
    assert result.ret != 0
    assert "git fetch failed" in result.stderr.str() + result.stdout.str()
    assert "Traceback" not in result.stderr.str() + result.stdout.str()
    assert "no tests ran" not in result.stdout.str()  # no worker was let go


def registered(origin: tuple[str, str], bench: Bench, name: str, version: str, path: str = "one") -> None:
    """Write a registry with one benchmark of one task."""
    task = {"name": "one", "git_url": origin[0], "git_commit_id": origin[1], "path": path}
    bench.write("registry.json", json.dumps([{"name": name, "version": version, "tasks": [task]}]))


def test_a_task_of_a_registry_that_is_none(bench: Bench) -> None:
    registered(repository(bench), bench, "theirs", "1", ".")
    assert "theirs" in bench.benchjobs("benchmarks", "list", "--registry", "registry.json").stdout
    fetched = bench.benchjobs("benchmarks", "fetch", "theirs", "--registry", "registry.json")
    assert fetched.returncode == 2
    assert "the fetched files are not the benchmark: no scenario was found" in fetched.stderr


def test_what_was_fetched_of_a_registry_runs_by_name(bench: Bench, cache: Path) -> None:
    registered(tasks_repository(bench), bench, "theirs", "1.0")
    shown = bench.benchjobs("benchmarks", "show", "theirs", "--registry", "registry.json")
    assert "run it: benchjobs run --benchmark theirs@1.0" in shown.stdout
    assert bench.benchjobs("benchmarks", "show", "theirs").returncode == 2
    fetched = bench.benchjobs("benchmarks", "fetch", "theirs", "--registry", "registry.json")
    assert fetched.returncode == 0, fetched.stderr
    (bench.path / "registry.json").unlink()
    assert "theirs@1.0" in bench.benchjobs("benchmarks", "show", "Theirs").stdout
    listed = json.loads(bench.benchjobs("benchmarks", "list", "-o", "json").stdout)["benchmarks"]
    assert [one["version"] for one in listed if one["name"] == "theirs"] == ["1.0"]
    bench.run("--bench", "theirs@1.0", "--collect-only").stdout.fnmatch_lines(["*one?oracle?*"])
    bench.run("--bench", "theirs@2").stderr.fnmatch_lines(["*theirs is known in version 1.0, not '2'*"])

    # What is damaged is fetched again, and stays known.
    (cache / "benchmarks/theirs/1.0/files/one/instruction.md").unlink()
    bench.run("--bench", "theirs", "--collect-only").stdout.fnmatch_lines(["*one?oracle?*"])
    bench.run("--bench", "theirs", "--collect-only").stdout.fnmatch_lines(["*one?oracle?*"])


def test_a_registry_does_not_take_the_place_of_another_benchmark(bench: Bench, cache: Path) -> None:
    registered(tasks_repository(bench), bench, "terminal-bench", "2.0")
    refused = bench.benchjobs("benchmarks", "fetch", "terminal-bench", "--registry", "registry.json")
    assert refused.returncode == 2
    assert "terminal-bench@2.0 of registry.json has the name of another benchmark" in refused.stderr
    assert not (cache / "benchmarks/terminal-bench/2.0").exists()


def tasks_repository(bench: Bench) -> tuple[str, str]:
    bench.task("origin/one")
    return repository(bench)


def test_console_and_plugin_look_in_the_same_places(bench: Bench) -> None:
    described(bench, "ours/sums.benchmark.toml")
    bench.write("pytest.ini", "[pytest]\nbench_paths =\n    ours\n")
    bench.write("deeper/nothing", "")
    for place in (bench.path, bench.path / "deeper"):
        shown = bench.benchjobs("benchmarks", "show", "sums", cwd=place)
        assert "sums 2: Sums" in shown.stdout, shown.stderr
    bench.run("--bench", "sums@2").assert_outcomes(passed=2)


def test_an_id_too_many_is_told_as_what_it_is(bench: Bench) -> None:
    described(bench)
    result = bench.run("--bench", "sums", "--bench-scenario", "aime-2024-60", "aime-2024-61", "-n2")
    assert result.ret == 4
    said = result.stderr.str() + result.stdout.str()
    assert "file or directory not found: aime-2024-61" in said
    assert "--bench-scenario takes one ID; for several: " in said
    assert "available: None" not in said


def test_a_benchmark_of_the_user_comes_before_one_of_the_catalogue(bench: Bench) -> None:
    bench.manifest({"one": "echo 1", "two": "echo 1"}, "eliza_replay.bench.yaml")
    extra = json.dumps({"per_benchmark": {"eliza_replay": {"max_tasks": 1}}})
    bench.run("--bench", "eliza_replay", "--bench-extra", extra).assert_outcomes(passed=1, deselected=1)
    # Nor is it looked up by workers of xdist.
    bench.manifest({"one": "echo 1"}, "sums.bench.yaml")
    described(bench)
    bench.run("--bench", "sums", "-n2").assert_outcomes(passed=1)
    (bench.path / "sums.bench.yaml").unlink()
    bench.manifest({"one": "echo 1"}, "sums/here.bench.yaml")
    bench.run("--bench", "sums", "-n2").assert_outcomes(passed=1)
    assert not (bench.path / "cache/benchmarks").exists()


PLANTED = """
import contextlib
import shutil
from pathlib import Path

import pytest
from pytest_benchjobs import ScenarioRef
from pytest_benchjobs.model.scenario import Scenario
from pytest_benchjobs.model import errors
from pytest_benchjobs.model.result import AgentEnd, Failure, Outcome, FailureClass
from pytest_benchjobs.scoring.protocol import Graded
from pytest_benchjobs.trial import run, steps

run._RETRY_PAUSE = 0.0
NAMES = {names}
KINDS = {{kind.code: kind for kind in vars(errors).values() if hasattr(kind, "code")}}
decide = steps.decide

def failed(context, agent):
    if context.scenario.id not in set(FailureClass):
        return decide(context, agent)
    findings = context.findings
    words = ("XYZZY",)
    findings.agent_end = AgentEnd(message="XYZZY", leftovers=words, killed=words, tampered=words, elsewhere=words)
    findings.failure = Failure(class_=context.scenario.id, message="XYZZY, says an agent", detail="XYZZY")
    findings.score = 0.0
    return Outcome.FAILED

steps.decide = failed

class Secret:
    path, benchmark, version, warnings, confidential = Path(__file__), "secret", "1", (), True

    def refs(self, wanted=None):
        return [ScenarioRef(name, scorers=("planted",)) for name in NAMES]

    def load(self, scenario_id):
        if scenario_id == "input":
            raise errors.InputError("XYZZY in a row")
        if scenario_id == "unexpected":
            raise ValueError("XYZZY in a row")
        return Scenario.model_validate({{
            "id": scenario_id, "benchmark": "secret", "confidential": True, "problem_statement": "XYZZY-asked",
            "environment": {{"image": "none"}}, "reference": {{"script": "true"}}, "source": self.path,
            "scorers": [{{"name": "score", "type": "planted", "params": {{"expected": "XYZZY"}}}}],
        }})

def planted(context):
    for will in Path("reports/jobs").glob("*/.flight/*/*.json"):
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(will, Path("will-" + will.name))
    if context.scenario.id in KINDS:
        raise KINDS[context.scenario.id]("XYZZY, says an endpoint")
    if context.scenario.id == "internal":
        raise ValueError("XYZZY")
    return Graded(1.0, "XYZZY", {{"XYZZY": 1, "count": 2, "names": ["XYZZY"]}})

def pytest_collection_modifyitems(items):
    for item in items:
        if item.ref.id == "marked":
            item.add_marker(pytest.mark.skip(reason="not in this suite"))

def pytest_benchjobs_scorers(config):
    return {{"planted": planted}}

def pytest_benchjobs_benchmarks(config):
    return {{"secret": Secret()}}
"""
FULL = (DiskFull.code, ResultsUnwritable.code)
"""After such a failure nothing more runs."""
CODES = sorted({kind.code for kind in vars(errors).values() if hasattr(kind, "code")} - {*FULL})
CLASSES = [*CODES, *map(str, FailureClass), "input", "unexpected", "internal", "marked", "right"]


@pytest.mark.parametrize("names", [CLASSES, *([name] for name in FULL)], ids=["all", *FULL])
def test_no_failure_of_a_confidential_scenario_quotes_anything(bench: Bench, names: list[str]) -> None:
    bench.conftest(PLANTED.format(names=names))
    workers = () if names[0] in FULL else ("-n1",)
    options = ("--bench-agent=oracle", "--bench-retry-errors=1", "-rA", "-vv", "-p", "no:cacheprovider")
    result = bench.run("--bench", "secret", *options, *workers)
    made = {"terminal": result.stdout.str() + result.stderr.str()}
    for call in (
        ("export", "last", "--format", "jsonl"),
        ("export", "last", "--format", "csv"),
        ("summary", "last"),
        ("show", f"secret::{names[0]}"),
        ("list", "-o", "json"),
    ):
        said = bench.benchjobs(*call)
        assert said.returncode == 0, said.stderr
        made[" ".join(call)] = said.stdout
    files = [*(bench.path / "reports").rglob("*"), *bench.path.glob("will-*")]
    # The logs of scorers are kept as they are, for those who have the machine; nothing quotes them.
    files = [path for path in files if path.is_file()]
    kept = [path for path in files if path.name == "output.log"]
    assert any("XYZZY" in path.read_text("utf-8") for path in kept) == bool(workers)
    files = [path for path in files if path not in kept]
    made |= {str(path): path.read_bytes().decode("utf-8", "replace") for path in files}
    assert not [name for name, text in made.items() if "XYZZY" in text]
    assert any("/try-1/failure.json" in name for name in made) or names[0] == ResultsUnwritable.code
    assert any("/will-" in name for name in made) == bool(workers)
    (report,) = bench.path.glob("reports/jobs/*/report.json")
    assert {"junit.xml", "summary.md"} <= {path.name for path in report.parent.iterdir()}
    failures = {one["scenario"]: one["failure"] for one in json.loads(report.read_text("utf-8"))["results"]}
    assert failures.keys() == set(names)
    assert failures.pop("right", None) is None
    for name, failure in failures.items():
        wanted = {"unexpected": "input", "internal": "scorer_crashed"}.get(name, name)
        assert failure["class"] == wanted
        assert failure["message"] != "(confidential)"


def test_a_benchmark_is_checked_and_its_verdicts_are_kept_with_it(bench: Bench) -> None:
    described(bench, more='\n[exceptions]\naime-2024-61 = "its \\"answer\\" is wrong"\n')
    checked = bench.benchjobs("benchmarks", "check", "sums", "-o", "json")
    assert checked.returncode == 0, checked.stderr
    assert [one["scenario"] for one in json.loads(checked.stdout)["scenarios"]] == ["aime-2024-60"]
    assert 'left out: aime-2024-61: its "answer" is wrong' in checked.stderr
    shown = bench.benchjobs("benchmarks", "show", "sums", "-o", "json").stdout
    assert json.loads(shown)["checked"]["verdicts"] == {"aime-2024-60": "ok"}

    rows = bench.path / "cache/benchmarks/sums/2/files/test2024.jsonl"
    assert rows.is_file()
    every = bench.benchjobs("benchmarks", "check", "sums", "--exceptions", "include")
    assert every.returncode == 0, every.stderr
    assert "checked" in bench.benchjobs("benchmarks", "show", "sums").stdout
    (bench.path / "bench-known.toml").write_text(
        bench.benchjobs("benchmarks", "exceptions", "sums").stdout, "utf-8"
    )
    bench.run("--bench", "sums", "--bench-agent=oracle").assert_outcomes(passed=1, skipped=1)


def test_a_name_of_the_ini_file_is_known_at_every_door(bench: Bench) -> None:
    bench.toy()
    (bench.path / "sub").mkdir()
    (bench.path / "toy.bench.yaml").rename(bench.path / "sub/toy.bench.yaml")
    bench.write(
        "pytest.ini", "[pytest]\nbench_sandbox = fake\nbench_benchmarks =\n  mine@3 = sub/toy.bench.yaml\n"
    )
    bench.write(
        "test_mark.py",
        "import pytest\n\n@pytest.mark.bench_scenario('mine', 'solved')\ndef test_it(bench_trial): pass\n",
    )
    bench.write(
        "script.py",
        "import pytest_benchjobs as benchjobs\nfrom pytest_benchjobs.testing import FakeProvider\n"
        "with benchjobs.start('mine@3', 'solved', agent='x', sandbox=FakeProvider) as trial: print(trial.scenario)\n",
    )
    for name in ("mine", "mine@3"):
        bench.run("--collect-only", "-q", "--bench", name).stdout.fnmatch_lines(["sub/*::solved[[]oracle]"])
    bench.run("--collect-only", "-q", "test_mark.py").stdout.fnmatch_lines(["*test_it[[]*solved*"])
    assert bench.process(sys.executable, "script.py").stdout == "solved\n"
    for words, text in {
        ("scenario", "show", "mine::solved"): "toy@1.0::solved",
        ("scenario", "list", "mine@3"): "solved",
        ("scenario", "validate", "--schema-only", "mine"): "3 scenarios: no mistake",
        ("benchmarks", "show", "mine"): "benchjobs run --benchmark mine",
        ("benchmarks", "list"): "mine",
        ("benchmarks", "check", "mine", "--scenario", "solved"): "solved",
    }.items():
        done = bench.benchjobs(*words)
        assert text in done.stdout, done
    unknown = {
        bench.benchjobs(*words).stderr
        for words in (("scenario", "show", "mime::x"), ("benchmarks", "show", "mime"))
    }
    assert all("there is no benchmark 'mime'; did you mean 'mine'?" in text for text in unknown)
    bench.run("--bench", "mine@4").stderr.fnmatch_lines(["*mine is known in version 3, not '4'"])
