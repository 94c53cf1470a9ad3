from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.job import JobConfig, JobStatus, Totals
from pytest_benchjobs.model.result import Origin, Outcome, Signature, TrialResult
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.store import listing, reader
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.listing import JOBS, RUNS, Place, Wanted, each, page
from pytest_benchjobs.store.reader import HistoryReader
from pytest_benchjobs.store.rows import EventRow, PairRow

from .records import JOB, NOW, record, result, trial

SECOND = datetime.timedelta(seconds=1)
SIGNED = Signature(value="f" * 32, parts={"scenario": "c1", "image": "i1"})


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History.of(tmp_path) as history:
        yield history


def save(history: History, job_id: str = JOB, *results: TrialResult, **changes: object) -> None:
    history.save_job(record(history.path.parent, id=job_id, **changes))
    history.save_trials(of.model_copy(update={"job": job_id}) for of in results)


def made(name: str = "count", agent: str = "oracle", attempt: int = 1, **changes: object) -> TrialResult:
    return result(trial(name, agent, attempt), **changes)


def origin(job: str = "earlier") -> Origin:
    return Origin(job=job, path="trials/oracle/count/1", finished_at=NOW)


# Jobs


def test_a_running_job_counts_what_has_ended_so_far(history: History, tmp_path: Path) -> None:
    agents = (AgentSpec.parse("oracle"), AgentSpec.parse("codex:gpt-5.5"))
    config = JobConfig(directory=tmp_path, agents=agents)
    save(history, JOB, name="nightly", planned=4, config=config, parent="another")
    (row,) = each(history, JOBS)
    assert (row.ended, row.mean_score, row.cost_usd) == (0, None, None)
    assert row.agents == ("oracle", "codex:gpt-5.5")
    reused = made("b", outcome=Outcome.FAILED, score=0.0, reused=origin(), usage=Usage(cost_usd=7))
    rescored = made("c", outcome=Outcome.ERROR, score=None, rescored=origin(), usage=Usage(cost_usd=7))
    history.save_trials([made("a", usage=Usage(cost_usd=0.5)), reused, rescored])
    history._catch_up()
    row = history.job_row(JOB)
    assert row is not None
    assert (row.name, row.status, row.planned, row.parent) == ("nightly", "running", 4, "another")
    assert (row.ended, row.passed, row.failed, row.error, row.reused) == (3, 1, 1, 1, 1)
    assert (row.mean_score, row.cost_usd) == (0.5, 0.5)
    assert (row.created_at, row.finished_at) == (NOW, None)
    assert (row.agents, row.benchmarks) == (("oracle", "codex:gpt-5.5"), ("texts",))
    save(history, "begun", benchmarks=("one", "two"))
    row = history.job_row("begun")
    assert row is not None
    assert (row.benchmarks, row.ended) == (("one", "two"), 0), "named before any trial has ended"


def test_the_totals_of_a_job_that_has_ended_are_its_own(history: History, tmp_path: Path) -> None:
    save(history, JOB, made("a"), made("b", outcome=Outcome.ERROR, score=None))
    own = Totals(trials=3, passed=2, error=1, mean_score=0.75, reused=1, cost_usd=2.5)
    history.save_job(record(tmp_path, status=JobStatus.FAILED, finished_at=NOW + SECOND, totals=own))
    row = history.job_row(JOB)
    assert row is not None
    expected = (3, 2, 1, 0.75, 1, 2.5)
    assert (row.ended, row.passed, row.error, row.mean_score, row.reused, row.cost_usd) == expected
    assert row.finished_at == NOW + SECOND
    (run,) = history.runs(JOB)
    assert (run.status, run.ended, run.passed, run.error) == ("failed", 2, 1, 1)


def test_a_job_taken_up_again_counts_what_it_had(history: History, tmp_path: Path) -> None:
    save(history, JOB, made("a"), made("b"))
    history.save_job(
        record(tmp_path, status=JobStatus.FAILED, totals=Totals(trials=2, passed=2, mean_score=1.0))
    )
    history.save_job(record(tmp_path, resumed_at=(NOW,)))
    row = history.job_row(JOB)
    assert row is not None
    assert (row.status, row.ended, row.passed) == ("running", 2, 2)


def test_jobs_come_newest_first_by_time_status_and_page(history: History) -> None:
    for number in range(6):
        status = JobStatus.FAILED if number % 3 == 0 else JobStatus.COMPLETED
        save(history, f"j{number}", created_at=NOW + number * SECOND, status=status)
    save(history, "k5", created_at=NOW + 5 * SECOND, status=JobStatus.TIMEOUT)

    def ids(limit: int | None = None, after: Place | None = None, **wanted: object) -> list[str]:
        filtered = Wanted(**wanted)  # type: ignore[arg-type]
        found = [row.id for row in page(history, JOBS, filtered, limit=limit, after=after).rows]
        if limit is None:
            assert [row.id for row in each(history, JOBS, filtered)] == found
        return found

    assert ids() == ["k5", "j5", "j4", "j3", "j2", "j1", "j0"]
    assert ids(since=NOW + 4 * SECOND) == ["k5", "j5", "j4"]
    vienna = datetime.timezone(datetime.timedelta(hours=1))
    assert ids(since=(NOW + 5 * SECOND).astimezone(vienna)) == ["k5", "j5"]
    assert ids(statuses=("failed", "timeout")) == ["k5", "j3", "j0"]
    assert ids(limit=2, after=((NOW + 5 * SECOND).isoformat(), "k5")) == ["j5", "j4"]
    assert ids(statuses=("failed",), limit=1) == ["j3"]


def test_times_of_another_zone_sort_as_times(history: History) -> None:
    tokyo = datetime.timezone(datetime.timedelta(hours=9))
    save(history, "early", created_at=NOW.astimezone(tokyo))
    save(history, "late", created_at=NOW + SECOND)
    found = [(row.id, row.created_at) for row in each(history, JOBS)]
    assert found == [("late", NOW + SECOND), ("early", NOW)]


def test_each_job_and_each_trial_go_on_while_others_write(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_PAGE", 3)
    monkeypatch.setattr(reader, "_PAGE", 3)
    for number in range(7):
        save(history, f"j{number}", created_at=NOW + number // 2 * SECOND)
    save(history, JOB, *(made(f"s{number}", ("oracle", "nop")[number % 2]) for number in range(7)))
    history.forget(JOB)
    jobs = each(history, JOBS)
    assert next(jobs).id == "j6"
    save(history, "j9", created_at=NOW + 9 * SECOND)
    history.forget("j0")
    assert [row.id for row in jobs] == ["j5", "j4", "j3", "j2", "j1"]
    save(history, JOB, *(made(f"s{number}", ("oracle", "nop")[number % 2]) for number in range(7)))
    trials = history.each_trial(JOB)
    assert next(trials).scenario == "s0"
    history.save_trials([made("s8")])
    assert [row.scenario for row in trials] == ["s2", "s4", "s6", "s8", "s1", "s3", "s5"]


def test_ended_jobs_and_those_with_files(history: History, tmp_path: Path) -> None:
    save(history, "a", status=JobStatus.COMPLETED)
    save(history, "b")
    history.replace_job(record(tmp_path, id="c", status=JobStatus.CANCELLED), [])
    history.connection.execute("UPDATE jobs SET bundled = 0 WHERE id = 'c'")
    assert history.ended_jobs() == {"a", "c"}
    assert history.job_ids() == {"a", "b"}


# Runs


def test_runs_are_numbered_as_they_first_appear_and_summed_up(history: History, tmp_path: Path) -> None:
    groq = AgentSpec(name="codex", model="llama", provider="groq")
    usage = Usage(input_tokens=5, output_tokens=2, cached_tokens=1, cost_usd=0.5)
    save(
        history,
        JOB,
        made("a", usage=usage, benchmark_version="1.0"),
        result(trial("a").model_copy(update={"agent": groq, "node_id": "x::a[groq]"}), score=0.5),
        made(
            "b", reused=origin(), seconds=100.0, started_at=NOW - 1000 * SECOND,
            usage=Usage(input_tokens=9, cost_usd=9),
        ),
        made(
            "c", rescored=origin(), seconds=3.0, score=None, outcome=Outcome.ERROR,
            usage=Usage(input_tokens=9, cost_usd=9),
        ),
        name="nightly",
    )  # fmt: skip
    first, second = history.runs(JOB)
    expected = (f"{JOB}.1", JOB, "nightly", "texts", "1.0")
    assert (first.id, first.job, first.job_name, first.benchmark, first.benchmark_version) == expected
    assert (first.agent, first.provider, first.model, first.status) == ("oracle", None, None, "running")
    assert (first.ended, first.passed, first.error, first.reused, first.mean_score) == (3, 2, 1, 1, 1.0)
    # What was reused took nothing here; what was rescored took time.
    assert (first.cost_usd, first.input_tokens, first.output_tokens, first.cached_tokens) == (0.5, 5, 2, 1)
    assert (first.seconds, first.started_at, first.finished_at) == (5.0, NOW, None)
    assert (second.id, second.agent, second.provider, second.model, second.mean_score) == (
        f"{JOB}.2", "codex:groq/llama", "groq", "llama", 0.5,
    )  # fmt: skip
    assert second.cost_usd is None
    history.save_job(record(tmp_path, status=JobStatus.COMPLETED, finished_at=NOW + 9 * SECOND))
    found = [(run.status, run.finished_at) for run in history.runs(JOB)]
    assert found == [("completed", NOW + 2 * SECOND)] * 2


def test_a_run_of_nothing_but_reused_trials_has_the_times_of_its_job(
    history: History, tmp_path: Path
) -> None:
    ended = {"status": JobStatus.COMPLETED, "finished_at": NOW + SECOND}
    save(history, JOB, made("a", reused=origin(), started_at=NOW - 1000 * SECOND), **ended)
    history.save_job(record(tmp_path, **ended))
    (run,) = history.runs(JOB)
    assert (run.started_at, run.finished_at, run.seconds) == (NOW, NOW + SECOND, 0.0)


def test_sums_may_rest_while_a_job_runs_and_are_exact_when_it_ends(history: History, tmp_path: Path) -> None:
    save(history, JOB, made("a"))
    history._rest_until = float("inf")
    history.save_trials([made("b"), made("c", "nop")])
    assert [run.ended for run in history.runs(JOB)] == [1, 0]
    history.save_job(record(tmp_path, status=JobStatus.COMPLETED))
    assert {run.agent: run.ended for run in history.runs(JOB)} == {"oracle": 2, "nop": 1}
    save(history, "other")
    history.save_trials([made("a", job="other")])
    assert history.runs("other")[0].ended == 0
    history.close()
    with HistoryReader.of(tmp_path) as reader:
        assert reader.runs("other")[0].ended == 1


def test_runs_are_numbered_by_time_once_a_job_has_ended_and_when_it_is_read_anew(
    history: History, tmp_path: Path
) -> None:
    agents = ("codex:m", "nop", "oracle")
    trials = [
        made("a", agent, started_at=NOW + later * SECOND)
        for agent, later in zip(agents, (2, 3, 1), strict=True)
    ]
    save(history, JOB, *trials)
    assert [run.agent for run in history.runs(JOB)] == ["codex:m", "nop", "oracle"]
    ended = record(tmp_path, status=JobStatus.COMPLETED)
    history.save_job(ended)

    def numbered() -> list[tuple[str, str]]:
        runs = [(run.agent, run.id) for run in history.runs(JOB)]
        assert [(row.agent, row.run) for row in history.trials(JOB)] == runs
        return runs

    assert numbered() == [("oracle", f"{JOB}.1"), ("codex:m", f"{JOB}.2"), ("nop", f"{JOB}.3")]
    assert history.replace_job(ended, reversed(trials)) == 3
    assert numbered() == [("oracle", f"{JOB}.1"), ("codex:m", f"{JOB}.2"), ("nop", f"{JOB}.3")]
    assert history.replace_job(ended, [trials[1], made("b", "command:x", started_at=NOW)]) == 2
    assert numbered() == [(AgentSpec.parse("command:x").label, f"{JOB}.1"), ("nop", f"{JOB}.2")]


def many_runs(history: History) -> None:
    for number, job_id in enumerate(("j1", "j2", "j3")):
        status = JobStatus.FAILED if number else JobStatus.COMPLETED
        said = {"status": status, "name": ("x", None, "y")[number]}
        trials = [made("a", f"command:{n}", score=n / 20, seconds=float(20 - n)) for n in range(12)]
        save(history, job_id, *trials, made("a", "nop", outcome=Outcome.ERROR, score=None), **said)
        history.save_job(record(history.path.parent, id=job_id, **said))


def test_runs_are_sorted_by_any_column_with_the_unknown_last(history: History) -> None:
    many_runs(history)
    everything = [run for job_id in ("j1", "j2", "j3") for run in history.runs(job_id)]
    assert [run.id for run in everything[8:13]] == ["j1.9", "j1.10", "j1.11", "j1.12", "j1.13"]
    by_agent = sorted(everything, key=lambda run: run.agent)
    assert ids(history, sort="agent") == [run.id for run in by_agent]
    for column in RUNS.sorts:
        for descending in (False, True):
            rows = page(history, RUNS, sort=column, descending=descending).rows
            assert {row.id for row in rows} == {row.id for row in everything}
            values = [getattr(row, column, None) for row in rows]
            known = [value for value in values if value is not None]
            assert values[: len(known)] == known, column
            if column != "id":
                assert known == sorted(known, reverse=descending), column
    assert ids(history)[:13] == [f"j1.{number}" for number in range(1, 14)]
    assert ids(history, descending=True) == ids(history)[::-1]
    for kind in (JOBS, RUNS):
        with pytest.raises(InputError, match=rf"{kind.table} cannot be sorted by 'nope'; choose one of id, "):
            page(history, kind, sort="nope")


def ids(
    history: History, sort: str = "id", limit: int | None = None, *, descending: bool = False, after: Place | None = None,
    **wanted: tuple[str, ...],
) -> list[str]:  # fmt: skip
    """Ids of runs, the oldest first."""
    rows = page(
        history, RUNS, Wanted(**wanted), sort=sort, descending=descending, limit=limit, after=after  # type: ignore[arg-type]
    ).rows  # fmt: skip
    return [run.id for run in rows]


def test_runs_are_filtered_and_paged(history: History) -> None:
    many_runs(history)
    save(history, "j4", made("a", benchmark="numbers"))
    assert ids(history, jobs=("j2",), limit=2, after=(None, "j2", 3)) == ["j2.4", "j2.5"]
    assert ids(history, agents=("nop",)) == ["j1.13", "j2.13", "j3.13"]
    assert ids(history, benchmarks=("numbers",)) == ["j4.1"]
    assert len(ids(history, statuses=("failed", "running"))) == 27
    assert ids(history, statuses=("completed",), agents=("nop",)) == ["j1.13"]


# Trials


def test_trials_are_filtered(history: History) -> None:
    outcomes = (Outcome.PASSED, Outcome.FAILED, Outcome.ERROR)
    for job_id in (JOB, "other"):
        save(
            history,
            job_id,
            *(made(f"s{n // 2}", ("oracle", "nop")[n % 2], outcome=outcomes[n % 3]) for n in range(8)),
        )

    def names(**question: object) -> list[str]:
        return [f"{row.scenario}-{row.agent}" for row in history.each_trial(JOB, **question)]  # type: ignore[arg-type]

    assert names() == [f"s{n}-oracle" for n in range(4)] + [f"s{n}-nop" for n in range(4)]
    assert names(run=f"{JOB}.2") == [f"s{n}-nop" for n in range(4)]
    assert names(agent="oracle") == [f"s{n}-oracle" for n in range(4)]
    assert names(scenario="s3") == ["s3-oracle", "s3-nop"]
    assert names(scenario=trial("s3", "nop").node_id) == ["s3-nop"]
    assert names(outcomes=("error",)) == ["s1-oracle", "s2-nop"]
    assert names(outcomes=("error", "failed"), run=f"{JOB}.1") == ["s1-oracle", "s2-oracle"]
    for run in ("other.1", JOB, f"{JOB}.x", f"{JOB}.99999999999999999999999", ""):
        assert names(run=run) == []


def test_a_row_of_a_trial_says_where_it_came_from(history: History) -> None:
    spec = AgentSpec(name="codex", model="llama", provider="groq")
    usage = Usage(input_tokens=1, output_tokens=2, cached_tokens=3, reasoning_tokens=4, cost_usd=0.5)
    save(
        history,
        JOB,
        made("a", signature=SIGNED, reused=origin("r"), usage=usage, kept="benchjobs-kept:x"),
        result(trial("b").model_copy(update={"agent": spec}), rescored=origin("o")),
    )
    first, second = history.trials(JOB)
    expected = ("f" * 32, "r", None, "benchjobs-kept:x")
    assert (first.signature, first.reused, first.rescored, first.kept) == expected
    assert (first.cached_tokens, first.reasoning_tokens, first.run) == (3, 4, f"{JOB}.1")
    assert (second.provider, second.reused, second.rescored, second.run) == ("groq", None, "o", f"{JOB}.2")


def test_pairs_hold_what_comparing_needs(history: History) -> None:
    reused = made("b", attempt=2, outcome=Outcome.FAILED, score=None, reused=origin("r"))
    save(history, JOB, made("a", signature=SIGNED), reused)
    none, why, ids = (None,) * 3, SIGNED.comparable, {"a": trial("a").node_id, "b": reused.node_id}
    expected = [
        PairRow("texts", "a", "oracle", 1, "passed", 1.0, None, 2.0, *none, why, None, *none, None),
        PairRow("texts", "b", "oracle", 2, "failed", None, None, 2.0, *none, None, "r", *none, None),
    ]
    assert history.paired_rows(JOB) == [row._replace(node_id=ids[row.scenario]) for row in expected]


def test_samples_are_what_ran_for_real_the_newest_first(history: History) -> None:
    signed = {"signature": SIGNED}
    save(history, "a", made(**signed, finished_at=NOW + 2 * SECOND))
    save(history, "b", made(**signed, finished_at=NOW + 3 * SECOND, outcome=Outcome.ERROR, score=None))
    save(history, "c", made(**signed, finished_at=NOW + 9 * SECOND, reused=origin("a")))
    save(history, "d", made(**signed, finished_at=NOW + 5 * SECOND, rescored=origin("a")))
    save(history, "e", made(attempt=2, **signed), made("unsigned"))
    expected = [("d", "passed"), ("b", "error"), ("a", "passed")]
    assert [(row.job, row.outcome) for row in history.samples("f" * 32, 1)] == expected
    assert [row.job for row in history.samples("f" * 32, 2)] == ["e"]
    assert history.samples("0" * 32, 1) == []


def test_the_latest_is_the_newest_that_ran_whatever_its_signature(history: History) -> None:
    save(history, "a", made(signature=SIGNED, finished_at=NOW + 3 * SECOND))
    save(history, "b", made(finished_at=NOW + 2 * SECOND))
    save(history, "c", made(finished_at=NOW + 9 * SECOND, reused=origin("a")))
    latest = history.latest("texts", "count", "oracle", 1)
    assert latest is not None
    assert (latest.job, latest.signature) == ("a", "f" * 32)
    for question in (("x", "count", "oracle", 1), ("texts", "x", "oracle", 1), ("texts", "count", "x", 1)):
        assert history.latest(*question) is None
    assert history.latest("texts", "count", "oracle", 2) is None


def test_scenarios_know_when_they_were_seen_and_their_latest_content(history: History) -> None:
    newer = SIGNED.model_copy(update={"parts": {"scenario": "c2"}})
    later = {"started_at": NOW + 10 * SECOND, "finished_at": NOW + 12 * SECOND}
    save(history, "a", made(signature=newer, **later))
    save(
        history, "b", made(signature=SIGNED), made(attempt=2, reused=origin(), finished_at=NOW + 99 * SECOND)
    )
    rows = history.connection.execute("SELECT * FROM scenarios").fetchall()
    assert rows == [("texts", "count", NOW.isoformat(), (NOW + 12 * SECOND).isoformat(), "c2")]


def test_events_are_the_life_of_a_job(history: History) -> None:
    save(history)
    history.add_event(JOB, "created", "process 1", NOW)
    history.add_event(JOB, "resumed", "process\x1b[31m 2", NOW + SECOND)
    save(history)
    expected = [EventRow(NOW, "created", "process 1"), EventRow(NOW + SECOND, "resumed", "process 2")]
    assert history.events(JOB) == expected
    history.forget(JOB)
    assert history.events(JOB) == []


# Indexes


FAILED = ("failed", "timeout")
FEW = ("runs --job", "list --status a,b", "list --days --status", "runs --status")
"""Sorting what is asked for is no matter here."""


def questions(history: History) -> list[tuple[str, Callable[[], object]]]:
    asked: list[tuple[str, Callable[[], object]]] = [
        ("list", lambda: page(history, JOBS, limit=50)),
        ("list --status", lambda: page(history, JOBS, Wanted(statuses=FAILED[:1]), limit=50)),
        ("list --status a,b", lambda: page(history, JOBS, Wanted(statuses=FAILED), limit=50)),
        ("list --days", lambda: page(history, JOBS, Wanted(since=NOW), limit=50)),
        ("list --days --status", lambda: page(history, JOBS, Wanted(since=NOW, statuses=FAILED), limit=50)),
        ("each job", lambda: list(each(history, JOBS))),
        ("job", lambda: history.job_row(JOB)),
        ("runs of a job", lambda: history.runs(JOB)),
        ("runs --job", lambda: page(history, RUNS, Wanted(jobs=(JOB,)), sort="agent")),
        ("runs --benchmark", lambda: page(history, RUNS, Wanted(benchmarks=("texts",)), sort="agent")),
        ("runs --agent", lambda: page(history, RUNS, Wanted(agents=("oracle",)), sort="agent")),
        ("runs --status", lambda: page(history, RUNS, Wanted(statuses=FAILED), sort="agent")),
        ("trials", lambda: history.trials(JOB)),
        ("trials of a scenario", lambda: history.trials(JOB, scenario="count")),
        ("each trial", lambda: list(history.each_trial(JOB))),
        ("each trial of a run", lambda: list(history.each_trial(JOB, run=f"{JOB}.1"))),
        (
            "each trial of an agent",
            lambda: list(history.each_trial(JOB, agent="oracle", outcomes=("failed",))),
        ),
        ("was kept", lambda: history.was_kept("count")),
        ("trial", lambda: history.trial(JOB, trial().node_id)),
        ("scores", lambda: history.scores(JOB, trial().node_id)),
        ("samples", lambda: history.samples("f" * 32, 1)),
        ("latest", lambda: history.latest("texts", "count", "oracle", 1)),
        ("pairs", lambda: history.paired_rows(JOB)),
        ("events", lambda: history.events(JOB)),
        ("newest", lambda: history.newest(3)),
        ("named", lambda: history.named("nightly")),
        ("prefix", lambda: history.beginning_with("2026", 6)),
    ]
    asked += [
        (f"runs --sort {name}", functools.partial(page, history, RUNS, sort=name, descending=descending))
        for name in RUNS.sorts
        if name not in ("high_score", "delta")  # by values that no index has
        for descending in (False, True)
    ]
    return asked


def test_no_question_of_a_page_looks_at_a_whole_table(history: History) -> None:
    save(history, JOB, made("a", signature=SIGNED))
    seen: list[str] = []
    for name, ask in questions(history):
        seen.clear()
        history.connection.set_trace_callback(seen.append)
        ask()
        history.connection.set_trace_callback(None)
        assert seen, name
        for query in seen:
            plan = [row[3] for row in history.connection.execute(f"EXPLAIN QUERY PLAN {query}")]
            for step in plan:
                # A scan in the order of an index stops at the end of the page.
                if re.fullmatch(r"SCAN (\d+ )?CONSTANT ROWS?|SCAN wanted", step):
                    continue
                ordered = re.search(r"\bSCAN (jobs|runs) USING (COVERING )?INDEX", step) or (
                    step == "SCAN runs" and "ORDER BY job" in query
                )
                assert ordered or not re.search(r"\bSCAN\b", step), f"{name}: {plan}: {query}"
            if "LIMIT" in query and name not in FEW and "IS NULL" not in query:  # which are few
                assert not any("TEMP B-TREE FOR ORDER BY" in step for step in plan), (
                    f"{name}: {plan}: {query}"
                )


def test_what_was_kept_is_known_by_scenario_and_by_node_id(history: History) -> None:
    save(history, JOB, made("a", kept="image"), made("b"))
    asked = ("a", made("a").node_id, "b", made("b").node_id, "c")
    assert [history.was_kept(trial) for trial in asked] == [True, True, False, False, False]


def test_each_run_comes_page_by_page_over_all_jobs(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    many_runs(history)
    monkeypatch.setattr(listing, "_PAGE", 5)
    expected = [f"{job}.{number}" for job in ("j1", "j2", "j3") for number in range(1, 14)]

    def each_run(**wanted: tuple[str, ...]) -> list[str]:
        filtered = Wanted(**wanted)  # type: ignore[arg-type]
        return [run.id for run in each(history, RUNS, filtered, sort="id", descending=False)]

    assert each_run() == expected
    assert each_run(jobs=("j2",)) == expected[13:26]
    assert each_run(agents=("nop",)) == ["j1.13", "j2.13", "j3.13"]
    assert each_run(statuses=("completed",)) == expected[:13]
    assert each_run(benchmarks=("numbers",)) == []
    # A page that is full to the last row is not the end.
    monkeypatch.setattr(listing, "_PAGE", 13)
    assert len(each_run(jobs=("j1",))) == 13
    assert each_run() == expected


def test_completed_jobs_come_page_by_page_the_newest_first(
    history: History, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(reader, "_RECORDS", 2)
    for number in range(7):
        status = JobStatus.FAILED if number == 3 else JobStatus.COMPLETED
        # Pairs began at the same moment.
        save(history, f"j{number}", status=status, created_at=NOW + number // 2 * SECOND)
        save(history, f"j{number}", made(), status=status, created_at=NOW + number // 2 * SECOND)
    assert [job.id for job in history.completed()] == ["j6", "j5", "j4", "j2", "j1", "j0"]
    assert [*history.completed("main")] == []


def test_completed_jobs_of_a_branch_are_those_that_ran_on_it(history: History, tmp_path: Path) -> None:
    for number, branch in enumerate(("main", "other", "main", None)):
        git = None if branch is None else {"commit": "c" * 40, "branch": branch}
        save(
            history, f"j{number}", status=JobStatus.COMPLETED, created_at=NOW + number * SECOND,
            reproducibility={"git": git},
        )  # fmt: skip
    assert [job.id for job in history.completed("main")] == ["j2", "j0"]
    assert [job.id for job in history.completed("none")] == []
    assert len([*history.completed()]) == 4


def test_jobs_are_found_by_age_by_name_and_by_the_beginning_of_their_id(history: History) -> None:
    assert history.newest() is None
    for number, job_id in enumerate(("2026-a", "2026-b", "2027-a")):
        save(history, job_id, created_at=NOW - number * SECOND, name="nightly" if number else None)
    assert [history.newest(back) for back in range(4)] == ["2026-a", "2026-b", "2027-a", None]
    assert history.named("nightly") == "2026-b"
    assert history.named("other") is None
    assert history.beginning_with("2026", 9) == ["2026-b", "2026-a"]
    assert history.beginning_with("2026", 1) == ["2026-b"]
    assert history.beginning_with("", 9) == ["2027-a", "2026-b", "2026-a"]
    assert history.beginning_with("2028", 9) == history.beginning_with("2026_", 9) == []


def test_durations_are_those_of_trials_that_ran_here_and_were_graded(history: History) -> None:
    save(
        history, JOB, made("a", seconds=1.0), made("b", seconds=2.0, outcome=Outcome.FAILED),
        made("c", seconds=4.0, outcome=Outcome.ERROR), made("d", seconds=8.0, reused=origin()),
        made("a", "nop", seconds=16.0), made("b", "nop", seconds=20.0), made("c", "nop", seconds=90.0),
    )  # fmt: skip
    found = {run: sorted(seconds) for run, seconds in history.durations(JOB).items()}
    assert found == {f"{JOB}.1": [1.0, 2.0], f"{JOB}.2": [16.0, 20.0, 90.0]}
    assert [run.median_seconds for run in history.runs(JOB)] == [1.5, 20.0]
    assert history.durations("other") == {}
