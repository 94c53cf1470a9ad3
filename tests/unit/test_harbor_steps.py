"""Steps of a Harbor task: what `[[steps]]` and `steps/<name>/` become, and mistakes in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.errors import InputErrors
from pytest_benchjobs.model.scenario import ArtifactSpec, HealthCheck, StepScore
from pytest_benchjobs.sources.harbor import HarborTask

TOML = """\
schema_version = "1.4"
multi_step_reward_strategy = "final"
artifacts = ["all.txt"]
[agent]
timeout_sec = 60.0
user = "worker"
[verifier]
timeout_sec = 30.0
env = { A = "task", B = "task" }
[environment]
docker_image = "debian:bookworm-slim"
workdir = "/app"
[solution]
env = { S = "1" }
[[steps]]
name = "scaffold"
min_reward = 0.5
artifacts = [{ source = "made", destination = "kept" }]
[steps.agent]
timeout_sec = 5.0
user = "root"
[steps.verifier]
timeout_sec = 7.0
env = { B = "step" }
[steps.healthcheck]
command = "test -d ."
retries = 2
[[steps]]
name = "02-build"
min_reward = { reward = 1, style = 0.25 }
"""
FILES = {
    "environment/Dockerfile": "FROM scratch", "tests/test.sh": "shared",
    "steps/scaffold/instruction.md": "<!-- canary -->\nScaffold.\n", "steps/scaffold/tests/test.sh": "own",
    "steps/scaffold/workdir/setup.sh": "#!/bin/sh\n", "steps/scaffold/solution/solve.sh": "#!/bin/sh\n",
    "steps/02-build/instruction.md": "Build.\n", "steps/02-build/solution/solve.sh": "#!/bin/sh\n",
}  # fmt: skip


def write(directory: Path, toml: str = TOML, leave: tuple[str, ...] = (), **more: str) -> Path:
    for name, content in {"task.toml": toml, **FILES, **more}.items():
        if name not in leave:
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(content)
    return directory


def test_steps_have_what_they_say_and_else_what_the_task_says(tmp_path: Path) -> None:
    task = write(tmp_path / "t")
    source = HarborTask(task)
    assert [ref.id for ref in source.refs()] == ["t"]
    assert source.warnings == ()
    scenario = source.load("t")
    first, second = scenario.steps
    assert (first.name, first.instruction, second.instruction) == ("scaffold", "Scaffold.\n", "Build.\n")
    assert scenario.problem_statement == "# Step 1: scaffold\n\nScaffold.\n\n# Step 2: 02-build\n\nBuild."
    assert (first.agent_timeout, second.agent_timeout) == (5.0, 60.0)
    assert (first.agent_user, second.agent_user) == ("root", "worker")
    assert first.least == {"reward": 0.5}
    assert second.least == {"reward": 1.0, "style": 0.25}
    assert first.healthcheck == HealthCheck(command="test -d .", retries=2)
    assert (first.files, first.setup) == (task / "steps/scaffold/workdir", "./setup.sh")
    assert (second.files, second.setup, second.healthcheck) == (None, None, None)
    assert first.artifacts == (ArtifactSpec(source="made", destination="kept"),)
    assert scenario.at_step(0).artifacts == (ArtifactSpec(source="all.txt"), *first.artifacts)
    assert first.reference is not None
    assert (first.reference.solution, first.reference.env) == (task / "steps/scaffold/solution", {"S": "1"})
    assert scenario.has_reference
    assert scenario.step_score is StepScore.FINAL
    assert not first.continues
    one, two = scenario.scorers
    assert (one.name, one.path, one.overlay) == ("scaffold", task / "tests", task / "steps/scaffold/tests")
    assert (two.name, two.path, two.overlay) == ("02-build", task / "tests", None)
    assert (one.timeout, two.timeout) == (7.0, 30.0)
    assert (one.env, two.env) == ({"A": "task", "B": "step"}, {"A": "task", "B": "task"})


def test_the_mean_of_steps_is_the_default(tmp_path: Path) -> None:
    task = write(tmp_path / "t", TOML.replace('multi_step_reward_strategy = "final"', ""))
    assert HarborTask(task).load("t").step_score is StepScore.MEAN


def test_a_step_may_have_a_verifier_of_its_own(tmp_path: Path) -> None:
    toml = TOML.replace("[steps.verifier]\n", '[steps.verifier]\nenvironment_mode = "separate"\n')
    task = write(tmp_path / "t", toml)
    first, second = HarborTask(task).load("t").steps
    assert first.fresh_container is not None
    carried = [one.source for one in first.fresh_container.paths]
    assert carried == ["all.txt", "made", "/logs/artifacts"]
    assert first.fresh_container.environment is None
    assert second.fresh_container is None
    own = write(tmp_path / "own", toml, **{"steps/scaffold/tests/Dockerfile": "FROM scratch"})
    scenario = HarborTask(own).load("own")
    built = scenario.steps[0].fresh_container
    assert built is not None
    assert (scenario.scorers[0].path, scenario.scorers[0].overlay) == (None, None)
    assert scenario.environments == (scenario.environment, built.environment)
    assert scenario.environments[1].dockerfile == own / "steps/scaffold/tests/Dockerfile"


def mistakes(task: Path) -> list[str]:
    with pytest.raises(InputErrors) as caught:
        HarborTask(task).refs()
    return [error.message for error in caught.value.errors]


@pytest.mark.parametrize(
    ("change", "leave", "wrong"),
    [
        (("", ""), ("steps/02-build/instruction.md",), "steps/02-build/instruction.md is missing"),
        (("", ""), ("tests/test.sh",), "steps/02-build/tests/test.sh is missing, and so is tests/test.sh"),
        (('"02-build"', '"Scaffold"'), (), "'Scaffold' is already the name of a step (scaffold)"),
        (('"02-build"', '"../up"'), (), "'../up' is no name of a directory"),
        (('destination = "kept"', 'destination = "/kept"'), (), "must be relative"),
        (('source = "made"', 'source = "../made"'), (), "'..' is not allowed"),
        (("min_reward = 0.5", 'min_reward = "much"'), (), "min_reward"),
        (('user = "root"', 'allowed_hosts = ["a.org"]'), (), "agent.allowed_hosts: has no effect without"),
    ],
)  # fmt: skip
def test_mistakes_in_steps(
    change: tuple[str, str], leave: tuple[str, ...], wrong: str, tmp_path: Path
) -> None:
    task = write(tmp_path / "t", TOML.replace(*change) if change[0] else TOML, leave)
    assert any(wrong in message for message in mistakes(task)), mistakes(task)


def test_an_empty_instruction_is_an_error(tmp_path: Path) -> None:
    task = write(tmp_path / "t", **{"steps/02-build/instruction.md": " \n"})
    with pytest.raises(Exception, match=r"02-build/instruction.md: is empty"):
        HarborTask(task).load("t")


def test_odd_things_in_steps_warn(tmp_path: Path) -> None:
    extra: dict[str, Any] = {"steps/02-build/tests/test.sh": "#!/bin/sh\r\n"}
    source = HarborTask(write(tmp_path / "t", TOML, ("steps/02-build/solution/solve.sh",), **extra))
    source.refs()
    messages = [warning.message for warning in source.warnings]
    assert any("no solution/solve.sh for 02-build" in message for message in messages)
    assert any("steps/02-build/tests/test.sh has Windows line endings" in message for message in messages)
    alone = HarborTask(
        write(tmp_path / "alone", "", **{"instruction.md": "Do.", "environment/Dockerfile": "FROM scratch"})
    )
    alone.refs()
    assert [warning.message for warning in alone.warnings] == [
        "steps/ has no effect without [[steps]] in task.toml"
    ]


def test_a_step_may_have_an_allowlist_of_its_own(tmp_path: Path) -> None:
    toml = TOML.replace('user = "root"', 'network_mode = "allowlist"\nallowed_hosts = ["step.org"]').replace(
        "env = { B =", 'network_mode = "allowlist"\nallowed_hosts = ["tests.org"]\nenv = { B ='
    )
    toml = toml.replace('user = "worker"', 'network_mode = "allowlist"\nallowed_hosts = ["task.org"]')
    scenario = HarborTask(write(tmp_path / "t", toml)).load("t")
    assert "allowlist" in scenario.networks(scenario.environment)
    for number, agent in enumerate([("step.org",), ("task.org",)]):
        step = scenario.at_step(number)
        access = step.environment.access(step.agent_network, step.agent_allowed_hosts)
        assert access.allowed_hosts == agent
    first, second = scenario.scorers
    assert (first.allowed_hosts, second.allowed_hosts) == (("tests.org",), None)


def test_what_is_not_supported_is_refused_in_steps_too(tmp_path: Path) -> None:
    task = write(tmp_path / "t", **{"steps/02-build/trajectory.json": "{}"})
    assert mistakes(task) == [
        "steps/02-build/trajectory.json: context from an earlier session is not supported yet"
    ]


def test_a_step_names_services_that_there_are(tmp_path: Path) -> None:
    task = write(tmp_path / "s", TOML.replace('destination = "kept"', 'service = "db"'))
    why = "there is no service 'db'; there is no environment/docker-compose.yaml"
    assert mistakes(task) == [f"steps[0].artifacts[0].service: {why}"]
    (task / "environment" / "docker-compose.yaml").write_text("services: {db: {image: x}}\n")
    scenario = HarborTask(task).load("s")
    assert [artifact.service for artifact in scenario.at_step(0).artifacts if artifact.service != "main"] == [
        "db"
    ]
