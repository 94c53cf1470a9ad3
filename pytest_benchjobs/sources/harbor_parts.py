"""Parts of a scenario that a Harbor task and each of its steps have: instruction, containers, scorer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..model.errors import InputError
from ..model.scenario import (
    MAIN,
    ArtifactSpec,
    CarriedPath,
    Environment,
    FreshContainer,
    HealthCheck,
    Network,
    ScorerSpec,
)
from .compose import COMPOSE_FILE, read_compose
from .documents import read_text
from .harbor_keys import CollectCommand, EnvironmentTable, HealthCheckTable, TaskFile, hosts_of
from .servers import mcp_server

NETWORKS: dict[str | None, Network | None] = {
    None: None,
    "public": "public",
    "no-network": "none",
    "allowlist": "allowlist",
}
MEBIBYTE = 1 << 20
DEFAULT_VERIFIER_TIMEOUT = 600.0
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


def fresh_container(directory: Path, task: TaskFile) -> FreshContainer | None:
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


def scorer_of(directory: Path, task: TaskFile, name: str, path: Path | None, over: Path | None) -> ScorerSpec:
    """Return the scorer of a task, or of a step of it: its tests are in `path`, and in `over`, which is put over it."""
    verifier, is_bundled = task.verifier, has_own_dockerfile(directory, task)
    fresh = fresh_container(directory, task)
    alone = None if fresh is None or fresh.environment is None else fresh.environment.network
    return ScorerSpec(
        name=name,
        type="harbor",
        path=None if is_bundled else path,
        overlay=None if is_bundled else over,
        timeout=verifier.timeout_sec or DEFAULT_VERIFIER_TIMEOUT,
        user=verifier.user,
        env=verifier.env,
        network=NETWORKS[verifier.network_mode] or alone,
        allowed_hosts=hosts_of(verifier),
        params={"collect": [_collected(command) for command in verifier.collect]} if verifier.collect else {},
    )


def _collected(command: CollectCommand) -> dict[str, Any]:
    # Without what is as it usually is, which keeps the signatures of earlier results.
    return command.model_dump(exclude={"service"} if command.service == MAIN else set())


def environment_of(written: EnvironmentTable, dockerfile: Path) -> Environment:
    """Return the container of a table, whose image a Dockerfile may describe."""
    built = dockerfile.is_file()
    offline = written.allow_internet is False
    services = dockerfile.parent / COMPOSE_FILE
    environment = Environment(
        image=written.docker_image,
        dockerfile=dockerfile if built else None,
        context=dockerfile.parent if built else None,
        build_timeout=written.build_timeout_sec,
        workdir=written.workdir,
        env=written.env,
        cpus=written.cpus,
        memory=written.memory_mb * MEBIBYTE if written.memory_mb else written.memory,
        storage=written.storage_mb * MEBIBYTE if written.storage_mb else written.storage,
        network=NETWORKS[written.network_mode] or ("none" if offline else "public"),
        allowed_hosts=hosts_of(written) or (),
        mcp_servers=tuple(map(mcp_server, written.mcp_servers)),
        skills_dir=written.skills_dir,
        keep_entrypoint=True,
        healthcheck=health_check(written.healthcheck),
    )
    return read_compose(services).with_main(environment) if services.exists() else environment


def health_check(table: HealthCheckTable | None) -> HealthCheck | None:
    """Return a health check as scenarios have it."""
    return None if table is None else HealthCheck(**{key.removesuffix("_sec"): value for key, value in table})


def artifact_spec(artifact: Any) -> ArtifactSpec:
    """Return an artifact as scenarios have it."""
    return ArtifactSpec.model_validate(artifact.model_dump())


def instruction_at(path: Path) -> str:
    """Return an instruction. Raises InputError: it cannot be read, or is empty."""
    instruction = strip_canary(read_text(path))
    if not instruction.strip():
        raise InputError("is empty", path=path)
    return instruction


def strip_canary(text: str) -> str:
    """An instruction without the comment lines at its top that mark it for filters of training data."""
    lines = text.splitlines(keepends=True)
    start = 0
    while start < len(lines):
        line = lines[start].strip()
        marked = line.startswith(("<!--", "#", "//")) and "canary" in line.lower()
        if not marked and (start == 0 or line):
            break
        start += 1
    return "".join(lines[start:])
