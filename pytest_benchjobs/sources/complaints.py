"""Problems of one document, collected, and worded for its author."""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
import itertools
import json
import textwrap
import typing
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from ..model.base import Numerous
from ..model.errors import InputError, InputErrors
from .documents import Document
from .plain import Place, dotted
from .protocol import SourceWarning

MAX_SHOWN = 50
"""The most mistakes of one file that are listed; the rest are counted."""
MISSING = "is required but missing"


class Written(Numerous):
    """Base of models for files that people write: wrong types are mistakes, unknown keys only oddities."""

    model_config = ConfigDict(extra="ignore", json_schema_extra={"additionalProperties": False})

    # Not by `use_attribute_docstrings`, which parses the source of every model on import: each start would take longer
    # for what only a schema needs.
    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """JSON Schema in which the docstring of an attribute describes its property."""
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, field in cls.model_fields.items():
            owner = next(base for base in cls.__mro__ if name in inspect.get_annotations(base))
            text = _attribute_docstrings(owner).get(name)
            described = properties.get(name, properties.get(field.alias))
            if text is not None and described is not None:
                described.setdefault("description", text)
        return schema


@functools.cache
def _attribute_docstrings(cls: type) -> dict[str, str]:
    """The text under each attribute of a class, by name. Attributes generated from the table of settings have none."""
    try:
        source = inspect.getsource(cls)
    except OSError:
        return {}
    (written,) = ast.parse(textwrap.dedent(source)).body
    assert isinstance(written, ast.ClassDef)  # noqa: S101
    found = {}
    for statement, below in itertools.pairwise(written.body):
        match statement, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return found


_M = TypeVar("_M", bound=BaseModel)


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """` did you mean 'workdir'?`, or an empty string if no choice is similar to `name`."""
    near = _nearest(name, choices)
    return "" if near is None else f" did you mean {near!r}?"


_USUAL = {
    **dict.fromkeys(
        ("prompt", "instruction", "instructions", "task", "problem", "statement", "question"),
        "problem_statement",
    ),
    **dict.fromkeys(("timeout", "timeout_sec", "timeout_seconds", "max_time"), "agent_timeout"),
    **dict.fromkeys(("tests", "test", "checks", "graders", "scorer"), "scorers"),
    **dict.fromkeys(("solution", "oracle"), "reference"),
}
"""Words of other tools, or of anyone -> our key. They come before similarity, which would take another key."""


def _usual(name: str, choices: Iterable[str]) -> str | None:
    meant = _USUAL.get(name)
    return meant if meant is not None and meant in choices else None


def _nearest(name: str, choices: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name[:200], sorted(choices), n=1, cutoff=0.6)), None)


class Complaints:
    """The mistakes and oddities of one document, each once, with file and line."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._errors: dict[tuple[int | None, str], InputError] = {
            (error.line, error.message): error for error in document.errors
        }
        # Unreadable lines have a placeholder for a value. Its problems are not reported again.
        self._unreadable = {error.line for error in document.errors} - {None}
        self._unknown_at: set[Place] = set()
        """Places of unknown keys that were noted."""
        self._misspelt: set[Place] = set()
        """Places that are missing under their names, because a misspelt key was reported for them."""
        self.warnings: dict[SourceWarning, None] = {}
        """Each once, in their order."""

    def wrong(self, place: Place, message: str, *, at_key: bool = False) -> None:
        """Note a mistake in a value, or in its key. A misspelt key is not reported as missing as well."""
        if place in self._misspelt:
            return
        line = self._document.line(place)
        if line in self._unreadable:
            return
        text = f"{dotted(place)}: {message}" if place else message
        if (line, text) in self._errors:
            return
        error = InputError(text, path=self._document.path_at(place), line=line)
        if line is not None and len(self._errors) < MAX_SHOWN:
            span = self._document.span(place, line, at_key=at_key)
            if span is not None:
                error.column, error.width = span.column, span.width
        self._errors[(line, text)] = error

    def odd(self, place: Place, message: str) -> None:
        """Note an oddity, which is not a mistake."""
        line = self._document.line(place)
        text = f"{dotted(place)}: {message}" if place else message
        self.warnings[SourceWarning(text, self._document.path_at(place), line)] = None

    @property
    def any(self) -> bool:
        """Return True if there is a mistake."""
        return bool(self._errors)

    def raise_errors(self) -> None:
        """Raise the mistakes that were noted, if any. Raises InputErrors: in the order of lines."""
        if not self._errors:
            return
        errors = sorted(self._errors.values(), key=lambda error: error.line or 0)
        if len(errors) > MAX_SHOWN:
            rest = len(errors) - MAX_SHOWN
            errors = [*errors[:MAX_SHOWN], InputError(f"... and {rest} more", path=self._document.path)]
        raise InputErrors(errors)

    def _unknown(
        self,
        key: str,
        known: Iterable[str],
        data: Container[str],
        place: Place,
        otherwise: str,
        meant: str | None,
    ) -> None:
        self._unknown_at.add((*place, key))
        near = meant or _usual(key, known) or _nearest(key, known)
        hint = otherwise if near is None else f" did you mean {near!r}?"
        self.wrong((*place, key), f"unknown key;{hint}".rstrip(";"), at_key=True)
        if near is not None and near not in data:
            self._misspelt.add((*place, near))

    def unknown_keys(
        self,
        model: type[BaseModel],
        data: object,
        place: Place = (),
        *,
        others: Iterable[str] = (),
        ignored: bool = False,
        otherwise: Callable[[type[BaseModel]], str] = lambda _: "",
        meant: Mapping[str, str] | None = None,
    ) -> None:
        """Note unknown keys of `model`, here and in nested tables: as mistakes, or as ignored.

        `others` are further keys that are valid here, `meant` has known ones that other words stand for, and
        `otherwise` makes the hint, of the model of the table, if none is similar.
        """
        if not isinstance(data, dict):
            return
        known, tables = _shape(model)
        known |= {*others}
        for key in [key for key in data if key not in known]:
            if ignored:
                self.odd((*place, key), f"unknown key, ignored.{did_you_mean(key, known)}")
            else:
                self._unknown(key, known, data, place, otherwise(model), (meant or {}).get(key))
        for key in [key for key in data if key in tables]:
            for inner, table, at in _tables(tables[key], data[key], (*place, key)):
                self.unknown_keys(inner, table, at, ignored=ignored, otherwise=otherwise)

    def whole(self, model: type[_M]) -> _M:
        """The document as a `model`. Raises InputErrors: every mistake in it, unknown keys among them."""
        self.unknown_keys(model, self._document.data)
        found = self.check(model, self._document.data)
        self.raise_errors()
        assert found is not None  # noqa: S101  its mistakes were raised
        return found

    def check(
        self, model: type[_M], data: Mapping[str, Any], where: Callable[[Place], Place] = lambda place: place
    ) -> _M | None:
        """`data` as a `model`, or None with its mistakes noted. `where` maps a place in `data` to one in the file.

        A validator of the model adds faults within it, with their places, to the context.
        """
        found: _M | None = None
        faults: list[tuple[Place, str]] = []
        try:
            found = model.model_validate(data, context=faults)
        except ValidationError as error:
            for problem in error.errors(include_url=False):
                place = tuple(part for part in problem["loc"] if part != "[key]")
                if problem["type"] != "extra_forbidden" or where(place) not in self._unknown_at:
                    self.wrong(where(place), in_words(problem))
        for place, message in faults:
            self.wrong(where(place), message)
        return None if faults else found


@functools.cache
def _shape(model: type[BaseModel]) -> tuple[frozenset[str], dict[str, Any]]:
    """The keys of a model, and the types of keys that hold tables of other models, at any depth."""
    fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    return frozenset(fields), {name: kind for name, kind in fields.items() if _has_model(kind)}


def _has_model(kind: Any) -> bool:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return True
    return any(map(_has_model, typing.get_args(kind)))


@functools.cache
def _made_of(kind: Any) -> tuple[Any, Any]:
    """What a type is without its parameters, and the first type that it is made of and that holds tables."""
    return typing.get_origin(kind), next(filter(_has_model, typing.get_args(kind)))


def _tables(kind: Any, data: object, place: Place) -> Iterator[tuple[type[BaseModel], object, Place]]:
    """Yield the tables that a type consists of: itself, its items, or its values by name."""
    if isinstance(kind, type):
        yield kind, data, place
        return
    parts: Iterable[tuple[Any, object]] = ()
    origin, inner = _made_of(kind)
    if origin is dict:
        parts = data.items() if isinstance(data, dict) else ()
    elif origin in (list, tuple) and isinstance(data, list):
        parts = enumerate(data)
    else:  # one of several types, or short for a list of one
        yield from _tables(inner, data, place)
    for part, item in parts:
        yield from _tables(inner, item, (*place, part))


_BOUNDS = {
    "greater_than": ("gt", "greater than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def in_words(problem: Any) -> str:
    """Describe a problem found by pydantic, for the author of the value."""
    kind, found, context = problem["type"], problem["input"], problem.get("ctx", {})
    if kind == "missing":
        return MISSING
    if kind == "value_error":
        return str(context["error"])
    if kind in ("literal_error", "enum"):
        choices = [word.strip("'") for word in context["expected"].replace(" or ", ", ").split(", ")]
        hint = did_you_mean(found, choices) if isinstance(found, str) else ""
        return f"{_show(found)} is not one of {', '.join(choices)}.{hint}"
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return f"must be {words} {context[key]:g}, not {_show(found)}"
    if kind == "string_pattern_mismatch":
        if context["pattern"].startswith("^[A-Za-z_]"):
            return f"{_show(found)} is not the name of an environment variable: letters, digits and _ only"
        if context["pattern"].startswith("^[a-z0-9]"):
            return f"{_show(found)} is not a capability: lower-case letters, digits and . _ - only, such as vision"
        if not context["pattern"].startswith(("^[A-Za-z0-9]", "^[^")):
            return f"{_show(found)} does not match {context['pattern']}"
        return f"{_show(found)} is not a name: letters, digits and . _ + = - only, starting with a letter or digit"
    if kind == "extra_forbidden":
        return "unknown key"
    if kind in ("string_too_short", "too_short"):
        return "is empty"
    if kind == "string_too_long":
        return f"is longer than {context['max_length']} characters"
    expected = _EXPECTED.get(kind)
    if expected is None:
        return str(problem["msg"])
    return f"{expected} is expected, not {_show(found)}{_how_to(kind, found)}"


def first_mistake(error: ValidationError, *, is_secret: bool = False) -> str:
    """Describe the first problem of a validation with its place, in one sentence.

    Args:
        error: Pydantic's error.
        is_secret: The message must not contain the value.
    """
    problem = error.errors(include_url=False)[0]
    place = tuple(part for part in problem["loc"] if part != "[key]")
    words = str(problem["msg"]) if is_secret else in_words(problem)
    return f"{dotted(place)}: {words}" if place else words


_EXPECTED = {
    "string_type": "text",
    "float_type": "a number",
    "float_parsing": "a number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a table of keys",
    "model_type": "a table of keys",
    "model_attributes_type": "a table of keys",
    "finite_number": "a finite number",
}


def _how_to(kind: str, found: object) -> str:
    if kind == "string_type" and isinstance(found, bool):
        return "; put it in quotes (YAML reads yes, no, on and off as true and false)"
    if kind == "string_type" and isinstance(found, int | float):
        return "; put it in quotes"
    if kind == "list_type" and isinstance(found, str):
        return f"; write [{_show(found)[1:-1]}]"
    if kind == "tuple_type" and isinstance(found, str):
        return f"; write [{json.dumps(found, ensure_ascii=False)}]"
    if isinstance(found, str) and kind.startswith(("float", "int", "bool")):
        return "; remove the quotes" if found.replace(".", "", 1).isdigit() else ""
    return ""


def _show(value: object) -> str:
    """A value as its author wrote it, shortened."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:57] + "...")
    return str(value)
