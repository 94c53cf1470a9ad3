"""Whenever a signal comes, a job that has begun is written down: as one that has ended."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_benchjobs.plugin.interrupts import Interrupts
from pytest_benchjobs.store.layout import Layout
from pytest_benchjobs.store.listing import JOBS, each
from pytest_benchjobs.store.reader import HistoryReader
from tests.support import until

from .conftest import Bench


class _Config:
    def __init__(self) -> None:
        self.cleanups: list[Callable[[], object]] = []

    def add_cleanup(self, cleanup: Callable[[], object]) -> None:
        self.cleanups.append(cleanup)


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    config: Any = _Config()
    outside = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where these tests run under nohup
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    taken = Interrupts(config)
    taken.take()
    yield taken
    for cleanup in config.cleanups:
        cleanup()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
    signal.signal(signal.SIGHUP, outside)


@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGINT, ()), (signal.SIGTERM, ("SIGTERM",)), (signal.SIGHUP, ("SIGHUP",))]
)
def test_each_does_what_ctrl_c_does(
    interrupts: Interrupts, number: signal.Signals, said: tuple[str, ...]
) -> None:
    with pytest.raises(KeyboardInterrupt) as raised:
        os.kill(os.getpid(), number)
    assert raised.value.args == said


def test_one_that_is_held_comes_when_what_is_inside_is_done(interrupts: Interrupts) -> None:
    done = []

    def work(*numbers: int) -> None:
        with interrupts.held():
            for number in numbers:
                os.kill(os.getpid(), number)
            done.append(numbers)

    with pytest.raises(KeyboardInterrupt):
        work(signal.SIGINT)
    assert done == [(signal.SIGINT,)]
    with pytest.raises(KeyboardInterrupt):  # a second one gets through
        work(signal.SIGINT, signal.SIGTERM)
    assert done == [(signal.SIGINT,)]
    with interrupts.held():
        pass


def test_at_the_end_the_first_one_is_without_effect(interrupts: Interrupts) -> None:
    interrupts.closing()
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_none_gets_through_while_results_are_written(interrupts: Interrupts) -> None:
    with interrupts.deaf():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            os.kill(os.getpid(), number)


def test_what_whoever_started_us_ignores_stays_ignored() -> None:
    config: Any = _Config()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        Interrupts(config).take()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        for cleanup in config.cleanups:
            cleanup()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def _written(bench: Bench) -> tuple[str, dict[str, str], dict[str, str]]:
    """The status of the job, outcomes in its files, and outcomes in the history."""
    record = json.loads((bench.bundle() / "job.json").read_text())
    with HistoryReader.of(bench.path / "reports") as history:
        assert [row.status for row in each(history, JOBS)] == [record["status"]]
        rows = {row.node_id: row.outcome for row in history.trials(record["id"])}
    assert (bench.bundle() / "report.json").exists()
    return record["status"], bench.outcomes(), rows


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_in_the_middle_of_a_job_what_has_ended_is_kept(bench: Bench, workers: tuple[str, ...]) -> None:
    """At a hang-up. The two signals that are sent more often are those of `tests/plugin/test_running.py`."""
    bench.manifest({"quick": "echo 1", **{f"slow{n}": "sleep 30; echo 1" for n in range(3)}})
    bench.conftest("import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)")
    process = bench.start("many.bench.yaml", *workers)
    until(lambda: list(bench.path.glob("reports/jobs/*/trials/*/*/1/result.json")))
    process.send_signal(signal.SIGHUP)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2, output
    assert "/pytest_benchjobs/" not in output
    status, files, rows = _written(bench)
    assert (status, files) == ("cancelled", {"many.bench.yaml::quick[oracle]": "passed"})
    assert rows == files


_AT_THE_END = """
import os, signal
import pytest

@pytest.hookimpl({when})
def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput"):
        {what}
"""


SIGNALS = [f"os.kill(os.getpid(), signal.{name})" for name in ("SIGINT", "SIGTERM", "SIGHUP")]
DAILY = {
    (SIGNALS[0], "tryfirst=True", ""),
    (SIGNALS[1], "trylast=True", "-n1"),
    (SIGNALS[2], "trylast=True", ""),
    ("raise KeyboardInterrupt", "tryfirst=True", "-n1"),
    ("raise KeyboardInterrupt", "trylast=True", ""),
}
ENDS = itertools.product(
    [*SIGNALS, "raise KeyboardInterrupt"], ["tryfirst=True", "trylast=True"], ["", "-n1"]
)


@pytest.mark.parametrize(
    ("what", "when", "workers"),
    [pytest.param(*end, marks=[] if end in DAILY else pytest.mark.extended) for end in ENDS],
)
def test_at_the_end_of_a_job_it_is_written_down_all_the_same(
    bench: Bench, what: str, when: str, workers: str
) -> None:
    bench.manifest({"one": "echo 1", "two": "echo 1"})
    bench.conftest(_AT_THE_END.format(what=what, when=when))
    done = bench.run("many.bench.yaml", *workers.split())
    if what in SIGNALS:
        assert done.ret == 0
    found, files, rows = _written(bench)
    assert (found, len(files)) == ("completed", 2)
    assert rows == files


def test_the_history_keeps_up_where_nothing_ends_for_a_while(bench: Bench) -> None:
    quick = {f"quick{number}": "echo 1" for number in range(5)}
    bench.manifest({**quick, "slow": f"while ! test -e {bench.path / 'go'}; do sleep 0.1; done; echo 1"})
    process = bench.start("many.bench.yaml", "--bench-concurrency", "6")
    try:
        until(
            lambda: (
                Layout(bench.path / "reports").history.exists()
                and list(bench.path.glob("reports/jobs/*/job.json"))
            )
        )
        job = bench.bundle().name

        def known() -> tuple[int, int]:
            with HistoryReader.of(bench.path / "reports") as history:
                row = history.job_row(job)
                return len(history.trials(job)), 0 if row is None else row.ended

        until(lambda: known() == (5, 5), what=lambda: str(known()))
    finally:
        (bench.path / "go").touch()
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
