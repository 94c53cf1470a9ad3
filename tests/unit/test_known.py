"""Known failures: what a file of them says, what is wrong with one, and how they are counted."""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.analysis.known_failures import KnownTally, is_xfail, surprising, tally_known, waived
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.errors import InputError, InputErrors
from pytest_benchjobs.model.known_failure import Known, KnownMode
from pytest_benchjobs.model.result import Outcome, TrialResult
from pytest_benchjobs.report.json import report_json
from pytest_benchjobs.report.junit import junit_xml
from pytest_benchjobs.report.known_failures import known_line, known_records
from pytest_benchjobs.report.markdown import summary_markdown
from pytest_benchjobs.settings.agents import read_agent
from pytest_benchjobs.settings.known import Entry, KnownFailures, known_schema, read_known, read_marker

from .records import record, result, trial

SECTIONS = ["## Errors (not the agents' doing; no score)", "## Known failures"]

TODAY = datetime.date(2027, 1, 31)


def entry(**changes: Any) -> str:
    """An entry that is right but for the changes, which are TOML; None leaves a key out."""
    keys = {"scenario": '"s"', "reason": '"r"', "until": "2999-01-31", **changes}
    return "[[known]]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items() if value is not None)


ISSUE = "https://issues.example/12"
GIT = {"scenario": '"tb/fix-git"', "benchmark": '"t*"', "agent": '"aider:*"', "issue": f'"{ISSUE}"'}
WHOLE = (
    "# The file of a team.\n"
    + entry(**GIT, reason='" Wrong since 2.3 "', until="2027-01-31")
    + entry(scenario='"flaky-*"', until='"2027-02-28"', mode='"quarantine"')
    + entry(scenario='"exact"', strict="true")
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bench-known.toml"


def read(path: Path, text: str) -> KnownFailures:
    path.write_text(text, "utf-8")
    return read_known(path, path.name, TODAY)


def complaints(path: Path, text: str) -> list[str]:
    with pytest.raises(InputErrors) as caught:
        read(path, text)
    return [f"{error.line}: {error.message}" for error in caught.value.errors]


def test_a_file_says_who_fails_why_and_until_when(path: Path) -> None:
    git, flaky, exact = read(path, WHOLE).entries
    assert git == Entry(
        "t*",
        "tb/fix-git",
        "aider:*",
        Known(
            mode=KnownMode.EXPECTED_FAIL, reason="Wrong since 2.3", issue=ISSUE,
            until=TODAY, place="bench-known.toml:2",
        ),
    )  # fmt: skip
    said = f"Wrong since 2.3 ({ISSUE}; bench-known.toml:2; until 2027-01-31)"
    assert git.known.text == said
    assert (flaky.known.mode, flaky.known.place) == (KnownMode.QUARANTINE, "bench-known.toml:9")
    assert (exact.known.strict, exact.benchmark, exact.agent) == (True, None, None)
    data = json.loads(json.dumps(tomllib.loads(WHOLE), default=str))
    jsonschema.validate(data, known_schema(), jsonschema.Draft202012Validator)
    assert read(path, "").entries == ()
    assert read(path, "# nothing is known\n").entries == ()


def about(known: KnownFailures, benchmark: str, scenario: str) -> list[str]:
    return [one.scenario for one in known.about(benchmark, scenario)]


def test_an_entry_is_about_scenarios_and_benchmarks(path: Path) -> None:
    known = read(path, WHOLE)
    assert about(known, "tb", "fix-git") == ["tb/fix-git"]
    assert about(known, "other", "fix-git") == []
    assert about(known, "other", "flaky-x") == ["flaky-*"]
    assert about(known, "other", "Flaky-x") == []
    assert [one.scenario for one in known.unmatched()] == ["exact"]
    about(known, "other", "exact")
    assert known.unmatched() == []


@pytest.mark.parametrize(
    ("pattern", "label", "fits"),
    [
        ("codex", "codex:gpt-5.5", True), ("codex:gpt-5.5", "codex:gpt-5.5", True),
        ("codex:gpt-5", "codex:gpt-5.5", False), ("*:gpt-5.?", "codex:gpt-5.5", True),
        ("command:*", "command:sed 1d x", True), ("*", "oracle", True), ("aider:*", "aider:gpt-5.5", True),
        ("aider:*", "aider", False), ("aider:*", "oracle", False), ("aider:*", "codex:aider:x", False),
    ],
)  # fmt: skip
def test_an_agent_is_named_by_label_pattern_or_name(pattern: str, label: str, fits: bool) -> None:
    known = Known(mode=KnownMode.SKIP, reason="r")
    assert Entry(None, "s", pattern, known).fits(read_agent(label, Path())) is fits


def test_a_pattern_of_ids_says_nothing_of_benchmarks(path: Path) -> None:
    patterns = ("t*", "toys/t*", "*/t*", "t*/one", "toys/", "/one", "*")
    known = read(path, "".join(entry(scenario=json.dumps(pattern)) for pattern in patterns))
    assert about(known, "toys", "one") == ["t*/one", "*"]
    assert about(known, "toys", "two") == ["t*", "toys/t*", "*/t*", "*"]
    assert about(known, "other", "two") == ["t*", "*/t*", "*"]
    assert about(known, "other", "one") == ["*"]


def test_the_first_entry_that_is_about_a_trial_comes_first(path: Path) -> None:
    text = entry(scenario='"s*"', agent='"codex"') + entry(scenario='"s"')
    known = read(path, text + entry(scenario='"b/s"', agent='"oracle"'))
    assert [one.known.place for one in known.about("b", "s")] == [f"bench-known.toml:{n}" for n in (1, 6, 10)]


def test_entries_of_benchmarks_that_were_not_met_may_be_about_something(path: Path) -> None:
    written = {"here/x*": None, "there/x*": None, "x": '"here"', "y": '"there"', "z": None}
    texts = (entry(scenario=json.dumps(one), benchmark=where) for one, where in written.items())
    known = read(path, "".join(texts))
    assert known.unmatched() == []  # nothing was met
    known.about("here", "other")
    assert [one.scenario for one in known.unmatched()] == ["here/x*", "x", "z"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (entry(until="2027-01-30"), ["4: known[0].until: s: its failure was accepted until 2027-01-30, which has"]),
        (entry(until=None), ["1: known[0].until: is required but missing"]),
        (entry(reason=None), ["1: known[0].reason: is required but missing"]),
        (entry(reason='" "'), ["3: known[0].reason: is empty"]),
        (entry(reason="7"), ["3: known[0].reason: text is expected, not 7; put it in quotes"]),
        (entry(until="2027-02-28T00:00:00Z"), ["4: known[0].until: a day such as 2027-01-31 is expected"]),
        (entry(until="20270228"), ["4: known[0].until: a day such as 2027-01-31 is expected"]),
        (entry(until="true"), ["4: known[0].until: a day such as 2027-01-31 is expected"]),
        (entry(until='"2027-02-30"'), ["4: known[0].until: there is no day 2027-02-30"]),
        (entry(mode='"skipp"'), ["5: known[0].mode: 'skipp' is not one of expected-fail, quarantine, skip. did you"]),
        (entry(strict='"yes"'), ["5: known[0].strict: true or false is expected, not 'yes'"]),
        (entry(strict="true", mode='"skip"'), ["5: known[0].strict: s: means nothing with mode skip; leave one"]),
        (entry(agnet='"x"'), ["5: known[0].agnet: unknown key; did you mean 'agent'?"]),
        (entry(zzz="1"), ["5: known[0].zzz: unknown key; available: reason, until, issue, mode, strict, scenario"]),
        (entry(scenario=None, scenarios='"x"'), ["4: known[0].scenarios: unknown key; did you mean 'scenario'?"]),
        (entry() + entry(reason='"other"'), ["5: known[1]: s: line 1 is about the same trials; remove one"]),
        ("[[knwon]]\nx = 1\n", ["1: knwon: unknown key; did you mean 'known'?"]),
        ("[known]\nscenario = 's'\n", ["1: known: a list of tables is expected; write [[known]] above each entry"]),
        ("known = [1]\n", ["1: known[0]: a table of keys is expected, not 1"]),
    ],
)  # fmt: skip
def test_every_mistake_is_told_with_its_line(path: Path, text: str, expected: list[str]) -> None:
    found = complaints(path, text)
    assert len(found) == len(expected)
    for line, beginning in zip(found, expected, strict=True):
        assert line.startswith(beginning)


def test_what_is_no_toml_is_told_with_its_line(path: Path) -> None:
    with pytest.raises(InputError, match=r"bench-known\.toml:2: is not valid TOML"):
        read(path, "[[known]]\nscenario = \n")
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="it is not a file"):
        read_known(path, path.name, TODAY)


_VALUES = st.one_of(
    st.text("ab/*?[!]\"'\\#=\n\t\x00\x1b\x7f\u00e9\u2028\U0001f600", max_size=12).map(
        lambda text: json.dumps(text, ensure_ascii=False)
    ),
    st.sampled_from(
        [
            "2027-01-31", "1999-01-01", "2027-01-31T01:00:00", "07:00:00", "nan", "-inf",
            "9999999999999999999999",
        ]
    ),
    st.sampled_from(
        ["true", "0", "1.5", "[]", "{}", "['x']", "{x = 1}", '"quarantine"', '"*["', '"[!"', '"\\u0007"']
    ),
)  # fmt: skip
_KEYS = st.sampled_from([*Known.model_fields, "scenario", "benchmark", "agent", "Scenario", "unitl"])


@given(st.lists(st.dictionaries(_KEYS, _VALUES, max_size=8), max_size=4))
def test_whatever_is_written_is_read_or_refused_with_a_line(
    tmp_path_factory: pytest.TempPathFactory, tables: list[dict[str, str]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "hostile-known.toml"
    text = "".join(
        "[[known]]\n" + "".join(f"{key} = {value}\n" for key, value in table.items()) for table in tables
    )
    try:
        known = read(path, text)
    except InputErrors as error:
        assert all(one.line is not None and one.message for one in error.errors)
    except InputError as error:
        assert "is not valid TOML" in error.message
    else:
        assert len(known.entries) == len(tables)
        for one in known.entries:
            assert one.known.reason.strip()
            assert one.known.until is not None
            assert one.known.until >= TODAY
            # Any pattern can be asked about anything.
            known.about("b", "s")
            one.fits(AgentSpec(name="oracle"))


# --- a marker


def test_a_marker_says_what_an_entry_says() -> None:
    found = read_marker({"reason": "r", "until": TODAY, "mode": "skip", "issue": None}, TODAY)
    assert found == Known(mode=KnownMode.SKIP, reason="r", until=TODAY)
    assert found.text == "r (until 2027-01-31)"
    assert read_marker({"reason": "r", "until": "2027-01-31", "strict": True}, TODAY).strict


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ({"reason": "r", "until": datetime.datetime(2999, 1, 1)}, "until: a day such as 2027-01-31 is expected"),
        ({"reason": "r", "until": "2027-01-30"}, "until: its failure was accepted until 2027-01-30, which has passed"),
        ({"until": "2999-01-01"}, "reason: is required but missing"),
        ({"reason": "r", "until": "2999-01-01", "scenario": "x"}, "there is no keyword 'scenario'; available: reason"),
        ({"reason": "r", "until": "2999-01-01", "mode": 1}, "mode: 1 is not one of expected-fail, quarantine, skip."),
    ],
)  # fmt: skip
def test_a_wrong_marker_says_what_is_wrong(keywords: dict[str, object], expected: str) -> None:
    with pytest.raises(InputError) as caught:
        read_marker(keywords, TODAY)
    assert str(caught.value).startswith(expected)


# --- how they went


def known(mode: KnownMode = KnownMode.EXPECTED_FAIL, line: int | None = 1, **more: Any) -> Known:
    return Known(mode=mode, reason="r", place=None if line is None else f"bench-known.toml:{line}", **more)


def ended(outcome: Outcome, what: Known | None) -> TrialResult:
    scores = {Outcome.PASSED: 1.0, Outcome.FAILED: 0.0}
    return result(trial(), outcome=outcome, known=what, score=scores.get(outcome))


def test_a_line_counts_them_and_says_which_to_remove() -> None:
    results = [
        ended(Outcome.FAILED, known()), ended(Outcome.FAILED, known()), *[ended(Outcome.PASSED, known(line=12))] * 5,
        ended(Outcome.PASSED, known(KnownMode.QUARANTINE, 20)), ended(Outcome.FAILED, None),
    ]  # fmt: skip
    tally = tally_known(results)
    assert tally == KnownTally(
        expected=7, failed=2, passing=5, quarantined=1, obsolete=("bench-known.toml:12",)
    )
    assert known_line(tally) == (
        "known failures: 7 expected to fail (2 did, 5 pass now: remove them from bench-known.toml:12), 1 quarantined"
    )
    # A pass or two may be luck: of a scenario that passes three times of ten, one is in 30 % of jobs.
    once = tally_known([ended(Outcome.PASSED, known(line=12))])
    assert (once.obsolete, once.passing_once) == ((), ("bench-known.toml:12",))
    assert known_line(once).endswith(
        "(1 passes now: with 5 passes it can be removed from bench-known.toml:12)"
    )
    assert not tally_known([ended(Outcome.FAILED, None)])


@pytest.mark.parametrize("other", [Outcome.FAILED, Outcome.ERROR, Outcome.CANCELLED])
def test_an_entry_is_only_to_be_removed_when_all_it_is_about_passes(other: Outcome) -> None:
    tally = tally_known([ended(Outcome.PASSED, known()), ended(other, known())])
    assert (tally.obsolete, tally.mixed) == ((), ("bench-known.toml:1",))
    assert known_line(tally).endswith("1 passes now: others that bench-known.toml:1 lists still fail)")


@pytest.mark.parametrize("mode", KnownMode)
@pytest.mark.parametrize("outcome", Outcome)
def test_only_what_failed_is_ever_excused(mode: KnownMode, outcome: Outcome) -> None:
    one = ended(outcome, known(mode))
    assert waived(one) is (outcome is Outcome.FAILED and mode is not KnownMode.SKIP)
    assert is_xfail(one) is (mode is not KnownMode.SKIP)
    assert not surprising(one)
    assert not waived(ended(outcome, None))
    assert surprising(ended(outcome, known(strict=True))) is (outcome is Outcome.PASSED)


HOSTILE = "\x1b[31m]]></skipped><script>|\x00`x` @everyone \uffff\n# heading\n| a | b |"


def test_hostile_text_stays_text_in_every_report(tmp_path: Path) -> None:
    hostile = Known(mode=KnownMode.EXPECTED_FAIL, reason=HOSTILE, issue=HOSTILE, place=HOSTILE)
    results = [
        ended(Outcome.FAILED, hostile),
        ended(Outcome.PASSED, hostile),
        ended(Outcome.PASSED, hostile.model_copy(update={"strict": True})),
        ended(Outcome.SKIPPED, hostile.model_copy(update={"mode": KnownMode.SKIP})),
        ended(Outcome.ERROR, hostile),
    ]
    job = record(tmp_path)
    lines = summary_markdown(job, results).splitlines()
    assert [line for line in lines if line.startswith("#")] == ["# Job `" + job.id + "`", *SECTIONS]
    rows = [line for line in lines if "| expected-fail | " in line]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 8 for row in rows)
    assert len(rows) == 4
    suite = ElementTree.fromstring(junit_xml(job, results))
    cases = [[child.tag for child in case if child.tag != "properties"] for case in suite.iter("testcase")]
    assert cases == [["skipped"], [], ["failure"], ["skipped"], ["error"]]
    assert json.loads(b"".join(report_json(job, results)))["known"][0]["reason"] == HOSTILE
    for line in (known_line(tally_known(results)), *(line for line in lines)):
        assert "\x1b" not in line


def test_records_are_plain() -> None:
    (only,) = known_records([ended(Outcome.FAILED, known(until=TODAY)), ended(Outcome.FAILED, None)])
    assert json.loads(json.dumps(only)) == {
        "node_id": only["node_id"], "benchmark": "texts", "scenario": only["scenario"], "agent": "oracle",
        "mode": "expected-fail", "reason": "r", "issue": None, "until": "2027-01-31",
        "place": "bench-known.toml:1", "strict": False, "outcome": "failed", "score": 0.0,
    }  # fmt: skip
