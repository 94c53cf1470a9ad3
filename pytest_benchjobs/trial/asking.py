"""Models that scorers ask, such as a judge: through the gateway, on a route of their own.

Nothing of it enters a container. Calls count towards the limits of the job, not towards the agent's usage or limits.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from ..agents.reading.values import at, items_at, spoken, text_at
from ..gateway.client import Route, RouteReport, SpendingLimits, Terms, Upstream, open_route
from ..model.ending import Ending
from ..model.endpoint import GATEWAY_URL, Endpoint
from ..model.errors import BudgetSpent, GatewayLost, InfrastructureError, ScorerCrashed
from ..model.scenario import ScorerSpec
from ..model.usage import Usage
from ..scoring.needs import model_needed
from ..store.layout import slug
from ..store.text import clean, one_line
from ..store.totals import added
from .connection import key_of, trial_name, usage_notes
from .context import TrialContext
from .outcome import infrastructure_error
from .scorer_models import judging_model

_ANTHROPIC_TOKENS = 4096
"""The most tokens of a reply, where a protocol requires a number and the scorer has none."""


@dataclasses.dataclass(slots=True)
class Asking:
    """The model of one scorer. Call it to ask."""

    name: str
    endpoint: Endpoint
    model: str
    timeout: float
    route: Route
    usage: Usage | None = None
    """Usage, once it is closed."""
    quota: str | None = None
    """Message of its provider, if the quota is used up."""

    def __call__(self, system: str, prompt: str, options: Mapping[str, Any]) -> str:
        """Ask, and return the reply.

        Raises:
            InfrastructureError: there is no reply.
        """
        path, body = _request(self.endpoint, self.model, system, prompt, options)
        try:
            status, said = self.route.post(f"{GATEWAY_URL[self.endpoint.wire]}{path}", body, self.timeout)
        except (ConnectionError, TimeoutError) as error:
            raise self._failed(str(error)) from None
        if status != 200:
            message = text_at(said, "error", "message") or text_at(said, "message") or str(said)
            raise self._failed(f"its endpoint answered {status}: {message}")
        reply = _reply(self.endpoint, said)
        if not reply.strip():
            raise ScorerCrashed(f"scorer {self.name!r}: the model {self.model} gave an empty reply")
        return reply

    def _failed(self, why: str) -> InfrastructureError:
        report = self.route.close()
        blame = f"the model of scorer {self.name!r}: {clean(one_line(report.message or why, 300))}"
        if report.ending is Ending.QUOTA:
            self.quota = blame
        if report.ending is Ending.TRIAL_LIMIT:
            return BudgetSpent(blame)
        return infrastructure_error(report.ending, blame) or ScorerCrashed(blame)


@contextlib.contextmanager
def asking(context: TrialContext, spec: ScorerSpec) -> Iterator[Asking | None]:
    """Open a route to the model of a scorer; None where it needs none, or the session has no gateway.

    Raises:
        InfrastructureError: a key is missing, or the gateway is lost.
    """
    need = model_needed(spec, context.services.scorers)
    models = context.services.models
    if need is None or models is None:
        yield None
        return
    endpoint, model = judging_model(spec, need, context.params)
    upstream = Upstream(endpoint, key_of(endpoint, models, {}))
    if upstream.key is not None:
        context.keep_secret({endpoint.key_variables[0]: upstream.key})
    turn = "" if context.turn == 1 else f".{context.turn}"
    name = f"{trial_name(context.trial)}.{slug(spec.name)}{turn}"
    terms = Terms(SpendingLimits(max_cost_usd=need.max_cost), (model,), secrets=context.secrets)
    timeout = context.limits.scorer_timeout(spec)
    with open_route(models.address, name, [upstream], terms) as route:
        one = Asking(spec.name, endpoint, model, timeout, route)
        try:
            yield one
        finally:
            with contextlib.suppress(GatewayLost):
                one.usage = _closed(context, spec, route.close())


def _closed(context: TrialContext, spec: ScorerSpec, report: RouteReport) -> Usage:
    context.findings.notes += (f"scorer {spec.name}: {note}" for note in usage_notes(report))
    if report.job_stopped is not None:
        context.services.on_spent(report.job_message or "a limit of the job was reached")
    context.findings.grading_usage = added(context.findings.grading_usage, report.usage)
    return report.usage


def _request(
    endpoint: Endpoint, model: str, system: str, prompt: str, options: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    if endpoint.wire == "anthropic":
        given = {name: value for name, value in options.items() if name != "seed"}
        messages = [{"role": "user", "content": prompt}]
        return "/v1/messages", {
            "model": model,
            "max_tokens": _ANTHROPIC_TOKENS,
            "system": system,
            "messages": messages,
            **given,
        }
    messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
    return "/chat/completions", {"model": model, "messages": messages, **options}


def _reply(endpoint: Endpoint, said: object) -> str:
    if endpoint.wire == "anthropic":
        return "".join(text_at(part, "text") for part in items_at(said, "content"))
    message = at(next(items_at(said, "choices"), None), "message")
    return spoken(at(message, "content"))
