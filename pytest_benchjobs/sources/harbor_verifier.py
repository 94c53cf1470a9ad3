"""The separate verifier of a Harbor task: a container that gets the task's artifacts and grades them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..model.scenario import CarriedPath, Environment, FreshContainer
from .compose import COMPOSE_FILE
from .harbor_keys import EnvironmentTable, TaskFile

ARTIFACTS = "/logs/artifacts"
"""Copied for every task, listed or not."""


def is_separate(task: TaskFile) -> bool:
    """Return True if a task is graded in a separate container."""
    return task.verifier.environment is not None or task.verifier.environment_mode == "separate"


def has_own_dockerfile(directory: Path, task: TaskFile) -> bool:
    """Return True if the verifier's image is built from the task's tests, and so contains them."""
    own = (directory / "tests" / name for name in ("Dockerfile", COMPOSE_FILE))
    return is_separate(task) and any(path.is_file() for path in own)


def brings_tests(directory: Path, task: TaskFile) -> bool:
    """Return True if the verifier's image contains the tests, or may contain them."""
    own = task.verifier.environment
    return has_own_dockerfile(directory, task) or (own is not None and own.docker_image is not None)


def fresh_container(
    directory: Path, task: TaskFile, environment_of: Callable[[EnvironmentTable, Path], Environment]
) -> FreshContainer | None:
    """The verifier's container: with an image of its own, or with the agent's."""
    if not is_separate(task):
        return None
    carried = (
        CarriedPath(source=artifact.source, exclude=tuple(artifact.exclude), service=artifact.service)
        for artifact in task.artifacts
    )
    own, tests = task.verifier.environment, directory / "tests" / "Dockerfile"
    environment = None
    if brings_tests(directory, task):
        environment = environment_of(own or EnvironmentTable(), tests)
    elif own is not None:
        # Its own limits and variables apply also with the agent's image.
        table = own.model_copy(update={"docker_image": task.environment.docker_image})
        environment = environment_of(table, directory / "environment" / "Dockerfile")
    return FreshContainer(paths=(*carried, CarriedPath(source=ARTIFACTS)), environment=environment)
