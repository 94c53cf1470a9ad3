"""Controller of pytest-xdist, which distributes tests to workers; see `distribution`."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from ..model.node_ids import attempt_id
from ..system.temporary import hold, temporary_path
from .distribution import EMPTY_SHARD, INPUT, Node, write
from .options import usage_error
from .state import interrupts_of, state_of

if TYPE_CHECKING:
    from ..model.result import Failure, Trial, TrialResult
    from .state import Job
    from .terminal import QuotaLines

_CONTROLLER = "benchjobs-controller"
_POLL_SECONDS = 0.5


def prepare_node(node: Node) -> None:
    """Give a worker the data to join the job, in plain types, which xdist can send."""
    controller = node.config.pluginmanager.get_plugin(_CONTROLLER)
    if controller is None:
        controller = Controller(node.config, node.workerinput["testrunuid"])
        node.config.pluginmanager.register(controller, _CONTROLLER)
    node.workerinput[INPUT] = {"meeting": str(controller.meeting)}


class Controller:
    """Hooks of the controller."""

    def __init__(self, config: pytest.Config, run: str) -> None:
        self.config = config
        self.meeting = temporary_path(f"xdist-{run}")
        self.job: Job | None = None
        self.lines: QuotaLines | None = None
        self._reported: set[str] = set()
        """Node ids of items."""
        self._is_over = threading.Event()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Handle signals like Ctrl-C during the loop."""
        interrupts = interrupts_of(self.config)
        interrupts.take()
        try:
            return (yield)
        finally:
            self._is_over.set()
            if self.job is not None:
                self.job.disarm()
                interrupts.closing()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Take a contradiction that a worker found."""
        usage = getattr(report, "bench_usage", None)
        if usage is not None:
            raise usage_error(usage)

    @pytest.hookimpl(tryfirst=True)
    def pytest_xdist_node_collection_finished(self, node: Node) -> None:
        """Begin the job when the first worker has found trials."""
        if self.job is not None or not (self.meeting / "collected.json").is_file():
            return
        from ..model.job import Split
        from . import hooks
        from . import terminal as reporting
        from .session import begin_job
        from .work import Work

        hold(self.meeting)  # held until this process ends
        word = json.loads((self.meeting / "collected.json").read_text("utf-8"))
        hooks.activate(self.config)
        state = state_of(self.config)
        state.left_out = dict.fromkeys((benchmark, label) for benchmark, label in word["left_out"])
        state.notes, state.narrowed = word["notes"], word["narrowed"]
        state.unselected = set(word["unselected"])
        state.split = None if word["split"] is None else Split.model_validate(word["split"])
        if word["driven"]:
            from ..model.agent import AgentSpec
            from .interactive import register

            specs = [AgentSpec.model_validate(one) for one in word["driven"]]
            register(self.config, specs, {}, others=word["others"])
        work = Work(**word["work"])
        self.job = begin_job(self.config, work)
        self.lines = reporting.QuotaLines(self.config, self.job)
        problem = self.job.trials.engine_problem
        answer = {
            "job": self.job.bundle.id,
            "engine_problem": problem.model_dump_json() if problem else None,
            "gateway": self.job.gateway_address,
            "sandboxes": work.sandboxes,
        }
        write(self.meeting / "job.json", json.dumps(answer))
        reporting.announce(self.config, self.job, work)
        self._take_over(node.config.getoption("dist"), ordinary=word["ordinary"])
        # xdist calls no hook while it waits.
        threading.Thread(target=self._tell_waits, args=(self.job,), name="bench-waits", daemon=True).start()

    def _tell_waits(self, job: Job) -> None:
        """Say what the trials of the workers do while none ends."""
        from ..store.events import EventReader
        from .progress import WaitLines

        reader, lines = EventReader(job.bundle.root), WaitLines(self.config, job)
        while not self._is_over.wait(_POLL_SECONDS):
            reader.follow(job.trials.events)
            lines()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Queue a result for the history."""
        bench: dict[str, Any] | None = getattr(report, "bench", None)
        if self.lines is not None:
            self.lines()
        if bench is None or self.job is None:
            return
        from ..model.errors import InputError
        from ..model.result import TrialResult
        from ..store.trials import read_result
        from .aliases import forget_failure

        self._reported.add(bench["node_id"])
        self.job.trials.fates.changed.update(bench["changed"])
        for trial in bench["trials"]:
            try:
                if trial["whole"] is not None:
                    result = TrialResult.model_validate_json(trial["whole"])
                else:
                    result = read_result(self.job.bundle.root / trial["path"])
            except (InputError, ValueError) as error:
                self.job.problems.lines.append(f"history: {error}")
            else:
                self.job.trials.note_full(result)
                self.job.record(result)
                forget_failure(self.config, report.nodeid, result.benchmark)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Remove the meeting place. A shard with nothing to run is no mistake."""
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and (self.meeting / EMPTY_SHARD).exists():
            session.exitstatus = pytest.ExitCode.OK
        shutil.rmtree(self.meeting, ignore_errors=True)

    def lost(self, node: Node) -> tuple[set[str], int | None]:
        """Report the items with trials in flight of a dead worker, in its place.

        Returns their ids, and the index of the ordinary test it was running, if any.
        """
        assert self.job is not None  # noqa: S101  the scheduling that asks was made with it
        from ..analysis.verdict import verdict
        from ..model.errors import BenchError, WorkerLost
        from ..model.result import Failure, Trial

        wills = self.job.bundle.layout.worker(node.gateway.id)
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
                self.job.problems.lines.append(f"{item_id}: {error}")
                continue
            result = verdict(item_id, landed, self.job.config.attempt_policy, of_item[0]["attempts"])
            self._report(node, result, landed)
        ordinary = wills / "ordinary"
        return set(items), int(ordinary.read_text()) if ordinary.is_file() else None

    def _landed(self, lost: Sequence[Trial], will: dict[str, Any], why: Failure) -> list[TrialResult]:
        """Return the results of an item's trials: the lost ones, and those that had landed before."""
        assert self.job is not None  # noqa: S101
        results = {trial.attempt: self.job.trials.lost(trial, why) for trial in lost}
        for attempt in range(will["first"], will["first"] + will["attempts"]):
            if attempt not in results and will["attempts"] > 1:
                node_id = attempt_id(will["item"], attempt)
                other = lost[0].model_copy(update={"attempt": attempt, "node_id": node_id})
                if (result := self.job.bundle.find(other)) is not None:
                    results[attempt] = result
        return [results[attempt] for attempt in sorted(results)]

    def _report(self, node: Node, result: TrialResult, landed: Sequence[TrialResult]) -> None:
        from .status_words import reports_of

        hook = self.config.hook
        place = result.node_id.split("::")[0]
        location = (place, None, result.node_id.rpartition("::")[2])
        hook.pytest_runtest_logstart(nodeid=result.node_id, location=location)
        for report in reports_of(self.config, result, landed, location):
            report.node = node  # type: ignore[attr-defined]
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=result.node_id, location=location)

    def _take_over(self, dist: str, *, ordinary: int) -> None:
        """Replace the scheduler: xdist's expects one running test per worker, and blames one when the worker dies."""
        if dist == "each" and ordinary:
            raise usage_error(
                "--dist each runs every test in every worker, and a trial runs once: run trials and ordinary "
                "tests separately, or use another --dist"
            )
        from ..model.quota import OnQuota
        from .scheduling import FlightScheduling

        assert self.job is not None  # noqa: S101  it has just begun
        # A window could be full of trials that wait for a quota, while others could run.
        waits = self.job.config.on_quota is OnQuota.WAIT
        dsession: Any = self.config.pluginmanager.get_plugin("dsession")
        before = dsession.sched
        dsession.sched = FlightScheduling(
            before,
            self.config,
            ordinary=ordinary,
            window=sys.maxsize if waits else self.job.config.concurrency + 2,
            lost=self.lost,
        )
        for node in before.nodes:
            dsession.sched.add_node(node)
