"""The services of a Harbor task: its files of Docker Compose, and what names a service in `task.toml`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..model.scenario import MAIN
from .complaints import Complaints
from .compose import COMPOSE_FILE, ComposeFile, read_compose
from .harbor_keys import Artifact, CollectCommand, TaskFile
from .harbor_verifier import is_separate
from .plain import Place


def check_services(directory: Path, task: TaskFile, complaints: Complaints) -> ComposeFile | None:
    """Note mistakes about services; return the file that describes those beside the agent, if there is one.

    Raises:
        InputErrors: that file, or the verifier's, has a mistake.
    """
    own = directory / "environment" / COMPOSE_FILE
    described = read_compose(own) if own.exists() else None
    _check_verifier(directory, task, complaints)
    names = (MAIN,) if described is None else described.names
    hint = f"there is no environment/{COMPOSE_FILE}" if described is None else f"there are {', '.join(names)}"
    for place, listed in _naming(task):
        for index, one in enumerate(listed):
            if one.service not in names:
                complaints.wrong((*place, index, "service"), f"there is no service {one.service!r}; {hint}")
            if isinstance(one, Artifact) and one.destination == "manifest.json":
                complaints.wrong(
                    (*place, index, "destination"), "is the name of another file; choose another"
                )
    return described


def _check_verifier(directory: Path, task: TaskFile, complaints: Complaints) -> None:
    tests = directory / "tests"
    if not (tests / COMPOSE_FILE).exists():
        return
    if not is_separate(task):
        why = "has no effect without verifier.environment_mode = 'separate'"
        complaints.odd((), f"tests/{COMPOSE_FILE} {why}")
        return
    described = read_compose(tests / COMPOSE_FILE)
    own = task.verifier.environment
    image = (own is not None and own.docker_image) or described.image_of(MAIN)
    if not image and not (tests / "Dockerfile").is_file():
        complaints.wrong((), f"tests/{COMPOSE_FILE} gives `main` no image, and there is no tests/Dockerfile")


def _naming(task: TaskFile) -> Iterator[tuple[Place, Sequence[Artifact | CollectCommand]]]:
    """Yield the lists whose items name services, and their places."""
    yield ("artifacts",), task.artifacts
    yield ("verifier", "collect"), task.verifier.collect
    for index, step in enumerate(task.steps):
        yield ("steps", index, "artifacts"), step.artifacts
        if step.verifier is not None:
            yield ("steps", index, "verifier", "collect"), step.verifier.collect
