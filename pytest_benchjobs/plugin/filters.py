"""`--bench-filter`: selection of scenarios by their metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..sources import did_you_mean


class Filters:
    """Filters of `--bench-filter`, and their matches."""

    def __init__(self, filters: Sequence[tuple[str, str]]) -> None:
        self._filters = filters
        self._met = dict.fromkeys(filters, False)
        self._keys: set[str] = set()
        self._any = False

    def fit(self, metadata: Mapping[str, object]) -> bool:
        """Return whether the metadata of a scenario match all filters."""
        self._keys.update(metadata)
        fits = [key in metadata and _same(metadata[key], value) for key, value in self._filters]
        for pair, one in zip(self._filters, fits, strict=True):
            self._met[pair] = self._met[pair] or one
        self._any = self._any or all(fits)
        return all(fits)

    def nothing(self) -> str | None:
        """Return a message that no scenario matched, with a hint; None if one did."""
        if self._any or not self._filters:
            return None
        missed = next((pair for pair, met in self._met.items() if not met), None)
        if missed is None:
            return "--bench-filter: no scenario has all of " + ", ".join(map("=".join, self._filters))
        key, value = missed
        hint = ""
        if key not in self._keys:
            hint = did_you_mean(key, self._keys) or f" known keys: {', '.join(sorted(self._keys)) or 'none'}"
        return f"--bench-filter: no scenario has {key}={value}" + (f";{hint}" if hint else "")


def _same(found: object, value: str) -> bool:
    if isinstance(found, list | tuple):
        return any(_same(one, value) for one in found)
    if isinstance(found, bool):
        return value.lower() == str(found).lower()
    return str(found) == value
