"""Rates of a call other than the standard one, by the words of providers: service tiers, faster modes, regions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..system.cutting import beginning_of

TIER_HEADER = "x-gemini-service-tier"
"""Header of answers in which Gemini tells the tier."""
_KEYS = {
    "service_tier": "tier",
    "serviceTier": "tier",
    "trafficType": "tier",
    TIER_HEADER: "tier",
    "speed": "speed",
    "inference_geo": "region",
}
_STANDARD = frozenset(
    [
        *("", "auto", "default", "standard", "standard_only", "on_demand", "none", "global", "not_available"),
        *("unspecified", "traffic_type_unspecified"),
    ]
)
"""Words for the standard rate. Any other word is a rate of its own."""
_PREFIX = re.compile("^(on_demand|service_tier)_")
_LONGEST = 40


def tiers(said: Mapping[str, Any]) -> dict[str, str]:
    """Rates named in a request, an answer or its usage: kind of rate -> word."""
    found = {kind: said[key] for key, kind in _KEYS.items() if isinstance(said.get(key), str)}
    return {kind: beginning_of(_PREFIX.sub("", word.lower()), _LONGEST) for kind, word in found.items()}


def rate(requested: Mapping[str, str], reported: Mapping[str, str]) -> str | None:
    """Name of the rate of a call; None: the standard one. That in the answer counts, else the requested one."""
    words = sorted({*{**requested, **reported}.values()} - _STANDARD)
    return ", ".join(words) or None


def at_rate(model: str, rate: str | None) -> str:
    """Name of a model in price tables when it is called at another rate than the standard one."""
    return model if rate is None else f"{model} ({rate})"
