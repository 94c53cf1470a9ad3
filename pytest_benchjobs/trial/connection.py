"""Connection of a trial to its models: a route through the gateway, and the door by which the agent reaches it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
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
    """Return the key of an endpoint, from `given` or here; None: it needs none. AgentSetupFailed: it is missing."""
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
    trial's last try: limits and usage are those of all tries together. AgentSetupFailed: a key is missing.
    """
    if command is None or not command.endpoints:
        yield None
        return
    if models is None:
        raise GatewayLost("the agent needs a model, and this session has no gateway to reach one")
    upstreams = [Upstream(endpoint, key_of(endpoint, models, given or {})) for endpoint in command.endpoints]
    keys = {one.endpoint.key_variables[0]: one.key for one in upstreams if one.key is not None}
    # An agent without a model, such as a command, may call any.
    has_model = trial.agent.model and trial.agent.name != COMMAND
    own = command.models or ((trial.agent.model,) if has_model else ())
    callable_models = (*own, *models.allowed_models) if own else ()
    tools = trial.scenario.tools_of_providers
    terms = Terms(models.limits, callable_models, tools, secrets or {}, carried)
    with open_route(models.address, trial_name(trial), upstreams, terms) as route:
        yield Connection(route, keys)


def usage_notes(report: RouteReport) -> list[str]:
    """Return notes for readers of a result on how its usage was counted."""
    notes = []
    for reason, calls in report.unknown.items():
        why = clean(reason, 300)
        is_price = why.startswith("no price")
        what = f"{why}; give one with --bench-prices" if is_price else f"{calls} call(s) {why}"
        notes.append(f"cost unknown: {what}")
    if notes and report.at_most is not None:
        notes[-1] += f"; all calls together cost at most {report.at_most:.4f} USD"
    changed = (
        f"{len(report.changed)} call(s) had a different prompt from the recorded ones that answered them"
    )
    taken_out = "taken out of requests, since they run at the provider, out of the network of this trial"
    for names, what, advice in (
        (report.refused, "refused, since this trial may not call it", "; allow it with --bench-allow-model"),
        (report.taken_out, taken_out, "; a scenario allows them with provider_tools"),
        (report.changed, changed, ""),
    ):
        if names:
            notes.append(f"{what}: {', '.join(clean(name, 100) for name in names[:10])}{advice}")
    return notes


def trial_name(trial: Trial) -> str:
    """Return the name of a trial in recordings: the same in every job and on every machine."""
    agent = slug(trial.agent.label.replace(":", "_", 1))
    return f"{agent}/{slug(trial.scenario.benchmark)}/{slug(trial.scenario.id)}/{trial.attempt}"
