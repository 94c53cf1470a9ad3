"""Jobs without Docker: the same outcomes, what is skipped, and what is said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.errors import EngineUnavailable
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from tests.support import IMAGE, results, run, start, until

from .test_sandbox import running

pytestmark = pytest.mark.slow

TOY = """
benchmark: toy
defaults: {image: host, workdir: /app, network: none}
scenarios:
  - id: solved
    problem_statement: Write 1.
    setup: [mkdir -p made]
    files: {in.txt: in.txt, /data/more.txt: in.txt}
    reference: cat in.txt /data/more.txt > made/out.txt
    scorers:
      - {name: right, type: command, command: test "$(cat made/out.txt)" = 11}
      - {name: tests, type: tests, path: tests/}
      - {name: asks, type: asks, params: {file: made/out.txt, holds: in11}}
    artifacts: [made]
  - id: partial
    problem_statement: Write 2.
    reference: echo 3 > out.txt
    scorers:
      - {name: exists, type: command, command: test -f out.txt}
      - {name: right, type: command, weight: 3, command: grep -q 2 out.txt}
      - {name: asks, type: asks, params: {file: out.txt, holds: "in3\n"}}
  - id: unscored
    problem_statement: Nobody knows.
    reference: echo 1 > out.txt
    scorers: [{name: silent, type: bash, script: echo hello}]
  - id: unready
    problem_statement: It cannot begin.
    setup: ["echo broken; exit 3"]
    reference: "true"
    scorers: [{name: never, type: command, command: "true"}]
  - id: slow
    problem_statement: Take too long.
    agent_timeout: 5
    reference: sleep 100 & echo 1 > out.txt; sleep 100
    scorers: [{name: right, type: command, command: test -f out.txt}]
  - id: rooted
    problem_statement: Be root, and read what root has locked.
    reference: id -u > who; echo x > locked; chmod 0 locked; cat locked >> who; ln -s /nowhere broken; mkfifo pipe
    scorers: [{name: right, type: command, command: test "$(cat who)" = "$(printf '0\\nx')"}]
    artifacts: ["*"]
"""
ASKS = """
def asks(context):
    file, holds = context.spec.params.values()
    return float(context.run_agent(["cat", "-", file], stdin=b"in") == (0, holds.encode()))

def pytest_benchjobs_scorers():
    return {"asks": asks}
"""
MORE = """
benchmark: more
scenarios:
  - {id: boxed, image: "debian:bookworm-slim", problem_statement: x, reference: "true", scorers: &right [{name: right, type: command, command: "true"}]}
  - {id: built, dockerfile: Dockerfile, problem_statement: x, reference: "true", scorers: *right}
  - {id: limited, image: host, workdir: /app, memory: 64M, problem_statement: x, reference: "true", scorers: *right}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "toy.bench.yaml").write_text(TOY)
    (tmp_path / "conftest.py").write_text(ASKS)
    (tmp_path / "in.txt").write_text("1")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test.sh").write_text("grep -q 11 /app/made/out.txt\n")
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\n")
    return tmp_path


def outcomes(found: list[dict[str, Any]]) -> dict[str, Any]:
    """All of results that does not depend on where and when."""
    return {
        result["node_id"]: (
            result["outcome"],
            result["score"],
            # Nobody has to kill what ends with the namespace it was started in.
            result["failure"]
            and (result["failure"]["class"], result["failure"]["message"].partition("; left running")[0]),
            [(scorer["name"], scorer["score"]) for scorer in result["scorers"]],
            sorted(result["artifacts"]),
            result["agent_end"] and (result["agent_end"]["exit_status"], result["agent_end"]["timed_out"]),
        )
        for result in found
    }


@pytest.mark.docker
@pytest.mark.extended
def test_outcomes_are_those_of_containers(place: Path) -> None:
    try:
        DockerProvider(current_owner()).check()
    except EngineUnavailable as error:
        pytest.skip(str(error))
    agents = (
        "--bench-agent", "oracle", "--bench-agent", "nop", "--bench-agent",
        "command:echo 2 > out.txt; exit 3",
    )  # fmt: skip
    first = run(place, "toy.bench.yaml", "--bench-no-docker", *agents)
    local = results(place)
    assert len(local) == 18, first.stdout
    (place / "reports").rename(place / "local")
    second = run(place, "toy.bench.yaml", f"--bench-image-map=host={IMAGE}", *agents)
    assert outcomes(local) == outcomes(results(place)), second.stdout
    assert {result["outcome"] for result in local} == {"passed", "failed", "error"}
    keys = {result["image"]["key"] for result in (*local, *results(place)) if result["image"]}
    assert len(keys) == 2
    assert any(key.startswith("host:") for key in keys)


def test_what_needs_an_image_is_skipped_and_what_is_not_enforced_is_said(place: Path) -> None:
    (place / "more.bench.yaml").write_text(MORE)
    done = run(place, "more.bench.yaml", "--bench-no-docker", "-rs", DOCKER_HOST="unix:///nowhere")
    assert done.returncode == 0, done.stdout
    found = {result["scenario"]: result for result in results(place)}
    assert {name: result["outcome"] for name, result in found.items()} == {
        "boxed": "skipped",
        "built": "skipped",
        "limited": "passed",
    }
    why = "incompatible: needs an image (debian:bookworm-slim), and there is no Docker"
    assert found["boxed"]["failure"]["message"] == why
    assert why in done.stdout
    assert found["limited"]["notes"] == [
        "not promised by the sandbox local: memory, out_of_memory: namespaces have no limits"
    ]
    planned = run(place, "more.bench.yaml", "--bench-sandbox=local", "--bench-plan")
    assert "1 trials would run, 0 would be reused, 2 would be skipped" in planned.stdout


def test_results_are_reused_here_and_never_instead_of_those_of_docker(place: Path) -> None:
    (place / "more.bench.yaml").write_text(MORE)
    run(place, "more.bench.yaml", "--bench-no-docker", "--bench-reuse")
    again = run(place, "more.bench.yaml", "--bench-no-docker", "--bench-reuse", "--bench-explain-reuse")
    newest = max(result["job"] for result in results(place))
    (limited,) = [one for one in results(place) if (one["job"], one["scenario"]) == (newest, "limited")]
    assert limited["reused"] is not None, again.stdout
    mapped = run(
        place,
        "more.bench.yaml",
        "--bench-no-docker",
        "--bench-reuse",
        "--bench-plan",
        f"--bench-image-map=host={IMAGE}",
    )
    assert "limited" in mapped.stdout
    assert "reused: " not in mapped.stdout


def test_no_file_is_left_of_sandboxes(place: Path) -> None:
    (place / "temporary").mkdir()
    done = run(place, "toy.bench.yaml", "--bench-no-docker", TMPDIR=f"{place}/temporary")
    assert len(results(place)) == 6, done.stdout
    assert list((place / "temporary").glob("benchjobs-local-*")) == []


def test_nothing_outlives_a_killed_job_and_the_next_one_removes_its_files(place: Path) -> None:
    temporary = place / "temporary"
    temporary.mkdir()
    agent = "command:setsid sleep 4401 & sleep 4402"
    job = start(
        place,
        "toy.bench.yaml",
        "-k",
        "partial",
        "--bench-no-docker",
        "--bench-agent",
        agent,
        TMPDIR=str(temporary),
    )
    try:
        until(lambda: len(running("sleep", "4401", "4402")) == 2)
    finally:
        job.kill()
        job.communicate()
    until(lambda: not running("sleep", "4401", "4402"))
    assert len(list(temporary.glob("benchjobs-local-*"))) == 1
    run(place, "toy.bench.yaml", "-k", "partial", "--bench-no-docker", TMPDIR=str(temporary))
    assert list(temporary.glob("benchjobs-local-*")) == []


def test_mistakes_are_one_clear_line(place: Path) -> None:
    done = run(place, "toy.bench.yaml", "--bench-no-docker", "--bench-sandbox=docker")
    assert done.returncode == 4
    assert "--bench-no-docker and --bench-sandbox contradict each other" in done.stdout
    (place / "pytest.ini").write_text("[pytest]\nbench_no_docker = true\n")
    done = run(place, "toy.bench.yaml", "-k", "solved", PATH=f"{place}")
    assert "need the program bwrap, which is not installed" in done.stdout
    assert "apt-get install bubblewrap" in done.stdout
    (found,) = results(place)
    assert (found["outcome"], found["failure"]["class"]) == ("error", "engine_unavailable")
    done = run(place, "toy.bench.yaml", "-k", "solved")
    assert (
        json.loads(next((place / "reports").glob("jobs/*/job.json")).read_text())["config"]["sandbox"]
        == "local"
    )
    assert done.returncode == 0, done.stdout


def test_a_sandbox_of_ones_own_has_settings_and_its_results_note_what_it_does_not_promise(
    tmp_path: Path,
) -> None:
    """The example, which is no longer than 150 lines."""
    example = Path(__file__).parents[2] / "conftest_examples" / "sandbox-provider"
    assert len((example / "conftest.py").read_text().splitlines()) <= 150
    place = tmp_path / "own"
    shutil.copytree(example, place, ignore=shutil.ignore_patterns("reports", "__pycache__"))
    (tmp_path / "roots").mkdir()
    ours = ("--bench-sandbox=unshare", f"--bench-sandbox-option=place={tmp_path / 'roots'}")
    done = run(place, ".", *ours, "--bench-agent=oracle", "--bench-agent=nop")
    found = {result["agent"]["name"]: result for result in results(place)}
    assert {name: one["outcome"] for name, one in found.items()} == {"oracle": "passed", "nop": "failed"}, (
        done.stdout
    )
    note = "not promised by the sandbox unshare: memory, out_of_memory: it has namespaces alone"
    assert [one["notes"][0].startswith(note) for one in found.values()] == [True, True]
    assert [len(one["notes"]) for one in found.values()] == [1, 1]
    assert list((tmp_path / "roots").iterdir()) == []
    (job,) = place.glob("reports/jobs/*/job.json")
    assert json.loads(job.read_text())["config"]["sandbox_options"] == {"place": str(tmp_path / "roots")}
    parts = found["oracle"]["signature"]["parts"]
    assert parts["sandbox_options"] == f"place={tmp_path / 'roots'}"
    wrong = run(place, ".", *ours, "--bench-sandbox-option=plce=/tmp")
    why = "--bench-sandbox-option: sandbox 'unshare' has no setting 'plce'; did you mean 'place'?"
    assert (wrong.returncode, why in wrong.stdout) == (4, True)
    assert len([*place.glob("reports/jobs/*/job.json")]) == 1
