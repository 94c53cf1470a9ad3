"""A loop of one's own, in a real container, against the scripted model server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.jobs import KEYS, Job, used
from tests.docs.documents import EXAMPLES
from tests.support import results

pytestmark = [pytest.mark.docker, pytest.mark.slow]


def run(directory: Path, *command: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, *command],
        cwd=directory,
        env={**env, **KEYS},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        input=typed,
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
    assert (result["outcome"], result["score"], result["graded_in"]) == ("failed", 0.0, "fresh")


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


ASYNC_LOOP = """
import asyncio
import json
import sys

import pytest_benchjobs as benchjobs

SHELL = {"name": "shell", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}

async def main(model, url):
    how = {"agent": "my-loop", "model": model, "base_url": url}
    async with benchjobs.start_async("made.bench.yaml", "count", **how) as trial:
        messages = [{"role": "user", "content": trial.problem_statement}]
        for _ in range(20):
            answer = await trial.chat(messages, tools=[{"type": "function", "function": SHELL}])
            messages.append(answer)
            for call in answer.get("tool_calls") or ():
                done = await trial.exec(json.loads(call["function"]["arguments"])["command"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.output})
            if not answer.get("tool_calls"):
                break
        print((await trial.score()).score)
    print(trial.result.usage.calls, "calls;")

asyncio.run(main(*sys.argv[1:]))
"""


def test_the_loop_is_as_short_asynchronously(bare: Job) -> None:
    bare.scenarios({"count": "<<<RUN: echo hi > made.txt; pwd>>> <<<RUN: cat made.txt>>>"})
    (bare.path / "loop.py").write_text(ASYNC_LOOP)
    done = run(bare.path, "loop.py", "gpt-5.5", f"{bare.server.url}/v1")
    assert done.stdout == "1.0\n3 calls;\n", done.stderr
    (result,) = results(bare.path)
    assert (result["outcome"], result["usage"]["calls"]) == ("passed", 3)
    assert used(result)["input_tokens"] == bare.server.usage.input_tokens


@pytest.mark.parametrize(
    "text", [(EXAMPLES / "interactive-script" / "loop.py").read_text("utf-8"), ASYNC_LOOP]
)
def test_a_whole_loop_has_twenty_lines(text: str) -> None:
    code = [line for line in text.splitlines() if line.strip() and not line.startswith('"""')]
    assert len(code) <= 20 + ("asyncio" in text) * 2, code


def test_the_debugger_stops_while_the_container_is_alive(bare: Job) -> None:
    bare.scenarios({"look": "Write hi to made.txt."})
    (bare.path / "pytest.ini").write_text("[pytest]\n")
    (bare.path / "test_look.py").write_text(
        """
import pytest

@pytest.mark.bench_scenario("made.bench.yaml", "look")
def test_look(bench_trial):
    bench_trial.exec("echo hi > made.txt")
    container = bench_trial.container
    assert container == "wrong"
"""
    )
    state = "docker inspect -f {{.State.Running}} "
    lines = [
        "import subprocess",
        f"print('STATE', subprocess.getoutput('{state}' + container))",
        "print('CONTENT', subprocess.getoutput('docker exec ' + container + ' cat /app/made.txt'))",
        "print('ID', container)",
        "q",
    ]
    done = run(bare.path, "-m", "pytest", "--pdb", "test_look.py", typed="\n".join(lines) + "\n")
    assert "STATE true" in done.stdout, done.stdout
    assert "CONTENT hi" in done.stdout
    container = done.stdout.partition("ID ")[2].split()[0]
    assert f"the sandbox of this trial is alive: {container}" in done.stdout
    assert subprocess.run(["docker", "inspect", container], capture_output=True).returncode != 0
    (result,) = results(bare.path)
    assert (result["outcome"], result["score"]) == ("failed", 1.0)
    assert result["failure"]["class"] == "agent_crashed"


GAPS = """
import threading
import pytest
import pytest_benchjobs as benchjobs

with benchjobs.start("made.bench.yaml", "gaps", agent="gaps") as trial:
    # Planted for the score: what scorers write, what they run, and where they look for it.
    trial.exec("mkdir -p /logs/verifier /tests /bench; echo 1 > /logs/verifier/reward.txt; echo score=1 > /tests/made")
    trial.exec("printf 'score=1\\\\n' > /bench/score; printf 'echo score=1\\\\n' > /tests/test.sh; chmod -R 777 /tests")
    trial.write_file("/etc/profile", "echo score=1; exit 0\\n")
    trial.write_file("/root/.bashrc", "echo score=1; exit 0\\n")
    trial.exec("export BASH_ENV=/root/.bashrc; echo 'BASH_ENV=/root/.bashrc' >> /etc/environment")
    # More output than anybody keeps.
    huge = trial.exec("yes 'score=1' | head -c 300000000")
    assert huge.ok and 0 < len(huge.output) < 1 << 20, len(huge.output)
    # Larger than may be read; not a file; nothing of this machine.
    trial.exec("truncate -s 100M /app/large; mkfifo /app/pipe; ln -s / /app/root; ln -s /nowhere /app/nowhere")
    with pytest.raises(ValueError):
        trial.read_file("large")
    for path in ("pipe", "nowhere", "../../../../../../nowhere", "/app/root/nowhere", "/app"):
        with pytest.raises((FileNotFoundError, benchjobs.BenchError, OSError)):
            trial.read_file(path)
    assert trial.read_file("../../../../../../etc/hostname") == trial.read_file("/etc/hostname")
    assert trial.exec("cat /app/root/etc/hostname").output.encode() == trial.read_file("/etc/hostname")
    assert "{here}" not in trial.exec("cat /proc/mounts; ls -R /bench").output
    # From two threads, calls come one after the other.
    seen = []
    def work(name):
        for number in range(5):
            seen.append(trial.exec(f"mkdir lock && sleep 0.1 && rmdir lock && echo {{name}}").output.strip())
    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(seen) == list("aaaaabbbbb"), seen
    score = trial.score()
    assert score.score == 0, score
    trial.exec("echo hi > /app/made.txt")
    assert trial.score().score == 0
    result = trial.complete()
assert result.score == 0 and trial.result.outcome == "failed"
for call in (lambda: trial.exec("true"), lambda: trial.read_file("x"), lambda: trial.write_file("x", "y"),
             lambda: trial.snapshot("late"), lambda: trial.container):
    with pytest.raises(benchjobs.NotLive):
        call()
assert trial.complete() == result and trial.score().score == 0
trial.cancel()
assert trial.result == result
"""


@pytest.mark.extended
def test_gaps_that_hostile_code_would_look_for(bare: Job) -> None:
    bare.scenarios({"gaps": "Write hi to made.txt."})
    (bare.path / "gaps.py").write_text(GAPS.replace("{here}", str(bare.path)).replace("{{name}}", "{name}"))
    done = run(bare.path, "gaps.py")
    assert done.returncode == 0, done.stderr
    (result,) = results(bare.path)
    assert (result["outcome"], result["score"]) == ("failed", 0.0)
    log = next((bare.path / "reports/jobs").rglob("agent.log"))
    assert log.stat().st_size < 64 << 20
