"""Comparing two sides: the table, the lists, what is stored and shown again."""

from __future__ import annotations

import datetime
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.analysis.comparison import compare, compare_agents
from pytest_benchjobs.analysis.gate.judge import judge
from pytest_benchjobs.analysis.gate.words import Scale
from pytest_benchjobs.analysis.sides import Cell, Key, Series, Side
from pytest_benchjobs.model.comparison import Comparison, HighScore
from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.gate import GateConfig, GateVerdict
from pytest_benchjobs.report.comparison import comparison_lines
from pytest_benchjobs.report.gate_text import shown_change
from pytest_benchjobs.settings.high_scores import read_high_scores
from pytest_benchjobs.settings.rules import parse_rule
from pytest_benchjobs.store.comparisons import find_comparison
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.reader import HistoryReader

from .examples import at_most
from .jobs import documents, ended, make_job, run

AT = datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.UTC)
ID = "cmp_20261121T120000Z_a1b2c3d4"
FIRST, SECOND = "20261121-054712-4f9a2c", "20261121-064712-aaaaaa"


def made(scores: dict[str, tuple[float, ...]], agent: str = "codex:a", **changes: Any) -> Side:
    cells = {}
    for scenario, of in scores.items():
        cell = Cell("texts", scenario, agent, of, sum(score == 1 for score in of), **changes)
        cells[cell.key] = cell
    return Side(agent, ("job",), cells)


def found(a: Side, b: Side, **how: Any) -> Comparison:
    return compare(a, b, comparison_id=ID, at=AT, **how)


def test_a_row_says_who_is_ahead_and_whether_chance_explains_it() -> None:
    names = [f"s{number:02}" for number in range(12)]
    a = made(dict.fromkeys(names, (1.0,)), seconds=(2.0,), costs=(0.5,))
    worse = {name: (float(number >= 8),) for number, name in enumerate(names)}
    b = made(worse, "goose:b", seconds=(4.0,), errors=1)
    comparison = found(a, b)
    (row,) = comparison.rows
    assert (row.a_agent, row.b_agent, row.scenarios) == ("codex:a", "goose:b", 12)
    assert (row.a, row.winner, row.significant) == (1.0, "a", True)
    assert row.b == pytest.approx(1 / 3)
    assert row.delta == pytest.approx(-2 / 3)
    assert row.p_value == pytest.approx(2 * 0.5**8)
    assert row.low is not None
    assert row.high is not None
    assert row.low < row.delta < row.high < 0
    assert (row.a_cost, row.b_cost, row.a_seconds, row.b_seconds) == (0.5, None, 2.0, 4.0)
    assert (row.a_errors, row.b_errors) == (0, 12)
    assert [change.scenario for change in comparison.newly_failing] == names[:8]
    assert comparison.newly_passing == ()
    back = found(b, a)
    assert (back.rows[0].winner, [change.scenario for change in back.newly_passing]) == ("b", names[:8])
    assert back.rows[0].p_value == row.p_value


def test_one_scenario_more_is_no_winner_but_ahead() -> None:
    names = [f"s{number}" for number in range(6)]
    b = made({name: (float(name != "s0"),) for name in names})
    (row,) = found(made(dict.fromkeys(names, (1.0,))), b).rows
    assert (row.winner, row.significant, row.p_value) == ("a", False, 1.0)


def test_a_scenario_that_fails_more_often_is_a_suspect_and_one_that_broke_is_not() -> None:
    names = [f"s{number}" for number in range(5)]
    a = made(dict.fromkeys(names, (1.0,) * 12))
    less = {"s3": (0.0,) * 12, "s4": (1.0,) * 6 + (0.0,) * 6}
    comparison = found(a, made({**dict.fromkeys(names, (1.0,) * 12), **less}))
    assert [change.scenario for change in comparison.newly_failing] == ["s3"]
    (suspect,) = comparison.suspects
    assert (suspect.scenario, suspect.before, suspect.now) == ("s4", 1.0, 0.5)
    assert suspect.p_value is not None
    assert suspect.adjusted is not None
    assert suspect.p_value < suspect.adjusted <= 0.1
    (row,) = comparison.rows
    assert row.low is not None
    assert row.low >= -1


def test_what_is_not_on_both_sides_is_listed_and_left_out() -> None:
    same = {"comparable": "x"}
    a = made({"both": (1.0,), "gone": (1.0,)}, **same)
    b = made({"both": (1.0,), "new": (1.0,)}, **same)
    changed = Cell("texts", "other", "codex:a", (1.0,), 1, comparable="y")
    broken = Cell("texts", "broken", "codex:a", (), 0, 3, comparable="x")
    a = Side(a.name, a.jobs, {**a.cells, changed.key: changed, broken.key: broken})
    b = Side(b.name, b.jobs, {
        **b.cells,
        changed.key: Cell("texts", "other", "codex:a", (0.0,), 0, comparable="z"),
        broken.key: Cell("texts", "broken", "codex:a", (1.0,), 1, comparable="x"),
    })  # fmt: skip
    comparison = found(a, b)
    assert comparison.rows[0].scenarios == 1
    listed = {"added": "new", "removed": "gone", "changed": "other", "unscored": "broken"}
    for kind, scenario in listed.items():
        assert [one.scenario for one in getattr(comparison, kind)] == [scenario], kind


@pytest.mark.parametrize("cells", [{}, {"a": ()}])
def test_a_side_with_nothing_is_said(cells: dict[str, tuple[float, ...]]) -> None:
    comparison = found(made(cells), made({"a": (1.0,)}))
    assert "side A has no scores" in comparison.notes
    assert all(row.scenarios == 0 for row in comparison.rows)


_SCORES = st.dictionaries(
    st.sampled_from("abcdefgh"), st.lists(st.floats(0, 1), min_size=1, max_size=3).map(tuple), max_size=8
)


@at_most(60)
@given(_SCORES, _SCORES)
def test_the_sides_may_be_swapped(a: dict[str, tuple[float, ...]], b: dict[str, tuple[float, ...]]) -> None:
    there, back = found(made(a), made(b)), found(made(b), made(a))
    assert Comparison.model_validate_json(there.model_dump_json()) == there
    for one, other in zip(there.rows, back.rows, strict=True):
        assert one.scenarios == other.scenarios == len(a.keys() & b.keys())
        assert one.p_value == other.p_value
        assert one.delta is not None
        assert other.delta is not None
        assert math.isclose(one.delta, -other.delta, abs_tol=1e-12)
        assert {one.winner, other.winner} in ({"a", "b"}, {None})
    assert {change.scenario for change in there.newly_failing} == {c.scenario for c in back.newly_passing}


@st.composite
def _pairs_of_sides(draw: st.DrawFn) -> tuple[Side, Side]:
    """Two groups of scenarios, some of them in clusters or quarantine, of pass or fail or scores between."""
    score = draw(st.sampled_from([st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 0.5, 0.75, 1.0])]))
    most = draw(st.integers(1, 3))
    clusters = draw(st.integers(0, 8))
    sides: tuple[dict[Key, Cell], dict[Key, Cell]] = ({}, {})
    for agent in draw(st.sampled_from([["codex:a"], ["codex:a", "goose:b"]])):
        for number in range(draw(st.integers(1, 14))):
            about = {
                "cluster": f"c{number % clusters}" if clusters and number % 5 else None,
                "known": draw(st.sampled_from([None, None, None, "expected-fail", "quarantine"])),
            }
            for cells in sides:
                scores = tuple(draw(st.lists(score, max_size=most)))
                cell = Cell("texts", f"s{number:02}", agent, scores, scores.count(1.0), **about)
                cells[cell.key] = cell
    return Side("a", ("one",), sides[0]), Side("b", ("two",), sides[1])


@at_most(200)
@given(_pairs_of_sides(), st.sampled_from([80, 95]))
def test_a_gate_and_a_comparison_of_the_same_jobs_agree(both: tuple[Side, Side], level: int) -> None:
    a, b = both
    config = GateConfig(rules=(parse_rule(f"mean@{level}"),), max_error_rate=1)
    judged = judge(b, a, config, job="two", at=AT).rules
    gate = {one.agent: one for one in judged if one.test is not None and one.rule.metric == "mean"}
    rows = found(a, b, level=level / 100).rows
    assert {row.b_agent for row in rows} == {one.agent for one in gate.values() if one.test != "floor"}
    back = {row.b_agent: row for row in found(b, a, level=level / 100).rows}
    for row in rows:
        rule = gate[row.b_agent]
        assert (row.scenarios, row.a, row.b, row.delta) == (
            rule.scenarios, rule.before, rule.now, rule.change,
        )  # fmt: skip
        assert (row.p_worse, rule.low) == (rule.p_value, None)
        assert (row.high or 1) >= (rule.high or 1)  # it is two-sided
        assert row.p_value == back[row.b_agent].p_value
        assert row.p_value is not None
        assert row.p_worse is not None
        if len(rows) == 1:
            opposite = back[row.b_agent].p_worse
            assert opposite is not None
            assert row.p_value == min(1, 2 * min(row.p_worse, opposite))
        # What the comparison calls worse the gate does too.
        if row.significant and row.winner == "a":
            assert rule.verdict is GateVerdict.REGRESSED


def test_scenarios_of_one_cluster_count_once_in_gates_and_comparisons() -> None:
    names = [f"s{number:02}" for number in range(20)]
    a = made(dict.fromkeys(names, (1.0,)))
    b = made(dict.fromkeys(names, (0.0,)))
    (row,) = found(a, b).rows
    assert row.p_worse == 0.5**20
    cells = {
        key: cell._replace(cluster=f"c{place // 4}") for place, (key, cell) in enumerate(b.cells.items())
    }
    clustered = Side(b.name, b.jobs, cells)
    (row,) = found(a, clustered).rows
    assert (row.p_worse, row.p_value, row.significant) == (0.5**5, 0.5**4, False)
    assert (row.scenarios, row.clusters) == (20, 5)
    assert any(" 20 in 5 clusters " in line for line in comparison_lines(found(a, clustered), 200))
    (rule,) = judge(clustered, a, GateConfig(rules=(parse_rule("mean"),)), job="two", at=AT).rules
    assert rule.p_value == row.p_worse


def test_rows_are_corrected_for_their_number_and_quarantine_is_left_out() -> None:
    names = [f"s{number:02}" for number in range(6)]
    sides = []
    for score in (1.0, 0.0):
        cells = {}
        for agent in ("codex:a", "goose:b"):
            cells |= made(dict.fromkeys(names, (score,)), agent).cells
            cells |= made({"ill": (score,)}, agent, known="quarantine").cells
        sides.append(Side("x", ("job",), cells))
    comparison = found(*sides)
    assert [(row.scenarios, row.p_worse, row.p_value) for row in comparison.rows] == [
        (6, 2 * 0.5**6, 4 * 0.5**6)
    ] * 2
    assert "ill" not in {change.scenario for change in comparison.newly_failing}
    assert "2 scenarios in quarantine on side B left out" in comparison.notes


@pytest.mark.parametrize(
    ("solved", "ranks"),
    [
        ({"a:m": 20, "b:m": 19, "c:m": 2, "d:m": 3}, {"a:m": (1, 2), "b:m": (1, 2), "c:m": (3, 4), "d:m": (3, 4)}),
        ({"a:m": 2, "b:m": 10, "c:m": 20}, {"c:m": (1, 1), "b:m": (2, 2), "a:m": (3, 3)}),
        ({"a:m": 20, "b:m": 16, "c:m": 11}, {"a:m": (1, 2), "b:m": (1, 3), "c:m": (2, 3)}),  # only a from c
        ({"a:m": 9, "b:m": 9, "c:m": 9}, {"a:m": (1, 3), "b:m": (1, 3), "c:m": (1, 3)}),
    ],
)  # fmt: skip
def test_agents_that_are_not_told_apart_share_ranks(
    solved: dict[str, int], ranks: dict[str, tuple[int, int]]
) -> None:
    cells: dict[Key, Cell] = {}
    for agent, number in solved.items():
        cells |= made({f"s{n:02}": (float(n < number),) for n in range(20)}, agent).cells
    cells |= made({"s00": ()}, "none:m", errors=1).cells
    comparison = compare_agents(Side("x", ("job",), cells), comparison_id=ID, at=AT)
    assert comparison.notes == ("none:m is not ranked: no scenario has a score of it and of another agent",)
    assert len(comparison.rows) == math.comb(len(solved), 2)
    assert {one.agent: (one.first, one.last) for one in comparison.ranks} == ranks
    assert [one.agent for one in comparison.ranks] == list(ranks)
    assert Comparison.model_validate_json(comparison.model_dump_json()) == comparison


def test_the_distance_to_a_high_score(tmp_path: Path) -> None:
    path = tmp_path / "highs.toml"
    path.write_text('[texts]\nscore = 80\nunit = "%"\nsource = "us"\n', "utf-8")
    highs = read_high_scores(path)
    assert highs == {"texts": HighScore(score=0.8, unit="%", source="us")}
    (row,) = found(made({"a": (1.0,)}), made({"a": (0.5,)}), high_scores=highs).rows
    assert (row.a_to_high, row.b_to_high) == (pytest.approx(0.2), pytest.approx(-0.3))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[texts]\nscore = 61\n", "score 61 is not within 0 and 1; for a percentage write unit = '%'"),
        ("[texts]\nscore = nan\n", "2: texts.score: NaN"),
        ("[texts]\nscore = true\n", "a number is expected"),
        ("[texts]\nscore = 1\nunit = 'points'\n", "3: texts.unit: 'points' is not one of score, %"),
        ("[texts]\nscore = 1\ndirection = 'lower'\n", "3: texts.direction: 'lower' is not one of higher"),
        ("[texts]\nscroe = 1\n", "2: texts.scroe: unknown key; did you mean 'score'?"),
        ("texts = 1\n", "1: texts: a table of keys is expected"),
        ("[texts\n", "1: is not valid TOML"),
    ],
)
def test_a_bad_file_of_high_scores_is_one_clear_error(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "highs.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError) as error:
        read_high_scores(path)
    assert str(error.value).startswith(str(path))
    assert says in str(error.value)


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job with two agents, and a later one with one of them."""
    monkeypatch.chdir(tmp_path)
    good, bad = {"count": "PP", "sums": "PP"}, {"count": "PP", "sums": "FF"}
    make_job(tmp_path / "reports", FIRST, {"oracle": good, "codex:gpt-5.5": bad}, hours_ago=3, name="nightly")
    make_job(tmp_path / "reports", SECOND, {"oracle": bad}, hours_ago=1)
    return tmp_path / "reports"


def _printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert run(*arguments) == 0
    return capsys.readouterr().out


def test_two_jobs(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = _printed(capsys, "compare", "nightly", "last", "--dir", jobs, "--benchmarks", "texts")
    assert f"A: nightly (job {FIRST})" in printed
    assert "2 on A only" not in printed
    assert "newly failing on B: 1\n  texts/sums: 1 -> 0, passed 2 of 2 before, 0 of 2 now" in printed
    (path,) = (jobs / "comparisons").iterdir()
    comparison = Comparison.model_validate_json(path.read_text("utf-8"))
    assert [row.scenarios for row in comparison.rows] == [2]
    with HistoryReader.of(jobs) as history:
        for text in ("last", comparison.id, comparison.id[:12]):
            assert find_comparison(history, text) == comparison
        with pytest.raises(InputError, match="there is no comparison 'cmp_x'; the latest are cmp_"):
            find_comparison(history, "cmp_x")
    assert printed.startswith(_printed(capsys, "view-comparison", "last", "--dir", jobs))
    document = documents(capsys, "comparison", "view-comparison", "last", "--dir", jobs)
    assert document == json.loads(comparison.model_dump_json())


def test_two_agents_of_one_job(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = _printed(capsys, "compare", "nightly", "--dir", jobs, "-o", "json")
    comparison = Comparison.model_validate_json(printed)
    (row,) = comparison.rows
    assert (row.a_agent, row.b_agent, row.a, row.b) == ("oracle", "codex:gpt-5.5", 1.0, 0.5)
    lines = _printed(capsys, "compare", "nightly", "nightly", "--dir", jobs).splitlines()
    assert {f"A: nightly (job {FIRST}; oracle)", f"B: nightly (job {FIRST}; codex:gpt-5.5)"} <= {*lines}
    assert not any("is compared with" in line for line in lines), "the first lines say it"
    models = ("vllm:x", "groq:y", "--benchmarks", "t", "--dir", jobs)
    assert _printed(capsys, "compare", *models, "--print-command").count("--bench-agent=model:") == 2


def test_each_two_agents_of_one_job(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = {"count": "PP", "sums": "PP"}, {"count": "PP", "sums": "FF"}
    make_job(jobs, "20261121-074712-bbbbbb", {"oracle": good, "codex:gpt-5.5": bad, "nop": bad}, hours_ago=0)
    lines = [line.split() for line in _printed(capsys, "compare", "last", "--dir", jobs).splitlines()]
    assert ["1-3", "codex:gpt-5.5", "texts"] in lines
    document = documents(capsys, "comparison", "view-comparison", "last", "--dir", jobs)
    assert [len(document[name]) for name in ("rows", "ranks")] == [3, 3]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nightly", "last", "--a", "x"], "either as arguments or with --a and --b"),
        (["--a", "x"], "--b is missing"),
        ([], "name two jobs"),
        (["last"], "takes two agents, and there is 1: oracle"),
        (["nightly", "nowhere"], "there is no job 'nowhere'"),
        (["nightly", "last", "--a-agent", "gemini*"], "no agent 'gemini*'; there are oracle, codex:gpt-5.5"),
        (["--a", "vllm:x", "--b", "groq:", "--benchmarks", "texts"], "has no model"),
        (["--a", "vllm:x", "--b", "groq:y", "--benchmarks", "t", "--provider", "z"], "part of --a and --b"),
        (["nightly", "last", "--benchmarks", "other"], "none of the benchmarks other; there are texts"),
    ],
)
def test_mistakes(jobs: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    assert run("compare", *arguments, "--dir", jobs) == 2
    assert says in " ".join(capsys.readouterr().err.split())


def test_sides_with_nothing_in_common_are_no_empty_tables(
    jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = [ended("P", "elsewhere", file="b.bench.yaml", benchmark="others")]
    make_job(jobs, "20261123-000000-cccccc", other, hours_ago=0.5)
    assert run("compare", "nightly", "last", "--dir", jobs, "--a-agent", "oracle") == 1
    out = capsys.readouterr().out.splitlines()
    at = out.index("Nothing to compare: no scenario has a score on both sides.")
    assert out[at + 1 : at + 3] == ["1 on B only: others elsewhere", "2 on A only: texts count, texts sums"]
    assert "note: the sides have no scenario in common" in out
    assert not any("delta" in line or "per attempt" in line for line in out)


def test_a_comparison_is_named_by_as_much_of_its_id_as_is_unique(tmp_path: Path) -> None:
    with History.of(tmp_path) as history:
        with pytest.raises(InputError, match=r"there is no comparison 'last': there are none yet, see `ben"):
            find_comparison(history, "last")
        ids = [f"cmp_20261121T12000{second}Z_{'ab'[second == 6]}1b2c3d4" for second in range(7)]
        for one in ids:
            side, at = {"spec": "x"}, AT + datetime.timedelta(seconds=int(one[18]))
            values = {"id": one, "at": at, "a": side, "b": side, "level": 0.95, "rows": ()}
            history.save_comparison(Comparison.model_validate(values))
        for text, one in (("last", ids[6]), (f" {ids[3]} ", ids[3]), (ids[2][:19], ids[2])):
            assert find_comparison(history, text).id == one
        with pytest.raises(InputError) as error:
            find_comparison(history, "cmp_")
        listed = ", ".join(reversed(ids[2:]))
        assert str(error.value) == f"'cmp_' matches several comparisons: {listed}; give more characters"
        with pytest.raises(InputError, match=f"there is no comparison 'x'; the latest are {listed}$"):
            find_comparison(history, "x")
        history.connection.execute("UPDATE comparisons SET report = '{}' WHERE id = ?", (ids[6],))
        with pytest.raises(InputError, match=f"comparison {ids[6]} cannot be read"):
            find_comparison(history, "last")


def test_equal_scores_over_different_numbers_of_attempts_are_no_change() -> None:
    a, b = made({"s1": (0.2,) * 3, "s2": (0.1, 0.3)}), made({"s1": (0.2,), "s2": (0.1 + 0.1,)})
    for comparison in (found(a, b), found(b, a)):
        (row,) = comparison.rows
        assert (row.delta, row.winner) == (0.0, None)
        lines = "\n".join(comparison_lines(comparison, 200))
        assert "+0.0000" in lines
        assert "-0.0000" not in lines
    report = judge(b, a, GateConfig(rules=(parse_rule("mean:0pp"),)), job="two", at=AT)
    assert report.rules[0].change == 0.0


def test_a_number_that_rounds_to_nothing_has_no_minus() -> None:
    (row,) = (comparison := found(made({"s1": (0.5,)}), made({"s1": (0.49999,)}))).rows
    assert (row.winner, row.delta) == ("a", pytest.approx(-0.00001))
    assert "-0.0000" not in "\n".join(comparison_lines(comparison, 200))
    changes = (shown_change(metric, -0.000001) for metric in ("mean", "cost", "duration", "tokens"))
    assert list(changes) == ["+0.0 pp", "+$0.00", "+0.0s", "+0"]
    assert Scale().signed(-0.000001) == "+0 pp"


def test_metrics_are_adjusted_over_all_that_is_printed() -> None:
    """Ten equal agents by four metrics had a winner by chance in 36 % of comparisons."""

    def measured(name: str, better: str) -> Side:
        cells = {}
        for place, agent in enumerate("abcde"):
            for n in range(12):
                value = float(agent == better or (n + place) % 2)
                series = tuple(Series(f"m{k}", None, "higher", (value if k == 0 else 0.5,)) for k in range(2))
                cell = Cell("b", f"s{n:02}", f"{agent}:m", (1.0,), 1, comparable="same", metrics=series)
                cells[cell.key] = cell
        return Side(name, (name,), cells)

    rows = found(measured("one", ""), measured("two", "c")).rows
    p_values = {row.b_agent: [metric.p_value for metric in row.metrics] for row in rows}
    # Six of six for the better: two-sided, ten metrics, and the means of the rows as another family.
    assert p_values["c:m"] == [pytest.approx(2 * 0.5**6 * 10 * 2), 1.0]
    assert {p for label, listed in p_values.items() if label != "c:m" for p in listed} == {1.0}
    assert {(row.p_value, row.low is not None and row.low < 0) for row in rows} == {(1.0, True)}
