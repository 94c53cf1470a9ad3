"""What a scenario asks for and its sandboxes do not promise, in notes for its result. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ..model.scenario import DEFAULT_PIDS, Scenario
from ..sandbox.protocol import ROOT, Promise


def asked(scenario: Scenario) -> tuple[Promise, ...]:
    """Return the promises that a scenario counts on, beyond what every sandbox gives.

    Not its image, which a result has a record of; nor what is kept, which the job asks for and a note of its own tells.
    """
    own = scenario.environments
    users = {*(one.user for one in own), *(one.user for one in scenario.scorers)}
    users |= {scenario.agent_user, *(step.agent_user for step in scenario.steps)}
    networks = {*(one.network for one in own), *(one.network for one in scenario.scorers)}
    networks |= {scenario.agent_network, *(step.agent_network for step in scenario.steps)}
    in_place = None in scenario.places
    is_asked = {
        Promise.USERS: bool(users - ROOT - {None}),
        Promise.MEMORY: any(one.memory or one.memory_request for one in own),
        Promise.OUT_OF_MEMORY: any(one.memory for one in own),
        Promise.CPUS: any(one.cpus or one.cpus_request for one in own),
        Promise.PIDS: any(one.pids != DEFAULT_PIDS for one in own),
        Promise.STORAGE: any(one.storage for one in own),
        Promise.DAEMONS: in_place or any(one.healthcheck for one in own),
        Promise.NO_NETWORK: "none" in networks,
        Promise.ALLOWLIST: "allowlist" in networks,
        Promise.EVIDENCE: in_place,
        Promise.SERVICES: any(one.compose for one in own),
    }
    return tuple(promise for promise, is_so in is_asked.items() if is_so)


def unkept(scenario: Scenario, sandbox: str, lacks: Mapping[Promise, str]) -> list[str]:
    """Return a note for each reason why sandboxes of a kind do not hold what a scenario asks for."""
    by_reason: dict[str, list[str]] = {}
    for promise in asked(scenario):
        if (why := lacks.get(promise)) is not None:
            by_reason.setdefault(why, []).append(promise.value)
    return [
        f"not promised by the sandbox {sandbox}: {', '.join(names)}: {why}"
        for why, names in by_reason.items()
    ]
