from __future__ import annotations

from pathlib import Path

import pytest

from pytest_benchjobs.analysis.live import Live
from pytest_benchjobs.model.event import Ended, PhaseBegan, Planned
from pytest_benchjobs.model.result import Origin, Outcome
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.store.events import EventLog, EventReader
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.layout import JobLayout

from .records import JOB, NOW, record, result, trial


def planned(**agents: int) -> Planned:
    return Planned(at=0.0, agents=agents)


def phase(scenario: str, name: str, at: float, agent: str = "oracle") -> PhaseBegan:
    return PhaseBegan(
        at=at, node_id=f"a::{scenario}[{agent}]", scenario=scenario, agent=agent, attempt=1, phase=name
    )


def ended(scenario: str, at: float = 0.0, agent: str = "oracle", **changes: object) -> Ended:
    values: dict[str, object] = {
        "at": at, "node_id": f"a::{scenario}[{agent}]", "scenario": scenario, "agent": agent, "attempt": 1,
        "outcome": Outcome.PASSED, "score": 1.0, "seconds": 10.0, "class_": None, "cost_usd": None,
        "reused": False,
    }  # fmt: skip
    return Ended.model_validate({**values, **changes})


def live(*events: Planned | PhaseBegan | Ended) -> Live:
    found = Live()
    for event in events:
        found.take(event)
    return found


def test_agents_are_in_the_order_of_the_job_whichever_ends_first() -> None:
    found = Live(["oracle", "idle", "nop"])
    for event in (ended("a", agent="nop"), ended("a", agent="unknown"), ended("a")):
        found.take(event)
    assert list(found.agents) == ["oracle", "nop", "unknown"]


def test_trials_are_counted_by_agent_and_together() -> None:
    found = live(
        planned(oracle=3, nop=2),
        ended("a"),
        ended("b", outcome=Outcome.ERROR, score=None, class_="engine_lost"),
        ended("a", agent="nop", outcome=Outcome.FAILED, score=0.25),
    )
    assert list(found.agents) == ["oracle", "nop"]
    oracle, nop = found.agents.values()
    assert (oracle.planned, oracle.done, oracle.of(Outcome.PASSED), oracle.of(Outcome.ERROR)) == (3, 2, 1, 1)
    assert (nop.planned, nop.done, nop.of(Outcome.FAILED), nop.mean_score) == (2, 1, 1, 0.25)
    assert (found.all.planned, found.all.done, found.all.mean_score) == (5, 3, 0.625)
    assert live(ended("a", outcome=Outcome.ERROR, score=None)).all.mean_score is None


def test_what_is_unknown_is_none_until_something_is_known() -> None:
    found = live(ended("a"))
    assert (found.all.cost_usd, found.all.input_tokens, found.all.output_tokens) == (None, None, None)
    found.take(ended("b", cost_usd=0.0, input_tokens=5))
    found.take(ended("c", cost_usd=0.5, input_tokens=7))
    found.take(ended("d"))
    assert (found.all.cost_usd, found.all.input_tokens, found.all.output_tokens) == (0.5, 12, None)


def test_a_trial_flies_from_its_first_phase_until_it_ends() -> None:
    found = live(phase("a", "prepare", 1.0), phase("b", "prepare", 2.0), phase("a", "agent", 4.0))
    assert [(trial.scenario, trial.phase, trial.started, trial.since) for trial in found.flying.values()] == [
        ("a", "agent", 1.0, 4.0),
        ("b", "prepare", 2.0, 2.0),
    ]
    assert found.take(ended("a", 5.0))
    assert [trial.scenario for trial in found.flying.values()] == ["b"]


def test_a_trial_ends_once_and_flies_no_more() -> None:
    found = live(ended("a", 3.0), phase("a", "remove", 2.0))
    assert not found.take(ended("a", outcome=Outcome.FAILED, score=0.0))
    assert (found.all.done, found.all.of(Outcome.PASSED), len(found.lately), found.flying) == (1, 1, 1, {})


def test_a_trial_that_runs_again_counts_as_it_ended_last() -> None:
    found = live(
        planned(oracle=2),
        phase("a", "agent", 1.0),
        ended("a", 2.0, outcome=Outcome.FAILED, score=0.5, cost_usd=1.0),
        ended("b", 2.0, cost_usd=0.25),
        phase("a", "agent", 3.0),
    )
    assert [trial.scenario for trial in found.flying.values()] == ["a"]
    assert found.take(ended("a", 4.0, cost_usd=2.0))
    for tally in (found.all, found.agents["oracle"]):
        assert (tally.done, tally.of(Outcome.PASSED), tally.of(Outcome.FAILED)) == (2, 2, 0)
        assert (tally.mean_score, tally.cost_usd) == (1.0, 2.25)
    assert found.flying == {}


def test_nobody_knows_the_end_before_two_trials_have_landed() -> None:
    found = live(planned(oracle=4), phase("a", "agent", 0.0))
    assert found.seconds_left(10.0) is None
    found.take(ended("a", 10.0))
    assert found.seconds_left(10.0) is None
    found.take(phase("b", "agent", 10.0))
    found.take(ended("b", 20.0))
    # One trial of ten seconds after the other: one is queued behind another.
    assert found.seconds_left(20.0) == pytest.approx(2 * 10.0 + 10.0)


def test_nobody_knows_the_end_of_a_job_of_unknown_size() -> None:
    assert live(phase("a", "x", 0.0), ended("a", 1.0), ended("b", 2.0)).seconds_left(3.0) is None


def test_the_end_is_near_when_the_youngest_trial_is_old() -> None:
    found = live(planned(oracle=4), *(phase(name, "agent", 0.0) for name in "abc"))
    found.take(ended("a", 10.0))
    found.take(ended("b", 10.0))
    found.take(phase("d", "agent", 10.0))
    assert found.seconds_left(14.0) == pytest.approx(6.0)


def test_reused_trials_say_nothing_of_how_fast_trials_land() -> None:
    found = live(planned(oracle=20), phase("a", "agent", 0.0))
    for number in range(5):
        found.take(ended(f"r{number}", 0.1, reused=True, seconds=0.0))
        found.take(ended(f"k{number}", 0.1, before=True, seconds=0.0))
    assert found.seconds_left(1.0) is None
    assert (found.all.done, found.all.reused, found.all.before) == (10, 5, 5)


def test_a_job_is_over_when_all_trials_are() -> None:
    assert live(planned(oracle=1), ended("a")).seconds_left(99.0) == 0.0


def test_results_complete_what_the_events_did_not_tell(tmp_path: Path) -> None:
    hostile = trial("b", file="a\x1b[31mb.bench.yaml")
    with History.of(tmp_path) as history:
        history.save_job(record(tmp_path))
        origin = Origin(job="earlier", path="trials/x", finished_at=NOW)
        history.save_trials(
            [
                result(usage=Usage(cost_usd=1.0)),
                result(hostile),
                result(trial("c"), reused=origin, usage=Usage(cost_usd=5.0, input_tokens=3)),
                result(trial("d"), rescored=origin, usage=Usage(cost_usd=7.0)),
            ]
        )
        rows = history.trials(JOB)
    log = EventLog(tmp_path)
    log.phase(trial("c"), "agent")
    log.ended(result(hostile), now=True)
    log.close()
    found = Live()
    for event in EventReader(tmp_path).poll():
        found.take(event)
    missed = found.close(rows)
    assert [event.scenario for event in missed] == ["count", "c", "d"]
    assert (found.all.done, found.all.reused, found.all.cost_usd, found.flying) == (4, 1, 1.0, {})
    assert found.close(rows) == []


def test_events_tell_reused_trials_from_those_that_had_ended_before(tmp_path: Path) -> None:
    origin = Origin(job="earlier", path="trials/x", finished_at=NOW)
    spent = Usage(cost_usd=2.0, input_tokens=10, output_tokens=1)
    log = EventLog(tmp_path)
    log.ended(result(trial("now"), usage=spent), now=True)
    log.ended(result(trial("before"), usage=spent), now=False)
    log.ended(result(trial("reused"), usage=spent, reused=origin), now=False)
    log.ended(result(trial("again"), usage=spent, rescored=origin), now=True)
    log.close()
    events = [event for event in EventReader(tmp_path).poll() if isinstance(event, Ended)]
    told = {e.scenario: (e.reused, e.before, e.seconds, e.cost_usd, e.input_tokens) for e in events}
    assert told == {
        "now": (False, False, 2.0, 2.0, 10),
        "before": (False, True, 0.0, 2.0, 10),
        "reused": (True, False, 0.0, None, None),
        "again": (False, False, 2.0, None, None),
    }


def test_events_come_in_parts_of_bounded_size_and_all_of_them(tmp_path: Path) -> None:
    log = EventLog(tmp_path)
    for number in range(12_000):
        log.ended(result(trial(f"scenario-{number}")), now=True)
    log.close()
    (file,) = JobLayout(tmp_path).events.iterdir()
    assert file.stat().st_size > 2 << 20
    reader = EventReader(tmp_path)
    sizes, scenarios = [], []
    for batch in reader.batches():
        sizes.append(len(batch))
        scenarios += [event.scenario for event in batch if isinstance(event, Ended)]
    assert len(sizes) > 2
    assert max(sizes) < 6000
    assert scenarios == [f"scenario-{number}" for number in range(12_000)]
    assert reader.poll() == []


def test_half_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    log = EventLog(tmp_path)
    log.planned({"oracle": 1})
    log.close()
    (file,) = JobLayout(tmp_path).events.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"event": "future", "at": 1}\nnonsense\n' + whole[:10])
    reader = EventReader(tmp_path)
    assert [type(event) for event in reader.poll()] == [Planned]
    with file.open("ab") as more:
        more.write(whole[10:])
    assert [type(event) for event in reader.poll()] == [Planned]


def test_a_file_that_goes_while_it_is_read_hides_none_of_the_others(tmp_path: Path) -> None:
    log = EventLog(tmp_path)
    log.planned({"oracle": 1})
    log.close()
    directory = JobLayout(tmp_path).events
    (directory / "0.jsonl").symlink_to(tmp_path / "gone")
    assert [type(event) for event in EventReader(tmp_path).poll()] == [Planned]


def test_a_job_that_ends_while_its_events_are_listed_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "glob", gone)
    assert EventReader(tmp_path).poll() == []
