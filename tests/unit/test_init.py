"""`benchjobs init`: what it finds, and what it writes."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema

from pytest_benchjobs.agents.described import DescribedAgent
from pytest_benchjobs.agents.given import given_agents
from pytest_benchjobs.settings.agents import read_agent
from pytest_benchjobs.sources import open_source

from .jobs import make_job, run

pytestmark = pytest.mark.when_changed

WRITTEN = [
    "wrote  benchmarks/acme.bench.yaml", "wrote  benchmarks/.bench.schema.json",
    "wrote  benchmarks/data/in.txt", "wrote  my-agent/run.sh", "wrote  benchmarks/my-agent.agent.toml",
    "wrote  .github/workflows/benchmark.yml",
]  # fmt: skip


PIPELINES = [
    ("github", ".github/workflows/benchmark.yml"), ("gitlab", ".gitlab-ci.yml"), ("jenkins", "Jenkinsfile"),
]  # fmt: skip


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCHJOBS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    root = tmp_path / "acme"
    root.mkdir()
    monkeypatch.chdir(root)
    return root


def _init(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> list[str]:
    assert run("init", *arguments) == status
    said = capsys.readouterr()
    return (said.err if status else said.out).splitlines()


def _program(path: Path, first: str = "#!/bin/sh") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{first}\n")
    path.chmod(0o755)


def _described(root: Path, name: str) -> DescribedAgent:
    return DescribedAgent.of_file(root / "benchmarks" / f"{name}.agent.toml")


def test_an_empty_directory_gets_a_benchmark_an_agent_and_a_pipeline(
    acme: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = _init(capsys)
    assert said[:3] == [
        "found  project acme, main branch main",
        "no CI system found; writing a file for github; --ci names another, or none",
        "no agent found; writing my-agent/, to be filled in; --agent NAME=./PATH names yours",
    ]
    assert said[3:9] == WRITTEN
    assert said[-1].startswith("--ignore benchmarks, or write")
    assert "  pytest benchmarks --bench-agent my-agent" in said
    source = open_source(acme / "benchmarks" / "acme.bench.yaml")
    assert source is not None
    (ref,) = source.refs()
    assert not source.warnings
    assert source.load(ref.id).environment.image == "debian:bookworm-slim"
    snapshot = _described(acme, "my-agent").snapshot()
    assert snapshot is not None
    assert [path.name for path in snapshot.files.iterdir()] == ["run.sh"]


def test_what_is_there_is_kept(acme: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _init(capsys)
    (acme / "benchmarks" / "acme.bench.yaml").write_text("mine")
    said = _init(capsys)
    assert "found  agent my-agent, described by benchmarks/my-agent.agent.toml" in said
    assert "kept   benchmarks/acme.bench.yaml: exists already" in said
    assert (acme / "benchmarks" / "acme.bench.yaml").read_text() == "mine"
    assert not [line for line in said if line.startswith("wrote")]


@pytest.mark.parametrize("system", ["github", "gitlab", "jenkins"])
def test_a_second_call_writes_nothing(acme: Path, capsys: pytest.CaptureFixture[str], system: str) -> None:
    (acme / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    assert _init(capsys, "--ci", system)[0] == "found  project acme, main branch main"
    before = sorted(acme.rglob("*"))
    (acme / "pyproject.toml").write_text('[project]\nname = "other"\n')
    again = _init(capsys, "--ci", system)
    assert sorted(acme.rglob("*")) == sorted([*before, acme / "pyproject.toml"])
    assert "kept   benchmarks/acme.bench.yaml: exists already" in again
    assert not [line for line in again if line.startswith(("next", "wrote")) or "testpaths" in line]


@pytest.mark.parametrize(
    ("program", "first", "name", "image"),
    [
        ("my-bot/run.sh", "#!/bin/sh", "my-bot", "debian:bookworm-slim"),
        ("agent/main.py", "#!/usr/bin/env python3", "agent", "python:3.12-slim"),
        ("main.py", "import sys", "acme", "python:3.12-slim"),
        ("index.js", "#!/usr/bin/env node", "acme", "node:22-slim"),
    ],
)
def test_the_agent_of_a_checkout_is_found(
    acme: Path, capsys: pytest.CaptureFixture[str], program: str, first: str, name: str, image: str
) -> None:
    _program(acme / program, first)
    said = _init(capsys)
    assert said[2].startswith(f"found  agent {name}, started with ")
    assert said[2].endswith(program), "the path from here, and no placeholder"
    assert f"image: {image}\n" in (acme / "benchmarks" / "acme.bench.yaml").read_text()
    snapshot = _described(acme, name).snapshot()
    assert snapshot is not None
    # No benchmark is among the files of the agent: it has the answers.
    assert {path.name for path in snapshot.files.iterdir()} - {".github"} == {Path(program).name}
    assert not (acme / "my-agent").exists()


def test_an_agent_may_be_named(acme: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _program(acme / "src" / "go")
    _init(capsys, "--agent", "mine=./src/go")
    assert _described(acme, "mine").snapshot() is not None
    assert "there is no" in _init(capsys, "--agent", "mine=./nowhere", status=2)[0]
    assert "is not of the form NAME=./PATH" in _init(capsys, "--agent", "mine=command:x", status=2)[0]


@pytest.mark.parametrize(
    ("there", "written", "said"),
    [
        (".github/dependabot.yml", ".github/workflows/benchmark.yml", ""),
        (".gitlab-ci.yml", ".gitlab/benchmark.yml", "add to .gitlab-ci.yml: include: [{local: .gitlab/benchmark.yml}]"),
        ("Jenkinsfile", "benchmarks/Jenkinsfile", "create a pipeline in Jenkins"),
    ],
)  # fmt: skip
def test_the_ci_system_is_seen(
    acme: Path, capsys: pytest.CaptureFixture[str], there: str, written: str, said: str
) -> None:
    (acme / there).parent.mkdir(exist_ok=True)
    (acme / there).write_text("")
    assert said in "\n".join(_init(capsys))
    assert (acme / written).is_file()


@pytest.mark.parametrize(
    ("branch", "host", "system"),
    [("trunk", "gitlab.example.org", "gitlab"), ("main", "github.com", "github")],
)
def test_git_tells_branch_and_remote(
    acme: Path, capsys: pytest.CaptureFixture[str], branch: str, host: str, system: str
) -> None:
    (acme / "pyproject.toml").write_text('[project]\nname = "Acme Bot"\n')
    for command in (f"init -q -b {branch}", f"remote add origin git@{host}:acme/bot.git"):
        subprocess.run(["git", "-C", str(acme), *command.split()], check=True)
    assert _init(capsys)[0] == f"found  project acme-bot, main branch {branch}, CI of {system}"
    assert (acme / dict(PIPELINES)[system]).is_file()


@pytest.mark.parametrize(
    ("left", "said", "status"),
    [("3\n", "3", 0), ("      3\n", "3", 0), (None, "nothing", 1), ("", "nothing", 1), ("4 5\n", "45", 1)],
)
def test_the_scorer_of_the_template_says_what_it_expected_and_got(
    acme: Path, capsys: pytest.CaptureFixture[str], left: str | None, said: str, status: int
) -> None:
    _init(capsys)
    source = open_source(acme / "benchmarks" / "acme.bench.yaml")
    assert source is not None
    scenario = source.load(source.refs()[0].id)
    assert [artifact.source for artifact in scenario.artifacts] == ["out.txt"]
    if left is not None:
        (acme / "out.txt").write_text(left)
    script = scenario.scorers[1].command or ""
    for shell in ("sh", "bash"):
        done = subprocess.run([shell, "-c", script], cwd=acme, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr, done.returncode) == (f"expected 3, got {said}\n", "", status)


def _scripts(system: str, text: str) -> list[str]:
    if system == "jenkins":
        return [long or short for long, short in re.findall(r"'''(.*?)'''|\bsh '([^'\n]+)'", text, re.DOTALL)]
    data: dict[str, Any] = yaml.safe_load(text)
    if system == "gitlab":
        return [str(line) for line in data["benchmark"]["script"]]
    return [step["run"] for step in data["jobs"]["benchmark"]["steps"] if "run" in step]


@pytest.mark.parametrize(("system", "file"), PIPELINES)
def test_each_pipeline_is_one_that_its_system_understands(
    acme: Path, capsys: pytest.CaptureFixture[str], system: str, file: str
) -> None:
    _init(capsys, "--ci", system)
    text = (acme / file).read_text()
    assert not re.search(r"@[A-Z]+@", text)
    if system != "jenkins":
        data = {("on" if key is True else key): value for key, value in yaml.safe_load(text).items()}
        name = {"github": "github-workflows", "gitlab": "gitlab-ci"}[system]
        jsonschema.Draft7Validator(get_builtin_schema(f"vendor.{name}")).validate(data)
    scripts = _scripts(system, text)
    assert any("pytest benchmarks -q --bench-agent my-agent" in script for script in scripts)
    assert any("benchjobs gate last" in script for script in scripts)
    for script in scripts:
        done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), script


def test_none_is_written_where_none_is_wanted(acme: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _init(capsys, "elsewhere", "--ci", "none")[0] == "found  project elsewhere, main branch main"
    assert sorted(path.name for path in (acme / "elsewhere").iterdir()) == ["benchmarks", "my-agent"]
    assert given_agents([read_agent("x=./elsewhere/my-agent", acme)])["x"].needs_model is False


JOBS = ("20261101-000000-aaaaaa", "20261102-000000-bbbbbb")


def _attempts(scripts: list[str]) -> int:
    """Number of attempts that a pipeline asks for."""
    (found,) = re.findall(r"--bench-attempts (\d+)", "\n".join(scripts))
    return int(found)


def _judged(acme: Path, capsys: pytest.CaptureFixture[str], scripts: list[str], passed: int) -> int:
    """Judge a job by the gate of a pipeline; in its baseline all attempts passed. Return the status."""
    attempts = _attempts(scripts)
    for directory in ("reports", "main"):
        shutil.rmtree(acme / directory, ignore_errors=True)
    make_job(acme / "main", JOBS[0], {"my-agent": {"count-lines": "P" * attempts}})
    outcomes = "P" * passed + "F" * (attempts - passed)
    make_job(acme / "reports", JOBS[1], {"my-agent": {"count-lines": outcomes}})
    (gate,) = re.findall(r"benchjobs (gate last.*?)(?: \$FIRST_RUN)", " ".join(scripts).replace("\\\n", " "))
    arguments = shlex.split(gate)
    baseline = arguments[arguments.index("--baseline") + 1].removeprefix("file:")
    assert run("baseline", "export", "last", "--to", baseline, "--dir", acme / "main") == 0
    capsys.readouterr()
    return run(*arguments)


@pytest.mark.parametrize(("system", "file"), PIPELINES)
def test_the_gate_of_a_new_project_is_red_when_its_agent_fails_everything(
    acme: Path, capsys: pytest.CaptureFixture[str], system: str, file: str
) -> None:
    _init(capsys, "--ci", system)
    scripts = _scripts(system, (acme / file).read_text())
    assert _judged(acme, capsys, scripts, _attempts(scripts)) == 0
    assert _judged(acme, capsys, scripts, 0) == 10
    assert "regressed: mean 1.00 -> 0.00" in capsys.readouterr().out


@pytest.mark.parametrize(("passed", "verdict"), [(5, "ok"), (4, "inconclusive"), (0, "regressed")])
def test_only_a_good_job_becomes_the_baseline_of_a_new_project(
    acme: Path, capsys: pytest.CaptureFixture[str], passed: int, verdict: str
) -> None:
    _init(capsys, "--ci", "gitlab")
    text = (acme / ".gitlab-ci.yml").read_text()
    scripts = _scripts("gitlab", text)
    status = _judged(acme, capsys, scripts, passed)
    assert capsys.readouterr().out.startswith(verdict)
    if (
        not status
    ):  # GitLab runs nothing after a command that failed, and keeps the baseline of the last good pipeline
        place = next(n for n, script in enumerate(scripts) if "benchjobs gate last" in script)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        subprocess.run(
            ["bash", "-ec", "\n".join(scripts[place + 1 :])],
            env={**os.environ, "PATH": path}, capture_output=True, check=True,
        )  # fmt: skip
    kept = acme / "next" / "baseline.json"
    jobs = json.loads(kept.read_text())["jobs"] if kept.is_file() else None
    assert jobs == {"ok": [JOBS[1]], "inconclusive": [JOBS[0]], "regressed": None}[verdict]

    _init(capsys, "--ci", "github")
    workflow = yaml.safe_load((acme / ".github/workflows/benchmark.yml").read_text())
    conditions = [step.get("if", "") for step in workflow["jobs"]["benchmark"]["steps"]]
    saved = [condition for condition in conditions if "outputs.verdict" in condition]
    assert len(saved) == 2
    for condition in saved:
        (good,) = re.findall(r"fromJSON\('(.*?)'\)", condition)
        assert (verdict in json.loads(good)) is (verdict == "ok")
