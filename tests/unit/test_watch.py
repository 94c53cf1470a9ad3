"""`benchjobs watch` where there is no terminal: lines and documents."""

from __future__ import annotations

import datetime
import importlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from pytest_benchjobs.cli.watch import _Choice
from pytest_benchjobs.job.follow import Following
from pytest_benchjobs.model.job import JobStatus, Owner
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.policy import parse_policy
from pytest_benchjobs.model.result import Failure, Outcome, ScorerResult
from pytest_benchjobs.report.documents import schema_of

from ..console import COMMAND
from .cli import Cli, cli
from .watched import JOB, WatchedJob

__all__ = ["cli"]

Step = Callable[[], object]


class Clock:
    """Stands for `time` in `watch`: a second passes between two looks, and meanwhile the job takes a step."""

    def __init__(self, steps: list[Step]) -> None:
        self.now = 0.0
        self.steps = steps

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += 1.0
        assert self.steps, "the watcher waits for nothing"
        self.steps.pop(0)()


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """What the job does between two looks."""
    found: list[Step] = []
    monkeypatch.setattr(importlib.import_module("pytest_benchjobs.cli.watch"), "time", Clock(found))
    return found


@pytest.fixture
def job(tmp_path: Path) -> WatchedJob:
    return WatchedJob(tmp_path)


def pause() -> None:
    pass


def dead_owner() -> Owner:
    """A process that is no more."""
    return current_owner().model_copy(update={"started": "never"})


def test_each_trial_gets_a_line_and_the_end_a_table(cli: Cli, job: WatchedJob, steps: list[Step]) -> None:
    job.fly("one")
    steps += [
        lambda: job.land("one"),
        lambda: job.land("one", "nop", Outcome.FAILED),
        lambda: (job.land("two", outcome=Outcome.ERROR), job.land("two", "nop", Outcome.CANCELLED)),
        job.end,
    ]
    out, err = cli("watch")
    lines, _, table = out.partition("\n\n")
    first, *rest = lines.splitlines()
    assert first.startswith("0/4 trials (0 passed, 0 failed, 0 errors), 1 running, mean -, spend -, elapsed ")
    assert rest == [
        "1/4 passed one oracle a1 score 1.0 2.0s",
        "2/4 failed one nop a1 score 0.25 (below_threshold) 2.0s",
        "3/4 error two oracle a1 score - (engine_lost) 2.0s",
        "4/4 cancelled two nop a1 score - (cancelled) 2.0s",
    ]
    assert f"Job ID:    {JOB}" in table
    assert "oracle" in table
    assert err == f"Every scenario: `benchjobs summary -e {JOB} --dir {job.directory}`\n"


def test_progress_is_told_again_at_every_interval(cli: Cli, job: WatchedJob, steps: list[Step]) -> None:
    job.fly("one")
    steps += [pause, pause, lambda: job.land("one", "nop", Outcome.FAILED), pause, pause, pause, job.end]
    lines = cli("watch", "--interval", 3).out.partition("\n\n")[0].splitlines()
    assert [line.partition(", elapsed")[0] for line in lines] == [
        "0/4 trials (0 passed, 0 failed, 0 errors), 1 running, mean -, spend -",
        "1/4 failed one nop a1 score 0.25 (below_threshold) 2.0s",
        "1/4 trials (0 passed, 1 failed, 0 errors), 1 running, mean 0.250, spend -",
        "1/4 trials (0 passed, 1 failed, 0 errors), 1 running, mean 0.250, spend -",
    ]


def test_a_trial_whose_event_went_with_the_job_gets_its_line_too(
    cli: Cli, job: WatchedJob, steps: list[Step]
) -> None:
    job.fly("one")
    steps += [lambda: job.land("one"), lambda: (job.land("two", told=False), job.end())]
    assert cli("watch").out.partition("\n\n")[0].splitlines()[1:] == [
        "1/4 passed one oracle a1 score 1.0 2.0s",
        "2/4 passed two oracle a1 score 1.0 2.0s",
    ]


def test_what_has_ended_already_is_shown_at_once(cli: Cli, job: WatchedJob, steps: list[Step]) -> None:
    job.land("one")
    job.end()
    assert cli("watch", JOB[:12]).lines[:2] == ["Benchmark Job Results", f"Job ID:    {JOB}"]


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.TIMEOUT])
def test_a_job_that_did_not_complete_is_no_success(cli: Cli, job: WatchedJob, status: JobStatus) -> None:
    job.land("one")
    job.end(status, "of \x1b[31mthis\nand that")
    assert cli("watch", status=1).err.splitlines()[-2:] == [
        f"job {JOB} {status.value}: of this and that",
        f"`benchjobs resume {JOB} --dir {job.directory}` runs the missing trials",
    ]


def test_scores_decide_the_exit_status_only_when_asked(cli: Cli, job: WatchedJob) -> None:
    job.land("one")
    job.land("one", "nop", Outcome.FAILED)
    job.land("two", "nop", Outcome.ERROR)
    job.end()
    cli("watch")
    assert cli("watch", "--fail-on-unsolved", status=1).err.endswith("\n2 scenarios did not pass\n")


def test_what_passed_or_was_skipped_is_solved(cli: Cli, job: WatchedJob) -> None:
    job.land("one")
    job.land("two", outcome=Outcome.SKIPPED)
    job.end()
    cli("watch", "--fail-on-unsolved")


def test_the_verdict_of_several_attempts_decides_what_is_unsolved(cli: Cli, tmp_path: Path) -> None:
    job = WatchedJob(tmp_path)
    anyone = job.record.config.model_copy(update={"attempts": 2, "attempt_policy": parse_policy("any")})
    job.change(config=anyone)
    job.land("one")
    job.land("one", outcome=Outcome.FAILED, attempt=2, node_id="a.bench.yaml::one[oracle-2]", told=False)
    job.end()
    cli("watch", "--fail-on-unsolved")
    job.change(config=anyone.model_copy(update={"attempt_policy": parse_policy("all")}))
    cli("watch", "--fail-on-unsolved", status=1)


def test_whoever_runs_the_job_may_die(cli: Cli, job: WatchedJob, steps: list[Step]) -> None:
    owner = dead_owner()
    job.fly("one")
    job.land("two")
    steps += [lambda: job.change(owner=owner), *[lambda: threading.Event().wait(0.05)] * 200]
    out, err = cli("watch", status=1)
    table = [line.split() for line in out.partition("\n\n")[2].splitlines()]
    assert table[0][:3] == ["Agent", "Done", "Passed"]
    assert [row[:3] for row in table[1:]] == [
        ["oracle", "1/2", "1"],
        ["nop", "0/2", "0"],
        ["all", "1/4", "1"],
    ]
    assert err == (
        f"job {JOB} died: process {owner.pid} of {owner.host} is gone\n"
        f"`benchjobs resume {JOB} --dir {job.directory}` runs the missing trials\n"
    )


def test_a_job_that_is_taken_up_again_tells_everything_anew(
    cli: Cli, job: WatchedJob, steps: list[Step]
) -> None:
    job.land("one")
    job.land("two")

    def resume() -> None:
        (file,) = (job.bundle.root / ".flight" / "events").iterdir()
        file.unlink()
        job.change(resumed_at=(datetime.datetime.now(datetime.UTC),))
        job.events = type(job.events)(job.bundle.root)
        job.events.planned({"oracle": 2, "nop": 2})
        job.events.ended(job.results[0], now=False)

    steps += [resume, lambda: job.land("three"), job.end]
    documents = [json.loads(line) for line in cli("watch", "-o", "json", "--interval", 1).lines]
    told = [(document["totals"]["done"], document["totals"]["before"]) for document in documents]
    assert told == [(2, 0), (1, 1), (2, 1), (3, 1)]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_documents_are_valid_and_all_there_is_on_stdout(
    cli: Cli, job: WatchedJob, steps: list[Step], output: str
) -> None:
    job.fly("one", phase="score:right")
    steps += [
        lambda: job.land("one"),
        lambda: (job.land("two", "nop", Outcome.ERROR), job.fly("two")),
        lambda: job.end(JobStatus.CANCELLED, "stopped by `benchjobs cancel`"),
    ]
    out, err = cli("watch", "-o", output, "--interval", 1, status=1)
    documents: list[dict[str, Any]]
    if output == "json":
        documents = [json.loads(line) for line in out.splitlines()]
    else:
        assert out.startswith("---\n")
        documents = list(yaml.safe_load_all(out))
    for document in documents:
        jsonschema.validate(document, schema_of("watch"))
    assert [document["totals"]["done"] for document in documents] == [0, 1, 2, 2]
    assert [len(document["in_flight"]) for document in documents] == [1, 0, 1, 0]
    assert documents[0]["in_flight"][0]["phase"] == "score:right"
    assert documents[2]["lately"][-1]["class"] == "engine_lost"
    assert [document["status"] for document in documents] == ["running"] * 3 + ["cancelled"]
    assert f"job {JOB} cancelled: stopped by `benchjobs cancel`" in err


def test_hostile_text_reaches_no_terminal(cli: Cli, tmp_path: Path, steps: list[Step]) -> None:
    evil = "\x1b]0;owned\x07\x1b[31m[bold]x[/bold]\n\u202egnp"
    job = WatchedJob(tmp_path, name=evil)
    job.land("one", outcome=Outcome.FAILED, failure=Failure(class_=evil, message=evil))
    steps += [pause, job.end]
    out, err = cli("watch", "--interval", 1)
    assert (out + err).replace("\n", "").isprintable()
    assert "1/4 failed one oracle a1 score 0.25 ([bold]x[/bold] gnp) 2.0s\n" in out


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [*COMMAND, "watch", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("output", ["text", "json"])
def test_ctrl_c_says_how_to_come_back(job: WatchedJob, output: str) -> None:
    job.fly("one")
    with start("--dir", job.directory, "-o", output) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it watches
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == f"The job continues. `benchjobs watch {JOB} --dir {job.directory}` shows it again.\n"


def test_lines_are_written_at_once(job: WatchedJob) -> None:
    job.fly("one")
    with start("--dir", job.directory) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("0/4 trials")
        job.land("one")
        assert process.stdout.readline() == "1/4 passed one oracle a1 score 1.0 2.0s\n"
        job.end()
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_silence_counts_only_while_somebody_should_speak(tmp_path: Path) -> None:
    job = WatchedJob(tmp_path, begun=False)
    long_ago = (job.bundle.root / "job.json").stat().st_mtime - 100
    os.utime(job.bundle.root / "job.json", (long_ago, long_ago))
    assert Following(tmp_path, JOB).silence() == 0
    job.change(status=JobStatus.RUNNING)
    os.utime(job.bundle.root / "job.json", (long_ago, long_ago))
    assert Following(tmp_path, JOB).silence() >= 100
    (job.bundle.root / ".heartbeat").touch()
    assert Following(tmp_path, JOB).silence() < 100


def test_keys_choose_a_trial_and_enter_opens_it() -> None:
    choice = _Choice()
    listed = ["a", "b", "c"]
    choice.press("\x1b[B", listed)
    assert (choice.node_id, choice.is_open) == ("a", False)
    choice.press("\x1b[Bjjj", listed)
    assert choice.node_id == "c"
    choice.press("\x1bOAk\x1b[A", listed)
    assert choice.node_id == "a"
    choice.press("\r", listed)
    assert choice.is_open
    choice.press("\x1b", listed)
    assert not choice.is_open
    choice.press("\r", ["d"])
    assert (choice.node_id, choice.is_open) == ("d", True)
    empty = _Choice()
    empty.press("\r\x1b[B", [])
    assert (empty.node_id, empty.is_open) == (None, False)


def test_the_log_of_a_trial_is_that_of_its_agent_and_then_of_its_scorers(tmp_path: Path) -> None:
    job = WatchedJob(tmp_path)
    trial = job.fly("slow")
    files = job.bundle.begin(trial)
    following = Following(tmp_path, JOB)
    following.look()
    (flying,) = following.live.flying.values()
    assert following.trial_log(flying, 10) == ()
    files.layout.agent_log.write_text("".join(f"line {number}\n" for number in range(50)) + "\x1b[31mred")
    assert following.trial_log(flying, 3) == ("line 48", "line 49", "red")
    scorer = ScorerResult(name="right", type="bash", weight=1, score=0.0, output="wrong\n")
    job.land("sudden", outcome=Outcome.FAILED, scorers=(scorer,))
    following.look()
    (landed,) = following.live.lately
    assert following.trial_log(landed, 10) == (
        "so it was",
        "",
        "last lines of scorer right (scorers/right/output.log):",
        "wrong",
    )


def test_nothing_of_a_confidential_trial_is_quoted_while_it_runs_or_after(tmp_path: Path) -> None:
    job = WatchedJob(tmp_path)
    trial = job.fly("open")
    trial = trial.model_copy(update={"scenario": trial.scenario.model_copy(update={"confidential": True})})
    job.events.phase(trial, "agent")
    job.bundle.begin(trial).layout.agent_log.write_text("the question\n")
    following = Following(tmp_path, JOB)
    following.look()
    (flying,) = following.live.flying.values()
    assert following.trial_log(flying, 10) == ("Its benchmark is confidential: nothing is quoted",)
    job.land("open", outcome=Outcome.FAILED, confidential=True)
    following.look()
    (landed,) = following.live.lately
    assert following.trial_log(landed, 10) == ("Its benchmark is confidential: nothing is quoted",)
