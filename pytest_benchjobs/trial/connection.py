"""Connection of a trial to its models: a route through the gateway, and the door by which the agent reaches it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from ..gateway.client import RouteReport, SpendingLimits
from ..model.endpoint import Endpoint
from ..model.errors import AgentSetupFailed
from ..model.result import Trial
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
    if report.sent_again:
        notes.append(
            f"{report.sent_again} call(s) of models were sent again, and counted once, as a kept connection ended "
            "without an answer"
        )
    if report.left_out:
        notes.append(
            f"{report.left_out} call(s) of models are not in the steps: these are made of up to 10,000 calls and 64 MB"
        )
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
