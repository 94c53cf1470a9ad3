"""What a job is judged against: named baselines, jobs, branches of git, files."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_benchjobs.analysis.baseline.candidates import why_unfit
from pytest_benchjobs.analysis.baseline.file import as_scenarios, as_side
from pytest_benchjobs.analysis.baseline.resolve import Resolved, parse_spec, resolve, usable
from pytest_benchjobs.analysis.sides import Cell, Series, Side, cut_short, gone_of
from pytest_benchjobs.model.baseline import BaselineEntry, BaselineFile
from pytest_benchjobs.model.errors import InputError, InputErrors
from pytest_benchjobs.model.gate import GateConfig
from pytest_benchjobs.model.job import JobRecord, JobStatus, Totals
from pytest_benchjobs.model.result import Signature
from pytest_benchjobs.report.write import write_reports
from pytest_benchjobs.store.baseline_file import JsonFile, baseline_json, baseline_of
from pytest_benchjobs.store.baselines import restore_baselines, set_baseline
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.layout import Layout
from pytest_benchjobs.store.reader import HistoryReader
from pytest_benchjobs.store.reproducibility import is_ancestor, person, reproducibility

from .jobs import ended, make_job
from .records import record

ONE, TWO, THREE, FOUR, FIVE = (f"2026110{n}-000000-aaaaa{n}" for n in range(1, 6))
NOW = datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC)
LINE = '{"benchmark": "b", "scenario": "a", "agent": "oracle", "scores": [1.0], "passed": 1},\n  '
LETTERS = {"oracle": {"a": "PP", "b": "PF"}}
CI = ("GITHUB_REF_NAME", "GITHUB_REF_TYPE", "GITHUB_SHA", "GITHUB_ACTOR", "CI_COMMIT_BRANCH", "CI_COMMIT_SHA")
MORE_CI = ("BRANCH_NAME", "GIT_BRANCH", "GIT_COMMIT", "GITLAB_USER_LOGIN", "BUILD_USER_ID")


@pytest.fixture(autouse=True)
def _no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*CI, *MORE_CI):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    return tmp_path / "reports"


@pytest.fixture
def history(reports: Path) -> Iterator[History]:
    with History.of(reports) as history:
        yield history


def written(side: Side, name: str = "x", jobs: tuple[str, ...] = (ONE,)) -> bytes:
    ran_on = tuple(sorted(side.ran_on)) or None
    return baseline_json(BaselineFile(name=name, jobs=jobs, scenarios=as_scenarios(side), ran_on=ran_on))


def entry(name: str, *jobs: str, **changes: Any) -> BaselineEntry:
    return BaselineEntry(**{"name": name, "jobs": jobs, "set_at": NOW, **changes})


def found(
    spec: str, history: History, job: JobRecord | None = None, root: Path = Path("/nowhere")
) -> Resolved:
    return resolve(spec, history=history, directory=history.path.parent, root=root, job=job)


def jobs_of(resolved: Resolved) -> tuple[str, ...]:
    assert resolved.side is not None, resolved.missing
    assert resolved.missing is None
    return resolved.side.jobs


# --- Named


def test_the_latest_entry_of_a_name_counts_whatever_the_clock_says(history: History) -> None:
    assert history.baselines() == []
    set_baseline(history, entry("a", ONE, reason="first"))
    earlier = NOW - datetime.timedelta(days=1)
    kept = set_baseline(history, entry("a", TWO, set_at=earlier))
    assert kept.set_at > NOW
    set_baseline(history, entry("b", ONE))
    assert [(one.name, one.jobs) for one in history.baselines()] == [("a", (TWO,)), ("b", (ONE,))]
    assert [one.jobs for one in history.baseline_past("a")] == [(TWO,), (ONE,)]
    set_baseline(history, entry("a"))
    assert history.baseline("a") is None
    assert [one.name for one in history.baselines()] == ["b"]
    with pytest.raises(InputError, match="there is no baseline 'a'; there are b"):
        set_baseline(history, entry("a"))
    with pytest.raises(InputError, match="reserved word"):
        set_baseline(history, entry("last", ONE))
    set_baseline(history, entry("a", THREE))
    with HistoryReader(history.path) as reader:
        assert [one.jobs for one in reader.baseline_past("a")] == [(THREE,), (), (TWO,), (ONE,)]


def test_what_cannot_be_written_beside_the_history_is_not_in_it(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_baseline(history, entry("a", ONE))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(Exception, match="no space left"):
        set_baseline(history, entry("a", TWO))
    assert [one.jobs for one in history.baseline_past("a")] == [(ONE,)]


def test_what_anybody_wrote_into_the_file_is_text(reports: Path, history: History) -> None:
    hostile = entry("a", "x\x1b[31m\n", reason="\x1b]0;x\x07gone", set_by="me\u202e")
    reports.mkdir(exist_ok=True)
    (reports / "baselines.json").write_text(f"[{hostile.model_dump_json()}]")
    assert restore_baselines(history) == 1
    assert restore_baselines(history) == 0
    read = history.baseline("a")
    assert read is not None
    assert (read.jobs, read.reason, read.set_by) == (("x",), "gone", "me")


def test_a_name_is_its_jobs_without_the_one_that_is_judged(reports: Path, history: History) -> None:
    make_job(reports, ONE, LETTERS, hours_ago=3)
    judged = make_job(reports, TWO, LETTERS, hours_ago=2)
    missing = found("defualt", history, judged)
    assert missing.side is None
    assert missing.missing == "there is no baseline 'defualt': no baseline is set yet"
    set_baseline(history, entry("default", TWO, ONE, THREE, set_by="Ann", reason="why not"))
    resolved = found("default", history, judged)
    assert jobs_of(resolved) == (ONE,)
    assert resolved.notes == (
        "baseline default was set 2026-11-21 by Ann: why not",
        f"job {TWO} was left out of baseline default: it is the judged job",
        f"job {THREE} of baseline default is no longer here",
    )
    assert "Did you mean 'default'?" in str(found("defualt", history, judged).missing)
    set_baseline(history, entry("own", TWO))
    assert "no job of baseline 'own' can be used" in str(found("own", history, judged).missing)


def test_pooled_attempts_are_of_the_same_task_and_counted_once(reports: Path, history: History) -> None:
    def signed(letter: str, scenario: str, scenario_digest: str) -> Any:
        parts = {"scenario": scenario_digest, "agent": letter}
        return ended(letter, scenario, signature=Signature(value="v", parts=parts))

    make_job(reports, ONE, [signed("F", "a", "old"), signed("F", "b", "same")], hours_ago=3)
    make_job(reports, TWO, [signed("P", "a", "new"), signed("P", "b", "same")], hours_ago=2)
    set_baseline(history, entry("both", TWO, ONE))
    resolved = found("both", history)
    assert resolved.side is not None
    scores = {key[1]: cell.scores for key, cell in resolved.side.cells.items()}
    assert scores == {"a": (1.0,), "b": (1.0, 0.0)}
    assert resolved.notes[1:] == (
        "1 scenario was different in older jobs; their attempts there were left out: texts/a",
    )


# --- Specs


@pytest.mark.parametrize(
    "text",
    [
        "", "job:", "branch:", "branch:main~0", "branch:main~x", "branch:main~101", "branch:a b", "file:",
        "tag:x", "a/b",
    ],
)  # fmt: skip
def test_words_that_mean_nothing_are_an_error(text: str) -> None:
    with pytest.raises(InputError):
        parse_spec(text)


@given(st.text())
def test_any_words_are_a_spec_or_an_error(text: str) -> None:
    try:
        spec = parse_spec(text)
    except InputError as error:
        assert str(error).isprintable()
    else:
        assert spec.kind in ("last", "none") or spec.value


def test_a_file_that_is_not_there_may_be_misspelt(tmp_path: Path, history: History) -> None:
    (tmp_path / "baseline.json").touch()
    assert str(found("baseline.json", history, root=tmp_path).missing).endswith(
        "Did you mean 'file:baseline.json'?"
    )
    said = str(found("file:baselin.json", history, root=tmp_path).missing)
    # A long directory is cut in its middle.
    assert said.startswith(f"there is no file {tmp_path}/baselin.json. Did you mean '")
    assert said.endswith("/baseline.json'?")
    nope = tmp_path / "no/pe"
    assert found("file:no/pe", history, root=tmp_path).missing == f"there is no file {nope}"


def test_a_job_is_named_as_anywhere_and_last_is_never_itself(reports: Path, history: History) -> None:
    make_job(reports, ONE, LETTERS, hours_ago=3, name="first")
    make_job(reports, TWO, LETTERS, hours_ago=2)
    judged = make_job(reports, THREE, LETTERS, hours_ago=1)
    assert jobs_of(found("job:first", history, judged)) == (ONE,)
    assert jobs_of(found("job:last", history, judged)) == (TWO,)
    assert jobs_of(found("job:last~1", history, judged)) == (ONE,)
    assert jobs_of(found("job:last", history)) == (THREE,)
    assert found("none", history, judged).side is None
    for spec, why in (
        ("job:last~2", "besides the judged one"),
        (f"job:{THREE}", "cannot be its own baseline"),
        ("job:firts", "Did you mean 'first'"),
        ("job:2026", "matches several"),
    ):
        with pytest.raises(InputError, match=why):
            found(spec, history, judged)


@pytest.mark.parametrize(
    ("status", "how"),
    [
        (JobStatus.CANCELLED, "it did not complete: cancelled"),
        (JobStatus.BUDGET, "it did not complete: budget"),
        (JobStatus.RUNNING, "it has not ended: running"),
    ],
)
def test_a_job_that_was_cut_short_is_no_baseline_by_its_own_name(
    reports: Path, history: History, status: JobStatus, how: str
) -> None:
    make_job(reports, ONE, LETTERS, hours_ago=3, status=status, planned=9)
    judged = make_job(reports, TWO, LETTERS, hours_ago=2)
    why = f"job {ONE} cannot be a baseline: {how}, with 4 of 9 results"
    refused = found(f"job:{ONE}", history, judged)
    assert (refused.side, refused.missing) == (None, why)
    for first_run in (False, True):
        with pytest.raises(InputError, match=rf"{why}; `benchjobs resume {ONE}` finishes it, .* --force"):
            usable(refused, GateConfig(baseline=f"job:{ONE}", first_run=first_run))
    with pytest.raises(InputError, match=r"has not ended|did not complete|is still"):
        found(f"file:jobs/{ONE}", history, judged, root=reports)
    # Whoever set it by --force knows.
    set_baseline(history, entry("forced", ONE))
    forced = found("forced", history, judged)
    assert jobs_of(forced) == (ONE,)
    assert forced.notes[-1] == f"job {ONE} of baseline forced did not complete: {status.value}"


def test_last_is_the_last_completed_job_that_fits(reports: Path, history: History) -> None:
    judged = make_job(reports, FIVE, LETTERS, hours_ago=1)
    none = "no completed job of the same benchmarks and agents before"
    assert none in str(found("last", history, judged).missing)
    assert jobs_of(found("last", history)) == (FIVE,)
    make_job(reports, ONE, LETTERS, hours_ago=9)
    make_job(reports, TWO, {"nop": {"a": "P", "b": "P"}}, hours_ago=8)
    make_job(reports, "20261101-100000-000001", {"oracle": {"a": "EE", "b": "PP"}}, hours_ago=7)
    make_job(reports, "20261101-100000-000002", LETTERS, hours_ago=6, status=JobStatus.CANCELLED)
    make_job(reports, "20261101-100000-000003", {"oracle": {"z": "P"}}, hours_ago=5)
    make_job(reports, "20261101-100000-000004", LETTERS, hours_ago=0.5)
    resolved = found("last", history, judged)
    assert jobs_of(resolved) == (ONE,)
    assert resolved.notes == (
        "job 20261101-100000-000001 was left out: 2 of its 4 attempts ended in an error",
    )
    # A job of the very agent is preferred to a later one of another model.
    other = make_job(reports, THREE, {"oracle:m2": {"a": "P", "b": "P"}}, hours_ago=2)
    assert jobs_of(found("last", history, judged)) == (ONE,)
    resolved = found("last", history, other)
    assert jobs_of(resolved) == (ONE,)
    assert "has not all agents" in resolved.notes[-1]


def test_later_jobs_are_no_baseline_unless_they_are_of_another_branch(
    reports: Path, history: History
) -> None:
    make_job(reports, ONE, LETTERS, hours_ago=9, **at(None))
    judged = make_job(reports, TWO, LETTERS, hours_ago=5, **at(None))
    aside = make_job(reports, THREE, LETTERS, hours_ago=4, **at(None, "topic"))
    make_job(reports, FOUR, LETTERS, hours_ago=1, **at(None))
    assert jobs_of(found("last", history, judged)) == (ONE,)
    assert jobs_of(found("branch:main", history, judged)) == (ONE,)
    assert jobs_of(found("branch:main", history, aside)) == (FOUR,)


@pytest.mark.parametrize(("errors", "fits"), [(1, True), (2, False)])
def test_of_a_last_job_one_attempt_in_twenty_may_have_ended_in_an_error(
    reports: Path, history: History, errors: int, fits: bool
) -> None:
    names = [f"s{number:02}" for number in range(20)]
    letters = {name: "E" if place < errors else "P" for place, name in enumerate(names)}
    make_job(reports, ONE, {"oracle": letters}, hours_ago=2)
    judged = make_job(reports, TWO, {"oracle": dict.fromkeys(names, "P")}, hours_ago=1)
    resolved = found("last", history, judged)
    assert (resolved.side is not None) is fits
    left_out = f"job {ONE} was left out: 2 of its 20 attempts ended in an error"
    assert resolved.notes == (() if fits else (left_out,))


@pytest.mark.parametrize(("shared", "fits"), [("ab", True), ("a", False)])
def test_a_last_job_has_half_of_the_scenarios(
    reports: Path, history: History, shared: str, fits: bool
) -> None:
    make_job(reports, ONE, {"oracle": dict.fromkeys(shared, "P")}, hours_ago=2)
    judged = make_job(reports, TWO, {"oracle": dict.fromkeys("abcd", "P")}, hours_ago=1)
    assert (found("last", history, judged).side is not None) is fits


def test_last_of_a_job_that_begins_is_of_the_benchmarks_it_is_going_to_run(
    reports: Path, history: History
) -> None:
    other = [ended("P", "a").model_copy(update={"benchmark": "other"})]
    make_job(reports, ONE, LETTERS, hours_ago=9)
    make_job(reports, TWO, {"oracle": {"a": "P"}}, hours_ago=8, partial=True)
    make_job(reports, THREE, other, hours_ago=7)
    begins = make_job(reports, FIVE, [], hours_ago=1, status=JobStatus.RUNNING)

    def last(*benchmarks: str) -> Resolved:
        return resolve(
            "last", history=history, directory=reports, root=reports, job=begins, benchmarks=benchmarks
        )

    assert jobs_of(last()) == (THREE,)
    assert jobs_of(last("other")) == (THREE,)
    assert jobs_of(last("texts")) == (ONE,)  # the later one ran only a part
    assert jobs_of(last("texts", "other")) == (THREE,)
    assert last("texts", "other").notes == (f"job {THREE} has not all benchmarks",)
    assert last("none").side is None
    history.forget(ONE)
    assert last("texts").notes == (f"job {TWO} ran only a part of its benchmarks",)


# --- Branches


def git(root: Path, *arguments: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    call = ["git", "-c", "user.name=Ann", "-c", "user.email=a@b", *arguments]
    return subprocess.run(call, cwd=root, env=env, check=True, capture_output=True, text=True).stdout.strip()


def at(commit: str | None, branch: str | None = "main", *, dirty: bool = False) -> dict[str, Any]:
    return {"reproducibility": {"git": {"commit": commit, "branch": branch, "dirty": dirty}}}


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, list[str]]:
    """One with three commits on main and one on a branch that left after the second: `[c1, c2, c3, f]`."""
    root = tmp_path / "code"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    commits = []
    for name in ("1", "2", "3"):
        git(root, "commit", "-q", "--allow-empty", "-m", name)
        commits.append(git(root, "rev-parse", "HEAD"))
    git(root, "checkout", "-q", "-b", "topic", commits[1])
    git(root, "commit", "-q", "--allow-empty", "-m", "f")
    return root, [*commits, git(root, "rev-parse", "HEAD")]


def test_a_branch_is_its_jobs_from_before_this_one_left_it(
    reports: Path, history: History, repository: tuple[Path, list[str]]
) -> None:
    root, (one, two, three, topic) = repository
    make_job(reports, ONE, LETTERS, hours_ago=9, **at(one))
    make_job(reports, TWO, LETTERS, hours_ago=8, **at(two))
    make_job(reports, THREE, LETTERS, hours_ago=7, **at(two, dirty=True))
    make_job(reports, FOUR, LETTERS, hours_ago=6, **at(three))
    judged = make_job(reports, FIVE, LETTERS, hours_ago=5, **at(topic, "topic"))
    assert jobs_of(found("branch:main", history, judged, root)) == (TWO,)
    resolved = found("branch:main~3", history, judged, root)
    assert jobs_of(resolved) == (TWO, ONE)
    assert resolved.notes == ("only 2 of 3 jobs: branch main has no more matching jobs",)
    # On the branch itself: those before, of its own commit too.
    again = make_job(reports, "20261106-000000-aaaaaa", LETTERS, hours_ago=4, **at(three))
    make_job(reports, "20261107-000000-aaaaaa", LETTERS, hours_ago=3, **at(three))
    assert jobs_of(found("branch:main~2", history, again, root)) == (FOUR, TWO)
    # Without a job it is the commit that is checked out; without a repository the latest.
    assert jobs_of(found("branch:main", history, None, root)) == (TWO,)
    assert jobs_of(found("branch:main", history, None, reports)) == ("20261107-000000-aaaaaa",)
    missing = found("branch:mian", history, judged, root)
    assert missing.side is None
    assert "branch mian" in str(missing.missing)


def test_what_git_cannot_tell_of_two_commits_is_unknown(
    repository: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, (one, _, three, topic) = repository
    pairs = {(one, three): True, (three, one): False, (topic, three): False}
    assert {pair: is_ancestor(root, *pair) for pair in pairs} == pairs
    assert is_ancestor(root, "f" * 40, one) is is_ancestor(root.parent, one, three) is None
    monkeypatch.setenv("PATH", str(root))
    assert is_ancestor(root, one, three) is None


def test_of_a_branch_the_job_that_fits_best_is_taken_though_others_are_newer(
    reports: Path, history: History
) -> None:
    both = {"oracle": {"a": "P", "b": "P"}, "nop": {"a": "F", "b": "F"}}
    one_agent = {"oracle": {"a": "P", "b": "P"}}
    make_job(reports, ONE, both, hours_ago=9, **at(None))
    make_job(reports, TWO, one_agent, hours_ago=8, **at(None))
    make_job(reports, THREE, both, hours_ago=7, partial=True, **at(None))
    judged = make_job(reports, FIVE, both, hours_ago=5, **at(None, "topic"))
    assert jobs_of(found("branch:main", history, judged, reports)) == (THREE,)
    with History.of(reports) as other:
        other.forget(THREE)
    assert jobs_of(found("branch:main", history, judged, reports)) == (ONE,)
    with History.of(reports) as other:
        other.forget(ONE)
    resolved = found("branch:main", history, judged, reports)
    assert jobs_of(resolved) == (TWO,)
    assert any("has not all agents" in note for note in resolved.notes)


def test_a_branch_without_anything_better_is_what_there_is(
    reports: Path, history: History, repository: tuple[Path, list[str]]
) -> None:
    root, (_, _, three, topic) = repository
    make_job(reports, ONE, LETTERS, hours_ago=9, **at("--upload-pack=x"))
    make_job(reports, TWO, LETTERS, hours_ago=8, **at(three, dirty=True))
    judged = make_job(reports, FIVE, LETTERS, hours_ago=5, **at(topic, "topic"))
    assert jobs_of(found("branch:main", history, judged, root)) == (ONE,)
    git_less = make_job(reports, FOUR, LETTERS, hours_ago=6, reproducibility={"git": "hostile"})
    assert jobs_of(found("branch:main~2", history, git_less, root)) == (ONE,)
    with History.of(reports) as other:
        other.forget(ONE)
    resolved = found("branch:main", history, judged, root)
    assert jobs_of(resolved) == (TWO,)
    assert resolved.notes == (
        "all jobs of branch main ran with uncommitted changes",
        f"no job of branch main is on an ancestor of {topic[:12]}; the latest is used",
    )


@pytest.mark.parametrize(
    ("variables", "branch"),
    [
        ({"GITHUB_REF_NAME": "main", "GITHUB_REF_TYPE": "branch"}, "main"),
        # A pull request whose own branch is called main must not pass for ours.
        ({"GITHUB_REF_NAME": "12/merge", "GITHUB_HEAD_REF": "main"}, "12/merge"),
        ({"GITHUB_REF_NAME": "v1", "GITHUB_REF_TYPE": "tag"}, None),
        ({"CI_COMMIT_BRANCH": "main"}, "main"),
        ({"BRANCH_NAME": "PR-12", "GIT_BRANCH": "origin/main"}, "PR-12"),
        ({"GIT_BRANCH": "origin/main"}, "main"),
        ({"GIT_BRANCH": "detached"}, None),
        ({}, None),
    ],
)
def test_the_branch_is_known_where_ci_checked_out_a_commit(
    variables: dict[str, str],
    branch: str | None,
    repository: tuple[Path, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root, commits = repository
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert reproducibility([], root)["git"]["branch"] == "topic"
    git(root, "checkout", "-q", "--detach")
    assert reproducibility([], root)["git"] == {"commit": commits[-1], "branch": branch, "dirty": False}
    assert reproducibility([], tmp_path)["git"] is None
    # As where git distrusts the directory, or is not installed.
    monkeypatch.setenv("CI_COMMIT_SHA", "a" * 40)
    assert reproducibility([], tmp_path)["git"] == {"commit": "a" * 40, "branch": branch, "dirty": None}
    monkeypatch.setenv("CI_COMMIT_SHA", "--help")
    assert reproducibility([], tmp_path)["git"] is None


def test_who_set_it_is_whoever_ci_or_git_names(
    repository: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = repository
    git(root, "config", "user.name", "Ann\nOther")
    assert person(root) == "Ann Other"
    monkeypatch.setenv("GITLAB_USER_LOGIN", "bot")
    assert person(root) == "bot"


# --- Files


def _without_some_results(reports: Path, history: History) -> None:
    """See that neither a job's directory nor its report is a baseline once a result of it is damaged or gone."""
    root = JobBundle(reports, ONE).root
    path = min(root.glob("trials/*/*/*/result.json"))
    whole, report = path.read_bytes(), (root / "report.json").read_bytes()
    path.write_bytes(whole[:-20])

    def refused(place: str = f"jobs/{ONE}", left_out: str = "") -> None:
        gone = rf"cannot be a baseline: 1 of its 4 results are gone{left_out}"
        with pytest.raises(InputError, match=gone):
            found(f"file:{place}", history, root=reports)

    refused(left_out=rf": .*/{path.parent.parent.name}/1/result\.json was left out")
    path.unlink()
    refused()
    path.parent.rename(reports / "elsewhere")
    refused()
    (reports / "elsewhere").rename(path.parent)
    less = json.loads(report)
    less["results"].pop()
    (root / "report.json").write_text(json.dumps(less), "utf-8")
    refused(f"jobs/{ONE}/report.json")
    path.write_bytes(whole)
    (root / "report.json").write_bytes(report)
    assert found(f"file:jobs/{ONE}", history, root=reports).side is not None


def test_a_job_s_directory_and_its_report_are_the_same_side(
    reports: Path, history: History, tmp_path: Path
) -> None:
    record = make_job(reports, ONE, {"oracle": {"a": "PFE", "b": "S"}}, hours_ago=3)
    bundle = JobBundle(reports, ONE)
    write_reports(bundle, record, list(bundle.results()))
    from_history = found(f"job:{ONE}", history).side
    assert from_history is not None
    for path in (f"jobs/{ONE}", f"jobs/{ONE}/report.json"):
        side = found(f"file:{path}", history, root=reports).side
        assert side is not None
        assert side.jobs == (ONE,)
        assert side.cells == from_history.cells
        with pytest.raises(InputError, match="cannot be its own baseline"):
            found(f"file:{path}", history, record, root=reports)
    _without_some_results(reports, history)
    for name, jobs in (("own", (ONE,)), ("pool", (TWO, ONE))):
        (reports / f"{name}.json").write_bytes(written(from_history, name, jobs))
    with pytest.raises(InputError, match="cannot be its own baseline"):
        found("file:own.json", history, record, root=reports)
    assert found("file:pool.json", history, record, root=reports).notes[0] == (
        f"the judged job {ONE} is also part of {reports}/pool.json"
    )
    with pytest.raises(InputError, match=r"no job.json; name one of those in its jobs/"):
        found("file:reports", history, root=tmp_path)
    make_job(reports, TWO, LETTERS, status=JobStatus.RUNNING)
    with pytest.raises(InputError, match="is still running"):
        found(f"file:jobs/{TWO}", history, root=reports)
    make_job(reports, THREE, {"oracle": {"a": "S"}})
    empty = found(f"file:jobs/{THREE}", history, root=reports)
    assert empty.side is None
    assert "the baseline is empty" in str(empty.missing)


texts = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=20)
series = st.builds(
    Series,
    texts,
    st.none() | texts,
    st.sampled_from(("higher", "lower")),
    st.tuples(st.integers(-(10**9), 10**9).map(lambda n: n / 1000)),
)
cells = st.builds(
    Cell,
    texts,
    texts,
    texts,
    scores=st.lists(st.integers(0, 10**6).map(lambda n: n / 10**6), max_size=4).map(
        lambda scores: tuple(sorted(scores, reverse=True))
    ),
    passed=st.just(0),
    errors=st.integers(0, 9),
    seconds=st.lists(st.floats(0, 1e6).map(lambda n: round(n, 3)), max_size=1).map(tuple),
    costs=st.lists(st.floats(0, 1e4).map(lambda n: round(n, 6)), max_size=1).map(tuple),
    tokens=st.lists(st.integers(0, 10**9), max_size=1).map(tuple),
    comparable=st.none() | texts,
    mixed=st.just(value=False),
    known=st.none(),
    tags=st.lists(texts, max_size=3).map(tuple),
    cluster=st.none() | texts,
    threshold=st.just(1.0),
    metrics=st.lists(series, max_size=3, unique_by=lambda one: one.name).map(tuple),
    graded_in=st.sampled_from([(), ("fresh",), ("agent_container", "unknown")]),
    reused=st.just(()),
    file=st.none(),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(cells, max_size=8), st.frozensets(st.sampled_from(["docker", "docker, runtime runsc"])))
def test_a_side_comes_back_from_its_file(tmp_path: Path, listed: list[Cell], ran_on: frozenset[str]) -> None:
    side = Side("x", (ONE,), {cell.key: cell for cell in listed if cell.scores or cell.errors}, ran_on)
    path = tmp_path / "baseline.json"
    path.write_bytes(written(side))
    assert as_side(baseline_of(JsonFile(path)), "x") == side
    assert path.read_bytes() == written(
        dataclasses.replace(side, cells=dict(reversed(list(side.cells.items()))))
    )


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('[1.0], "passed"', '[0.9], "passed"', "scenarios were changed after they had been written"),
        (LINE, "", "2 scenarios were written, and 1 are here"),
        ('"scenarios": 2,', '"scenarios": 3,', "3 scenarios were written, and 2 are here"),
    ],
)  # fmt: skip
def test_a_file_that_was_changed_or_lost_lines_is_refused(
    tmp_path: Path, old: str, new: str, why: str
) -> None:
    side = Side("x", (ONE,), {(one, one, one): Cell("b", one, "oracle", (1.0,), 1) for one in "ac"})
    whole = written(side).decode()
    path = tmp_path / "baseline.json"
    path.write_text(whole.replace(old, new, 1))
    assert path.read_text() != whole
    message = f"baseline.json:8: checksum: {why}; `benchjobs baseline export`"
    with pytest.raises(InputError, match=re.escape(message)):
        baseline_of(JsonFile(path))
    path.write_text(re.sub(r'(?s) "checksum": .*?},\n', "", path.read_text()))
    assert baseline_of(JsonFile(path)).checksum is None, (
        "a file of before is taken as it is, as is one made by hand"
    )


def test_figures_in_a_file_have_no_more_digits_than_tell_something() -> None:
    amounts = (0.12345678, 0.12345679)
    cell = Cell("b", "s", "oracle", amounts, 1, seconds=amounts, costs=amounts, tokens=(1, 2, 2))
    (found,) = as_scenarios(Side("x", (ONE,), {cell.key: cell}))
    assert found.scores == (0.123457, 0.123457)
    assert (found.seconds, found.cost_usd, found.tokens) == (0.123, 0.123457, 1.7)


GOOD = {
    "format": "pytest-benchjobs baseline",
    "schema_version": 1,
    "name": "x",
    "scenarios": [{"benchmark": "b", "scenario": "s", "agent": "oracle", "scores": [1, 0.5], "passed": 1}],
}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.sampled_from([*GOOD, "jobs", "more"]),
    st.sampled_from([*GOOD["scenarios"][0], "seconds", "tags", "errors", "more"]),  # type: ignore[index]
    values,
    st.booleans(),
)
def test_whatever_a_file_says_is_read_or_an_input_error(
    tmp_path: Path, key: str, inner: str, value: Any, within: bool
) -> None:
    data = json.loads(json.dumps(GOOD))
    if within:
        data["scenarios"][0][inner] = value
    else:
        data[key] = value
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps(data))
    try:
        read = baseline_of(JsonFile(path))
    except InputError as error:
        assert str(error).startswith(f"{path}:")
    else:
        assert all(0 <= score <= 1 for one in read.scenarios for score in one.scores)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=200) | st.text('{}[]",:01eE+-. \n', max_size=100).map(str.encode))
def test_whatever_bytes_are_no_baseline(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "baseline.json"
    path.write_bytes(content)
    with pytest.raises(InputError):
        baseline_of(JsonFile(path))


@pytest.mark.parametrize(
    ("old", "new", "line", "why"),
    [
        ("[1, 0.5]", "[1, NaN]", 5, "NaN is no number"),
        ("[1, 0.5]", "[1, 1e999]", 5, "scores[1]"),
        ("[1, 0.5]", "[1, -0.1]", 5, "scores[1]"),
        ("[1, 0.5]", "[true, 0.5]", 5, "scores[0]"),
        ('"s"', '"s", "scenario": "t"', 5, "'scenario' is there twice"),
        ('"x"', '"x", "name": "y"', 3, "'name' is there twice"),
        ('"passed": 1', '"passed": 3', 5, "passed is 3, but there are 2 scores"),
        ('"passed": 1', f'"errors": {"9" * 5000}', 5, "Exceeds the limit"),
        ('"s"', '"s\\u001b[31m"', 5, "characters that are no text"),
        ("1}\n", '1},\n {"benchmark": "b", "scenario": "s", "agent": "oracle"}\n', 6, "line 5 is about the same"),
        ('"schema_version": 1', '"schema_version": 2', 2, "schema_version"),
        ('"scenarios": [', '"scenarios": {', 5, "JSON"),
        ("]}\n", "]} x\n", 6, "nothing is expected"),
        ('"agent": "oracle"', f'"agent": {"[" * 100_000}', 5, "nested too deeply"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_told_with_its_line(
    old: str, new: str, line: int, why: str, tmp_path: Path
) -> None:
    text = (
        '{"format": "pytest-benchjobs baseline",\n "schema_version": 1,\n "name": "x",\n "scenarios": [\n'
        ' {"benchmark": "b", "scenario": "s", "agent": "oracle", "scores": [1, 0.5], "passed": 1}\n]}\n'
    )
    path = tmp_path / "baseline.json"
    path.write_text(text)
    assert baseline_of(JsonFile(path)).scenarios[0].scores == (1.0, 0.5)
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError) as error:
        baseline_of(JsonFile(path))
    first = error.value.errors[0] if isinstance(error.value, InputErrors) else error.value
    assert (first.line, why in first.message) == (line, True), str(first)


def test_a_completed_job_of_a_newer_version_is_passed_over(tmp_path: Path) -> None:
    for number, name in enumerate(("old", "new", "mid")):
        make_job(tmp_path, name, {"oracle": {"count": "P"}}, hours_ago=9 - number)
    with sqlite3.connect(Layout(tmp_path).history) as connection:
        connection.execute("UPDATE jobs SET record = json_set(record, '$.novelty', 1) WHERE id = 'new'")
    with HistoryReader.of(tmp_path) as history:
        assert [job.id for job in history.completed()] == ["mid", "old"]
        message = "the record of job new is of another version or damaged: novelty"
        with pytest.raises(InputError, match=message):
            why_unfit(history, "new")


@pytest.mark.parametrize(
    ("status", "planned", "results", "cut", "gone"),
    [
        (JobStatus.COMPLETED, 5, 5, None, None),
        (JobStatus.COMPLETED, 5, 4, None, "1 of its 5 results are gone"),
        (JobStatus.COMPLETED, None, 3, None, None),
        (JobStatus.CANCELLED, 5, 5, None, None),
        (JobStatus.CANCELLED, 5, 4, "it did not complete: cancelled, with 4 of 5 results", None),
        (JobStatus.CANCELLED, None, 4, None, None),
        (JobStatus.CANCELLED, 5, 2, "it did not complete: cancelled, with 2 of 5 results", "1 of its 3 results are gone"),
        (JobStatus.RUNNING, 5, 6, None, None),
        (JobStatus.RUNNING, 5, 3, "it has not ended: running, with 3 of 5 results", None),
    ],
)  # fmt: skip
def test_what_a_job_lacks_is_counted(
    tmp_path: Path, status: JobStatus, planned: int | None, results: int, cut: str | None, gone: str | None
) -> None:
    job = record(tmp_path, status=status, planned=planned, totals=Totals(trials=3))
    assert cut_short(job, results) == cut
    assert gone_of(job, results) == gone
