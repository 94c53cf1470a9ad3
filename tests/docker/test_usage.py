"""What an agent writes of its own usage comes out of a real container, whatever it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.usage import Usage
from tests.support import IMAGE, results, run

pytestmark = pytest.mark.docker

NOTHING = dict.fromkeys(Usage.model_fields)
MANIFEST = f"""
benchmark: usage
scenarios:
  - id: root
    problem_statement: Write down what you use.
    image: {IMAGE}
    workdir: /app
    network: none
    agent_user: root
    agent_timeout: 120
    scorers: [{{name: fine, type: command, command: "true"}}]
"""


def _run(directory: Path, *commands: str) -> dict[str, dict[str, Any]]:
    """Results by command."""
    (directory / "usage.bench.yaml").write_text(MANIFEST)
    agents = [f"--bench-agent=command:{command}" for command in commands]
    done = run(directory, "usage.bench.yaml", "--bench-concurrency=4", *agents)
    found = {result["agent"]["model"]: result for result in results(directory)}
    assert len(found) == len(commands), done.stdout
    assert {result["outcome"] for result in found.values()} == {"passed"}, done.stdout
    return found


def test_anybody_can_write_it(tmp_path: Path) -> None:
    said = '{"input_tokens": 12, "cost_usd": 0.5}'
    found = _run(
        tmp_path, f"echo '{said}' > $BENCH_USAGE_FILE.new && mv $BENCH_USAGE_FILE.new $BENCH_USAGE_FILE"
    )
    for result in found.values():
        assert result["usage"] == NOTHING | {"input_tokens": 12, "cost_usd": 0.5, "source": "agent"}
        assert result["notes"] == []


ELSE = {
    "nothing": "rm -rf $BENCH_USAGE_FILE",
    "fifo": "mkfifo $BENCH_USAGE_FILE",
    "directory": "mkdir $BENCH_USAGE_FILE",
    "link": "ln -s /etc/passwd $BENCH_USAGE_FILE",
    "loop": "ln -s $BENCH_USAGE_FILE $BENCH_USAGE_FILE",
    "loop above": "rm -r /bench/usage; ln -s /bench/usage /bench/usage",
    "proc": "rm -r /bench/usage; ln -s /proc/self /bench/usage; ln -s /dev/zero $BENCH_USAGE_FILE || true",
    "huge": "truncate -s 100G $BENCH_USAGE_FILE",
    "random": "head -c 60000 /dev/urandom > $BENCH_USAGE_FILE",
}


TOLD = {"huge": "usage.json has 107374182400 bytes, more than 65536", "random": "Invalid JSON"}
"""Of these a note says what was wrong. Of the others nothing is there to be read."""


def test_whatever_else_it_leaves_there_changes_nothing_and_what_cannot_be_read_is_noted(
    tmp_path: Path,
) -> None:
    found = _run(tmp_path, *ELSE.values())
    for name, command in ELSE.items():
        result = found[command]
        assert result["usage"] == NOTHING, result
        if name in TOLD:
            assert len(result["notes"]) == 1, (name, result["notes"])
            [note] = result["notes"]
            assert note.startswith("the usage the agent reported cannot be read: "), note
            assert TOLD[name] in note
        else:
            assert result["notes"] == [], result
