"""Connection of a trial to its models: a route through the gateway, and the door by which the agent reaches it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..agents.protocol import AgentCommand
from ..gateway.client import Route, RouteReport, SpendingLimits, Terms, Upstream, open_route
from ..model.agent import COMMAND
from ..model.endpoint import Endpoint
from ..model.errors import AgentSetupFailed, GatewayLost
from ..model.result import Trial
from ..sandbox.door import SOCKET
from ..sandbox.protocol import Mount
from ..store.layout import slug
from ..store.text import clean


@dataclasses.dataclass(frozen=True, slots=True)
class Models:
    """The gateway, shared by all trials of a process."""

    address: str
    """Address of the gateway's control socket."""
    key_of: Callable[[str], str | None]
    """Looks up the value of a variable with a key, anywhere on this machine."""
    limits: SpendingLimits = dataclasses.field(default_factory=SpendingLimits)
    """Limits of each trial."""
    replayed: bool = False
    """True if answers come from a recording, which needs no key."""
    allowed_models: tuple[str, ...] = ()
    """Models that every trial may call, beside its own and those its agent declares."""
    known_keys: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Variable -> key, of every provider with a key here. Redacted wherever we write."""


@dataclasses.dataclass(frozen=True, slots=True)
class Connection:
    """The route of one trial, open while its agent runs."""

    route: Route
    keys: Mapping[str, str]
    """Variable -> key of its endpoints. An answer may repeat one."""

    @property
    def mount(self) -> Mount:
        """Mount that connects the door in the container with the route."""
        return Mount(self.route.socket, SOCKET)


def key_of(endpoint: Endpoint, models: Models, given: Mapping[str, str]) -> str | None:
    """Return the real key of an endpoint, from `given` or this machine; None where it needs none.

    Raises:
        AgentSetupFailed: it is missing.
    """
    for variable in endpoint.key_variables:
        if value := given.get(variable) or models.key_of(variable):
            return value
    if not endpoint.key_required or models.replayed:
        return None
    first, *others = endpoint.key_variables
    raise AgentSetupFailed(
        f"provider {endpoint.provider} needs a key: set {' or '.join((first, *others))} here, or keep it with "
        f"`benchjobs secret set {first}`"
    )


@contextlib.contextmanager
def connected(
    command: AgentCommand | None,
    models: Models | None,
    trial: Trial,
    given: Mapping[str, str] | None = None,
    *,
    secrets: Mapping[str, str] | None = None,
    carried: Mapping[str, Any] | None = None,
) -> Iterator[Connection | None]:
    """Open a connection for a command that needs models; None for any other.

    `given` are keys that were given to the agent. `secrets` are not recorded. `carried` is from the report of the
    trial's last try: limits and usage are those of all tries together.

    Raises:
        AgentSetupFailed: a key is missing.
        GatewayLost: the gateway is not there.
    """
    if command is None or not command.endpoints:
        yield None
        return
    if models is None:
        raise GatewayLost("the agent needs a model, and this session has no gateway to reach one")
    upstreams = [Upstream(endpoint, key_of(endpoint, models, given or {})) for endpoint in command.endpoints]
    keys = {one.endpoint.key_variables[0]: one.key for one in upstreams if one.key is not None}
    terms = Terms(
        models.limits,
        _callable_models(command, models, trial),
        trial.scenario.tools_of_providers,
        secrets or {},
        carried,
    )
    with open_route(models.address, trial_name(trial), upstreams, terms) as route:
        try:
            yield Connection(route, keys)
        finally:
            with contextlib.suppress(GatewayLost):
                route.close()


def usage_notes(report: RouteReport) -> list[str]:
    """Return notes for readers of a result on how its usage was counted."""
    notes = [_cost_note(reason, calls) for reason, calls in report.unknown.items()]
    if notes and report.at_most is not None:
        notes[-1] += f"; all calls together cost at most {report.at_most:.4f} USD"
    if report.refused:
        notes.append(
            f"refused, since this trial may not call it: {_names(report.refused)}; allow it with --bench-allow-model"
        )
    if report.taken_out:
        notes.append(
            "taken out of requests, since they run at the provider, out of the network of this trial: "
            f"{_names(report.taken_out)}; a scenario allows them with provider_tools"
        )
    if report.changed:
        notes.append(
            f"{len(report.changed)} call(s) had a different prompt from the recorded ones that answered them: "
            + _names(report.changed)
        )
    return notes


def _cost_note(reason: str, calls: int) -> str:
    reason = clean(reason, 300)
    if reason.startswith("no price"):
        return f"cost unknown: {reason}; give one with --bench-prices"
    return f"cost unknown: {calls} call(s) {reason}"


def _names(models: Sequence[str]) -> str:
    return ", ".join(clean(name, 100) for name in models[:10])


def _callable_models(command: AgentCommand, models: Models, trial: Trial) -> tuple[str, ...]:
    """Return names of the models a trial may call; none where its agent has no model, such as a command."""
    about = command.models
    if not about and trial.agent.model and trial.agent.name != COMMAND:
        about = (trial.agent.model,)
    return (*about, *models.allowed_models) if about else ()


def trial_name(trial: Trial) -> str:
    """Return the name of a trial in recordings: the same in every job and on every machine."""
    agent = slug(trial.agent.label.replace(":", "_", 1))
    return f"{agent}/{slug(trial.scenario.benchmark)}/{slug(trial.scenario.id)}/{trial.attempt}"
