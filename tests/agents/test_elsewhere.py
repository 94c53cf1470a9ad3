"""Jobs on an engine that is elsewhere have the results that they have here, and leave nothing there."""

from __future__ import annotations

import contextlib
import shutil
import signal
import threading
from pathlib import Path

import pytest

from tests.agents.jobs import Job
from tests.docker.elsewhere import Elsewhere, elsewhere  # noqa: F401  a fixture
from tests.docker.link import BadLine
from tests.support import in_flight, results, start, until

pytestmark = [pytest.mark.docker, pytest.mark.slow]

PROMPT = "<<<RUN: echo hi > made.txt>>> <<<SAY: done>>>"


@pytest.mark.parametrize("way", ["tls", "ssh", "gvisor"])
def test_a_real_agent_works_elsewhere_and_calls_its_model_here(
    job: Job,
    elsewhere: Elsewhere,  # noqa: F811  the fixture
    way: str,
) -> None:
    job.scenarios({"make": PROMPT, "leave": "<<<SAY: no>>>"})
    options = [f"--bench-agent={agent}" for agent in (job.spec("codex"), "nop")]
    if way == "gvisor":
        if shutil.which("runsc") is None:
            pytest.skip("needs gVisor's runsc on PATH")
        options.append("--bench-runtime=gvisor")
    found = job.run(*options, "--bench-attempts=2", **elsewhere.environment(way))
    outcomes = {(one["scenario"], one["agent"]["name"], one["attempt"]): one["outcome"] for one in found}
    assert outcomes == {
        (scenario, agent, attempt): "passed" if (scenario, agent) == ("make", "codex") else "failed"
        for scenario in ("make", "leave")
        for agent in ("codex", "nop")
        for attempt in (1, 2)
    }, job.output
    assert all(one["usage"]["calls"] for one in found if one["agent"]["name"] == "codex")
    assert elsewhere.left() == []


@pytest.mark.parametrize("way", ["tls", "ssh"])
def test_a_killed_job_leaves_nothing_elsewhere(bare: Job, elsewhere: Elsewhere, way: str) -> None:  # noqa: F811
    bare.scenarios({"slow": "x"}, timeout=120)
    (bare.path / "slow.agent.yaml").write_text('name: slow\nargv: [sleep, "100"]\n')
    process = start(bare.path, "made.bench.yaml", "--bench-agent=slow", **elsewhere.environment(way))
    until(lambda: in_flight(bare.path))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    until(lambda: not elsewhere.left(), what=lambda: f"left: {elsewhere.left()}")
    assert results(bare.path) == []


@pytest.mark.parametrize("by", ["ssh"])
def test_a_line_that_is_cut_while_an_agent_calls_its_model_is_no_fault_of_the_agent(
    job: Job,
    elsewhere: Elsewhere,  # noqa: F811  the fixture
    by: str,
) -> None:
    """It is slow, too, and loses segments: the agent works anew, and costs what both times cost."""
    job.scenarios({"make": PROMPT})
    with contextlib.closing(BadLine(elsewhere, by, 1)) as line:
        environment = line.environment(Path(line.engine))

        def cut() -> None:
            until(lambda: len(job.server.calls) > 1)
            line.links[0].cut()

        cutting = threading.Thread(target=cut)
        cutting.start()
        [found] = job.run(f"--bench-agent={job.spec('codex')}", **environment)
        cutting.join()
    assert (found["outcome"], found["score"], found["tries"]) == ("passed", 1.0, 2), job.output
    assert found["usage"]["calls"] == len([call for call in job.server.calls if call.wire]), found["notes"]
    assert elsewhere.left() == []
