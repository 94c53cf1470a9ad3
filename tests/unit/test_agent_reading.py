"""Logs of agents: those that real ones printed (`agent_logs/`), and whatever else may be in one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.agents.reading import FORMATS, reader_of
from pytest_benchjobs.agents.reading.endings import ending_of
from pytest_benchjobs.agents.reading.reader import LINE_LIMIT
from pytest_benchjobs.agents.reading.trajectory import BYTE_LIMIT, CALL_LIMIT, STEP_LIMIT, TEXT_LIMIT
from pytest_benchjobs.model.ending import Ending
from pytest_benchjobs.store.log import CappedLog

from .readings import read

pytestmark = pytest.mark.when_changed

LOGS = Path(__file__).with_name("agent_logs")
PUBLIC = tuple(name for name in FORMATS if name != "model")


@dataclasses.dataclass(frozen=True)
class Sample:
    """What a real agent printed in a case, and what it means."""

    agent: str
    case: str
    ending: str
    steps: int
    log: str


def samples() -> Iterator[Sample]:
    for path in sorted(LOGS.glob("*.txt")):
        for part in path.read_text().split("#### ")[1:]:
            title, _, log = part.partition("\n")
            case, ending, steps = title.split(" | ")
            yield Sample(path.stem, case, ending, int(steps), log)


SAMPLES = list(samples())


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.agent}: {sample.case}")
def test_what_a_real_agent_printed(tmp_path: Path, sample: Sample) -> None:
    reading, _ = read(tmp_path, sample.agent, sample.log)
    assert (reading.ending, reading.steps) == (Ending(sample.ending), sample.steps)
    assert (reading.message is None) == (reading.ending is Ending.SUCCESS)


@pytest.mark.parametrize("agent", PUBLIC)
def test_the_same_work_is_the_same_trajectory_whoever_did_it(tmp_path: Path, agent: str) -> None:
    (sample,) = [one for one in SAMPLES if (one.agent, one.case) == (agent, "two commands and an answer")]
    _, (header, *steps, footer) = read(tmp_path, agent, sample.log)
    assert header["agent"]["name"] == agent
    first, second, last = [step for step in steps if step["source"] == "agent"]
    commands = [step["tool_calls"][0]["arguments"]["command"] for step in (first, second)]
    assert "echo hi > made.txt; pwd" in commands[0]
    assert "cat made.txt; cat nothere" in commands[1]
    assert first["observation"]["results"][0]["content"].strip() == "/app"
    assert "No such file" in second["observation"]["results"][0]["content"]
    assert last["message"] == "I am done"
    totals = footer["final_metrics"]
    counted = [totals[f"total_{name}_tokens"] for name in ("prompt", "completion", "cached")]
    assert counted == [3690, 120, 600]


@pytest.mark.parametrize("agent", PUBLIC)
def test_without_its_final_event_an_agent_has_no_last_word(tmp_path: Path, agent: str) -> None:
    (sample,) = [one for one in SAMPLES if (one.agent, one.case) == (agent, "two commands and an answer")]
    lines = sample.log.splitlines()
    last = max(number for number, line in enumerate(lines) if line.startswith("{"))
    reading, _ = read(tmp_path, agent, "\n".join(lines[:last]))
    assert reading.ending is Ending.NO_LAST_WORD
    assert "without its final event" in (reading.message or "")


@pytest.mark.parametrize("agent", FORMATS)
@pytest.mark.parametrize(
    "log", ["", "\n\n", "Segmentation fault (core dumped)\n", '{"type": "unheard of"}\n']
)
def test_nothing_to_read_is_no_last_word(tmp_path: Path, agent: str, log: str) -> None:
    reading, _ = read(tmp_path, agent, log)
    assert reading.ending is Ending.NO_LAST_WORD
    assert ("Segmentation" in (reading.message or "")) == ("Segmentation" in log)


def test_a_log_that_is_not_there_is_told(tmp_path: Path) -> None:
    reader = reader_of("codex")
    assert reader is not None
    reading = reader(tmp_path / "nothing", tmp_path / "trajectory.jsonl")
    assert (reading.ending, reading.steps) == (None, 0)
    assert "could not be read" in (reading.message or "")
    assert not (tmp_path / "trajectory.jsonl").exists()


def test_there_is_no_reader_of_a_format_nobody_knows() -> None:
    assert reader_of("telepathy") is None


def test_events_among_noise_are_found(tmp_path: Path) -> None:
    text = json.dumps({"type": "item.completed", "item": {"type": "agent_message", "text": "hello"}})
    done = json.dumps({"type": "turn.completed"})
    log = f'warning {{"x": 1}} {text}{done} bye\n\x1b[31mnoise\x1b[0m\n'
    reading, (_, step, _) = read(tmp_path, "codex", log)
    assert reading.ending is Ending.SUCCESS
    assert step["message"] == "hello"


def test_a_cut_in_the_log_is_a_step(tmp_path: Path) -> None:
    one = json.dumps({"type": "item.completed", "item": {"type": "agent_message", "text": "x" * 500}})
    with CappedLog(tmp_path / "capped.log", limit=3000) as log:
        for _ in range(20):
            log.write(one.encode() + b"\n")
        log.write(b'{"type": "turn.completed"}\n')
    reading, lines = read(tmp_path, "codex", (tmp_path / "capped.log").read_bytes())
    assert reading.ending is Ending.SUCCESS
    gaps = [step["message"] for step in lines if step.get("source") == "system"]
    assert gaps == [f"[... {log.left_out} bytes of the log are left out ...]"]


def test_text_is_plain_whatever_it_was(tmp_path: Path) -> None:
    item = {"type": "agent_message", "text": "\x1b[31mred\x1b[0m \u202e \ud800 \x00 ok"}
    call = {"type": "command_execution", "id": "1", "command": "a\x07b", "aggregated_output": "\x9b1mx"}
    log = "".join(json.dumps({"type": "item.completed", "item": one}) + "\n" for one in (item, call))
    _, (_, step, _) = read(tmp_path, "codex", log)
    assert step["message"] == "red  \ufffd  ok"
    assert step["tool_calls"][0]["arguments"] == {"command": "ab"}
    assert step["observation"]["results"][0]["content"] == "x"


def test_every_size_is_bounded(tmp_path: Path) -> None:
    def call(number: int) -> dict[str, Any]:
        return {"type": "tool_use", "id": f"t{number}", "name": "n" * 5000, "input": {"x": "y" * 100_000}}

    huge = {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "z" * 10**6}]}}
    many = {
        "type": "assistant",
        "message": {"id": "n", "content": [call(0)] * 3 + [{"type": "tool_use"}] * 1000},
    }
    reading, (_, first, second, _) = read(
        tmp_path, "claude-code", f"{json.dumps(huge)}\n{json.dumps(many)}\n"
    )
    assert reading.steps == 2
    assert TEXT_LIMIT - 10 <= len(first["message"]) <= TEXT_LIMIT
    assert len(second["tool_calls"]) == CALL_LIMIT
    assert len(json.dumps(second["tool_calls"][0])) < TEXT_LIMIT + 500


def test_a_line_that_is_too_long_is_left_out(tmp_path: Path) -> None:
    long = b'{"type": "item.completed", "item": {"text": "' + b"x" * LINE_LIMIT + b'"}}\n'
    reading, (_, step, _) = read(tmp_path, "codex", long + b'{"type": "turn.completed"}\n')
    assert reading.ending is Ending.SUCCESS
    assert step["message"] == f"[... {len(long)} bytes of the log are left out ...]"


def test_steps_are_limited_and_the_rest_is_counted(tmp_path: Path) -> None:
    line = json.dumps({"type": "text", "part": {"text": "x", "messageID": "%d"}}) + "\n"
    log = "".join(line.replace("%d", str(number)) for number in range(STEP_LIMIT + 7))
    reading, lines = read(tmp_path, "opencode", log)
    assert reading.steps == STEP_LIMIT
    assert "7 more steps are left out" in lines[-1]["notes"]


def test_bytes_are_limited(tmp_path: Path) -> None:
    text = json.dumps({"type": "text", "part": {"text": "%d" + "x" * TEXT_LIMIT, "messageID": "%d"}}) + "\n"
    count = BYTE_LIMIT // TEXT_LIMIT + 50
    read(tmp_path, "opencode", "".join(text.replace("%d", str(number)) for number in range(count)))
    assert (tmp_path / "trajectory.jsonl").stat().st_size < BYTE_LIMIT + 10_000


@pytest.mark.parametrize("depth", [100, 1000, 100_000])
def test_nesting_does_not_matter(tmp_path: Path, depth: int) -> None:
    nested = '{"a":' * depth + "1" + "}" * depth
    log = '{"type":"tool_use","tool_name":"t","tool_id":"1","parameters":' + nested + "}\n"
    reading, _ = read(tmp_path, "gemini-cli", log + '{"type":"result","status":"success"}\n')
    assert reading.ending is Ending.SUCCESS


def test_numbers_that_are_none_do_not_matter(tmp_path: Path) -> None:
    usage = '{"input_tokens": NaN, "output_tokens": -1, "cache_read_input_tokens": 1e999, "x": ' + "9" * 4000
    result = '{"type":"result","subtype":"success","is_error":false,"total_cost_usd":Infinity,"usage":'
    reading, (_, footer) = read(tmp_path, "claude-code", result + usage + "}}")
    assert reading.ending is Ending.SUCCESS
    assert footer["final_metrics"] == {"total_steps": 0}


def test_a_result_that_comes_late_is_kept(tmp_path: Path) -> None:
    def said(kind: str, key: str, **block: Any) -> str:
        return json.dumps({"type": kind, "message": {"id": key, "content": [block]}}) + "\n"

    log = said("assistant", "a", type="tool_use", id="1", name="Bash", input={"command": "sleep 1"})
    log += said("assistant", "b", type="text", text="meanwhile")
    log += said("user", "", type="tool_result", tool_use_id="1", content=[{"type": "text", "text": "late"}])
    _, (_, first, second, _) = read(tmp_path, "claude-code", log)
    assert "observation" not in first
    assert second["observation"] == {"results": [{"content": "late"}]}


def test_output_that_confuses_a_reader_is_a_crash_of_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def confused(self: object, event: object) -> None:
        raise TypeError("never seen before")

    monkeypatch.setattr("pytest_benchjobs.agents.reading.codex.Codex.event", confused)
    source, target = tmp_path / "agent.log", tmp_path / "trajectory.jsonl"
    source.write_text('{"type":"turn.completed"}')
    reader = reader_of("codex")
    assert reader is not None
    assert reader(source, target).ending is Ending.CRASHED
    assert not target.exists()


@pytest.mark.parametrize(
    ("message", "ending"),
    [
        ("unexpected status 403 Forbidden", Ending.AUTHENTICATION),
        ("API Error: 529 overloaded", Ending.ENDPOINT_DOWN),
        ("got status: 408", Ending.ENDPOINT_DOWN),
        ('{"error":{"code":400,"message":"API key not valid. Please pass one"}}', Ending.AUTHENTICATION),
        ("status 413", Ending.REFUSED),
        ("status 402 Payment Required", Ending.QUOTA),
        ("Not logged in · Please run /login", Ending.AUTHENTICATION),
        ("prompt is too long: 300000 tokens", Ending.REFUSED),
        ("I wrote 404 lines", None),
        ("", None),
    ],
)
def test_an_error_means_what_it_says(message: str, ending: Ending | None) -> None:
    assert ending_of(message) == ending


keys = st.sampled_from(
    [
        "type", "message", "content", "text", "id", "part", "state", "input", "output", "item", "usage",
        "role", "error", "data", "stats", "subtype", "result", "tool_use_id", "tool_id", "parameters",
        "toolCall", "value", "toolResult", "metadata", "tokens", "cache", "calls", "arguments", "turn",
        "status", "reason",
    ]
)  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10) | keys,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=8,
)
types = st.sampled_from(
    [
        "system", "assistant", "user", "result", "message", "tool_use", "tool_result", "error",
        "item.started", "item.completed", "turn.completed", "turn.failed", "text", "reasoning", "step_finish",
        "complete", "begin", "answer", "end", "tool_use", "toolRequest",
    ]
)  # fmt: skip
shaped = st.builds(
    lambda kind, rest: json.dumps({**rest, "type": kind}), types, st.dictionaries(keys, values)
)


@given(agent=st.sampled_from(FORMATS), lines=st.lists(shaped | st.binary(max_size=60), max_size=8))
def test_events_of_any_shape_never_raise(
    tmp_path_factory: pytest.TempPathFactory, agent: str, lines: list[str | bytes]
) -> None:
    log = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    read(tmp_path_factory.getbasetemp(), agent, log)


@given(
    sample=st.sampled_from(SAMPLES),
    cuts=st.lists(st.integers(0, 6000), max_size=6).map(sorted),
    noise=st.binary(max_size=20),
)
def test_real_logs_cut_and_merged_anywhere_never_raise(
    tmp_path_factory: pytest.TempPathFactory, sample: Sample, cuts: list[int], noise: bytes
) -> None:
    log = sample.log.encode()
    pieces = [log[start:end] for start, end in zip([0, *cuts], [*cuts, len(log)], strict=True)]
    read(tmp_path_factory.getbasetemp(), sample.agent, noise.join(pieces[::2]))


def test_results_and_figures_belong_to_a_step_of_the_agent_whatever_came_before(tmp_path: Path) -> None:
    result = {"type": "result", "id": "never called", "output": "found"}
    figures = {"type": "answer", "turn": 1, "usage": {"prompt_tokens": 5}}
    for before in ([], [{"type": "user", "text": "Try."}]):
        _, (_, *steps, _) = read(tmp_path, "model", "\n".join(map(json.dumps, [*before, result])))
        assert [step["source"] for step in steps] == [*(["user"] if before else []), "agent"]
        assert steps[-1]["observation"]["results"] == [{"content": "found"}]
        assert all("observation" not in step for step in steps[:-1])
        # An answer without a word makes no step, and the one before is not what it took.
        _, (_, *steps, _) = read(tmp_path, "model", "\n".join(map(json.dumps, [*before, figures])))
        assert [step["source"] for step in steps] == ["user"] * len(before)
        assert all("metrics" not in step for step in steps)


@pytest.mark.parametrize(("delta", "said"), [("true", "onetwo"), ("false", "one\ntwo"), ("1", "one\ntwo")])
def test_gemini_names_its_model_and_its_messages_join_as_they_were_sent(
    tmp_path: Path, delta: str, said: str
) -> None:
    log = '{"type":"init","model":"gemini-9"}\n{"type":"message","role":"user","content":"do it"}\n'
    for text in ("one", "two"):
        log += f'{{"type":"message","role":"assistant","content":"{text}","delta":{delta}}}\n'
    _, lines = read(tmp_path, "gemini-cli", log)
    assert lines[0]["agent"]["model_name"] == "gemini-9"
    assert [(step["source"], step["message"]) for step in lines[1:-1]] == [("user", "do it"), ("agent", said)]
