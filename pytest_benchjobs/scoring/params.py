"""Parameters of scorers, checked."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.errors import ScorerCrashed
from ..model.scenario import ScorerSpec


def text_of(spec: ScorerSpec, key: str) -> str:
    """Return a parameter that must be a text.

    Raises:
        ScorerCrashed: it is not a text.
    """
    value = spec.params.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ScorerCrashed(f"scorer {spec.name!r}: params.{key}: a text is expected")
    return value


def names_of(spec: ScorerSpec, key: str) -> Sequence[str]:
    """Return a parameter that must be a list of texts.

    Raises:
        ScorerCrashed: it is not such a list.
    """
    value = spec.params.get(key)
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise ScorerCrashed(f"scorer {spec.name!r}: params.{key}: a list of texts is expected")
    return value
