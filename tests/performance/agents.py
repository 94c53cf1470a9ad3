"""What a trial adds to an agent's own start, and what sixteen trials share."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pytest_benchjobs.agents.builtin import builtin_agents
from pytest_benchjobs.agents.described import DescribedAgent
from tests.agents.jobs import Job
from tests.agents.server import ModelServer

BUDGET_SECONDS = 0.2
_SAY = "<<<SAY: all done>>>"


def measure(runs: int = 7) -> Iterator[tuple[str, float, str, str]]:
    """Seconds of an agent's phase in a trial, over those of the same binary on this machine."""
    with ModelServer() as server, tempfile.TemporaryDirectory() as name:
        job = Job(Path(name), server)
        job.scenarios({f"s{number}": _SAY for number in range(runs)})
        found = job.run("--bench-agent", job.spec("codex"), "--bench-concurrency", "1")
        inside = statistics.median(_agent_phase(result) for result in found)
        here = statistics.median(_on_this_machine(server.url, Path(name)) for _ in range(runs))
        added = inside - here
        yield (
            "agent start inside a trial",
            added / BUDGET_SECONDS,
            f"<= {BUDGET_SECONDS:g} s more",
            f"codex, one turn: {inside:.2f} s in a trial, {here:.2f} s on this machine",
        )


def _agent_phase(result: dict) -> float:  # type: ignore[type-arg]
    assert result["agent_end"]["ending"] == "success", result
    return next(phase["end"] - phase["start"] for phase in result["phases"] if phase["name"] == "agent")


def _on_this_machine(url: str, directory: Path) -> float:
    """The same call, straight to the model."""
    agent = next(one for one in builtin_agents() if isinstance(one, DescribedAgent) and one.name == "codex")
    program = agent.packages()[0].files / "bin" / "codex"
    home = directory / "home"
    home.mkdir(exist_ok=True)
    provider = f'{{name="bench",base_url="{url}/v1",env_key="BENCH_KEY",wire_api="responses"}}'
    settings = ["model_provider=bench", f"model_providers.bench={provider}", "analytics.enabled=false"]
    started = time.perf_counter()
    subprocess.run(
        [
            *(program, "exec", "-", "--json", "--skip-git-repo-check"),
            *("--dangerously-bypass-approvals-and-sandbox", "-m", "gpt-5.5"),
            *(word for setting in (*settings, "features.plugins=false") for word in ("-c", setting)),
        ],
        input=_SAY.encode(),
        env={"PATH": os.environ["PATH"], "HOME": str(home), "CODEX_HOME": str(home), "BENCH_KEY": "none"},
        cwd=directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - started
