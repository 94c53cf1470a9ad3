"""A trial, and many at once, against the same engine calls made by a bare loop."""

from __future__ import annotations

import datetime
import functools
import io
import statistics
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker

from pytest_benchjobs.agents.builtin import builtin_agents, shell
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.job import JobConfig, JobRecord, JobStatus
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.result import Outcome, Trial
from pytest_benchjobs.model.scenario import (
    Environment,
    FreshContainer,
    GradeIn,
    Reference,
    Scenario,
    ScorerSpec,
)
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.scoring.builtin import builtin_scorers
from pytest_benchjobs.store.bundle import JobBundle, new_job_id
from pytest_benchjobs.trial.cancellation import Cancellation
from pytest_benchjobs.trial.flight import Flight, Tokens
from pytest_benchjobs.trial.prepare import Services
from pytest_benchjobs.trial.run import run_trial

IMAGE = "debian:bookworm-slim"
AT_ONCE = 16


def trivial_scenario(place: GradeIn = GradeIn.FRESH) -> Scenario:
    return Scenario(
        id="trivial",
        benchmark="performance",
        problem_statement="Write ok to out.txt.",
        environment=Environment(image=IMAGE, workdir="/app", network="none"),
        grade_in=place,
        fresh_container=FreshContainer() if place is GradeIn.FRESH else None,
        reference=Reference(script="echo ok > out.txt"),
        scorers=(ScorerSpec(name="right", type="bash", script="grep -qx ok out.txt && echo 1 || echo 0"),),
        source=Path(__file__),
    )


def _archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo("bench/problem.md")
        member.size = 20
        tar.addfile(member, io.BytesIO(b"x" * 20))
    return buffer.getvalue()


def bare_trial(client: docker.APIClient, image: str, archive: bytes) -> None:
    """The engine calls of one trivial trial, with nothing around them."""

    def run(argv: tuple[str, ...]) -> None:
        exec_id = client.exec_create(container, list(argv))["Id"]
        client.exec_start(exec_id)
        assert client.exec_inspect(exec_id)["ExitCode"] == 0

    host_config = client.create_host_config(
        init=True, network_mode="none", pids_limit=2048, log_config={"Type": "none"},
        security_opt=["no-new-privileges"],
    )  # fmt: skip
    container = client.create_container(image, ["sleep", "600"], host_config=host_config, working_dir="/app")[
        "Id"
    ]
    try:
        client.put_archive(container, "/", archive)
        client.start(container)
        run(shell("echo ok > out.txt"))
        client.top(container)
        run(shell("grep -qx ok out.txt && echo 1 || echo 0"))
    finally:
        client.remove_container(container, force=True, v=True)


def measure(rounds: int = 15, trials: int = 64) -> list[tuple[str, float, str, str]]:
    """Rows of (what, ratio, budget, detail)."""
    client = docker.APIClient(version="auto", num_pools=64)
    image, archive = client.inspect_image(IMAGE)["Id"], _archive()
    with tempfile.TemporaryDirectory() as directory:
        services = make_services(Path(directory))
        try:
            counter = iter(range(1, 1_000_000))

            def ours(
                _: object = None,
                cancellation: Cancellation | None = None,
                *,
                agent: str = "oracle",
                place: GradeIn = GradeIn.AGENT_CONTAINER,
            ) -> object:
                trial = Trial(
                    node_id=f"trivial[{agent}-{next(counter)}]",
                    scenario=trivial_scenario(place),
                    agent=AgentSpec.parse(agent),
                    attempt=next(counter),
                )
                result = run_trial(trial, services, cancellation or Cancellation())
                assert result.outcome is Outcome.PASSED, result.failure
                return result

            kinds = [
                (f"one trivial trial, {place}, {agent.partition(':')[0]}", agent, place)
                for place in (GradeIn.AGENT_CONTAINER, GradeIn.FRESH)
                for agent in ("oracle", "command:echo ok > out.txt")
            ]
            ours()
            bare_trial(client, image, archive)
            bare_times: list[float] = []
            our_times: dict[str, list[float]] = {what: [] for what, _, _ in kinds}
            for _ in range(rounds):
                bare_times.append(_time(lambda: bare_trial(client, image, archive)))
                for what, agent, place in kinds:
                    our_times[what].append(_time(functools.partial(ours, agent=agent, place=place)))
            bare = statistics.median(bare_times)
            rows = []
            for what, _, place in kinds:
                own = statistics.median(our_times[what])
                budget = "<= 1.15 x" if place is GradeIn.AGENT_CONTAINER else "<= 0.6 s more"
                rows.append(
                    (
                        what,
                        own / bare,
                        budget,
                        f"{own:.3f} s against {bare:.3f} s bare: {own - bare:.3f} s more",
                    )
                )

            rates: dict[str, list[float]] = {"bare": [], "ours": []}
            for _ in range(3):
                with ThreadPoolExecutor(AT_ONCE) as pool:
                    start = time.perf_counter()
                    list(pool.map(lambda _: bare_trial(client, image, archive), range(trials)))
                    rates["bare"].append(trials / (time.perf_counter() - start))
                flight: Flight[int] = Flight(ours, Tokens(Path(directory) / "tokens", AT_ONCE))
                start = time.perf_counter()
                for number in range(trials):
                    flight.submit(number)
                for _ in range(trials):
                    assert flight.next(timeout=120) is not None
                rates["ours"].append(trials / (time.perf_counter() - start))
                flight.close()
            bare, own = statistics.median(rates["bare"]), statistics.median(rates["ours"])
            rows.append(
                (
                    f"throughput at {AT_ONCE}",
                    own / bare,
                    ">= 0.9 x",
                    f"{own:.2f} trials/s against {bare:.2f} bare",
                )
            )
        finally:
            services.provider.close()
            client.close()
    return rows


def make_services(directory: Path) -> Services:
    config = JobConfig(directory=directory)
    now = datetime.datetime.now(datetime.UTC)
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


def _time(call: object) -> float:
    start = time.perf_counter()
    call()  # type: ignore[operator]
    return time.perf_counter() - start
