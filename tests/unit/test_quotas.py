"""Used-up quotas as trials see them: who waits, who tries again, and what users read."""

from __future__ import annotations

import contextlib
import datetime
import time
from pathlib import Path

import pytest

from pytest_benchjobs.job.quotas import Quotas, describe, waiting
from pytest_benchjobs.model.quota import OnQuota, Quota
from pytest_benchjobs.store.layout import JobLayout
from pytest_benchjobs.store.quotas import write

UTC = datetime.UTC


def quota(until: float | None, *, told: bool = True) -> Quota:
    """A quota that is back in so many seconds."""
    now = datetime.datetime.now(UTC)
    back = None if until is None else now + datetime.timedelta(seconds=until)
    return Quota(provider="groq", message="402: no credit", since=now, until=back, told=told)


@pytest.fixture
def layout(tmp_path: Path) -> JobLayout:
    (tmp_path / ".flight").mkdir()
    return JobLayout(tmp_path)


def turns(quotas: Quotas, *accounts: str) -> float | None:
    with quotas.turn(accounts) as wait:
        return wait


def test_trials_of_a_used_up_quota_wait_and_others_do_not(layout: JobLayout) -> None:
    quotas = Quotas(layout, OnQuota.WAIT)
    assert turns(quotas, "a") is None
    write(layout.quotas, {"a": quota(12), "far": quota(5000)})
    assert turns(quotas, "a") == pytest.approx(12, abs=2)
    assert turns(quotas, "b", "a") == pytest.approx(12, abs=2)
    assert turns(quotas, "far") == 30
    assert turns(quotas, "b") is None
    assert turns(quotas) is None


def test_one_trial_of_the_job_tries_again(layout: JobLayout) -> None:
    here, there = Quotas(layout, OnQuota.WAIT), Quotas(layout, OnQuota.WAIT)
    write(layout.quotas, {"a": quota(-1)})
    with here.turn(["a"]) as first:
        assert first is None
        assert turns(here, "a") == turns(there, "a") == 2
        assert turns(there, "b") is None
    assert turns(there, "a") is None
    with contextlib.suppress(RuntimeError), here.turn(["a"]):
        raise RuntimeError
    with there.turn(["a"]) as again:
        assert again is None
        write(layout.quotas, {})  # the gateway saw an answer
        assert turns(here, "a") is None


@pytest.mark.parametrize("on_quota", [OnQuota.FAIL, OnQuota.PAUSE])
def test_nobody_waits_unless_that_is_requested(layout: JobLayout, on_quota: OnQuota) -> None:
    write(layout.quotas, {"a": quota(12)})
    quotas = Quotas(layout, on_quota)
    assert turns(quotas, "a") is None
    assert [one.provider for one in quotas.of(["b", "a"])] == ([] if on_quota is OnQuota.FAIL else ["groq"])


def test_the_file_is_read_when_it_changes(layout: JobLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    quotas = Quotas(layout, OnQuota.PAUSE)
    write(layout.quotas, {"a": quota(None)})
    first = quotas.used_up()
    assert quotas.used_up() is first
    time.sleep(0.01)  # the time of a file is as coarse as that
    write(layout.quotas, {})
    assert quotas.used_up() == {}


def test_what_users_read() -> None:
    at = datetime.datetime(2027, 1, 15, 8, 30, tzinfo=UTC)
    told = quota(None).model_copy(update={"until": at, "told": True})
    assert describe(told) == "the quota of groq is used up until 2027-01-15 08:30:00 UTC: 402: no credit"
    assert waiting(told) == f"{describe(told)}; its trials wait"
    tried = told.model_copy(update={"told": False})
    assert describe(tried) == "the quota of groq is used up: 402: no credit"
    assert waiting(tried).endswith(
        "its trials wait; it does not say when it is back, so one trial tries again at 2027-01-15 08:30:00 UTC, "
        "and then after pauses of up to 15 minutes"
    )
