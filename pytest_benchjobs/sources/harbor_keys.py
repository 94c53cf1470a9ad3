"""The keys of a Harbor `task.toml`, schema 1.0 to 1.4, legacy ones included."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from ..model.base import parse_size
from .complaints import Written
from .written import (
    ContainerPath,
    Count,
    Duration,
    Flag,
    Hosts,
    Number,
    Text,
    Transport,
    User,
    Variables,
    WrittenArtifact,
    WrittenMcpServer,
    sources,
)

NetworkMode = Literal["public", "no-network", "allowlist"]


def _legacy_size(value: object) -> int:
    if not isinstance(value, str):
        raise ValueError(
            f"text such as '2G' is expected, not {value}; for a number of megabytes use the key with _mb"
        )
    return parse_size(value)


LegacySize = Annotated[int, BeforeValidator(_legacy_size)]
Megabytes = Annotated[Count, Field(gt=0, le=1 << 40)]


class Author(Written):
    """Author of a task."""

    name: str
    email: str | None = None


class Package(Written):
    """`[task]`: data for a registry."""

    name: Annotated[str, Field(max_length=300)] | None = None
    version: str | None = None
    description: str = ""
    authors: list[Author] = []
    keywords: list[str] = []


class HealthCheckTable(Written):
    """`[environment.healthcheck]`; times in seconds."""

    command: Text
    interval_sec: Duration = 5.0
    timeout_sec: Duration = 30.0
    start_period_sec: Annotated[Number, Field(ge=0, le=31_536_000)] = 0.0
    start_interval_sec: Duration = 5.0
    retries: Annotated[Count, Field(ge=1, le=100_000)] = 3


class McpServer(WrittenMcpServer):
    """`[[environment.mcp_servers]]`."""

    transport: Transport | None = "sse"


class Tpu(Written):
    """`[environment.tpu]`."""

    type: Text
    topology: str | None = None


class EnvironmentTable(Written):
    """`[environment]`: the container."""

    build_timeout_sec: Duration = 600.0
    docker_image: Text | None = None
    os: Literal["linux", "windows"] = "linux"
    cpus: Annotated[Number, Field(gt=0, le=4096)] | None = None
    memory_mb: Megabytes | None = None
    storage_mb: Megabytes | None = None
    memory: LegacySize | None = None
    storage: LegacySize | None = None
    gpus: Annotated[Count, Field(ge=0)] = 0
    gpu_types: list[str] | None = None
    tpu: Tpu | None = None
    env: Variables = {}
    mcp_servers: list[McpServer] = []
    skills_dir: Text | None = None
    healthcheck: HealthCheckTable | None = None
    workdir: ContainerPath | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: Hosts = []
    allow_internet: Flag | None = None


class AgentTable(Written):
    """`[agent]`: limits of the agent; without a timeout the job's applies."""

    timeout_sec: Duration | None = None
    user: User | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: Hosts = []


class CollectCommand(Written):
    """`[[verifier.collect]]`: run after the agent, before artifacts are taken."""

    command: Text
    service: Text = "main"
    timeout_sec: Duration = 60.0
    user: User | None = None


class VerifierTable(Written):
    """`[verifier]`: how `tests/test.sh` is run."""

    timeout_sec: Duration | None = None
    env: Variables = {}
    user: User | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: EnvironmentTable | None = None
    collect: list[CollectCommand] = []
    network_mode: NetworkMode | None = None
    allowed_hosts: Hosts = []


def hosts_of(table: EnvironmentTable | AgentTable | VerifierTable) -> tuple[str, ...] | None:
    """Return the hosts of an allowlist, none if it lists none; None if the network is none."""
    return tuple(table.allowed_hosts) if table.network_mode == "allowlist" else None


class SolutionTable(Written):
    """`[solution]`: variables of `solution/solve.sh`."""

    env: Variables = {}


class Step(Written):
    """`[[steps]]`: one of several steps. What it leaves out is that of the task."""

    name: Text
    agent: AgentTable | None = None
    verifier: VerifierTable | None = None
    min_reward: Number | dict[Text, Number] | None = None
    healthcheck: HealthCheckTable | None = None
    artifacts: Annotated[list[WrittenArtifact], BeforeValidator(sources)] = []


class TaskFile(Written):
    """`task.toml`."""

    schema_version: Text | None = None
    version: Text | None = None
    """The old name of `schema_version`."""
    task: Package | None = None
    metadata: dict[str, Any] = {}
    source: str | None = None
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    artifacts: Annotated[list[WrittenArtifact], BeforeValidator(sources)] = []
    agent: AgentTable = AgentTable()
    verifier: VerifierTable = VerifierTable()
    environment: EnvironmentTable = EnvironmentTable()
    solution: SolutionTable = SolutionTable()
    steps: list[Step] = []
