"""Sums that the history makes are those over the trials themselves."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest

from pytest_benchjobs.analysis.summary import summarise, summarise_sums
from pytest_benchjobs.model.result import Origin
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.store.reader import HistoryReader

from .jobs import ENDS, ended, make_job
from .records import JOB, NOW


@pytest.mark.parametrize("seed", range(8))
def test_sums_of_the_history_are_sums_over_trials(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    origin = Origin(job="20260101-000000-aaaaaa", path="trials/x", finished_at=NOW)
    results = [
        ended(
            chance.choice(list(ENDS)),
            f"s{number}",
            chance.choice(["oracle", "nop"]),
            seconds=chance.choice([0.5, 2.0, 7.25]),
            reused=chance.choice([None, None, origin]),
            rescored=chance.choice([None, None, origin]),
            usage=Usage(
                cost_usd=chance.choice([None, 0.25]),
                input_tokens=chance.choice([None, 10]),
                output_tokens=chance.choice([None, 5]),
            ),
        )
        for number in range(60)
    ]
    make_job(tmp_path, JOB, results)
    with HistoryReader.of(tmp_path) as history:
        runs = history.runs(JOB)
        assert len(runs) == 2
        sums, times = history.figures(JOB), history.durations(JOB)
        for run in runs:
            theirs = summarise_sums(
                run.agent, [row for row in sums if row.run == run.id], times.get(run.id, [])
            )
            ours = summarise(run.agent, [one for one in results if one.agent.label == run.agent])
            for field in dataclasses.fields(ours):
                one, other = getattr(ours, field.name), getattr(theirs, field.name)
                assert one == (pytest.approx(other) if isinstance(other, float) else other), field.name
