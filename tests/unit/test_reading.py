from __future__ import annotations

import datetime
import json
import os
import pty
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.event import Ended, PhaseBegan, Planned
from pytest_benchjobs.model.job import JobStatus, Overrides
from pytest_benchjobs.model.known_failure import Known, KnownMode
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.result import Failure, Origin, Outcome
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.report.markdown import summary_markdown
from pytest_benchjobs.report.units import ago, cost
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.layout import JobLayout, Layout

from .jobs import documents, ended, make_job, run
from .records import NOW

FIRST, SECOND, THIRD = "20261121-054712-4f9a2c", "20261121-064712-aaaaaa", "20261122-000000-bbbbbb"
CODEX = "codex:gpt-5.5"
MAIN = "from pytest_benchjobs.cli import main; main()"


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """Three jobs, the oldest of three days ago."""
    make_job(tmp_path, FIRST, {"oracle": {"count": "P", "sums": "H"}}, hours_ago=75, name="nightly")
    make_job(
        tmp_path,
        SECOND,
        {"oracle": {"count": "P", "sums": "P"}, CODEX: {"count": "E", "sums": "F"}},
        hours_ago=3,
        status=JobStatus.FAILED,
    )
    make_job(
        tmp_path,
        THIRD,
        {"nop": {"count": "C"}},
        hours_ago=0.5,
        name="nightly",
        status=JobStatus.CANCELLED,
        planned=4,
    )
    return tmp_path


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def ids(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.split()[0] for line in lines(capsys)[1:-1]]


# list


def test_jobs_of_the_last_day_are_listed_the_oldest_first(
    capsys: pytest.CaptureFixture[str], jobs: Path
) -> None:
    assert run("list", "--dir", jobs) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "ID                      NAME     STARTED  STATUS     AGENT               DONE  ERRORS          SCORE",
        "20261121-064712-aaaaaa  -        3h ago   failed     oracle, ...gpt-5.5   4/4       1  1.000 / 0.000",
        "20261122-000000-bbbbbb  nightly  30m ago  cancelled  nop                  1/4       0            N/A",
        "2 jobs",
    ]
    assert err == ""


def test_a_list_says_of_what_and_of_whom_each_job_is_and_has_no_mean_over_agents(
    capsys: pytest.CaptureFixture[str], jobs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    make_job(jobs, "20261123-000000-cccccc", {"oracle": {"count": "P", "sums": "H", "skipped": "S"}})
    assert run("list", "--all", "--dir", jobs) == 0
    rows = [line.split("  ") for line in lines(capsys)[1:-1]]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert [(row[4], row[5], row[-1]) for row in cells] == [
        ("texts", "oracle", "0.625"),
        ("texts", f"oracle, {CODEX}", "1.000 / 0.000"),
        ("texts", "oracle", "0.625 of 2"),
        ("texts", "nop", "N/A"),
    ]
    found = documents(capsys, "list", "list", "--all", "--dir", jobs)["jobs"]
    assert [job["scores"] for job in found] == [
        {"oracle": 0.625},
        {"oracle": 1.0, CODEX: 0.0},
        {"oracle": 0.625},
        {},
    ]


@pytest.fixture
def looked_at(jobs: Path) -> list[str]:
    """Ids of jobs of a selection, the oldest first, beside `jobs`: the last but one runs, the last has failed."""
    made = [f"20261121-{hour:02}0000-eeeeee" for hour in (7, 8, 9, 10)]
    for number, job_id in enumerate(made):
        status = (JobStatus.COMPLETED, JobStatus.CANCELLED, JobStatus.RUNNING, JobStatus.FAILED)[number]
        hours_ago = (90, 2.5, 2, 1)[number]
        make_job(
            jobs,
            job_id,
            {"oracle": {"count": "P"}},
            hours_ago=hours_ago,
            status=status,
            narrowed=True,
            partial=True,
        )
    return made


def test_jobs_of_a_selection_do_not_bury_the_others(
    capsys: pytest.CaptureFixture[str], jobs: Path, looked_at: list[str]
) -> None:
    older, old, running, newest = looked_at
    for arguments, expected, more in [
        ([], [SECOND, running, newest, THIRD], 1),
        (["--all"], [FIRST, SECOND, running, newest, THIRD], 2),
        (["--selections"], [SECOND, old, running, newest, THIRD], 0),
        (["--all", "--selections"], [older, FIRST, SECOND, old, running, newest, THIRD], 0),
        (["--all", "--limit", "2"], [newest, THIRD], 2),
        (["--all", "--status", "cancelled"], [THIRD], 1),
        (["--all", "--status", "failed"], [SECOND, newest], 0),
    ]:
        document = documents(capsys, "list", "list", "--dir", jobs, *arguments)
        assert [job["id"] for job in document["jobs"]] == expected, arguments
        assert document["earlier_selections"] == more, arguments
        assert {job["id"] for job in document["jobs"] if job["selection"]} == {*looked_at} & {*expected}
    run("list", "--dir", jobs, "--all")
    shown = lines(capsys)
    assert [line.split()[1] for line in shown[1:6]] == [
        "nightly", "-", "(selection)", "(selection)", "nightly",
    ]  # fmt: skip
    assert shown[-2:] == [
        "5 jobs",
        "not listed: 2 earlier jobs of a selection of scenarios (-k, -m, --lf, ids); --selections lists them",
    ]
    run("list", "--dir", jobs)
    assert lines(capsys)[-1].startswith("not listed: 1 earlier job of a selection")


def test_a_scenario_whose_attempts_have_not_all_ended_is_no_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    make_job(tmp_path, FIRST, {"oracle": {"count": "P.", "sums": "PP", "lost": "F."}}, planned=6)
    assert run("summary", "-e", "--dir", tmp_path) == 0
    shown = [line.split() for line in lines(capsys)]
    assert [words for words in shown if words[1:2] in (["count"], ["lost"], ["sums"])] == [
        ["-", "count", "score=1.0", "1", "of", "2", "attempts", "ended"],
        ["✗", "lost", "score=0.0", "below_threshold,", "1", "of", "2", "attempts", "ended"],
        ["✓", "sums", "score=1.0", "(1.0", "1.0)"],
    ]


def test_a_job_that_was_graded_again_in_part_compares_like_with_like(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    make_job(tmp_path, FIRST, {"oracle": {"count": "F", "sums": "P", "more": "P"}}, hours_ago=3)
    origin = Origin(job=FIRST, path="trials/oracle/count/1", finished_at=NOW)
    lost = {"failure": Failure(class_="not_kept", message="nothing was kept")}
    again = [ended("P", rescored=origin), ended("S", "sums", **lost), ended("S", "more", **lost)]
    make_job(tmp_path, SECOND, again, parent=FIRST)
    assert run("summary", "--dir", tmp_path) == 0
    line = (
        f"Of 3 trials of job {FIRST}, 1 were graded again and 2 were not kept; those are in no figure here. Mean of the "
        f"same 1 trial: 0.000 then, 1.000 now (all of job {FIRST}: 0.667)"
    )
    assert line in lines(capsys)
    assert documents(capsys, "summary", "summary", "--dir", tmp_path)["rescored"] == line
    assert documents(capsys, "summary", "summary", FIRST, "--dir", tmp_path)["rescored"] is None


@pytest.mark.parametrize(
    ("letters", "end"),
    [("EEE", ""), ("PEF", f" (all of job {FIRST}: 0.500)"), ("EEP", f" (all of job {FIRST}: 1.000)")],
)
def test_what_had_no_score_before_has_no_mean_then(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, letters: str, end: str
) -> None:
    """Unless each of the same trials had one, the means are not of the same."""
    make_job(
        tmp_path, FIRST, {"oracle": dict(zip(("count", "sums", "more"), letters, strict=True))}, hours_ago=3
    )
    origin = Origin(job=FIRST, path="trials/oracle/count/1", finished_at=NOW)
    lost = {"failure": Failure(class_="not_kept", message="nothing was kept")}
    again = [ended("P", rescored=origin), ended("F", "sums", rescored=origin), ended("S", "more", **lost)]
    make_job(tmp_path, SECOND, again, parent=FIRST)
    assert documents(capsys, "summary", "summary", "--dir", tmp_path)["rescored"] == (
        f"Of 3 trials of job {FIRST}, 2 were graded again and 1 were not kept; those are in no figure here{end}"
    )


def test_whoever_reads_is_told_that_a_job_goes_on_no_more(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    make_job(tmp_path, FIRST, {"oracle": {"count": "P"}}, status=JobStatus.RUNNING, planned=2)
    bundle = JobBundle(tmp_path, FIRST)
    record = bundle.read()
    bundle.write(record.model_copy(update={"owner": current_owner()}))
    for command in (["list", "--all"], ["runs"], ["summary"]):
        assert run(*command, "--dir", tmp_path) == 0
        assert capsys.readouterr().err == ""
    gone = record.model_copy(update={"owner": current_owner().model_copy(update={"started": "never"})})
    bundle.write(gone)
    for command in (["list", "--all"], ["runs"], ["summary"], ["summary", "-o", "json"]):
        assert run(*command, "--dir", tmp_path) == 0
        assert capsys.readouterr().err == (
            f"job {FIRST} is no longer running: its process died; `benchjobs resume {FIRST}` finishes it, "
            "`benchjobs recover` closes it\n"
        )
    assert bundle.read() == gone


@pytest.mark.parametrize("dead", [False, True])
def test_every_format_tells_whether_a_job_goes_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, dead: bool
) -> None:
    make_job(tmp_path, FIRST, {"oracle": {"count": "P"}}, status=JobStatus.RUNNING, planned=2)
    bundle = JobBundle(tmp_path, FIRST)
    owner = current_owner()
    bundle.write(
        bundle.read().model_copy(
            update={"owner": owner.model_copy(update={"started": "never"}) if dead else owner}
        )
    )
    said = []
    for command, where in ((["list", "--all"], "jobs"), (["runs"], "runs"), (["summary"], None)):
        run(*command, "--dir", tmp_path, "-o", "json")
        document = json.loads(capsys.readouterr().out)
        found = document if where is None else document[where][0]
        said.append((found["status"], found["dead"]))
    assert said == [("running", dead)] * 3
    run("list", "--all", "--dir", tmp_path)
    assert ("died" in capsys.readouterr().out) is dead
    run("runs", "--dir", tmp_path)
    assert ("died" in capsys.readouterr().out) is dead
    run("summary", "--dir", tmp_path)
    assert ("Status:    running (its process died)" in capsys.readouterr().out) is dead


@pytest.mark.parametrize(
    ("arguments", "waits", "status"),
    [
        (("gate", FIRST, "--min-score", "0.5"), "it can be judged when it has ended", 2),
        (("baseline", "set", FIRST), "it is still running", 2),
        (("compare", FIRST, SECOND), "", 0),
    ],
)
def test_nobody_is_told_to_wait_for_a_job_that_died(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: tuple[str, ...], waits: str, status: int
) -> None:
    owner = current_owner()
    job = make_job(tmp_path, FIRST, {"oracle": {"count": "P"}}, status=JobStatus.RUNNING, owner=owner)
    make_job(tmp_path, SECOND, {"oracle": {"count": "F"}})
    died = f"job {FIRST} is no longer running: its process died; `benchjobs resume {FIRST}` finishes it, `benchjobs recover`"
    assert run(*arguments, "--dir", tmp_path) == status
    said = capsys.readouterr().err
    assert waits in said
    assert died not in said
    JobBundle(tmp_path, FIRST).write(
        job.model_copy(update={"owner": owner.model_copy(update={"started": "never"})})
    )
    assert run(*arguments, "--dir", tmp_path) == status
    (line,) = capsys.readouterr().err.splitlines()[: 1 + (status == 2)]
    assert died in line


def test_days_all_status_and_limit_choose_jobs(capsys: pytest.CaptureFixture[str], jobs: Path) -> None:
    for arguments, expected in [
        (["--days", "2"], [SECOND, THIRD]),
        (["--days", "4"], [FIRST, SECOND, THIRD]),
        (["--all"], [FIRST, SECOND, THIRD]),
        (["--all", "--days", "1"], [FIRST, SECOND, THIRD]),
        (["--days", "1000000"], [FIRST, SECOND, THIRD]),
        (["--all", "--limit", "2"], [SECOND, THIRD]),
        (["--all", "--status", "completed, failed"], [FIRST, SECOND]),
        (["--all", "--status", "completed", "--status", "CANCELED"], [FIRST, THIRD]),
    ]:
        assert run("list", "--dir", jobs, *arguments) == 0
        assert ids(capsys) == expected, arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--days", "0"], "benchjobs: Invalid value for '--days': 0 is not in the range x>=1"),
        (["--days", "x"], "benchjobs: Invalid value for '--days': 'x' is not a valid integer"),
        (["--limit", "-1"], "benchjobs: Invalid value for '--limit': -1 is not in the range x>=1"),
        (["--status", "compleat"], "benchjobs: invalid status 'compleat' (did you mean completed?); valid are initi"),
        (["--status", "failed,"], "benchjobs: invalid status ''; valid are initializing, queued, running, comple"),
    ],
)  # fmt: skip
def test_a_wrong_filter_is_one_line(
    capsys: pytest.CaptureFixture[str], jobs: Path, arguments: list[str], message: str
) -> None:
    assert run("list", "--dir", jobs, *arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(message)


def test_no_jobs_is_no_error(capsys: pytest.CaptureFixture[str], jobs: Path) -> None:
    assert run("list", "--dir", jobs, "--status", "timeout") == 0
    assert capsys.readouterr() == ("No benchmark jobs found\n", "")
    nowhere = jobs / "nowhere"
    assert run("list", "--dir", nowhere, "--all") == 0
    assert capsys.readouterr() == ("No benchmark jobs found\n", f"there are no results in {nowhere}\n")
    assert not nowhere.exists()


@pytest.mark.parametrize(
    "command", [("list",), ("list", "--all"), ("runs",), ("summary", "nightly"), ("summary",)]
)
@pytest.mark.parametrize("state", ["is not there", "is empty", "knows no job"])
def test_a_history_that_lost_the_jobs_is_an_error_that_says_what_to_do(
    capsys: pytest.CaptureFixture[str], jobs: Path, state: str, command: tuple[str, ...]
) -> None:
    for file in jobs.glob("history.sqlite*"):
        file.unlink()
    if state == "is empty":
        Layout(jobs).history.touch()
    if state == "knows no job":
        History.of(jobs).close()
    assert run(*command, "--dir", jobs) == 2
    said = (
        f"benchjobs: {Layout(jobs).history}: {state}. The results themselves are safe in jobs/: "
        "`benchjobs db rebuild` rebuilds the history from them\n"
    )
    assert capsys.readouterr() == ("", said)
    assert run("db", "rebuild", "--dir", jobs) == 0
    assert run(*command, "--dir", jobs) == 0


@pytest.mark.parametrize("command", [("list", "--all", "-o", "json"), ("--help",)], ids=" ".join)
def test_a_full_disk_behind_stdout_is_one_line(jobs: Path, command: tuple[str, ...]) -> None:
    where = () if command == ("--help",) else ("--dir", str(jobs))
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", MAIN, *command, *where],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        1,
        "benchjobs: stdout: cannot be written: No space left on device\n",
    )


def test_an_empty_file_is_a_history_where_there_are_no_jobs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    Layout(tmp_path).history.touch()
    assert run("list", "--dir", tmp_path) == 0
    assert capsys.readouterr().out == "No benchmark jobs found\n"


@pytest.mark.parametrize(
    ("back", "text"),
    [
        ({"seconds": 59}, "just now"),
        ({"seconds": -5}, "just now"),
        ({"minutes": 5}, "5m ago"),
        ({"minutes": 59, "seconds": 59}, "59m ago"),
        ({"hours": 3}, "3h ago"),
        ({"hours": 24}, "1d ago"),
        ({"days": 6, "hours": 23}, "6d ago"),
        ({"days": 7}, "Nov 14"),
        ({"days": 400}, "Oct 17 2025"),
    ],
)
def test_times_are_told_as_people_do(back: dict[str, float], text: str) -> None:
    now = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
    assert ago(now - datetime.timedelta(**back), now) == text


def test_costs_are_told_as_people_do() -> None:
    assert [cost(None), cost(0.0), cost(0.0031), cost(1.2), cost(1.2, more=True)] == [
        "-", "$0.00", "$0.0031", "$1.20", "$1.20+",
    ]  # fmt: skip


# runs


def test_runs_are_sorted_by_agent_and_id(capsys: pytest.CaptureFixture[str], jobs: Path) -> None:
    assert run("runs", "--dir", jobs) == 0
    assert lines(capsys) == [
        "RUN                       BENCHMARK  AGENT          STATUS     PASSED  ERRORS  SCORE  COST  TIME",
        "20261121-064712-aaaaaa.2  texts      codex:gpt-5.5  failed        0/2       1  0.000     -  4.0s",
        "20261122-000000-bbbbbb.1  texts      nop            cancelled     0/1       0    N/A     -  2.0s",
        "20261121-054712-4f9a2c.1  texts      oracle         completed     1/2       0  0.625     -  4.0s",
        "20261121-064712-aaaaaa.1  texts      oracle         failed        2/2       0  1.000     -  4.0s",
        "4 runs",
    ]


def test_runs_are_sorted_and_chosen(capsys: pytest.CaptureFixture[str], jobs: Path) -> None:
    for arguments, expected in [
        (["--sort", "score", "--desc"], [f"{SECOND}.1", f"{FIRST}.1", f"{SECOND}.2", f"{THIRD}.1"]),
        (["--sort", "agent,run_id", "--limit", "1"], [f"{SECOND}.2"]),
        (["--sort", "run_id"], [f"{FIRST}.1", f"{SECOND}.1", f"{SECOND}.2", f"{THIRD}.1"]),
        (["--sort", "mean_score", "--limit", "2"], [f"{SECOND}.2", f"{FIRST}.1"]),
        (["--job", SECOND[:12]], [f"{SECOND}.2", f"{SECOND}.1"]),
        (["--job", "nightly"], [f"{THIRD}.1"]),
        (["nightly"], [f"{THIRD}.1"]),
        (["--agent", CODEX], [f"{SECOND}.2"]),
        (["--benchmark", "texts", "--status", "completed"], [f"{FIRST}.1"]),
    ]:
        assert run("runs", "--dir", jobs, *arguments) == 0
        assert ids(capsys) == expected, arguments
    assert run("runs", "--dir", jobs, "nightly", "--job", "last") == 2
    assert "cannot both be given" in capsys.readouterr().err


def test_a_page_that_is_not_all_says_so_on_stderr(capsys: pytest.CaptureFixture[str], jobs: Path) -> None:
    assert run("runs", "--dir", jobs, "--limit", "4") == 0
    assert capsys.readouterr().err == ""
    assert len(documents(capsys, "runs", "runs", "--dir", jobs, "--limit", "3")["runs"]) == 3
    assert run("runs", "--dir", jobs, "--limit", "3") == 0
    assert capsys.readouterr().err == "there are more than 3 runs; --limit shows more\n"


def test_an_agent_nobody_ran_is_a_hint(capsys: pytest.CaptureFixture[str], jobs: Path) -> None:
    assert run("runs", "--dir", jobs, "--agent", "codex:gpt-5") == 0
    out, err = capsys.readouterr()
    assert out == "No benchmark runs found\n"
    assert err == (
        "no runs of agent 'codex:gpt-5' (did you mean codex:gpt-5.5?); there are codex:gpt-5.5, nop, oracle\n"
    )


def test_a_wrong_column_is_one_line(capsys: pytest.CaptureFixture[str], jobs: Path) -> None:
    assert run("runs", "--dir", jobs, "--sort", "scor") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("benchjobs: there is no column 'scor' (did you mean score?); there are ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["runs", "summary", "logs", "export"])
def test_an_unknown_job_is_one_line(capsys: pytest.CaptureFixture[str], jobs: Path, command: str) -> None:
    arguments = {"runs": ["--job", "nigthly"], "export": ["nigthly", "--format", "csv"]}
    assert run(command, "--dir", jobs, *arguments.get(command, ["nigthly"])) == 2
    assert capsys.readouterr() == ("", "benchjobs: there is no job 'nigthly'. Did you mean 'nightly'?\n")


@pytest.mark.parametrize("command", ["summary", "logs", "export", "watch"])
def test_a_job_of_a_newer_version_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    make_job(tmp_path, "new", {"oracle": {"count": "P"}})
    with sqlite3.connect(Layout(tmp_path).history) as connection:
        connection.execute("UPDATE jobs SET record = json_set(record, '$.novelty', 1)")
    assert run(command, "--dir", tmp_path, "new") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "the record of job new is of another version or damaged: novelty" in err
    assert (err.count("\n"), "`benchjobs db rebuild`" in err) == (1, True)


def test_a_running_job_of_a_newer_version_is_listed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    make_job(tmp_path, "new", {"oracle": {"count": "P"}}, status=JobStatus.RUNNING)
    with sqlite3.connect(Layout(tmp_path).history) as connection:
        connection.execute(
            "UPDATE jobs SET record = json_set(record, '$.config.agents', json('[{\"x\": 1}]'))"
        )
    document = documents(capsys, "list", "list", "--dir", tmp_path)
    assert [(job["id"], job["agents"]) for job in document["jobs"]] == [("new", ["oracle"])]


@pytest.mark.parametrize("command", ["watch", "cancel", "rerun", "resume", "rescore"])
def test_a_job_without_files_is_told_from_one_that_nobody_knows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    make_job(there, "theirs", {"oracle": {"count": "P"}})
    shutil.rmtree(there / "jobs")
    assert run("merge", Layout(there).history, "--dir", here) == 0
    assert run("summary", "theirs", "--dir", here) == 0
    capsys.readouterr()
    assert run(command, "theirs", "--dir", here) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"the files of job theirs are not in {here}: it was merged without files" in err
    assert "`benchjobs summary theirs`" in err


# summary


def test_a_summary_has_a_row_for_each_agent(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trials = [
        *(ended(letter, f"s{number}") for number, letter in enumerate("PPH")),
        *(
            ended(letter, f"s{number}", CODEX, usage=Usage(cost_usd=0.5) if number else Usage())
            for number, letter in enumerate("PFEH")
        ),
    ]
    make_job(tmp_path, FIRST, trials, name="nightly", config={"metadata": {"branch": "main"}})
    assert run("summary", "last", "--dir", tmp_path) == 0
    out, err = capsys.readouterr()
    assert err == ""
    shown = out.splitlines()
    assert shown[:3] == ["Benchmark Job Results", f"Job ID:    {FIRST}", "Name:      nightly"]
    assert shown[3] == "Status:    completed"
    assert shown[4].endswith(" UTC, took 1m30s")
    assert shown[5:] == [
        "Metadata:  branch=main",
        "Trials:    7 of 7 ended",
        "",
        "Agent / Model  Passed  Partial  Failed (0.0)  Failed (error)  Total   Mean    Cost  Time",
        "oracle              2        1             0               0      3  0.750       -  6.0s",
        "codex:gpt-5.5       1        1             1               1      4  0.417  $1.50+  8.0s",
        "Mean over 2 agents: pass rate 50.0%, score 0.583",
    ]


def test_the_time_between_a_crash_and_the_resume_is_not_what_a_job_took(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    began = datetime.datetime(2026, 11, 21, 5, 47, tzinfo=datetime.UTC)
    job = make_job(
        tmp_path,
        FIRST,
        {"oracle": {"count": "P"}},
        created_at=began,
        resumed_at=(began + datetime.timedelta(hours=1),),
        finished_at=began + datetime.timedelta(hours=1, seconds=6),
    )
    assert run("summary", "--dir", tmp_path) == 0
    shown = lines(capsys)
    assert "Started:   2026-11-21 05:47 UTC" in shown
    assert "Resumed:   2026-11-21 06:47 UTC, took 6.0s since" in shown
    assert f"Job `{FIRST}`, 2026-11-21 05:47 UTC, resumed 2026-11-21 06:47 UTC, took 6.0s since." in (
        summary_markdown(job, [])
    )


def test_why_an_attempt_failed_is_no_remark_on_what_passed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    make_job(tmp_path, FIRST, {"oracle": {"count": "PT", "sums": "TF"}}, policy="any")
    assert run("summary", "-e", "--dir", tmp_path) == 0
    found = [line.split() for line in lines(capsys)]
    (count,) = (words for words in found if "count" in words)
    (sums,) = (words for words in found if "sums" in words)
    assert (count[-1], "agent_timeout," in count) == ("flaky", False)
    assert sums[-2:] == ["agent_timeout,", "below_threshold"]


def test_agents_are_in_the_order_of_the_job_and_others_behind(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    agents = tuple(AgentSpec.parse(name) for name in ("oracle", CODEX, "unused"))
    trials = [ended("P", agent=name) for name in ("zzz", "nop", CODEX, "oracle")]
    make_job(tmp_path, FIRST, trials, config={"agents": agents})
    document = documents(capsys, "summary", "summary", "last", "--dir", tmp_path)
    assert [found["agent"] for found in document["agents"]] == ["oracle", CODEX, "nop", "zzz"]
    assert [found["agent"] for found in document["runs"]] == ["oracle", CODEX, "nop", "zzz"]


def test_a_narrow_terminal_gets_a_narrow_summary(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    make_job(tmp_path, FIRST, {"claude-code:anthropic/claude-sonnet-4-5-20260929": {"count": "PPF"}})
    assert run("summary", "last", "-e", "--dir", tmp_path) == 0
    shown = lines(capsys)
    assert any(line.split() == ["Failed", "Failed"] for line in shown)
    assert max(map(len, shown)) <= 70


def test_reading_is_not_gating(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    make_job(
        tmp_path, FIRST, {"oracle": {"count": "E"}}, status=JobStatus.FAILED, message="the engine went away"
    )
    assert run("summary", "last", "--dir", tmp_path) == 0
    assert "Status:    failed: the engine went away" in lines(capsys)


def test_extended_has_a_line_for_each_scenario(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    origin = Origin(job=SECOND, path="trials/oracle/count/1", finished_at=NOW)
    make_job(
        tmp_path,
        FIRST,
        [
            ended("P"),
            ended("H", "sums"),
            ended("E", "lost"),
            ended("S", "left-out"),
            ended("P", "old", reused=origin),
            ended("F", "again", rescored=origin, kept="benchjobs/kept:1"),
        ],
    )
    assert run("summary", "last", "-e", "--dir", tmp_path) == 0
    shown = lines(capsys)
    assert shown[shown.index(f"oracle ({FIRST}.1)") + 1 :] == [
        "  ✗  again     score=0.0   below_threshold, rescored, kept",
        "  ✓  count     score=1.0",
        "  -  left-out  skipped",
        "  !  lost      error       engine_lost",
        "  ✓  old       score=1.0   reused",
        "  ✗  sums      score=0.25  below_threshold",
    ]
    assert "Trials:    6 of 6 ended, 1 reused from earlier jobs" in shown


def test_extended_may_be_limited(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    make_job(tmp_path, FIRST, {agent: {"count": "P", "sums": "P"} for agent in ("oracle", "nop")})
    assert run("summary", "last", "-e", "--limit", "3", "--dir", tmp_path) == 0
    shown = lines(capsys)
    assert [line for line in shown if line.startswith("  ✓")] == [
        "  ✓  count  score=1.0",
        "  ✓  sums   score=1.0",
        "  ✓  count  score=1.0",
    ]
    assert shown[-1] == "... and 1 scenario more"
    document = documents(capsys, "summary", "summary", "last", "-e", "--limit", "3", "--dir", tmp_path)
    assert [len(found["trials"]) for found in document["runs"]] == [2, 1]
    assert document["left_out"] == 1


def test_several_attempts_have_pass_at_k_and_flaky_scenarios(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    make_job(tmp_path, FIRST, {"oracle": {"count": "PPP", "sums": "PFF", "lost": "PE."}}, planned=9)
    assert run("summary", "last", "-e", "--dir", tmp_path) == 0
    shown = lines(capsys)
    assert "Attempts:  3, each counts" in shown
    start = shown.index("Agent / Model  pass@1  pass@2  pass@3  pass^2  pass^3")
    assert shown[start + 1 :] == [
        "oracle          0.778  0.833*  1.000*  0.500*  0.500*",
        "* without scenarios that have fewer attempts; an error does not count as one",
        "",
        "Flaky scenarios, with attempts that passed and attempts that failed:",
        "  oracle: 1 of 3",
        "",
        f"oracle ({FIRST}.1)",
        "  ✓  count  score=1.0 (1.0 1.0 1.0)",
        "  !  lost   score=1.0 (1.0 !)           engine_lost, 2 of 3 attempts ended",
        "  ✗  sums   score=0.3333 (1.0 0.0 0.0)  below_threshold, flaky",
    ]
    (figures,) = documents(capsys, "summary", "summary", "last", "--dir", tmp_path)["agents"]
    assert [(point["k"], point["scenarios"]) for point in figures["at_k"]] == [(1, 3), (2, 2), (3, 2)]
    assert figures["flaky"] == ["a.bench.yaml::sums[oracle]"]
    assert figures["verdicts"] is None


def test_known_failures_are_marked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    known = Known(mode=KnownMode.QUARANTINE, reason="r")
    trials = [ended("F", "sums").model_copy(update={"known": known}), ended("F", "plus")]
    make_job(tmp_path, FIRST, trials)
    assert run("summary", "last", "-e", "--dir", tmp_path) == 0
    remarks = {line.split()[1]: line.split()[3:] for line in lines(capsys)[-2:]}
    assert remarks == {"sums": ["below_threshold,", "known"], "plus": ["below_threshold"]}
    document = documents(capsys, "summary", "summary", "last", "-e", "--dir", tmp_path)
    found = {trial["scenario"]: trial["known"] for trial in document["runs"][0]["trials"]}
    assert found == {"sums": "quarantine", "plus": None}


def test_under_a_policy_scenarios_count_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trials = {"oracle": {"count": "FP", "sums": "FH", "lost": "FE"}}
    make_job(tmp_path, FIRST, trials, policy="any")
    assert run("summary", "last", "-e", "--dir", tmp_path) == 0
    shown = lines(capsys)
    assert "Attempts:  2, policy any: a scenario counts once, by its verdict" in shown
    row = next(line for line in shown if line.startswith("oracle  "))
    assert row.split()[:7] == ["oracle", "1", "1", "0", "1", "3", "0.312"]
    assert [line.split()[0] for line in shown[-3:]] == ["✓", "!", "✗"]
    document = documents(capsys, "summary", "summary", "last", "-e", "--dir", tmp_path)
    (figures,) = document["agents"]
    assert figures["verdicts"] == {
        "total": 3, "passed": 1, "failed": 1, "partial": 1, "zero": 0, "error": 1, "skipped": 0, "mean_score": 0.3125,
    }  # fmt: skip
    assert (figures["total"], figures["passed"]) == (6, 1)
    assert [found["outcome"] for found in document["runs"][0]["by_scenario"]] == ["passed", "error", "failed"]


def test_several_benchmarks_have_a_table_each(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trials = [ended("P"), ended("F", "sums"), ended("P", "plus").model_copy(update={"benchmark": "sums"})]
    make_job(tmp_path, FIRST, trials)
    assert run("summary", "last", "--dir", tmp_path) == 0
    rows = [line.split()[:7] for line in lines(capsys) if line.startswith(("oracle", "texts", "sums"))]
    assert rows == [
        ["oracle", "2", "0", "1", "0", "3", "0.667"],
        ["sums"],
        ["oracle", "1", "0", "0", "0", "1", "1.000"],
        ["texts"],
        ["oracle", "1", "0", "1", "0", "2", "0.500"],
    ]
    document = documents(capsys, "summary", "summary", "last", "--dir", tmp_path)
    assert [(found["benchmark"], found["total"], found["trials"]) for found in document["runs"]] == [
        ("sums", 1, None),
        ("texts", 2, None),
    ]


def test_the_effective_configuration_has_no_values_of_variables(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config: dict[str, Any] = {
        "env": {"TOKEN": "very-secret"},
        "per_benchmark": {"texts": Overrides(attempts=2)},
        "params": {"temperature": 0},
    }
    make_job(tmp_path, FIRST, {"oracle": {"count": "P"}}, config=config)
    assert run("summary", "last", "--dir", tmp_path) == 0
    assert "Configuration" not in capsys.readouterr().out
    assert run("summary", "last", "--config", "--dir", tmp_path) == 0
    out = capsys.readouterr().out
    block = out[out.index("Configuration:\n") :].splitlines()
    assert "    TOKEN: '[redacted:TOKEN]'" in block
    assert "    temperature: 0" in block
    assert "very-secret" not in out
    document = documents(capsys, "summary", "summary", "last", "--dir", tmp_path)
    assert document["config"]["per_benchmark"]["texts"]["attempts"] == 2
    assert document["config"]["env"] == {"TOKEN": "[redacted:TOKEN]"}


def test_a_summary_as_json_and_yaml_tells_runs_and_trials(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    origin = Origin(job=SECOND, path="trials/oracle/old/1", finished_at=NOW)
    trials = [
        ended("P"),
        ended("T", "slow"),
        ended("E", "lost"),
        ended("P", "old", reused=origin, usage=Usage(cost_usd=9.0)),
    ]
    make_job(tmp_path, FIRST, trials, name="nightly", config={"metadata": {"branch": "main"}}, planned=5)
    document = documents(capsys, "summary", "summary", "nightly", "-e", "--dir", tmp_path)
    assert {key: document[key] for key in ("id", "name", "status", "metadata", "planned", "in_flight")} == {
        "id": FIRST, "name": "nightly", "status": "completed", "metadata": {"branch": "main"}, "planned": 5,
        "in_flight": [],
    }  # fmt: skip
    (found,) = document["runs"]
    expected = {
        "id": f"{FIRST}.1", "agent": "oracle", "benchmark": "texts", "total": 4, "passed": 2, "failed": 1, "error": 1,
        "timeouts": 1, "reused": 1, "seconds": 6.0, "cost_usd": None, "unpriced": 3,
        "classes": {"agent_timeout": 1, "engine_lost": 1},
    }  # fmt: skip
    assert {key: found[key] for key in expected} == expected
    assert [
        (trial["scenario"], trial["outcome"], trial["score"], trial["reused"]) for trial in found["trials"]
    ] == [
        ("count", "passed", 1.0, None),
        ("lost", "error", None, None),
        ("old", "passed", 1.0, SECOND),
        ("slow", "failed", 0.0, None),
    ]
    assert found["trials"][1]["failure"] == {"class": "engine_lost", "message": "engine_lost of lost"}
    assert document["totals"]["reused"] == 1


def test_a_job_that_runs_shows_its_progress(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job = make_job(
        tmp_path, FIRST, {"oracle": {"count": "P"}}, status=JobStatus.RUNNING, hours_ago=0, planned=8
    )
    root = JobBundle(tmp_path, job.id).root
    directory = JobLayout(root).events
    directory.mkdir(parents=True)
    node = "a.bench.yaml::{}[oracle-1]"
    of_count: dict[str, Any] = {
        "node_id": node.format("count"),
        "scenario": "count",
        "agent": "oracle",
        "attempt": 1,
    }
    of_sums = {**of_count, "node_id": node.format("sums"), "scenario": "sums"}
    of_lost = {**of_count, "node_id": node.format("lost"), "scenario": "lost"}
    ending: dict[str, Any] = {"seconds": 2.0, "class_": None, "cost_usd": None, "reused": False}
    now = datetime.datetime.now(datetime.UTC).timestamp()
    events = [
        Planned(at=now - 9, agents={"oracle": 4, CODEX: 4}),
        PhaseBegan(at=now - 8, phase="prepare", **of_count),
        PhaseBegan(at=now - 8, phase="prepare", **of_sums),
        PhaseBegan(at=now - 8, phase="prepare", **of_lost),
        PhaseBegan(at=now - 6, phase="agent", **of_sums),
        Ended(at=now - 5, outcome=Outcome.PASSED, score=1.0, **of_count, **ending),
        Ended(at=now - 4, outcome=Outcome.FAILED, score=0.0, **of_lost, **ending),
    ]
    (directory / "1.jsonl").write_text("".join(f"{event.model_dump_json()}\n" for event in events))
    assert run("summary", "last", "--dir", tmp_path) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "Benchmark Job"
    assert "Trials:    1 of 8 ended" in out
    progress = out[out.index("Progress:") + 1 :]
    assert progress[:2] == [
        "  oracle         2/4 complete, 1 running, 1 pending, mean 1.000",
        "  codex:gpt-5.5  0/4 complete, 4 pending",
    ]
    assert progress[2].startswith("    a.bench.yaml::sums[oracle-1]: agent, ")
    document = documents(capsys, "summary", "summary", "last", "--dir", tmp_path)
    (flying,) = document["in_flight"]
    assert (flying["scenario"], flying["phase"]) == ("sums", "agent")
    assert [(figures["planned"], figures["running"]) for figures in document["agents"]] == [(4, 1), (4, 0)]


def test_a_job_whose_process_fell_silent_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    make_job(tmp_path, FIRST, {"oracle": {"count": "P"}}, status=JobStatus.RUNNING)
    path = JobBundle(tmp_path, FIRST).root / "job.json"
    an_hour_ago = path.stat().st_mtime - 3600
    os.utime(path, (an_hour_ago, an_hour_ago))
    assert run("summary", "last", "--dir", tmp_path) == 0
    assert any(
        line.startswith("No heartbeat from its process for 1h00m. If it died, `benchjobs recover` closes")
        for line in lines(capsys)
    )


def test_a_job_without_trials_has_nothing_to_show(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    make_job(tmp_path, FIRST, [])
    assert run("summary", "last", "-e", "--dir", tmp_path) == 0
    assert lines(capsys)[-1] == "No benchmark outcomes found"
    assert documents(capsys, "summary", "summary", "last", "-e", "--dir", tmp_path)["runs"] == []


def test_names_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    evil = "\x1b[2Jx\x07\u202e\n\nfake\r"
    trials = [ended("F").model_copy(update={"scenario": evil, "benchmark": evil})]
    job = make_job(tmp_path, FIRST, [], name=evil, message=evil, config={"metadata": {"k": evil}})
    with History.of(tmp_path) as history:
        history.replace_job(job, trials)
    for arguments in (
        ["list"],
        ["runs"],
        ["summary", "last", "-e", "--config"],
        *(
            [*command, "-o", kind]
            for command in (["list"], ["summary", "last", "-e"])
            for kind in ("json", "yaml")
        ),
    ):
        assert run(*arguments, "--dir", tmp_path) == 0
        out = capsys.readouterr().out
        assert not set("\x1b\x07\u202e\r") & set(out), arguments
        assert "fake" not in out.splitlines(), arguments


def test_without_a_terminal_nothing_is_cut_or_coloured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    monkeypatch.delenv("NO_COLOR", raising=False)
    make_job(tmp_path, FIRST, {f"codex:{'m' * 50}": {"count": "P", "x" * 100: "F"}}, name="n" * 60)
    for arguments in (["list"], ["runs"], ["summary", "last", "-e"]):
        assert run(*arguments, "--dir", tmp_path) == 0
        out = capsys.readouterr().out
        assert "\x1b" not in out
        assert "..." not in out


def test_a_terminal_of_few_letters_is_no_reason_to_fail(tmp_path: Path) -> None:
    make_job(tmp_path, FIRST, {"oracle": {"count": "P"}}, name="東京")
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "summary", "last", "-e", "--dir", str(tmp_path)],
        capture_output=True, check=True, env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )  # fmt: skip
    shown = done.stdout.decode("latin-1").splitlines()
    assert shown[2] == "Name:      \\u6771\\u4eac"
    assert shown[-1] == "  +  count  score=1.0"


@pytest.mark.parametrize(("columns", "no_color"), [(80, ""), (200, "1")])
def test_a_terminal_gets_lines_that_fit_and_colours_unless_told_otherwise(
    tmp_path: Path, columns: int, no_color: str
) -> None:
    label = f"codex:{'m' * 50}"
    make_job(tmp_path, FIRST, {label: {"count": "P", "x" * 200: "F"}}, name="n" * 300)
    controller, terminal = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": no_color, "TERM": "xterm"}
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "list", "--dir", str(tmp_path)],
        stdout=terminal, stderr=subprocess.PIPE, check=True, env=environment,
    )  # fmt: skip
    os.close(terminal)
    printed = b""
    with os.fdopen(controller, "rb", buffering=0) as reader:
        while chunk := _read(reader):
            printed += chunk
    assert done.stderr == b""
    text = printed.decode()
    assert ("\x1b[32m" in text) is (not no_color)
    plain = click.unstyle(text).splitlines()
    assert len(plain) == 3
    assert max(map(len, plain)) == min(columns, 194)  # as wide as with a name of 60


def _read(reader: Any) -> bytes:
    try:
        return bytes(reader.read(65_536) or b"")
    except OSError:
        return b""  # how Linux says that nobody has the terminal open any more
