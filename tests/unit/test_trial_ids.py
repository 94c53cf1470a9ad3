"""Ids of trials as they are printed name the trial they were printed for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.trial_ids import job_or_trials, trial_named, trials_named

from .jobs import ended, make_job

OLD, NEW = "20260101-000000-aaaaaa", "20260102-000000-bbbbbb"


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """Two jobs; in the older one a scenario more, and something was kept."""
    old = [
        ended("P", "count", kept="image"),
        ended("F", "sort"),
        ended("F", "2", file="dots::v1", benchmark="dots::v1"),
    ]
    new = [ended("P", "count", agent, attempt) for agent in ("oracle", "codex:gpt-5-2") for attempt in (1, 2)]
    make_job(tmp_path, OLD, old, hours_ago=3)
    make_job(tmp_path, NEW, new, hours_ago=1)
    with History.of(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize(
    ("text", "job", "node_id"),
    [
        ("a.bench.yaml::count[oracle-2]", NEW, "a.bench.yaml::count[oracle-2]"),
        ("texts::count[oracle-2]", NEW, "a.bench.yaml::count[oracle-2]"),
        ("count[oracle-2]", NEW, "a.bench.yaml::count[oracle-2]"),
        ("texts::count[codex:gpt-5-2-1]", NEW, "a.bench.yaml::count[codex:gpt-5-2-1]"),
        ("../project/a.bench.yaml::count[oracle-1]", NEW, "a.bench.yaml::count[oracle-1]"),
        ("sort", OLD, "a.bench.yaml::sort[oracle-1]"),
        ("texts::sort", OLD, "a.bench.yaml::sort[oracle-1]"),
        ("sort[oracle]", OLD, "a.bench.yaml::sort[oracle-1]"),
        ("dots::v1::2", OLD, "dots::v1::2[oracle-1]"),
        ("dots::v1::2[oracle-1]", OLD, "dots::v1::2[oracle-1]"),
        (f"reports/jobs/{OLD}/trials/oracle/sort/1", OLD, "a.bench.yaml::sort[oracle-1]"),
        (f"jobs/{OLD}/trials/oracle/sort/1/agent.log", OLD, "a.bench.yaml::sort[oracle-1]"),
        # A file is known from whatever directory it is seen.
        ("./a.bench.yaml::sort", OLD, "a.bench.yaml::sort[oracle-1]"),
        ("../../a.bench.yaml::sort", OLD, "a.bench.yaml::sort[oracle-1]"),
        ("/home/me/a.bench.yaml::sort", OLD, "a.bench.yaml::sort[oracle-1]"),
        ("b/sub/a.bench.yaml::sort", OLD, "a.bench.yaml::sort[oracle-1]"),
    ],
)
def test_an_id_names_the_trial_of_the_newest_job_that_has_it(
    history: History, text: str, job: str, node_id: str
) -> None:
    row = trial_named(history, text)
    assert (row.job, row.node_id) == (job, node_id)


def test_an_id_with_a_number_is_of_a_job_with_several_attempts(tmp_path: Path) -> None:
    make_job(tmp_path, OLD, {"lazy": {"count": "PPF"}}, hours_ago=3)
    alone = ended("P", "count", "lazy").model_copy(update={"node_id": "a.bench.yaml::count[lazy]"})
    make_job(tmp_path, NEW, [alone], hours_ago=1)
    with History.of(tmp_path) as history:
        assert trial_named(history, "a.bench.yaml::count[lazy-1]").job == OLD
        assert trial_named(history, "count[lazy]").job == NEW


def test_a_job_can_be_said_and_what_was_kept_is_preferred(history: History) -> None:
    assert trial_named(history, "count[oracle]", OLD).job == OLD
    assert {row.job for row in trials_named(history, "count")} == {NEW}
    assert {row.job for row in trials_named(history, "count", kept=True)} == {OLD}
    # Where nothing was kept of it the newest has it, and where something was of one of several, all are told.
    assert {row.job for row in trials_named(history, "sort", kept=True)} == {OLD}


def test_what_was_kept_of_one_attempt_is_preferred_to_a_newer_job(tmp_path: Path) -> None:
    kept = [ended("P", "count", "oracle", 1, kept="image"), ended("P", "count", "oracle", 2)]
    make_job(tmp_path, OLD, kept, hours_ago=3)
    make_job(tmp_path, NEW, [ended("P", "count")], hours_ago=1)
    with History.of(tmp_path) as history:
        found = trials_named(history, "count", kept=True)
        assert [(row.job, row.attempt) for row in found] == [(OLD, 1), (OLD, 2)]
        assert [row.job for row in trials_named(history, "count")] == [NEW]


def test_several_trials_are_listed_to_choose_from(history: History) -> None:
    assert len(trials_named(history, "texts::count[oracle]")) == 2
    with pytest.raises(InputError) as error:
        trial_named(history, "count")
    first, *listed = str(error.value).splitlines()
    assert first == f"'count' names 4 trials of job {NEW}; give the id of one:"
    assert "  a.bench.yaml::count[oracle-1]  passed" in listed
    assert listed == sorted(listed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("texts::cuont[oracle-1]", "there is no trial 'texts::cuont[oracle-1]'. Did you mean 'a.bench.yaml::count["),
        ("other::count[oracle-1]", "there is no trial 'other::count[oracle-1]'. Did you mean "),
        ("nothing like it", f"there is no trial 'nothing like it'; `benchjobs summary -e {NEW}` lists"),
        ("\x1b[31mx", "there is no trial 'x'; `benchjobs summary"),
        ("xa.bench.yaml::sort", "there is no trial"),
        ("bench.yaml::sort", "there is no trial"),
        # Paths that are of no trial.
        ("trials/oracle/sort/1", "there is no trial"),
        (f"jobs/{OLD}/trials/oracle/sort", "there is no trial"),
        (f"jobs/{OLD}x/trials/oracle/sort/1", "there is no trial"),
        (f"jobs/{OLD}/oracle/sort/1", "there is no trial"),
        (f"jobs/{OLD}/trials/oracle/sort/2", "there is no trial"),
    ],
)  # fmt: skip
def test_what_names_no_trial_gets_a_hint(history: History, text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        trials_named(history, text)
    assert str(error.value).startswith(message)


def test_a_job_comes_before_a_trial(history: History) -> None:
    assert job_or_trials(history, "last") == (NEW, [])
    job, rows = job_or_trials(history, "sort")
    assert (job, [row.scenario for row in rows]) == (OLD, ["sort"])
    with pytest.raises(InputError, match="there is no job 'nope'"):
        job_or_trials(history, "nope")
    with pytest.raises(InputError, match="there is no trial 'a::nope'"):
        job_or_trials(history, "a::nope")


def test_where_there_is_no_job_there_is_no_trial(tmp_path: Path) -> None:
    with History.of(tmp_path) as history, pytest.raises(InputError, match=r"there are no jobs in .* yet"):
        trials_named(history, "count")
