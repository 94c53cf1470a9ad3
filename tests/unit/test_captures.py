"""Runs that were captured: what is read, what is refused, and how they are scored."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_benchjobs.agents.captured import Captured
from pytest_benchjobs.agents.protocol import AgentCall
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.errors import AgentSetupFailed, InputError
from pytest_benchjobs.model.scenario import Scenario
from pytest_benchjobs.sandbox.memory import MemorySandbox
from pytest_benchjobs.scoring.builtin import builtin_scorers
from pytest_benchjobs.scoring.grade import make_context, run_scorer
from pytest_benchjobs.sources.captures import Check, read_capture
from pytest_benchjobs.sources.catalogue import find
from pytest_benchjobs.sources.catalogue.entry import Entry, Parameters
from pytest_benchjobs.sources.datasets.replay import Captures

from .records import trial

EVENTS = [
    {"kind": "llm", "ts": 0, "duration_ms": 500, "text": "I look."},
    {"kind": "tool", "ts": 600, "duration_ms": 250, "name": "bash", "args": {"command": "ls /etc"}},
    {"kind": "tool", "ts": 2000, "name": "edit", "args": {"path": "a.py", "times": 1}},
]


def captured(tmp_path: Path, data: Any, name: str = "one.replay.json") -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data), "utf-8")
    return path


def opened(**values: Any) -> Captures:
    entry = find("replay-scoring")
    assert isinstance(entry, Entry)
    (source,) = entry.sources(given=Parameters(values, frozenset(values)))
    assert isinstance(source, Captures)
    return source


def scored(scenario: Scenario, tmp_path: Path) -> list[Any]:
    sandbox = MemorySandbox()
    return [
        run_scorer(
            make_context(scenario, spec, sandbox, timeout=5, env={}, directory=tmp_path / "trial"),
            builtin_scorers()[spec.type],
            str,
        )
        for spec in scenario.scorers
    ]


def test_a_run_is_read(tmp_path: Path) -> None:
    capture = read_capture(
        captured(tmp_path, {"events": EVENTS, "outcome": {"success": True}, "problem": "Do."})
    )
    assert capture.kinds == {"llm": 1, "tool": 2}
    assert (capture.success, capture.duration_ms, capture.problem) == (True, 2000.0, "Do.")


@pytest.mark.parametrize(
    ("times", "duration"),
    [
        ((1, 4.5), 3.5),
        (("2026-03-02T09:00:00Z", "2026-03-02T10:00:01+01:00"), 1000.0),
        (("2026-03-02T09:00:00", "2026-03-02T09:00:00.250Z"), 250.0),
        ((None, 7), None),
        ((9, 2), 7.0),
    ],
)
def test_times_are_milliseconds_or_dates(
    tmp_path: Path, times: tuple[Any, Any], duration: float | None
) -> None:
    events = [{"kind": "llm", **({} if at is None else {"ts": at})} for at in times]
    assert read_capture(captured(tmp_path, {"events": events})).duration_ms == duration
    assert read_capture(captured(tmp_path, {"events": events, "duration_ms": 5})).duration_ms == 5.0


@pytest.mark.parametrize("outcome", [{}, {"outcome": None}, {"outcome": {}}, {"outcome": {"success": None}}])
def test_an_outcome_that_is_not_told_is_unknown(tmp_path: Path, outcome: dict[str, Any]) -> None:
    assert read_capture(captured(tmp_path, {"events": [], **outcome})).success is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"events": [],\n "outcome": }', r"one\.replay\.json:2: is not JSON: Expecting value \(column 13, offset 27\)"),
        ('{"events": [],\n\n "x": NaN}', r"one\.replay\.json:3: is not JSON: NaN is no number"),
        ('{"x": "NaN", "y": -Infinity}', r":1: is not JSON: -Infinity is no number"),
        ('{"outcome":\n {"success": false,\n "success": true}}', r"json:3: has the key 'success' twice in one object"),
        ("[" * 200_000, "is nested too deeply"),
        ('{"events": [], "x": ' + "[" * 150 + "]" * 150 + "}", "is nested more than 100 levels deep"),
        ('{"events": [], "x": ' + "9" * 5000 + "}", "is not JSON: "),
        ('{"events": [{"kind": "llm", "ts": 1e999}]}', r"events\[0\]\.ts: a number is expected, not inf"),
        ('{"events": [{"kind": "llm", "ts": true}]}', r"events\[0\]\.ts: a number is expected, not True"),
        ('{"events": [{"kind": "llm", "ts": "noon"}]}', r"events\[0\]\.ts: a time in ISO 8601"),
        ('{"events": [{"kind": "llm", "duration_ms": -1}]}', r"events\[0\]\.duration_ms: it is below 0"),
        ('{"events": [{"kind": "\\u001b[31m"}]}', r"events\[0\]\.kind: llm, tool, decision or another word"),
        ('{"events": [{"kind": "llm"},\n  {"kind": "llm",\n   "ts": true}]}', r"json:3: events\[1\]\.ts: a number is expected"),
        ('{"events": [{"kind": "llm"},\n  {"ts": 1}]}', r"json:2: events\[1\]\.kind: llm, tool"),
        ('{\n\t"events": [],\n\t"outcome": {"success": 1}}', r"json:3: outcome\.success: true or false"),
        ('{"events": [1]}', r"json:1: events\[0\]: an object is expected"),
        ('{"events": {}}', "events: a list is expected"),
        ("{}", "json:1: events: a list is expected"),
        ("[]", "is no object"),
        ("", "is not JSON"),
        ('{"events": [], "outcome": {"success": "yes"}}', "outcome.success: true or false is expected, not 'yes'"),
        ('{"events": [], "outcome": {"success": 1}}', "outcome.success: true or false is expected, not 1"),
        ('{"events": [], "outcome": true}', "outcome.success: true or false is expected, not True"),
    ],
)  # fmt: skip
def test_what_is_no_run_says_what_and_where(tmp_path: Path, text: str, message: str) -> None:
    path = captured(tmp_path, text)
    with pytest.raises(InputError, match=message) as caught:
        read_capture(path)
    assert str(caught.value).startswith(str(path))


def test_what_is_too_large_or_no_text_or_no_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_benchjobs.sources.captures.FILE_LIMIT", 1000)
    monkeypatch.setattr("pytest_benchjobs.sources.captures.EVENT_LIMIT", 3)
    with pytest.raises(InputError, match="is larger than 1000 bytes"):
        read_capture(captured(tmp_path, '{"events": []' + " " * 1000 + "}"))
    with pytest.raises(InputError, match="there are 4, more than 3"):
        read_capture(captured(tmp_path, {"events": [{"kind": "llm"}] * 4}))
    (tmp_path / "two.replay.json").write_bytes(b'{"events": []}\n\xff')
    with pytest.raises(InputError, match=r":2: is not UTF-8 text"):
        read_capture(tmp_path / "two.replay.json")
    os.mkfifo(tmp_path / "three.replay.json")
    with pytest.raises(InputError, match="it is not a file"):
        read_capture(tmp_path / "three.replay.json")


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.text() | st.sampled_from(["events", "kind", "ts", "outcome", "success"]), inner
            )
        ),
    )
)
def test_anything_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    path = tmp_path_factory.mktemp("any") / "any.replay.json"
    path.write_text(json.dumps(data), "utf-8")
    try:
        assert read_capture(path).success in (True, False, None)
    except InputError as error:
        assert str(path) in str(error)


@pytest.mark.parametrize(
    ("check", "found", "holds"),
    [
        ({"kind": "tool"}, 2, True),
        ({"kind": "decision"}, 0, False),
        ({"kind": "decision", "max": 0}, 0, True),
        ({"max": 2}, 3, False),
        ({"min": 3, "max": 3}, 3, True),
        ({"where": {"name": "bash"}}, 1, True),
        ({"where": {"args.path": "a.py"}}, 1, True),
        ({"where": {"args.times": True}}, 0, False),
        ({"where": {"args": {"command": "ls /etc"}}}, 1, True),
        ({"contains": "/etc", "max": 0}, 1, False),
        ({"contains": "command", "max": 0}, 0, True),
        ({"measure": "seconds", "max": 2}, 2.0, True),
        ({"measure": "seconds", "kind": "llm", "max": 0.4}, 0.5, False),
        ({"measure": "seconds", "kind": "tool", "max": 9}, None, None),
        ({"measure": "seconds", "kind": "decision", "max": 9}, 0.0, True),
    ],
)
def test_checks(tmp_path: Path, check: dict[str, Any], found: float | None, holds: bool | None) -> None:
    capture = read_capture(captured(tmp_path, {"events": EVENTS}))
    asked = Check.model_validate(check)
    assert asked.measured(capture) == found
    if found is not None:
        least, most = asked.bounds
        assert (least <= found <= most) is holds
    assert str(asked)


@pytest.mark.parametrize(
    "check",
    [
        {"measure": "seconds"},
        {"min": 2, "max": 1},
        {"max": -1},
        {"max": float("nan")},
        {"kinds": "llm"},
        {"contains": ""},
    ],
)
def test_a_check_that_makes_no_sense_is_refused(check: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Check.model_validate(check)


def test_each_capture_is_a_scenario(tmp_path: Path) -> None:
    for name in (
        "b.replay.json",
        "a.replay.json",
        "notes.json",
        "below/c.replay.json",
        "Zwölf & 1.replay.json",
    ):
        captured(tmp_path, {"events": EVENTS, "outcome": {"success": True}}, name)
    names = [ref.id for ref in opened(capture_path=str(tmp_path)).refs()]
    assert names[1:] == ["a", "b"]
    assert names[0].startswith("capture-Zwölf---1-")
    below = [ref.id for ref in opened(capture_path=str(tmp_path), capture_glob="**/*.replay.json").refs()]
    assert "below.c" in below
    assert len(below) == 4
    (one,) = opened(capture_path=str(tmp_path / "notes.json")).refs()
    assert one.id == "notes"


def test_a_run_without_an_outcome_has_no_score(tmp_path: Path) -> None:
    path = captured(tmp_path, {"events": EVENTS})
    scenario = opened(capture_path=str(path)).load("one")
    for text, words in (
        (path.read_text(), "it is unknown whether the run succeeded"),
        ('{"events": [], "outcome": {"success": false, "success": true}}', "twice in one object"),
    ):
        path.write_text(text)
        (result,) = scored(scenario, tmp_path)
        assert (result.score, result.error.class_) == (None, "score_missing")
        assert words in result.error.message


@pytest.mark.parametrize(("success", "score"), [(True, 1.0), (False, 0.0)])
def test_the_recorded_outcome_is_the_score(tmp_path: Path, success: bool, score: float) -> None:
    path = captured(tmp_path, {"events": EVENTS, "outcome": {"success": success, "score": 1e9}})
    (result,) = scored(opened(capture_path=str(path)).load("one"), tmp_path)
    assert (result.score, result.error) == (score, None)
    assert {one.name: (one.value, one.unit, one.direction) for one in result.metrics} == {
        "events.tool": (2, None, "lower"),
        "events.llm": (1, None, "lower"),
        "events.decision": (0, None, "lower"),
        "seconds": (2, "s", "lower"),
    }
    assert result.details == {
        "success": success,
        "events": 3,
        "kinds": {"llm": 1, "tool": 2},
        "duration_ms": 2000.0,
    }


def test_checks_score_by_their_share_and_what_is_unknown_is_no_score(tmp_path: Path) -> None:
    path = captured(tmp_path, {"events": EVENTS, "outcome": {"success": True}})
    checks: list[dict[str, Any]] = [{"kind": "tool"}, {"kind": "llm", "max": 0}]
    results = scored(opened(capture_path=str(path), checks=checks).load("one"), tmp_path)
    assert [(result.name, result.score) for result in results] == [("outcome", 1.0), ("checks", 0.5)]
    # The first scorer tells them for both.
    assert [bool(result.metrics) for result in results] == [True, False]
    assert results[1].output == "ok   count of tool: 2 (from 1 to inf)\nNOT  count of llm: 1 (from 0 to 0)"
    checks.append({"measure": "seconds", "kind": "tool", "max": 1})
    (result,) = scored(opened(capture_path=str(path), checks=checks, outcome=False).load("one"), tmp_path)
    assert result.error.class_ == "score_missing"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "replay-scoring: capture_path is missing: name a file or a directory"),
        ({"capture_path": "nowhere"}, "capture_path: there is no file or directory 'nowhere'"),
        ({"capture_path": ""}, "capture_path: there is no file or directory ''"),
        ({"capture_path": 7}, "capture_path"),
        ({"capture_path": ".", "capture_glob": "../*"}, "leads out of capture_path"),
        ({"capture_path": ".", "capture_glob": "/etc/*"}, "leads out of capture_path"),
        ({"capture_path": ".", "capture_globb": "*"}, "there is no parameter 'capture_globb'; did you mean 'capture_glob'"),
        ({"capture_path": ".", "outcome": False}, "nothing would be scored"),
        ({"capture_path": ".", "checks": [{"kind": 1}]}, "checks"),
        ({"capture_path": ".", "scorers": [{"type": "capture", "name": "outcome"}]}, "'outcome' is the name of two"),
        ({"capture_path": ".", "scorers": [{"name": "x"}]}, "type"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_told(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        opened(**values)
    assert message in str(caught.value)


def test_parameters_of_agents_are_no_mistake(tmp_path: Path) -> None:
    captured(tmp_path, {"events": []})
    assert opened(capture_path=str(tmp_path), temperature=0.5, effort="high").refs()


def test_a_directory_without_captures_and_what_leads_out_of_it_are_refused(tmp_path: Path) -> None:
    secret = captured(tmp_path, {"events": []}, "elsewhere/secret.replay.json")
    (tmp_path / "captures").mkdir()
    with pytest.raises(InputError, match=r"has no captured run: no file matches '\*\.replay\.json'"):
        opened(capture_path=str(tmp_path / "captures")).refs()
    (tmp_path / "captures" / "a.replay.json").symlink_to(secret)
    with pytest.raises(InputError, match=r"a\.replay\.json: is a link that leads out of capture_path"):
        opened(capture_path=str(tmp_path / "captures")).refs()


def test_two_captures_of_one_name_are_refused(tmp_path: Path) -> None:
    captured(tmp_path, {"events": []}, "a/b.replay.json")
    captured(tmp_path, {"events": []}, "a.b.replay.json")
    with pytest.raises(InputError, match=r"would have the name of .*: a\.b; rename one"):
        opened(capture_path=str(tmp_path), capture_glob="**/*.replay.json").refs()


def test_the_agent_runs_nothing_but_captures() -> None:
    call = AgentCall(scenario=trial().scenario, spec=AgentSpec(name="captured"), env={}, timeout=1)
    with pytest.raises(AgentSetupFailed, match="is no captured run, and captured runs no agent"):
        Captured().prepare(call)
