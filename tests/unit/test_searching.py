"""Searching runs and jobs finds what looking at each row would find, whichever way it takes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pytest_benchjobs.store import searching
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.listing import (
    JOBS,
    RUNS,
    Wanted,
    choices,
    count_jobs,
    count_runs,
    latest_runs,
    page,
)
from pytest_benchjobs.store.reader import HistoryReader

SIZE = 60
WORDS = (
    "nothing", "codex", "model-7", "MODEL-7", "gpt-5.5", "5.5", "nightly", "night", "completed", "failed", "2026", ".", ".1", ".2",
    "05.1", "-a05.2", "05.3", "text_1", "text%1", "%", "_", "\\", "é", "É", "openai", "main", "fix/9", "c0ffee", "a", "'", '"',
)  # fmt: skip


class _Run(NamedTuple):
    job: str
    position: int
    name: str | None
    benchmark: str
    agent: str
    provider: str | None
    model: str | None
    status: str
    branch: str | None
    commit: str | None
    score: float | None

    @property
    def id(self) -> str:
        return f"{self.job}.{self.position}"

    @property
    def texts(self) -> list[str]:
        """What is searched of it, but for its id."""
        texts = (self.name, self.benchmark, self.agent, self.provider, self.model, self.status, self.branch)
        return [text for text in (*texts, self.commit) if text is not None]

    def has(self, word: str) -> bool:
        return any(_folded(word) in _folded(text) for text in (self.id, *self.texts))


def _folded(text: str) -> bytes:
    return text.encode().lower()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[_Run]]:
    """A history of jobs with up to three runs."""
    directory = tmp_path_factory.mktemp("searching")
    chance = random.Random(3)
    runs = [run for number in range(SIZE) for run in _job(number, chance)]
    with History.of(directory) as history:
        for job in sorted({run.job for run in runs}):
            first = next(run for run in runs if run.job == job)
            history.connection.execute(
                'INSERT INTO jobs (id, name, status, created_at, trials, passed, failed, error, cancelled, skipped, record, branch, "commit") '
                "VALUES (?, ?, ?, ?, 0, 0, 0, 0, 0, 0, '{}', ?, ?)",
                (job, first.name, first.status, "2026-01-01T00:00:00+00:00", first.branch, first.commit),
            )
        history.connection.executemany(
            'INSERT INTO runs (job, position, job_name, benchmark, agent, provider, model, status, branch, "commit", mean_score, started_at, tags) '
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '2026-01-01T00:00:00+00:00', '[]')",
            runs,
        )
        history.connection.commit()
    return directory, runs


def _job(number: int, chance: random.Random) -> Iterator[_Run]:
    job = f"20260101-000000-a{number:05x}"
    name = chance.choice((None, None, "nightly", f"text_1 {number}", "say 'é'"))
    status = "failed" if number % 20 == 0 else "completed"
    branch, commit = (
        chance.choice((None, "main", f"fix/{number}")),
        chance.choice((None, f"c0ffee{number:034x}")),
    )
    benchmarks = chance.sample(("text_1", "textX1", 'with "quotes"'), chance.randint(1, 3))
    for position, benchmark in enumerate(benchmarks, 1):
        model = chance.randrange(12)
        agent, provider, named = chance.choice(
            (
                (f"codex:model-{model}", "openai", f"model-{model}"),
                ("codex", None, None),
                (f"codex:gpt-5.5@{model}", "openai", "gpt-5.5"),
            )
        )
        score = chance.choice((None, 0.0, 0.5, 1.0))
        yield _Run(job, position, name, benchmark, agent, provider, named, status, branch, commit, score)


@pytest.mark.parametrize("most", [5000, 1], ids=["by value", "too many values"])
@pytest.mark.parametrize("often", [10, 1000, 0.5], ids=["as usual", "always frequent", "never frequent"])
def test_a_search_finds_what_looking_at_each_row_finds(
    results: tuple[Path, list[_Run]], monkeypatch: pytest.MonkeyPatch, most: int, often: float
) -> None:
    monkeypatch.setattr(searching, "_VALUES", most)
    monkeypatch.setattr(searching, "OFTEN", often)
    directory, runs = results
    with HistoryReader.of(directory) as history:
        for words in [(word,) for word in WORDS] + [
            ("codex", "nightly"),
            ("model-7", "main"),
            ("2026", "nothing"),
        ]:
            wanted = Wanted(words=words)
            expected = {run.id for run in runs if all(run.has(word) for word in words)}
            assert {row.id for row in page(history, RUNS, wanted, limit=500).rows} == expected, words
            assert count_runs(history, wanted)[0] == len(expected), words
            jobs = _jobs_with(runs, words)
            assert {row.id for row in page(history, JOBS, wanted, limit=500).rows} == jobs, words
            assert count_jobs(history, wanted) == len(jobs), words


def _jobs_with(runs: list[_Run], words: tuple[str, ...]) -> set[str]:
    """Jobs that have each word, in their own names or those of a run; the position of a run is no name of a job."""
    of_job: dict[str, list[str]] = {}
    for run in runs:
        of_job.setdefault(run.job, []).extend((run.job, *run.texts))
    return {
        job
        for job, texts in of_job.items()
        if all(any(_folded(word) in _folded(text) for text in texts) for word in words)
    }


def test_choices_and_latest_runs_are_those_of_all_rows(results: tuple[Path, list[_Run]]) -> None:
    directory, runs = results
    with HistoryReader.of(directory) as history:
        found = choices(history)
        assert found["agents"] == sorted({run.agent for run in runs})
        assert found["models"] == sorted({run.model for run in runs if run.model is not None})
        assert found["branches"] == sorted({run.branch for run in runs if run.branch is not None})
        scored = {(run.benchmark, run.agent) for run in runs if run.score is not None}
        assert [(row.benchmark, row.agent) for row in latest_runs(history)] == sorted(scored)
        some = sorted({run.job for run in runs})[:5]
        assert choices(history, some)["agents"] == sorted({run.agent for run in runs if run.job in some})
        latest = {(row.benchmark, row.agent): row for row in latest_runs(history, some)}
        assert set(latest) == {
            (run.benchmark, run.agent) for run in runs if run.job in some and run.score is not None
        }
