"""Reading the log of an agent, and what holds for every trajectory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from pytest_benchjobs.agents.protocol import AgentReading
from pytest_benchjobs.agents.reading import reader_of
from pytest_benchjobs.agents.reading.trajectory import TEXT_LIMIT, TrajectoryLine

LINE: TypeAdapter[Any] = TypeAdapter(TrajectoryLine)


def read(directory: Path, agent: str, log: bytes | str) -> tuple[AgentReading, list[dict[str, Any]]]:
    """The reading and the trajectory, which has to be what it says it is."""
    source, target = directory / "agent.log", directory / "trajectory.jsonl"
    source.write_bytes(log.encode("utf-8", "replace") if isinstance(log, str) else log)
    reader = reader_of(agent)
    assert reader is not None
    reading = reader(source, target)
    lines = [json.loads(line) for line in target.read_bytes().splitlines()]
    check(lines, reading)
    return reading, lines


def check(lines: list[dict[str, Any]], reading: AgentReading) -> None:
    """The rules of ATIF, and ours."""
    assert lines[0]["schema_version"] == "ATIF-v1.7"
    assert [step["step_id"] for step in lines[1:-1]] == list(range(1, reading.steps + 1))
    assert lines[-1]["final_metrics"]["total_steps"] == reading.steps
    for line in lines:
        LINE.validate_python(line)
    for step in lines[1:-1]:
        calls = {call["tool_call_id"] for call in step.get("tool_calls", ())}
        results = step.get("observation", {}).get("results", ())
        assert {result["source_call_id"] for result in results if "source_call_id" in result} <= calls
        assert step["source"] == "agent" or not calls
        assert len(step["message"]) <= TEXT_LIMIT
        assert all(len(result["content"]) <= TEXT_LIMIT for result in results)
