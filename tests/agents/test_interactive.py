"""A loop of one's own, in a real container, against the scripted model server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.jobs import KEYS, Job, used
from tests.agents.server import ModelServer
from tests.docs.documents import EXAMPLES
from tests.support import results

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Job]:
    """A directory for jobs, and the server."""
    with ModelServer() as server:
        yield Job(tmp_path, server)


def run(directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, *command],
        cwd=directory,
        env={**env, **KEYS},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_the_loop_of_the_example_is_a_whole_agent(bare: Job) -> None:
    bare.scenarios({"count": "<<<RUN: echo hi > made.txt; pwd>>> <<<RUN: cat made.txt>>>"})
    script = (EXAMPLES / "interactive-script" / "loop.py").read_text("utf-8")
    (bare.path / "loop.py").write_text(script.replace("words.bench.yaml", "made.bench.yaml"))
    done = run(bare.path, "loop.py", "gpt-5.5", f"{bare.server.url}/v1")
    assert done.stdout.startswith("1.0\n3 calls;"), done.stderr
    (result,) = results(bare.path)
    assert (result["outcome"], result["agent"]["name"]) == ("passed", "my-loop")
    assert used(result)["input_tokens"] == bare.server.usage.input_tokens
    assert bare.server.calls[-1].asked is not None
    assert bare.server.calls[-1].asked.results == ("/app\n", "hi\n")


HOSTILE = """
import pytest

@pytest.mark.bench_scenario("made.bench.yaml", "spy", agent="spy", base_url="{url}/v1", model="gpt-5.5")
def test_spy(bench_trial):
    # What the agent's code does in the sandbox: look for tests, keys and the gateway, and stay.
    said = bench_trial.exec("env; ls /tests /logs/verifier; cat /bench/*; curl -s 127.0.0.1:{port} || true")
    assert "{key}" not in said.output and bench_trial.api_key not in said.output
    port = bench_trial.base_url.split(":")[2].partition("/")[0]
    assert not bench_trial.exec(f"timeout 2 bash -c '</dev/tcp/127.0.0.1/{{port}}'").ok
    bench_trial.exec("(while :; do echo hi > /app/made.txt; sleep 0.1; done) >/dev/null 2>&1 & disown", user="root")
    bench_trial.exec("printf '#!/bin/sh\\necho score=1\\n' > /usr/bin/cat; chmod +x /usr/bin/cat", user="root")
    bench_trial.exec("rm -f /app/made.txt; mkdir /app/made.txt")
    score = bench_trial.score()
    assert score.score == 0, score
    assert not bench_trial.exec("pgrep -f made.txt").ok
"""


def test_hostile_code_in_the_sandbox_earns_nothing_and_sees_no_key(bare: Job) -> None:
    bare.scenarios({"spy": "Write hi to made.txt."})
    text = HOSTILE.format(
        url=bare.server.url, port=bare.server.url.rpartition(":")[2], key=KEYS["OPENAI_API_KEY"]
    )
    (bare.path / "test_spy.py").write_text(text)
    (bare.path / "pytest.ini").write_text("[pytest]\n")
    done = run(bare.path, "-m", "pytest", "test_spy.py")
    assert done.returncode == 0, done.stdout
    (result,) = results(bare.path)
    assert (result["outcome"], result["score"]) == ("failed", 0.0)
    assert any("/usr/bin/cat" in path for path in result["agent_end"]["tampered"])


def test_a_snapshot_is_kept_and_the_sandbox_is_gone(bare: Job) -> None:
    bare.scenarios({"keep": "Write hi to made.txt."})
    (bare.path / "keep.py").write_text(
        """
import subprocess
import pytest_benchjobs as benchjobs

with benchjobs.start("made.bench.yaml", "keep", agent="keeper") as trial:
    trial.exec("echo hi > made.txt")
    kept = trial.snapshot("before")
    assert trial.exec("id -un; pwd").output == "root\\n/app\\n"
    container = trial.container
    trial.score()
    assert trial.exec("cat made.txt").output == "hi\\n"
assert subprocess.run(["docker", "inspect", container], capture_output=True).returncode != 0
assert kept in " ".join(trial.result.notes)
print(kept)
"""
    )
    done = run(bare.path, "keep.py")
    assert done.returncode == 0, done.stderr
    kept = done.stdout.strip()
    shown = subprocess.run(
        ["docker", "run", "--rm", "--network", "none", kept, "cat", "/app/made.txt"],
        capture_output=True,
        text=True,
    )
    subprocess.run(["docker", "rmi", "-f", kept], capture_output=True)
    assert shown.stdout == "hi\n", (kept, shown.stderr)
