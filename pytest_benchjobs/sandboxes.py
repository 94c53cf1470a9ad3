"""Names for providers of sandboxes of your own, which the hook `pytest_benchjobs_sandboxes` adds.

The protocols `SandboxProvider` and `Sandbox` say what each method does; the rest helps to meet them.
"""

from __future__ import annotations

from .model.errors import (
    ContainerLost,
    ContainerStartFailed,
    EngineError,
    EngineUnavailable,
    EnvironmentFailed,
    ImageMissing,
)
from .model.job import JobConfig, Owner
from .model.result import ImageRecord
from .model.scenario import Environment, Network, Scenario
from .sandbox.archive import pack, unpack
from .sandbox.door import behind_door
from .sandbox.host_command import LocalCommand, send
from .sandbox.host_files import MovedByPrograms
from .sandbox.memory import HostProvider, Unobserved
from .sandbox.paths import DEFAULT_PATH
from .sandbox.protocol import (
    ROOT,
    Diagnoses,
    ExecResult,
    Fetched,
    File,
    ImageRequest,
    Kept,
    Mount,
    Opens,
    Promise,
    Sandbox,
    SandboxProvider,
    SandboxSpec,
    Sink,
    Stdin,
    Stopping,
)

__all__ = [
    "DEFAULT_PATH",
    "ROOT",
    "ContainerLost",
    "ContainerStartFailed",
    "Diagnoses",
    "EngineError",
    "EngineUnavailable",
    "Environment",
    "EnvironmentFailed",
    "ExecResult",
    "Fetched",
    "File",
    "HostProvider",
    "ImageMissing",
    "ImageRecord",
    "ImageRequest",
    "JobConfig",
    "Kept",
    "LocalCommand",
    "Mount",
    "MovedByPrograms",
    "Network",
    "Opens",
    "Owner",
    "Promise",
    "Sandbox",
    "SandboxProvider",
    "SandboxSpec",
    "Scenario",
    "Sink",
    "Stdin",
    "Stopping",
    "Unobserved",
    "behind_door",
    "pack",
    "send",
    "unpack",
]
