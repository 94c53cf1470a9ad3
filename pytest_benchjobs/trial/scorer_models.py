"""Models of scorers, such as judges: their endpoints and keys, checked before a trial starts.

The key is in `JUDGE_` and the provider's variable, such as JUDGE_OPENAI_API_KEY, else in the provider's own. The
address is the provider's, or one that this machine names: a manifest names neither addresses nor variables with keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..agents.providers import target_of
from ..model.agent import AgentSpec
from ..model.endpoint import Endpoint
from ..model.environ import HOST
from ..model.errors import AgentSetupFailed, InputError
from ..model.scenario import ScorerSpec
from ..scoring.needs import needs_of
from ..scoring.protocol import Scorer
from .secrets import JUDGE

if TYPE_CHECKING:
    from .connection import Models


class JudgingModel(NamedTuple):
    """The model that a scorer asks."""

    endpoint: Endpoint
    name: str
    max_cost: float | None


def check_models(
    specs: Sequence[ScorerSpec], kinds: Mapping[str, Scorer], params: Mapping[str, Any], models: Models | None
) -> None:
    """Check that the models of scorers are known (else InputError), and have their keys (else AgentSetupFailed)."""
    for spec in specs:
        model = judging_model(spec, kinds, params)
        if model is not None and models is not None:
            # With the gateway's client, which a job that only reuses has no need of.
            from .connection import key_of

            try:
                key_of(model.endpoint, models, {})
            except AgentSetupFailed as error:
                raise AgentSetupFailed(f"scorer {spec.name!r}: {error}") from None


def judging_model(
    spec: ScorerSpec, kinds: Mapping[str, Scorer], params: Mapping[str, Any]
) -> JudgingModel | None:
    """Return the model that a scorer asks; None: none. InputError: its provider is unknown, or lacks the protocols."""
    need_of = needs_of(spec.type, kinds).model
    if need_of is None:
        return None
    need = need_of(spec)
    try:
        asker = AgentSpec(name="judge", model=need.model)
        target = target_of(asker, ("openai", "anthropic"), None, HOST, params)
    except InputError as error:
        raise InputError(f"scorer {spec.name!r}: {error.message}") from None
    known = target.endpoint.key_variables
    own = (*(f"{JUDGE}{name}" for name in known), *known)
    endpoint = target.endpoint.model_copy(update={"key_variables": own})
    return JudgingModel(endpoint, target.model, need.max_cost)
