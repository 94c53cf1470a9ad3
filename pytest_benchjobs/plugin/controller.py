"""The same loop in every worker of pytest-xdist, and what the controller does about it.

    worker      collects; if it met trials, leaves word in the meeting place before it tells xdist what it collected
    controller  finds the word when the first collection is in: begins the job, takes over the scheduling
    worker      takes what is queued for it into its flight, reports what lands, in the order it lands
    controller  writes the history as reports come in; when a worker dies, reports for it what it had in flight

How many trials run at once is a property of the job: workers share token files (see `runner.Tokens`), so a worker with
all trials of a `--dist loadfile` file to itself may use all of them. A worker leaves a *will* for each trial in flight,
the trial itself as JSON, from which the controller writes the result if the worker cannot.

This is the only module that knows xdist. It relies on the hooks of xdist, on `DSession.sched`, on `LoadScheduling`, and
on `WorkerInteractor` (found by its name) with `channel`, `torun`, `item_index`, `handle_command` and `sendevent`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from ..model.policy import EACH
from ..system.temporary import hold, temporary_path
from .interrupts import interrupts_of
from .items import Ticket, TrialItem

if TYPE_CHECKING:
    from ..model.result import Failure, Trial, TrialResult
    from ..trial.flight import Flight
    from .session import BenchSession

_INPUT = "benchjobs"
_CONTROLLER = "benchjobs-controller"
_POLL_SECONDS = 0.05
# xdist kills its workers some 5 s after Ctrl-C: whatever cleans up has to be done by then.
_CLEANUP_SECONDS = 4.0


class Node(Protocol):
    """What we use of xdist's `WorkerController`."""

    config: pytest.Config
    workerinput: dict[str, Any]
    gateway: Any
    shutting_down: bool

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        """Queue tests for it."""


# --- worker ---------------------------------------------------------------------------------------------------------


def leave_word(session: pytest.Session) -> None:
    """Tell the controller that trials were collected. Comes before xdist reports the collection."""
    trials = [item for item in session.items if isinstance(item, TrialItem)]
    if not trials:
        return
    from .known import NOTES
    from .loop import benchmarks, by_agent, chosen
    from .selection import LEFT_OUT, is_narrowed, is_partial

    word = {
        "trials": by_agent(trials),
        "chosen": sorted(chosen(session.config, trials)),
        "ordinary": len(session.items) - len(trials),
        "scenarios": len({(id(item.source), item.ref.id) for item in trials}),
        "agents": len({item.agent.label for item in trials}),
        "partial": is_partial(session.config),
        "narrowed": is_narrowed(session.config),
        "benchmarks": sorted(benchmarks(trials)),
        "left_out": [*session.config.stash.setdefault(LEFT_OUT, {})],
        "notes": session.config.stash.get(NOTES, []),
    }
    meeting = Path(session.config.workerinput[_INPUT]["meeting"])  # type: ignore[attr-defined]
    meeting.mkdir(mode=0o700, exist_ok=True)
    _write(meeting / "collected.json", json.dumps(word))


def run_worker(session: pytest.Session) -> bool:
    """Run what xdist sends to this worker."""
    from .loop import quiet_trial_threads
    from .session import BenchSession

    given = session.config.workerinput[_INPUT]  # type: ignore[attr-defined]
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
        raise pytest.UsageError(f"this worker shares no directory with the controller: {error}") from None
    bench = BenchSession.join(session.config, word["job"], word["engine_problem"], word["gateway"])
    with quiet_trial_threads(session.config):
        loop.run(bench)
    return True


class _Loop:
    """Takes indices from xdist's queue, runs ordinary tests at once and trials in flight."""

    _bench: BenchSession

    def __init__(self, session: pytest.Session, interactor: Any) -> None:
        self._session = session
        self._interactor = interactor
        self._next: Any = None
        self._held: int | None = None
        """An ordinary test that waits to know its `nextitem`."""
        self._index: dict[TrialItem, int] = {}
        self._wills = Path()
        self._policy = EACH

    def wait_for_work(self) -> bool:
        """Wait for the first index; whether there is one."""
        # xdist sends its module to the worker as source: the `Marker` to import is not the one in use.
        marker = type(self._interactor).handle_command.__globals__["Marker"]
        self._interactor.channel.setcallback(self._interactor.handle_command, endmarker=marker.SHUTDOWN)
        self._next = self._interactor.torun.get()
        return isinstance(self._next, int)

    def run(self, bench: BenchSession) -> None:
        """Run until there is no more work."""
        from .session import ended_in_the_end

        self._bench = bench
        self._policy = bench.job.attempt_policy
        self._wills = bench.bundle.layout.worker(self._interactor.workerid)
        self._wills.mkdir(parents=True, exist_ok=True)
        bench.before = self._leave_will
        flight = bench.flight()
        with ended_in_the_end(bench, flight, _CLEANUP_SECONDS):
            self._work(flight)

    def _work(self, flight: Flight[Ticket]) -> None:
        session = self._session
        while not (session.shouldfail or session.shouldstop):
            taken = self._take()
            if taken is not None and not isinstance(taken, int):
                # Our scheduling is at the other end: everything is done, or has to stop. Or nobody is there any more.
                break
            if taken is not None:
                self._accept(taken, flight)
            elif self._held is not None:
                # The window is empty, so nothing follows it here.
                self._run_held(None)
            elif flight.outstanding:
                landed = flight.next(timeout=_POLL_SECONDS)
                if landed is not None:
                    self._report(*landed)
            else:
                self._next = self._interactor.torun.get()

    def _take(self) -> Any:
        """The next of the queue, or None if it is empty."""
        if self._next is not None:
            taken, self._next = self._next, None
            return taken
        with self._interactor.torun.lock() as queue:
            return queue.popleft() if queue else None

    def _accept(self, index: int, flight: Flight[Ticket]) -> None:
        item = self._session.items[index]
        if isinstance(item, TrialItem):
            self._index[item] = index
            for ticket in item.tickets():
                self._bench.submit(flight, ticket)
            return
        if self._held is not None:
            self._run_held(item)
        self._held = index

    def _run_held(self, following: pytest.Item | None) -> None:
        index, self._held = self._held, None
        assert index is not None  # noqa: S101  callers have looked
        item = self._session.items[index]
        _write(self._wills / "ordinary", str(index))
        self._protocol(index, item, following)
        (self._wills / "ordinary").unlink()

    def _report(self, ticket: Ticket, result: TrialResult) -> None:
        item = ticket.item
        if item.land(result, self._policy):
            self._protocol(self._index.pop(item), item, None)
        with contextlib.suppress(FileNotFoundError):
            self._will(result.node_id).unlink()

    def _leave_will(self, item: TrialItem, trial: Trial) -> None:
        will = {"item": item.nodeid, "first": item.attempt, "attempts": item.attempts}
        _write(self._will(trial.node_id), json.dumps({**will, "trial": trial.model_dump(mode="json")}))

    def _protocol(self, index: int, item: pytest.Item, following: pytest.Item | None) -> None:
        self._interactor.item_index = index
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        # A duration would make `--dist load` think that the worker is slow.
        self._interactor.sendevent("runtest_protocol_complete", item_index=index, duration=0)

    def _will(self, node_id: str) -> Path:
        return self._wills / f"{hashlib.sha256(node_id.encode('utf-8', 'replace')).hexdigest()[:32]}.json"


# --- controller -----------------------------------------------------------------------------------------------------


def prepare_node(node: Node) -> None:
    """Give a worker what it needs to find us. Plain types only: they travel."""
    controller = node.config.pluginmanager.get_plugin(_CONTROLLER)
    if controller is None:
        controller = Controller(node.config, node.workerinput["testrunuid"])
        node.config.pluginmanager.register(controller, _CONTROLLER)
    node.workerinput[_INPUT] = {"meeting": str(controller.meeting)}


class Controller:
    """Hooks of the process that distributes."""

    def __init__(self, config: pytest.Config, run: str) -> None:
        self.config = config
        self.meeting = temporary_path(f"xdist-{run}")
        self.bench: BenchSession | None = None
        self._reported: set[str] = set()
        """Node ids of items."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Signals do what Ctrl-C does; what they would not clean up is then ours to find."""
        interrupts = interrupts_of(self.config)
        interrupts.take()
        try:
            return (yield)
        finally:
            if self.bench is not None:
                self.bench.deafen()
                interrupts.closing()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A worker found that the options contradict what there is."""
        usage = getattr(report, "bench_usage", None)
        if usage is not None:
            raise pytest.UsageError(usage)

    @pytest.hookimpl(tryfirst=True)
    def pytest_xdist_node_collection_finished(self, node: Node) -> None:
        """Begin the job when the first worker has found trials."""
        if self.bench is not None or not (self.meeting / "collected.json").is_file():
            return
        from . import reporting
        from .beginning import BENCHMARKS
        from .collect import activate
        from .known import NOTES
        from .selection import LEFT_OUT, NARROWED, PARTIAL
        from .session import BenchSession

        hold(self.meeting)  # until this process ends
        word = json.loads((self.meeting / "collected.json").read_text("utf-8"))
        activate(self.config)
        self.config.stash[LEFT_OUT] = dict.fromkeys(
            (benchmark, label) for benchmark, label in word["left_out"]
        )
        self.config.stash[NOTES] = word["notes"]
        self.config.stash[PARTIAL] = word["partial"]
        self.config.stash[NARROWED] = word["narrowed"]
        self.config.stash[BENCHMARKS] = frozenset(word["benchmarks"])
        self.bench = BenchSession.begin(self.config, word["trials"], frozenset(word["chosen"]))
        problem = self.bench.engine_problem
        job = {
            "job": self.bench.bundle.id,
            "engine_problem": problem.model_dump_json() if problem else None,
            "gateway": self.bench.gateway_address,
        }
        _write(self.meeting / "job.json", json.dumps(job))
        reporting.announce_counts(
            self.bench,
            trials=sum(word["trials"].values()),
            scenarios=word["scenarios"],
            agents=word["agents"],
        )
        self._take_over(node.config.getoption("dist"), ordinary=word["ordinary"])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write a result into the history."""
        bench: dict[str, Any] | None = getattr(report, "bench", None)
        if bench is None or self.bench is None:
            return
        from ..model.errors import InputError
        from ..model.result import TrialResult
        from ..store.bundle import read_result

        self._reported.add(bench["node_id"])
        self.bench.changed.update(bench["changed"])
        for trial in bench["trials"]:
            try:
                if trial["whole"] is not None:
                    result = TrialResult.model_validate_json(trial["whole"])
                else:
                    result = read_result(self.bench.bundle.root / trial["path"])
            except (InputError, ValueError) as error:
                self.bench.troubles.append(f"history: {error}")
            else:
                self.bench.record(result)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Leave no meeting place behind."""
        shutil.rmtree(self.meeting, ignore_errors=True)

    def lost(self, node: Node) -> tuple[set[str], int | None]:
        """Report, in place of a worker that died, the items it had trials of in flight.

        Returns their ids, and the index of the ordinary test it was running, if it was.
        """
        assert self.bench is not None  # noqa: S101  the scheduling that asks was made with it
        from ..analysis.verdict import verdict
        from ..model.errors import BenchError, WorkerLost
        from ..model.result import Failure, Trial

        wills = self.bench.bundle.layout.worker(node.gateway.id)
        found = [json.loads(path.read_bytes()) for path in sorted(wills.glob("*.json"))]
        others = f", and {len(found) - 1} more" if len(found) > 1 else ""
        why = Failure(
            class_=WorkerLost.code, message=f"worker {node.gateway.id} died while it ran this trial" + others
        )
        items: dict[str, list[dict[str, Any]]] = {}
        for will in found:
            items.setdefault(will["item"], []).append(will)
        for item_id, of_item in items.items():
            if item_id in self._reported:
                continue
            trials = [Trial.model_validate(will["trial"]) for will in of_item]
            try:
                landed = self._landed(trials, of_item[0], why)
            except BenchError as error:
                self.bench.troubles.append(f"{item_id}: {error}")
                continue
            result = verdict(item_id, landed, self.bench.job.attempt_policy, of_item[0]["attempts"])
            self._report(node, result, landed)
        ordinary = wills / "ordinary"
        return set(items), int(ordinary.read_text()) if ordinary.is_file() else None

    def _landed(self, lost: Sequence[Trial], will: dict[str, Any], why: Failure) -> list[TrialResult]:
        """Results of an item's trials: of those that were lost, and of those that had landed before."""
        assert self.bench is not None  # noqa: S101
        results = {trial.attempt: self.bench.lost(trial, why) for trial in lost}
        for attempt in range(will["first"], will["first"] + will["attempts"]):
            if attempt not in results and will["attempts"] > 1:
                node_id = f"{will['item'][:-1]}-{attempt}]"
                other = lost[0].model_copy(update={"attempt": attempt, "node_id": node_id})
                if (result := self.bench.bundle.find(other)) is not None:
                    results[attempt] = result
        return [results[attempt] for attempt in sorted(results)]

    def _report(self, node: Node, result: TrialResult, landed: Sequence[TrialResult]) -> None:
        from .reporting import reports_of

        hook = self.config.hook
        place = result.node_id.split("::")[0]
        location = (place, None, result.node_id.rpartition("::")[2])
        hook.pytest_runtest_logstart(nodeid=result.node_id, location=location)
        for report in reports_of(result, landed, location):
            report.node = node  # type: ignore[attr-defined]
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=result.node_id, location=location)

    def _take_over(self, dist: str, *, ordinary: int) -> None:
        """Schedule ourselves: xdist knows of one test at a time in a worker, and of one to blame when it dies."""
        if dist == "each" and ordinary:
            raise pytest.UsageError(
                "--dist each runs every test in every worker, and a trial runs once: give trials and ordinary tests "
                "a run of their own, or use another --dist"
            )
        dsession: Any = self.config.pluginmanager.get_plugin("dsession")
        before = dsession.sched
        dsession.sched = flight_scheduling(self, before, ordinary)
        for node in before.nodes:
            dsession.sched.add_node(node)


def flight_scheduling(controller: Controller, before: Any, ordinary: int) -> Any:
    """Our scheduling, in place of `before`. The first `ordinary` tests keep together as that would keep them."""
    from xdist.scheduler import LoadScheduling

    scope: Callable[[str], str] = getattr(before, "_split_scope", str)
    """What tests of `--dist loadscope` and its like keep together by; else each is alone."""

    class FlightScheduling(LoadScheduling):  # type: ignore[misc]
        """Keeps every worker's window full, so that no token of the job is idle while trials wait."""

        collection: Any

        def __init__(self) -> None:
            super().__init__(controller.config, before.log)
            assert controller.bench is not None  # noqa: S101
            self._window = controller.bench.job.concurrency + 2

        @property
        def tests_finished(self) -> bool:
            # A worker that is told to shut down stops its trials: that may only come when none is left.
            return self.collection_is_completed and not self.has_pending

        def check_schedule(self, node: Node, duration: float = 0) -> None:  # noqa: ARG002
            if node.shutting_down:
                return
            unfinished = len(self.pending) + sum(map(len, self.node2pending.values()))
            fair = -(-unfinished // len(self.node2pending))
            while self.pending and len(self.node2pending[node]) < min(fair, self._window):
                self._send_next(node)

        def _send_next(self, node: Node) -> None:
            sent = [self.pending.pop(0)]
            if sent[0] < ordinary:
                together = scope(self.collection[sent[0]])
                while (
                    self.pending
                    and self.pending[0] < ordinary
                    and scope(self.collection[self.pending[0]]) == together
                ):
                    sent.append(self.pending.pop(0))
            self.node2pending[node].extend(sent)
            node.send_runtest_some(sent)

        def schedule(self) -> None:
            if self.collection is None:
                if not self._check_nodes_have_same_collection():
                    self.log("**Different tests collected, aborting run**")
                    return
                self.collection = next(iter(self.node2collection.values()))
                self.pending[:] = range(len(self.collection))
                self.pending[:ordinary] = self._by_scope()
            for node in self.nodes:
                self.check_schedule(node)

        def _by_scope(self) -> list[int]:
            first: dict[str, int] = {}
            for index in range(ordinary):
                first.setdefault(scope(self.collection[index]), index)
            return sorted(range(ordinary), key=lambda index: first[scope(self.collection[index])])

        def remove_node(self, node: Node) -> str | None:
            sent = self.node2pending.pop(node)
            if not sent or hasattr(node, "workeroutput"):
                # One that said goodbye has stopped of its own accord (-x): what it had left is nobody's fault.
                return None
            ids, running = controller.lost(node)
            self.pending[:0] = [
                index for index in sent if index != running and self.collection[index] not in ids
            ]
            for other in self.nodes:
                self.check_schedule(other)
            return None if running not in sent else self.collection[running]

    return FlightScheduling()


def _write(path: Path, text: str) -> None:
    """In one step: whoever reads it sees all or nothing."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, "utf-8", errors="replace")
    temporary.rename(path)
