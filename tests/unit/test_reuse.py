"""Which earlier result a trial takes over, and the reason in a line."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.job.reuse import Reuse
from pytest_benchjobs.model.job import JobConfig
from pytest_benchjobs.model.known_failure import Known, KnownMode
from pytest_benchjobs.model.result import Failure, Outcome, Signature, Trial, TrialResult
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.history import History
from pytest_benchjobs.trial.signature import signature

from .records import JOB, NOW, record, result, trial

PARTS = {name: name for name in ("scenario", "environment", "scorers", "agent", "parameters", "limits")}
KEY = "sha256:1"
MINUTE = datetime.timedelta(minutes=1)


def sign(of: Trial, **changes: str) -> Signature:
    return signature(of.scenario, {**PARTS, **changes}, KEY)


def had(directory: Path, number: int, *results: TrialResult) -> str:
    """Have an earlier job with these results; later jobs have higher numbers."""
    id_ = f"20261120-{number:06}-aaaaaa"
    bundle = JobBundle.create(directory, record(directory, id=id_))
    with History.of(directory) as history:
        history.save_job(bundle.read())
        own = [each.model_copy(update={"job": id_}) for each in results]
        history.save_trials([bundle.begin(trial(each.scenario)).commit(each) for each in own])
    return id_


def made(
    number: int, outcome: Outcome = Outcome.PASSED, *, of: Trial | None = None, **changes: Any
) -> TrialResult:
    of = of or trial()
    failure = None if outcome is Outcome.PASSED else Failure(class_="engine_lost", message="so it was")
    values = {"failure": failure, "signature": sign(of), "finished_at": NOW + number * MINUTE, **changes}
    return result(of, outcome=outcome, **values)


@pytest.fixture
def decide(tmp_path: Path) -> Iterator[Any]:
    opened = []

    def decide(
        of: Trial | None = None, key: str | None = KEY, **config: Any
    ) -> tuple[TrialResult | None, str]:
        reuse = Reuse(tmp_path, JOB, JobConfig(directory=tmp_path, **config))
        opened.append(reuse)
        return reuse.decide(of or trial(), PARTS, key)

    with History.of(tmp_path):
        pass
    yield decide
    for one in opened:
        one.close()


def test_the_newest_that_passed_or_failed_is_taken_over_as_one_of_this_job(
    tmp_path: Path, decide: Any
) -> None:
    had(tmp_path, 1, made(1, Outcome.FAILED))
    good = had(tmp_path, 2, made(2, ran_because="it has never run here"))
    had(tmp_path, 3, made(3, Outcome.ERROR))
    known = Known(mode=KnownMode.EXPECTED_FAIL, reason="flaky")
    of = trial().model_copy(update={"known": known})
    found, why = decide(of)
    assert why == f"passed in job {good}"
    assert (found.job, found.node_id, found.known, found.outcome) == (JOB, of.node_id, known, Outcome.PASSED)
    assert (found.reused.job, found.reused.finished_at) == (good, NOW + 2 * MINUTE)
    assert (found.rescored, found.ran_because, found.path) == (None, None, "")
    assert (
        decide(of, rerun_failed=True)[1] == why
    )  # what failed has passed since, and an error hides no result


def test_what_ended_in_an_error_or_failed_runs_again_where_that_was_asked_for(
    tmp_path: Path, decide: Any
) -> None:
    bad = had(tmp_path, 1, made(1, Outcome.FAILED))
    assert decide(rerun_errors=True)[1] == f"failed in job {bad}"
    assert decide(rerun_failed=True) == (None, f"it failed in job {bad} (engine_lost)")
    broken = had(tmp_path, 2, made(2, Outcome.ERROR))
    assert decide(rerun_errors=True) == (
        None,
        f"its latest run, in job {broken}, ended in an error (engine_lost)",
    )
    good = had(tmp_path, 3, made(3))
    assert decide(rerun_errors=True, rerun_failed=True)[1] == f"passed in job {good}"


def test_where_there_is_none_the_reason_is_told(tmp_path: Path, decide: Any) -> None:
    assert decide(key=None) == (None, "its image is not on this machine yet, so it cannot be compared")
    assert decide() == (None, "it has never run here")
    assert decide(rerun_errors=True) == (None, "it has never run here")
    of = trial("other")
    before = had(tmp_path, 1, made(1, of=of, signature=sign(of, agent="new", limits="new")))
    assert decide(of) == (None, f"changed since job {before}: agent, limits")
    of = trial("blank")
    before = had(tmp_path, 3, made(3, of=of, signature=None))
    assert decide(of) == (None, f"its result in job {before} has no signature")
    before = had(tmp_path, 4, made(4, of=of, signature=sign(of, agent="new")))
    next(JobBundle(tmp_path, before).root.rglob("result.json")).write_text("{")
    assert decide(of) == (None, f"its result in job {before} has no signature")
    shutil.rmtree(JobBundle(tmp_path, before).root)
    assert decide(of) == (None, f"its result in job {before} has no signature")
    broken = had(tmp_path, 2, made(2, Outcome.ERROR))
    assert decide() == (None, f"it has no result yet: error (engine_lost) in job {broken}")


def test_the_files_are_the_truth_and_an_older_result_will_do_if_they_are_gone(
    tmp_path: Path, decide: Any
) -> None:
    good, gone = had(tmp_path, 1, made(1)), had(tmp_path, 2, made(2))
    shutil.rmtree(JobBundle(tmp_path, gone).root)
    assert decide()[1] == f"passed in job {good}"
    shutil.rmtree(JobBundle(tmp_path, good).root)
    assert decide() == (None, f"its files in job {gone} are gone")


@pytest.mark.parametrize("changes", [{"signature": None}, {"signature": "other"}, {"outcome": Outcome.ERROR}])
def test_files_that_say_something_else_than_the_history_are_not_taken(
    tmp_path: Path, decide: Any, changes: dict[str, Any]
) -> None:
    job = had(tmp_path, 1, made(1))
    if changes.get("signature") == "other":
        changes = {"signature": sign(trial(), agent="other")}
    elif "outcome" in changes:
        changes |= {"score": None, "failure": Failure(class_="x", message="x")}
    path = next(iter(JobBundle(tmp_path, job).results())).path
    file = JobBundle(tmp_path, job).root / path / "result.json"
    file.write_text(made(1).model_copy(update=changes).model_dump_json(by_alias=True))
    assert decide() == (None, f"its files in job {job} are gone")


def test_a_job_takes_over_nothing_of_its_own(tmp_path: Path, decide: Any) -> None:
    bundle = JobBundle.create(tmp_path, record(tmp_path))
    with History.of(tmp_path) as history:
        history.save_job(bundle.read())
        history.save_trials([bundle.begin(trial()).commit(made(1))])
    assert decide()[0] is None
