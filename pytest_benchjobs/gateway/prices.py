"""What calls cost: a dated table of prices, packaged or the user's own."""

from __future__ import annotations

import dataclasses
import datetime
import fnmatch
import functools
import math
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from ..model.errors import InputError
from ..sources.toml_lines import toml_lines

_MILLION = 1_000_000
_AMOUNTS = ("input", "output", "cached", "cache_write", "cache_write_1h")


@dataclasses.dataclass(frozen=True, slots=True)
class Tokens:
    """Of one call. None: not reported."""

    input: int | None = None
    """All that was sent."""
    output: int | None = None
    """All that came back."""
    cached: int | None = None
    """Of `input`, read from a cache."""
    cache_write: int | None = None
    """Of `input`, written to a cache."""
    cache_write_1h: int | None = None
    """Of `cache_write`, to be kept for an hour, which costs more."""
    reasoning: int | None = None
    """Of `output`."""

    @property
    def total(self) -> int | None:
        """Sent and received; None if neither was reported."""
        if self.input is None and self.output is None:
            return None
        return (self.input or 0) + (self.output or 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Price:
    """USD for a million tokens each."""

    input: float
    output: float
    cached: float
    cache_write: float
    cache_write_1h: float

    def cost(self, tokens: Tokens) -> float:
        """USD for what was reported."""
        cached, write, hour = tokens.cached or 0, tokens.cache_write or 0, tokens.cache_write_1h or 0
        plain = max((tokens.input or 0) - cached - write, 0)
        total = (
            plain * self.input
            + cached * self.cached
            + max(write - hour, 0) * self.cache_write
            + hour * self.cache_write_1h
            + (tokens.output or 0) * self.output
        )
        return total / _MILLION


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
    models: tuple[str, ...]
    providers: tuple[str, ...]
    """Empty: whoever serves it."""
    price: Price
    above: int | None
    """Input tokens of a call above which `long` counts."""
    long: Price | None


class Prices:
    """A table of prices: the first entry that fits counts."""

    def __init__(self, date: datetime.date, entries: tuple[_Entry, ...]) -> None:
        self.date = date
        self._entries = entries
        self._find = functools.lru_cache(maxsize=1024)(self._search)

    def known(self, provider: str, model: str) -> bool:
        """Whether there is a price for it."""
        return self._find(provider, model) is not None

    def cost(self, provider: str, model: str, tokens: Tokens) -> float | None:
        """USD of a call; None: the model has no price here, or nothing was reported to be priced."""
        entry = self._find(provider, model)
        if entry is None or tokens.total is None:
            return None
        long = entry.above is not None and (tokens.input or 0) > entry.above
        return (entry.long if long and entry.long else entry.price).cost(tokens)

    def _search(self, provider: str, model: str) -> _Entry | None:
        for entry in self._entries:
            if entry.providers and provider not in entry.providers:
                continue
            if any(fnmatch.fnmatchcase(model, pattern) for pattern in entry.models):
                return entry
        return None


def load_prices(path: Path | None = None) -> Prices:
    """The table at `path`, or the packaged one.

    Raises:
        InputError: with the line of what is wrong in it.

    """
    if path is None:
        text = (resources.files(__package__) / "prices.toml").read_text("utf-8")
        return _Table(Path("prices.toml"), text).read()
    try:
        return _Table(path, path.read_text("utf-8")).read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise InputError(f"the price table cannot be read: {reason}", path=path) from None


class _Table:
    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        try:
            self._data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"not TOML: {error}", path=path) from None
        self._lines = toml_lines(text)

    def read(self) -> Prices:
        self._only(self._data, (), {"date", "model"})
        date = self._data.get("date")
        if type(date) is not datetime.date:
            raise self._wrong("`date` is when these prices held, such as date = 2026-11-21", ("date",))
        entries = self._data.get("model", [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise self._wrong("write each model as a table [[model]]", ("model",))
        return Prices(date, tuple(self._entry(entry, ("model", at)) for at, entry in enumerate(entries)))

    def _entry(self, entry: dict[str, Any], place: tuple[str | int, ...]) -> _Entry:
        self._only(entry, place, {"names", "providers", "long", *_AMOUNTS})
        names = self._texts(entry, place, "names")
        if not names:
            raise self._wrong(
                '`names` lists the models it is for, such as names = ["gpt-5", "gpt-5-2*"]', place
            )
        long = entry.get("long")
        if long is None:
            above, price = None, None
        else:
            if not isinstance(long, dict):
                raise self._wrong("`long` is a table with `above` and prices", (*place, "long"))
            self._only(long, (*place, "long"), {"above", *_AMOUNTS})
            above = long.get("above")
            if type(above) is not int or above < 1:
                raise self._wrong("`above` is a number of input tokens", (*place, "long", "above"))
            price = self._price(long, (*place, "long"))
        return _Entry(names, self._texts(entry, place, "providers"), self._price(entry, place), above, price)

    def _price(self, table: dict[str, Any], place: tuple[str | int, ...]) -> Price:
        amounts: dict[str, float] = {}
        for name in _AMOUNTS:
            value = table.get(name)
            if value is None:
                if name in ("input", "output"):
                    raise self._wrong(f"`{name}` is missing: USD for a million tokens", place)
                # No price of its own: it costs what anything sent costs.
                amounts[name] = amounts["cache_write" if name == "cache_write_1h" else "input"]
            elif isinstance(value, bool) or not isinstance(value, int | float):
                raise self._wrong(f"`{name}` is a number: USD for a million tokens", (*place, name))
            elif not math.isfinite(value) or value < 0:
                raise self._wrong(f"`{name}` cannot be {value}", (*place, name))
            else:
                amounts[name] = float(value)
        return Price(**amounts)

    def _texts(self, table: dict[str, Any], place: tuple[str | int, ...], name: str) -> tuple[str, ...]:
        value = table.get(name, [])
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise self._wrong(f"`{name}` is a list of names", (*place, name))
        return tuple(value)

    def _only(self, table: dict[str, Any], place: tuple[str | int, ...], known: set[str]) -> None:
        for name in table:
            if name not in known:
                raise self._wrong(
                    f"`{name}` is not known; it may have {', '.join(sorted(known))}", (*place, name)
                )

    def _wrong(self, message: str, place: tuple[str | int, ...]) -> InputError:
        line = next(
            (self._lines[place[:size]] for size in range(len(place), 0, -1) if place[:size] in self._lines), 1
        )
        return InputError(message, path=self._path, line=line)
