"""Prices of calls: from the user's own table, then the packaged one, then that of `public_prices`."""

from __future__ import annotations

import fnmatch
import functools
from importlib import resources
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ..sources.complaints import Complaints, Written
from ..sources.documents import SETTINGS_BYTES, Document, parse_document, read_document
from ..sources.written import Count, Day, Number, Text
from . import public_prices
from .tiers import at_rate
from .tokens import SEARCHES, NoSuchPrice, Price, Tokens, Unpriced

_AMOUNTS = ("input", "output", "cached", "cache_write", "cache_write_1h")
_APART = (
    SEARCHES,
    *(f"{part}_{medium}" for part in ("input", "output", "cached") for medium in ("audio", "image", "video")),
)
"""Amounts of `Tokens.apart`. That of searches is for a thousand, all others are for a million."""
_PACKAGED, _KEYS = "prices.toml", "gateway.md"
_Amount = Annotated[Number, Field(ge=0)]


class WrittenPrice(Written):
    """Price of some models, in USD per million tokens."""

    names: Annotated[list[Text], Field(min_length=1)]
    """The models it is for, such as `gpt-5`, `gpt-5-2*`."""
    providers: list[Text] = []
    """Providers that serve them; default: any."""
    up_to: Annotated[Count, Field(ge=1)] | None = None
    """The most input tokens of a call for which it holds."""
    input: _Amount
    output: _Amount
    cached: _Amount | None = None
    cache_write: _Amount | None = None
    cache_write_1h: _Amount | None = None
    input_audio: _Amount | None = None
    input_image: _Amount | None = None
    input_video: _Amount | None = None
    output_audio: _Amount | None = None
    output_image: _Amount | None = None
    output_video: _Amount | None = None
    cached_audio: _Amount | None = None
    cached_image: _Amount | None = None
    cached_video: _Amount | None = None
    web_searches: _Amount | None = None
    """Of a thousand."""

    @functools.cached_property
    def price(self) -> Price:
        """The amounts, all for a million."""
        amounts = self.model_dump(include=set(_AMOUNTS), exclude_none=True)
        apart = self.model_dump(include=set(_APART), exclude_none=True)
        if SEARCHES in apart:
            apart[SEARCHES] *= 1000
        return Price(**amounts, apart=apart)


class WrittenPrices(Written):
    """A price table."""

    date: Day
    """When these prices held."""
    model: list[WrittenPrice] = []


class Prices:
    """Tables of prices. The first entry that matches a call counts; `public_prices` is for models without an entry."""

    def __init__(self, entries: tuple[WrittenPrice, ...]) -> None:
        self._entries = entries
        self._find = functools.lru_cache(maxsize=1024)(self._search)

    def over(self, others: Prices) -> Prices:
        """The table, with the entries of `others` for models that it does not have."""
        return Prices((*self._entries, *others._entries))

    def known(self, provider: str, model: str, rate: str | None = None, *, public: bool = True) -> bool:
        """True if the model has a price at this rate."""
        try:
            self.cost(provider, model, Tokens(input=1, output=1), rate, public=public)
        except Unpriced:
            return False
        return True

    def cost(
        self, provider: str, model: str, tokens: Tokens, rate: str | None = None, *, public: bool = True
    ) -> float:
        """USD of a call.

        Args:
            provider: Who serves the model.
            model: Name of the model.
            tokens: Reported usage.
            rate: Name of its rate, if that is not the standard one.
            public: Public prices hold: it is no server of the user's.

        Raises Unpriced: the cost is unknown; the message says why.
        """
        if tokens.total is None:
            raise Unpriced(f"{model or 'the model'} did not report what it used")
        if tokens.steps:
            steps = ((other or model, step) for other, step in tokens.steps)
            return sum(self.cost(provider, name, step, rate, public=public) for name, step in steps)
        name = at_rate(model, rate)
        if not (entries := self._find(provider, model, rate)):
            if not public:
                raise NoSuchPrice(f"no price for {name}")
            return public_prices.cost(provider, model, tokens, rate)
        for entry in entries:
            if entry.up_to is None or (tokens.input or 0) <= entry.up_to:
                try:
                    return entry.price.cost(tokens)
                except Unpriced as problem:
                    raise Unpriced(f"{problem} of {name}") from None
        raise Unpriced(f"no price for a call of {name} with so many tokens")

    def _search(self, provider: str, model: str, rate: str | None) -> tuple[WrittenPrice, ...]:
        name = at_rate(model, rate)
        return tuple(
            entry
            for entry in self._entries
            if (not entry.providers or provider in entry.providers)
            and any(
                fnmatch.fnmatchcase(name, pattern)
                for pattern in entry.names
                if rate is None or "(" in pattern  # `gpt-5*` is not meant for a rate of another price
            )
        )


def load_prices(path: Path | None = None) -> Prices:
    """The table at `path`, if any, over the packaged one.

    Raises InputErrors: every mistake in the file, with its line.
    """
    if path is None:
        packaged = resources.files(__package__) / _PACKAGED
        return _prices(parse_document(Path(_PACKAGED), packaged.read_text("utf-8"), keys=_KEYS))
    return _prices(read_document(path, keys=_KEYS, limit=SETTINGS_BYTES)).over(load_prices())


def _prices(document: Document) -> Prices:
    return Prices(tuple(Complaints(document).whole(WrittenPrices).model))
