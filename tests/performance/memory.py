"""What a hundred trials in flight cost the process they fly in."""

from __future__ import annotations

import datetime
import tempfile
import time
from pathlib import Path

from pytest_benchjobs.agents.builtin import builtin_agents
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.job import JobConfig, JobRecord, JobStatus
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.result import Trial
from pytest_benchjobs.model.scenario import Environment, Scenario, ScorerSpec
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.scoring.builtin import builtin_scorers
from pytest_benchjobs.store.bundle import JobBundle, new_job_id
from pytest_benchjobs.trial.flight import Flight, Tokens
from pytest_benchjobs.trial.prepare import Services
from pytest_benchjobs.trial.run import run_trial
from tests.support import IMAGE, until

IN_FLIGHT = 100


def _resident_mb() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def measure() -> list[tuple[str, float, str, str]]:
    """Rows of (what, ratio to the budget, budget, detail)."""
    with tempfile.TemporaryDirectory() as directory:
        services = _services(Path(directory))
        scenario = Scenario(
            id="trivial",
            benchmark="performance",
            problem_statement="Wait.",
            environment=Environment(image=IMAGE, workdir="/app", network="none"),
            scorers=(ScorerSpec(name="right", type="bash", script="echo 1"),),
            source=Path(__file__),
        )

        def fly(number: int, cancellation: object) -> object:
            spec = AgentSpec(name="command", model="sleep 600")
            trial = Trial(node_id=f"t[{number}]", scenario=scenario, agent=spec, attempt=number + 1)
            return run_trial(trial, services, cancellation)  # type: ignore[arg-type]

        flight: Flight[int] = Flight(fly, Tokens(Path(directory) / "tokens", IN_FLIGHT))  # type: ignore[arg-type]
        try:
            flight.submit(IN_FLIGHT)
            _wait_for_agents(Path(directory), 1)
            idle = _resident_mb()
            for number in range(IN_FLIGHT - 1):
                flight.submit(number)
            _wait_for_agents(Path(directory), IN_FLIGHT)
            cost = _resident_mb() - idle
        finally:
            flight.cancel()
            for _ in range(IN_FLIGHT):
                flight.next(timeout=60)
            flight.close()
            services.provider.close()
    return [
        (
            f"{IN_FLIGHT} trials in flight",
            cost / 60,
            "<= 1 (60 MB)",
            f"{cost:.1f} MB over {idle:.0f} MB with one",
        )
    ]


def _wait_for_agents(directory: Path, count: int) -> None:
    logs = "jobs/*/trials/*/*/.tmp-*/agent.log"
    until(lambda: len(list(directory.glob(logs))) >= count, what=f"{count} agents did not start")
    time.sleep(1)  # until all of them wait


def _services(directory: Path) -> Services:
    config, now = JobConfig(directory=directory), datetime.datetime.now(datetime.UTC)
    record = JobRecord(
        id=new_job_id(now), status=JobStatus.RUNNING, created_at=now, owner=current_owner(), config=config
    )
    return Services(
        config=config,
        bundle=JobBundle.create(directory, record),
        provider=DockerProvider(current_owner()),
        agents={agent.name: agent for agent in builtin_agents()},
        scorers=builtin_scorers(),
    )
