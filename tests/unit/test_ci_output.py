from __future__ import annotations

import datetime
import re
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import JUnitXml

from pytest_benchjobs.model.gate import GatePolicy, GateVerdict, PublishReason, Rule, ScenarioRef
from pytest_benchjobs.model.job import Invocation
from pytest_benchjobs.model.known_failure import Known, KnownMode
from pytest_benchjobs.model.result import Failure as Why
from pytest_benchjobs.model.result import Outcome, TrialResult, Usage
from pytest_benchjobs.report import junit
from pytest_benchjobs.report.ci import (
    ANNOTATIONS,
    STEP_SUMMARY_LIMIT,
    Annotation,
    Ci,
    Host,
    Places,
    annotate,
    comment,
    metrics_text,
    outputs,
    publish,
)
from pytest_benchjobs.report.gate_text import gate_lines, gate_markdown
from pytest_benchjobs.report.junit import FULL_CASES, junit_xml
from pytest_benchjobs.report.markdown import summary_markdown
from pytest_benchjobs.report.markdown_parts import fitted
from pytest_benchjobs.report.write import write_reports
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.text import harmless, inert

from .gates import RULE, change, gate_report, rule_report
from .records import JOB, record, result, trial

pytestmark = pytest.mark.when_changed

MIB = 1024 * 1024
HOSTILE = "\x1b[31m<script>|\x00`x`\ud800 @everyone\r\n::error::x\n# heading\n</details> | a | b |"


def failed(scenario: str, score: float = 0.25, **changes: Any) -> TrialResult:
    why = Why(class_="below_threshold", message="wrong", detail="the last line")
    changed = {"outcome": Outcome.FAILED, "score": score, "failure": why, **changes}
    return result(trial(scenario, "codex:gpt-5.5"), **changed)


def github(tmp_path: Path, **more: str) -> tuple[Host, dict[str, str]]:
    environ = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        **more,
    }
    host = Host.find("auto", environ)
    assert host is not None
    return host, environ


def told(
    host: Host, *, gate: Any = None, summary: str = "# x\n", status: int = 0
) -> tuple[list[str], list[str]]:
    return publish(
        host, record=record(Path("/repo/reports")), results=[result(), failed("count")], gate=gate,
        summary=summary, status=status, places=Places(Path("/repo")),
    )  # fmt: skip


def _rule_lines(**changes: Any) -> list[tuple[str, str | None]]:
    verdict = changes.pop("verdict", GateVerdict.REGRESSED)
    return list(gate_lines(gate_report(rules=(rule_report(verdict, **changes),))))[2:-1]


def _refs(*names: str) -> tuple[ScenarioRef, ...]:
    return tuple(ScenarioRef(benchmark="texts", scenario=name, agent="a") for name in names)


class TestGateConsole:
    """`gate_lines`."""

    def test_the_verdict_the_baseline_and_what_a_rule_rests_on(self) -> None:
        assert list(gate_lines(gate_report())) == [
            ("mean:5pp regressed: 0.610 -> 0.539 (-7.1 pp, 95 % -11.0 to -3.0, p 0.004)", "red"),
            ("baseline main (20261120-120000-aaaaaa), policy evidence", None),
            (
                (
                    "regressed    mean:5pp of texts codex:gpt-5.5: 0.610 -> 0.539, -7.1 pp (95 %: -11.0 to -3.0 pp), "
                    "n=89, p=0.004, detectable drop 5.9 pp"
                ),
                "red",
            ),
            ("3 of 267 attempts (1.1 %) ended in an error without a score", None),
        ]

    @pytest.mark.parametrize(
        ("verdict", "compared", "said"),
        [
            ("ok", True, False),
            ("ok", False, True),
            ("regressed", True, False),
            ("regressed", False, True),
            ("inconclusive", True, True),
            ("invalid", True, True),
            ("no baseline", True, True),
        ],
    )
    def test_why_is_said_where_figures_do_not_say_it(
        self, verdict: str, *, compared: bool, said: bool
    ) -> None:
        changes = {} if compared else {"change": None}
        lines = _rule_lines(verdict=GateVerdict(verdict), why="so", advice="do it", **changes)
        assert [line for line, _ in lines[1:]] == ["             so"] * said + ["             do it"]

    def test_the_gravest_rule_comes_first(self) -> None:
        order = ("invalid", "regressed", "inconclusive", "no baseline", "ok")
        rules = tuple(rule_report(GateVerdict(verdict), why="") for verdict in reversed(order))
        lines = list(gate_lines(gate_report(rules=rules)))[2:-1]
        assert [line[:12].strip() for line, _ in lines] == list(order)
        assert [colour for _, colour in lines] == ["red", "red", "yellow", "yellow", None]

    def test_scenarios_that_changed_say_how(self) -> None:
        quarantined = Known(reason="x", mode=KnownMode.QUARANTINE)
        broke = (
            change("one", 1.0, 0.25, p_value=0.5, adjusted=0.75),
            change("two", agent="other", p_value=0.5, critical=True),
            change("three", known=quarantined, fresh_attempts=3, fresh_passed=1, confirmed=False),
        )
        lines = list(gate_lines(gate_report(broke=broke, fixed=broke[:1], rules=())))[2:-1]
        passed = "passed 5 of 5 before, 0 of 3 now"
        assert lines == [
            ("broke: 3", "red"),
            (f"  texts/two [other]: 1 -> 0, {passed}, p=0.500 alone, critical", None),
            (f"  texts/one [codex:gpt-5.5]: 1 -> 0.25, {passed}, p=0.750 adjusted", None),
            (
                (
                    f"  texts/three [codex:gpt-5.5]: 1 -> 0, {passed}, known: quarantine (x)"
                    "; fresh attempts: passed 1 of 3, not confirmed"
                ),
                None,
            ),
            ("fixed: 1", "green"),
            (f"  texts/one: 1 -> 0.25, {passed}, p=0.750 adjusted", None),
        ]
        crashed = change("one", 1.0, 1.0, now_passed=2)
        (line,) = [
            line for line, _ in gate_lines(gate_report(slipped=(crashed,), rules=())) if "texts/" in line
        ]
        assert line.endswith("2 of 3 now, failed in spite of a full score, as where an agent crashed")
        suspects = list(gate_lines(gate_report(suspects=broke[:1], rules=())))[2]
        assert suspects == ("suspects: worse than before, not proven: 1", "yellow")

    def test_what_is_not_compared_is_named_once(self) -> None:
        report = gate_report(
            rules=(), added=_refs("a", "a", "b"), removed=_refs(*"abcdef"), changed=_refs("c"), unscored=_refs(*"abcde")
        )  # fmt: skip
        assert [line for line, _ in gate_lines(report)][2:-1] == [
            "5 without a score on one side, not compared: texts/a, texts/b, texts/c, texts/d, texts/e",
            "1 changed, not compared: texts/c",
            "6 removed, not compared: texts/a, texts/b, texts/c, texts/d, texts/e and 1 more",
            "2 added, not compared: texts/a, texts/b",
        ]

    def test_known_failures_say_how_many_are_in_no_rule(self) -> None:
        known = [
            change(mode, known=Known(reason="x", mode=KnownMode(mode)))
            for mode in ("expected-fail", "quarantine")
        ]

        def shown(*found: Any) -> str:
            return list(gate_lines(gate_report(rules=(), known=found)))[2][0]

        assert shown(known[0]) == "1 known to fail: texts/expected-fail (x)"
        assert shown(*known) == (
            "2 known to fail, 1 of them in quarantine and in no rule: "
            "texts/expected-fail (x), texts/quarantine (x)"
        )

    def test_whether_to_publish_is_said_where_it_was_asked(self) -> None:
        def shown(found: tuple[PublishReason, ...] | None) -> list[tuple[str, str | None]]:
            return list(gate_lines(gate_report(rules=(), errors=0, publish=found)))[2:]

        assert shown(None) == []
        assert shown(()) == [("the results can be published", None)]
        reason = PublishReason(code="reused", why="old")
        assert shown((reason,)) == [("not to be published (reused): old", "yellow")]


class TestGateMarkdown:
    """`gate_markdown`."""

    def test_the_alert_comes_first_and_rules_show_what_they_rest_on(self) -> None:
        lines = list(gate_markdown(gate_report()))
        assert lines[:2] == [
            "> [!CAUTION]",
            "> **Benchmark gate: regressed.** `mean:5pp regressed: 0.610 -> 0.539 (-7.1 pp, 95 % -11.0 to -3.0, p 0.004)`",
        ]
        assert "baseline `main` (`20261120-120000-aaaaaa`), policy evidence" in lines
        assert (
            "| `mean:5pp` | `texts`, `codex:gpt-5.5` | 89 | 0.610 | 0.539 | -7.1 pp | -11.0 to -3.0 pp | 0.004 "
            "| 5.9 pp | regressed |"
        ) in lines
        assert "- 3 of 267 attempts (1.1 %) ended in an error without a score" in lines
        assert "- all 267 attempts have a score" in gate_markdown(gate_report(errors=0))

    def test_each_verdict_has_an_alert(self) -> None:
        alerts = {verdict.value: next(gate_markdown(gate_report(verdict)))[4:-1] for verdict in GateVerdict}
        expected = {"regressed": "CAUTION", "invalid": "WARNING", "ok": "TIP"}
        assert alerts == {**expected, "inconclusive": "NOTE", "no baseline": "NOTE"}

    def test_ok_without_anything_to_compare_with_is_a_note(self) -> None:
        first = gate_report(GateVerdict.OK, rules=(), notes=("no baseline `main` yet",))
        lines = list(gate_markdown(first))
        assert lines[0] == "> [!NOTE]"
        assert "- ``no baseline `main` yet``" in lines
        floor = rule_report(
            GateVerdict.OK, rule=Rule(text="min_score:0.5", metric="min_score", amount=0.5), before=None
        )
        assert next(gate_markdown(gate_report(GateVerdict.OK, rules=(floor,)))) == "> [!TIP]"

    def test_lists_are_cut_worst_first_and_say_so(self) -> None:
        broke = tuple(change(f"s{number}", critical=number == 99) for number in range(100))
        refs = tuple(
            ScenarioRef(benchmark="texts", scenario=f"n{i}", agent="a", why="scorer") for i in range(60)
        )
        lines = list(gate_markdown(gate_report(broke=broke, changed=refs, added=refs[:2])))
        rows = [line for line in lines if line.startswith("| `s")]
        assert len(rows) == 50
        assert rows[0].startswith("| `s99` (critical) | `codex:gpt-5.5` | 1.000 | 0.000 | 5 of 5 | 0 of 3 |")
        assert "### Broke: 100" in lines
        assert lines.count("... and 50 more.") == 1
        assert "<details><summary>Scenarios that are not compared: 60 changed, 2 added</summary>" in lines
        assert "- and 10 more changed" in lines
        assert "- changed: `n0` of `texts`, `a`: `scorer`" in lines
        assert lines.index("### Broke: 100") < lines.index("- and 10 more changed")

    def test_cost_time_and_known_failures(self) -> None:
        known = change(
            known=Known(reason="flaky | net", until=datetime.date(2027, 1, 31), mode=KnownMode.QUARANTINE)
        )
        report = gate_report(
            before_cost=0.4, now_cost=0.44, before_seconds=41, now_seconds=None, known=(known,)
        )
        text = "\n".join(gate_markdown(report))
        assert "- cost per attempt: $0.40 -> $0.44 (+10.0 %)" in text
        assert "- time per attempt: 41s -> -" in text
        assert (
            "<details><summary>1 known failure among the pairs, 1 of them in quarantine and in no rule</summary>"
            in text
        )
        assert "`flaky \\| net` | 2027-01-31 |" in text

    def test_rules_that_do_not_hold_come_first_with_their_why_and_advice(self) -> None:
        advice = "tolerance 2 pp < 7.6 pp: use 5 attempts"
        rules = (
            rule_report(GateVerdict.OK, advice=advice),
            rule_report(GateVerdict.INVALID, why="too many errors"),
        )
        lines = list(gate_markdown(gate_report(GateVerdict.INVALID, rules=rules)))
        table = [line for line in lines if line.startswith("| `mean")]
        assert [line.rsplit("| ", 1)[1] for line in table] == ["invalid |", "ok |"]
        assert "- `mean:5pp`: `too many errors`" in lines
        assert f"- `mean:5pp`: `{advice}`" in lines

    @given(st.text(st.characters(), min_size=1, max_size=60))
    def test_whatever_names_hold_no_markup_gets_out_of_its_code(self, text: str) -> None:
        text = f"{text}\n> [!TIP]\n</details>|<img src=x>[a](b) @everyone ![x](y)"
        odd = change(text, agent=text, known=Known(reason=text, mode=KnownMode.EXPECTED_FAIL))
        ref = ScenarioRef(benchmark=text, scenario=text, agent=text, why=text)
        report = gate_report(
            why=text, baseline=text, baseline_jobs=(text,), notes=(text,), broke=(odd,), known=(odd,), added=(ref,),
            rules=(rule_report(why=text, advice=text, benchmark=text, agent=text, rule=RULE.model_copy(update={"text": text})),),
        )  # fmt: skip
        for line in gate_markdown(report):
            outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", line)
            assert "everyone" not in outside
            assert "<img" not in outside
            assert "](" not in outside
            assert "\n" not in line

    def test_the_summary_has_it_at_the_top(self, tmp_path: Path) -> None:
        text = summary_markdown(record(tmp_path), [result()], gate_report())
        assert text.startswith("> [!CAUTION]\n")
        assert text.index("[!CAUTION]") < text.index("# Job ")


class TestHost:
    """Which CI system this is."""

    def test_each_is_known_by_its_variables(self) -> None:
        found = {
            sign: Host.find("auto", {sign: "x"}) for sign in ("GITHUB_ACTIONS", "GITLAB_CI", "JENKINS_URL")
        }
        assert [host.ci for host in found.values() if host] == [Ci.GITHUB, Ci.GITLAB, Ci.JENKINS]
        assert Host.find("auto", {}) is None
        assert Host.find("auto", {"GITHUB_ACTIONS": "false"}) is None
        assert Host.find("off", {"GITHUB_ACTIONS": "true"}) is None
        assert Host.find("gitlab", {"CI_PROJECT_DIR": "/p"}) == Host(Ci.GITLAB, Path("/p"))

    def test_a_run_inside_a_test_is_not_that_of_the_pipeline(self) -> None:
        environ = {"GITHUB_ACTIONS": "true", "PYTEST_CURRENT_TEST": "x"}
        assert Host.find("auto", environ) is None
        assert Host.find("github", environ) is not None

    def test_paths_are_named_as_the_system_names_them(self) -> None:
        log = Path("/p/reports/agent.log")
        assert Host(Ci.GITLAB, Path("/p")).attachment(log) == "reports/agent.log"
        assert Host(Ci.JENKINS, Path("/p")).attachment(log) == "/p/reports/agent.log"
        assert Host(Ci.GITHUB, Path("/p")).attachment(log) is None
        assert [Host(ci, Path("/q")).attachment(log) for ci in Ci] == [None] * 3
        assert Host(Ci.GITLAB, Path("/p")).attachment(Path("/p/../etc/passwd")) is None
        assert Host(Ci.GITLAB).attachment(log) is None


def parsed(line: str) -> tuple[str, dict[str, str], str] | None:
    """How GitHub's runner reads a line: as `ActionCommand.TryParseV2` does."""
    line = line.lstrip()
    if not line.startswith("::") or "::" not in line[2:]:
        return None
    head, _, data = line[2:].partition("::")
    name, _, listed = head.partition(" ")
    properties = dict(pair.split("=", 1) for pair in listed.split(",") if "=" in pair)

    def back(text: str, *more: tuple[str, str]) -> str:
        for code, char in (("%0D", "\r"), ("%0A", "\n"), *more, ("%25", "%")):
            text = text.replace(code, char)
        return text

    inside = (("%3A", ":"), ("%2C", ","))
    return name, {key: back(value, *inside) for key, value in properties.items()}, back(data)


class TestAnnotations:
    """Commands of GitHub."""

    @given(st.text(max_size=80), st.text(max_size=80))
    def test_nothing_in_them_can_end_them(self, title: str, message: str) -> None:
        line = str(Annotation("error", title, message, "a,b:c.yaml", 3))
        assert len(line.splitlines()) == 1
        found = parsed(line)
        assert found is not None
        name, properties, _ = found
        assert name == "error"
        assert properties.keys() == {"title", "file", "line"}
        assert properties["file"] == "a,b:c.yaml"

    def test_what_they_say_arrives(self) -> None:
        assert parsed(str(Annotation("warning", "50 %: a, b", "100 % ::x, %0A"))) == (
            "warning", {"title": "50 %: a, b"}, "100 % ::x, %0A",
        )  # fmt: skip

    def test_the_gate_and_the_worst_scenarios_within_githubs_limits(self) -> None:
        host = Host(Ci.GITHUB, Path("/repo"))
        places = Places(Path("/repo/bench"), {("a.bench.yaml", "s0"): 7})
        results = [failed(f"s{number}") for number in range(40)]
        broke = tuple(change(f"s{number}") for number in range(20))
        suspects = tuple(change(f"s{number}") for number in range(19, 40))
        gate = gate_report(broke=broke, suspects=suspects)
        found = annotate(host, record(Path("/repo/reports")), results, gate, places)
        assert [one.level for one in found] == ["error"] * ANNOTATIONS + ["warning"] * ANNOTATIONS
        assert found[0] == Annotation("error", "benchmark gate: regressed", gate.why)
        assert found[1] == Annotation(
            "error", "scenario broke",
            "texts/s0 [codex:gpt-5.5]: 1 -> 0, passed 5 of 5 before, 0 of 3 now",
            "bench/a.bench.yaml", 7,
        )  # fmt: skip
        assert (found[2].file, found[2].line) == ("bench/a.bench.yaml", None)
        assert found[10].message.startswith("texts/s20 ")  # s19 is among those that broke

    @pytest.mark.parametrize(
        ("verdict", "policy", "level"),
        [
            ("ok", "evidence", "notice"),
            ("inconclusive", "evidence", "warning"),
            ("inconclusive", "strict", "error"),
            ("invalid", "evidence", "error"),
        ],
    )
    def test_only_what_makes_a_build_fail_is_an_error(self, verdict: str, policy: str, level: str) -> None:
        gate = gate_report(GateVerdict(verdict), policy=GatePolicy(policy), broke=(change(),))
        found = annotate(Host(Ci.GITHUB), record(Path("/r")), [], gate, Places(Path("/r")))
        assert {one.title: one.level for one in found} == {
            f"benchmark gate: {verdict}": level,
            "scenario broke": "warning",
        }

    def test_a_line_is_of_a_file_of_the_repository(self) -> None:
        host, lines = Host(Ci.GITHUB, Path("/repo")), {("a.bench.yaml", "s"): 7}
        inside, outside = Places(Path("/repo/b"), lines), Places(Path("/elsewhere"), lines)
        assert inside.of("a.bench.yaml::s[x]", "s", host) == ("b/a.bench.yaml", 7)
        assert inside.of("a.bench.yaml::t[x]", "t", host) == ("b/a.bench.yaml", None)
        assert outside.of("a.bench.yaml::s[x]", "s", host) == (None, None)

    def test_without_a_gate_the_job_is_noted_and_errors_are_warned_of(self) -> None:
        broken = failed(
            "x", outcome=Outcome.ERROR, score=None, failure=Why(class_="engine_lost", message=HOSTILE)
        )
        found = annotate(Host(Ci.GITHUB), record(Path("/r")), [result(), broken], None, Places(Path("/r")))
        assert [(one.level, one.message.partition(",")[0]) for one in found] == [
            ("notice", f"job {JOB}: 1 of 2 trials passed"),
            ("warning", "1 of 2 trials have no score"),
        ]
        assert all(len(str(one).splitlines()) == 1 for one in found)


class TestGithubFiles:
    """`$GITHUB_STEP_SUMMARY` and `$GITHUB_OUTPUT`."""

    def test_both_are_added_to(self, tmp_path: Path) -> None:
        host, _ = github(tmp_path)
        (tmp_path / "summary").write_text("before")
        lines, troubles = told(host, gate=gate_report(), summary="# ours\n", status=10)
        assert (tmp_path / "summary").read_text() == "before\n# ours\n"
        assert troubles == []
        assert parsed(lines[0]) is not None
        values = dict(
            re.findall(r"^(\w+)<<(?:\w+)\n(.*)\nend_\w+$", (tmp_path / "output").read_text(), re.MULTILINE)
        )
        assert values == {"verdict": "regressed", "mean": "0.6250", "delta": "-7.1", "job": JOB, "exit": "10"}

    def test_a_summary_is_cut_to_what_a_step_may_have(self, tmp_path: Path) -> None:
        host, _ = github(tmp_path)
        (tmp_path / "summary").write_text("x" * (MIB // 2))
        told(host, summary="<details>\n" + "é" * 99 + "\n" + "line\n" * 300_000)
        assert (tmp_path / "summary").stat().st_size <= STEP_SUMMARY_LIMIT == MIB
        assert (
            (tmp_path / "summary")
            .read_text()
            .endswith("line\n\n</details>\n\nThe rest is left out: see `summary.md` of the job.\n")
        )
        told(host, summary="x\n" * MIB)
        assert (tmp_path / "summary").stat().st_size <= MIB + 1

    def test_what_cannot_be_written_is_said(self, tmp_path: Path) -> None:
        host, _ = github(tmp_path, GITHUB_OUTPUT=str(tmp_path))
        lines, troubles = told(host)
        assert troubles == ["GitHub's outputs: Is a directory"]
        assert lines

    def test_no_value_can_assign_another(self, tmp_path: Path) -> None:
        host, _ = github(tmp_path)
        values = outputs(record(tmp_path, id=f"{JOB}\nverdict=ok\nEOF"), [], None, 0)
        assert values == {"verdict": "", "mean": "", "delta": "", "job": f"{JOB} verdict=ok EOF", "exit": "0"}
        told(host)
        told(host)
        ends = re.findall(r"<<(end_[0-9a-f]{32})$", (tmp_path / "output").read_text(), re.MULTILINE)
        assert len(set(ends)) == 10

    def test_the_drop_is_the_worst_of_the_rules_about_the_mean(self, tmp_path: Path) -> None:
        cost = rule_report(rule=Rule(text="cost:5%", metric="cost", amount=0.05), change=-0.9)
        rules = tuple(rule_report(change=change) for change in (0.02, -0.03, -0.01))
        values = outputs(record(tmp_path), [result()], gate_report(rules=(cost, *rules)), 10)
        assert (values["verdict"], values["delta"], values["exit"]) == ("regressed", "-3.0", "10")
        for left in ((), (cost,), (rule_report(change=None),)):
            assert outputs(record(tmp_path), [], gate_report(rules=left), 0)["delta"] == ""

    @pytest.mark.parametrize(
        ("kept", "ends"),
        [
            ("<details>\na\n", True),
            ("<details>\na\n</details>\nb\n", False),
            ("a\n", False),
            ("<details>\na\n</details>\n<details>\nb\n", True),
            ("<details>\n<details>\nb\n", True),
        ],
    )
    def test_what_is_cut_leaves_nothing_open(self, kept: str, ends: bool) -> None:
        whole = kept + "x" * 500
        cut = fitted(whole, len(kept) + 100)
        assert cut.startswith(kept)
        assert cut.removeprefix(kept).startswith("\n</details>\n") is ends
        assert cut.endswith("see `summary.md` of the job.\n")
        assert fitted(whole, len(whole)) == whole
        assert fitted(whole, len(whole) - 1) == cut

    def test_other_systems_are_told_nothing_by_lines(self, tmp_path: Path) -> None:
        assert told(Host(Ci.GITLAB, tmp_path), gate=gate_report()) == ([], [])

    @given(st.text(max_size=400), st.integers(0, 300), st.booleans())
    def test_what_is_cut_fits(self, text: str, limit: int, characters: bool) -> None:
        cut = fitted(text, limit, characters=characters)
        assert (len(cut) if characters else len(cut.encode())) <= limit


def test_a_comment_begins_with_its_name_and_is_as_long_as_the_system_takes() -> None:
    named = record(Path(), name="a --> b\n<x>")
    assert comment(named, [], "x\n", None) == "<!-- benchjobs:a-b-x -->\nx\n"
    assert comment(record(Path()), [result()], "x\n", None).startswith("<!-- benchjobs:texts -->\n")
    assert comment(record(Path()), [], "x\n", None).startswith("<!-- benchjobs:job -->\n")
    long = "\U0001f600 line\n" * 200_000
    assert 65_000 < len(comment(named, [], long, Host(Ci.GITHUB))) <= 65_536
    assert 999_000 < len(comment(named, [], long, Host(Ci.GITLAB))) <= 1_000_000


def test_metrics_are_those_of_each_agent() -> None:
    odd = result(trial("x", 'codex:a"b\\c'), usage=Usage(cost_usd=0.25))
    lines = metrics_text(record(Path()), [result(), odd, failed("y")], gate_report()).splitlines()
    assert 'bench_mean_score{agent="oracle"} 1' in lines
    assert f'bench_cost_usd{{agent="{odd.agent.label}"}} 0.25' in lines
    assert [line for line in lines if line.startswith("bench_gate{")] == [
        'bench_gate{verdict="ok"} 0', 'bench_gate{verdict="no baseline"} 0', 'bench_gate{verdict="regressed"} 1',
        'bench_gate{verdict="inconclusive"} 0', 'bench_gate{verdict="invalid"} 0',
    ]  # fmt: skip
    assert lines[-1] == "# EOF"
    assert all(
        re.fullmatch(r"# (TYPE \w+ gauge|EOF)|\w+\{\w+=\"(?:[^\"\\]|\\.)*\"\} [\d.e+-]+", line)
        for line in lines
    )


@given(
    st.text(max_size=30),
    st.sampled_from(["::", " \t::", "\u2003::", "x\n  ::", "a ##[", "##vso[", "\n##teamcity["]),
    st.text(max_size=30),
)
def test_text_of_an_agent_is_no_command(before: str, sign: str, after: str) -> None:
    text = inert(f"{before}{sign}error::{after}")
    assert not any(line.lstrip().startswith("::") for line in text.split("\n"))
    assert not re.search(r"##\w*\[", text)
    assert inert(text) == text


def test_only_where_somebody_obeys_is_text_made_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("GITHUB_ACTIONS", "TEAMCITY_VERSION"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TF_BUILD", "True")
    assert harmless("##vso[task.setvariable]x") == "# #vso[task.setvariable]x"
    monkeypatch.delenv("TF_BUILD")
    assert harmless("::error::x") == "::error::x"


def test_colours_hide_no_command_and_blanks_take_no_time() -> None:
    assert inert("\x1b[31m ::error::x\x1b[0m") == "\x1b[31m : :error::x\x1b[0m"
    started = time.perf_counter()
    inert("\n" * 200_000 + " " * 200_000)
    assert time.perf_counter() - started < 2


def test_what_is_no_command_stays_as_it_is() -> None:
    text = "a::b ::c\n  x ## heading [1]\nstd::error\n#[attribute]"
    assert inert(text) == text
    assert (
        inert("::error::no\n  ::set-output name=a::b\n##[error]x")
        == ": :error::no\n  : :set-output name=a::b\n# #[error]x"
    )


class TestJunit:
    """What GitLab and Jenkins read of it."""

    def write(self, tmp_path: Path, results: list[TrialResult], **more: Any) -> ET.Element:
        bundle = JobBundle.create(tmp_path / "reports", record(tmp_path / "reports"))
        write_reports(bundle, record(tmp_path / "reports", **more.pop("record", {})), results, **more)
        return ET.fromstring((bundle.root / "junit.xml").read_bytes())

    @pytest.mark.parametrize(
        ("rootdir", "file"),
        [("sub", "sub/a.bench.yaml"), ("", "a.bench.yaml"), ("/elsewhere", "a.bench.yaml")],
    )
    def test_the_file_of_a_failure_is_that_of_the_repository(
        self, tmp_path: Path, rootdir: str, file: str
    ) -> None:
        called = Invocation(arguments=(), directory=tmp_path, rootdir=tmp_path / rootdir)
        written = self.write(
            tmp_path, [failed("s")], record={"invocation": called}, host=Host(Ci.GITLAB, tmp_path)
        )
        assert [case.get("file") for case in written.iter("testcase")] == [file]

    def test_gitlab_finds_name_file_time_verdict_and_log(self, tmp_path: Path) -> None:
        place = "trials/codex/s/1"
        log = tmp_path / "reports" / "jobs" / JOB / place / "agent.log"
        paid = failed("s", path=place, usage=Usage(cost_usd=0.41))
        outside = failed("out", path="../../../..")
        JobBundle.create(tmp_path / "reports", record(tmp_path / "reports"))
        log.parent.mkdir(parents=True)
        log.write_text("log")
        bundle = JobBundle.open(tmp_path / "reports", JOB)
        write_reports(bundle, record(tmp_path), [result(), paid, outside], host=Host(Ci.GITLAB, tmp_path))
        cases = ET.fromstring((bundle.root / "junit.xml").read_bytes()).findall("./testsuite/testcase")
        assert [(case.get("classname"), case.get("name"), case.get("time")) for case in cases] == [
            ("a.bench.yaml", "count[oracle-1]", "2.0"),
            ("a.bench.yaml", "s[codex:gpt-5.5-1]", "2.0"),
            ("a.bench.yaml", "out[codex:gpt-5.5-1]", "2.0"),
        ]
        assert [case.get("file") for case in cases] == [None, "a.bench.yaml", "a.bench.yaml"]
        message = cases[1].find("failure").get("message")  # type: ignore[union-attr]
        assert message == (f"score 0.25 < 1.0 (below_threshold) codex:gpt-5.5 a1 2.0s, $0.41, logs: {place}")
        assert cases[1].findtext("system-out") == f"[[ATTACHMENT|reports/jobs/{JOB}/{place}/agent.log]]"
        assert cases[2].find("system-out") is None
        assert all(
            len(failure.get("message", "")) < 500 for failure in ET.ElementTree(cases[1]).iter("failure")
        )

    def test_suites_tell_mean_interval_gate_and_commit(self, tmp_path: Path) -> None:
        results = [
            result(trial(f"s{n}", "codex:gpt-5.5"), score=score, cluster="repo" if n > 5 else None)
            for n, score in enumerate([1.0, 0.0, 1.0, 1.0, 0.5, 1.0, 1.0, 0.0])
        ]
        git = {"git": {"commit": "abc", "branch": "main", "dirty": False}}
        gate = gate_report(
            broke=(change("s1"),), suspects=(change("s1"), change("s7")), fixed=(change("s0"),)
        )
        root = self.write(tmp_path, results, gate=gate, record={"reproducibility": git})
        found = {one.get("name"): one.get("value") for one in root.findall("./testsuite/properties/property")}
        assert found == {
            "bench_job": JOB, "bench_mean": "0.6875", "bench_ci_low": found["bench_ci_low"], "bench_ci_high": "0.9322",
            "bench_gate": "regressed", "bench_gate_why": gate.why, "bench_baseline": "main", "bench_commit": "abc",
            "bench_branch": "main",
        }  # fmt: skip
        assert 0.3 < float(found["bench_ci_low"] or 0) < 0.5
        marks = {
            case.get("name"): one.get("value")
            for case in root.iter("testcase")
            for one in case.iter("property")
            if one.get("name") == "bench_gate"
        }
        assert marks == {
            "s0[codex:gpt-5.5-1]": "fixed", "s1[codex:gpt-5.5-1]": "broke", "s7[codex:gpt-5.5-1]": "suspect",
        }  # fmt: skip

    def test_agents_have_a_mean_each_and_errors_no_score(self, tmp_path: Path) -> None:
        broken = failed("x", outcome=Outcome.ERROR, score=None)
        root = self.write(tmp_path, [result(), broken])
        names = [one.get("name") for one in root.findall("./testsuite/properties/property")]
        assert names == ["bench_job", "bench_mean[oracle]"]


class TestSize:
    """10,000 trials."""

    def results(
        self, make: Any, file: str = "bench/text-tools.bench.yaml", agent: str = "codex:gpt-5.5"
    ) -> list[TrialResult]:
        # `model_copy`, as making 10,000 anew takes seconds.
        two = failed("x"), result(trial("x", "codex:gpt-5.5"))
        named = ((number, make(number)) for number in range(10_000))
        of_each = (
            {"scenario": name, "node_id": f"{file}::{name}[{agent}]", "path": f"trials/codex/{number}/1"}
            for number, name in named
        )
        return [two[number % 2].model_copy(update=changes) for number, changes in enumerate(of_each)]

    def test_the_summary_stays_below_a_mebibyte_whatever_ids_are_like(self) -> None:
        hostile = self.results(lambda number: f"{number}{HOSTILE}{'`|' * 300}\U0001f600")
        changes = tuple(change(one.scenario, agent=HOSTILE * 9) for one in hostile)
        refs = tuple(
            ScenarioRef(benchmark=HOSTILE, scenario=one.scenario, agent=HOSTILE, why=HOSTILE * 9)
            for one in hostile
        )
        rules = (rule_report(why=HOSTILE * 99, advice=HOSTILE * 99),) * 2000
        gate = gate_report(
            rules=rules, broke=changes, fixed=changes, suspects=changes, known=changes, added=refs, removed=refs,
            changed=refs, unscored=refs, notes=(HOSTILE * 99,) * 999, why=HOSTILE * 99,
        )  # fmt: skip
        text = summary_markdown(record(Path()), hostile, gate)
        assert len(text.encode()) < MIB
        assert "# Job" in text

    def test_junit_of_many_is_short(self) -> None:
        assert FULL_CASES < 10_000
        results = self.results(lambda number: f"task-{number:05}", "tasks.bench.yaml", "codex")
        content = junit_xml(record(Path()), results)
        assert len(content) < MIB
        root = ET.fromstring(content)
        cases = list(root.iter("testcase"))
        assert len({case.get("name") for case in cases}) == len(cases) == 10_000
        failures = [failure.get("message") for failure in root.iter("failure")]
        assert failures == ["score 0.25 < 1.0"] * 5000
        told = [(one.get("name"), one.get("value")) for one in root.iter("property")]
        assert told[-1] == ("bench_detail", "short")
        assert "bench_left_out" not in dict(told)

    def test_junit_of_many_with_long_names_has_all_that_failed_and_says_what_it_has_not(self) -> None:
        results = self.results(lambda number: f"{'task-of-a-large-benchmark-' * 2}{number:05}")
        content = junit_xml(record(Path()), results)
        assert MIB * 0.99 < len(content) < MIB
        root = ET.fromstring(content)
        assert [failure.get("message") for failure in root.iter("failure")] == ["score 0.25 < 1.0"] * 5000
        passed = len(list(root.iter("testcase"))) - 5000
        told = {one.get("name"): one.get("value") for one in root.iter("property")}
        assert 0 < passed < 5000
        assert told["bench_left_out"] == f"{5000 - passed:,} passed"
        assert told["bench_whole"] == f"report.json of job {JOB}"
        (suite,) = root
        assert (suite.get("tests"), suite.get("failures")) == (str(5000 + passed), "5000")
        line = content.decode().splitlines()[1]
        assert line == (
            f"<!-- Left out of this file: {5000 - passed:,} passed. The whole is in report.json of job {JOB}. -->"
        )


_TEXTS = st.text(max_size=30) | st.builds(
    lambda text, times: text * times, st.text(min_size=1), st.integers(1, 300)
)


@st.composite
def _results(draw: st.DrawFn) -> list[TrialResult]:
    results = []
    for number in range(draw(st.integers(1, 60))):
        name = draw(_TEXTS)
        of = trial("s", draw(st.sampled_from(["codex:gpt-5.5", "oracle", "goose:" + "m" * 300])))
        outcome = draw(st.sampled_from([Outcome.PASSED, Outcome.FAILED, Outcome.ERROR, Outcome.SKIPPED]))
        scored = outcome in (Outcome.PASSED, Outcome.FAILED)
        known = draw(st.none() | st.builds(Known, mode=st.sampled_from(KnownMode), reason=_TEXTS))
        results.append(
            result(of).model_copy(
                update={
                    "benchmark": draw(st.sampled_from(["texts", "b" * 400, '&<">' * 90, name])),
                    "scenario": name,
                    "node_id": f"{draw(_TEXTS)}::{name}[{number % 7}]",
                    "path": name,
                    "outcome": outcome,
                    "score": draw(st.sampled_from([0.0, 0.25, 1.0])) if scored else None,
                    "failure": Why(
                        class_=draw(st.sampled_from(["below_threshold", "other" * 20])), message=name
                    )
                    if outcome in (Outcome.FAILED, Outcome.ERROR)
                    else None,
                    "known": known,
                }
            )
        )
    return results


@given(_results(), st.integers(4_000, 60_000))
def test_a_short_junit_file_has_fewer_bytes_than_its_limit(results: list[TrialResult], limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(junit, "FULL_CASES", 0)
        patch.setattr(junit, "LIMIT", limit)
        patch.setattr(junit, "SHARE", limit // 8)
        gate = gate_report(why="&" * 999, baseline="<" * 999)
        content = junit_xml(record(Path()), results, gate, attachment=lambda one: f"{one.path}/agent.log")
    assert len(content) < limit
    root = ET.fromstring(content)
    assert JUnitXml.fromstring(content.decode("utf-8").partition("\n")[2]).tests == len(
        list(root.iter("testcase"))
    )
    cases = list(root.iter("testcase"))
    names = [(case.get("classname"), case.get("name")) for case in cases]
    assert len(set(names)) == len(names)
    kinds = {kind: len(list(root.iter(kind))) for kind in ("failure", "error", "skipped")}
    assert root.get("tests") == str(len(cases))
    for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        assert root.get(attribute) == str(kinds[kind])
        assert sum(int(suite.get(attribute, "")) for suite in root) == kinds[kind]
    comment = re.search(
        r"<!-- Left out of this file: (.*?)\. The whole is in report.json of job", content.decode()
    )
    left = dict(reversed(part.split(" ", 1)) for part in comment[1].split(", ")) if comment else {}
    assert len(cases) + sum(map(int, left.values())) == len(results)
    if "failed" in left or "with an error" in left:
        assert kinds["failure"] + kinds["error"] == len(cases)
