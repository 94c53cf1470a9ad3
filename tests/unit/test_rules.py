"""Gates as they are written."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.exit_status import ExitStatus, first_of
from pytest_benchjobs.model.gate import GateExit, GatePolicy, GateVerdict, Rule, Unit
from pytest_benchjobs.settings.rules import FLOORS, METRICS, RATES, SINGLE, SPENT, floor, parse_rule

from ..docs.documents import ROOT

PAGE = (ROOT / "docs" / "gates.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mean:5pp", {"metric": "mean", "amount": 5, "unit": Unit.POINTS}),
        ("mean", {"metric": "mean", "amount": 0, "level": 0.95}),
        ("mean:any@90", {"metric": "mean", "amount": 0, "level": 0.9}),
        ("pass_rate:3pp@99.9", {"metric": "pass_rate", "amount": 3, "unit": Unit.POINTS, "level": 0.999}),
        ("pass@3:0.05@0.9", {"metric": "pass@K", "k": 3, "amount": 0.05, "level": 0.9}),
        ("pass^10", {"metric": "pass^K", "k": 10}),
        ("cost : 20 %".replace(" :", ":"), {"metric": "cost", "amount": 20, "unit": Unit.RELATIVE}),
        ("duration:2.5", {"metric": "duration", "amount": 2.5, "unit": Unit.ABSOLUTE}),
        ("scenario:any", {"metric": "scenario"}),
        ("critical:50pp", {"metric": "critical", "amount": 50}),
        (
            "mean[benchmark=text-*, agent=codex:gpt-5,tag=easy]:5pp@95",
            {"benchmark": "text-*", "agent": "codex:gpt-5", "tag": "easy", "amount": 5, "level": 0.95},
        ),
        # Labels end in parameters; patterns have brackets of their own.
        ("mean[agent=codex:gpt,effort=high,tag=easy]", {"agent": "codex:gpt,effort=high", "tag": "easy"}),
        ("mean[agent=m@http://[::1]:80]:1pp", {"agent": "m@http://[::1]:80", "amount": 1}),
    ],
)
def test_rules(text: str, expected: dict[str, object]) -> None:
    rule = parse_rule(f"  {text} ")
    assert rule.text == text
    assert {name: getattr(rule, name) for name in expected} == expected
    assert parse_rule(rule.text) == rule


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("men:5pp", "gate 'men:5pp', column 1: unknown metric 'men'; did you mean 'mean'? there are mean, pass_rate"),
        ("", "an empty gate was given. Write METRIC:AMOUNT, such as mean:5pp"),
        ("cost:5pp", "column 6: pp are points of a score, and cost is in USD. Write 20%"),
        ("critical:3%", "column 10: critical takes no %"),
        ("mean:5", "column 6: 5 is more than a score can fall. Write 5pp"),
        ("mean:101pp", "column 6: 101pp is more than a score can fall"),
        ("mean:-5pp", "column 6: invalid amount '-5pp'"),
        ("mean:", "column 6: invalid amount ''"),
        ("mean:nan", "invalid amount 'nan'"),
        ("cost:1e999", "invalid amount '1e999'"),
        ("mean@100", "column 6: invalid level '100'. Write a percentage above 50"),
        ("mean@50", "invalid level '50'"),
        ("mean@", "invalid level ''"),
        ("mean:5pp@95@90", "invalid level '95@90'"),
        ("mean[tag=a:5pp", "column 5: the bracket is not closed"),
        ("mean[tga=a]", "column 6: unknown scope 'tga'; did you mean 'tag'? write KEY=VALUE with benchmark, agent, tag"),
        ("mean[tag=a,tag=b]", "column 12: tag is given twice"),
        ("mean[tag=]", "column 6: tag has no value"),
        ("mean[]", "column 6: unknown scope ''"),
        ("mean 5pp", "column 5: only ':' and an amount"),
        ("pass@k:5pp", "column 6: invalid number of attempts. Write for example pass@3"),
        ("pass^0", "column 6: invalid number of attempts"),
        ("metric", "a metric of scorers has a name"),
        ("metric:5%", "a metric of scorers has a name"),
        ("metric:a b:5%", "a metric of scorers has a name"),
        ("metric:seconds:5pp", "column 16: pp are points of a score, and seconds has its own unit"),
        ("metric:seconds:x", "Write 20%, an amount of seconds such as 0.5, or any"),
        ("min_score:0.5", "column 1: min_score is a floor: give --bench-min-score instead"),
        ("mean\x1b[31m:5pp", r"column 5: a character '\x1b'; only printable"),
        ("mean:" + "5" * 2000, "2005 characters are too long"),
    ],
)  # fmt: skip
def test_what_is_no_rule(text: str, says: str) -> None:
    with pytest.raises(InputError) as error:
        parse_rule(text)
    assert says in str(error.value)
    assert_one_line(str(error.value))


PIECES = st.sampled_from(
    [*METRICS, "pass@3", "pass^2", "[", "]", ":", "@", ",", "=", "5", "pp", "%", "any", "95", "0.9", "tag", "agent",
     "benchmark", "*", " ", "\n", "é", "\u202e", "\ud800", "1e400", "-", "\u0661"]
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(PIECES, max_size=12).map("".join)))
@example("mean[agent=\ud800]")
@example("pass@" + "9" * 50)
def test_any_text_is_a_rule_or_one_clear_error(text: str) -> None:
    try:
        rule = parse_rule(text)
    except InputError as error:
        assert_one_line(str(error))
    else:
        assert parse_rule(rule.text) == rule
        assert math.isfinite(rule.amount)
        assert 0.5 < rule.level < 1


NAMES = st.text("abcXYZ019._-*:/@", min_size=1, max_size=12)
AMOUNTS = st.decimals(0, 1, places=3, allow_nan=False)


@given(st.data())
def test_every_rule_is_read_as_it_was_written(data: st.DataObject) -> None:
    metric = data.draw(st.sampled_from(METRICS))
    k = data.draw(st.integers(1, 99)) if metric in ("pass@K", "pass^K") else None
    units = ["", "%"] if metric in SPENT else ["", "pp"] if metric in SINGLE else ["", "pp", "%"]
    unit, amount = data.draw(st.sampled_from(units)), data.draw(st.none() | AMOUNTS)
    level = data.draw(st.none() | st.decimals("50.1", "99.9", places=1))
    scope = data.draw(st.dictionaries(st.sampled_from(["benchmark", "agent", "tag"]), NAMES))
    text = metric.replace("K", str(k)) if k is not None else metric
    if scope:
        text += f"[{','.join(f'{key}={value}' for key, value in scope.items())}]"
    text += "" if amount is None else f":{amount}{unit}"
    text += "" if level is None else f"@{level}"
    assert parse_rule(text) == Rule(
        text=text,
        metric=metric,
        k=k,
        amount=float(amount or 0),
        unit=Unit(unit if amount is not None else ""),
        level=round(float(level) / 100, 12) if level is not None else 0.95,
        benchmark=scope.get("benchmark"),
        agent=scope.get("agent"),
        tag=scope.get("tag"),
    )


@pytest.mark.parametrize(
    ("metric", "value", "amount", "only"),
    [
        ("min_score", "0.6", 0.6, None),
        ("min_score", "60%", 0.6, None),
        ("min_pass_rate", "text-tools=0.5", 0.5, "text-tools"),
        ("max_error_rate", "codex:gpt-5,effort=high=0.1", 0.1, "codex:gpt-5,effort=high"),
        ("min_samples", "20", 20, None),
        ("min_lift", "arc=1.5", 1.5, "arc"),
        ("min_score", 1, 1, None),
    ],
)
def test_floors(metric: str, value: str, amount: float, only: str | None) -> None:
    rule = floor(metric, value, f"--bench-x {value}")
    assert (rule.metric, rule.amount, rule.only, rule.floor) == (metric, amount, only, True)
    assert rule.text == f"--bench-x {value}"


@pytest.mark.parametrize(
    ("metric", "value", "says"),
    [
        ("min_score", "1.5", "'1.5' is not a score from 0 to 1"),
        ("min_score", "nan", "'nan' is not a score"),
        ("min_score", "5pp", "'5pp' is not a score"),
        ("min_samples", "0", "'0' is not a number of scenarios, 1 or more"),
        ("min_samples", "2.5", "not a number of scenarios"),
        ("min_lift", "0", "above 0"),
        ("min_score", "=0.5", "'' names no benchmark or agent"),
        ("min_score", "a\nb=0.5", "names no benchmark or agent"),
    ],
)
def test_what_is_no_floor(metric: str, value: str, says: str) -> None:
    with pytest.raises(InputError, match=r"^--bench-x: ") as error:
        floor(metric, value, "--bench-x")
    assert says in str(error.value)
    assert_one_line(str(error.value))


@given(st.sampled_from(sorted(FLOORS)), st.text())
def test_any_floor_is_a_rule_or_one_clear_error(metric: str, value: str) -> None:
    try:
        rule = floor(metric, value, f"--bench-{metric}")
    except InputError as error:
        assert_one_line(str(error))
    else:
        assert math.isfinite(rule.amount)


def test_every_example_of_the_page_is_a_rule() -> None:
    starts = "|".join(map(re.escape, ("mean", "pass_rate", "scenario", "critical", *SPENT)))
    found = re.findall(rf"(?<!`)`((?:{starts}|pass[@^]\d+)(?:[\[:@][^`]*)?)`", PAGE)
    found += re.findall(r"--bench-fail-on-regression '?([^\s'`]+)", PAGE)
    for text in found:
        parse_rule(text)
    assert {parse_rule(text).metric for text in found} == set(METRICS)
    assert len(found) > 15


def test_the_page_names_everything_there_is() -> None:
    for metric in (*RATES, *SINGLE, *SPENT):
        assert f"`{metric}`" in PAGE
    for name in (*GateVerdict, *GatePolicy, *GateExit):
        assert f"`{name}`" in PAGE
    for name in FLOORS:
        assert f"`--bench-{name.replace('_', '-')} " in PAGE
    for status in (0, ExitStatus.REGRESSED, ExitStatus.INCONCLUSIVE, ExitStatus.INVALID):
        assert re.search(rf"^\| {status} \|", PAGE, re.MULTILINE)


def test_the_pages_list_every_exit_status_and_their_order() -> None:
    statuses = {
        page: [int(status) for status in re.findall(r"^\| (1[0-9]|75) \|", text, re.MULTILINE)]
        for page in ("options", "ci")
        for text in [(ROOT / "docs" / f"{page}.md").read_text("utf-8")]
    }
    assert statuses == {"options": list(ExitStatus), "ci": sorted(ExitStatus)}


def test_the_first_exit_status_that_applies() -> None:
    assert [first_of(0, 10, 12, 13), first_of(12, 75), first_of(11, 10), first_of(0)] == [12, 75, 10, 0]


def assert_one_line(text: str) -> None:
    assert text.isprintable()
    assert len(text) < 500
