"""What is asked of a gate, on the command line and in files; a job that is not whole; publishing; what is kept and shown."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.analysis import sides
from pytest_benchjobs.analysis.baseline.resolve import Resolved
from pytest_benchjobs.analysis.gate.job import broken_gate, judge_job
from pytest_benchjobs.analysis.publish import CODES, reasons_against, with_publishing
from pytest_benchjobs.analysis.sides import side
from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.gate import (
    Absence,
    Change,
    GateConfig,
    GateExit,
    GatePolicy,
    GateReport,
    Rule,
    ScenarioRef,
)
from pytest_benchjobs.model.job import JobConfig, JobRecord, JobStatus
from pytest_benchjobs.model.known_failure import Known, KnownMode
from pytest_benchjobs.report.gate_text import gate_lines, terminal_lines
from pytest_benchjobs.settings.gates import gate_config
from pytest_benchjobs.store.gates import keep_gate, kept_gates
from pytest_benchjobs.store.layout import JobLayout
from pytest_benchjobs.store.rows import PairRow

from .gates import change, gate_report, rule_report
from .records import record as any_record
from .records import result

AT = datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC)
HOSTILE = "x\x1b[31m\n::error::\u202e" + "y" * 50_000


def record(status: JobStatus = JobStatus.COMPLETED, **changes: Any) -> JobRecord:
    clean = {"git": {"commit": "c0ffee", "branch": "main", "dirty": False}}
    return any_record(
        Path("reports"), **{"status": status, "planned": 10, "reproducibility": clean, **changes}
    )


def rows(scores: list[float | None], agent: str = "codex", benchmark: str = "b") -> list[PairRow]:
    """A trial for each score; None is an error."""
    outcomes = {None: "error", 1.0: "passed"}
    return [
        PairRow(
            benchmark, f"s{place}", agent, 1, outcomes.get(score, "failed"), score, None, 1.0, None, None, None,
            "same", None, None, None, None, None,
        )
        for place, score in enumerate(scores)
    ]  # fmt: skip


def baseline(scores: list[float | None]) -> Resolved:
    return Resolved(side("main", [("before", rows(scores))]), None, ("a note",))


TEN: list[float | None] = [1.0] * 10
ASKED = GateConfig(baseline="main", rules=(Rule(text="mean", metric="mean"),))


def test_sides_that_ran_on_something_else_are_judged_with_a_note() -> None:
    def judged(then: dict[str, Any], **now: Any) -> list[str]:
        before, job = (record(config=JobConfig(directory=Path(), **one)) for one in (then, now))
        old = Resolved(side("main", [("before", rows(TEN))], [before]))
        notes = judge_job(job, rows(TEN), ASKED, old, at=AT).report.notes
        return [note for note in notes if "ran on" in note]

    assert judged({}) == judged({"runtime": "runsc"}, runtime="runsc") == []
    (note,) = judged({}, runtime="runsc", headroom=1.5)
    assert note == "trials ran on docker, runtime runsc, headroom 1.5, those of the baseline on docker"
    (note,) = judged({"headroom": 1}, usual_headroom=3)
    assert note == "trials ran on docker, headroom 3, those of the baseline on docker"
    (note,) = judged({"sandbox": "local"})
    assert note == "trials ran on docker, those of the baseline on local"


# --- what is asked


def test_what_settings_say() -> None:
    config = gate_config(
        {
            "baseline": "main", "min_score": {"*": "60%", "codex*": 0.5},
            "max_error_rate": {"*": 0.1, "b": 0.2}, "min_samples": {"*": 20}, "policy": "strict",
            "exit": "both", "regress_warn": "2pp", "noise": {"b": 0.02}, "require_fresh": True,
        }
    )  # fmt: skip
    assert (config.policy, config.exit, config.warn, config.noise) == (
        GatePolicy.STRICT, GateExit.BOTH, 0.02, {"b": 0.02},
    )  # fmt: skip
    assert (config.max_error_rate, config.min_samples, config.require_fresh) == (0.1, 20, True)
    assert [(rule.metric, rule.amount, rule.only) for rule in config.rules] == [
        ("mean", 0, None),
        ("min_score", 0.6, None),
        ("min_score", 0.5, "codex*"),
        ("max_error_rate", 0.2, "b"),
    ]
    assert gate_config({}) == GateConfig()


def test_what_is_said_afterwards_goes_before_what_was_asked() -> None:
    asked = gate_config({"baseline": "main", "fail_on_regression": ["mean:5pp"], "min_score": {"*": 0.5}})
    assert gate_config({}, base=asked) == asked
    again = gate_config({"fail_on_regression": ["cost:20%"], "min_score": {"*": 0.7}}, base=asked)
    assert again.baseline == "main"
    assert [rule.text for rule in again.rules] == ["cost:20%", "--bench-min-score 0.7"]
    needy = asked.model_copy(update={"require_baseline": True, "first_run": True})
    none = gate_config({"baseline": "none"}, base=needy)
    assert (none.baseline, none.require_baseline, none.first_run) == ("none", False, False)
    # That there was no baseline then does not excuse another one that is not there.
    first = asked.model_copy(update={"first_run": True})
    assert gate_config({"min_score": {"*": 0.7}}, base=first).first_run is True
    assert gate_config({"baseline": "mian"}, base=first).first_run is False
    assert gate_config({"baseline": "mian", "first_run": True}, base=asked).first_run is True
    absent = gate_config({"allow_missing": ["a", "agent=codex:*"]}, base=asked)
    more = gate_config({"allow_missing": ["a", "benchmark=old"]}, base=absent)
    assert [one.text for one in more.allow_missing] == ["a", "agent=codex:*", "benchmark=old"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"fail_on_regression": ["mean"]}, "fail_on_regression: it needs a baseline; * `baseline`"),
        ({"require_baseline": True}, "require_baseline: it needs a baseline"),
        ({"first_run": True}, "first_run: it needs a baseline; * `baseline`"),
        ({"allow_missing": [" "]}, "allow_missing: '' names nothing. Write scenario=ID"),
        ({"allow_missing": ["a\nb"]}, "allow_missing: 'a\\nb' names nothing"),
        ({"allow_missing": ["tag=x"]}, "allow_missing: 'tag=x': unknown key 'tag'; write KEY=PATTERN"),
        ({"allow_missing": ["scenaro=x"]}, "allow_missing: 'scenaro=x': unknown key 'scenaro'; did you mean 'scenario'?"),
        ({"allow_missing": ["agent=c:gpt,scenarios=a"]}, "allow_missing: 'agent=c:gpt,scenarios=a': unknown key 'scenarios'; did you mean 'scenario'?"),
        ({"allow_missing": ["agent="]}, "allow_missing: 'agent=': agent has no value"),
        ({"allow_missing": ["agent=a,agent=b"]}, "allow_missing: 'agent=a,agent=b': agent is given twice"),
        ({"min_samples": {"*": 1.5}}, "min_samples: '1.5' is not a number of scenarios"),
        ({"anchor": "release"}, "anchor: it needs a baseline; name one with `baseline`"),
        ({"regress_warn": 2}, "regress_warn: '2' is not a number of points"),
        ({"noise": {"b": "-1pp"}}, "noise: '-1pp' is not a number of points"),
        ({"policy": "x"}, "policy: 'x' is none of evidence, shown, strict, point"),
    ],
)  # fmt: skip
def test_mistakes(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        gate_config(values)
    parts = message.split(" * ")
    assert str(raised.value).startswith(parts[0])
    assert all(part in str(raised.value) for part in parts)


# --- a job


def test_a_whole_job_and_one_of_a_part() -> None:
    judged = judge_job(record(), rows(TEN), ASKED, baseline(TEN), at=AT)
    assert (judged.status, judged.report.verdict, judged.report.notes[0]) == (0, "ok", "a note")
    less = judge_job(record(planned=7), rows(TEN[:7]), ASKED, baseline(TEN), at=AT)
    assert [ref.scenario for ref in less.report.removed] == ["s7", "s8", "s9"]
    assert (less.status, less.report.verdict) == (12, "invalid")
    assert less.report.why == (
        "invalid: the job did not run 3 of 10 scenarios (b/s7, b/s8, b/s9) of the baseline. If this is intended, "
        "give --bench-allow-missing scenario=s7, or set a new baseline"
    )
    part = judge_job(record(planned=7, partial=True), rows(TEN[:7]), ASKED, baseline(TEN), at=AT)
    assert (part.status, part.report.removed) == (0, ())
    assert part.report.notes[-1] == "3 of the baseline's scenarios were not selected"
    # A critical scenario that nobody asked for is not gone.
    strict = GateConfig(baseline="main", rules=(Rule(text="c", metric="critical"),), policy=GatePolicy.STRICT)
    main = Resolved(side("main", [("before", [row._replace(tags='["critical"]') for row in rows(TEN)])]))
    some = [row._replace(tags='["critical"]') for row in rows(TEN[:7])]
    assert judge_job(record(planned=7), some, strict, main, at=AT).status == 12
    absent = strict.model_copy(update={"allow_missing": (Absence(text="s*", scenario="s*"),)})
    assert judge_job(record(planned=7), some, absent, main, at=AT).status == 11
    assert judge_job(record(planned=7, partial=True), some, strict, main, at=AT).status == 0
    # Another benchmark is, unless benchmarks were named; with nothing in common there is nothing to say.
    wide = Resolved(side("main", [("before", [*rows(TEN), *rows(TEN, benchmark="c")])]))
    gone = judge_job(record(), rows(TEN), ASKED, wide, at=AT)
    assert gone.status == 12
    assert gone.report.why.startswith("invalid: the job did not run benchmark c of the baseline. ")
    assert "--bench-allow-missing benchmark=c" in gone.report.why
    other = judge_job(record(named=True), rows(TEN), ASKED, wide, at=AT)
    assert (other.status, other.report.removed) == (0, ())
    assert other.report.notes[-1] == "10 of the baseline's scenarios were not selected"
    assert judge_job(record(partial=True), rows(TEN, benchmark="d"), ASKED, wide, at=AT).status == 12


@pytest.mark.parametrize(
    ("unselected", "scenarios", "status", "note"),
    [
        ((), 7, 12, None),  # dropped from the command, or from a settings file
        (("other",), 7, 12, None),
        (("hand",), 7, 0, "agent hand of the baseline: no trial was selected"),
        (("*",), 7, 0, "agent hand of the baseline: no trial was selected"),
        (
            (),
            5,
            0,
            "agent hand of the baseline: no trial was selected",
        ),  # it only has scenarios that nobody ran
    ],
)
def test_agents_that_a_selection_left_out_are_not_missing(
    unselected: tuple[str, ...], scenarios: int, status: int, note: str | None
) -> None:
    by_hand = [row._replace(agent="hand") for row in rows(TEN)[5:]]
    main = Resolved(side("main", [("before", [*rows(TEN), *by_hand])]))
    job = record(planned=scenarios, partial=True, unselected_agents=unselected)
    judged = judge_job(job, rows(TEN[:scenarios]), ASKED, main, at=AT)
    assert judged.status == status
    assert (note is None) or judged.report.notes[-1] == note
    assert judge_job(record(unselected_agents=unselected), rows(TEN), ASKED, main, at=AT).status == 12


@pytest.mark.parametrize(
    ("status", "exit_status"),
    [(JobStatus.CANCELLED, 12), (JobStatus.TIMEOUT, 12), (JobStatus.FAILED, 12), (JobStatus.BUDGET, 13)],
)
def test_a_job_that_is_not_whole_is_invalid(status: JobStatus, exit_status: int) -> None:
    judged = judge_job(record(status, message="why"), rows([0.0] * 8), ASKED, baseline(TEN), at=AT)
    assert (judged.status, judged.report.verdict) == (exit_status, "invalid")
    assert judged.report.why == f"invalid: the job is {status.value}, 2 of 10 trials did not run: why"
    assert judged.report.notes[0].startswith("what ran is regressed: mean 1.00 -> 0.00")
    assert judged.report.notes[-1] == "2 of the baseline's scenarios did not run"
    # More is wrong than money.
    errors = judge_job(record(status), rows([None] * 8), ASKED, baseline(TEN), at=AT)
    assert errors.status == 12
    with pytest.raises(InputError, match="is running"):
        judge_job(record(JobStatus.RUNNING), [], ASKED, None, at=AT)


def test_results_that_are_gone_make_it_invalid() -> None:
    for partial in (False, True):
        judged = judge_job(record(partial=partial), rows(TEN[:1]), ASKED, baseline(TEN), at=AT)
        assert (judged.status, judged.report.verdict) == (12, "invalid")
        assert judged.report.why == "invalid: 9 of the job's 10 results are gone"
    floor = GateConfig(rules=(Rule(text="floor", metric="min_score", amount=0.5),))
    assert judge_job(record(), rows(TEN[:9]), floor, None, at=AT).status == 12
    assert judge_job(record(), rows(TEN), floor, None, at=AT).status == 0


def test_two_tasks_of_one_name_are_not_taken_for_one() -> None:
    other = [row._replace(comparable="other", score=0.0, outcome="failed") for row in rows(TEN[:2])]
    judged = judge_job(record(planned=12), [*rows(TEN), *other], ASKED, baseline(TEN), at=AT)
    why = "invalid: two different tasks in it are called b/s0, as 1 more"
    assert (judged.status, judged.report.why) == (12, why)
    # Another attempt at what changed in between is none.
    later = [row._replace(attempt=2) for row in other]
    assert judge_job(record(planned=12), [*rows(TEN), *later], ASKED, baseline(TEN), at=AT).status == 0
    same = rows(TEN[:2])
    assert judge_job(record(planned=12), [*rows(TEN), *same], ASKED, baseline(TEN), at=AT).status == 0


def test_of_a_job_of_two_agents_one_is_judged() -> None:
    both = [*rows(TEN, agent="a"), *rows([0.0] * 10, agent="b")]
    judged = judge_job(record(planned=20), both, ASKED, baseline(TEN), at=AT, only="b")
    assert (judged.status, [one.agent for one in judged.report.rules]) == (10, ["b"])
    assert judge_job(record(planned=20), both[1:], ASKED, baseline(TEN), at=AT, only="b").status == 12


def test_a_chain_of_small_drops_is_one_against_an_anchor() -> None:
    def baseline(lost: int, name: str) -> Resolved:
        scores: list[float | None] = [0.0] * lost + [1.0] * (40 - lost)
        return Resolved(side(name, [(name, rows(scores))]))

    now = rows([0.0] * 9 + [1.0] * 31)
    config = gate_config(
        {"baseline": "main", "anchor": "release", "fail_on_regression": ["mean:2pp"], "min_score": {"*": 0.1}}
    )
    main, release = baseline(8, "main"), baseline(0, "release")
    alone = judge_job(record(planned=40), now, config.model_copy(update={"anchor": None}), main, at=AT)
    assert (alone.report.verdict, alone.status) == ("inconclusive", 0)
    both = judge_job(record(planned=40), now, config, dataclasses.replace(main, anchor=release), at=AT)
    assert (both.report.verdict, both.status) == ("regressed", 10)
    assert both.report.why.startswith(
        "regressed: since release: mean 1.00 -> 0.78 (-22.5 pp, at 97.5 % no better"
    )
    texts = [rule.rule.text for rule in both.report.rules]
    assert texts == ["mean:2pp", "--bench-min-score 0.1", "mean:2pp since release"]
    assert {rule.rule.alpha for rule in both.report.rules if not rule.rule.floor} == {0.025}
    assert gate_config({"baseline": "none"}, base=config).anchor is None


def test_what_was_taken_over_from_the_baseline_shows_no_change() -> None:
    own = [row._replace(reused="before") if place < 4 else row for place, row in enumerate(rows(TEN))]
    own[9] = own[9]._replace(reused="another")
    judged = judge_job(record(), own, ASKED, baseline(TEN), at=AT)
    assert judged.report.notes[-1] == (
        "4 of 10 results are reused from the baseline: they cannot show a change"
    )


def test_chance_is_what_others_are_measured_by_and_is_not_judged() -> None:
    asked = GateConfig(rules=(Rule(text="lift", metric="min_lift", amount=1.5),))
    chance = rows([0.4] * 10, agent="baseline:random")
    for score, status in ((0.6, 0), (0.5, 10)):
        judged = judge_job(record(), [*rows([score] * 10), *chance], asked, None, at=AT)
        assert (judged.status, len(judged.report.rules)) == (status, 1), judged.report
    errors = rows([None] * 10, agent="baseline:random")
    floor = GateConfig(rules=(Rule(text="floor", metric="min_score", amount=0.5),))
    assert judge_job(record(), [*rows([0.6] * 10), *errors], floor, None, at=AT).status == 0


def test_what_breaks_is_invalid() -> None:
    judged = broken_gate(record(), ASKED, ZeroDivisionError(HOSTILE), at=AT)
    assert (judged.status, judged.report.verdict) == (12, "invalid")
    assert len(judged.report.why) < 700
    assert judged.report.why.isprintable()


# --- publishing


IMAGE = {"reference": "a", "id": "i", "substituted": {"a": "b"}}
ORIGIN = {"job": "j", "path": "p", "finished_at": AT}


def test_every_reason_against_publishing(tmp_path: Path) -> None:
    fine = [result(scenario="s", attempt=attempt, benchmark_version="1") for attempt in (1, 2, 3)]
    judged = judge_job(record(), rows([1.0] * 10), GateConfig(), None, at=AT)
    assert with_publishing(judged, record(), fine, AT.date()).report.publish == ()
    known = Known(mode=KnownMode.EXPECTED_FAIL, reason="r", until=datetime.date(2026, 11, 20), place="f:1")
    bad = [
        result(scenario="a", outcome="error", score=None, known=known),
        result(scenario="b", outcome="skipped", score=None),
        result(scenario="c", image=IMAGE, reused=ORIGIN),
    ]
    unclean = record(JobStatus.CANCELLED, partial=True, reproducibility={})
    reasons = reasons_against(unclean, bad, AT.date())
    assert [reason.code for reason in reasons] == list(CODES)
    refused = with_publishing(judged, unclean, bad, AT.date())
    assert (refused.status, refused.report.verdict) == (12, "invalid")


def test_reasons_against_publishing_say_what_they_are_about() -> None:
    def about(*changes: dict[str, Any], **of_job: Any) -> dict[str, str]:
        results = [
            result(**{"scenario": "s", "attempt": attempt, "benchmark_version": "1", **change})
            for change in changes or ({},)
            for attempt in (1, 2, 3)
        ]
        return {
            reason.code: reason.why.partition(": ")[2]
            for reason in reasons_against(record(**of_job), results, AT.date())
        }

    def known(days: int, place: str | None) -> dict[str, Any]:
        until = AT.date() + datetime.timedelta(days=days)
        return {"known": Known(mode=KnownMode.QUARANTINE, reason="r", until=until, place=place)}

    assert about() == {}
    assert about(known(0, "f:1")) == about({"known": Known(mode=KnownMode.SKIP, reason="r")}) == {}
    assert about(known(-1, "f:1")) == {"expired_known": "f:1"}
    assert about(known(-1, None)) == {"expired_known": "s"}
    assert about({"benchmark_version": None}) == {"no_version": "texts"}
    assert about({"image": IMAGE}) == {"substituted_image": "a"}
    assert about({"reused": ORIGIN}) == {"reused": "texts/s [oracle]"}
    # An attempt that ran is enough.
    assert about({"reused": ORIGIN}, {}) == {}
    assert about({}, {"scenario": "t", "outcome": "cancelled", "score": None}) == {
        "few_attempts": "texts/t [oracle]"
    }
    for git in (None, {"commit": "c", "dirty": None}, {"commit": "c", "dirty": True}, {"dirty": False}):
        assert about(reproducibility={"git": git}) == {"unclean_tree": ""}
    assert about(partial=True) == {"partial": ""}


# --- kept and shown


def hostile_report() -> GateReport:
    where = {"benchmark": HOSTILE, "scenario": HOSTILE, "agent": HOSTILE}
    broke = Change.model_construct(**{**dict(change(critical=True)), **where})
    asked = Rule(text=HOSTILE, metric="mean")
    rule = rule_report(rule=asked, benchmark=HOSTILE, agent=HOSTILE, why=HOSTILE, advice=HOSTILE)
    return gate_report(
        baseline=HOSTILE, baseline_jobs=(HOSTILE,) * 9, why=HOSTILE, rules=(rule,) * 30, broke=(broke,) * 30,
        removed=(ScenarioRef(**where),), notes=(HOSTILE,) * 30,
    )  # fmt: skip


def test_nothing_hostile_reaches_a_terminal_and_lists_are_cut() -> None:
    lines = [line for line, _ in gate_lines(hostile_report())]
    assert all(line.isprintable() for line in lines)
    assert all(len(line) < 4000 for line in lines)
    assert lines.count("  ... and 10 more") == 3
    assert sum(line.startswith("  x") for line in lines) == 20
    shown = [line for line, _ in terminal_lines(hostile_report())]
    assert max(map(len, shown)) == 160
    assert "".join("".join(shown).split()) == "".join("".join(lines).split())
    told = gate_report(rules=(), why=f"{'word ' * 30}`benchjobs db rebuild`")
    assert [line for line, _ in terminal_lines(told)][1] == "  `benchjobs db rebuild`"


def test_the_latest_reports_are_kept_beside_the_job(tmp_path: Path) -> None:
    assert kept_gates(tmp_path) == []
    report = gate_report()
    for number in range(12):
        keep_gate(tmp_path, gate_report(why=str(number)))
    assert [one.why for one in kept_gates(tmp_path)] == [str(number) for number in range(2, 12)]
    JobLayout(tmp_path).gates.write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        kept_gates(tmp_path)
    keep_gate(tmp_path, report)
    assert len(kept_gates(tmp_path)) == 1


# --- what is pooled


def _scores(*jobs: tuple[str, list[PairRow]]) -> list[tuple[float, ...]]:
    return [cell.scores for cell in side("x", jobs).cells.values()]


def test_what_was_taken_over_counts_unless_its_job_is_pooled_as_well() -> None:
    (ran,) = rows([1.0])
    taken = ran._replace(score=0.0, outcome="failed", reused="before")
    assert _scores(("now", [taken])) == [(0.0,)]
    assert _scores(("now", [taken]), ("other", [ran])) == [(0.0, 1.0)]
    assert _scores(("now", [taken]), ("before", [ran])) == [(1.0,)]
    assert _scores(("now", [taken, ran._replace(attempt=2)]), ("before", [ran])) == [(1.0, 1.0)]


def test_each_attempt_counts_for_what_it_is_whatever_the_others_are() -> None:
    (ran,) = rows([1.0])
    ran = ran._replace(seconds=3.0, cost_usd=0.5, input_tokens=5, output_tokens=2)
    kinds = [
        ran._replace(outcome="error", score=None),
        ran._replace(reused="gone"),
        ran._replace(rescored="before", seconds=1.0),
        ran._replace(cost_usd=None, seconds=2.0),
        ran._replace(input_tokens=None, seconds=4.0),
        ran,
    ]
    for turn in range(len(kinds)):
        listed = [*kinds[turn:], *kinds[:turn]]
        (cell,) = side("x", [("now", listed)]).cells.values()
        assert (cell.scores, cell.passed, cell.errors) == ((1.0,) * 5, 5, 1)
        assert sorted(cell.seconds) == [1.0, 2.0, 3.0, 4.0]
        assert (cell.costs, cell.tokens) == ((0.5, 0.5), (7, 7))


def test_attempts_at_another_task_than_the_latest_are_left_out() -> None:
    (ran,) = rows([1.0])
    (other,) = rows([0.0])
    other = other._replace(comparable="other")
    assert _scores(("now", [ran]), ("before", [other])) == [(1.0,)]
    assert _scores(("now", [other]), ("before", [ran])) == [(0.0,)]
    assert _scores(("now", [ran]), ("before", [other._replace(comparable="same")])) == [(1.0, 0.0)]


@pytest.mark.parametrize("outcome", ["passed", "failed", "error"])
@pytest.mark.parametrize("score", [None, 0.25])
@pytest.mark.parametrize("taken", [(None, None), ("r", None), (None, "o"), ("r", "o")])
@pytest.mark.parametrize("spent", [(None, None, None), (0.5, 3, 4), (None, 3, None), (0.0, None, 4)])
def test_a_single_attempt_counts_as_it_does_among_several(
    outcome: str, score: float | None, taken: tuple[str | None, ...], spent: tuple[Any, ...]
) -> None:
    about = (outcome, score, None, 2.0, *spent, "digest", *taken, "strict", '["x", 1]', "c")
    row = PairRow("b", "s", "a", 1, *about, node_id="here/x.bench.yaml::s[a]")
    assert sides._only(row) == sides._cell(row[:3], [row])
    assert (sides._only(row).tags, sides._only(row).file) == (("x", "1"), "here/x.bench.yaml")
