"""The table of faults in docs/outcomes.md: made here, by real agents before a scripted endpoint.

The test of an agent fails when its column differs. With BENCHJOBS_WRITE_TABLES=1 it writes the column instead.
"""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.agents.jobs import AGENTS, EACH, KEYS, Job

pytestmark = [pytest.mark.docker, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "outcomes.md"
COLUMNS = ("model", *AGENTS)
_RUN = "<<<RUN: echo hi > made.txt>>>"
FAULTS = {
    "nothing": "nothing",
    "accepts and never answers": "<<<STALL>>>",
    "drips": "<<<DRIP>>>",
    "status 200 and HTML": "<<<GARBAGE: html>>>",
    "status 200 and broken JSON": "<<<GARBAGE: json>>>",
    "status 200 and other JSON": "<<<GARBAGE: other>>>",
    "status 200 and nothing": "<<<GARBAGE: empty>>>",
    "a stream without its end": "<<<NOEND>>>",
    "an answer cut off": "<<<CUT: all>>>",
    "drops connections": "<<<DROP>>>",
    "the model refuses": "<<<REFUSE>>>",
    "400": "<<<ERR: 400>>>",
    "401": "<<<ERR: 401>>>",
    "429": "<<<ERR: 429>>>",
    "500": "<<<ERR: 500>>>",
}
"""What the endpoint does -> how it is told to."""
_WAITING = ("accepts and never answers", "drips")


def _column(job: Job, agent: str) -> dict[str, str]:
    """Fault -> what became of it, and of what was used."""
    names = {f"f{number:02}": fault for number, fault in enumerate(FAULTS)}
    prompts = {name: f"{FAULTS[fault]} {_RUN}" for name, fault in names.items()}
    spec = job.spec(agent, "gpt-5.5" if agent == "model" else None)
    arguments = ("--bench-agent", spec, "--bench-model-patience", "1", "--bench-concurrency", "3")
    job.scenarios({"f00": prompts.pop("f00")}, timeout=600)
    found = job.run(*arguments, timeout=700)
    # An endpoint is to blame for half of an agent's time, so an agent that waits has to begin in less than that, also
    # on a machine that is busy.
    longest = 30 + 5 * found[0]["seconds"]
    waiting = {name: longest for name in prompts if names[name] in _WAITING}
    job.scenarios(prompts, timeout=600, timeouts=waiting)
    found += job.run(*arguments, timeout=3000)
    assert {result["agent_version"] is None for result in found} == {False}
    return {names[result["scenario"]]: _cell(result) for result in found}


def _cell(result: dict[str, Any]) -> str:
    what = "passed" if result["failure"] is None else result["failure"]["class"]
    assert (result["score"] is None) == (result["outcome"] == "error")
    usage = result["usage"]
    tokens = usage["input_tokens"]
    used = "unknown" if tokens is None else "some" if tokens else "none"
    return f"{what}, {used}"


def _table() -> tuple[str, list[list[str]], str]:
    """The page before its table, the table's cells, and the page after it."""
    before, head, rest = PAGE.read_text().partition("| the endpoint | ")
    lines = (head + rest).splitlines(keepends=True)
    size = next((number for number, line in enumerate(lines) if not line.startswith("|")), len(lines))
    cells = [[cell.strip(" `") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[:size]]
    return before, cells, "".join(lines[size:])


def _write(agent: str, column: dict[str, str]) -> None:
    with PAGE.open("r+") as page:
        fcntl.flock(page, fcntl.LOCK_EX)
        before, cells, after = _table()
        old = {row[0]: dict(zip(COLUMNS, row[1:], strict=False)) for row in cells[2:]}
        lines = [["the endpoint", *COLUMNS], ["---"] * (len(COLUMNS) + 1)]
        for fault in FAULTS:
            row = {**dict.fromkeys(COLUMNS, "?"), **old.get(fault, {}), agent: column[fault]}
            lines.append([fault, *(row[name] for name in COLUMNS)])
        page.truncate()
        page.write(before + "".join(f"| {' | '.join(line)} |\n" for line in lines) + after)


def _check(job: Job, agent: str) -> None:
    column = _column(job, agent)
    assert job.server.keys <= set(KEYS.values())
    if os.environ.get("BENCHJOBS_WRITE_TABLES") == "1":
        _write(agent, column)
    _, cells, _ = _table()
    assert cells[0] == ["the endpoint", *COLUMNS]
    place = cells[0].index(agent)
    assert {row[0]: row[place] for row in cells[2:]} == column, job.output


@pytest.mark.parametrize("agent", EACH)
@pytest.mark.extended
def test_each_fault_is_what_the_table_says(job: Job, agent: str) -> None:
    _check(job, agent)


@pytest.mark.extended
def test_each_fault_is_what_the_table_says_of_the_native_agent(bare: Job) -> None:
    _check(bare, "model")
