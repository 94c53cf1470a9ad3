"""Checks of the examples of Runloop."""

from __future__ import annotations

import importlib.metadata
import json
import re
from itertools import product
from pathlib import Path

import yaml

from .checking import CLAUDE, CODEX, COUNTS, LIST_IDS, Check, Line, shows
from .commands import PATIENCE, Project

TERMINAL_BENCH = COUNTS["terminal-bench-2"]


def ran(project: Project, name: str | None, *agents: str, benchmark: str = "terminal-bench-2") -> None:
    """The last job ran all of a benchmark, once with each agent, and passed."""
    job = project.job()
    assert (job["name"], job["status"]) == (name, "completed")
    results = project.results()
    scenarios = {result["scenario"] for result in results}
    assert len(scenarios) == COUNTS[benchmark]
    assert {result["benchmark"] for result in results} == {benchmark}
    assert sorted(cell(result) for result in results) == sorted(product(agents, scenarios, [1]))
    assert {(result["outcome"], result["score"]) for result in results} == {("passed", 1.0)}
    assert (job["totals"]["passed"], job["totals"]["mean_score"]) == (len(results), 1.0)


def cell(result: dict[str, object]) -> tuple[object, ...]:
    node_id = str(result["node_id"])
    return node_id[node_id.index("[") + 1 : -1], result["scenario"], result["attempt"]


@shows("install")
def _(line: Line) -> None:
    version = importlib.metadata.version("pytest-benchjobs")
    assert line.fresh().run(line.text) == f"benchjobs {version}\n"
    (entry,) = importlib.metadata.distribution("pytest-benchjobs").entry_points.select(
        group="console_scripts"
    )
    assert entry.name == "benchjobs"


@shows("key")
def _(line: Line) -> None:
    project = line.after_two_agents(HOME="/nonexistent")
    assert "nightly" in project.run(line.text)


@shows("quick-start")
def _(line: Line) -> None:
    project = line.fresh()
    printed = project.run(line.text)
    assert f"{TERMINAL_BENCH} trials ({TERMINAL_BENCH} scenarios x 1 agent), 10 at a time" in printed
    ran(project, "my-first-benchmark-run", CLAUDE)
    assert project.job()["config"]["concurrency"] == 10
    summary = project.document("benchjobs summary my-first-benchmark-run -o json")
    assert (summary["totals"]["trials"], summary["totals"]["mean_score"]) == (TERMINAL_BENCH, 1.0)


@shows("one-agent")
def _(line: Line) -> None:
    project = line.ran()
    ran(project, None, CLAUDE)


@shows("two-agents")
def _(line: Line) -> None:
    project = line.fresh()
    printed = project.run(line.text)
    ran(project, "terminal-bench-agent-comparison", CLAUDE, CODEX)
    for agent in (CLAUDE, CODEX):
        assert re.search(
            rf"^{agent} +{TERMINAL_BENCH} +0 +0 +{TERMINAL_BENCH} +1\.000", printed, re.MULTILINE
        )
    runs = project.document("benchjobs runs --job last -o json")["runs"]
    assert [(run["agent"], run["benchmark"], run["passed"]) for run in runs] == [
        (agent, "terminal-bench-2", TERMINAL_BENCH) for agent in (CLAUDE, CODEX)
    ]


@shows("some-scenarios")
def _(line: Line) -> None:
    project = line.ran()
    assert project.job()["name"] == "specific-scenarios-run"
    assert sorted(map(cell, project.results())) == [(CLAUDE, "scn_abc123", 1), (CLAUDE, "scn_def456", 1)]


@shows("parallel")
def _(line: Line) -> None:
    # None of them ends before all are there, which are more than the usual ten.
    assert TERMINAL_BENCH > 10
    project = line.fresh(STAND_IN_MEETS=str(TERMINAL_BENCH))
    project.env["STAND_IN_HALL"] = str(project.path / "hall")
    project.run(line.text)
    ran(project, "high-parallelism-run", CLAUDE)
    assert project.job()["config"]["concurrency"] == 50


@shows("timeout")
def _(line: Line) -> None:
    project = line.ran()
    ran(project, "long-timeout-run", CLAUDE)
    assert {told["timeout"] for told in project.told().values()} == {"3600"}


@shows("variables")
def _(line: Line) -> None:
    project = line.ran()
    ran(project, "debug-run", CLAUDE)
    assert {(told["DEBUG"], told["LOG_LEVEL"]) for told in project.told().values()} == {("true", "verbose")}


@shows("secret")
def _(line: Line) -> None:
    secret = "ghp_canary31337sings"
    project = line.fresh(MY_GITHUB_SECRET=secret)
    printed = project.run(line.text)
    ran(project, "with-secrets-run", CLAUDE)
    logs = [path.read_text("utf-8") for path in project.path.rglob("agent.log")]
    assert len(logs) == TERMINAL_BENCH
    assert all(f"has {len(secret)} letters" in log for log in logs)
    everything = b"".join(path.read_bytes() for path in project.path.rglob("*") if path.is_file())
    assert b"GITHUB_TOKEN" in everything
    assert secret not in printed
    assert secret.encode() not in everything


@shows("agents")
def _(line: Line) -> None:
    project = line.ran()
    agents = sorted(f"{result['agent']['name']}:{result['agent']['model']}" for result in project.results())
    assert agents == [CLAUDE, CODEX, "gemini-cli:gemini-2.5-pro"]


@shows("more-options")
def _(line: Line) -> None:
    project = line.fresh()
    summary = json.loads(project.run(line.text))
    scenarios = {result["scenario"] for result in project.results()}
    assert sorted((result["scenario"], result["attempt"]) for result in project.results()) == sorted(
        product(scenarios, [1, 2])
    )
    assert len(scenarios) == COUNTS["osworld"]
    assert {told["timeout"] for told in project.told().values()} == {"10800"}
    assert summary["metadata"] == project.job()["config"]["metadata"] == {"team": "evals"}
    assert (summary["id"], summary["totals"]["passed"]) == (project.job()["id"], 2 * len(scenarios))


@shows("detach")
def _(line: Line) -> None:
    gate, project = held(line)
    printed = project.run(line.text)
    job = project.job()
    assert job["status"] in ("initializing", "running")
    assert printed.splitlines() == [
        f"Benchmark job created: {job['id']} (agent timeout = 7200s unless a scenario has its own)",
        f'Follow the run with "benchjobs watch {job["id"]}"',
    ]
    gate.touch()
    project.run(f"benchjobs watch {job['id']}")
    ran(project, None, CODEX, benchmark="osworld")


@shows("watch")
def _(line: Line) -> None:
    gate, project = held(line, STAND_IN_FAILS="gimp")
    project.run(f"benchjobs run --agent {CODEX} --benchmark osworld --detach")
    with project.start(line.text, JOB=project.job()["id"]) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert project.job()["status"] in ("initializing", "running")
        gate.touch()
        printed, complaints = process.communicate(timeout=PATIENCE)
    # The job completed, whatever its scores.
    assert process.returncode == 0, complaints
    assert complaints == f"Every scenario: `benchjobs summary -e {project.job()['id']}`\n"
    ended = [text for text in printed.splitlines() if re.match(r"\[\d/3\]|\d/3", text)]
    assert len(ended) == 3, first + printed
    assert sum("gimp" in text for text in ended) == 1
    assert re.search(rf"^{CODEX} +2 +0 +1 +0 +3 +0\.667", printed, re.MULTILINE), first + printed


def held(line: Line, **env: str) -> tuple[Path, Project]:
    """A file, and a project whose agents wait for it."""
    project = line.fresh(**env)
    gate = project.path / "go"
    project.env["STAND_IN_WAITS"] = str(gate)
    return gate, project


RECENT = {"running", "completed", "failed"}
LISTS = {
    "list": RECENT,
    "list-days": RECENT | {"three days"},
    "list-all": set(LIST_IDS),
    "list-running": {"running"},
    "list-statuses": {"running", "completed"},
}


def lists(wanted: set[str]) -> Check:
    """Names of the jobs in a list are those wanted."""

    def check(line: Line) -> None:
        project = line.after_some_weeks()
        names = {job_id: name for name, job_id in LIST_IDS.items()}
        head, *jobs, last = project.run(line.text).splitlines()
        assert re.split(r"  +", head.strip())[:5] == ["ID", "NAME", "STARTED", "STATUS", "BENCHMARK"]
        assert last == f"{len(jobs)} job{'s' if len(jobs) > 1 else ''}"
        assert sorted(names[text.split()[0]] for text in jobs) == sorted(wanted)

    return check


for example, wanted in LISTS.items():
    shows(example)(lists(wanted))


@shows("list-json")
def _(line: Line) -> None:
    jobs = json.loads(line.after_some_weeks().run(line.text))["jobs"]
    assert {job["id"] for job in jobs} == set(LIST_IDS.values())
    assert {job["mean_score"] for job in jobs} == {0.5}


@shows("summary")
def _(line: Line) -> None:
    project = line.after_two_agents()
    printed = project.run(line.text, JOB=project.job()["id"])
    for agent in (CLAUDE, CODEX):
        assert re.search(rf"^{agent} +11 +0 +1 +0 +12 +0\.917 ", printed, re.MULTILINE), printed
    assert "fix-git" not in printed


@shows("summary-extended")
def _(line: Line) -> None:
    project = line.after_two_agents()
    printed = project.run(line.text, JOB="nightly")
    scenarios = re.findall(r"^ +(\S) +(\S+) +score=([\d.]+)", printed, re.MULTILINE)
    assert len(scenarios) == 2 * TERMINAL_BENCH
    unsolved = [(name, score) for sign, name, score in scenarios if sign == "✗"]
    assert unsolved == [("fix-git", "0.0")] * 2
    assert {score for sign, _, score in scenarios if sign == "✓"} == {"1.0"}


@shows("summary-json")
def _(line: Line) -> None:
    project = line.after_two_agents()
    summary = json.loads(project.run(line.text, JOB="last"))
    found = (summary["id"], summary["name"], summary["status"])
    assert found == (project.job()["id"], "nightly", "completed")
    assert [(agent["agent"], agent["passed"], agent["total"]) for agent in summary["agents"]] == [
        (CLAUDE, 11, 12),
        (CODEX, 11, 12),
    ]


@shows("summary-yaml")
def _(line: Line) -> None:
    project = line.after_two_agents()
    summary = yaml.safe_load(project.run(line.text, JOB="last"))
    assert summary == project.document("benchjobs summary last -o json")


def copied(directory: Path) -> list[tuple[str, str]]:
    """Agent and scenario of each trial whose logs are there."""
    found = []
    for path in directory.rglob("results.json"):
        result = json.loads(path.read_text("utf-8"))
        assert (path.parent / "agent.log").read_text("utf-8").startswith("model=")
        assert path.parent.relative_to(directory).parts[1] == result["scenario"]
        found.append((result["agent"], result["scenario"]))
    return sorted(found)


@shows("logs")
def _(line: Line) -> None:
    project = line.after_two_agents()
    job = project.job()["id"]
    project.run(line.text, JOB=job)
    found = copied(project.path / "logs" / job)
    assert len(found) == 2 * TERMINAL_BENCH
    assert found == sorted(product((CLAUDE, CODEX), {scenario for _, scenario in found}))


@shows("logs-directory")
def _(line: Line) -> None:
    project = line.after_two_agents()
    project.run(line.text, JOB="last")
    assert len(copied(project.path / "my-logs")) == 2 * TERMINAL_BENCH
    assert not (project.path / "logs").exists()


@shows("logs-run")
def _(line: Line) -> None:
    project = line.after_two_agents()
    job = project.job()["id"]
    (run,) = project.document(f"benchjobs runs --agent {CODEX} -o json")["runs"]
    project.run(line.text, JOB=job, RUN=run["id"])
    found = copied(project.path / "logs" / job)
    assert len(found) == TERMINAL_BENCH
    assert {agent for agent, _ in found} == {CODEX}


@shows("logs-scenario")
def _(line: Line) -> None:
    project = line.after_two_agents()
    job = project.job()["id"]
    project.run(line.text, JOB=job, TRIAL=f"terminal-bench-2::fix-git[{CLAUDE}]")
    assert copied(project.path / "logs" / job) == [(CLAUDE, "fix-git")]
    project.run("benchjobs logs last -o both --scenario fix-git")
    assert copied(project.path / "both") == [(CLAUDE, "fix-git"), (CODEX, "fix-git")]


@shows("benchmarks")
def _(line: Line) -> None:
    printed = line.fresh().run(line.text)
    found = re.findall(r"^(\S+)@1\.0  (\d+) scenarios?$", printed, re.MULTILINE)
    assert {name: int(count) for name, count in found} == COUNTS
