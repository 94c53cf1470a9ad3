"""Finished trials as captured runs, `*.replay.json`: to be scored again by other rules, without running anything."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..store.files import write_atomically
from ..store.layout import slug

SUFFIX = ".replay.json"


def write_captures(rows: Iterable[Mapping[str, Any]], directory: Path) -> int:
    """Write a file for each row of an export for training; return how many there are.

    Raises ResultsUnwritable: the directory cannot be written.
    """
    count = 0
    for row in rows:
        run = "/".join(str(row[key]) for key in ("job", "benchmark", "scenario", "agent", "attempt"))
        name = slug(f"{row['benchmark']}.{row['scenario']}.{row['agent']}.{row['attempt']}.{row['job']}")
        text = json.dumps({"run": run, **capture_of(row)}, indent=1, ensure_ascii=False)
        write_atomically(
            directory / f"{name}{SUFFIX}", [text.encode("utf-8", "replace"), b"\n"], durable=False
        )
        count += 1
    return count


def capture_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of an export for training as a captured run. Its outcome is that of the trial."""
    return {
        **{key: row[key] for key in ("job", "benchmark", "scenario", "agent", "model", "attempt", "score")},
        **({"problem": row["prompt"]} if row["prompt"] else {}),
        "duration_ms": round(1000 * row["seconds"]),
        "events": list(_events(row["messages"])),
        "outcome": {"success": row["passed"]},
    }


def _events(messages: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield an event for each message, and one for each call of a tool, with its result."""
    results = {one["tool_call_id"]: one["content"] for one in messages if one["role"] == "tool"}
    for message in messages:
        role = message["role"]
        if role == "tool":
            if not message["tool_call_id"]:
                yield {"kind": "result", "text": message["content"]}
            continue
        if message["content"] or message["reasoning"] or role != "assistant":
            reasoning = {"reasoning": message["reasoning"]} if message["reasoning"] else {}
            yield {"kind": "llm" if role == "assistant" else role, "text": message["content"], **reasoning}
        for call in message["tool_calls"]:
            found = {"result": results[call["id"]]} if call["id"] in results else {}
            yield {"kind": "tool", "name": call["name"], "args": _arguments(call["arguments"]), **found}


def _arguments(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
