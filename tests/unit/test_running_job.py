"""A job as the process sees it that runs it: its status at the end, what it spent, and what it has decided meanwhile."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.job import models, running
from pytest_benchjobs.job.begin import Begun
from pytest_benchjobs.job.end import Ended, Ending
from pytest_benchjobs.job.running import RunningJob
from pytest_benchjobs.job.trials import Supplies
from pytest_benchjobs.model.errors import EngineUnavailable, GatewayLost, InputError
from pytest_benchjobs.model.job import JobConfig, JobRecord, JobStatus
from pytest_benchjobs.model.quota import OnQuota, Quota
from pytest_benchjobs.model.result import Failure, Outcome, TrialResult
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.sandbox.late import LateProvider
from pytest_benchjobs.sandbox.protocol import SandboxProvider
from pytest_benchjobs.store import ledger
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.liveness import has_beaten
from pytest_benchjobs.store.quotas import write

from .records import JOB, record, result, trial
from .test_trial_fate import Ticket

Job = RunningJob[Ticket]
Make = Callable[..., Job]


def no_engine() -> SandboxProvider:
    raise EngineUnavailable("nobody answers")


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes a job of this process with such results in its bundle; `begun` by it, or by another."""
    made: list[Job] = []

    def make(*results: TrialResult, begun: bool = True, **more: Any) -> Job:
        config = JobConfig(directory=tmp_path, job_timeout=90.0)
        of = record(tmp_path, config=config, **more.pop("record", {}))
        bundle = JobBundle.create(tmp_path, of)
        for each in results:
            bundle.begin(trial(each.scenario)).commit(each)
        history = History.of(tmp_path)
        history.save_job(of)
        known = Begun(bundle, history, of, lock=None, **more) if begun else None
        job: Job = RunningJob(
            config, bundle, Supplies({}, {}, LateProvider(no_engine)), known, resumed=bool(results)
        )
        made.append(job)
        return job

    yield make
    for job in made:
        job.trials.close()
        if job._heartbeat is not None:
            job._heartbeat.stop()


def passed(scenario: str) -> TrialResult:
    return result(trial(scenario))


def broke(scenario: str, class_: str) -> TrialResult:
    failure = Failure(class_=class_, message=f"{class_} happened")
    return result(trial(scenario), outcome=Outcome.ERROR, score=None, failure=failure)


def finished(job: Job) -> JobRecord:
    """End a job of two trials; returns how it did."""
    job.finish(2, None, None)
    assert job.ended is not None
    return job.ended


RESUME = f"`benchjobs resume {JOB}`"
NEVER_RAN = "1 trials did not run"
USED_UP = "the quota of groq is used up: no credit"
PAUSED = f"{USED_UP}; finish it with {RESUME} when it is back"


@pytest.mark.parametrize(
    ("said", "results", "found"),
    [
        ({}, [passed("a"), passed("b")], (JobStatus.COMPLETED, None)),
        ({"stopped": "-x", "reason": JobStatus.TIMEOUT}, [passed("a"), passed("b")], (JobStatus.COMPLETED, None)),
        ({"full": "no room"}, [passed("a"), passed("b")], (JobStatus.COMPLETED, None)),
        ({"spent": "so much"}, [passed("a"), passed("b")], (JobStatus.COMPLETED, None)),
        ({}, [passed("a")], (JobStatus.CANCELLED, NEVER_RAN)),
        ({"stopped": "-x"}, [passed("a")], (JobStatus.CANCELLED, "-x")),
        ({"stopped": "-x", "reason": JobStatus.TIMEOUT}, [passed("a")], (JobStatus.TIMEOUT, "it exceeded the job timeout of 90 s")),
        ({"stopped": "-x", "reason": JobStatus.CANCELLED}, [passed("a")], (JobStatus.CANCELLED, "stopped by `benchjobs cancel`")),
        ({"spent": "so much", "full": "no room", "reason": JobStatus.TIMEOUT}, [passed("a")], (JobStatus.BUDGET, f"so much; finish it with {RESUME} and a higher limit")),
        ({"spent": "so much"}, [passed("a"), broke("b", "budget")], (JobStatus.BUDGET, f"so much; finish it with {RESUME} and a higher limit")),
        ({"spent": USED_UP}, [passed("a")], (JobStatus.BUDGET, PAUSED)),
        ({"spent": "so much"}, [passed("a"), broke("b", "engine_lost")], (JobStatus.COMPLETED, None)),
        ({}, [passed("a"), broke("b", "budget")], (JobStatus.COMPLETED, None)),
        ({"full": "no room", "reason": JobStatus.TIMEOUT}, [passed("a")], (JobStatus.CANCELLED, f"{NEVER_RAN}: no room; then finish it with {RESUME}")),
        ({}, [broke("a", "disk_full")], (JobStatus.CANCELLED, f"{NEVER_RAN}: disk_full happened; then finish it with {RESUME}")),
        ({}, [broke("a", "engine_lost")], (JobStatus.CANCELLED, NEVER_RAN)),
        ({"paused": "p"}, [passed("a")], (JobStatus.PAUSED, PAUSED)),
        ({"paused": "p"}, [passed("a"), broke("b", "budget")], (JobStatus.PAUSED, PAUSED)),
        ({"paused": "p"}, [passed("a"), passed("b")], (JobStatus.COMPLETED, None)),
        ({"paused": "p", "stopped": "-x"}, [passed("a")], (JobStatus.CANCELLED, "-x")),
        ({"paused": "p", "reason": JobStatus.TIMEOUT}, [passed("a")], (JobStatus.TIMEOUT, f"it exceeded the job timeout of 90 s; {USED_UP}")),
    ],
)  # fmt: skip
def test_the_status_of_a_job_follows_from_what_is_missing_and_why(
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
    said: dict[str, Any],
    results: list[TrialResult],
    found: tuple[JobStatus, str | None],
) -> None:
    job = make(*results)
    job.trials.spent, job.trials.full = said.get("spent"), said.get("full")
    if "paused" in said:
        job.config = job.config.model_copy(update={"on_quota": OnQuota.PAUSE})
        job.trials.quotas.on_quota = OnQuota.PAUSE
        job.bundle.layout.flight.mkdir(exist_ok=True)
        since = datetime.datetime.now(datetime.UTC)
        write(job.bundle.layout.quotas, {"a": Quota(provider="groq", message="no credit", since=since)})
    job._heartbeat = SimpleNamespace(reason=said.get("reason"), stop=lambda: None)  # type: ignore[assignment]
    endings: list[Ending] = []
    monkeypatch.setattr(
        running, "end", lambda _bundle, _history, ending, **_: endings.append(ending) or Ended()
    )
    job.finish(2, said.get("stopped"), None)
    assert [(ending.status, ending.message) for ending in endings] == [found]
    status, message = found
    told = [] if status is JobStatus.COMPLETED else [f"job {status.value}: {message}"]
    assert job.problems.lines == told


def test_without_a_heartbeat_nobody_has_stopped_it(make: Make) -> None:
    job = make(passed("a"))
    ended = finished(job)
    assert (ended.status, ended.message) == (JobStatus.CANCELLED, NEVER_RAN)


def test_results_that_are_not_selected_now_count_as_planned(make: Make) -> None:
    job = make(passed("a"), passed("b"), passed("c"), unselected=1)
    ended = finished(job)
    assert (ended.status, ended.planned, ended.decisions.unselected) == (JobStatus.COMPLETED, 3, 1)


def test_what_is_missing_is_what_a_resumed_job_does_not_have(make: Make) -> None:
    tickets = [Ticket(trial(name)) for name in ("a", "b", "c")]
    job = make(passed("a"), passed("c"))
    assert job.missing(tickets) == 1
    job.resumed = False
    assert job.missing(tickets) == 3


def test_a_result_that_the_bundle_has_no_place_for_is_one_of_the_job_unless_it_has_it_by_now(
    make: Make,
) -> None:
    job = make(passed("a"))
    job.record(broke("b", "results_unwritable"))
    job.record(broke("a", "results_unwritable"))
    job.finish(2, None, None)
    outcomes = {each.scenario: each.outcome for each in job.results}
    assert outcomes == {"a": Outcome.PASSED, "b": Outcome.ERROR}


def test_the_process_that_did_not_begin_a_job_does_not_end_it(make: Make) -> None:
    job = make(passed("a"), begun=False)
    job.record(passed("a"))
    job.finish(1, None, None)
    assert (job.ended, job.recorder, job.baseline) == (None, None, None)
    assert job.bundle.read().status is JobStatus.RUNNING


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Calls of a gateway that is made up."""
    calls: list[Any] = []
    made = SimpleNamespace(address="/gateway", close=lambda: calls.append("closed"))

    def start(config: JobConfig, secrets: object, spent: Usage, where: Path, quotas: Path) -> Any:
        calls.append((spent, where.name, quotas.name))
        return made

    monkeypatch.setattr(models, "needed", lambda *_: True)
    monkeypatch.setattr(models, "start_gateway", start)
    monkeypatch.setattr(models, "why_stopped", lambda _: "the limit")
    return calls


def test_a_job_begins_with_what_it_had_spent_and_says_which_limit_it_reached(
    make: Make, gateway: list[Any]
) -> None:
    job = make(
        result(trial("a"), usage=Usage(calls=2, cost_usd=1.0)), record={"spent": Usage(calls=3, cost_usd=1.5)}
    )
    ledger.note(job.bundle.layout.spent, Usage(calls=7, cost_usd=2.5))
    job.start({"oracle": 2}, sandboxes=False)
    assert job.gateway_address == "/gateway"
    layout = job.bundle.layout
    assert gateway == [(Usage(calls=7, cost_usd=2.5), layout.spent.name, layout.quotas.name)]
    assert has_beaten(job.bundle.root)
    assert job.trials.engine_problem is None
    job.record(result(trial("b"), usage=Usage(calls=1, cost_usd=0.5), path="x"))
    ended = finished(job)
    assert gateway[1:] == ["closed"]
    assert (ended.spent.calls, ended.spent.cost_usd) == (8, 3.0)
    assert (ended.status, ended.decisions.stopped) == (JobStatus.BUDGET, "the limit")
    assert not has_beaten(job.bundle.root)


def test_a_gateway_that_does_not_say_why_it_stopped_is_closed_all_the_same(
    make: Make, gateway: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(_: object) -> str:
        raise OSError("gone")

    monkeypatch.setattr(models, "why_stopped", breaks)
    job = make()
    job.start({}, sandboxes=False)
    job.finish(0, None, None)
    assert gateway[1:] == ["closed"]
    assert job.problems.lines == ["gateway: gone"]


def test_without_a_gateway_or_an_engine_nothing_runs_and_the_job_says_so(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise GatewayLost("it does not start")

    monkeypatch.setattr(models, "needed", lambda *_: True)
    monkeypatch.setattr(models, "start_gateway", breaks)
    job = make()
    job.start({"oracle": 1})
    assert job.trials.engine_problem is not None
    assert (job.trials.engine_problem.class_, job.gateway_address) == ("gateway", None)
    assert job.problems.lines == []  # nothing was swept either


def test_an_engine_is_asked_only_where_a_trial_is_known_to_need_it(make: Make) -> None:
    job = make()
    job.start({}, sandboxes=True)
    assert job.trials.engine_problem is not None
    assert job.trials.engine_problem.class_ == "engine_unavailable"


def test_nothing_is_swept_in_an_engine_that_does_not_answer(make: Make) -> None:
    def breaks() -> None:
        raise EngineUnavailable("nobody answers")

    job = make()
    made = SimpleNamespace(check=breaks, sweep=breaks, close=lambda: None)
    job._supplies = job.trials._supplies = Supplies({}, {}, LateProvider(lambda: made))  # type: ignore[arg-type,return-value]
    job.start({}, sandboxes=True)
    assert job.problems.lines == []


def test_a_worker_has_the_gateway_and_the_problem_of_the_process_that_began(make: Make) -> None:
    job = make(begun=False)
    problem = Failure(class_="gateway", message="gone")
    job.join(None, problem, sandboxes=True)
    assert job.trials.engine_problem is problem
    assert job.gateway_address is None


def test_decisions_are_written_while_it_runs_when_there_are_new_ones(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make(recovered=("an old line",))
    writes: list[object] = []
    write = job.bundle.write
    monkeypatch.setattr(job.bundle, "write", lambda of: (writes.append(of), write(of)))
    job._keep_up()
    assert writes == []
    job.problems.add("a new line")
    job.trials.fates.decided["texts", "oracle"] = "it is clear"
    for _ in range(2):
        job._keep_up()
    assert len(writes) == 1
    decisions = job.bundle.read().decisions
    assert (decisions.problems, decisions.settled) == (("a new line",), {"texts": {"oracle": "it is clear"}})
    job.trials.spent, job.trials.full = None, "no room"
    job._keep_up()
    assert job.bundle.read().decisions.stopped == "no room"
    job.trials.spent = "so much"
    job._keep_up()
    assert job.bundle.read().decisions.stopped == "so much"


@pytest.mark.parametrize("error", [InputError("no"), OSError("no"), RuntimeError("no")], ids=repr)
def test_a_record_that_cannot_be_written_meanwhile_ends_no_thread_and_is_written_at_the_end(
    make: Make, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuses(_: object) -> None:
        raise error

    job = make()
    with monkeypatch.context() as broken:
        broken.setattr(job.bundle, "write", refuses)
        job.trials.spent = "so much"
        job._keep_up()
    job.finish(0, None, None)
    assert job.bundle.read().decisions.stopped == "so much"


def test_requests_to_stop_are_ignored_once_there_is_nothing_to_stop(make: Make) -> None:
    job = make()
    job.disarm()
    job.start({}, sandboxes=False)
    assert job._heartbeat is not None
    assert not job._heartbeat._disarmed
    job.disarm()
    assert job._heartbeat._disarmed
