"""The separate verifier of a Harbor task: a container of its own, which gets the task's artifacts and grades them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..model.scenario import CarriedPath, Environment, FreshContainer
from .harbor_keys import EnvironmentTable, TaskFile

ARTIFACTS = "/logs/artifacts"
"""Comes along whatever a task lists."""


def is_separate(task: TaskFile) -> bool:
    """Tell whether a task is graded in a container of the verifier's own."""
    return task.verifier.environment is not None or task.verifier.environment_mode == "separate"


def has_own_dockerfile(directory: Path, task: TaskFile) -> bool:
    """Tell whether the verifier's image is built from the task's tests, which are in it then."""
    return is_separate(task) and (directory / "tests" / "Dockerfile").is_file()


def brings_tests(directory: Path, task: TaskFile) -> bool:
    """Tell whether the verifier's image has, or may have, the tests in it."""
    own = task.verifier.environment
    return has_own_dockerfile(directory, task) or (own is not None and own.docker_image is not None)


def fresh_container(
    directory: Path, task: TaskFile, environment_of: Callable[[EnvironmentTable, Path], Environment]
) -> FreshContainer | None:
    """The verifier's container: with an image of its own, or one that is made like the agent's."""
    if not is_separate(task):
        return None
    carried = (
        CarriedPath(source=artifact.source, exclude=tuple(artifact.exclude)) for artifact in task.artifacts
    )
    own, tests = task.verifier.environment, directory / "tests" / "Dockerfile"
    environment = None
    if brings_tests(directory, task):
        environment = environment_of(own or EnvironmentTable(), tests)
    elif own is not None:
        # Its limits and variables, in the image that the agent has, too.
        table = own.model_copy(update={"docker_image": task.environment.docker_image})
        environment = environment_of(table, directory / "environment" / "Dockerfile")
    return FreshContainer(paths=(*carried, CarriedPath(source=ARTIFACTS)), environment=environment)
