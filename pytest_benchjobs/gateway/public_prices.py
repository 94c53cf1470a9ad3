"""Prices of public providers, from the package genai-prices: the table that comes with it, which is never fetched.

Its import takes some tenths of a second and 20 MB, so it waits for the first call of a provider that may have a price.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING

from .tokens import Tokens

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot

_OWN_SERVERS = frozenset({"openai-compatible", "vllm"})
"""Providers whose models are called like those of others, and cost what their machines cost."""


def warm_up(provider: str) -> None:
    """Begin to load the table, so that the first answer of this provider does not wait for it."""
    if provider not in _OWN_SERVERS:
        threading.Thread(target=_providers, name="prices", daemon=True).start()


def cost(provider: str, model: str, tokens: Tokens) -> float | None:
    """USD of a call at standard rates of today; None: the provider or its model is not in the table."""
    if not model or provider in _OWN_SERVERS or provider not in _providers():
        return None
    from genai_prices import Usage

    used = {
        "input_tokens": tokens.input,
        "output_tokens": tokens.output,
        "cache_read_tokens": tokens.cached,
        "cache_write_tokens": tokens.cache_write,
        "cache_write_1h_tokens": tokens.cache_write_1h,
    }
    try:
        found = _snapshot().calc(Usage(**used), model, provider, None, None, None)
    except (LookupError, ValueError):  # no such model; or more came from a cache than was sent
        return None
    return float(found.total_price)


@functools.cache
def _providers() -> frozenset[str]:
    return frozenset(provider.id for provider in _snapshot().providers)


def _snapshot() -> DataSnapshot:
    from genai_prices.data_snapshot import get_snapshot

    return get_snapshot()
