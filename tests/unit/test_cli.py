from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from pytest_benchjobs import cli
from pytest_benchjobs.cli._commands import benchjobs
from pytest_benchjobs.model.errors import EngineUnavailable
from pytest_benchjobs.report.documents import DOCUMENTS
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.layout import Layout
from pytest_benchjobs.store.reader import HistoryReader
from pytest_benchjobs.store.reproducibility import redact_arguments, reproducibility

from .git import git as in_git
from .jobs import run as run
from .records import JOB, record, result, trial
from .test_watch import dead_owner

WRITTEN = ("manifest", "settings", "description", "known")
"""Files that people write."""


def test_help_names_every_command_and_each_has_help_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    shown = capsys.readouterr().out.partition("Run benchmarks:")[2]
    listed = dict(line.split(None, 1) for line in shown.splitlines() if re.match(r"  \S", line))
    assert list(listed) == benchjobs.list_commands(click.Context(benchjobs))
    found: list[click.Command] = []
    inside: list[click.Command] = []
    for path in Path(cli.__file__).parent.glob("*.py"):
        module = importlib.import_module(f"{cli.__name__}.{path.stem}")
        for command in vars(module).values():
            if isinstance(command, click.Command) and command is not benchjobs:
                found.append(command)
                if isinstance(command, click.Group):
                    inside += command.commands.values()
    assert set(listed) == {str(command.name) for command in found if command not in inside}
    assert all(len(about) > 8 for about in listed.values())
    for name in listed:
        assert run(name, "--help") == 0
        assert f"Usage: benchjobs {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "benchjobs: Missing command. See `benchjobs --help`"),
        (["nope"], "benchjobs: No such command 'nope'. See `benchjobs --help`"),
        (["summry", "last"], "benchjobs: No such command 'summry'; did you mean 'summary'? See `benchjobs --help`"),
        (["db", "rebuild", "--dir", "missing"], "benchjobs: Invalid value for '--dir': there is no directory 'missing'. See `benchjobs db rebuild --help`"),
        (["run"], "benchjobs: nothing to run; give a PATH or NAME, --benchmark, --scenarios or --all. See `benchjobs run --help`"),
        (["summary", "a", "b"], "benchjobs: Got unexpected extra argument (b). See `benchjobs summary --help`"),
        (["benchmarks"], "benchjobs: there is no directory benchmarks/ here; name a PATH"),
        (["schema", "nope"], f"benchjobs: there is no schema 'nope'; there are {', '.join((*WRITTEN, *DOCUMENTS))}"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_on_stderr(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    assert capsys.readouterr() == ("", f"{message}\n")
    assert list(tmp_path.iterdir()) == []


def test_rebuild_indexes_every_bundle(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bundle = JobBundle.create(tmp_path, record(tmp_path))
    bundle.begin(trial()).commit(result())
    damaged = bundle.begin(trial("damaged")).commit(result(trial("damaged")))
    (bundle.root / damaged.path / "result.json").write_text("{")
    assert run("db", "rebuild", "--dir", tmp_path) == 0
    out, err = capsys.readouterr()
    assert out == "indexed 1 job with 1 trial\n"
    assert re.fullmatch(r"warning: .*damaged/1/result.json: is damaged .*\n", err)
    with HistoryReader.of(tmp_path) as history:
        assert [row.scenario for row in history.trials(JOB)] == ["count"]


def test_rebuild_refuses_a_history_of_a_newer_version_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    JobBundle.create(tmp_path, record(tmp_path))
    with History.of(tmp_path) as history:
        history.connection.execute("PRAGMA user_version = 99")
    assert run("db", "rebuild", "--dir", tmp_path) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    path = Layout(tmp_path).history
    assert err.startswith(
        f"benchjobs: {path}: written by a newer version of pytest-benchjobs (schema 99, not "
    )
    assert "move this file away and run `benchjobs db rebuild`" in err
    path.rename(tmp_path / "away")
    assert run("db", "rebuild", "--dir", tmp_path) == 0
    with HistoryReader.of(tmp_path) as history:
        assert history.newest() == JOB


def test_gc_recovers_jobs_even_when_no_engine_answers(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(self: DockerProvider) -> None:
        raise EngineUnavailable("no engine answers")

    monkeypatch.setattr(DockerProvider, "check", check)
    dead = dead_owner()
    JobBundle.create(tmp_path, record(tmp_path, owner=dead))
    assert run("gc", "--dir", tmp_path) == 0
    out, err = capsys.readouterr()
    assert out == f"job {JOB} died while it ran (process {dead.pid}): kept 0 trials\nrecovered 1 job\n"
    assert err == "containers were not checked: no engine answers\n"


@pytest.mark.parametrize("name", [*WRITTEN, *DOCUMENTS])
def test_schemas_are_json_schemas(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    import jsonschema

    assert run("schema", name) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"


def test_benchmarks_are_listed_with_their_scenarios_and_gaps(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scorers = "scorers: [{name: s, type: bash, script: echo 1}]"
    old = f"  - {{id: old, problem_statement: x, archived: true, reference: 'true', {scorers}}}\n"
    head = "benchmark: texts\ndefaults: {image: debian}\nscenarios:\n"
    (tmp_path / "a.bench.yaml").write_text(head + old.replace("old", "one").replace("archived: true, ", ""))
    assert run("benchmarks", tmp_path, "--strict", "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    (item,) = document["benchmarks"]
    assert (item["benchmark"], item["scenarios"], item["archived"]) == ("texts", ["one"], [])
    assert document["gaps"] == []
    (tmp_path / "a.bench.yaml").write_text(f"{head}  - {{id: one, problem_statement: x, {scorers}}}\n{old}")
    (tmp_path / "b.bench.yaml").write_text("benchmark: broken\n")
    assert run("benchmarks", tmp_path) == 0
    assert capsys.readouterr().out.splitlines() == [
        "texts  2 scenarios, 1 archived",
        "gap: a.bench.yaml:4: one: no reference solution, so oracle cannot show that it can be solved",
        "gap: b.bench.yaml: scenarios: is required but missing",
    ]
    assert run("benchmarks", tmp_path, "--strict", "-o", "json") == 2
    assert len(json.loads(capsys.readouterr().out)["gaps"]) == 2


def test_help_and_version_load_nothing_heavy() -> None:
    code = (
        "import sys\nfrom pytest_benchjobs.cli import main\n"
        "try: main(['--version'])\nexcept SystemExit as end: print(end.code, end=' ')\n"
        "print({'pydantic', 'docker', 'sqlite3', 'pytest', 'yaml'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"benchjobs \S+\n0 set\(\)\n", done.stdout)


@pytest.mark.parametrize(
    ("words", "redacted"),
    [
        (["--bench-env", "KEY=value", "--bench-env=A=b=c"], ["--bench-env", "KEY=[redacted]", "--bench-env=A=[redacted]"]),
        (["--bench-secret=K=HOST_K", "-k", "x=y", "--bench-env"], ["--bench-secret=K=HOST_K", "-k", "x=y", "--bench-env"]),
        (["-o", "bench_env=KEY=value"], ["-o", "bench_env=KEY=[redacted]"]),
        (["-vo", "bench_env=KEY=a=b"], ["-vo", "bench_env=KEY=[redacted]"]),
        (["-obench_env=KEY=value"], ["-obench_env=KEY=[redacted]"]),
        (["-qo=bench_env=KEY=value"], ["-qo=bench_env=KEY=[redacted]"]),  # from Python 3.12
        (["--override-ini=bench_env=KEY=value"], ["--override-ini=bench_env=KEY=[redacted]"]),
        (["--override-ini", "bench_env=KEY=value"], ["--override-ini", "bench_env=KEY=[redacted]"]),
        (["-o", "bench_env=\n  A=1\n  B = 2\n"], ["-o", "bench_env=A=[redacted]\nB =[redacted]"]),
        (["-o", "bench_env=A=1\nmore of it"], ["-o", "bench_env=A=[redacted]\n[redacted]"]),
        (["-o", "bench_env="], ["-o", "bench_env="]),
        (["-o", "bench_meta=a=b"], ["-o", "bench_meta=a=b"]),
        (["--bench-agent", "command:bench_env=1", "--bench-meta", "bench_env=1"], ["--bench-agent", "command:bench_env=1", "--bench-meta", "bench_env=1"]),
    ],
)  # fmt: skip
def test_values_of_variables_are_not_in_the_recorded_command_line(
    words: list[str], redacted: list[str]
) -> None:
    end = [] if words[-1] == "--bench-env" else ["-x"]
    assert redact_arguments(["pytest", *words, *end]) == ["pytest", *redacted, *end]


def test_the_state_of_the_repository_is_recorded(tmp_path: Path) -> None:
    assert reproducibility([], tmp_path)["git"] is None

    def git(*words: str) -> str:
        return in_git(tmp_path, *words)

    git("init", "-q", "-b", "trunk")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-q", "-m", "one")
    commit = git("rev-parse", "HEAD")
    assert reproducibility([], tmp_path)["git"] == {"commit": commit, "branch": "trunk", "dirty": False}
    (tmp_path / "file").write_text("2")
    git("checkout", "-q", "--detach")
    assert reproducibility(["pytest"], tmp_path)["git"] == {"commit": commit, "branch": None, "dirty": True}


def test_versions_and_platform_are_recorded() -> None:
    recorded = reproducibility(["pytest"])
    json.dumps(recorded)
    assert recorded["argv"] == ["pytest"]
    assert recorded["packages"]["pytest"] == pytest.__version__
    assert set(recorded) == {"argv", "git", "python", "packages", "platform", "cpus"}
