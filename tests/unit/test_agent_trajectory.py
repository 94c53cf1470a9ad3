"""A trajectory holds what was told, in steps, and no more than its limits; a log is events among noise."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from pytest_benchjobs.agents.reading import reader_of, trajectory
from pytest_benchjobs.agents.reading.reader import Gap, Noise, events
from pytest_benchjobs.agents.reading.trajectory import TEXT_LIMIT, Trajectory
from pytest_benchjobs.model.ending import Ending
from pytest_benchjobs.store.text import clean

from .readings import read


class Told(Trajectory):
    """A trajectory in memory."""

    def __init__(self, **about: Any) -> None:
        self.file = io.BytesIO()
        super().__init__(self.file, "mine", **about)

    def lines(self, ending: Ending | None = None, message: str | None = None) -> list[dict[str, Any]]:
        self.finish(ending, message)
        return [json.loads(line) for line in self.file.getvalue().splitlines()]

    def told(self) -> list[dict[str, Any]]:
        steps = self.lines()[1:-1]
        return [{name: value for name, value in step.items() if name != "step_id"} for step in steps]


# --- steps -----------------------------------------------------------------------------------------------------------


def test_what_has_the_same_source_and_key_is_one_step() -> None:
    told = Told()
    told.say("user", "a", separator="-")
    told.say("user", "b", separator="-")
    told.say("user", "")
    told.say("user", "c", key="k")
    told.say("user", "d")
    told.say("agent", "e", key="k")
    told.think("", key="other")
    told.think("hm", key="k")
    told.say("agent", "", key="other")
    told.say("agent", "f", key="k")
    told.say("agent", "g", key="l")
    assert told.told() == [
        {"source": "user", "message": "a-b"},
        {"source": "user", "message": "c"},
        {"source": "user", "message": "d"},
        {"source": "agent", "message": "ef", "reasoning_content": "hm"},
        {"source": "agent", "message": "g"},
    ]


def test_without_keys_a_step_ends_with_its_results() -> None:
    told = Told()
    told.call("a", "run", {})
    told.say("agent", "meanwhile")
    told.call("b", "run", "text")
    told.result("b", "of b")
    told.result("a", "of a")
    told.say("agent", "then")
    assert told.told() == [
        {
            "source": "agent",
            "message": "meanwhile",
            "tool_calls": [
                {"tool_call_id": "call-1", "function_name": "run", "arguments": {}},
                {"tool_call_id": "call-2", "function_name": "run", "arguments": {"input": "text"}},
            ],
            "observation": {
                "results": [
                    {"source_call_id": "call-2", "content": "of b"},
                    {"source_call_id": "call-1", "content": "of a"},
                ]
            },
        },
        {"source": "agent", "message": "then"},
    ]


def test_with_keys_a_step_goes_on_after_its_results_of_which_a_call_has_one() -> None:
    told = Told()
    told.call("a", "run", {}, key="k")
    told.result("a", "first")
    told.result("a", "second")
    told.say("agent", "then", key="k")
    (step,) = told.told()
    assert step["message"] == "then"
    first, second = step["observation"]["results"]
    assert (first, second) == ({"source_call_id": "call-1", "content": "first"}, {"content": "second"})


# --- its first and last line -----------------------------------------------------------------------------------------


def test_the_first_line_names_what_is_known_when_it_is_written() -> None:
    told = Told(version="1", model="m")
    told.about(version="2")
    told.about(model="n\n")
    told.say("user", "a")
    told.say("agent", "b")
    told.about(version="3")
    assert told.lines()[0]["agent"] == {"name": "mine", "version": "2", "model_name": "n"}
    assert Told().lines()[0]["agent"] == {"name": "mine", "version": "unknown"}


@pytest.mark.parametrize(
    ("ending", "message", "notes"),
    [
        (None, None, "ended: unknown"),
        (Ending.CRASHED, None, "ended: crashed"),
        (Ending.CRASHED, "it fell", "ended: crashed: it fell"),
    ],
)
def test_the_last_line_tells_how_it_ended(ending: Ending | None, message: str | None, notes: str) -> None:
    first, last = Told().lines(ending, message)
    assert last == {"final_metrics": {"total_steps": 0}, "notes": notes}
    assert first["schema_version"] == "ATIF-v1.7"


# --- limits ----------------------------------------------------------------------------------------------------------


def test_a_text_in_pieces_is_kept_as_far_as_it_is_shown() -> None:
    told = Told()
    for _ in range(2 * TEXT_LIMIT // 1000):
        told.say("agent", "x" * 1000)
    told.say("agent", "never kept")
    (step,) = told.told()
    assert step["message"] == clean("x" * 2 * TEXT_LIMIT, TEXT_LIMIT)
    told = Told()
    told.say("agent", "x" * (2 * TEXT_LIMIT - 1))
    told.say("agent", "the last piece")
    (step,) = told.told()
    assert step["message"].endswith("the last piece")


def said(*texts: str) -> Told:
    told = Told()
    for number, text in enumerate(texts):
        told.say("agent", text, key=str(number))
    return told


def test_after_one_that_does_not_fit_no_smaller_step_is_written() -> None:
    with mock.patch.object(trajectory, "BYTE_LIMIT", 200):
        told = said("a", "x" * 300, "c")
        told.finish(None, None)
    assert (told.steps, told.left_out) == (1, 2)


# --- lines of a log --------------------------------------------------------------------------------------------------


def lines_of(log: bytes) -> list[Any]:
    return list(events(io.BytesIO(log)))


EVENT = b'{"type": "x"}'
X = {"type": "x"}


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (b"", []),
        (b"\n \r\n", []),
        (EVENT, [X]),
        (EVENT + b"\n" + EVENT, [X, X]),
        (b"a " + EVENT + b" b " + EVENT + b" c", [Noise("a"), X, Noise("b"), X, Noise("c")]),
        (b'{"type": 1}', [Noise('{"type": 1}')]),
        (b'{"a": {"type": "x"}}', [Noise('{"a": {"type": "x"}}')]),
        (b'{"a": 1} ' + EVENT, [Noise('{"a": 1}'), X]),
        (b'{"broken ' + EVENT, [Noise('{"broken'), X]),
        (b'{"type": "x", "n": NaN}', [{"type": "x", "n": None}]),
        (b"\xff", [Noise("\ufffd")]),
        (b"[... 12 bytes left out ...]\n", [Gap(12)]),
        (b"[... 12 bytes left out ...] x\n", [Noise("[... 12 bytes left out ...] x")]),
        (b'{"a ' * 7 + EVENT, [Noise('{"a ' * 6 + '{"a'), X]),
        (b'{"a ' * 8 + EVENT, [Noise('{"a ' * 8 + '{"type": "x"}')]),
    ],
)
def test_events_are_found_in_a_line(log: bytes, found: list[Any]) -> None:
    assert lines_of(log) == found


# --- a log -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("first\nlast", "; its last output: last"),
        ("an Error\nlast", "; its last output: an Error"),
        ("an error\nit failed\nlast", "; its last output: it failed"),
        ("", ""),
    ],
)
def test_what_it_last_said_tells_of_an_error_if_anything_did(tmp_path: Path, log: str, message: str) -> None:
    reading, _ = read(tmp_path, "codex", log)
    assert reading.ending is Ending.NO_LAST_WORD
    assert reading.message == f"it ended without its final event{message}"


def test_a_trajectory_names_the_agent_it_is_of(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("")
    for agent, name in ((None, "codex"), ("mine", "mine")):
        reader = reader_of("codex", agent=agent, version="1", model="m")
        assert reader is not None
        reader(tmp_path / "log", tmp_path / "trajectory")
        first = json.loads((tmp_path / "trajectory").read_text().splitlines()[0])
        assert first["agent"] == {"name": name, "version": "1", "model_name": "m"}
