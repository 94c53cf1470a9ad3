"""Prices of calls: from the user's own table, then the packaged one, then that of `public_prices`."""

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
from ..sources.toml_data import load_toml, toml_lines
from . import public_prices
from .tokens import Price, Tokens

_RATES = (" (priority)", " (fast)")
_AMOUNTS = ("input", "output", "cached", "cache_write", "cache_write_1h")


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
    names: tuple[str, ...]
    providers: tuple[str, ...]
    """Empty: any provider."""
    up_to: int | None
    """The most input tokens of a call for which it holds."""
    price: Price


class Prices:
    """Tables of prices. The first entry that matches a call counts; `public_prices` is for models without an entry."""

    def __init__(self, entries: tuple[_Entry, ...]) -> None:
        self._entries = entries
        self._find = functools.lru_cache(maxsize=1024)(self._search)

    def over(self, others: Prices) -> Prices:
        """The table, with the entries of `others` for models that it does not have."""
        return Prices((*self._entries, *others._entries))

    def known(self, provider: str, model: str) -> bool:
        """True if the model has a price."""
        return self.cost(provider, model, Tokens(input=1, output=1)) is not None

    def cost(self, provider: str, model: str, tokens: Tokens) -> float | None:
        """USD of a call; None: it has no price, or reported no usage."""
        if tokens.total is None:
            return None
        if not (entries := self._find(provider, model)):
            return None if model.endswith(_RATES) else public_prices.cost(provider, model, tokens)
        for entry in entries:
            if entry.up_to is None or (tokens.input or 0) <= entry.up_to:
                return entry.price.cost(tokens)
        return None

    def _search(self, provider: str, model: str) -> tuple[_Entry, ...]:
        return tuple(
            entry
            for entry in self._entries
            if (not entry.providers or provider in entry.providers)
            and any(fnmatch.fnmatchcase(model, pattern) for pattern in entry.names)
        )


def at_rate(model: str, rate: str | None) -> str:
    """Name of a model in price tables when it is called at another rate than the standard one."""
    return model if rate is None else f"{model} ({rate})"


def load_prices(path: Path | None = None) -> Prices:
    """The table at `path`, if any, over the packaged one.

    Raises:
        InputError: a mistake in the file, with its line.
    """
    if path is None:
        packaged = (resources.files(__package__) / "prices.toml").read_text("utf-8")
        return _Table(Path("prices.toml"), packaged).read()
    try:
        table = _Table(path, path.read_text("utf-8")).read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise InputError(f"the price table cannot be read: {reason}", path=path) from None
    return table.over(load_prices())


class _Table:
    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        try:
            self._data = load_toml(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"not TOML: {error}", path=path) from None
        self._lines = toml_lines(text)

    def read(self) -> Prices:
        self._only(self._data, (), {"date", "model"})
        if type(self._data.get("date")) is not datetime.date:
            raise self._wrong("`date` is when these prices held, such as date = 2026-11-21", ("date",))
        entries = self._data.get("model", [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise self._wrong("write each model as a table [[model]]", ("model",))
        return Prices(tuple(self._entry(entry, ("model", at)) for at, entry in enumerate(entries)))

    def _entry(self, entry: dict[str, Any], place: tuple[str | int, ...]) -> _Entry:
        self._only(entry, place, {"names", "providers", "up_to", *_AMOUNTS})
        names = self._texts(entry, place, "names")
        if not names:
            raise self._wrong(
                '`names` lists the models it is for, such as names = ["gpt-5", "gpt-5-2*"]', place
            )
        up_to = entry.get("up_to")
        if up_to is not None and (type(up_to) is not int or up_to < 1):
            raise self._wrong("`up_to` is a number of input tokens", (*place, "up_to"))
        return _Entry(names, self._texts(entry, place, "providers"), up_to, self._price(entry, place))

    def _price(self, table: dict[str, Any], place: tuple[str | int, ...]) -> Price:
        amounts: dict[str, float] = {}
        for name in _AMOUNTS:
            value = table.get(name)
            if value is None:
                if name in ("input", "output"):
                    raise self._wrong(f"`{name}` is missing: USD for a million tokens", place)
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
