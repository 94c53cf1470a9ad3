"""Metrics of scorers: what counts as one, what it is worth, and where it is kept apart from the score."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.analysis.gate.judge import judge
from pytest_benchjobs.analysis.sides import side
from pytest_benchjobs.model.errors import InfrastructureError, InputError, ScoreInvalid, ScoreMissing
from pytest_benchjobs.model.gate import GateConfig, GateReport
from pytest_benchjobs.model.metric import MOST, Metric, MetricSpec
from pytest_benchjobs.model.result import ScorerResult
from pytest_benchjobs.model.scenario import ScorerSpec
from pytest_benchjobs.scoring.metrics import (
    all_metrics,
    has_own_score,
    measured,
    numbers_among,
    parse_metrics,
    weighed,
)
from pytest_benchjobs.settings.rules import parse_rule
from pytest_benchjobs.sources import open_source
from pytest_benchjobs.store.rows import PairRow, metrics_of, pair_row

from .jobs import documents, ended, make_job, run

JOB, OTHER = "20261121-054712-4f9a2c", "20261121-054712-4f9a2d"
SECONDS = Metric(name="seconds", value=2.5, unit="s", direction="lower")


def spec(**metrics: Mapping[str, Any]) -> ScorerSpec:
    table = {name: MetricSpec.model_validate(one) for name, one in metrics.items()}
    return ScorerSpec(name="it", type="bash", metrics=table)


def test_lines_about_metrics_are_no_part_of_the_output() -> None:
    printed = "a\nmetric s=3\n metric b.c-d = -1.5e3 \nmetric x=1\n0.5"
    rest, found = parse_metrics(printed, {"s", "b.c-d"}, "it")
    assert rest == "a\nmetric x=1\n0.5"
    assert found == {"s": 3.0, "b.c-d": -1500.0}


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("metric s=much", "'much' as metric s, which is not a number"),
        ("metric s=", "not a number"),
        ("metric s=1\nmetric s=2", "printed the metric s twice"),
    ],
)
def test_a_line_that_is_no_metric_is_an_error(output: str, words: str) -> None:
    with pytest.raises(ScoreInvalid, match=words):
        parse_metrics(output, {"s"}, "it")


def test_units_and_directions_are_those_of_the_scenario() -> None:
    told = spec(s={"unit": "s", "direction": "lower"}, best={"worst": 9, "best": 1})
    assert measured(
        told, {"s": 1, "best": {"value": 2, "unit": "x", "direction": "higher"}, "other": math.nan}
    ) == (
        Metric(name="s", value=1.0, unit="s", direction="lower"),
        Metric(name="best", value=2.0, unit=None, direction="lower"),
    )
    assert measured(spec(), {"s": {"value": 1, "unit": "s", "direction": "lower"}, "n": 2}) == (
        Metric(name="s", value=1.0, unit="s", direction="lower"),
        Metric(name="n", value=2.0),
    )


@pytest.mark.parametrize(
    "reported",
    [
        {"s": math.nan},
        {"s": math.inf},
        {"s": 10**400},
        {"s": True},
        {"s": "1"},
        {"s": {"value": 1, "more": 2}},
        {"s": {"value": 1, "unit": "a b"}},
        {"s": {"value": 1, "unit": "x" * 21}},
        {"s": {"value": 1, "unit": 7}},
        {"s": {"value": 1, "direction": "up"}},
        {"s": {"value": 1, "direction": []}},
        {"": 1},
        {"1": 1},
        {"x" * 65: 1},
        {"a\x1b[31m": 1},
        {"a\n": 1},
        {"a=b": 1},
        {7: 1},
        {f"m{n}": n for n in range(MOST + 1)},
    ],
)
def test_what_is_no_metric_is_refused(reported: Mapping[Any, Any]) -> None:
    with pytest.raises(ScoreInvalid) as refused:
        measured(spec(), reported)
    assert len(str(refused.value)) < 400
    assert str(refused.value).isprintable()


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=70) | st.sampled_from(["s", "t"]), junk, max_size=5))
def test_whatever_is_reported_is_metrics_or_a_clear_error(reported: dict[str, Any]) -> None:
    for one in (spec(), spec(s={"weight": 1}, score={"weight": 2})):
        try:
            found = measured(one, reported)
            assert 0 <= weighed(one, 0.5, found) <= 1
        except InfrastructureError as error:
            assert str(error).isprintable()
        else:
            assert all(abs(metric.value) <= 1e15 for metric in found)
    assert measured(spec(), numbers_among(reported)) is not None


def test_metrics_of_a_harbor_reward_are_its_numbers() -> None:
    told = {
        "security": 1, "speed": 0.5, "text": "x", "yes": True, "nan": math.nan, "a b": 1, "deep": {"a": 1},
    }  # fmt: skip
    assert numbers_among(told) == {"security": 1.0, "speed": 0.5}
    assert len(numbers_among({f"m{n}": n for n in range(1000)})) == MOST


def test_weights_make_a_score_of_metrics() -> None:
    mixed = spec(score={"weight": 2}, safe={"weight": 1}, s={"weight": 1, "worst": 60, "best": 10}, free={})
    metrics = measured(mixed, {"safe": 0.5, "s": 35, "free": 1e9})
    assert weighed(mixed, 1.0, metrics) == pytest.approx((2 * 1 + 0.5 + 0.5) / 4)
    assert has_own_score(mixed)
    alone = spec(s={"weight": 3, "direction": "lower"})
    assert not has_own_score(alone)
    assert weighed(alone, None, measured(alone, {"s": 0.25})) == 0.75
    assert weighed(spec(s={}), 0.5, measured(spec(s={}), {"s": 7})) == 0.5


def test_a_weight_without_a_value_is_an_error_and_never_a_zero() -> None:
    with pytest.raises(ScoreMissing, match="did not report the metric s, which has a weight"):
        weighed(spec(s={"weight": 1}), 1.0, ())
    with pytest.raises(ScoreMissing, match="gave no score, which has a weight"):
        weighed(spec(score={"weight": 1}), None, ())
    with pytest.raises(ScoreInvalid, match="give it `worst` and `best`"):
        weighed(spec(s={"weight": 1}), 1.0, (Metric(name="s", value=7.0),))


@given(
    st.lists(
        st.tuples(st.floats(-1e15, 1e15), st.floats(1e-9, 1e9), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)),
        min_size=1,
        max_size=6,
    ),
    st.randoms(use_true_random=False),
)
def test_a_score_of_metrics_is_within_0_and_1_in_any_order(
    parts: list[tuple[float, float, float, float]], random: Any
) -> None:
    table = {
        f"m{number}": {"weight": weight, "worst": worst, "best": best}
        for number, (_, weight, worst, best) in enumerate(parts)
        if worst != best
    }
    metrics = [Metric(name=f"m{number}", value=value) for number, (value, *_) in enumerate(parts)]
    if not table:
        return
    one = weighed(spec(**table), None, metrics)
    names = list(table)
    random.shuffle(names)
    random.shuffle(metrics)
    assert 0 <= one <= 1
    assert weighed(spec(**{name: table[name] for name in names}), None, metrics) == pytest.approx(
        one, abs=1e-12
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"worst": 1},
        {"worst": 1, "best": 1},
        {"worst": 0, "best": 1, "direction": "lower"},
        {"weight": 0},
        {"unit": "a b"},
        {"direction": "up"},
        {"weight": math.inf},
    ],
)
def test_a_metric_that_contradicts_itself_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"validation error"):
        MetricSpec.model_validate(wrong)


def _load(path: Path) -> None:
    source = open_source(path)
    assert source is not None
    source.load("s")


MANIFEST = """\
benchmark: b
scenarios:
  - id: s
    image: debian
    problem_statement: Do it.
    scorers:
      - {name: one, type: bash, script: "true", metrics: %s}
      - {name: two, type: %s}
"""


@pytest.mark.parametrize(
    ("one", "two", "words"),
    [
        ("{s: {worst: 1}}", "bash, script: 'true'", "scorers[0].metrics.s: worst and best are given together"),
        ("{score: {unit: s}}", "bash, script: 'true'", "is the scorer's own score, which takes only a weight"),
        ("{s: {}}", "bash, script: 'true', metrics: {s: {}}", "is already a metric of scorer 'one'"),
        ("{}", "files, params: {}, metrics: {s: {}}", "a scorer of type 'files' reports no metrics"),
        ("{'a b': {}}", "bash, script: 'true'", "scorers[0].metrics"),
        ("{}", "bash, script: 'true', requirements: [numpy]", "has an effect only for scorers of type 'python'"),
        ("{}", "python", "script or path: one of the two is expected"),
    ],
)  # fmt: skip
def test_mistakes_in_a_manifest_have_a_line(tmp_path: Path, one: str, two: str, words: str) -> None:
    path = tmp_path / "b.bench.yaml"
    path.write_text(MANIFEST % (one, two))
    with pytest.raises(InputError) as refused:
        _load(path)
    assert words in str(refused.value)
    assert "b.bench.yaml:" in str(refused.value)


def test_a_second_metric_of_a_name_is_kept_under_another() -> None:
    results = [
        ScorerResult(name=name, type="bash", weight=1, metrics=(SECONDS, Metric(name=name, value=1)))
        for name in ("a", "b")
    ]
    assert [metric.name for metric in all_metrics(results)] == ["seconds", "a", "seconds#2", "b"]


def _trials(*values: float, agent: str = "oracle") -> list[Any]:
    return [
        ended("P", f"s{number}", agent, metrics=(SECONDS.model_copy(update={"value": value}),))
        for number, value in enumerate(values)
    ]


def test_show_summary_compare_and_export_show_metrics_apart(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    make_job(tmp_path, JOB, _trials(1, 2, 3), hours_ago=3)
    make_job(tmp_path, OTHER, _trials(2, 4, 6))
    assert run("show", "s1", "--dir", tmp_path) == 0
    assert "seconds  4  s  lower is better" in capsys.readouterr().out
    assert run("summary", "last", "-e", "--dir", tmp_path) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines() if "seconds" in line] == [
        ["seconds", "4", "s", "lower", "3"]
    ]
    (found,) = documents(capsys, "summary", "summary", "last", "-e", "--dir", tmp_path)["runs"]
    told = {"name": "seconds", "unit": "s", "direction": "lower", "mean": 4.0, "trials": 3}
    assert found["metrics"] == [told]
    assert found["mean_score" if "mean_score" in found else "mean_scored"] == 1.0
    assert found["trials"][0]["metrics"] == [SECONDS.model_dump() | {"value": 2.0}]
    assert run("compare", JOB, OTHER, "--dir", tmp_path) == 0
    assert [line.split()[:3] for line in capsys.readouterr().out.splitlines() if "lower" in line] == [
        ["seconds", "texts", "2"]
    ]
    assert run("export", OTHER, "--dir", tmp_path, "--format", "jsonl") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["metrics"] for row in rows] == [{"seconds": 2.0}, {"seconds": 4.0}, {"seconds": 6.0}]


@given(st.text(max_size=40) | junk.map(json.dumps))
def test_whatever_a_history_from_elsewhere_has_is_metrics_or_nothing(text: str) -> None:
    assert all(math.isfinite(metric.value) for metric in metrics_of(text))


def judged(rule: str, before: list[PairRow], now: list[PairRow], **config: Any) -> GateReport:
    return judge(
        side("now", [(JOB, now)]),
        side("before", [(OTHER, before)]),
        GateConfig(rules=(parse_rule(rule),), baseline="b", **config),
        job=JOB,
        at=datetime.datetime.now(datetime.UTC),
    )


def rows(*values: float, direction: str = "lower", name: str = "seconds") -> list[PairRow]:
    metrics = (Metric(name=name, value=value, unit="s", direction=direction) for value in values)
    return [pair_row(ended("P", f"s{number}", metrics=(one,))) for number, one in enumerate(metrics)]


SLOW, FAST = [2.0 + n / 10 for n in range(12)], [1.0 + n / 10 for n in range(12)]


@pytest.mark.parametrize(
    ("rule", "direction", "before", "now", "verdict"),
    [
        ("metric:seconds:20%", "lower", FAST, SLOW, "regressed"),
        ("metric:seconds:20%", "lower", SLOW, FAST, "ok"),
        ("metric:seconds:20%", "higher", SLOW, FAST, "regressed"),
        ("metric:seconds:20%", "higher", FAST, SLOW, "ok"),
        ("metric:seconds:0.5", "lower", FAST, SLOW, "regressed"),
        ("metric:seconds:2", "lower", FAST, SLOW, "ok"),
        ("metric:seconds[alone=yes]:any@99", "lower", FAST, SLOW, "regressed"),
        ("metric:seconds:20%", "higher", [-one for one in FAST], [-one for one in SLOW], "regressed"),
        ("metric:seconds:20%", "higher", [-one for one in SLOW], [-one for one in FAST], "ok"),
        ("metric:other:20%", "lower", FAST, SLOW, "invalid"),
    ],
)
def test_a_gate_judges_a_metric_by_its_direction(
    rule: str, direction: str, before: list[float], now: list[float], verdict: str
) -> None:
    report = judged(rule, rows(*before, direction=direction), rows(*now, direction=direction))
    assert report.verdict.value == verdict, report.why
    assert "s1" not in report.why
