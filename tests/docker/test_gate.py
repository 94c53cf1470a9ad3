"""A gate over real containers: six scenarios worse are red and named, noise stays green, a sick engine is no regression.

`tests/plugin/test_gate.py` asserts the same each day, of trials in no containers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import IMAGE, containers_left, junit_cases, run

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.extended]

SCENARIOS = 24
WEAK = (20, 21, 22, 23)
"""What the agent of the baseline does not solve."""
CONFTEST = """
from pytest_benchjobs.model.errors import ContainerStartFailed
from pytest_benchjobs.sandbox.docker.provider import DockerProvider

class Sick(DockerProvider):
    # An engine that cannot start the containers of a third of the scenarios.
    def start(self, spec, on_phase):
        if int(spec.labels["trial"].partition("::t")[2][:2]) % 3 == 0:
            raise ContainerStartFailed("no space left on device")
        return super().start(spec, on_phase)

def pytest_benchjobs_sandboxes(config):
    return {"sick": Sick}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A benchmark of 24 scenarios, and a baseline by an agent that solves 20 of them."""
    directory = tmp_path_factory.mktemp("gate")
    scenarios = "".join(
        f"""
  - id: t{number:02}
    problem_statement: p{number:02}
    reference: echo 1 > out.txt
    scorers: [{{name: right, type: command, command: grep -q 1 out.txt}}]"""
        for number in range(SCENARIOS)
    )
    (directory / "sums.bench.yaml").write_text(
        f"benchmark: sums\nversion: '1'\ndefaults: {{image: '{IMAGE}', workdir: /app, network: none}}\n"
        f"scenarios:{scenarios}\n"
    )
    (directory / "conftest.py").write_text(CONFTEST)
    (directory / "pytest.ini").write_text("[pytest]\n")
    done = run(directory, "sums.bench.yaml", agent(*WEAK), "--bench-job-name=before", "--bench-concurrency=8")
    assert done.returncode == 1, done.stdout
    return directory


def agent(*unsolved: int) -> str:
    """An agent that solves all but these."""
    failing = "|".join(f"p{place:02}" for place in unsolved)
    return (
        f"--bench-agent=command:case $(cat $BENCH_PROBLEM_FILE) in {failing}) ;; *) echo 1 > out.txt;; esac"
    )


def judged(directory: Path, *arguments: str, status: int) -> tuple[dict[str, Any], str]:
    done = run(
        directory, "sums.bench.yaml", *arguments, "--bench-baseline=job:before", "--bench-concurrency=8",
        "--junit-xml=junit.xml",
    )  # fmt: skip
    assert done.returncode == status, done.stdout
    bundles = (directory / "reports" / "jobs").glob("*/report.json")
    report = max((json.loads(path.read_text()) for path in bundles), key=lambda one: one["job"]["created_at"])
    assert containers_left(report["job"]["id"]) == []
    (gate,) = report["gates"]
    return gate, done.stdout


def names(listed: list[dict[str, Any]]) -> list[str]:
    return sorted(one["scenario"] for one in listed)


def test_an_agent_that_is_worse_on_six_is_red_and_the_six_are_named(project: Path) -> None:
    gate, output = judged(project, agent(*range(6), *WEAK), status=10)
    six = [f"t{number:02}" for number in range(6)]
    assert (gate["verdict"], names(gate["broke"]), gate["errors"]) == ("regressed", six, 0)
    (rule,) = gate["rules"]
    assert (rule["scenarios"], rule["before"], rule["now"]) == (
        24,
        pytest.approx(20 / 24),
        pytest.approx(14 / 24),
    )
    assert rule["p_value"] == pytest.approx(1 / 64)
    lines = output.splitlines()
    assert "broke: 6" in lines
    for scenario in six:
        assert any(line.startswith(f"  sums/{scenario}: 1 -> 0") for line in lines), output
    assert list(junit_cases(project / "junit.xml").values()).count("failure") == 10


def test_an_agent_that_differs_by_noise_stays_green(project: Path) -> None:
    gate, output = judged(project, agent(0, 21, 22, 23), status=0)
    assert (gate["verdict"], names(gate["broke"]), names(gate["fixed"])) == ("ok", ["t00"], ["t20"])
    assert gate["rules"][0]["detectable"] > 0
    assert "exit status 0" in output
    # One more broken, and none fixed: a drop that chance explains.
    gate, _ = judged(project, agent(0, 1, *WEAK), status=0)
    assert gate["verdict"] == "inconclusive"


def test_an_engine_that_fails_a_third_of_the_trials_makes_it_invalid(project: Path) -> None:
    gate, output = judged(project, agent(*WEAK), "--bench-sandbox=sick", status=12)
    assert (gate["verdict"], gate["errors"], gate["attempts"]) == ("invalid", 8, 24)
    assert "8 of 24 attempts (33.3 %) ended in an infrastructure error, which has no score" in output
    assert not any(rule["verdict"] == "regressed" for rule in gate["rules"])
    assert list(junit_cases(project / "junit.xml").values()).count("error") == 8
