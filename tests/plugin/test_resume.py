"""Jobs that were interrupted are finished under their own id; jobs are stopped from outside, and by the clock."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_benchjobs.store.listing import JOBS, each
from pytest_benchjobs.store.liveness import ask_to_cancel
from pytest_benchjobs.store.reader import HistoryReader
from tests.support import RESULTS, paths, until

from .conftest import Bench

TRIALS = 30
HELD = 12


@pytest.fixture
def slow(bench: Bench) -> Bench:
    """Trials of a fifth of a second, each of which notes that it ran; every seventh fails.

    Those that begin after `HELD` others wait as long as there is a file `hold`.
    """
    notes, began = bench.path / "ran.txt", bench.path / "began.txt"
    wait = (
        f"echo >> {began}; "
        f"while test -e {bench.path / 'hold'} && test $(wc -l < {began}) -gt {HELD}; do sleep 0.1; done"
    )
    scenarios = {
        f"t{number:02}": {
            "reference": f"{wait}; sleep 0.2; echo t{number:02} >> {notes}",
            "script": f"echo score={0 if number % 7 == 0 else 1}",
        }
        for number in range(TRIALS)
    }
    bench.manifest(scenarios, "slow.bench.yaml")
    return bench


@pytest.fixture
def held(slow: Bench) -> Iterator[Bench]:
    """The same, with the file there. Whatever still waits for it in the end goes on, and ends."""
    (slow.path / "hold").touch()
    yield slow
    release(slow)


def release(bench: Bench) -> None:
    (bench.path / "hold").unlink(missing_ok=True)


def committed(bench: Bench) -> dict[str, tuple[str, str]]:
    """Trials that have ended, with when they began: whoever is run again begins again."""
    found = {}
    for path in paths(bench.path, RESULTS):
        result = json.loads(path.read_text())
        assert result["node_id"] not in found, "a trial ended twice"
        found[result["node_id"]] = (result["job"], result["started_at"])
    return found


def wait_for(bench: Bench, count: int) -> None:
    until(lambda: len(committed(bench)) >= count, what="too few trials have ended")


def job(bench: Bench) -> dict[str, Any]:
    (path,) = (bench.path / "reports" / "jobs").glob("*/job.json")
    return json.loads(path.read_text())  # type: ignore[no-any-return]


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_a_killed_job_is_finished(held: Bench, workers: tuple[str, ...]) -> None:
    process = held.start("-p", "no:cacheprovider", "slow.bench.yaml", "--bench-concurrency", "4", *workers)
    wait_for(held, 8)
    process.kill()
    process.communicate()
    # Workers of xdist live on for some seconds, and write.
    job_id = job(held)["id"]
    before = committed(held)
    assert 8 <= len(before) < TRIALS
    release(held)
    done = held.run("slow.bench.yaml", "--bench-resume", job_id, *workers)
    assert done.ret == 1
    after = committed(held)
    assert len(after) == TRIALS
    assert {node_id: after[node_id] for node_id in before} == before
    assert {owner for owner, _ in after.values()} == {job_id}
    record = held.job()["job"]
    assert record["status"] == "completed"
    assert record["totals"] | {"cost_usd": None} == {
        "trials": TRIALS, "passed": 25, "failed": 5, "error": 0, "cancelled": 0, "skipped": 0,
        "mean_score": 25 / 30, "reused": 0, "cost_usd": None,
    }  # fmt: skip
    assert len(record["resumed_at"]) == 1
    with HistoryReader.of(held.path / "reports") as history:
        kinds = [event.kind for event in history.events(job_id)]
    assert [kind for kind in kinds if kind in ("created", "resumed")] == ["created", "resumed"]
    done.assert_outcomes(passed=25)
    done.stdout.fnmatch_lines([f"*job {job_id} (resumed)", "*5 unsolved:"])


def test_the_last_job_and_its_errors(bench: Bench) -> None:
    bench.toy()
    bench.run("toy.bench.yaml")
    before = committed(bench)
    job_id = bench.job()["job"]["id"]
    done = bench.run("toy.bench.yaml", "--bench-resume", "last")
    after = committed(bench)
    changed = {node_id for node_id in before if before[node_id] != after[node_id]}
    assert changed == {"toy.bench.yaml::unscored[oracle]"}
    assert bench.job()["job"]["id"] == job_id
    assert done.ret == 1


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_a_request_to_cancel(held: Bench, workers: tuple[str, ...]) -> None:
    process = held.start("-p", "no:cacheprovider", "slow.bench.yaml", "--bench-concurrency", "2", *workers)
    wait_for(held, 3)
    (bundle,) = (path for path in (held.path / "reports" / "jobs").iterdir() if path.is_dir())
    ask_to_cancel(bundle)
    output, _ = process.communicate(timeout=180)
    release(held)
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    record = job(held)
    assert (record["status"], record["message"]) == ("cancelled", "stopped by `benchjobs cancel`")
    assert not list(bundle.glob("trials/**/.tmp-*"))
    assert not (bundle / ".flight").exists()
    assert "stopped by `benchjobs cancel`" in output
    held.run("slow.bench.yaml", "--bench-resume", record["id"], "--bench-concurrency", "10")
    assert job(held)["status"] == "completed"
    assert set((held.path / "ran.txt").read_text().split()) == {f"t{number:02}" for number in range(TRIALS)}


def test_a_job_that_takes_too_long(held: Bench) -> None:
    done = held.run("slow.bench.yaml", "--bench-concurrency", "2", "--bench-job-timeout", "6.5")
    assert done.ret == pytest.ExitCode.INTERRUPTED
    record = job(held)
    assert (record["status"], record["message"]) == ("timeout", "it exceeded the job timeout of 6.5 s")
    assert 0 < record["totals"]["trials"] < TRIALS


def test_ctrl_c_and_x_leave_a_job_to_finish(slow: Bench) -> None:
    slow.run("slow.bench.yaml", "-x", "--bench-concurrency", "1")
    record = job(slow)
    assert record["status"] == "cancelled"
    assert record["message"] == "stopping after 1 failures"
    slow.run("slow.bench.yaml", "--bench-resume", "last")
    assert job(slow)["totals"]["trials"] == TRIALS
    assert len(slow.path.joinpath("ran.txt").read_text().split()) == TRIALS


def test_events_tell_the_same_as_the_results(slow: Bench) -> None:
    from pytest_benchjobs.model.event import Ended, PhaseBegan, Planned
    from pytest_benchjobs.store.events import EventReader

    process = slow.start("-p", "no:cacheprovider", "slow.bench.yaml", "--bench-concurrency", "3")
    wait_for(slow, 1)
    (bundle,) = (path for path in (slow.path / "reports" / "jobs").iterdir() if path.is_dir())
    reader, events = EventReader(bundle), []
    while process.poll() is None:
        events += reader.poll()
        time.sleep(0.02)  # between two looks, as long as the job runs
    process.communicate()
    assert isinstance(events[0], Planned)
    assert events[0].agents == {"oracle": TRIALS}
    ended = {event.node_id: event.outcome.value for event in events if isinstance(event, Ended)}
    # The files go with the job, so the last ones may not have been seen.
    outcomes = slow.outcomes()
    assert len(ended) > TRIALS // 2
    assert ended.items() <= outcomes.items()
    phases = [event.phase for event in events if isinstance(event, PhaseBegan) and "t01" in event.node_id]
    assert phases[0] == "prepare"
    assert {"agent", "score:score"} <= set(phases)


def test_two_take_it_up_at_once(held: Bench) -> None:
    process = held.start("-p", "no:cacheprovider", "slow.bench.yaml", "--bench-concurrency", "4")
    wait_for(held, 8)
    process.kill()
    process.communicate()
    release(held)
    job_id = job(held)["id"]
    both = [
        held.start("-p", "no:cacheprovider", "slow.bench.yaml", "--bench-resume", job_id) for _ in range(2)
    ]
    outputs = [process.communicate()[0] for process in both]
    statuses = sorted(process.returncode for process in both)
    # The later one waits its turn only as long as nobody has it.
    assert statuses == [1, 4] or statuses == [1, 1], outputs
    if statuses == [1, 4]:
        assert sum("is running; see" in output for output in outputs) == 1
    assert len(committed(held)) == TRIALS
    assert job(held)["status"] == "completed"
    assert job(held)["totals"]["trials"] == TRIALS


def test_trials_that_are_not_selected_any_more_stay(bench: Bench) -> None:
    bench.manifest({"a": "echo score=1", "b": "echo score=1", "c": "echo score=1"})
    bench.run("many.bench.yaml")
    bench.manifest({"a": "echo score=1", "d": "echo score=1", "e": "echo score=0"})
    done = bench.run("many.bench.yaml", "--bench-resume", "last", "-x", "--bench-concurrency", "1")
    record = job(bench)
    # a, b, c, d, e: none of them is missing, and e was the last one.
    assert (record["planned"], record["totals"]["trials"]) == (5, 5)
    assert record["status"] == "completed"
    done.stdout.fnmatch_lines(["2 results of trials that are not selected now, kept"])
    assert "not run" not in done.stdout.str()


def test_what_changed_meanwhile_is_told(bench: Bench) -> None:
    bench.manifest({"a": "echo score=1", "b": "echo score=1"})
    bench.run("many.bench.yaml")
    bench.manifest({"a": "echo score=0", "b": "echo score=1"})
    done = bench.run("many.bench.yaml", "--bench-resume", "last", "-n", "1")
    assert bench.outcomes()["many.bench.yaml::a[oracle]"] == "passed"
    done.stdout.fnmatch_lines(
        [
            "1 result from before something changed, kept; a new job would run these trials again",
            "  many.bench.yaml::a?oracle?: scorers",
        ]
    )
    assert job(bench)["decisions"]["changed"] == {"many.bench.yaml::a[oracle]": "scorers"}


def test_reports_of_before_do_not_outlive_a_second_death(held: Bench) -> None:
    held.run("slow.bench.yaml", "-x", "--bench-concurrency", "1")
    assert (held.bundle() / "junit.xml").exists()
    process = held.start(
        "-p", "no:cacheprovider", "slow.bench.yaml", "--bench-resume", "last", "--bench-concurrency", "2"
    )
    wait_for(held, 3)
    process.kill()
    process.communicate()
    assert not (held.bundle() / "junit.xml").exists()


def test_a_job_that_cannot_begin_is_a_mistake_in_a_line(bench: Bench) -> None:
    bench.manifest({"a": "echo score=1"})
    done = bench.run("many.bench.yaml", "--bench-resume", "nonsense")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["ERROR: there is no job 'nonsense'*"])


def test_reports_do_not_need_the_history(bench: Bench) -> None:
    bench.conftest(
        """
        from pytest_benchjobs.model.errors import DiskFull
        from pytest_benchjobs.store.history import History

        def full(self, results):
            raise DiskFull("no space left")

        History.save_trials = full
        """
    )
    bench.manifest({"a": "echo score=1"})
    done = bench.run("many.bench.yaml")
    assert done.ret == 0
    done.stdout.fnmatch_lines(["history: no space left*"])
    assert json.loads((bench.bundle() / "report.json").read_text())["totals"]["passed"] == 1
    assert (bench.bundle() / "junit.xml").exists()
    assert (bench.bundle() / "summary.md").exists()


def test_sigterm_while_results_are_written_waits(bench: Bench) -> None:
    bench.conftest(
        """
        import os, signal
        from pytest_benchjobs.job import end

        write = end.write_reports

        def interrupted(*arguments):
            os.kill(os.getpid(), signal.SIGTERM)
            write(*arguments)

        end.write_reports = interrupted
        """
    )
    bench.manifest({"a": "echo score=1"})
    assert bench.run("many.bench.yaml").ret == 0
    assert bench.job()["job"]["status"] == "completed"


@pytest.mark.parametrize(
    "workers", [(), pytest.param(("-n", "1"), marks=pytest.mark.extended)], ids=["one process", "xdist"]
)
def test_a_time_limit_does_not_hit_what_comes_after_the_trials(
    bench: Bench, workers: tuple[str, ...]
) -> None:
    bench.conftest(
        """
        import pytest, time

        @pytest.hookimpl(tryfirst=True)
        def pytest_sessionfinish(session):
            if not hasattr(session.config, "workerinput"):
                time.sleep(6.0)  # the report of some other plugin
        """
    )
    bench.manifest({"a": "echo score=1"})
    done = bench.run("many.bench.yaml", "--bench-job-timeout", "6.0", *workers)
    assert done.ret == 0
    assert job(bench)["status"] == "completed"


def test_a_time_limit_ends_ordinary_tests_too(bench: Bench) -> None:
    bench.manifest({"a": "echo score=1"})
    bench.write("test_slow.py", "import time\ndef test_slow(): time.sleep(60)\n")
    done = bench.run("many.bench.yaml", "test_slow.py", "--bench-job-timeout", "1")
    assert done.ret == pytest.ExitCode.INTERRUPTED
    assert (job(bench)["status"], job(bench)["totals"]["trials"]) == ("timeout", 0)


def test_what_was_paid_for_stays_where_no_engine_answers_when_the_job_is_taken_up(bench: Bench) -> None:
    bench.toy()
    bench.run("toy.bench.yaml")
    before = {result["scenario"]: result for result in bench.results()}
    assert (before["solved"]["outcome"], before["unscored"]["outcome"]) == ("passed", "error")
    bench.conftest(
        """
        from pytest_benchjobs.model.errors import EngineUnavailable

        class Down(FakeProvider):
            def check(self):
                raise EngineUnavailable("nobody answers")

        def pytest_benchjobs_sandboxes(config):
            return {"fake": Down}
        """
    )
    bench.run("toy.bench.yaml", "--bench-resume", "last", "-n", "2")
    after = {result["scenario"]: result for result in bench.results()}
    assert (after["solved"], after["partial"]) == (before["solved"], before["partial"])
    assert after["unscored"]["failure"]["class"] == "engine_unavailable"


def test_what_was_paid_for_stays_where_its_agent_breaks_when_the_job_is_taken_up(bench: Bench) -> None:
    bench.toy()
    bench.conftest(
        """
        import os
        from pytest_benchjobs.agents.protocol import AgentCommand

        class Moody:
            name, version = "moody", None
            needs_model = trusted = False

            def prepare(self, call):
                return AgentCommand(["sh", "-c", os.environ["MOOD"]])

            def read(self, *_arguments):
                return None

        def pytest_benchjobs_agents(config):
            return [Moody()]
        """
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOOD", "echo 1 > out.txt")
        bench.run("toy.bench.yaml", "--bench-agent", "moody")
    before = {result["scenario"]: result for result in bench.results()}
    assert before["solved"]["outcome"] == "passed"
    bench.run("toy.bench.yaml", "--bench-agent", "moody", "--bench-resume", "last")
    assert {result["scenario"]: result for result in bench.results()}["solved"] == before["solved"]


def test_a_job_that_is_killed_just_as_it_is_taken_up_is_what_it_was(bench: Bench) -> None:
    bench.toy()
    bench.run("toy.bench.yaml")
    before = job(bench)
    bench.conftest(
        """
        import os
        from pytest_benchjobs.store.bundle import JobBundle

        write = JobBundle.write

        def die(bundle, record):
            if record.resumed_at:
                os._exit(9)
            write(bundle, record)

        JobBundle.write = die
        """
    )
    assert bench.run("toy.bench.yaml", "--bench-resume", "last").ret == 9
    bench.conftest("")
    assert bench.benchjobs("recover").returncode == 0
    assert job(bench) == before
    with HistoryReader.of(bench.path / "reports") as history:
        (row,) = each(history, JOBS)
    assert (row.status, row.ended) == ("completed", 3)
    assert {path.name for path in bench.bundle().iterdir()} >= {"junit.xml", "report.json", "summary.md"}
