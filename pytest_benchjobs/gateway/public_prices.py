"""Prices of public providers, from the table in the package genai-prices, which is never fetched.

Its import takes some tenths of a second and 6 MB, so it waits for the first call of a provider that may have a price.
"""

from __future__ import annotations

import datetime
import functools
import threading
from typing import TYPE_CHECKING

from .tiers import at_rate
from .tokens import LIKE_TEXT, SEARCHES, NoSuchPrice, Tokens, Unpriced, in_words

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelPrice

_OWN_SERVERS = frozenset({"openai-compatible", "vllm"})
"""Providers whose models are named like those of others, and whose cost is that of their machines."""


def warm_up(provider: str) -> None:
    """Begin to load the table, so that the first answer of this provider does not wait for it."""
    if provider not in _OWN_SERVERS:
        threading.Thread(target=_providers, name="prices", daemon=True).start()


def cost(provider: str, model: str, tokens: Tokens, rate: str | None = None) -> float:
    """USD of a call at today's prices.

    Raises Unpriced: the table has no price for it, or its counts contradict each other.
    """
    prices = _prices(provider, model, rate)
    for name, count in tokens.apart.items():
        if count and name not in LIKE_TEXT and vars(prices).get(_price_key(name)) is None:
            raise Unpriced(f"no price for {in_words(name)} of {model}")
    from genai_prices import Usage

    used = {
        "input_tokens": tokens.input,
        "output_tokens": tokens.output,
        "cache_read_tokens": tokens.cached,
        "cache_write_tokens": tokens.cache_write,
        "cache_write_1h_tokens": tokens.cache_write_1h,
        "output_reasoning_tokens": tokens.reasoning,
        **{_usage_key(name): count for name, count in tokens.apart.items()},
    }
    try:
        return float(prices.calc_price(Usage(**used))["total_price"])
    except ValueError as problem:  # such as more tokens from a cache than were sent
        raise Unpriced(f"no price for these counts of {model}: {problem}") from None


def _prices(provider: str, model: str, rate: str | None) -> ModelPrice:
    """Prices of a model at a rate."""
    unheard = f"no price for {at_rate(model, rate) or 'a model without a name'}"
    if not model or provider in _OWN_SERVERS or provider not in _providers():
        raise NoSuchPrice(unheard)
    try:
        by, found = _snapshot().find_provider_model(model, None, provider, None)
    except LookupError:
        raise NoSuchPrice(unheard) from None
    now = datetime.datetime.now(datetime.UTC)
    if rate is None:
        return found.get_prices(now)
    # Rates of a model of another provider are not those of this one.
    variants = (found.price_variants or ()) if any(found is one for one in by.models) else ()
    for variant in variants:
        in_force = variant.constraint is None or variant.constraint.active(now)
        if in_force and variant.when in ({"service_tier": rate}, {"speed": rate}):
            return found.get_prices(now, variant.when)
    raise NoSuchPrice(unheard)


def _usage_key(medium: str) -> str:
    """Name that the package has for a count of `Tokens.apart`."""
    if medium == SEARCHES:
        return SEARCHES
    part, _, what = medium.partition("_")
    return f"cache_{what}_read_tokens" if part == "cached" else f"{medium}_tokens"


def _price_key(medium: str) -> str:
    return f"{SEARCHES}_kcount" if medium == SEARCHES else _usage_key(medium).replace("_tokens", "_mtok")


@functools.cache
def _providers() -> frozenset[str]:
    return frozenset(provider.id for provider in _snapshot().providers)


def _snapshot() -> DataSnapshot:
    from genai_prices.data_snapshot import get_snapshot

    return get_snapshot()
