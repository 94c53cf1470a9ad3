"""Worker of pytest-xdist: reports collected trials to the controller, runs the tests it gets; see `distribution`."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..model.policy import EACH
from ..model.result import Outcome
from . import interactive
from .distribution import EMPTY_SHARD, INPUT, write
from .fixtures import Fixtures
from .interrupts import ending_flight
from .items import ItemTicket, TrialItem
from .loop import apart, around, quiet_trial_threads
from .options import usage_error
from .selection import is_narrowed, left_to_scenarios
from .session import join_job, submit
from .shards import is_empty
from .state import state_of
from .work import work_of

if TYPE_CHECKING:
    from ..model.result import Trial, TrialResult
    from ..trial.flight import Flight
    from .state import Job

_POLL_SECONDS = 0.05
# xdist kills its workers some 5 s after Ctrl-C, so clean-up must end by then.
_CLEANUP_SECONDS = 4.0


def leave_word(session: pytest.Session) -> None:
    """Leave a message for the controller that trials were collected, before xdist reports the collection."""
    trials = [item for item in session.items if isinstance(item, TrialItem)]
    tests = interactive.driven(session.items)
    meeting = Path(session.config.workerinput[INPUT]["meeting"])  # type: ignore[attr-defined]
    meeting.mkdir(mode=0o700, exist_ok=True)
    if not trials and not tests:
        if is_empty(session.config):
            (meeting / EMPTY_SHARD).touch()
        return
    state = state_of(session.config)
    word = {
        "work": work_of(session.config, trials, tests)._asdict(),
        "driven": interactive.written(tests),
        "others": bool(trials),
        "ordinary": len(session.items) - len(trials),
        "narrowed": is_narrowed(session.config),
        "split": None if state.split is None else state.split.model_dump(mode="json"),
        "unselected": [*state.unselected],
        "left_out": [*state.left_out],
        "notes": [*left_to_scenarios(session.config), *state.notes],
    }
    write(meeting / "collected.json", json.dumps(word))


def run_worker(session: pytest.Session) -> bool:
    """Run the tests that xdist sends to this worker."""
    given = session.config.workerinput[INPUT]  # type: ignore[attr-defined]
    interactor = next(
        plugin
        for plugin in session.config.pluginmanager.get_plugins()
        if type(plugin).__name__ == "WorkerInteractor"
    )
    loop = _Loop(session, interactor)
    if not loop.wait_for_work():
        return True
    try:
        word = json.loads((Path(given["meeting"]) / "job.json").read_text("utf-8"))
    except OSError as error:
        raise usage_error(f"this worker shares no directory with the controller: {error}") from None
    job = join_job(
        session.config, word["job"], word["engine_problem"], word["gateway"], sandboxes=word["sandboxes"]
    )
    with quiet_trial_threads(session.config):
        loop.run(job)
    return True


class _Loop:
    """Loop that takes indices from xdist's queue, and runs ordinary tests at once and trials in flight."""

    _job: Job

    def __init__(self, session: pytest.Session, interactor: Any) -> None:
        self._session = session
        self._interactor = interactor
        self._next: Any = None
        self._held: int | None = None
        """An ordinary test that waits for its `nextitem`."""
        self._index: dict[TrialItem, int] = {}
        self._wills = Path()
        self._policy = EACH
        self._fixtures = Fixtures(session, ())

    def wait_for_work(self) -> bool:
        """Wait for the first index; return whether there is one."""
        # xdist sends its module to the worker as source, so the imported `Marker` is not the one in use.
        marker = type(self._interactor).handle_command.__globals__["Marker"]
        self._interactor.channel.setcallback(self._interactor.handle_command, endmarker=marker.SHUTDOWN)
        self._next = self._interactor.torun.get()
        return isinstance(self._next, int)

    def run(self, job: Job) -> None:
        """Run until there is no more work."""
        self._job = job
        self._policy = job.config.attempt_policy
        self._wills = job.bundle.layout.worker(self._interactor.workerid)
        self._wills.mkdir(parents=True, exist_ok=True)
        job.trials.before = self._leave_will
        trials = (item for item in self._session.items if isinstance(item, TrialItem))
        # It is unknown which tests come to this worker, so shared fixtures last until its end.
        self._fixtures.expect(ticket for item in trials for ticket in item.tickets())
        with (
            around(self._session, self._fixtures),
            ending_flight(job.trials, _CLEANUP_SECONDS, contextlib.nullcontext()) as flight,
        ):
            self._work(flight)

    def _work(self, flight: Flight[ItemTicket]) -> None:
        session = self._session
        while not (session.shouldfail or session.shouldstop):
            taken = self._take()
            if taken is not None and not isinstance(taken, int):
                # The controller ends the loop, when everything is done or has to stop; or it is gone.
                break
            if taken is not None:
                self._accept(taken, flight)
            elif self._held is not None:
                # The window is empty, so this worker has no next test.
                self._run_held(self._fixtures.first(self._session.items))
            elif flight.outstanding:
                landed = flight.next(timeout=_POLL_SECONDS)
                if landed is not None:
                    self._report(*landed)
            else:
                self._next = self._interactor.torun.get()

    def _take(self) -> Any:
        """Return the next index of the queue, or None if it is empty."""
        if self._next is not None:
            taken, self._next = self._next, None
            return taken
        with self._interactor.torun.lock() as queue:
            return queue.popleft() if queue else None

    def _accept(self, index: int, flight: Flight[ItemTicket]) -> None:
        item = self._session.items[index]
        if isinstance(item, TrialItem):
            self._index[item] = index
            for ticket in item.tickets():
                alone = self._fixtures.any and self._fixtures.flies_alone(ticket)
                if alone:
                    self._drain(flight)
                submit(self._job, flight, ticket, self._fixtures)
                if alone:
                    self._drain(flight)
            return
        if self._held is not None:
            self._run_held(item)
        self._held = index

    def _drain(self, flight: Flight[ItemTicket]) -> None:
        """Wait until no trial is in flight, and report landed trials."""
        while flight.outstanding and not (self._session.shouldfail or self._session.shouldstop):
            landed = flight.next(timeout=_POLL_SECONDS)
            if landed is not None:
                self._report(*landed)

    def _run_held(self, following: pytest.Item | None) -> None:
        index, self._held = self._held, None
        assert index is not None  # noqa: S101  callers have looked
        item = self._session.items[index]
        write(self._wills / "ordinary", str(index))
        self._protocol(index, item, following)
        (self._wills / "ordinary").unlink()
        self._will(item.nodeid).unlink(missing_ok=True)

    def _report(self, ticket: ItemTicket, result: TrialResult) -> None:
        item = ticket.item
        if self._fixtures.any:
            self._fixtures.leave(ticket, passed=result.outcome is Outcome.PASSED)
        if item.land(result, self._policy):
            with apart(self._session, self._fixtures):
                self._protocol(self._index.pop(item), item, None)
        with contextlib.suppress(FileNotFoundError):
            self._will(result.node_id).unlink()

    def _leave_will(self, ticket: ItemTicket, trial: Trial) -> None:
        # It stays in the job's directory after a crash of the machine.
        trial = trial.model_copy(update={"scenario": trial.scenario.without_content()})
        write(self._will(trial.node_id), json.dumps({**ticket.will, "trial": trial.model_dump(mode="json")}))

    def _protocol(self, index: int, item: pytest.Item, following: pytest.Item | None) -> None:
        self._interactor.item_index = index
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        # With a duration, `--dist load` would consider the worker slow.
        self._interactor.sendevent("runtest_protocol_complete", item_index=index, duration=0)

    def _will(self, node_id: str) -> Path:
        return self._wills / f"{hashlib.sha256(node_id.encode('utf-8', 'replace')).hexdigest()[:32]}.json"
