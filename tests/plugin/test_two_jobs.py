"""Several processes at one results directory: two jobs that write, and six readers who look all the while."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.index import rebuild
from pytest_benchjobs.store.layout import Layout
from pytest_benchjobs.store.reader import HistoryReader

from .conftest import Bench

TRIALS = 160
READERS = 6
# Looks at everything until told to stop. What was seen once is never gone again.
READER = """
import sys, time
from collections import Counter
from pathlib import Path

import pytest_benchjobs as benchjobs
from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.store import database
from pytest_benchjobs.store.layout import Layout
from pytest_benchjobs.store.listing import JOBS, RUNS, each, page
from pytest_benchjobs.store.reader import HistoryReader
from pytest_benchjobs.store.results import find_job

directory, stop, network = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "network"
if network:
    database.on_network = lambda directory: True
while not Layout(directory).history.is_file() and not stop.exists():
    time.sleep(0.01)  # between two looks
seen, polls, while_running = Counter(), 0, 0
done = False
while not done:
    done = stop.exists()  # and once more, to see the end
    store = benchjobs.open(directory)
    for job in store.jobs():
        trials = list(job.trials())
        assert len({trial.node_id for trial in trials}) == len(trials)
        assert job.ended <= len(trials) and seen[job.id] <= len(trials), (job, seen)
        assert sum(run.ended for run in job.runs()) <= len(list(job.trials()))
        seen[job.id] = len(trials)
        while_running += job.status == "running" and 0 < len(trials)
    with HistoryReader.of(directory) as history:
        list(each(history, RUNS))
        for row in page(history, JOBS, limit=50).rows:
            assert find_job(history, row.id[:-1]) == row.id
            history.paired_rows(row.id)
            history.events(row.id)
    polls += 1
    time.sleep(0.02)  # between two looks
assert sorted(seen.values()) == [%d, %d], seen
print(polls, while_running)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "where", [pytest.param(place, marks=pytest.mark.extended) for place in ("disk", "network")]
)
def test_two_jobs_write_and_six_readers_look(bench: Bench, where: str, tmp_path: Path) -> None:
    patch = "from pytest_benchjobs.store import database\ndatabase.on_network = lambda directory: True\n"
    bench.conftest(patch if where == "network" else "")
    for name in ("one", "two"):
        scenarios = {f"{name}-{number}": "echo $((RANDOM % 2))" for number in range(TRIALS)}
        bench.manifest(scenarios, name=f"{name}.bench.yaml")
    reports = bench.path / "reports"
    stop = tmp_path / "stop"
    reader = [sys.executable, "-c", READER % (TRIALS, TRIALS), str(reports), str(stop), where]
    readers = [
        subprocess.Popen(reader, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(READERS)
    ]
    try:
        jobs = [
            subprocess.Popen(
                [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", f"{name}.bench.yaml", *more],
                cwd=bench.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )
            for name, more in (("one", []), ("two", ["-n", "2"]))
        ]  # fmt: skip
        said = [job.communicate()[0] for job in jobs]
    finally:
        stop.touch()
        seen = [reader.communicate() for reader in readers]
    for job, text in zip(jobs, said, strict=True):
        assert job.returncode in (0, 1), text  # 1: some are unsolved, which is meant
        assert "history:" not in text
        assert "locked" not in text
    assert [(reader.returncode, errors) for reader, (_, errors) in zip(readers, seen, strict=True)] == [
        (0, "")
    ] * READERS
    # They did look while trials came in.
    assert sum(int(out.split()[1]) for out, _ in seen) > 0
    assert_history_equals_bundles(reports, tmp_path)


def assert_history_equals_bundles(reports: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(reports, copy)
    Layout(copy).history.unlink()
    assert rebuild(copy) == (2, 2 * TRIALS, [])
    with HistoryReader.of(reports) as history, HistoryReader.of(copy) as anew:
        for bundle in JobBundle.all(reports):
            known = sorted(history.trials(bundle.id), key=lambda row: row.node_id)
            assert known == sorted(anew.trials(bundle.id), key=lambda row: row.node_id)
            assert len(known) == TRIALS
            assert history.job(bundle.id) == anew.job(bundle.id) == bundle.read()
            assert history.job_row(bundle.id) == anew.job_row(bundle.id)
            assert history.runs(bundle.id) == anew.runs(bundle.id)
            for row in known[::40]:
                assert history.scores(bundle.id, row.node_id) == anew.scores(bundle.id, row.node_id)
