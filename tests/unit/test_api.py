"""The Python API over stored results."""

from __future__ import annotations

import datetime
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pytest_benchjobs as benchjobs
from pytest_benchjobs.api import Job, Run, Store, Trial
from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.job import JobStatus
from pytest_benchjobs.model.result import Origin, ScorerResult, TrialResult
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.store import listing
from pytest_benchjobs.store.history import History

from .records import JOB, NOW, record, result, trial
from .test_merge import OTHER, failed, made, make

SECOND = datetime.timedelta(seconds=1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    usage = Usage(input_tokens=10, output_tokens=5, cost_usd=0.25)
    make(tmp_path, made("a", usage=usage), failed("b"), made("c", "nop"), index=True, name="nightly")
    origin = Origin(job=JOB, path="trials/oracle/a/1", finished_at=NOW)
    bundle = make(tmp_path, made("a", reused=origin), job=OTHER, index=True, created_at=NOW + SECOND)
    (bundle.root / "trials/oracle/a/1/agent.log").unlink()
    store: Store = benchjobs.open(tmp_path)
    return store


def test_jobs_come_newest_first_and_can_be_read_again(store: Store) -> None:
    jobs = store.jobs()
    assert [job.id for job in jobs] == [OTHER, JOB] == [job.id for job in jobs]
    job = list(jobs)[1]
    assert isinstance(job, Job)
    assert (job.name, job.status, job.ended, job.passed, job.failed, job.agents) == (
        "nightly", "completed", 3, 2, 1, ("nop", "oracle"),
    )  # fmt: skip
    assert (job.created_at, job.finished_at) == (NOW, NOW + 60 * SECOND)
    assert job == store.job("nightly") == store.job(JOB)
    assert store.job().id == OTHER
    assert store.job("last~1").id == JOB
    with pytest.raises(InputError, match="Did you mean 'nightly'"):
        store.job("nightli")


def test_jobs_are_chosen_by_time_and_status(store: Store, tmp_path: Path) -> None:
    with History.of(tmp_path) as history:
        now = datetime.datetime.now(datetime.UTC)
        history.save_job(record(tmp_path, id="now", created_at=now))
    assert [job.id for job in store.jobs(statuses="running")] == ["now"]
    assert [job.id for job in store.jobs(statuses=["running", "completed"], since=NOW + SECOND)] == [
        "now",
        OTHER,
    ]
    # The jobs of these tests began at a time of their own, which may be to come.
    ago = datetime.timedelta(minutes=1)
    assert "now" in [job.id for job in store.jobs(since=ago)]
    assert store.job("now").status == JobStatus.RUNNING


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda store: store.jobs(statuses=["bogus"]), "there is no status 'bogus'; valid are initializing, queued, "),
        (lambda store: store.runs(statuses="completd"), "there is no status 'completd'; did you mean 'completed'? valid"),
        (lambda store: store.job().trials(outcomes=["bogus"]), "there is no outcome 'bogus'; valid are passed, failed, "),
        (lambda store: store.job().trials(outcomes="Passed"), "there is no outcome 'Passed'; did you mean 'passed'? valid"),
    ],
)  # fmt: skip
def test_a_word_that_would_choose_nothing_is_a_mistake(
    store: Store, ask: Callable[[Store], object], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        ask(store)
    assert str(caught.value).startswith(message)


def test_since_is_a_time_or_so_long_ago_and_a_job_is_named_by_a_text(store: Store) -> None:
    since: Any
    for since in ("2026-11-21", datetime.date(2026, 11, 21), 3):
        with pytest.raises(
            TypeError, match="since has to be a datetime, or a timedelta for so long ago, not "
        ):
            store.jobs(since=since)
    with pytest.raises(TypeError, match="a job is named by a text, such as its id or `last~1`, not 3"):
        store.job(3)  # type: ignore[arg-type]


def test_reading_jobs_is_lazy(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_PAGE", 2)
    with History.of(tmp_path) as history:
        for number in range(5):
            history.save_job(record(tmp_path, id=f"j{number}", created_at=NOW + (10 + number) * SECOND))
    jobs = iter(store.jobs())
    assert [next(jobs).id for _ in range(2)] == ["j4", "j3"]
    with History.of(tmp_path) as history:
        history.forget("j2")
    assert [job.id for job in jobs] == ["j1", "j0", OTHER, JOB]


def test_runs_and_trials_of_a_job(store: Store) -> None:
    job = store.job("nightly")
    first, second = job.runs()
    assert isinstance(first, Run)
    assert (first.id, first.agent, first.ended, first.cost_usd, first.started_at) == (
        f"{JOB}.1", "nop", 1, None, NOW,
    )  # fmt: skip
    assert (second.agent, second.ended, second.mean_score, second.cost_usd) == ("oracle", 2, 0.5, 0.25)
    assert [row.scenario for row in second.trials()] == ["a", "b"]
    assert [row.scenario for row in job.trials(outcomes="failed")] == ["b"]
    assert (
        [row.scenario for row in job.trials(agent="nop")] == ["c"] == [row.scenario for row in first.trials()]
    )
    assert [row.agent for row in job.trials(scenario="a")] == ["oracle"]
    assert [run.job for run in store.runs(agent="oracle")] == [JOB, OTHER]
    assert [run.id for run in store.runs(benchmark="texts", statuses="completed")] == [
        f"{JOB}.1", f"{JOB}.2", f"{OTHER}.1",
    ]  # fmt: skip
    assert job.record().name == "nightly"
    assert job.events() == []
    assert job.directory.name == JOB


def test_a_trial_leads_to_its_result_scores_and_log(store: Store) -> None:
    job = store.job("nightly")
    (row,) = job.trials(scenario="a")
    assert isinstance(row, Trial)
    assert (row.started_at, row.finished_at) == (NOW, NOW + 2 * SECOND)
    whole = row.result()
    assert isinstance(whole, TrialResult)
    assert whole.scorers == (ScorerResult(name="right", type="bash", weight=1, score=1.0),)
    assert [(score.scorer, score.score) for score in row.scores()] == [("right", 1.0)]
    assert row.log() == f"log of a in {JOB}\n"
    assert (row.directory / "artifacts" / "out.txt").read_text() == "out"


def test_a_log_of_an_agent_is_safe_to_print_and_none_is_empty(store: Store) -> None:
    (row,) = store.job("nightly").trials(scenario="a")
    (row.directory / "agent.log").write_bytes(b"\x1b[2Jhello \xff\x00")
    assert row.log() == "hello \ufffd"
    (row.directory / "agent.log").unlink()
    assert row.log() == ""


def test_files_that_are_gone_or_lead_out_are_one_clear_error(store: Store, tmp_path: Path) -> None:
    with History.of(tmp_path) as history:
        history.save_trials([result(trial("hostile"), path="../../../etc")])
    (hostile,) = store.job("nightly").trials(scenario="hostile")
    with pytest.raises(InputError, match="leads out of the bundle"):
        hostile.result()
    (row,) = store.job("nightly").trials(scenario="a")
    shutil.rmtree(row.directory)
    with pytest.raises(InputError, match=r"result\.json: cannot be read"):
        row.result()
    shutil.rmtree(store.job("nightly").directory)
    for read in (row.result, row.log):
        with pytest.raises(
            InputError, match=r"the files of a\.bench\.yaml::a\[oracle-1\] in job .* are not here"
        ):
            read()


def test_where_there_is_nothing_it_says_so_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no history yet; run a benchmark first"):
        benchjobs.open(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_public_names_are_listed_before_they_are_imported() -> None:
    assert {*benchjobs.__all__, "open"} <= set(dir(benchjobs))


def test_nothing_stays_open(store: Store, tmp_path: Path) -> None:
    jobs = iter(store.jobs())
    next(jobs)
    del jobs
    assert sorted(path.name for path in tmp_path.iterdir()) == ["history.sqlite", "jobs"]


def test_tables_become_frames(store: Store) -> None:
    import pandas as pd
    import polars as pl

    for table in (
        store.table(),
        store.jobs().table(),
        store.job("nightly").table(),
        store.runs(agent="nop").table(),
    ):
        pandas_frame = pd.DataFrame(table)
        polars_frame = pl.DataFrame(table)
        assert list(pandas_frame.columns) == polars_frame.columns == list(table)
        assert len(pandas_frame) == len(polars_frame) == len(next(iter(table.values())))
    trials = pd.DataFrame(store.job("nightly").table())
    assert trials.groupby("agent")["score"].mean().to_dict() == {"nop": 1.0, "oracle": 0.5}
    assert str(trials["started_at"].dtype).startswith("datetime64[")
    assert trials["class"].dropna().tolist() == ["below_threshold"]
    frame = pl.DataFrame(store.job("nightly").table())
    assert frame["started_at"].dtype == pl.Datetime("us", "UTC")
    assert frame.filter(pl.col("outcome") == "failed")["scenario"].to_list() == ["b"]
    assert pl.DataFrame(store.jobs().table())["agents"].to_list() == [["oracle"], ["nop", "oracle"]]


def test_a_table_of_nothing_has_its_columns(store: Store) -> None:
    table = store.job("nightly").trials(outcomes="skipped").table()
    assert set(map(len, table.values())) == {0}
    assert {"scenario", "class", "started_at"} <= table.keys()
    assert not any(name.startswith("_") for name in table)


def test_notebooks_show_small_tables_in_which_nothing_is_markup(store: Store, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    with History.of(tmp_path) as history:
        history.save_job(record(tmp_path, id="evil", name=f"{evil}\x1b[31m", created_at=NOW + 5 * SECOND))
        history.save_trials(
            result(trial(f"s{number}"), job="evil", scenario=f"{evil}{number}") for number in range(25)
        )
    job = store.job("evil")
    (row, *_) = job.trials()
    for shown in (store, store.jobs(), job, job.runs(), job.trials(), row):
        page = shown._repr_html_()
        assert "<script" not in page
        assert "\x1b" not in page
        assert page.count("<table>") == 1
    assert "&lt;script&gt;" in store._repr_html_()
    assert job.trials()._repr_html_().count("<tr>") == 21
    assert job.trials()._repr_html_().endswith("<p>and more</p>")
    assert "<td>0.5</td>" in store.job("nightly").runs()._repr_html_()


def test_only_what_is_asked_for_is_loaded() -> None:
    code = (
        "import sys, pytest_benchjobs; pytest_benchjobs.open;"
        "print({'pytest', 'docker', 'pandas', 'click', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_import_star_does_not_hide_open() -> None:
    names: dict[str, object] = {}
    exec("from pytest_benchjobs import *", names)
    assert "TrialResult" in names
    assert "open" not in names


def test_tags_of_a_trial_are_texts(tmp_path: Path) -> None:
    make(tmp_path, made("a", tags=("easy", "text")), made("b"), index=True)
    job = benchjobs.open(tmp_path).job()
    assert [trial.tags for trial in job.trials()] == [("easy", "text"), ()]
    assert job.table()["tags"] == [["easy", "text"], []]
