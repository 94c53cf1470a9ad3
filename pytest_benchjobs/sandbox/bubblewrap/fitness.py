"""Fitness of scenarios for local sandboxes: which cannot run in one, and what those that do are not given. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from ...model.job import JobConfig
from ...model.scenario import DEFAULT_PIDS, Environment, Scenario
from ..paths import is_below
from ..protocol import ROOT

HOST = "host"
"""The image of scenarios that run on the programs of this machine."""
_READ_ONLY = (
    "/bin", "/dev", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/proc", "/sbin", "/sys", "/usr",
)  # fmt: skip
"""Directories of this machine or of the kernel, into which nothing is put."""
_LOCAL = "and in a local sandbox"


def runs_on_host(environment: Environment, image_map: Mapping[str, str]) -> bool:
    """Return True if it needs no image but `host`: as it is written, or as the image map has it."""
    image = environment.image
    if image is None:
        return environment.dockerfile is None and environment.snapshot is None
    return image_map.get(image, image) == HOST


def is_root(user: str | None) -> bool:
    """Return True if that is the one user there is."""
    return user is None or user in ROOT


def incompatibility(scenario: Scenario, config: JobConfig) -> str | None:
    """Return why a scenario is not for a local sandbox; None if it is."""
    environment, places = scenario.environment, scenario.places
    image = environment.image or (
        "of its Dockerfile" if environment.snapshot is None else environment.image_shown
    )
    agents = (scenario.agent_user, *(step.agent_user for step in scenario.steps))
    users = (environment.user, *agents, *(scorer.user for scorer in scenario.scorers))
    user = next((user for user in users if not is_root(user)), None)
    networks = {environment.network, scenario.agent_network, *(step.agent_network for step in scenario.steps)}
    networks |= {scorer.network for scorer in scenario.scorers}
    written = (*scenario.files, *([environment.workdir] if environment.workdir else ()))
    path = next((path for path in written if is_below(posixpath.normpath(path), _READ_ONLY)), None)
    lacks = (
        (not runs_on_host(environment, config.image_map), f"needs an image ({image}), and there is no Docker"),
        (user is not None, f"needs the user {user!r}, and a local sandbox has only root"),
        ("allowlist" in networks, "needs the network `allowlist`, and a local sandbox has only `public` and `none`"),
        (environment.git_history, "ends the history of repositories in an image, and there is no Docker"),
        (environment.gpus, "needs GPUs, and a local sandbox has no devices"),
        (environment.allow_sudo, "needs sudo, which a local sandbox does not allow"),
        (None in places, f"keeps processes running, {_LOCAL} they end with the command that started them"),
        (any(one and one.environment for one in places), "is graded in another image, and there is no Docker"),
        (environment.compose is not None, "has services of Docker Compose, and there is no Docker"),
        (environment.healthcheck, f"waits for a service, {_LOCAL} it ends with the command that started it"),
        (path is not None, f"writes to {path}, which is read-only in a local sandbox"),
    )  # fmt: skip
    return next((f"incompatible: {why}" for is_so, why in lacks if is_so), None)


def not_enforced(environment: Environment) -> tuple[str, ...]:
    """Return the limits of a scenario that are not enforced, in words for its result."""
    limits = [name for name in ("cpus", "memory", "storage") if getattr(environment, name) is not None]
    limits += ["pids"] if environment.pids != DEFAULT_PIDS else []
    return (f"not enforced in a local sandbox: the limit of {', '.join(limits)}",) if limits else ()
