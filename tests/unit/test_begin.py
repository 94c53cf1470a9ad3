"""A job begins: new, announced, or resumed; nothing is left where it cannot."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.job.begin import Begun, Request, begin
from pytest_benchjobs.model.errors import InputError, ResultsUnwritable
from pytest_benchjobs.model.gate import GateConfig, GateExit
from pytest_benchjobs.model.job import JobConfig, JobStatus, Overrides
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.result import TrialResult
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.settings.rules import parse_rule
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.layout import Layout
from pytest_benchjobs.store.liveness import hold
from pytest_benchjobs.store.totals import spent_by
from pytest_benchjobs.store.trials import read_result

from .clocks import Clock
from .records import JOB, NOW, OWNER, record, result, trial

module = importlib.import_module("pytest_benchjobs.job.begin")
DEAD = OWNER.model_copy(update={"host": current_owner().host})
RULES = (parse_rule("mean:any"),)


def request(
    directory: Path,
    *,
    chosen: Mapping[str, str] = MappingProxyType({}),
    config: dict[str, Any] | None = None,
    **said: Any,
) -> Request:
    values = {**dict.fromkeys(("resume", "job_id", "parent", "rescore")), "origin": lambda _: "the ini file"}
    wanted: Any = SimpleNamespace(job=JobConfig(directory=directory, **(config or {})), **{**values, **said})
    return Request(
        settings=wanted, planned={"oracle": 2, "nop": 1}, arguments=("a.bench.yaml",), directory=directory, root=directory,
        chosen=chosen,
    )  # fmt: skip


@pytest.fixture
def start(tmp_path: Path) -> Any:
    begun: list[Begun] = []

    def start(**said: Any) -> Begun:
        begun.append(begin(request(tmp_path, **said)))
        return begun[-1]

    yield start
    for one in begun:
        one.history.close()
        one.release()


def events(begun: Begun) -> list[tuple[str, str]]:
    return [(event.kind, event.message) for event in begun.history.events(begun.record.id)]


def test_a_new_job_runs_in_this_process_which_has_its_lock(tmp_path: Path, start: Any) -> None:
    begun = start(parent="p", rescore=None)
    record = begun.bundle.read()
    assert (record.status, record.planned, record.owner, record.parent) == (
        JobStatus.RUNNING, 3, current_owner(), "p",
    )  # fmt: skip
    assert record == begun.record
    assert begun.history.job(record.id) == record
    assert hold(begun.bundle.root) is None


def test_a_job_that_is_let_go_of_can_be_taken_by_another_process(tmp_path: Path) -> None:
    begun = begin(request(tmp_path))
    begun.history.close()
    begun.release()
    lock = hold(begun.bundle.root)
    assert lock is not None
    os.close(lock)


def test_one_that_was_announced_keeps_its_beginning_and_gets_a_new_owner(tmp_path: Path, start: Any) -> None:
    bundle = JobBundle.create(
        tmp_path, record(tmp_path, status=JobStatus.INITIALIZING, owner=current_owner())
    )
    (bundle.layout.flight / "x").mkdir(parents=True)
    begun = start(job_id=JOB)
    assert (begun.record.id, begun.record.created_at) == (JOB, NOW)
    assert begun.record.status is JobStatus.RUNNING
    assert not bundle.layout.flight.exists()


def test_an_id_that_another_job_has_is_refused_and_that_job_left_alone(tmp_path: Path) -> None:
    bundle = JobBundle.create(tmp_path, record(tmp_path, owner=current_owner()))
    with pytest.raises(InputError, match=f"job {JOB} already exists"):
        begin(request(tmp_path, job_id=JOB))
    assert bundle.read().status is JobStatus.RUNNING


def test_where_no_job_can_be_kept_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any) -> None:
        raise ResultsUnwritable("read-only")

    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"no job can be stored in .*/file: [^\[/]*; name another"):
        begin(request(tmp_path / "file"))
    monkeypatch.setattr(History, "save_job", refuses)
    with pytest.raises(InputError, match=r"no job can be stored in .*: read-only"):
        begin(request(tmp_path / "new"))
    assert [path.name for path in Layout(tmp_path / "new").jobs.iterdir()] == [".benchjobs"]


def interrupted(directory: Path, file: str = "a.bench.yaml", **changes: Any) -> JobBundle:
    """A job that was stopped, with results of three trials and a report."""
    values = {"status": JobStatus.CANCELLED, "finished_at": NOW, "message": "stopped", "planned": 9, "owner": DEAD,
              "spent": Usage(calls=3), **changes}  # fmt: skip
    bundle = JobBundle.create(directory, record(directory, **values))
    for name in ("a", "b", "c"):
        of = trial(name, file=file)
        bundle.begin(of).commit(result(of))
    bundle.layout.junit.touch()
    with History.of(directory) as history:
        history.replace_job(bundle.read(), list(bundle.results()))
    return bundle


def test_a_job_that_is_resumed_keeps_its_results_and_runs_as_it_is_told_now(
    tmp_path: Path, start: Any
) -> None:
    had = {"directory": tmp_path, "concurrency": 2, "threshold": 0.5, "gate": GateConfig(rules=RULES),
           "per_benchmark": {"texts": Overrides(threshold=0.25, agent_timeout=50)}}  # fmt: skip
    bundle = interrupted(tmp_path, config=JobConfig(**had))
    anew = Overrides(threshold=0.75, scorer_timeout=60)
    now = {"concurrency": 7, "threshold": 1.0, "gate": GateConfig(exit=GateExit.BOTH),
           "per_benchmark": {"texts": anew, "numbers": anew}}  # fmt: skip
    begun = start(resume="last", chosen={trial("a").node_id: "texts"}, config=now)
    found = begun.record
    assert (found.id, found.status, found.finished_at, found.message) == (JOB, JobStatus.RUNNING, None, None)
    assert (found.owner, len(found.resumed_at), found.spent.calls) == (current_owner(), 1, 3)
    assert (begun.unselected, found.planned, found.decisions.unselected) == (2, 5, 2)
    assert (found.config.concurrency, found.config.threshold) == (7, 0.5)
    # Limits of time of one benchmark are those of now too.
    assert found.config.per_benchmark == {
        "texts": Overrides(threshold=0.25, scorer_timeout=60), "numbers": Overrides(scorer_timeout=60),
    }  # fmt: skip
    assert (found.config.gate.rules, found.config.gate.exit) == (RULES, GateExit.BOTH)
    assert not bundle.layout.junit.exists()
    assert begun.bundle.read() == found


def test_results_of_a_job_that_is_resumed_are_read_once(
    tmp_path: Path, start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(tmp_path)
    read: list[Path] = []

    def counted(directory: Path) -> TrialResult:
        read.append(directory)
        return read_result(directory)

    monkeypatch.setattr("pytest_benchjobs.store.bundle.read_result", counted)
    begun = start(resume="last", chosen={trial("a").node_id: "texts"})
    assert len(read) == 3
    assert begun.spent == spent_by(begun.bundle.results())


def test_results_with_ids_of_an_earlier_version_get_those_of_their_trials(tmp_path: Path, start: Any) -> None:
    interrupted(tmp_path, file="texts")
    begun = start(resume="last", chosen={trial(name).node_id: "texts" for name in "ab"})
    ids = sorted([trial("a").node_id, trial("b").node_id, trial("c", file="texts").node_id])
    assert begun.unselected == 1
    assert sorted(one.node_id for one in begun.bundle.results()) == ids
    assert sorted(row.node_id for row in begun.history.trials(JOB)) == ids


def test_gates_that_are_given_anew_override_the_ones_it_had(tmp_path: Path, start: Any) -> None:
    interrupted(
        tmp_path, config=JobConfig(directory=tmp_path, gate=GateConfig(rules=RULES, exit=GateExit.BOTH))
    )
    new = GateConfig(rules=(parse_rule("pass_rate"),))
    assert start(resume=JOB, config={"gate": new}).record.config.gate == new


@pytest.mark.parametrize(
    ("changes", "config", "says"),
    [
        ({"status": JobStatus.RUNNING, "owner": current_owner()}, {}, f"job {JOB} is running"),
        ({}, {"attempts": 2}, "--bench-attempt-policy each; it cannot be resumed with --bench-attempts 2 --bench"),
        ({}, {"per_benchmark": {"b": Overrides(attempts=3), "a": Overrides(attempts=2), "c": Overrides()}}, "it cannot be resumed with --bench-attempts 1 (a 2, b 3) --bench-attempt-policy each"),
        ({}, {"gate": GateConfig(rules=RULES, confirm=1)}, "--bench-confirm"),
        ({}, {"headroom": 2.0}, "ran on docker; it cannot be resumed on docker, headroom 2"),
    ],
)  # fmt: skip
def test_what_cannot_be_resumed_stays_as_it_is(
    tmp_path: Path, changes: dict[str, Any], config: dict[str, Any], says: str
) -> None:
    if "status" in changes:
        changes |= {"finished_at": None}
    bundle = interrupted(tmp_path, **changes)
    before = bundle.read()
    with pytest.raises(InputError) as caught:
        begin(request(tmp_path, resume=JOB, config=config))
    assert says in str(caught.value)
    assert bundle.read() == before
    lock = hold(bundle.root)
    assert lock is not None
    os.close(lock)


def test_whoever_looks_after_a_job_that_ended_is_waited_for(
    tmp_path: Path, start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    bundle = interrupted(tmp_path)
    lock = hold(bundle.root)
    assert lock is not None
    clock.meanwhile = lambda: os.close(lock) if len(clock.pauses) == 5 else None
    assert start(resume=JOB).record.id == JOB
    assert len(clock.pauses) == 5
    # A job that ran in another process is not waited for, and one that ended not for ever.
    with pytest.raises(InputError, match="is running"):
        begin(request(tmp_path, resume=JOB))
    assert len(clock.pauses) == 5


def test_a_lock_that_is_never_free_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    bundle = interrupted(tmp_path)
    lock = hold(bundle.root)
    assert lock is not None
    try:
        with pytest.raises(InputError, match=f"job {JOB} is running; see `benchjobs watch {JOB}`"):
            begin(request(tmp_path, resume=JOB))
    finally:
        os.close(lock)
    assert sum(clock.pauses) == pytest.approx(30, abs=0.2)


@pytest.mark.parametrize("own", [True, False])
def test_a_mistake_in_the_baseline_is_told_with_where_it_was_given(tmp_path: Path, own: bool) -> None:
    gate = GateConfig(baseline="file:none.json", rules=RULES)
    if own:
        with pytest.raises(InputError, match=r"^the ini file: "):
            begin(request(tmp_path, config={"gate": gate}))
        assert list(Layout(tmp_path).jobs.glob("*")) == []
    else:
        interrupted(tmp_path, config=JobConfig(directory=tmp_path, gate=gate))
        with pytest.raises(InputError, match=rf"^the baseline of job {JOB}: "):
            begin(request(tmp_path, resume=JOB))


def test_without_a_baseline_none_is_looked_for(start: Any) -> None:
    begun = start()
    assert begun.baseline is None
    assert events(begun)[-1] == ("created", f"process {os.getpid()}")
