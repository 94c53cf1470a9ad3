from __future__ import annotations

from pathlib import Path

import pytest

from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.reader import HistoryReader

from .jobs import ended, make_job, run


def test_older_jobs_are_not_looked_at_when_nothing_was_kept_anywhere(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hours in (3, 2, 1):
        make_job(tmp_path, f"job-{hours}", [ended("F")], hours_ago=hours)
    asked: list[str] = []
    trials = History.trials
    monkeypatch.setattr(
        HistoryReader, "trials", lambda self, job, **how: asked.append(job) or trials(self, job, **how)
    )
    for what in ("count", "a.bench.yaml::count[oracle-1]"):
        assert run("shell", what, "--dir", tmp_path) == 2
        assert "nothing was kept of a.bench.yaml::count[oracle-1]" in capsys.readouterr().err
    assert asked == ["job-1"]  # a node id is looked up by its index
    with History.of(tmp_path) as history:
        history.save_trials([ended("F", job="job-3", kept="elsewhere:image")])
    assert run("shell", "count", "--dir", tmp_path) == 2
    assert "did not run in a sandbox that `benchjobs shell` can open" in capsys.readouterr().err
