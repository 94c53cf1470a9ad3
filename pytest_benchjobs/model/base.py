"""Base of the frozen models, and the small value types manifests are written in."""

from __future__ import annotations

import math
import re
import threading
import unicodedata
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticUndefined

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

_SIZE = re.compile(r"(?i)^\s*(\d+(?:\.\d+)?)\s*([kmgt])?(?:i?b)?\s*$")
_SIZE_UNIT = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


_BUILDING = threading.RLock()


class Model(BaseModel):
    """Frozen, and strict about its keys: parse at the edge, then trust.

    Its validator is built when it is first needed, as any one run needs few of the models that it imports.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    @classmethod
    def model_rebuild(cls, *, _parent_namespace_depth: int = 2, **options: Any) -> bool | None:
        """Build the validator as pydantic does, in one thread at a time: its own versions before 2.14 have no lock."""
        with _BUILDING:
            depth = _parent_namespace_depth + 1 if _parent_namespace_depth > 0 else 0
            return super().model_rebuild(_parent_namespace_depth=depth, **options)


# Not the types themselves: pydantic looks up the signature of what makes a default, which is long work for a type.
_ANEW: Mapping[type, Callable[[], object]] = {dict: lambda: {}, list: lambda: []}  # noqa: PIE807


class Numerous(Model):
    """Model with thousands of instances, each of which is given empty defaults of its own.

    Pydantic would copy them in depth, ten steps for each key. In return, `exclude_defaults` does not know them.
    """

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        for field in cls.model_fields.values():
            if field.default in ({}, []):
                field.default, field.default_factory = PydanticUndefined, _ANEW[type(field.default)]

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """JSON Schema that has these defaults, too."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, field in cls.model_fields.items():
            described = properties.get(name, properties.get(field.alias))
            if described is not None and field.default_factory in _ANEW.values():
                described.setdefault("default", field.get_default(call_default_factory=True))
        return schema


_Model = TypeVar("_Model", bound=Model)


def trusted(model: type[_Model], values: dict[str, Any], names: set[str] | None = None) -> _Model:
    """An instance of values that are known to be right, all fields of it: a tenth of the steps of checking them.

    As `model_construct` does it, which looks through all that a model may have and takes longer than checking does.
    `names` are those of the fields where many share one set of them, which is larger than all the rest.
    """
    made = model.__new__(model)
    object.__setattr__(made, "__dict__", values)
    object.__setattr__(made, "__pydantic_fields_set__", set(values) if names is None else names)
    object.__setattr__(made, "__pydantic_extra__", None)
    object.__setattr__(made, "__pydantic_private__", None)
    return made


def parse_size(value: object) -> int:
    """Bytes from ``512M``, ``2G``, ``1.5g``, ``64k`` or a plain number of bytes (K = 1024).

    Raises:
        ValueError: not a size, or not positive.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("a size such as 512M or 2G is expected")
    if isinstance(value, str):
        match = _SIZE.match(value)
        if match is None:
            raise ValueError(f"{value!r} is not a size; write for example 512M or 2G")
        value = float(match[1]) * _SIZE_UNIT[(match[2] or "").lower()]
    if not math.isfinite(value) or value <= 0:
        raise ValueError("a size must be positive")
    return int(value)


Size = Annotated[int, BeforeValidator(parse_size)]
"""Bytes; written as 512M, 2G or a number."""

Seconds = Annotated[float, Field(gt=0, le=31_536_000, strict=False)]
"""A duration in seconds, positive, at most a year."""

Score = Annotated[float, Field(ge=0, le=1)]
"""A number within [0, 1]."""

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+=-]*$")]
"""An identifier that is safe in node ids, labels and file names."""


def is_name_character(char: str) -> bool:
    """Tell whether a scenario's name may have this character: letter or digit of any script, or one of `._+=-`."""
    return char in "._+=-" or (char.isalnum() if char.isascii() else unicodedata.category(char)[0] in "LMN")


def _any_script(text: str) -> str:
    """The name in its one form: a letter with a mark is one character, whatever the file system made of it."""
    if text.isascii():
        return text
    if not all(map(is_name_character, text)) or unicodedata.category(text[0])[0] == "M":
        raise ValueError("only letters, digits, '.', '_', '+', '=' and '-' are allowed")
    return unicodedata.normalize("NFC", text)


ScenarioName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        # What of ASCII is not allowed, since `\w` means other characters in other readers of a schema.
        pattern=r"^[^\x00-/:-@\[-`{-\xa0][^\x00-*,/:-<>-@\[-^`{-\xa0]*$",
    ),
    AfterValidator(_any_script),
]
"""Likewise of a scenario or benchmark, with letters and digits of any script."""

Capability = Annotated[str, Field(max_length=60, pattern=r"^[a-z0-9][a-z0-9._-]*$")]
"""Something an agent can do, in a word: `vision`, `mcp`."""

SCHEMA_VERSION = 2


def _readable(version: int) -> int:
    if version > SCHEMA_VERSION:
        raise ValueError(f"{version} is that of a newer pytest-benchjobs, which is needed to read it")
    return version


SchemaVersion = Annotated[int, Field(ge=1), AfterValidator(_readable)]
"""Version of the files of a job: this one or an earlier one."""
