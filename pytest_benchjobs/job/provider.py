"""The provider of sandboxes that a job names, with the settings that the job gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from ..model.errors import InputError
from ..settings.table import BY_NAME
from ..sources import did_you_mean
from ..sources.complaints import in_words

if TYPE_CHECKING:
    from ..model.job import JobConfig, Owner
    from ..sandbox.protocol import SandboxProvider

Make = Callable[..., "SandboxProvider"]
"""A class of providers, or a function: of the owner, and of its `Settings` where it has such a model."""


def provider_of(job: JobConfig, kinds: Mapping[str, Make]) -> Callable[[Owner], SandboxProvider]:
    """Return what makes the provider of a job, of these by name.

    Raises:
        InputError: there is none of this name, or it has no such setting.
    """
    flag, name = BY_NAME["sandbox"].flag, job.sandbox
    if name not in kinds:
        hint = did_you_mean(name, kinds).strip() or f"available: {', '.join(sorted(kinds))}"
        raise InputError(f"{flag}: there is no sandbox {name!r}; {hint}")
    make, given = kinds[name], job.sandbox_options
    model: type[BaseModel] | None = getattr(make, "Settings", None)
    settings = _read(name, model, given)
    return make if settings is None else lambda owner: make(owner, settings)


def _read(name: str, model: type[BaseModel] | None, given: Mapping[str, str]) -> BaseModel | None:
    flag = BY_NAME["sandbox_options"].flag
    fields: Mapping[str, Any] = {} if model is None else model.model_fields
    for key in given:
        if key not in fields:
            has = f"its settings: {', '.join(sorted(fields))}" if fields else "it has none"
            raise InputError(
                f"{flag}: sandbox {name!r} has no setting {key!r}; {did_you_mean(key, fields).strip() or has}"
            )
    try:
        return None if model is None else model.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{flag}: {place}: {in_words(first)}") from None
