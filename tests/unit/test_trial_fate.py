"""Whether a trial runs, has a result already, or is skipped; and what a job keeps of that until the trial starts."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.agents.builtin import builtin_agents
from pytest_benchjobs.agents.protocol import AgentCall, AgentCommand
from pytest_benchjobs.job.recorder import Problems
from pytest_benchjobs.job.trial_fate import Fates, Run, Skip, Take
from pytest_benchjobs.job.trials import Supplies, Trials, next_landed
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.errors import ContainerStartFailed, DiskFull, InfrastructureError, InputError
from pytest_benchjobs.model.job import JobConfig
from pytest_benchjobs.model.known_failure import Known, KnownMode
from pytest_benchjobs.model.result import Failure, Origin, Outcome, Signature, Trial, TrialResult
from pytest_benchjobs.model.scenario import Answer, Environment, Requires, ScorerSpec
from pytest_benchjobs.sandbox.late import LateProvider
from pytest_benchjobs.scoring.builtin import builtin_scorers
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.history import History
from pytest_benchjobs.testing import FakeProvider
from pytest_benchjobs.trial.cancellation import Cancellation
from pytest_benchjobs.trial.prepare import Services

from .records import NOW, OWNER, record, result, trial

KNOWN = Known(mode=KnownMode.EXPECTED_FAIL, reason="flaky")


@dataclasses.dataclass
class Ticket:
    """A ticket of a trial that is known already."""

    of: Trial
    shares_verdict: bool = False
    is_fresh: bool = False
    is_driven: bool = False
    mark: str | None = None

    def __post_init__(self) -> None:
        of, scenario = self.of, self.of.scenario
        self.node_id, self.agent, self.attempt, self.known = of.node_id, of.agent, of.attempt, of.known
        self.benchmark, self.scenario = scenario.benchmark, scenario.id
        self.confidential = scenario.confidential

    def trial(self) -> Trial:
        return self.of

    def unwanted(self) -> str | None:
        return self.mark


class Blind:
    """An agent that can see nothing."""

    name = "blind"
    trusted = False
    capabilities = frozenset({"hearing"})

    def prepare(self, call: AgentCall) -> AgentCommand | None:
        return None


AGENTS: dict[str, Any] = {agent.name: agent for agent in (*builtin_agents(), Blind())}


class Reuse:
    """Decides as it is told to."""

    def __init__(self, decision: tuple[TrialResult | None, str] | Exception) -> None:
        self.decision = decision
        self.asked: list[tuple[Mapping[str, str], str | None]] = []

    def decide(
        self, trial: Trial, parts: Mapping[str, str], image_key: str | None
    ) -> tuple[TrialResult | None, str]:
        self.asked.append((parts, image_key))
        if isinstance(self.decision, Exception):
            raise self.decision
        return self.decision


@pytest.fixture
def bundle(tmp_path: Path) -> JobBundle:
    return JobBundle.create(tmp_path, record(tmp_path))


def _fates(
    bundle: JobBundle, reuse: Reuse | None = None, *, provider: Any = None, bare: bool = False, **how: Any
) -> Fates:
    config = JobConfig(directory=bundle.root.parents[1], **how.pop("config", {}))
    fates = Fates(config, bundle, AGENTS, **how)
    if not bare:
        provider = provider or FakeProvider(OWNER)
        services = Services(
            config=config, bundle=bundle, provider=provider, agents=AGENTS, scorers=builtin_scorers()
        )
        fates.services, fates.reuse = services, reuse  # type: ignore[assignment]
    return fates


def _of(one: Trial, **changes: Any) -> Trial:
    return one.model_copy(update=changes)


def _requiring(one: Trial, *capabilities: str) -> Trial:
    needs = Requires(capabilities=capabilities)
    return _of(one, scenario=one.scenario.model_copy(update={"requires": needs}))


def _ended(bundle: JobBundle, one: Trial, **changes: Any) -> TrialResult:
    return bundle.begin(one).commit(result(one, **changes))


def _failed(found: TrialResult) -> tuple[str, str]:
    assert found.failure is not None
    return found.failure.class_, found.failure.message


# Its own result, of before the job was resumed


@pytest.mark.parametrize(
    ("outcome", "resumed", "shares", "taken"),
    [
        (Outcome.PASSED, True, False, True),
        (Outcome.FAILED, True, False, True),
        (Outcome.PASSED, False, True, True),  # a worker that died has left it
        (Outcome.PASSED, False, False, False),
        (Outcome.ERROR, True, False, False),
        (Outcome.CANCELLED, True, True, False),
        (Outcome.SKIPPED, True, False, False),
        (None, True, True, False),
    ],
)
def test_a_trial_of_this_job_that_passed_or_failed_is_not_run_again(
    bundle: JobBundle, outcome: Outcome | None, resumed: bool, shares: bool, taken: bool
) -> None:
    one = trial()
    own = None if outcome is None else _ended(bundle, one, outcome=outcome)
    fates, ticket = _fates(bundle, resumed=resumed), Ticket(one, shares_verdict=shares)
    assert fates.may_take(ticket) is (resumed or shares)
    fate = fates.decide(ticket, one)
    if taken:
        assert own is not None
        assert isinstance(fate, Take)
        assert (fate.result.outcome, fate.why, fate.is_stale) == (own.outcome, None, False)
    else:
        assert isinstance(fate, Run)


@pytest.mark.parametrize(("before", "now"), [(None, KNOWN), (KNOWN, None), (KNOWN, KNOWN)])
def test_a_known_failure_is_the_one_of_now(
    bundle: JobBundle, before: Known | None, now: Known | None
) -> None:
    one = trial()
    _ended(bundle, one, outcome=Outcome.FAILED, known=before)
    fate = _fates(bundle, resumed=True).decide(Ticket(one), _of(one, known=now))
    assert isinstance(fate, Take)
    assert (fate.result.known, fate.is_stale) == (now, before != now)


def test_what_changed_since_a_trial_ended_is_noted_and_its_result_stays(bundle: JobBundle) -> None:
    one, same, unsigned, rescored, odd = (
        trial(name, "nop") for name in ("one", "same", "unsigned", "rescored", "odd")
    )
    parts = Reuse((None, "x"))
    _fates(bundle, parts).decide(Ticket(same), same)
    ((known, _),) = parts.asked
    old = Signature(value="0" * 32, parts={**known, "agent": "old", "place": "old", "gone": "1"})
    _ended(bundle, one, signature=old)
    _ended(bundle, same, signature=Signature(value="0" * 32, parts={**known, "image": "not looked at"}))
    _ended(bundle, unsigned)
    origin = Origin(job="earlier", path="trials/x", finished_at=NOW)
    _ended(bundle, rescored, signature=old, rescored=origin)
    _ended(bundle, odd, signature=old)
    odd = _of(odd, agent=AgentSpec.parse("nobody"))
    fates = _fates(bundle, resumed=True)
    for each in (one, unsigned, rescored):
        assert isinstance(fates.decide(Ticket(each), each), Take)
    assert list(fates.changed) == [one.node_id]
    assert {"agent", "place"} <= set(fates.changed[one.node_id].split(", "))
    assert "gone" not in fates.changed[one.node_id]
    bare = _fates(bundle, resumed=True, bare=True)
    assert isinstance(bare.decide(Ticket(one), one), Take)
    assert bare.changed == {}


# Skipped


def _skipped(fates: Fates, ticket: Ticket) -> tuple[str, str]:
    fate = fates.decide(ticket, ticket.of)
    assert isinstance(fate, Skip)
    return fate.why.class_, fate.why.message


def test_a_mark_skips_a_trial_whatever_else(bundle: JobBundle) -> None:
    one = _requiring(trial(agent="blind"), "vision")
    assert _skipped(_fates(bundle), Ticket(one, mark="not \x1b[31mtoday")) == ("marked", "not today")


def test_attempts_of_what_is_decided_are_skipped_but_for_those_that_are_to_confirm_it(
    bundle: JobBundle,
) -> None:
    fates = _fates(bundle)
    one, other = trial(), trial(agent="nop")
    fates.decided["texts", "oracle"] = "clear after 2 rounds"
    assert _skipped(fates, Ticket(one)) == ("decided", "clear after 2 rounds")
    assert isinstance(fates.decide(Ticket(one, is_fresh=True), one), Run)
    assert isinstance(fates.decide(Ticket(other), other), Run)


def test_what_agent_or_sandboxes_lack_skips_a_trial(bundle: JobBundle) -> None:
    one = _requiring(trial(agent="blind"), "vision", "hearing")
    assert _skipped(_fates(bundle), Ticket(one)) == ("incompatible", "incompatible: blind has no vision")
    # Strict: it is an error, which preparing raises.
    assert isinstance(_fates(bundle, config={"strict_capabilities": True}).decide(Ticket(one), one), Run)
    assert isinstance(_fates(bundle, bare=True).decide(Ticket(one), one), Skip)
    assert isinstance(_fates(bundle, rescored=True).decide(Ticket(one), one), Run)
    able = _requiring(trial(agent="blind"), "hearing")
    assert isinstance(_fates(bundle).decide(Ticket(able), able), Run)
    stranger = _requiring(trial(agent="nobody"), "vision")
    assert isinstance(_fates(bundle).decide(Ticket(stranger), stranger), Run)


def test_what_the_sandboxes_lack_goes_before_what_the_agent_lacks(bundle: JobBundle) -> None:
    class Poor(FakeProvider):
        def incompatible(self, scenario: object, config: object) -> str | None:
            return "no GPU here"

    for config in ({}, {"strict_capabilities": True}):
        one = _requiring(trial(agent="blind"), "vision")
        fates = _fates(bundle, provider=Poor(OWNER), config=config)
        assert _skipped(fates, Ticket(one)) == ("incompatible", "no GPU here")


# Reused


def test_a_result_that_is_reused_says_where_it_is_from(bundle: JobBundle) -> None:
    one = trial(agent="nop")
    reuse = Reuse((result(one), "passed in job x"))
    fates = _fates(bundle, reuse)
    assert fates.may_take(Ticket(one))
    fate = fates.decide(Ticket(one), one)
    assert isinstance(fate, Take)
    assert (fate.why, fate.image_key, fate.is_stale) == ("passed in job x", "debian", False)
    ((parts, key),) = reuse.asked
    assert key == "debian"
    assert "scenario" in parts


def test_a_trial_without_an_earlier_result_runs_as_it_was_prepared_and_says_why(bundle: JobBundle) -> None:
    one = trial(agent="nop")
    fate = _fates(bundle, Reuse((None, "it has never run here"))).decide(Ticket(one), one)
    assert isinstance(fate, Run)
    assert (fate.why, fate.image_key, fate.problem) == ("it has never run here", "debian", None)
    assert fate.prepared is not None
    assert fate.prepared.agent.name == "nop"


def test_a_trial_that_cannot_be_prepared_runs_into_its_error(bundle: JobBundle) -> None:
    one = trial(agent="nobody")
    fate = _fates(bundle, Reuse((None, "x"))).decide(Ticket(one), one)
    assert isinstance(fate, Run)
    assert fate.prepared is None
    assert fate.problem is not None
    assert fate.problem.startswith("there is no agent 'nobody'")
    other = trial(agent="nop")
    fate = _fates(bundle, Reuse(KeyError())).decide(Ticket(other), other)
    assert isinstance(fate, Run)
    assert (fate.problem, fate.image_key) == ("KeyError", "debian")
    assert fate.prepared is not None


# Kept until the trial starts


def _trials(bundle: JobBundle, rescore: str | None = None) -> Trials[Ticket]:
    tmp_path = bundle.root.parents[1]
    supplies = Supplies(AGENTS, builtin_scorers(), LateProvider(lambda: FakeProvider(OWNER)))
    config = JobConfig(directory=tmp_path, concurrency=2, reuse=True)
    trials: Trials[Ticket] = Trials(config, bundle, supplies, Problems(), resumed=False, rescore=rescore)
    History.of(tmp_path).close()
    trials.open(None)
    return trials


@pytest.fixture
def trials(bundle: JobBundle) -> Iterator[Trials[Ticket]]:
    opened = _trials(bundle)
    yield opened
    opened.close()


def test_a_trial_that_is_run_again_by_a_plugin_takes_no_result_whether_it_flew_or_was_taken(
    bundle: JobBundle, trials: Trials[Ticket]
) -> None:
    flight: Any = Flight()
    there, anew = Ticket(trial("there", "nop"), shares_verdict=True), trial("anew", "nop")
    _ended(bundle, there.of, outcome=Outcome.PASSED)
    trials.submit(flight, there)
    assert (flight.landed, flight.submitted) == (["there"], [])
    assert trials.fly(Ticket(anew), Cancellation()).outcome is Outcome.PASSED
    assert isinstance(trials.fates.decide(Ticket(anew, shares_verdict=True), anew), Take)
    trials.submit(flight, Ticket(anew, shares_verdict=True))
    trials.submit(flight, there)
    assert (flight.landed, flight.submitted) == (["there"], ["anew", "there"])


def test_what_is_graded_anew_is_not_reused(bundle: JobBundle) -> None:
    one = trial(agent="nop")
    trials = _trials(bundle, rescore="earlier")
    assert not trials.fates.may_take(Ticket(one))
    assert trials.fates.decide(Ticket(one), one) == Run()
    trials.close()


class Supply:
    """Images for the containers of `Contained`; `broken`: nothing can be told to it."""

    def __init__(self, broken: bool = False) -> None:
        self.broken = broken
        self.begun: list[str | None] = []

    def bring(self, environment: Environment, check: Callable[[], object]) -> bool:
        return True

    def expect(self, place: int, environments: Sequence[Environment]) -> None:
        pass

    def begin(self, place: int, environments: Sequence[Environment]) -> None:
        if self.broken:
            raise InfrastructureError("no place for the record")
        self.begun += [one.image for one in environments]

    def end(self, place: int, *, last: bool) -> None:
        pass


class Reading(Ticket):
    """Counts how often its scenario is read and its marks are evaluated, and in which threads."""

    def __init__(self, of: Trial, mark: str | None = None) -> None:
        super().__init__(of, mark=mark)
        self.read: list[str] = []
        self.marked: list[str] = []

    def trial(self) -> Trial:
        self.read.append(threading.current_thread().name)
        return self.of

    def unwanted(self) -> str | None:
        self.marked.append(threading.current_thread().name)
        return self.mark


def _flown(
    bundle: JobBundle,
    supply: Supply | None,
    *tickets: Ticket,
    sandboxes: bool = True,
    problem: Failure | None = None,
) -> tuple[list[TrialResult], list[str], int]:
    """Results of trials, lines about problems, and how many providers were made."""
    config = JobConfig(directory=bundle.root.parents[1], concurrency=1)
    made: list[FakeProvider] = []

    def provider() -> FakeProvider:
        made.append(FakeProvider(OWNER))
        if supply is not None:
            made[-1].builder = SimpleNamespace(supply=lambda job, config: supply)  # type: ignore[attr-defined]
        return made[-1]

    problems = Problems()
    supplies = Supplies(AGENTS, builtin_scorers(), LateProvider(provider))
    trials: Trials[Ticket] = Trials(config, bundle, supplies, problems, resumed=False, rescore=None)
    trials.engine_problem = problem
    trials.open(None, sandboxes=sandboxes)
    flight = trials.flight()
    for ticket in tickets:
        trials.submit(flight, ticket)
    results = [next_landed(flight)[1] for _ in tickets]
    trials.close()
    flight.close()
    return results, problems.lines, len(made)


def test_where_sandboxes_need_no_images_a_scenario_is_read_once_and_its_marks_are_evaluated_once(
    bundle: JobBundle,
) -> None:
    tickets = [Reading(trial(f"s-{number}", "nop")) for number in range(10)]
    results, lines, _ = _flown(bundle, None, *tickets)
    assert ([one.outcome for one in results], lines) == ([Outcome.PASSED] * 10, [])
    assert {(*ticket.read, *ticket.marked) for ticket in tickets} == {("bench-trial", "MainThread")}


def test_marks_are_evaluated_once_in_the_main_thread_and_images_come_without(bundle: JobBundle) -> None:
    supply = Supply()
    wanted, skipped = Reading(trial("one", "nop")), Reading(trial("two", "nop"), mark="not today")
    results, _, _ = _flown(bundle, supply, wanted, skipped)
    assert sorted(one.outcome for one in results) == [Outcome.PASSED, Outcome.SKIPPED]
    assert (wanted.marked, skipped.marked) == (["MainThread"], ["MainThread"])
    assert wanted.read.count("bench-trial") == 1
    assert wanted.read.count("bench-images") <= 1
    assert "bench-images" not in skipped.read
    assert supply.begun == ["debian"]


def test_what_goes_wrong_with_images_brought_ahead_is_no_error_of_a_trial(bundle: JobBundle) -> None:
    results, lines, _ = _flown(bundle, Supply(broken=True), Ticket(trial("one", "nop")))
    assert [one.outcome for one in results] == [Outcome.PASSED]
    assert lines == ["images: no place for the record"]


def _question(name: str) -> Ticket:
    scorers = (ScorerSpec(name="right", type="answer", params={"answer": "4"}),)
    changes = {"answer": Answer.model_validate({"reference": "4"}), "scorers": scorers}
    one = trial(name)
    return Ticket(_of(one, scenario=one.scenario.model_copy(update=changes)))


def test_a_question_makes_no_sandboxes_for_its_image(bundle: JobBundle) -> None:
    supply = Supply()
    results, _, made = _flown(bundle, supply, _question("one"), sandboxes=False)
    assert (len(results), made, supply.begun) == (1, 0, [])
    results, _, made = _flown(bundle, supply, Ticket(trial("two", "nop")), sandboxes=False)
    assert (len(results), made, supply.begun) == (1, 1, ["debian"])


def test_where_nothing_can_run_trials_end_in_the_error_but_for_questions_of_an_engine(
    bundle: JobBundle,
) -> None:
    for class_, hindered in (("engine_unavailable", {"two"}), ("gateway", {"one", "two"})):
        problem = Failure(class_=class_, message="another process has found out")
        results, lines, _ = _flown(
            bundle, None, _question("one"), Ticket(trial("two", "nop")), problem=problem
        )
        assert {each.scenario for each in results if each.failure == problem} == hindered
        assert lines == []


class Flight:
    """Notes what is submitted, and what lands at once."""

    def __init__(self) -> None:
        self.submitted: list[str] = []
        self.landed: list[str] = []

    def submit(self, ticket: Ticket) -> None:
        self.submitted.append(ticket.scenario)

    def land(self, ticket: Ticket, result: TrialResult) -> None:
        self.landed.append(ticket.scenario)


@pytest.mark.parametrize(("skips", "outcome"), [(True, Outcome.SKIPPED), (False, Outcome.ERROR)])
def test_what_a_fixture_refuses_ends_as_it_says(
    trials: Trials[Ticket], skips: bool, outcome: Outcome
) -> None:
    flight: Any = Flight()
    ticket, why = Ticket(trial("one", "nop")), Failure(class_="fixture", message="no database")
    trials.refuse(flight, ticket, why, skips=skips)
    assert flight.submitted == ["one"]
    found = trials.fly(ticket, Cancellation())
    assert (found.outcome, found.failure) == (outcome, why)
    # A rerun by a plugin, in fixtures that work this time, runs.
    assert trials.fly(ticket, Cancellation()).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("error", "class_"),
    [(InputError("it is gone"), "input"), (ContainerStartFailed("no"), "container_start")],
)
def test_a_trial_whose_scenario_cannot_be_read_has_a_result_from_what_its_ticket_knows(
    trials: Trials[Ticket], monkeypatch: pytest.MonkeyPatch, error: Exception, class_: str
) -> None:
    def gone(_: object) -> Trial:
        raise error

    of = _of(trial("one", "nop", 2), known=KNOWN)
    monkeypatch.setattr(Ticket, "trial", gone)
    found = trials.fly(Ticket(of), Cancellation())
    assert (found.outcome, found.score) == (Outcome.ERROR, None)
    assert _failed(found) == (class_, str(error))
    assert (found.node_id, found.benchmark, found.scenario, found.agent, found.attempt, found.known) == (
        of.node_id, "texts", "one", of.agent, 2, KNOWN,
    )  # fmt: skip


def test_a_result_that_there_is_no_place_for_is_that_of_the_trial(
    trials: Trials[Ticket], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise DiskFull("no space left")

    monkeypatch.setattr(trials, "_run", full)
    one, other = trial("one", "nop"), trial("other", "nop")
    found = trials.fly(Ticket(one), Cancellation())
    assert (found.outcome, found.node_id) == (Outcome.ERROR, one.node_id)
    assert _failed(found)[0] == "disk_full"
    assert trials.full == "no space left"
    # Nothing more is paid for.
    after = trials.fly(Ticket(other), Cancellation())
    assert after.outcome is Outcome.CANCELLED
    assert _failed(after)[1] == "not run: no space left"


def test_a_limit_that_was_reached_is_the_first_and_nothing_more_runs(trials: Trials[Ticket]) -> None:
    trials.note_spent("the job has spent 5 USD")
    trials.note_spent("another")
    found = trials.fly(Ticket(trial("one", "nop")), Cancellation())
    assert (trials.spent, found.outcome) == ("the job has spent 5 USD", Outcome.CANCELLED)
    assert _failed(found) == ("budget", "not run: the job has spent 5 USD")


def test_a_trial_whose_process_died_has_what_it_had_written(
    bundle: JobBundle, trials: Trials[Ticket]
) -> None:
    one, other = trial("one", "nop"), trial("other", "nop")
    _ended(bundle, one, outcome=Outcome.FAILED)
    why = Failure(class_="worker", message="it was killed")
    assert trials.lost(one, why).outcome is Outcome.FAILED
    found = trials.lost(other, why)
    assert (found.outcome, found.failure) == (Outcome.ERROR, why)
    assert bundle.find(other) == found
    trials.close()
    (events,) = bundle.layout.events.iterdir()
    said = [json.loads(line) for line in events.read_text().splitlines()]
    assert [each["outcome"] for each in said if "outcome" in each] == ["failed", "error"]


def test_as_many_prepared_trials_are_kept_as_may_start_at_once_and_each_start_makes_room(
    trials: Trials[Ticket],
) -> None:
    flight: Any = Flight()
    tickets = [Ticket(trial(f"s{number}", "nop")) for number in range(5)]
    for ticket in tickets[:4]:
        trials.submit(flight, ticket)
    assert flight.submitted == ["s0", "s1", "s2", "s3"]
    assert list(trials._prepared) == [ticket.node_id for ticket in tickets[:2]]
    found = [trials.fly(ticket, Cancellation()) for ticket in tickets[:4]]
    assert [one.ran_because for one in found] == ["it has never run here"] * 4
    assert trials._prepared == {}
    assert trials._fates == {}
    trials.submit(flight, tickets[4])
    assert list(trials._prepared) == [tickets[4].node_id]
