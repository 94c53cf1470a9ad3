from __future__ import annotations

import datetime
import json
import os
import pty
import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest

from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.job import JobStatus, Overrides
from pytest_benchjobs.model.known_failure import Known, KnownMode
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.result import Failure, Outcome
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.report.markdown import summary_markdown
from pytest_benchjobs.report.units import ago, cost
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.layout import Layout
from pytest_benchjobs.store.listing import latest_runs
from pytest_benchjobs.store.reader import HistoryReader

from ..console import COMMAND
from .cli import Cli, Said, cli, origin
from .jobs import ended
from .records import NOW
from .watched import WatchedJob

__all__ = ["cli"]

FIRST, SECOND, THIRD = "20261121-054712-4f9a2c", "20261121-064712-aaaaaa", "20261122-000000-bbbbbb"
CODEX = "codex:gpt-5.5"
LOST = {"failure": Failure(class_="not_kept", message="nothing was kept")}


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def jobs(cli: Cli) -> Cli:
    """Three jobs, the oldest of three days ago."""
    cli.make(FIRST, {"oracle": {"count": "P", "sums": "H"}}, hours_ago=75, name="nightly")
    of_two = {"oracle": {"count": "P", "sums": "P"}, CODEX: {"count": "E", "sums": "F"}}
    cli.make(SECOND, of_two, hours_ago=3, status=JobStatus.FAILED)
    cut_short = {"status": JobStatus.CANCELLED, "planned": 4}
    cli.make(THIRD, {"nop": {"count": "C"}}, hours_ago=0.5, name="nightly", **cut_short)
    return cli


def running(cli: Cli, *, dead: bool) -> None:
    """A job of this process, or of one that is gone."""
    owner = current_owner().model_copy(update={"started": "never"} if dead else {})
    cli.make(FIRST, {"oracle": {"count": "P"}}, status=JobStatus.RUNNING, planned=2, owner=owner)


def ids(said: Said) -> list[str]:
    return [line.split()[0] for line in said.lines[1:-1]]


# list


def test_jobs_of_the_last_day_are_listed_the_oldest_first(jobs: Cli) -> None:
    out, err = jobs("list")
    assert out.splitlines() == [
        "ID                      NAME     STARTED  STATUS     AGENT               DONE  ERRORS          SCORE",
        "20261121-064712-aaaaaa  -        3h ago   failed     oracle, ...gpt-5.5   4/4       1  1.000 / 0.000",
        "20261122-000000-bbbbbb  nightly  30m ago  cancelled  nop                  1/4       0            N/A",
        "2 jobs",
    ]
    assert err == ""


def test_a_list_says_of_what_and_of_whom_each_job_is_and_has_no_mean_over_agents(
    jobs: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    jobs.make("20261123-000000-cccccc", {"oracle": {"count": "P", "sums": "H", "skipped": "S"}})
    rows = [line.split("  ") for line in jobs("list", "--all").lines[1:-1]]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert [(row[4], row[5], row[-1]) for row in cells] == [
        ("texts", "oracle", "0.625"),
        ("texts", f"oracle, {CODEX}", "1.000 / 0.000"),
        ("texts", "oracle", "0.625 of 2"),
        ("texts", "nop", "N/A"),
    ]
    found = [job["scores"] for job in jobs.document("list", "--all")["jobs"]]
    assert found == [{"oracle": 0.625}, {"oracle": 1.0, CODEX: 0.0}, {"oracle": 0.625}, {}]


@pytest.fixture
def looked_at(jobs: Cli) -> list[str]:
    """Ids of jobs of a selection, the oldest first, beside `jobs`: the last but one runs, the last has failed."""
    made = {
        "20261121-070000-eeeeee": (90, JobStatus.COMPLETED),
        "20261121-080000-eeeeee": (2.5, JobStatus.CANCELLED),
        "20261121-090000-eeeeee": (2, JobStatus.RUNNING),
        "20261121-100000-eeeeee": (1, JobStatus.FAILED),
    }
    for job, (hours, status) in made.items():
        of = {"oracle": {"count": "P"}}
        jobs.make(job, of, hours_ago=hours, status=status, narrowed=True, partial=True)
    return [*made]


def test_jobs_of_a_selection_do_not_bury_the_others(jobs: Cli, looked_at: list[str]) -> None:
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
        document = jobs.document("list", *arguments)
        assert [job["id"] for job in document["jobs"]] == expected, arguments
        assert document["earlier_selections"] == more, arguments
        assert {job["id"] for job in document["jobs"] if job["selection"]} == {*looked_at} & {*expected}
    assert "Trials:    1 of 1 ended, of a selection of scenarios" in jobs("summary", old).lines
    assert not jobs.document("summary", FIRST)["selection"]
    with HistoryReader.of(jobs.directory) as history:
        for among in ((), (SECOND, *looked_at)):
            latest = {row.agent: row.job for row in latest_runs(history, among)}
            assert latest == {"oracle": SECOND, CODEX: SECOND}, "a selection is not what an agent scores"
        assert latest_runs(history, looked_at)[0].job in looked_at
    shown = jobs("list", "--all").lines
    assert [line.split()[1] for line in shown[1:6]] == [
        "nightly", "-", "(selection)", "(selection)", "nightly",
    ]  # fmt: skip
    assert shown[-2:] == [
        "5 jobs",
        "not listed: 2 earlier jobs of a selection of scenarios (-k, -m, --lf, ids); --selections lists them",
    ]
    assert jobs("list").lines[-1].startswith("not listed: 1 earlier job of a selection")


def test_a_scenario_whose_attempts_have_not_all_ended_is_no_error(cli: Cli) -> None:
    cli.make(FIRST, {"oracle": {"count": "P.", "sums": "PP", "lost": "F."}}, planned=6)
    shown = [line.split() for line in cli("summary", "-e").lines]
    assert [words for words in shown if words[1:2] in (["count"], ["lost"], ["sums"])] == [
        ["-", "count", "score=1.0", "1", "of", "2", "attempts", "ended"],
        ["✗", "lost", "score=0.0", "below_threshold,", "1", "of", "2", "attempts", "ended"],
        ["✓", "sums", "score=1.0", "(1.0", "1.0)"],
    ]


def test_a_job_that_was_graded_again_in_part_compares_like_with_like(cli: Cli) -> None:
    cli.make(FIRST, {"oracle": {"count": "F", "sums": "P", "more": "P"}}, hours_ago=3)
    again = [ended("P", rescored=origin(FIRST)), ended("S", "sums", **LOST), ended("S", "more", **LOST)]
    cli.make(SECOND, again, parent=FIRST)
    line = (
        f"Of 3 trials of job {FIRST}, 1 were graded again and 2 were not kept; those are in no figure here. Mean of the "
        f"same 1 trial: 0.000 then, 1.000 now (all of job {FIRST}: 0.667); other scores now: count[oracle-1] 0.0 -> 1.0"
    )
    assert line in cli("summary").lines
    assert cli.document("summary")["rescored"] == line
    assert cli.document("summary", FIRST)["rescored"] is None


def test_a_job_that_was_graded_again_says_which_scores_changed(cli: Cli) -> None:
    cli.make(FIRST, {"oracle": {"count": "P", "sums": "P"}}, hours_ago=3)
    again = [ended("F", rescored=origin(FIRST)), ended("P", "sums", rescored=origin(FIRST))]
    cli.make(SECOND, again, parent=FIRST)
    assert (
        f"Of 2 trials of job {FIRST}, 2 were graded again. Mean of the same 2 trials: 1.000 then, 0.500 now; "
        "other scores now: count[oracle-1] 1.0 -> 0.0"
    ) in cli("summary").lines
    cli.make("merged", again, parent=SECOND)
    assert cli.document("summary", "merged")["rescored"] is None, "its parent is a part of it"


@pytest.mark.parametrize(
    ("letters", "end"),
    [("EEE", ""), ("PEF", f" (all of job {FIRST}: 0.500)"), ("EEP", f" (all of job {FIRST}: 1.000)")],
)
def test_what_had_no_score_before_has_no_mean_then(cli: Cli, letters: str, end: str) -> None:
    """Unless each of the same trials had one, the means are not of the same."""
    cli.make(FIRST, {"oracle": dict(zip(("count", "sums", "more"), letters, strict=True))}, hours_ago=3)
    before = {"rescored": origin(FIRST)}
    again = [ended("P", **before), ended("F", "sums", **before), ended("S", "more", **LOST)]
    cli.make(SECOND, again, parent=FIRST)
    assert cli.document("summary")["rescored"] == (
        f"Of 3 trials of job {FIRST}, 2 were graded again and 1 were not kept; those are in no figure here{end}"
    )


DIED = f"job {FIRST} is no longer running: its process died; `benchjobs resume {FIRST}` finishes it, `benchjobs recover` closes it; both count the trials that had ended"


@pytest.mark.parametrize("dead", [False, True])
def test_whoever_reads_is_told_whether_a_job_goes_on(cli: Cli, dead: bool) -> None:
    running(cli, dead=dead)
    before = cli.bundle(FIRST).read()
    for command, where, word in (
        (["list", "--all"], "jobs", "died"),
        (["runs"], "runs", "died"),
        (["summary"], None, "Status:    running (its process died)"),
    ):
        out, err = cli(*command)
        assert (word in out, err) == (dead, f"{DIED}\n" if dead else "")
        out, err = cli(*command, "-o", "json")
        document = json.loads(out)
        found = document if where is None else document[where][0]
        assert (found["status"], found["dead"]) == ("running", dead)
        assert err == (f"{DIED}\n" if dead else "")
    assert cli.bundle(FIRST).read() == before


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize(
    ("arguments", "waits", "status"),
    [
        (("gate", FIRST, "--min-score", "0.5"), "it can be judged when it has ended", 2),
        (("baseline", "set", FIRST), "it is still running", 2),
        (("compare", FIRST, SECOND), "", 0),
    ],
)
def test_nobody_is_told_to_wait_for_a_job_that_died(
    cli: Cli, arguments: tuple[str, ...], waits: str, status: int, dead: bool
) -> None:
    running(cli, dead=dead)
    cli.make(SECOND, {"oracle": {"count": "F"}})
    said = cli(*arguments, status=status).err
    if dead:
        (line,) = said.splitlines()[: 1 + (status == 2)]
        assert DIED.partition(" closes it")[0] in line
    else:
        assert waits in said
        assert "its process died" not in said


def test_days_all_status_and_limit_choose_jobs(jobs: Cli) -> None:
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
        assert ids(jobs("list", *arguments)) == expected, arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "--days", "0"], "benchjobs: Invalid value for '--days': 0 is not in the range x>=1"),
        (["list", "--days", "x"], "benchjobs: Invalid value for '--days': 'x' is not a valid integer"),
        (["list", "--limit", "-1"], "benchjobs: Invalid value for '--limit': -1 is not in the range x>=1"),
        (["list", "--status", "compleat"], "benchjobs: invalid status 'compleat' (did you mean completed?); valid are initi"),
        (["list", "--status", "failed,"], "benchjobs: invalid status ''; valid are initializing, queued, running, comple"),
        (["runs", "--sort", "scor"], "benchjobs: there is no column 'scor' (did you mean score?); there are "),
    ],
)  # fmt: skip
def test_a_wrong_filter_or_column_is_one_line(jobs: Cli, arguments: list[str], message: str) -> None:
    assert jobs.refused(*arguments).startswith(message)


def test_no_jobs_is_no_error(jobs: Cli) -> None:
    assert jobs("list", "--status", "timeout") == ("No benchmark jobs found\n", "")
    nowhere = jobs.directory / "nowhere"
    for command in (
        ["list", "--all"],
        ["runs"],
        ["gc"],
        ["baseline", "list"],
        ["recover"],
        ["summary"],
    ):
        assert "--dir': there is no directory" in jobs.at(nowhere).refused(*command)
    assert not nowhere.exists()
    nowhere.mkdir()
    none_there = ("No benchmark jobs found\n", f"there are no results in {nowhere}\n")
    assert jobs.at(nowhere)("list", "--all") == none_there
    Layout(nowhere).history.touch()
    assert jobs.at(nowhere)("list").out == "No benchmark jobs found\n"


@pytest.mark.parametrize(
    "command", [("list",), ("list", "--all"), ("runs",), ("summary", "nightly"), ("summary",)]
)
@pytest.mark.parametrize("state", ["is not there", "is empty", "knows no job"])
def test_a_history_that_lost_the_jobs_is_an_error_that_says_what_to_do(
    jobs: Cli, state: str, command: tuple[str, ...]
) -> None:
    for file in jobs.directory.glob("history.sqlite*"):
        file.unlink()
    if state == "is empty":
        Layout(jobs.directory).history.touch()
    if state == "knows no job":
        History.of(jobs.directory).close()
    said = (
        f"benchjobs: {Layout(jobs.directory).history}: {state}. The results themselves are safe in jobs/: "
        "`benchjobs db rebuild` rebuilds the history from them\n"
    )
    assert jobs(*command, status=2) == ("", said)
    jobs("db", "rebuild")
    jobs(*command)


@pytest.mark.parametrize("command", [("list", "--all", "-o", "json"), ("--help",)], ids=" ".join)
def test_a_full_disk_behind_stdout_is_one_line(jobs: Cli, command: tuple[str, ...]) -> None:
    where = () if command == ("--help",) else ("--dir", str(jobs.directory))
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, *command, *where], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    said = "benchjobs: stdout: cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


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


def test_runs_are_sorted_by_agent_and_id(jobs: Cli) -> None:
    assert jobs("runs").lines == [
        "RUN                       BENCHMARK  AGENT          STATUS     PASSED  ERRORS  SCORE  COST  TIME",
        "20261121-064712-aaaaaa.2  texts      codex:gpt-5.5  failed        0/2       1  0.000     -  4.0s",
        "20261122-000000-bbbbbb.1  texts      nop            cancelled     0/1       0    N/A     -  2.0s",
        "20261121-054712-4f9a2c.1  texts      oracle         completed     1/2       0  0.625     -  4.0s",
        "20261121-064712-aaaaaa.1  texts      oracle         failed        2/2       0  1.000     -  4.0s",
        "4 runs",
    ]


def test_runs_are_sorted_and_chosen(jobs: Cli) -> None:
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
        assert ids(jobs("runs", *arguments)) == expected, arguments
    assert "cannot both be given" in jobs("runs", "nightly", "--job", "last", status=2).err


def test_a_page_that_is_not_all_says_so_on_stderr(jobs: Cli) -> None:
    assert jobs("runs", "--limit", "4").err == ""
    assert len(jobs.document("runs", "--limit", "3")["runs"]) == 3
    assert jobs("runs", "--limit", "3").err == "there are more than 3 runs; --limit shows more\n"


def test_an_agent_nobody_ran_is_a_hint(jobs: Cli) -> None:
    out, err = jobs("runs", "--agent", "codex:gpt-5")
    assert out == "No benchmark runs found\n"
    assert err == (
        "no runs of agent 'codex:gpt-5' (did you mean codex:gpt-5.5?); there are codex:gpt-5.5, nop, oracle\n"
    )


@pytest.mark.parametrize("command", ["runs", "summary", "logs", "export", "watch"])
def test_an_unknown_job_is_one_line(jobs: Cli, command: str) -> None:
    arguments = {"runs": ["--job", "nigthly"], "export": ["nigthly", "--format", "csv"]}
    said = jobs.refused(command, *arguments.get(command, ["nigthly"]))
    assert said == "benchjobs: there is no job 'nigthly'. Did you mean 'nightly'?\n"


@pytest.mark.parametrize("command", ["summary", "logs", "export", "watch"])
def test_a_job_of_a_newer_version_is_one_line(cli: Cli, command: str) -> None:
    cli.make("new", {"oracle": {"count": "P"}})
    with sqlite3.connect(Layout(cli.directory).history) as connection:
        connection.execute("UPDATE jobs SET record = json_set(record, '$.novelty', 1)")
    said = cli.refused(command, "new")
    assert "the record of job new is of another version or damaged: novelty" in said
    assert "`benchjobs db rebuild`" in said


def test_a_running_job_of_a_newer_version_is_listed(cli: Cli) -> None:
    cli.make("new", {"oracle": {"count": "P"}}, status=JobStatus.RUNNING)
    with sqlite3.connect(Layout(cli.directory).history) as connection:
        connection.execute(
            "UPDATE jobs SET record = json_set(record, '$.config.agents', json('[{\"x\": 1}]'))"
        )
    listed = cli.document("list")["jobs"]
    assert [(job["id"], job["agents"]) for job in listed] == [("new", ["oracle"])]


@pytest.mark.parametrize("command", ["watch", "cancel", "rerun", "resume", "rescore"])
def test_a_job_without_files_is_told_from_one_that_nobody_knows(cli: Cli, command: str) -> None:
    there, here = (cli.at(cli.directory / name) for name in ("there", "here"))
    there.make("theirs", {"oracle": {"count": "P"}})
    shutil.rmtree(there.directory / "jobs")
    here("merge", Layout(there.directory).history)
    here("summary", "theirs")
    said = here.refused(command, "theirs")
    assert f"the files of job theirs are not in {here.directory}: it was merged without files" in said
    assert "`benchjobs summary theirs`" in said


# summary


def test_a_summary_has_a_row_for_each_agent(cli: Cli) -> None:
    trials = [
        *(ended(letter, f"s{number}") for number, letter in enumerate("PPH")),
        *(
            ended(letter, f"s{number}", CODEX, usage=Usage(cost_usd=0.5) if number else Usage())
            for number, letter in enumerate("PFEH")
        ),
    ]
    cli.make(FIRST, trials, name="nightly", config={"metadata": {"branch": "main"}})
    out, err = cli("summary", "last")
    assert err == ""
    shown = out.splitlines()
    assert shown[:3] == ["Benchmark Job Results", f"Job ID:    {FIRST}", "Name:      nightly"]
    assert shown[3] == "Status:    completed"
    assert shown[4].endswith(" UTC, took 1m30s")
    assert shown[5:] == [
        "Metadata:  branch=main",
        "Trials:    7 of 7 ended",
        "",
        "Agent / Model  Passed  Partial  Failed (0.0)  Failed (error)  Total   Mean    Cost  Time (sum)",
        "oracle              2        1             0               0      3  0.750       -        6.0s",
        "codex:gpt-5.5       1        1             1               1      4  0.417  $1.50+        8.0s",
    ]


def test_the_time_between_a_crash_and_the_resume_is_not_what_a_job_took(cli: Cli) -> None:
    resumed = NOW + datetime.timedelta(hours=1)
    ending = {"resumed_at": (resumed,), "finished_at": resumed + datetime.timedelta(seconds=6)}
    job = cli.make(FIRST, {"oracle": {"count": "P"}}, created_at=NOW, **ending)
    shown = cli("summary").lines
    assert "Started:   2026-11-21 05:47 UTC" in shown
    assert "Resumed:   2026-11-21 06:47 UTC, took 6.0s since" in shown
    assert f"Job `{FIRST}`, 2026-11-21 05:47 UTC, resumed 2026-11-21 06:47 UTC, took 6.0s since." in (
        summary_markdown(job, [])
    )


def test_why_an_attempt_failed_is_no_remark_on_what_passed(cli: Cli) -> None:
    cli.make(FIRST, {"oracle": {"count": "PT", "sums": "TF"}}, policy="any")
    found = [line.split() for line in cli("summary", "-e").lines]
    (count,) = (words for words in found if "count" in words)
    (sums,) = (words for words in found if "sums" in words)
    assert (count[-1], "agent_timeout," in count) == ("flaky", False)
    assert sums[-2:] == ["agent_timeout,", "below_threshold"]


def test_agents_are_in_the_order_of_the_job_and_others_behind(cli: Cli) -> None:
    agents = tuple(AgentSpec.parse(name) for name in ("oracle", CODEX, "unused"))
    trials = [ended("P", agent=name) for name in ("zzz", "nop", CODEX, "oracle")]
    cli.make(FIRST, trials, config={"agents": agents})
    document = cli.document("summary", "last")
    assert [found["agent"] for found in document["agents"]] == ["oracle", CODEX, "nop", "zzz"]
    assert [found["agent"] for found in document["runs"]] == ["oracle", CODEX, "nop", "zzz"]
    mean = "Mean over 2 agents, without oracle, nop: pass rate 100.0%, score 1.000"
    assert cli("summary", "last").lines[-1] == mean


def test_a_narrow_terminal_gets_a_narrow_summary(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    cli.make(FIRST, {"claude-code:anthropic/claude-sonnet-4-5-20260929": {"count": "PPF"}})
    shown = cli("summary", "last", "-e").lines
    assert any(line.split() == ["Failed", "Failed", "Time"] for line in shown)
    assert max(map(len, shown)) <= 72


def test_reading_is_not_gating(cli: Cli) -> None:
    cli.make(FIRST, {"oracle": {"count": "E"}}, status=JobStatus.FAILED, message="the engine went away")
    assert "Status:    failed: the engine went away" in cli("summary", "last").lines


def test_extended_has_a_line_for_each_scenario(cli: Cli) -> None:
    cli.make(
        FIRST,
        [
            ended("P"),
            ended("H", "sums"),
            ended("E", "lost"),
            ended("S", "left-out"),
            ended("P", "old", reused=origin(SECOND)),
            ended("F", "again", rescored=origin(SECOND), kept="benchjobs/kept:1"),
        ],
    )
    shown = cli("summary", "last", "-e").lines
    assert shown[shown.index(f"oracle ({FIRST}.1)") + 1 :] == [
        "  ✗  again     score=0.0   below_threshold, rescored, kept",
        "  ✓  count     score=1.0",
        "  -  left-out  skipped",
        "  !  lost      error       engine_lost",
        "  ✓  old       score=1.0   reused",
        "  ✗  sums      score=0.25  below_threshold",
    ]
    assert "Trials:    6 of 6 ended, 1 reused from earlier jobs" in shown


def test_extended_may_be_limited(cli: Cli) -> None:
    cli.make(FIRST, {agent: {"count": "P", "sums": "P"} for agent in ("oracle", "nop")})
    shown = cli("summary", "last", "-e", "--limit", "3").lines
    assert [line for line in shown if line.startswith("  ✓")] == [
        "  ✓  count  score=1.0",
        "  ✓  sums   score=1.0",
        "  ✓  count  score=1.0",
    ]
    assert shown[-1] == "... and 1 scenario more"
    document = cli.document("summary", "last", "-e", "--limit", "3")
    assert [len(found["trials"]) for found in document["runs"]] == [2, 1]
    assert document["left_out"] == 1


def test_several_attempts_have_pass_at_k_and_flaky_scenarios(cli: Cli) -> None:
    cli.make(FIRST, {"oracle": {"count": "PPP", "sums": "PFF", "lost": "PE."}}, planned=9)
    shown = cli("summary", "last", "-e").lines
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
    (figures,) = cli.document("summary", "last")["agents"]
    assert [(point["k"], point["scenarios"]) for point in figures["at_k"]] == [(1, 3), (2, 2), (3, 2)]
    assert figures["flaky"] == ["a.bench.yaml::sums[oracle]"]
    assert figures["verdicts"] is None


def test_known_failures_are_marked(cli: Cli) -> None:
    known = Known(mode=KnownMode.QUARANTINE, reason="r")
    trials = [ended("F", "sums").model_copy(update={"known": known}), ended("F", "plus")]
    cli.make(FIRST, trials)
    remarks = {line.split()[1]: line.split()[3:] for line in cli("summary", "last", "-e").lines[-2:]}
    assert remarks == {"sums": ["below_threshold,", "known"], "plus": ["below_threshold"]}
    document = cli.document("summary", "last", "-e")
    found = {trial["scenario"]: trial["known"] for trial in document["runs"][0]["trials"]}
    assert found == {"sums": "quarantine", "plus": None}


def test_under_a_policy_scenarios_count_once(cli: Cli) -> None:
    trials = {"oracle": {"count": "FP", "sums": "FH", "lost": "FE"}}
    cli.make(FIRST, trials, policy="any")
    shown = cli("summary", "last", "-e").lines
    assert "Attempts:  2, policy any: a scenario counts once, by its verdict" in shown
    row = next(line for line in shown if line.startswith("oracle  "))
    assert row.split()[:7] == ["oracle", "1", "1", "0", "1", "3", "0.312"]
    assert [line.split()[0] for line in shown[-3:]] == ["✓", "!", "✗"]
    document = cli.document("summary", "last", "-e")
    (figures,) = document["agents"]
    assert figures["verdicts"] == {
        "total": 3, "passed": 1, "failed": 1, "partial": 1, "zero": 0, "error": 1, "skipped": 0, "mean_score": 0.3125,
    }  # fmt: skip
    assert (figures["total"], figures["passed"]) == (6, 1)
    assert [found["outcome"] for found in document["runs"][0]["by_scenario"]] == ["passed", "error", "failed"]


def test_several_benchmarks_have_a_table_each(cli: Cli) -> None:
    trials = [ended("P"), ended("F", "sums"), ended("P", "plus").model_copy(update={"benchmark": "sums"})]
    cli.make(FIRST, trials)
    shown = cli("summary", "last").lines
    rows = [line.split()[:7] for line in shown if line.startswith(("oracle", "texts", "sums"))]
    assert rows == [
        ["oracle", "2", "0", "1", "0", "3", "0.667"],
        ["sums"],
        ["oracle", "1", "0", "0", "0", "1", "1.000"],
        ["texts"],
        ["oracle", "1", "0", "1", "0", "2", "0.500"],
    ]
    runs = cli.document("summary", "last")["runs"]
    told = [(found["benchmark"], found["total"], found["trials"]) for found in runs]
    assert told == [("sums", 1, None), ("texts", 2, None)]


def test_the_effective_configuration_has_no_values_of_variables(cli: Cli) -> None:
    config: dict[str, Any] = {
        "env": {"TOKEN": "very-secret"},
        "per_benchmark": {"texts": Overrides(attempts=2)},
        "params": {"temperature": 0},
    }
    cli.make(FIRST, {"oracle": {"count": "P"}}, config=config)
    assert "Configuration" not in cli("summary", "last").out
    out = cli("summary", "last", "--config").out
    block = out[out.index("Configuration:\n") :].splitlines()
    assert "    TOKEN: '[redacted:TOKEN]'" in block
    assert "    temperature: 0" in block
    assert "very-secret" not in out
    document = cli.document("summary", "last")
    assert document["config"]["per_benchmark"]["texts"]["attempts"] == 2
    assert document["config"]["env"] == {"TOKEN": "[redacted:TOKEN]"}


def test_a_summary_as_json_and_yaml_tells_runs_and_trials(cli: Cli) -> None:
    trials = [
        ended("P"),
        ended("T", "slow"),
        ended("E", "lost"),
        ended("P", "old", reused=origin(SECOND), usage=Usage(cost_usd=9.0)),
    ]
    cli.make(FIRST, trials, name="nightly", config={"metadata": {"branch": "main"}}, planned=5)
    document = cli.document("summary", "nightly", "-e")
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


def test_a_job_that_runs_shows_its_progress(cli: Cli) -> None:
    job = WatchedJob(cli.directory, trials=4)
    job.land("count")
    job.change()
    job.fly("sums", phase="prepare")
    job.fly("sums")
    job.land("lost", outcome=Outcome.FAILED, score=0.0)
    out = cli("summary", "last").lines
    assert out[0] == "Benchmark Job"
    assert "Trials:    1 of 8 ended" in out
    progress = out[out.index("Progress:") + 1 :]
    assert progress[:2] == [
        "  oracle  2/4 complete, 1 running, 1 pending, mean 1.000",
        "  nop     0/4 complete, 4 pending",
    ]
    assert progress[2].startswith("    a.bench.yaml::sums[oracle-1]: agent, ")
    document = cli.document("summary", "last")
    (flying,) = document["in_flight"]
    assert (flying["scenario"], flying["phase"]) == ("sums", "agent")
    assert [(figures["planned"], figures["running"]) for figures in document["agents"]] == [(4, 1), (4, 0)]


def test_a_job_whose_process_fell_silent_says_so(cli: Cli) -> None:
    cli.make(FIRST, {"oracle": {"count": "P"}}, status=JobStatus.RUNNING)
    path = cli.bundle(FIRST).root / "job.json"
    an_hour_ago = path.stat().st_mtime - 3600
    os.utime(path, (an_hour_ago, an_hour_ago))
    said = "No heartbeat from its process for 1h00m. If it died, `benchjobs recover` closes"
    assert any(line.startswith(said) for line in cli("summary", "last").lines)


def test_a_job_without_trials_has_nothing_to_show(cli: Cli) -> None:
    cli.make(FIRST, [])
    assert cli("summary", "last", "-e").lines[-1] == "No benchmark outcomes found"
    assert cli.document("summary", "last", "-e")["runs"] == []


def test_names_cannot_command_the_terminal(cli: Cli) -> None:
    evil = "\x1b[2Jx\x07\u202e\n\nfake\r"
    trials = [ended("F").model_copy(update={"scenario": evil, "benchmark": evil})]
    job = cli.make(FIRST, [], name=evil, message=evil, config={"metadata": {"k": evil}})
    cli.index(job, trials)
    listing, summary = ["list"], ["summary", "last", "-e"]
    as_document = ([*command, "-o", kind] for command in (listing, summary) for kind in ("json", "yaml"))
    for arguments in (listing, ["runs"], [*summary, "--config"], *as_document):
        out = cli(*arguments).out
        assert not set("\x1b\x07\u202e\r") & set(out), arguments
        assert "fake" not in out.splitlines(), arguments


def test_without_a_terminal_nothing_is_cut_or_coloured(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")
    monkeypatch.delenv("NO_COLOR", raising=False)
    cli.make(FIRST, {f"codex:{'m' * 50}": {"count": "P", "x" * 100: "F"}}, name="n" * 60)
    for arguments in (["list"], ["runs"], ["summary", "last", "-e"]):
        out = cli(*arguments).out
        assert "\x1b" not in out
        assert "..." not in out


def test_a_terminal_of_few_letters_is_no_reason_to_fail(cli: Cli) -> None:
    cli.make(FIRST, {"oracle": {"count": "P"}}, name="東京")
    done = subprocess.run(
        [*COMMAND, "summary", "last", "-e", "--dir", str(cli.directory)],
        capture_output=True, check=True, env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )  # fmt: skip
    shown = done.stdout.decode("latin-1").splitlines()
    assert shown[2] == "Name:      \\u6771\\u4eac"
    assert shown[-1] == "  +  count  score=1.0"


@pytest.mark.parametrize(("columns", "no_color"), [(80, ""), (200, "1")])
def test_a_terminal_gets_lines_that_fit_and_colours_unless_told_otherwise(
    cli: Cli, columns: int, no_color: str
) -> None:
    label = f"codex:{'m' * 50}"
    cli.make(FIRST, {label: {"count": "P", "x" * 200: "F"}}, name="n" * 300)
    controller, terminal = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": no_color, "TERM": "xterm"}
    done = subprocess.run(
        [*COMMAND, "list", "--dir", str(cli.directory)],
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
