"""Models a trial may call: its own, and those that were allowed in addition."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

_DATE = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{8}|\d{3,4}|latest)")
_LONG_CONTEXT = "[1m]"


class Allowed:
    """Names of models; `*` in one stands for anything. An empty list allows every model.

    A name also stands for dated versions of the same model, and a dated name for the one without its date.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [_plain(name) for name in names]

    @property
    def model(self) -> str | None:
        """The trial's own model."""
        return next((name for name in self._names if "*" not in name), None)

    def is_own(self, model: str | None) -> bool:
        """True for the trial's own model, and if none is named."""
        return self.model is None or model is None or _same(self.model, _plain(model))

    def permits(self, model: str) -> bool:
        """True if the model may be called."""
        called = _plain(model)
        return not self._names or any(_same(name, called) for name in self._names)


def _plain(model: str) -> str:
    return model.removeprefix("models/").removesuffix(_LONG_CONTEXT)


def _same(name: str, called: str) -> bool:
    if "*" in name:
        return fnmatch.fnmatchcase(called, name.replace("[", "[[]"))
    longer, shorter = (name, called) if len(name) > len(called) else (called, name)
    return longer == shorter or (
        longer.startswith(shorter)
        and _DATE.fullmatch(longer, len(shorter)) is not None
        and _DATE.search(shorter) is None
    )
