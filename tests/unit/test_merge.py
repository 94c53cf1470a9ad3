from __future__ import annotations

import contextlib
import datetime
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_benchjobs.analysis.gate.job import judge_job
from pytest_benchjobs.job.judge import judge
from pytest_benchjobs.job.merge import Merge
from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.gate import GateConfig
from pytest_benchjobs.model.job import JobConfig, JobStatus, Owner, Shard, Split
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.result import Failure, Outcome, ScorerResult, Signature, TrialResult
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.report.documents import schema_of
from pytest_benchjobs.report.write import write_reports
from pytest_benchjobs.settings.gates import gate_config
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.checked import checked
from pytest_benchjobs.store.checksum import checksum_of
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.imports import take_in
from pytest_benchjobs.store.incoming import MergeResult
from pytest_benchjobs.store.index import index_job, rebuild
from pytest_benchjobs.store.layout import Layout
from pytest_benchjobs.store.listing import JOBS, each
from pytest_benchjobs.store.liveness import hold
from pytest_benchjobs.store.reader import HistoryReader
from pytest_benchjobs.store.rows import pair_row
from pytest_benchjobs.store.text import one_line
from pytest_benchjobs.store.totals import totals

from .records import JOB, NOW, record, result, trial
from .test_cli import run
from .test_database import make_v1
from .test_database import results as v1_results

SECOND = datetime.timedelta(seconds=1)
OTHER = "20261121-060000-bbbbbb"
ELSEWHERE = Owner(host="elsewhere", boot="b", pid=1, started="1")


def made(name: str = "count", agent: str = "oracle", **changes: Any) -> TrialResult:
    changes.setdefault("scorers", (ScorerResult(name="right", type="bash", weight=1, score=1.0),))
    return result(trial(name, agent, file=changes.pop("file", "a.bench.yaml")), **changes)


def failed(name: str, **changes: Any) -> TrialResult:
    why = Failure(class_="below_threshold", message="no")
    return made(name, outcome=Outcome.FAILED, score=0.0, failure=why, **changes)


def broken(name: str, **changes: Any) -> TrialResult:
    why = Failure(class_="engine_lost", message="gone")
    return made(name, outcome=Outcome.ERROR, score=None, failure=why, **changes)


def make(
    directory: Path, *results: TrialResult, job: str = JOB, index: bool = False, **changes: Any
) -> JobBundle:
    """A job with files, as if it had run in `directory`."""
    values = {
        "status": JobStatus.COMPLETED, "finished_at": NOW + 60 * SECOND, "planned": len(results), "owner": ELSEWHERE,
    }  # fmt: skip
    results = tuple(of.model_copy(update={"job": job}) for of in results)
    values["checksum"] = checksum_of(map(pair_row, results))
    made = record(directory, id=job, totals=totals(results), **{**values, **changes})
    bundle = JobBundle.create(directory, made)
    for of in results:
        place = bundle.begin(trial(of.scenario, of.agent.label, of.attempt, of.node_id.partition("::")[0]))
        place.layout.agent_log.write_text(f"log of {of.scenario} in {job}\n")
        (place.layout.artifacts / "out.txt").write_text("out")
        place.commit(of)
    write_reports(bundle, made, list(bundle.results()))
    if index:
        with History.of(directory) as history:
            index_job(bundle, history)
    return bundle


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return tmp_path / "there" / "reports"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path / "here" / "reports"


@pytest.fixture
def history(here: Path) -> Iterator[History]:
    with History.of(here) as history:
        yield history


@pytest.fixture
def merging(here: Path, history: History) -> Merge:
    return Merge(here, history)


def state(directory: Path) -> dict[str, bytes]:
    """Every file that counts."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
        and not path.is_symlink()
        and "history.sqlite" not in path.name
        and path.name != ".lock"
    }


def rows(history: History, job: str = JOB) -> tuple[object, ...]:
    return history.job_row(job), history.runs(job), sorted(history.trials(job), key=lambda row: row.node_id)


# Bundles


def test_a_job_comes_in_with_all_its_files(there: Path, here: Path, history: History, merging: Merge) -> None:
    source = make(there, made("a"), failed("b"), name="nightly")
    assert merging.bring_in(source.root) == MergeResult(JOB, "nightly", "added", 2)
    target = JobBundle.open(here, JOB)
    assert state(target.root) == state(source.root)
    assert {row.scenario: row.outcome for row in history.trials(JOB)} == {"a": "passed", "b": "failed"}
    assert [(event.kind, event.message) for event in history.events(JOB)] == [("imported", "added")]
    assert merging.problems == []
    assert [path.name for path in (here / "jobs").iterdir() if path.name.startswith(".tmp")] == []
    known = rows(history)
    history.close()
    Layout(here).history.unlink()
    assert rebuild(here) == (1, 2, [])
    with HistoryReader.of(here) as anew:
        assert rows(anew) == known


def test_merging_again_changes_nothing(there: Path, here: Path, history: History, merging: Merge) -> None:
    source = make(there, made("a"), failed("b"))
    merging.bring_in(source.root)
    before, known = state(here), rows(history)
    assert merging.bring_in(source.root) == MergeResult(JOB, None, "unchanged", 2)
    assert (state(here), rows(history)) == (before, known)
    assert len(history.events(JOB)) == 1


@pytest.mark.parametrize("when", ["trials", "record", "index"])
def test_merging_again_does_what_a_merge_that_was_killed_left_undone(
    there: Path, here: Path, history: History, merging: Merge, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    make(here, broken("a"), made("b"), index=True)
    source = make(there, made("a", finished_at=NOW + 5 * SECOND), made("c"))

    def die(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if when == "trials":
            patch.setattr(JobBundle, "write", die)
        elif when == "record":
            patch.setattr("pytest_benchjobs.job.end.write_reports", die)
        else:
            patch.setattr("pytest_benchjobs.job.end.index_job", die)
        with pytest.raises(KeyboardInterrupt):
            merging.bring_in(source.root)
    merging.bring_in(source.root)
    record = JobBundle.open(here, JOB).read()
    assert (record.totals.trials, record.totals.passed, record.totals.error) == (3, 3, 0)
    (row,) = each(history, JOBS)
    assert (row.ended, row.passed, row.error) == (3, 3, 0)
    assert {one.scenario: one.outcome for one in history.trials(JOB)} == dict.fromkeys("abc", "passed")
    before = state(here)
    assert merging.bring_in(source.root).action == "unchanged"
    assert state(here) == before


def test_what_is_new_in_a_job_is_added_and_nothing_is_lost(
    there: Path, here: Path, history: History, merging: Merge
) -> None:
    make(here, made("a"), made("only-here"), broken("c"), made("d", finished_at=NOW + 9 * SECOND), index=True)
    later = NOW + 5 * SECOND
    source = make(
        there, failed("a", finished_at=later), made("only-there"), made("c", finished_at=NOW + SECOND),
        broken("d", finished_at=NOW + 10 * SECOND), finished_at=NOW + 90 * SECOND,
    )  # fmt: skip
    assert merging.bring_in(source.root) == MergeResult(JOB, None, "updated", 5)
    outcomes = {row.scenario: row.outcome for row in history.trials(JOB)}
    # The newest that passed or failed counts; an error hides no result, however new it is.
    assert outcomes == {
        "a": "failed", "only-here": "passed", "only-there": "passed", "c": "passed", "d": "passed",
    }  # fmt: skip
    bundle = JobBundle.open(here, JOB)
    assert {of.scenario: of.outcome for of in bundle.results()} == outcomes
    closed = bundle.read()
    assert (closed.finished_at, closed.totals.trials, closed.totals.passed) == (NOW + 90 * SECOND, 5, 4)
    report = json.loads((bundle.root / "report.json").read_text())
    assert len(report["results"]) == 5
    assert (bundle.root / "trials/oracle/a/1/agent.log").read_text() == f"log of a in {JOB}\n"
    assert merging.bring_in(source.root).action == "unchanged"


def test_an_older_copy_changes_nothing(there: Path, here: Path, merging: Merge) -> None:
    make(here, made("a"), made("b"), index=True)
    before = state(here)
    source = make(there, made("a"), finished_at=NOW)
    assert merging.bring_in(source.root) == MergeResult(JOB, None, "unchanged", 2)
    assert state(here) == before


def test_a_job_which_the_history_here_does_not_know_is_indexed(
    there: Path, here: Path, history: History, merging: Merge
) -> None:
    make(here, made("a"))
    source = make(there, made("a"))
    assert merging.bring_in(source.root).action == "unchanged"
    assert history.job_row(JOB) is not None


def test_a_job_that_died_here_is_finished_by_what_ended_elsewhere(
    there: Path, here: Path, history: History, merging: Merge
) -> None:
    bundle = make(here, made("a"), status=JobStatus.RUNNING, finished_at=None, planned=2, owner=ELSEWHERE)
    os.utime(bundle.root / "job.json", (0, 0))
    source = make(there, made("a"), made("b"))
    assert merging.bring_in(source.root).action == "updated"
    (row,) = each(history, JOBS)
    assert (row.status, row.ended) == ("completed", 2)


@pytest.mark.parametrize("status", [JobStatus.INITIALIZING, JobStatus.RUNNING])
def test_a_job_that_still_runs_elsewhere_is_refused(
    there: Path, here: Path, history: History, merging: Merge, status: JobStatus
) -> None:
    source = make(there, made("a"), status=status, finished_at=None)
    merged = merging.bring_in(source.root)
    assert merged.action == "refused"
    assert merged.message.startswith(f"it is still {status.value} in its own directory; if its process died")
    assert history.job_row(JOB) is None
    assert not (here / "jobs").exists()


@pytest.mark.parametrize("how", ["alive", "locked"])
def test_a_job_that_runs_here_is_left_alone(there: Path, here: Path, merging: Merge, how: str) -> None:
    if how == "alive":
        make(here, made("a"), status=JobStatus.RUNNING, finished_at=None, owner=current_owner())
        lock = None
    else:
        lock = hold(make(here, made("a"), finished_at=NOW).root)
    before = state(here)
    merged = merging.bring_in(make(there, made("a"), made("b")).root)
    assert (merged.action, merged.message) == ("refused", "it is running here")
    assert state(here) == before
    lock = hold(here / "jobs" / JOB) if lock is None else lock
    assert lock is not None
    os.close(lock)


# Hostile files


def test_links_pipes_and_hidden_files_stay_where_they_are(
    there: Path, here: Path, history: History, merging: Merge, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret of another")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_text("the secret of another")
    source = make(there, made("a"), made("b"))
    place = source.root / "trials/oracle/a/1"
    (place / "link").symlink_to(secret)
    (place / "artifacts" / "up").symlink_to(tmp_path / "outside")
    os.mkfifo(place / "pipe")
    (source.root / "summary.md").unlink()
    (source.root / "summary.md").symlink_to(secret)
    shutil.copytree(source.root / "trials/oracle/b", tmp_path / "outside" / "b")
    (source.root / "trials/oracle/linked").symlink_to(tmp_path / "outside" / "b")
    (source.root / ".flight").mkdir()
    (source.root / ".flight" / "cancel").touch()
    assert merging.bring_in(source.root).trials == 2
    assert not any(path.is_symlink() or path.is_fifo() for path in here.rglob("*"))
    assert b"the secret of another" not in b"".join(state(here).values())
    assert not (here / "jobs" / JOB / ".flight").exists()
    assert sorted(problem.rpartition("left out: ")[2] for problem in merging.problems) == [
        "link: is a link", "pipe: is not a regular file", "summary.md: is a link", "up: is a link",
    ]  # fmt: skip


@pytest.mark.parametrize("link", ["job.json", "trials", "trials/oracle/a/1/result.json"])
def test_a_link_in_the_place_of_what_counts_is_not_followed(
    there: Path, tmp_path: Path, history: History, merging: Merge, link: str
) -> None:
    source = make(there, made("a"))
    place = source.root / link
    place.rename(tmp_path / "moved")
    place.symlink_to(tmp_path / "moved")
    if link == "job.json":
        with pytest.raises(InputError, match=r"job\.json: is a link"):
            merging.bring_in(source.root)
        assert list(each(history, JOBS)) == []
    else:
        assert merging.bring_in(source.root).trials == 0


def test_an_impossible_id_leads_nowhere(there: Path, here: Path, merging: Merge) -> None:
    source = make(there, made("a"))
    content = json.loads((source.root / "job.json").read_text())
    (source.root / "job.json").write_text(json.dumps({**content, "id": "../up"}))
    with pytest.raises(InputError, match="is not the id of a job"):
        merging.bring_in(source.root)
    assert not (here / "jobs").exists()


# One job of several


def shards(there: Path) -> list[Path]:
    config = JobConfig(directory=there, shard="1/2", metadata={"branch": "main"})
    one = make(there, made("a", usage=Usage(cost_usd=0.5)), broken("b"), config=config, planned=3)
    two = make(
        there, made("c"), made("b"), job=OTHER, created_at=NOW + 3600 * SECOND, finished_at=NOW + 7200 * SECOND,
        config=config.model_copy(update={"shard": "2/2"}), planned=2,
    )  # fmt: skip
    return [one.root, two.root]


def test_shards_become_one_job(there: Path, here: Path, history: History, merging: Merge) -> None:
    roots = shards(there)
    merged = merging.make_one("nightly", roots)
    assert (merged.name, merged.action, merged.trials) == ("nightly", "added", 3)
    bundle = JobBundle.open(here, merged.job)
    one = bundle.read()
    assert one.id.startswith("20261121-054712-")
    assert (one.name, one.config.name, one.config.shard) == ("nightly", "nightly", None)
    assert (one.status, one.parent, one.message) == (JobStatus.COMPLETED, JOB, "merged from 2 jobs")
    assert (one.created_at, one.finished_at) == (NOW, NOW + 7200 * SECOND)
    # A trial that was planned in both is one trial.
    assert (one.planned, one.totals.trials, one.totals.passed, one.totals.cost_usd) == (4, 3, 3, 0.5)
    assert one.config.metadata == {"branch": "main", "merged_from": f"{JOB} {OTHER}"}
    assert {of.scenario: (of.outcome, of.job, of.reused) for of in bundle.results()} == dict.fromkeys(
        "abc", (Outcome.PASSED, merged.job, None)
    )
    assert (bundle.root / "trials/oracle/b/1/agent.log").read_text() == f"log of b in {OTHER}\n"
    assert len(json.loads((bundle.root / "report.json").read_text())["results"]) == 3
    assert (bundle.root / "junit.xml").is_file()
    assert [row.id for row in each(history, JOBS)] == [merged.job]
    assert [event.message for event in history.events(merged.job)] == [f"merged from {JOB} {OTHER}"]


def test_ids_of_an_earlier_version_are_those_of_the_same_trials(
    there: Path, here: Path, history: History, merging: Merge
) -> None:
    earlier = (made("a", file="texts"), failed("b", file="texts", finished_at=NOW + 9 * SECOND))
    parts = [make(there, *earlier), make(there, made("a"), made("b"), broken("c"), job=OTHER)]
    for roots in (parts, parts[::-1]):
        one = merging.make_one("nightly", [part.root for part in roots])
        assert {row.node_id: row.outcome for row in history.trials(one.job)} == {
            trial("a").node_id: "passed", trial("b").node_id: "failed", trial("c").node_id: "error",
        }  # fmt: skip
        assert JobBundle.open(here, one.job).read().planned == 3
    # A job with both ids of a trial has planned it once.
    both = make(there, made("a", file="texts"), made("a"), made("b"), job="20261121-050000-cccccc")
    assert merging.make_one("both", [both.root]).trials == 2
    assert next(row for row in each(history, JOBS) if row.name == "both").planned == 2
    # The same job, resumed by a later version on one of the machines.
    make(here, *earlier, index=True)
    for changes in ({}, {"finished_at": NOW + 20 * SECOND}):
        shutil.rmtree(there)
        source = make(there, made("b", **changes), made("c"))
        assert merging.bring_in(source.root).trials == 3
        outcome = "passed" if changes else "failed"
        assert {row.node_id: row.outcome for row in history.trials(JOB)} == {
            trial("a", file="texts").node_id: "passed", trial("b").node_id: outcome, trial("c").node_id: "passed",
        }  # fmt: skip
    shutil.rmtree(there)
    assert merging.bring_in(make(there, *earlier).root).trials == 3


@pytest.mark.parametrize(
    ("parts", "lost"),
    [
        (["1/2", "2/2"], ""),
        (["2/2"], "1 of 2 shards: 1/2 is missing"),
        (["1/4", "3/4"], "2 of 4 shards: 2/4, 4/4 are missing"),
        # Parts of unlike cuts are no whole, unless those of one cut are.
        (["1/2", "2/3"], "1 of 2 shards: 2/2 is missing"),
        (["1/3", "2/2", "1/2"], ""),
        # With a whole job among them nobody can say that anything is missing.
        (["1/2", ""], ""),
        ([""], ""),
        # A shard without trials made no job.
        (["1/3", "2/3", "split"], ""),
        (["1/3", "split"], "2 of 3 shards: 2/3 is missing"),
        (["1/3", "", "split"], "2 of 3 shards: 2/3 is missing"),
        # Nor are they there because a job of another benchmark, or one of an earlier version, is.
        (["1/3", "other", "split"], "2 of 3 shards: 2/3 is missing"),
        (["1/3", "old", "split"], "2 of 3 shards: 2/3 is missing"),
    ],
)
def test_a_shard_that_nobody_brought_is_missed(
    there: Path, merging: Merge, here: Path, parts: list[str], lost: str
) -> None:
    split = split_of(2, 1, 0) if "split" in parts else None
    roots = []
    for number, shard in enumerate(part for part in parts if part != "split"):
        cut = {"other": None, "old": "1/1"}.get(shard, shard or None)
        about = {
            "config": JobConfig(directory=there, shard=cut),
            "job": f"20261121-05471{number}-4f9a2c",
            "benchmarks": ("b" if shard == "other" else "a",),
            "split": None if shard == "old" else split,
            "planned": 9 if shard == "other" else 1,
        }
        roots.append(make(there, made(f"s{number}"), **about).root)  # type: ignore[arg-type]
    one = JobBundle.open(here, merging.make_one("all", roots).job).read()
    assert one.status is (JobStatus.CANCELLED if lost else JobStatus.COMPLETED)
    assert str(one.message).partition("; ")[2] == lost
    assert merging.problems == [lost] * bool(lost)
    why = judge_job(one.model_copy(update={"planned": 0}), [], GateConfig(), None, at=NOW).report.why
    assert why.startswith(
        "invalid: the job is cancelled: merged from " if lost else "invalid: the job has no results"
    )


def split_of(*trials: int, digest: str = "a") -> Split:
    return Split(digest=digest, shards=tuple(Shard(scenarios=n, trials=n, seconds=None) for n in trials))


def test_shards_of_different_splits_are_refused_unless_each_is_whole(
    there: Path, here: Path, merging: Merge
) -> None:
    def shard(number: int, digest: str, job: str, total: int = 2) -> Path:
        config = JobConfig(directory=there, shard=f"{number}/{total}")
        return make(there, made(job), job=job, config=config, split=split_of(1, 1, digest=digest)).root

    parts = [shard(1, "a", JOB), shard(2, "b", OTHER)]
    with pytest.raises(
        InputError, match=f"job {JOB} .shard 1/2. and job {OTHER} .shard 2/2. are of different splits"
    ):
        merging.make_one("all", parts)
    assert not (here / "jobs").exists()
    # Such as those of a matrix of agents.
    parts += [shard(2, "a", "20261121-060000-cccccc"), shard(1, "b", "20261121-060000-dddddd")]
    assert JobBundle.open(here, merging.make_one("all", parts).job).read().status is JobStatus.COMPLETED
    parts.append(shard(1, "c", "20261121-060000-eeeeee", total=3))
    with pytest.raises(InputError, match="of different splits, and 2/3 of the second is not here"):
        merging.make_one("more", parts)


def test_shards_are_judged_when_they_are_merged(
    there: Path, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = gate_config({"min_score": {"*": 0.9}}, str)
    roots = []
    for number, results in enumerate(([made("a")], [failed("b")]), start=1):
        config = JobConfig(directory=there, shard=f"{number}/2", gate=rules)
        roots.append(make(there, *results, job=f"20261121-05471{number}-4f9a2c", config=config).root)
        assert judge(JobBundle.open(there, roots[-1].name).read(), results, None) is None
    for _ in range(2):  # again, when nothing changes
        status, out, _ = call(capsys, *roots, "--as-job", "nightly", "--dir", here)
        assert (status, "regressed" in out) == (10, True)
    (junit,) = here.glob("jobs/*/junit.xml")
    assert 'name="bench_gate" value="regressed"' in junit.read_text()
    # What cannot be judged is merged all the same.
    monkeypatch.chdir(here)
    rules = gate_config({"baseline": "file:gone.json"}, str)
    config = JobConfig(directory=there, shard="1/1", gate=rules)
    root = make(there, made("a"), job="20261121-054719-4f9a2c", config=config).root
    status, out, _ = call(capsys, root, "--as-job", "other", "--dir", here)
    assert (status, "could not be judged: there is no file" in out) == (12, True)
    assert len([*JobBundle.all(here)]) == 2


def test_a_shard_is_a_selection_whatever_its_name(there: Path) -> None:
    config = JobConfig(directory=there, shard="1/2", sample="10%")
    make(there, made("a"), config=config, name="nightly", index=True)
    with HistoryReader.of(there) as history:
        row = history.job_row(JOB)
    assert row is not None
    assert row.selection


def test_making_one_again_in_any_order_changes_nothing(
    there: Path, here: Path, history: History, merging: Merge
) -> None:
    roots = shards(there)
    first = merging.make_one("nightly", roots)
    before = state(here)
    assert merging.make_one("nightly", [*reversed(roots), roots[0]]) == MergeResult(
        first.job, "nightly", "unchanged", 3
    )
    assert state(here) == before
    renamed = merging.make_one("weekly", roots)
    assert (renamed.job, renamed.action) == (first.job, "updated")
    (row,) = each(history, JOBS)
    assert (row.name, row.ended) == ("weekly", 3)


def test_parts_that_are_here_too_are_no_new_samples(here: Path, history: History, merging: Merge) -> None:
    signed = Signature(value="f" * 32, parts={})
    one = make(here, made("a", signature=signed, usage=Usage(cost_usd=2)), index=True)
    two = make(here, made("b"), job=OTHER, index=True)
    merged = merging.make_one("both", [one.root, two.root])
    trials = history.trials(merged.job)
    assert {row.scenario: row.reused for row in trials} == {"a": JOB, "b": OTHER}
    row = history.job_row(merged.job)
    assert row is not None
    assert (row.ended, row.passed, row.reused, row.cost_usd) == (2, 2, 2, None)
    assert [sample.job for sample in history.samples("f" * 32, 1)] == [JOB]
    origin = next(of.reused for of in JobBundle.open(here, merged.job).results() if of.scenario == "a")
    assert origin is not None
    assert (here / "jobs" / origin.job / origin.path / "agent.log").is_file()


def test_a_part_of_a_merged_job_is_not_brought_in_by_itself(
    there: Path, here: Path, history: History
) -> None:
    def merging() -> Merge:
        return Merge(here, history)

    roots = shards(there)
    merged = merging().make_one("nightly", roots)
    refused = merging().bring_in(roots[0])
    assert (refused.action, refused.message) == (
        "refused", f"its trials are already in job {merged.job}, which was merged from it and others",
    )  # fmt: skip
    third = make(there, made("d"), job="20261121-070000-cccccc")
    more = merging().make_one("nightly", [*roots, third.root])
    assert more.job != merged.job
    assert {row.scenario: row.reused for row in history.trials(more.job)} == {
        "a": merged.job, "b": merged.job, "c": merged.job, "d": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"status": JobStatus.RUNNING, "finished_at": None}, "is still running; it cannot be merged yet"),
        ({"config": JobConfig(directory=Path("x"), attempts=2)}, "differ in attempts or their policy"),
        ({"config": JobConfig(directory=Path("x"), metadata={"merged_from": "x"})}, "was itself merged from others; name those"),
    ],
)  # fmt: skip
def test_what_cannot_be_one_job_says_why(
    there: Path, here: Path, merging: Merge, changes: dict[str, Any], message: str
) -> None:
    roots = [make(there, made("a")).root, make(there, made("b"), job=OTHER, **changes).root]
    with pytest.raises(InputError, match=message):
        merging.make_one("one", roots)
    assert not (here / "jobs").exists()


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        ((JobStatus.COMPLETED, JobStatus.CANCELLED), JobStatus.CANCELLED),
        ((JobStatus.TIMEOUT, JobStatus.CANCELLED), JobStatus.TIMEOUT),
        ((JobStatus.FAILED, JobStatus.TIMEOUT), JobStatus.FAILED),
    ],
)
def test_the_worst_status_is_that_of_the_whole(
    there: Path, history: History, merging: Merge, statuses: tuple[JobStatus, JobStatus], status: JobStatus
) -> None:
    roots = [
        make(there, made("a"), status=statuses[0]).root,
        make(there, made("b"), job=OTHER, status=statuses[1]).root,
    ]
    merging.make_one("one", roots)
    assert [row.status for row in each(history, JOBS)] == [status]


# Rows without files


def test_rows_of_a_history_come_in_and_stay(there: Path, here: Path, history: History) -> None:
    make(
        there, made("a", usage=Usage(cost_usd=0.5)), failed("b"), made("c", "nop"), name="nightly", index=True
    )
    with History.of(there) as source:
        source.add_event(JOB, "created", "process 1", NOW)
        known, scores = rows(source), source.scores(JOB, trial("a").node_id)
    before = Layout(there).history.read_bytes()
    assert list(take_in(history, Layout(there).history)) == [MergeResult(JOB, "nightly", "added", 3)]
    assert rows(history) == known
    assert history.scores(JOB, trial("a").node_id) == scores
    assert [event.kind for event in history.events(JOB)] == ["created", "imported"]
    assert list(take_in(history, Layout(there).history)) == [MergeResult(JOB, "nightly", "unchanged", 3)]
    assert [event.kind for event in history.events(JOB)] == ["created", "imported"]
    latest = history.latest("texts", "a", "oracle", 1)
    assert latest is not None
    assert Layout(there).history.read_bytes() == before
    assert sorted(path.name for path in there.iterdir()) == ["history.sqlite", "jobs"]
    assert sorted(path.name for path in here.iterdir() if "-" not in path.name) == ["history.sqlite"]
    assert rebuild(here)[:2] == (0, 0)
    assert rows(history) == known


def test_an_older_history_is_upgraded_on_the_way_in_and_stays_as_it_is(
    tmp_path: Path, history: History
) -> None:
    old = tmp_path / "old.sqlite"
    make_v1(old, v1_results())
    before = old.read_bytes()
    assert [merged.action for merged in take_in(history, old)] == ["added"]
    assert old.read_bytes() == before
    assert len(history.runs(JOB)) == 4
    assert len(history.trials(JOB)) == 12


def test_two_histories_of_one_job_are_united(tmp_path: Path, history: History) -> None:
    one, two = tmp_path / "1", tmp_path / "2"
    make(one, made("a"), broken("b"), made("c", finished_at=NOW + 9 * SECOND), index=True)
    make(two, made("b"), failed("c"), made("d", "nop"), index=True, finished_at=NOW + 90 * SECOND)
    assert [merged.action for merged in take_in(history, Layout(one).history)] == ["added"]
    assert list(take_in(history, Layout(two).history)) == [MergeResult(JOB, None, "updated", 4)]
    assert {row.scenario: row.outcome for row in history.trials(JOB)} == dict.fromkeys("abcd", "passed")
    row, closed = history.job_row(JOB), history.job(JOB)
    assert row is not None
    assert closed is not None
    assert (row.ended, row.passed, row.finished_at) == (4, 4, NOW + 90 * SECOND)
    assert (closed.totals.trials, closed.totals.passed) == (4, 4)
    assert len(history.scores(JOB, trial("b").node_id)) == 1
    for source in (one, two):
        assert [merged.action for merged in take_in(history, Layout(source).history)] == ["unchanged"]
    assert checked(history, JOB).wrong is None
    whole = rows(history)
    history.connection.execute("UPDATE trials SET cluster = 'x' WHERE scenario = 'b'")
    assert checked(history, JOB).wrong is not None
    for source in (one, two):
        assert [(one.action, one.message) for one in take_in(history, Layout(source).history)] == [
            ("updated", "")
        ]
    assert (rows(history), checked(history, JOB).wrong) == (whole, None)


def test_files_win_over_rows(there: Path, here: Path, history: History, merging: Merge) -> None:
    make(there, made("a"), made("b"), index=True)
    make(here, made("a"), index=True)
    (merged,) = take_in(history, Layout(there).history)
    assert (merged.action, merged.message) == (
        "refused", "it has 1 more trials than its files here; merge its directory",
    )  # fmt: skip
    assert merging.bring_in(there / "jobs" / JOB).action == "updated"
    assert [merged.action for merged in take_in(history, Layout(there).history)] == ["unchanged"]


def test_rows_for_a_job_that_cannot_be_read_here_are_refused_and_the_next_come_in(
    there: Path, history: History
) -> None:
    make(there, made("a"), job="first", index=True)
    assert [job.action for job in take_in(history, Layout(there).history)] == ["added"]
    history.connection.execute("UPDATE jobs SET record = json_set(record, '$.novelty', 1)")
    make(there, made("b"), job="second", index=True)
    first, second = take_in(history, Layout(there).history)
    assert (first.action, second.action) == ("refused", "added")
    assert "the record of job first is of another version or damaged: novelty" in first.message


def test_a_bundle_takes_the_place_of_rows_unless_they_know_more(
    there: Path, tmp_path: Path, history: History, merging: Merge
) -> None:
    make(there, made("a"), made("b"), index=True)
    list(take_in(history, Layout(there).history))
    part = make(tmp_path / "part", made("a"))
    refused = merging.bring_in(part.root)
    assert (refused.action, refused.message) == (
        "refused", "the history has 1 more trials of it, merged without their files",
    )  # fmt: skip
    assert merging.bring_in(there / "jobs" / JOB).action == "added"
    assert history.job_ids() == {JOB}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE trials SET node_id = x'00'", "its trials are damaged"),
        ("UPDATE trials SET score = 2", "its trials are damaged"),
        ("UPDATE trials SET score = 'NaN'", "its trials are damaged"),
        ("UPDATE trials SET outcome = 'great'", "its trials are damaged"),
        ("UPDATE trials SET started_at = 'yesterday'", "its trials are damaged"),
        ("UPDATE scores SET weight = 'heavy'", "its trials are damaged"),
        ("UPDATE trials SET cluster = 'x'", "its results are not those it ended with; run `benchjobs db rebuild` in its"),
        ("UPDATE jobs SET record = '{}'", "its record is damaged: id: Field required"),
        ("UPDATE jobs SET record = replace(record, '20261121', '20261122')", "its record is damaged: it is that of job"),
        ("UPDATE jobs SET record = replace(record, 'completed', 'running')", "it is still running in its own directory"),
    ],
)  # fmt: skip
def test_a_job_with_rows_that_make_no_sense_is_refused(
    there: Path, history: History, change: str, message: str
) -> None:
    make(there, made("a"), index=True)
    with contextlib.closing(sqlite3.connect(Layout(there).history)) as connection, connection:
        connection.execute(change)
    (merged,) = take_in(history, Layout(there).history)
    assert merged.action == "refused"
    assert merged.message.startswith(message)
    assert list(each(history, JOBS)) == []


def test_files_that_are_no_histories_are_one_clear_error(tmp_path: Path, history: History) -> None:
    path = tmp_path / "other.sqlite"
    path.write_bytes(b"SQLite format 3\0" + b"x" * 4000)
    with pytest.raises(InputError, match=r"other\.sqlite: is damaged or not a history"):
        list(take_in(history, path))
    path.unlink()
    for statement, message in (
        ("CREATE TABLE x (y)", "is not a history"),
        ("PRAGMA user_version = 99", "written by a newer version"),
    ):
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute(statement)
        with pytest.raises(InputError, match=rf"other\.sqlite: {message}"):
            list(take_in(history, path))


# The command


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = run("merge", *arguments)
    return (status, *capsys.readouterr())


def test_a_results_directory_comes_in_with_jobs_it_has_only_in_its_history(
    there: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(there, made("a"), name="nightly", index=True)
    gone = make(there, made("b"), job=OTHER, index=True)
    shutil.rmtree(gone.root)
    status, out, err = call(capsys, there, "--dir", here)
    assert (status, err) == (0, "")
    assert out == f"added      {JOB}  nightly  1 trial\nadded      {OTHER}  1 trial\n"
    status, out, err = call(capsys, Layout(there).history, "--dir", here)
    assert (status, err) == (0, "")
    assert out == f"unchanged  {JOB}  nightly  1 trial\nunchanged  {OTHER}  1 trial\n"


def test_a_refused_job_is_told_on_stderr_and_by_the_exit_status(
    there: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(there, made("a"), status=JobStatus.RUNNING, finished_at=None)
    make(there, made("b"), job=OTHER)
    status, out, err = call(capsys, there, "--dir", here)
    assert status == 1
    assert out == f"added      {OTHER}  1 trial\n"
    assert err.startswith(f"refused    {JOB}: it is still running in its own directory")


def test_a_damaged_job_or_history_is_refused_and_the_others_come_in(
    there: Path, here: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    make(there, made("b"), job=OTHER)
    (there / "jobs" / "20261121-000000-empty").mkdir()
    (make(there, made("a")).root / "job.json").write_text("{")
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(b"SQLite format 3\0" * 100)
    more = tmp_path / "more"
    make(more, made("c"), job="more")
    status, out, err = call(capsys, there, damaged, more, "--dir", here)
    assert status == 1
    assert out == f"added      {OTHER}  1 trial\nadded      more  1 trial\n"
    refused = [line.partition(": ")[0] for line in err.splitlines()]
    assert refused == [
        "refused    20261121-000000-empty",
        f"refused    {JOB}",
        f"refused    {one_line(str(damaged), 100)}",
    ]
    status, out, _ = call(capsys, there, damaged, "--dir", here, "-o", "json")
    document = json.loads(out)
    jsonschema.validate(document, schema_of("merge"))
    assert status == 1
    assert [job["action"] for job in document["jobs"]] == ["refused", "refused", "unchanged", "refused"]
    assert "is damaged or of another version" in document["jobs"][1]["message"]


def test_the_document_fits_its_schema(
    there: Path, here: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "all.xml"
    asked = (*shards(there), "--as-job", "nightly", "--junit", out, "--dir", here, "-o", "json")
    status, stdout, _ = call(capsys, *asked)
    assert status == 0
    document = json.loads(stdout)
    jsonschema.validate(document, schema_of("merge"))
    (job,) = document["jobs"]
    assert (job["name"], job["action"], job["trials"]) == ("nightly", "added", 3)
    assert document["junit"] == {"path": str(out), "files": 1, "cases": 3}
    assert document["directory"] == str(here)


def test_junit_files_are_merged_without_any_jobs(
    there: Path, here: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = [root / "junit.xml" for root in shards(there)]
    status, out, err = call(capsys, *files, "--junit", tmp_path / "all.xml", "--dir", here)
    assert (status, out, err) == (0, f"{tmp_path / 'all.xml'}: 3 cases of 2 files\n", "")
    assert not here.exists()


def test_mistakes_are_one_line(
    there: Path, here: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    make(there, made("a"), index=True)
    (tmp_path / "empty").mkdir()
    (tmp_path / "note.txt").write_text("hello")
    shutil.copy(Layout(there).history, tmp_path / "alone.sqlite")
    junit = there / "jobs" / JOB / "junit.xml"
    for arguments, message in (
        ([tmp_path / "empty"], "there are no jobs in "),
        ([tmp_path / "note.txt"], "is neither a directory with jobs, nor a history, nor a JUnit file"),
        ([there, "--dir", there], "is the directory to merge into; choose another --dir"),
        ([Layout(there).history, "--dir", there], "is the directory to merge into"),
        ([junit], "is a JUnit file; give the output file with --junit OUT.xml"),
        ([tmp_path / "alone.sqlite", "--as-job", "x"], "--as-job needs job directories; there are none in"),
        ([tmp_path / "missing"], "does not exist"),
        ([], "Missing argument"),
    ):
        where = [] if "--dir" in arguments else ["--dir", here]
        status, out, err = call(capsys, *arguments, *where)
        assert (status, out, err.count("\n")) == (2, "", 1), err
        assert message in err
    assert not here.exists()


def test_results_elsewhere_in_a_bundle_are_no_trials(there: Path, history: History, merging: Merge) -> None:
    source = make(there, made("a"))
    for name in ("copies", ".trials"):
        shutil.copytree(source.root / "trials", source.root / name)
    shutil.copytree(source.root / "trials/oracle/a", source.root / "trials/oracle/.a")
    assert merging.bring_in(source.root).trials == 1
    assert merging.problems == []
