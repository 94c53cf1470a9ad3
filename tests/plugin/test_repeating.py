"""`benchjobs resume`, `rerun` and `rescore` make the call of an earlier job again."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from pytest_benchjobs.report.documents import schema_of
from tests.support import RESULTS, paths, until

from .conftest import Bench

pytestmark = pytest.mark.usefixtures("own_temporary_files")

SOLVED = ("right", "broken", "slow")
PATIENCE = 180
"""Seconds; only against hanging."""


class Project:
    """Four scenarios in which an agent leaves a number and notes that it ran: right, wrong, broken and slow."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.benchjobs = bench.benchjobs
        self.path = bench.path
        self.notes = bench.path / "ran.txt"
        self.stay = bench.path / "stay"
        self.abandoned = bench.path / "abandoned"
        self.write()

    def write(self, wrong: str = "grep -q 2 out.txt", broken: str = "echo no score") -> None:
        scorers = {
            "right": "echo score=1",
            "wrong": f"{wrong} && echo score=1 || echo score=0",
            "broken": broken,
            "slow": "echo score=1",
        }
        wait = f"while test -e {self.stay}; do rm {self.abandoned} 2>/dev/null && exit 1; sleep 0.05; done"
        work = f"echo $GREETING >> {self.notes}; echo 1 > out.txt"
        scenarios = {
            name: {
                "reference": f"{wait if name == 'slow' else ':'}; {work.replace('echo', f'echo {name}', 1)}",
                "script": script,
            }
            for name, script in scorers.items()
        }
        defaults = {"image": "none", "workdir": "/app"}
        self.bench.manifest(scenarios, "four.bench.yaml", defaults=defaults)

    def run(self, *arguments: str) -> str:
        """A whole job; returns its id."""
        assert self.bench.run("-q", *arguments).ret in (0, 1)
        return str(self.job()["id"])

    def job(self, job: str | None = None) -> dict[str, Any]:
        """`job.json`, by default of the newest."""
        root = self.path / "reports" / "jobs"
        records = [json.loads(path.read_text()) for path in root.glob("*/job.json")]
        # Ids of the same second are in no order.
        return max(
            (record for record in records if job in (None, record["id"])), key=lambda one: one["created_at"]
        )

    def outcomes(self, job: str | None = None) -> dict[str, str]:
        root = self.path / "reports" / "jobs" / (job or self.job()["id"])
        found = [json.loads(path.read_text()) for path in root.glob("trials/*/*/*/result.json")]
        return {result["scenario"]: result["outcome"] for result in found}

    def ran(self) -> list[str]:
        """Scenarios an agent worked on since the last time this was asked."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        self.notes.unlink(missing_ok=True)
        return sorted(lines)

    def until(self, job: str, condition: str, value: object) -> None:
        until(lambda: self.job(job)[condition] == value)


@pytest.fixture
def project(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setenv("BENCHJOBS_FAKE_KEPT", str(bench.path / "kept"))
    project = Project(bench)
    yield project
    project.stay.unlink(missing_ok=True)


@pytest.fixture
def interrupted(project: Project) -> str:
    """A job that was killed when three of its four trials had ended."""
    project.stay.touch()
    process = project.bench.start("-q", "--bench-env", "GREETING=hello", "--bench-job-name", "first try")
    try:
        until(lambda: len(paths(project.path, RESULTS)) >= 3)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        # Nobody ends what ran in a fake sandbox whose process was killed.
        project.abandoned.touch()
        process.communicate(timeout=PATIENCE)
    until(lambda: not project.abandoned.exists())
    project.stay.unlink()
    project.ran()
    return str(project.job()["id"])


def test_what_is_missing_or_ended_in_an_error_is_run_under_the_same_id(
    project: Project, interrupted: str
) -> None:
    project.write(broken="echo score=1")
    done = project.benchjobs("resume", "first try", "--env-vars", "GREETING=hello")
    assert done.returncode == 1, done.stdout + done.stderr  # one had failed before
    assert project.ran() == ["broken hello", "slow hello"]
    assert project.outcomes(interrupted) == {**dict.fromkeys(SOLVED, "passed"), "wrong": "failed"}
    record = project.job()
    assert record == project.job(interrupted)
    assert (record["status"], len(record["resumed_at"])) == ("completed", 1)

    again = project.benchjobs("resume", interrupted)
    assert (again.returncode, again.stdout) == (0, "")
    assert again.stderr == f"job {interrupted} has nothing left to do: 4 trials ended\n"
    assert project.ran() == []


@pytest.mark.parametrize(
    "stop",
    ["-qx", *(pytest.param(stop, marks=pytest.mark.extended) for stop in ("--exitfirst", "--maxfail=1"))],
)
def test_a_job_that_stopped_at_a_failure_is_finished_in_spite_of_it(project: Project, stop: str) -> None:
    project.bench.manifest({"a": "echo 0", "b": "echo 1", "c": "echo 0", "d": "echo 1"})
    project.bench.run("many.bench.yaml", stop, "--bench-concurrency", "1")
    assert len(project.bench.results()) < 4
    assert project.benchjobs("resume", "last").returncode == 1
    assert sorted(project.bench.outcomes().values()) == ["failed", "failed", "passed", "passed"]


def test_values_of_variables_are_given_anew_and_so_may_be_how_trials_run(
    project: Project, interrupted: str
) -> None:
    missing = project.benchjobs("resume", "last")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "--env-vars GREETING=..." in missing.stderr
    values = ("GREETING=hello", "API_TOKEN=sk-secret-1")
    shown = project.benchjobs("resume", "last", "--print-command", "--env-vars", *values, "--", "-v")
    assert shown.returncode == 0
    assert f"--bench-resume {interrupted} -v" in shown.stdout
    assert "sk-secret-1" not in shown.stdout
    given = ("resume", "last", "--env-vars", "GREETING=hi")
    # What keeps a background job from going on is said at once.
    done = project.benchjobs(*given, "--detach", "--", "--bench-attempts", "many")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "many" in done.stderr
    assert project.job()["status"] in ("running", "failed")
    assert project.ran() == []
    # How trials run may be said anew, and is what the record says; by what they are judged may not.
    more = ("--bench-concurrency", "2", "--bench-max-cost", "9", "--bench-threshold", "0.5")
    done = project.benchjobs(*given, "--", *more)
    assert done.returncode == 1, done.stderr
    config = project.job(interrupted)["config"]
    assert (config["concurrency"], config["max_cost"], config["threshold"]) == (2, 9, 1)


def test_a_job_of_which_only_the_words_were_kept_is_called_the_same_way(project: Project) -> None:
    job = project.run(
        "--bench-reuse", "-k", "right or wrong", "--bench-job-name", "old", "--bench-scenario", "right,slow"
    )
    path = project.path / "reports" / "jobs" / job / "job.json"
    record = json.loads(path.read_text())
    kept = record["invocation"]
    assert kept["settings"] == {"reuse": True, "name": "old", "scenarios": ["right,slow"]}
    assert kept["rest"][-2:] == ["-k", "right or wrong"]
    shown = project.benchjobs("rerun", "last", "--print-command").stdout
    assert (
        "-k 'right or wrong' --bench-scenario=right,slow --bench-force --bench-job-name=old --bench-parent"
        in shown
    )
    old = {name: value for name, value in kept.items() if name not in ("settings", "rest")}
    path.write_text(json.dumps({**record, "invocation": old}))
    assert project.benchjobs("rerun", "last", "--print-command").stdout == shown


def test_a_job_that_runs_is_left_alone(project: Project) -> None:
    project.stay.touch()
    process = project.bench.start()
    try:
        until(lambda: paths(project.path, RESULTS))
        for command in ("resume", "rerun", "rescore"):
            done = project.benchjobs(command, "last")
            assert (done.returncode, done.stdout) == (2, "")
            assert done.stderr == (
                f"benchjobs: job {project.job()['id']} is running; see `benchjobs watch {project.job()['id']}`\n"
            )
    finally:
        project.stay.unlink()
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 1


def test_a_job_goes_on_in_the_background(project: Project, interrupted: str) -> None:
    log = project.path / "reports" / "jobs" / interrupted / "pytest.log"
    log.write_text("of before\n")
    done = project.benchjobs("resume", "last", "--detach", "-o", "json", "--env-vars", "GREETING=hi")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, schema_of("detach"))
    assert document["job"] == interrupted
    project.until(interrupted, "status", "completed")
    assert project.ran() == ["broken hi", "slow hi"]
    until(lambda: "unsolved" in log.read_text())  # the job has ended, its process has not
    assert log.with_name("pytest-1.log").read_text() == "of before\n"


def test_everything_is_run_again_as_a_job_of_its_own(project: Project) -> None:
    first = project.run("--bench-reuse")
    assert project.ran() == ["broken", "right", "slow", "wrong"]
    done = project.benchjobs("rerun", "last", "-o", "json")
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, schema_of("summary"))
    assert document["parent"] == first
    assert project.ran() == ["broken", "right", "slow", "wrong"]
    record = project.job()
    assert record["id"] != first
    assert (record["parent"], record["planned"], record["totals"]["reused"]) == (first, 4, 0)


def test_some_are_run_again(project: Project) -> None:
    first = project.run("--bench-scenario", "*")
    project.ran()
    for arguments, expected in (
        (("--errors",), ["broken"]),
        (("--failed", "--errors"), ["broken", "wrong"]),
        (("--scenarios", "right", "slow"), ["right", "slow"]),
        (("--failed", "--scenario", "wrong"), ["wrong"]),
        (("--", "-k", "slow"), ["slow"]),
    ):
        done = project.benchjobs("rerun", first, *arguments)
        assert done.returncode in (0, 1), done.stderr
        assert project.ran() == expected


def test_where_nothing_failed_there_is_nothing_to_run_again(project: Project) -> None:
    project.run("--bench-scenario", "right")
    before = project.job()
    for arguments, what in ((("--failed",), "failed"), (("--errors",), "ended in an error")):
        done = project.benchjobs("rerun", "last", *arguments)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr == f"no trial of job {before['id']} {what}; there is nothing to do\n"
    assert project.job() == before
    unknown = project.benchjobs("rerun", "last", "--scenario", "rihgt")
    assert unknown.returncode == 2
    assert "has no trial of scenario 'rihgt'" in unknown.stderr
    assert "right" in unknown.stderr


@pytest.mark.parametrize(
    "drawn",
    [("--bench-sample", "50%"), ("--bench-extra", '{"per_benchmark": {"four": {"sample": "50%"}}}')],
    ids=["of all", "of a benchmark"],
)
def test_of_a_sample_no_sample_is_drawn(project: Project, drawn: tuple[str, ...]) -> None:
    project.run(*drawn)
    sample = project.ran()
    assert len(sample) == 2
    assert project.benchjobs("rerun", "last").returncode in (0, 1)
    assert project.ran() == sample


def test_a_rerun_is_run_again_and_finished_like_any_other(project: Project) -> None:
    project.run()
    project.benchjobs("rerun", "last", "--failed", "--errors")
    assert sorted(project.outcomes()) == ["broken", "wrong"]
    project.ran()
    project.benchjobs("rerun", "last", "--failed")
    assert project.ran() == ["wrong"]
    project.benchjobs("resume", "last~1")
    assert project.ran() == ["broken"]


def test_last_means_what_it_meant_when_a_job_began(project: Project) -> None:
    first = project.run("--bench-job-name", "same")
    project.run("--bench-from", "last:error", "--bench-job-name", "same")
    assert sorted(project.outcomes()) == ["broken"]
    project.run("--bench-from", "same:error", "--bench-scenario", "broken", "--bench-job-name", "same")
    project.ran()
    shown = project.benchjobs("resume", "last~1", "--print-command")
    assert f"--bench-from {first}:error" in shown.stdout
    project.benchjobs("resume", "last")
    assert project.ran() == ["broken"]


def test_a_job_whose_process_died_is_run_again_with_all_that_had_ended(
    project: Project, interrupted: str
) -> None:
    # The history may be behind what is on disk: what it lacks is looked for first.
    done = project.benchjobs("rerun", interrupted, "--failed", "--env-vars", "GREETING=hello")
    assert done.returncode == 1, done.stderr
    assert project.ran() == ["wrong hello"]
    assert project.job(interrupted)["status"] == "failed"


def test_the_name_of_a_job_may_have_a_colon(project: Project) -> None:
    first = project.run("--bench-job-name", "night: one")
    project.run("--bench-from", "night: one", "--bench-scenario", "broken")
    shown = project.benchjobs("resume", "last", "--print-command")
    assert f"--bench-from {first}\n" in shown.stdout


def test_a_rerun_in_the_background_says_which_job_it_is(project: Project) -> None:
    first = project.run("--bench-scenario", "right")
    done = project.benchjobs("rerun", first, "--detach", "-o", "json")
    assert done.returncode == 0, done.stderr
    job = json.loads(done.stdout)["job"]
    project.until(job, "status", "completed")
    assert (project.job(job)["parent"], project.outcomes(job)) == (first, {"right": "passed"})


def test_trials_that_were_kept_are_graded_by_the_scorers_of_now(project: Project) -> None:
    first = project.run("--bench-keep", "failed")
    project.ran()
    project.write(wrong="grep -q 1 out.txt")
    done = project.benchjobs("rescore", "last")
    assert "2 of 4 trials were kept; the others are skipped\n" in done.stderr
    assert "other scores now: wrong[oracle] 0.0 -> 1.0" in done.stdout
    assert project.ran() == []
    assert project.outcomes() == {"right": "skipped", "slow": "skipped", "wrong": "passed", "broken": "error"}
    record = project.job()
    assert (record["parent"], record["id"] != first) == (first, True)

    refused = project.benchjobs("resume", "last")
    assert refused.returncode == 2
    assert f"benchjobs rescore {first}" in refused.stderr


def test_what_was_kept_and_is_gone_is_skipped_like_what_never_was(project: Project) -> None:
    first = project.run("--bench-keep", "always", "--bench-scenario", "right", "--bench-scenario", "wrong")
    for about in (project.path / "kept").glob("*/kept.json"):
        if "right" in json.loads(about.read_text())["labels"]["trial"]:
            shutil.rmtree(about.parent)
    again = project.benchjobs("rescore", first)
    assert project.outcomes() == {"right": "skipped", "wrong": "failed"}
    assert (
        f"Of 2 trials of job {first}, 1 were graded again and 1 were not kept; those are in no figure here. Mean of the "
        f"same 1 trial: 0.000 then, 0.000 now (all of job {first}: 0.500)"
    ) in again.stdout
    (path,) = (project.path / "reports/jobs" / project.job()["id"]).glob("trials/*/right/1/result.json")
    result = json.loads(path.read_text())
    assert (result["failure"]["class"], result["kept"], result["rescored"]) == ("not_kept", None, None)
    assert "is not there any more" in result["failure"]["message"]


def test_one_that_was_graded_beside_processes_of_its_agent_is_not_graded_without_them(
    project: Project,
) -> None:
    first = project.run("--bench-keep", "always", "--bench-scenario", "right")
    (path,) = (project.path / "reports/jobs" / first).glob("trials/*/right/1/result.json")
    result = json.loads(path.read_text())
    result["agent_end"]["leftovers"] = ["server"]
    path.write_text(json.dumps(result))
    project.benchjobs("rescore", first)
    assert project.outcomes() == {"right": "skipped"}


def test_only_some_are_graded_again(project: Project) -> None:
    project.run("--bench-keep", "always")
    project.ran()
    assert project.benchjobs("rescore", "last", "--scenario", "right").returncode == 0
    assert project.outcomes() == {"right": "passed"}
    assert project.ran() == []


def test_where_nothing_was_kept_there_is_nothing_to_grade(project: Project) -> None:
    first = project.run("--bench-scenario", "right")
    done = project.benchjobs("rescore", "last")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"benchjobs: nothing was kept of job {first}")
    advice = f"benchjobs rerun {first} --keep always"
    assert advice in done.stderr
    for what in (first, "right"):
        shell = project.benchjobs("shell", what, "--", "true")
        assert shell.returncode == 2
        assert "run it again: benchjobs rerun " in shell.stderr
    assert project.benchjobs(*advice.split()[1:]).returncode == 0
    assert project.benchjobs("rescore", "last").returncode == 0
    assert project.outcomes() == {"right": "passed"}


def test_a_clone_has_the_settings_of_its_job_but_those_that_are_changed(bench: Bench) -> None:
    bench.toy()
    bench.run(
        "--bench", "toy.bench.yaml", "--bench-scenario", "solved", "--bench-attempts", "2", "--bench-job-name", "first",
        "--bench-reuse", "-v",
    )  # fmt: skip
    first = bench.job()["job"]
    again = bench.benchjobs("clone", "first")
    assert again.returncode == 0, again.stderr
    same = bench.job()["job"]
    assert (same["parent"], same["name"], same["config"]["attempts"]) == (first["id"], "first", 2)
    assert {result["reused"] is None for result in bench.results()} == {True}
    assert "::solved[oracle-2] PASSED" in again.stdout  # -v is there, too
    other = bench.benchjobs("clone", "first", "--agent", "nop", "--attempts", "1", "-n", "second")
    assert other.returncode == 1, other.stderr
    changed = bench.job()["job"]
    assert (changed["name"], changed["config"]["attempts"]) == ("second", 1)
    assert [node_id.rpartition("::")[2] for node_id in bench.outcomes()] == ["solved[nop]"]
    shown = bench.benchjobs("clone", "first", "--bench-attempts", "3", "--print-command", "--", "-x")
    assert "--bench-attempts=3" in shown.stdout.split()
    assert "-x" in shown.stdout.split()
    for arguments, message in (
        (("--attempts", "0"), "benchjobs: --attempts: must be at least 1, not 0"),
        (("--agent", "oracel"), "ERROR: --bench-agent: there is no agent 'oracel'; did you mean 'oracle'?"),
    ):
        done = bench.benchjobs("clone", "first", *arguments)
        assert (done.returncode, message in done.stderr.splitlines()) == (2, True), done.stderr
    bench.run("toy.bench.yaml", "--bench-scenario", "solved")
    done = bench.benchjobs("clone", "last", "--benchmark", "toy")
    assert done.returncode == 2
    assert "was given paths (toy.bench.yaml), which --benchmark cannot replace; " in done.stderr
