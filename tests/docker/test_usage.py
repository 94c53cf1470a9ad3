"""What an agent writes of its own usage comes out of a real container, whatever it is."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.support import IMAGE, results, run

pytestmark = pytest.mark.docker

NOTHING = {
    "input_tokens": None,
    "output_tokens": None,
    "cached_tokens": None,
    "cache_write_tokens": None,
    "reasoning_tokens": None,
    "cost_usd": None,
    "calls": None,
    "source": None,
}


def _run(directory: Path, command: str, user: str = "root") -> dict[str, Any]:
    (directory / "usage.bench.yaml").write_text(
        textwrap.dedent(f"""\
        benchmark: usage
        scenarios:
          - id: any
            problem_statement: Write down what you use.
            image: {IMAGE}
            network: none
            agent_user: {user}
            agent_timeout: 20
            scorers: [{{name: fine, type: command, command: "true"}}]
        """)
    )
    done = run(directory, "usage.bench.yaml", "--bench-agent", f"command:{command}")
    (result,) = results(directory)
    assert result["outcome"] == "passed", done.stdout
    return result


@pytest.mark.parametrize("user", ["root", "nobody"])
def test_anybody_can_write_it(tmp_path: Path, user: str) -> None:
    said = '{"input_tokens": 12, "cost_usd": 0.5}'
    result = _run(
        tmp_path, f"echo '{said}' > $BENCH_USAGE_FILE.new && mv $BENCH_USAGE_FILE.new $BENCH_USAGE_FILE", user
    )
    assert result["usage"] == NOTHING | {"input_tokens": 12, "cost_usd": 0.5, "source": "agent"}
    assert result["notes"] == []


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf $BENCH_USAGE_FILE",
        "mkfifo $BENCH_USAGE_FILE",
        "mkdir $BENCH_USAGE_FILE",
        "ln -s /etc/passwd $BENCH_USAGE_FILE",
        "ln -s $BENCH_USAGE_FILE $BENCH_USAGE_FILE",
        "rm -r /bench/usage; ln -s /bench/usage /bench/usage",
        "rm -r /bench/usage; ln -s /proc/self /bench/usage; ln -s /dev/zero $BENCH_USAGE_FILE || true",
        "truncate -s 100G $BENCH_USAGE_FILE",
        "head -c 60000 /dev/urandom > $BENCH_USAGE_FILE",
    ],
    ids=["nothing", "fifo", "directory", "link", "loop", "loop above", "proc", "huge", "random"],
)
def test_whatever_else_it_leaves_there_changes_nothing(tmp_path: Path, command: str) -> None:
    result = _run(tmp_path, command)
    assert result["usage"] == NOTHING
    assert all(note.startswith("what the agent says it used cannot be read: ") for note in result["notes"])
    assert len(result["notes"]) <= 1
