"""Parameters of scorers, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from ..model.errors import InputError, ScorerCrashed
from ..model.scenario import ScorerSpec

_Params = TypeVar("_Params", bound=BaseModel)


def parsed(model: type[_Params], spec: ScorerSpec) -> _Params:
    """Return all parameters of a scorer, as `model` describes them. InputError: they are wrong."""
    try:
        return model.model_validate(spec.params)
    except ValidationError as error:
        from ..sources.complaints import first_mistake

        raise InputError(f"scorer {spec.name!r}: params: {first_mistake(error)}") from None


def text_of(spec: ScorerSpec, key: str) -> str:
    """Return a parameter that must be a text. ScorerCrashed: it is not a text."""
    value = spec.params.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ScorerCrashed(f"scorer {spec.name!r}: params.{key}: a text is expected")
    return value


def names_of(spec: ScorerSpec, key: str) -> Sequence[str]:
    """Return a parameter that must be a list of texts. ScorerCrashed: it is not such a list."""
    value = spec.params.get(key)
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise ScorerCrashed(f"scorer {spec.name!r}: params.{key}: a list of texts is expected")
    return value
