"""Fitness of scenarios for local sandboxes: which cannot run in one, and what those that do are not given. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping

from ...model.job import JobConfig
from ...model.scenario import DEFAULT_PIDS, Environment, Scenario
from ..paths import is_below
from ..protocol import ROOT

HOST = "host"
"""The image of scenarios that run on the programs of this machine."""
READ_ONLY = ("/bin", "/dev", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/proc", "/sbin",
             "/sys", "/usr")  # fmt: skip
"""Directories of this machine or of the kernel, into which nothing is put."""


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
    why = next(_lacks(scenario, config), None)
    return None if why is None else f"incompatible: {why}"


def not_enforced(environment: Environment) -> tuple[str, ...]:
    """Return the limits of a scenario that are not enforced, in words for its result."""
    limits = [name for name in ("cpus", "memory", "storage") if getattr(environment, name) is not None]
    if environment.pids != DEFAULT_PIDS:
        limits.append("pids")
    if not limits:
        return ()
    return (f"not enforced in a local sandbox: the limit of {', '.join(limits)}",)


def _lacks(scenario: Scenario, config: JobConfig) -> Iterator[str]:
    environment = scenario.environment
    if not runs_on_host(environment, config.image_map):
        image = environment.image or (
            "of its Dockerfile" if environment.snapshot is None else environment.image_shown
        )
        yield f"needs an image ({image}), and there is no Docker"
    agents = (scenario.agent_user, *(step.agent_user for step in scenario.steps))
    users = (environment.user, *agents, *(scorer.user for scorer in scenario.scorers))
    if (user := next((user for user in users if not is_root(user)), None)) is not None:
        yield f"needs the user {user!r}, and a local sandbox has only root"
    scorers = (scorer.network for scorer in scenario.scorers)
    steps = (step.agent_network for step in scenario.steps)
    if "allowlist" in (environment.network, scenario.agent_network, *steps, *scorers):
        yield "needs the network `allowlist`, and a local sandbox has only `public` and `none`"
    if environment.git_history is not None:
        yield "ends the history of repositories in an image, and there is no Docker"
    if environment.gpus:
        yield "needs GPUs, and a local sandbox has no devices"
    if environment.allow_sudo:
        yield "needs sudo, which a local sandbox does not allow"
    if any(place is None for place in scenario.places):
        yield "keeps processes running, and in a local sandbox they end with the command that started them"
    if any(place is not None and place.environment for place in scenario.places):
        yield "is graded in another image, and there is no Docker"
    if environment.compose is not None:
        yield "has services of Docker Compose, and there is no Docker"
    if environment.healthcheck is not None:
        yield "waits for a service, and in a local sandbox it ends with the command that started it"
    written = (*scenario.files, *([environment.workdir] if environment.workdir else ()))
    inside = (path for path in written if is_below(posixpath.normpath(path), READ_ONLY))
    if (path := next(inside, None)) is not None:
        yield f"writes to {path}, which is read-only in a local sandbox"
