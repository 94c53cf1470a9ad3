"""Rates of a call other than the standard one, by the words of providers: service tiers, faster modes, regions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..system.cutting import beginning_of

_KEYS = {
    "service_tier": "tier",
    "serviceTier": "tier",
    "trafficType": "tier",
    "speed": "speed",
    "inference_geo": "region",
}
_STANDARD = frozenset(
    [
        *("", "auto", "default", "standard", "standard_only", "on_demand", "none", "global", "not_available"),
        *("unspecified", "traffic_type_unspecified", "service_tier_unspecified"),
    ]
)
"""Words for the standard rate. Any other word is a rate of its own."""
_LONGEST = 40


def tiers(said: Mapping[str, Any]) -> dict[str, str]:
    """What a request, an answer or its usage says about its rate: kind of rate -> word."""
    found = {kind: said[key] for key, kind in _KEYS.items() if isinstance(said.get(key), str)}
    return {
        kind: beginning_of(word.lower().removeprefix("on_demand_"), _LONGEST) for kind, word in found.items()
    }


def rate(asked: Mapping[str, str], told: Mapping[str, str]) -> str | None:
    """Name of the rate of a call; None: the standard one. What the answer told counts, else what was asked for."""
    words = sorted({*{**asked, **told}.values()} - _STANDARD)
    return ", ".join(words) or None


def at_rate(model: str, rate: str | None) -> str:
    """Name of a model in price tables when it is called at another rate than the standard one."""
    return model if rate is None else f"{model} ({rate})"
