"""Checks of the examples of the elizaOS benchmark orchestrator."""

from __future__ import annotations

import collections
import datetime
import json
import os
import re
import time
import urllib.request
from typing import Any

from pytest_benchjobs.model.job import JobStatus
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.store.history import History

from ..unit.jobs import make_job
from ..unit.records import record, result, trial
from ..unit.test_watch import dead_owner
from .checking import BROKEN, COUNTS, LIST_IDS, QWEN, Line, shows
from .commands import Project

# What the ini file of the project says of osworld.
OSWORLD = {"headless": False, "screen": "1920x1080"}


def counts(project: Project) -> dict[str, int]:
    """Trials of the last job by benchmark."""
    return dict(collections.Counter(result["benchmark"] for result in project.results()))


def params(project: Project, benchmark: str) -> dict[str, Any]:
    """The parameters that the agent was told, which are the same for all trials of a benchmark."""
    told = project.told()
    (found,) = {
        told[result["node_id"]]["params"] for result in project.results() if result["benchmark"] == benchmark
    }
    return json.loads(found)  # type: ignore[no-any-return]


def fresh(project: Project) -> set[tuple[str, str]]:
    """Benchmark and scenario of what ran in the last job, and was not taken over."""
    return {
        (result["benchmark"], result["scenario"]) for result in project.results() if result["reused"] is None
    }


@shows("list-benchmarks")
def _(line: Line) -> None:
    project = line.fresh()
    printed = project.run(line.text)
    assert [text.partition("@")[0] for text in printed.splitlines()] == sorted(COUNTS)
    manifest = project.path / "benchmarks" / "solana.bench.yaml"
    manifest.write_text(
        manifest.read_text("utf-8").replace("  reference: echo 42 > answer.txt\n", ""), "utf-8"
    )
    assert "gap: benchmarks/solana.bench.yaml:" in project.run(line.text, status=2)


@shows("one-benchmark")
def _(line: Line) -> None:
    project = line.ran()
    assert counts(project) == {"solana": COUNTS["solana"]}
    assert {(told["provider"], told["model"]) for told in project.told().values()} == {
        ("groq", "qwen/qwen3-32b")
    }
    (run,) = project.document("benchjobs runs -o json")["runs"]
    assert run["id"] == f"{project.job()['id']}.1"
    assert (run["agent"], run["provider"], run["model"]) == (QWEN, "groq", "qwen/qwen3-32b")
    assert (run["benchmark"], run["benchmark_version"], run["status"]) == ("solana", "1.0", "completed")
    assert (run["mean_score"], run["trials"]) == (1.0, COUNTS["solana"])
    assert run["seconds"] > 0
    trial = json.loads(project.run("benchjobs export last --format jsonl").splitlines()[0])
    assert (trial["attempt"], trial["outcome"], trial["score"], trial["agent"]) == (1, "passed", 1.0, QWEN)
    assert trial["signature"]
    assert {"argv", "git", "packages"} <= project.job()["reproducibility"].keys()


@shows("all")
def _(line: Line) -> None:
    project = line.ran()
    assert counts(project) == COUNTS
    assert len(fresh(project)) == sum(COUNTS.values())
    runs = project.document("benchjobs runs -o json")["runs"]
    assert {(run["benchmark"], run["agent"], run["trials"]) for run in runs} == {
        (benchmark, QWEN, count) for benchmark, count in COUNTS.items()
    }
    assert len(runs) == len(COUNTS)
    project.run(line.text)
    assert len(project.bundles) == 2
    assert (counts(project), fresh(project)) == (COUNTS, set())


@shows("rerun-failed")
def _(line: Line) -> None:
    project = line.after_everything()
    # Taken over by a job in between, they are no new successes and no new failures.
    project.run("benchjobs run --all --provider groq --model qwen/qwen3-32b", status=1)
    assert fresh(project) == set()
    project.run(line.text)
    assert fresh(project) == BROKEN
    assert project.job()["totals"]["passed"] == sum(COUNTS.values())


@shows("force")
def _(line: Line) -> None:
    project = line.after_everything()
    project.run(line.text)
    assert len(fresh(project)) == sum(COUNTS.values())


@shows("extra")
def _(line: Line) -> None:
    project = line.ran()
    assert [(result["benchmark"], result["scenario"]) for result in project.results()] == [
        ("osworld", "chrome")
    ]
    assert params(project, "osworld") == {**OSWORLD, "headless": True, "vm_ready_timeout_seconds": 21600}
    # The same with another value is another thing.
    project.run(line.text.replace("21600", "60"))
    assert fresh(project) == {("osworld", "chrome")}


@shows("sample10")
def _(line: Line) -> None:
    project = line.ran()
    profile = json.loads((project.path / "profiles" / "sample10.json").read_text("utf-8"))["per_benchmark"]
    sampled = dict.fromkeys(profile, 1)
    assert len(sampled) == 6
    assert counts(project) == COUNTS | sampled
    assert params(project, "gaia_orchestrated") == {"dataset": "sample"}
    assert params(project, "osworld") == OSWORLD
    assert {run["agent"] for run in project.document("benchjobs runs -o json")["runs"]} == {QWEN}


@shows("profile")
def _(line: Line) -> None:
    project = line.ran()
    names = ("swe_bench_orchestrated", "gaia_orchestrated", "orchestrator_lifecycle")
    assert counts(project) == dict.fromkeys(names, 2)
    assert [params(project, name) for name in names] == [{"matrix": True}, {"matrix": True}, {"strict": True}]


def ran_some(line: Line, benchmark: str, count: int, provider: str, model: str) -> Project:
    """The line runs the first `count` scenarios of a benchmark with a model."""
    project = line.ran()
    assert counts(project) == {benchmark: count}
    assert {(told["provider"], told["model"]) for told in project.told().values()} == {(provider, model)}
    return project


@shows("code-matrix")
def _(line: Line) -> None:
    project = ran_some(line, "swe_bench_orchestrated", 3, "anthropic", "claude-sonnet-4-6")
    assert COUNTS["swe_bench_orchestrated"] > 3
    assert params(project, "swe_bench_orchestrated") == {"matrix": True, "no_docker": True}


@shows("research-matrix")
def _(line: Line) -> None:
    project = ran_some(line, "gaia_orchestrated", 10, "groq", "qwen/qwen3-32b")
    assert COUNTS["gaia_orchestrated"] > 10
    assert params(project, "gaia_orchestrated") == {"matrix": True, "dataset": "sample"}


@shows("lifecycle")
def _(line: Line) -> None:
    project = ran_some(line, "orchestrator_lifecycle", 12, "openai", "gpt-4o")
    assert COUNTS["orchestrator_lifecycle"] > 12
    assert params(project, "orchestrator_lifecycle") == {"strict": True}


@shows("replay")
def _(line: Line) -> None:
    project = line.ran(status=1)
    # Five were captured, of which one has no outcome and one was no success; the notes beside them are no capture.
    assert {result["scenario"]: (result["outcome"], result["score"]) for result in project.results()} == {
        **dict.fromkeys(("run-1", "run-2", "run-4"), ("passed", 1.0)),
        "run-3": ("failed", 0.0),
        "run-5": ("error", None),
    }
    assert {result["agent"]["name"] for result in project.results()} == {"captured"}
    assert {result["benchmark"] for result in project.results()} == {"replay-scoring"}


@shows("knobs")
def _(line: Line) -> None:
    project = line.ran()
    assert counts(project) == {"osworld": 2, "solana": 2}
    assert params(project, "solana") == {"temperature": 0}
    assert params(project, "osworld") == {**OSWORLD, "temperature": 0}


@shows("incompatible")
def _(line: Line) -> None:
    project = line.fresh()
    excluded = "skipped: solana [codex:gpt-4o]: incompatible: excluded by the matrix"
    assert excluded in project.run(line.text)
    ran = collections.Counter((result["benchmark"], result["agent"]["name"]) for result in project.results())
    assert ran == {("osworld", "eliza"): 3, ("osworld", "codex"): 3, ("solana", "eliza"): 10}
    counted = project.run(line.text.replace("--show-incompatible", "--skip-incompatible"))
    assert excluded not in counted
    assert "1 cell of the matrix is incompatible" in counted
    assert fresh(project) == set()


@shows("endpoint")
def _(line: Line) -> None:
    project = line.ran()
    assert {(told["provider"], told["model"], told["url"]) for told in project.told().values()} == {
        ("vllm", "elizaos/eliza-1-2b", "http://127.0.0.1:8001/v1")
    }


@shows("compare")
def _(line: Line) -> None:
    project = line.fresh()
    printed = project.run(line.text)
    (comparison_id,) = re.findall(r"^Comparison ID: (cmp_\d{8}T\d{6}Z_[0-9a-f]{8})$", printed, re.MULTILINE)
    assert "A: vllm:elizaos/eliza-1-2b@http://127.0.0.1:8001/v1 (job " in printed
    assert re.search(r"^benchmark +A +B +delta \(B-A\) +winner +n ", printed, re.MULTILINE)
    path = project.path / "comparisons" / f"compare-{comparison_id}.json"
    found = json.loads(path.read_text("utf-8"))
    assert {row["benchmark"]: row["scenarios"] for row in found["rows"]} == {"osworld": 2, "solana": 2}
    jobs = project.document("benchjobs list --all -o json")["jobs"]
    assert [job["id"] for job in jobs] == [*found["a"]["jobs"], *found["b"]["jobs"]]
    models = {run["model"] for run in project.document("benchjobs runs -o json")["runs"]}
    assert models == {"elizaos/eliza-1-2b", "Qwen/Qwen3.5-2B"}
    for job in jobs:
        shown = project.document(f"benchjobs summary {job['id']} -o json")
        assert shown["metadata"]["comparison"] == comparison_id


@shows("view-comparison")
def _(line: Line) -> None:
    project = line.after_two_agents()
    printed = project.run("benchjobs compare last")
    (comparison_id,) = re.findall(r"^Comparison ID: (\S+)$", printed, re.MULTILINE)
    text = line.text.replace("cmp_20260504T120000Z_a1b2c3d4", comparison_id)
    again = project.run(text)
    assert printed.startswith(again)
    assert project.document(f"{text} -o json")["id"] == comparison_id


def interrupted(project: Project) -> None:
    """Jobs that say they run: here and alive, here and dead, and elsewhere, silent for ten seconds and ten minutes."""
    dead = dead_owner()
    elsewhere = dead.model_copy(update={"host": "elsewhere"})
    owners = {"alive": current_owner(), "dead": dead, "silent": elsewhere, "long silent": elsewhere}
    silences = {"silent": 10, "long silent": 600}
    reports = project.path / "reports"
    for job_id, (name, owner) in zip(LIST_IDS.values(), owners.items(), strict=False):
        make_job(
            reports, job_id, {"oracle": {"count": "P"}}, name=name, owner=owner, status=JobStatus.RUNNING
        )
        heartbeat = reports / "jobs" / job_id / ".heartbeat"
        heartbeat.touch()
        then = time.time() - silences.get(name, 0)
        os.utime(heartbeat, (then, then))


def statuses(project: Project) -> dict[str, str]:
    """Status of each job by its name."""
    return {job["name"]: job["status"] for job in project.document("benchjobs list --all -o json")["jobs"]}


def recovered(line: Line, count: int, failed: str) -> Project:
    """The line recovers jobs, which are failed then; the others go on."""
    project = line.fresh()
    interrupted(project)
    assert set(statuses(project).values()) == {"running"}
    assert project.run(line.text).splitlines()[-1] == f"recovered {count} jobs"
    others = dict.fromkeys(("alive", "dead", "silent", "long silent"), "running")
    assert statuses(project) == others | dict.fromkeys(failed.split(", "), "failed")
    return project


@shows("recover-now")
def _(line: Line) -> None:
    project = recovered(line, 3, "dead, silent, long silent")
    # What had ended is kept, and found.
    runs = project.document("benchjobs runs -o json")["runs"]
    assert {run["passed"] for run in runs} == {1}


@shows("recover")
def _(line: Line) -> None:
    recovered(line, 2, "dead, long silent")


@shows("show-runs")
def _(line: Line) -> None:
    project = line.after_everything()
    with History.of(project.path / "reports") as history:
        for number in range(3):
            job = record(project.path, id=f"20261101-00000{number}-abcdef", status=JobStatus.COMPLETED)
            trials = [trial(agent=f"agent{one % 50}", file=f"{one // 50}.bench.yaml") for one in range(70)]
            history.replace_job(job, [result(one, job.id, benchmark=one.node_id[:1]) for one in trials])
    *rows, last = project.run(line.text).splitlines()
    assert last == "200 runs"
    found = re.findall(r"^(\S+)\.(\d+) +\S+ +(\S+)", "\n".join(rows[1:]), re.MULTILINE)
    shown = [(agent, job, int(number)) for job, number, agent in found]
    assert shown == sorted(shown, reverse=True)
    assert len(shown) == 200
    assert shown[0][0] == QWEN


@shows("viewer-data")
def _(line: Line) -> None:
    project = line.after_everything()
    project.run("benchjobs run --all --provider groq --model qwen/qwen3-32b", status=1)
    assert project.run(line.text).endswith(f": {2 * len(COUNTS)} runs of 2 jobs\n")
    data = json.loads((project.path / "reports" / "viewer_data.json").read_text("utf-8"))
    runs = data["runs"]
    assert len(runs) == 2 * len(COUNTS)
    assert {run["benchmark_id"] for run in runs} == set(COUNTS)
    assert {one["benchmark_id"] for one in data["benchmark_summary"]} == set(COUNTS)
    wanted = (
        "run_id run_group_id benchmark_id status agent provider model score started_at ended_at duration_seconds "
        "total_prompt_tokens total_completion_tokens total_cache_read_input_tokens llm_call_count delta_to_high_score"
    )
    assert set(wanted.split()) <= runs[0].keys()
    assert datetime.datetime.fromisoformat(runs[0]["started_at"]).tzinfo is not None


@shows("serve")
def _(line: Line) -> None:
    project = line.after_everything()
    # Any free port: another process may have this one.
    with project.start(line.text.replace("8877", "0")) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{url}health") as answer:
            assert answer.read() == b"ok"
        with urllib.request.urlopen(f"{url}api/viewer-data") as answer:
            assert {run["benchmark_id"] for run in json.load(answer)["runs"]} == set(COUNTS)
