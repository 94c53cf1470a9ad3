"""Types of the values of settings in files, by kind. Bounds are those of the typed field of a job."""

from __future__ import annotations

import functools
from typing import Annotated, Any, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)

from ..model.gate import GateConfig
from ..model.job import JobConfig, Positive
from ..model.policy import AttemptPolicy
from ..model.scenario import EnvName
from ..sources.complaints import Written, in_words
from ..sources.written import ByteSize, Number, Text
from .gates import CHOICES, gate_value
from .setting import Setting
from .values import CiSystem, JobName, Registry, Sample, Shard

_Bound = Number | Text
"""A number, or a share such as `90%`."""
_SomeTexts = Annotated[list[Text], Field(min_length=1)]


def _one_or_more(value: object) -> object:
    return [value] if isinstance(value, str | dict) else value


def _parted(value: object) -> object:
    """Split a text into several values, as on the command line."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _plain_text(value: object) -> object:
    """Accept a number for a variable or note, which is a text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _for_all(value: object) -> object:
    """Convert a single number into one for each benchmark and agent."""
    return value if isinstance(value, dict) else {"*": value}


_Value = Annotated[str, BeforeValidator(_plain_text, json_schema_input_type=str | int | float | bool)]
_Texts = Annotated[_SomeTexts, BeforeValidator(_one_or_more, json_schema_input_type=Text | _SomeTexts)]
_Parted = Annotated[_SomeTexts, BeforeValidator(_parted, json_schema_input_type=Text | _SomeTexts)]
_Patterns = Annotated[list[Text], BeforeValidator(_one_or_more, json_schema_input_type=Text | list[Text])]


class WrittenAgent(Written):
    """An agent written in parts instead of as `agent:model@url`."""

    agent: Text
    """Name of the agent, or `name@version`."""
    model: Text | None = None
    provider: Text | None = None
    base_url: Text | None = None
    params: dict[str, Any] = {}
    """Parameters of this agent only; they are part of its name in tables."""


class WrittenMatrix(Written):
    """Every agent with every combination of parameters."""

    parameters: dict[Text, Annotated[list[Any], Field(min_length=1)]] = {}
    exclude: list[dict[str, Any]] = []
    """Excluded cells: any of `agent`, `benchmark` (patterns allowed) and parameters."""


_Agent = Annotated[WrittenAgent | Text, Field(union_mode="left_to_right")]
_SomeAgents = Annotated[list[_Agent], Field(min_length=1)]
_TYPES: dict[str, Any] = {
    "flag": Annotated[bool, Strict()],
    "text": Text,
    "policy": Annotated[AttemptPolicy, WithJsonSchema({"type": "string"})],
    "sample": Sample,
    "shard": Shard,
    "size": ByteSize,
    "job name": Annotated[JobName, Field(min_length=1)],
    "ci": CiSystem,
    "registry": Registry,
    "points": _Bound,
    "texts": _Texts,
    "rules": _Texts,
    "absences": _Texts,
    "patterns": _Patterns,
    "names": _Parted,
    "scenarios": _Parted,
    "agents": Annotated[
        _SomeAgents, BeforeValidator(_one_or_more, json_schema_input_type=_Agent | _SomeAgents)
    ],
    "pairs": dict[Text, _Value],
    "table": dict[Text, _Value],
    "map": dict[Text, Text],
    "values": dict[Text, Any],
    "variables": dict[EnvName, _Value],
    "secrets": dict[EnvName, Text],
    "rates": dict[Text, Annotated[Positive, Strict()]],
    "floors": Annotated[
        dict[Text, _Bound], BeforeValidator(_for_all, json_schema_input_type=_Bound | dict[Text, _Bound])
    ],
    "noise": dict[Text, _Bound],
    "matrix": WrittenMatrix,
    "extra": dict[str, Any],
    "benchmarks": dict[Text, dict[str, Any]],
}


@functools.cache
def type_of(setting: Setting) -> Any:
    """Return the type of a setting's value in files."""
    if setting.kind == "gate choice":
        kind: Any = Annotated[Text, WithJsonSchema({"enum": [str(word) for word in CHOICES[setting.name]]})]
    elif setting.kind in _TYPES:
        kind = _TYPES[setting.kind]
    else:
        kind = _of_field(setting.name, strict=setting.kind != "choice")
    if setting.gate:
        return Annotated[kind, AfterValidator(functools.partial(_gate_value, setting.name))]
    return kind


def _of_field(name: str, *, strict: bool) -> Any:
    """Return the type of a typed field, without None; strict: a text or `true` is not a number."""
    field = (JobConfig if name in JobConfig.model_fields else GateConfig).model_fields[name]
    parts = [part for part in get_args(field.annotation) if part is not type(None)]
    kind = parts[0] if type(None) in get_args(field.annotation) else field.annotation
    of_type = Annotated[kind, *field.metadata] if field.metadata else kind
    return Annotated[of_type, Strict()] if strict else of_type


def _gate_value(name: str, value: object) -> object:
    gate_value(name, value)
    return value


@functools.cache
def _adapter(setting: Setting) -> TypeAdapter[Any]:
    # These contain models, which have their own configuration.
    of_models = setting.kind in ("policy", "agents", "matrix")
    return TypeAdapter(type_of(setting), config=None if of_models else ConfigDict(allow_inf_nan=False))


def validated(setting: Setting, value: Any) -> Any:
    """Validate the value of a setting, in its form in files. ValueError: it is wrong, in words for its author."""
    try:
        return _adapter(setting).validate_python(value)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        # Only variables have a pattern.
        if problem["type"] == "string_pattern_mismatch":
            raise ValueError(
                f"{problem['input']!r} is not a name for a variable (letters, digits and '_')"
            ) from None
        raise ValueError(in_words(problem)) from None
